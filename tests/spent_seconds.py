"""Seconds that a run spends on each file of tests and each rung, and the most that files may spend.

With ``--all-rungs``, ``build/test-seconds.json`` has them at the end, and a file that has spent more than its budget
fails the run. Budgets are three times what was measured, and no less than :data:`LEAST`: machines differ, and what runs
beside a test may take as long again. What two files share, such as a session of Spark, counts where it is made. After
files were added or made longer on purpose: ``make test``, then ``PYTHONPATH=tests python -m spent_seconds``.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

LEAST = 400
"""Seconds: no file's budget is less, as any file may be the one that compiles kernels again, or starts Spark."""
FACTOR = 3
BUDGETS = Path(__file__).with_name("budgets.json")
SPENT = Path(__file__).parents[1] / "build" / "test-seconds.json"


def rung_of(file: str) -> str:
    """Return the folder right below ``tests`` that holds a file, as pytest names it; nothing for a file in none."""
    parts = PurePosixPath(file).parts
    return parts[1] if len(parts) > 2 else ""


class SpentSeconds:
    """A plugin of pytest that adds up what tests take; with xdist, that of the process that hands them out.

    Attributes:
        files: seconds by file, named from the root of the repository on.
    """

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.files[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    @property
    def rungs(self) -> Counter[str]:
        """Seconds by rung."""
        rungs: Counter[str] = Counter()
        for file, seconds in self.files.items():
            rungs[rung_of(file)] += seconds
        return rungs

    def write(self, path: Path) -> None:
        """Write the seconds of rungs and files."""
        kinds = {"rungs": self.rungs, "files": self.files}
        rounded = {kind: {name: round(spent[name], 1) for name in sorted(spent)} for kind, spent in kinds.items()}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(rounded, indent=1) + "\n")

    def excesses(self, budgets: dict[str, int]) -> list[str]:
        """Say which files have spent too much."""
        return [
            f"{file} took {seconds:.0f} s, its budget is {budgets.get(file, LEAST)} s"
            for file, seconds in sorted(self.files.items())
            if seconds > budgets.get(file, LEAST)
        ]


def read_budgets(path: Path = BUDGETS) -> dict[str, int]:
    """Read the seconds that files may spend; those that are not named may spend :data:`LEAST`."""
    budgets: dict[str, int] = json.loads(path.read_text())
    return budgets


def budgets_of(spent: dict[str, Any]) -> dict[str, int]:
    """Make budgets of what :meth:`SpentSeconds.write` has written."""
    budgets = {file: FACTOR * round(seconds) for file, seconds in spent["files"].items()}
    return {file: budget for file, budget in budgets.items() if budget > LEAST}


if __name__ == "__main__":
    BUDGETS.write_text(json.dumps(budgets_of(json.loads(SPENT.read_text())), indent=1) + "\n")
