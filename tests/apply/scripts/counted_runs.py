"""Counts of the tests of each script, by form and result, taken from what ``pytest -v tests/apply/scripts`` prints.

``PYTHONPATH=tests python -m apply.scripts.counted_runs OUTPUT...`` writes ``counted_runs.json``, which the table of
scripts is made from. Of a test that is in several outputs the last result counts.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from importlib import import_module
from math import prod
from pathlib import Path

COUNTS = Path(__file__).with_suffix(".json")
FORMS = {"pg16": "16", "pg18": "18", "pg19": "19", "served": "service on 18"}
"""Forms in which the scripts run, with their heads in the table."""

_RESULT = re.compile(
    r"^\S*/scripts/test_\w+\.py::test_(?P<script>\d{3})_(?P<rest>\w+\[(?P<form>pg\d+|served).*\]) "
    r"(?P<result>PASSED|FAILED|ERROR|SKIPPED)\b"
)


@dataclass(frozen=True)
class Count:
    """The tests of a script in a form.

    Attributes:
        passed, failed: how many have; skipped: the form has nothing for them; total: all, with those that did not run.
    """

    passed: int
    failed: int
    skipped: int
    total: int

    def __str__(self) -> str:
        if self.passed == self.total:
            return f"all {self.total}"
        left = self.total - self.passed - self.failed - self.skipped
        parts = ((self.passed, "pass"), (self.failed, "fail"), (self.skipped, "left out"), (left, "not run"))
        return ", ".join(f"{number} {word}" for number, word in parts if number)


def count_tests() -> Counter[str]:
    """Count the tests that there are in each form, by the number of the script."""
    counts: Counter[str] = Counter()
    for file in Path(__file__).parent.glob("test_*.py"):
        for name, test in vars(import_module(f"apply.scripts.{file.stem}")).items():
            if match := re.match(r"test_(\d{3})_", name):
                marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
                counts[match[1]] += prod(len(mark.args[1]) for mark in marks)
    return counts


def count_results(lines: Iterable[str], totals: Counter[str]) -> dict[str, dict[str, Count]]:
    """Count the results that are printed, by the number of the script and by form."""
    results = {match["script"] + match["rest"]: match for line in lines if (match := _RESULT.match(line))}
    counted = Counter((match["script"], match["form"], match["result"]) for match in results.values())

    def count(script: str, form: str) -> Count:
        passed, failed, errors, skipped = (
            counted[script, form, result] for result in ("PASSED", "FAILED", "ERROR", "SKIPPED")
        )
        return Count(passed, failed + errors, skipped, totals[script])

    return {script: {form: count(script, form) for form in FORMS} for script in sorted(totals)}


def read_counts(path: Path = COUNTS) -> dict[str, dict[str, Count]]:
    """Read what was counted, by the number of the script and by form."""
    counted = json.loads(path.read_text())
    return {script: {form: Count(*numbers) for form, numbers in forms.items()} for script, forms in counted.items()}


def write_counts(counts: dict[str, dict[str, Count]], path: Path = COUNTS) -> None:
    """Write what was counted, a script on each line."""
    lines = (
        f'  "{script}": {json.dumps({form: astuple(count) for form, count in forms.items()})}'
        for script, forms in counts.items()
    )
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    printed = (line for name in sys.argv[1:] for line in Path(name).read_text().splitlines())
    write_counts(count_results(printed, count_tests()))
