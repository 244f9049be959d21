"""Expectations of PostgreSQL's own scripts with the service as their publisher, and their table.

``expectations.toml`` has how many tests of each script pass on each major, and where a script differs: which tests
fail, behind which test it ends, and why. All other tests pass, and all other scripts come to their end.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from subscription.scripts import MAJORS
from subscription.tap import Result

FILE = Path(__file__).with_name("expectations.toml")

_INTRODUCTION = (
    "## PostgreSQL's scripts of subscriptions",
    "",
    "`make subscription-tests` runs PostgreSQL's own `src/test/subscription/t`, and `030_pg_recvlogical.pl`, with",
    "[the service](guides/serving.md) as the publisher: each publisher of a script has a `headwater serve` beside it.",
    "Connection strings of subscriptions, pg_recvlogical, and SQL about slots and walsenders go to that. A cell says",
    "how many of the script's tests pass. All pass with a stock publisher (`--stock`). Those of 16 are the scripts of",
    "15, but `033_run_as_table_owner` is of 18: Debian has no sources of 16. `-`: there is none.",
)


@dataclass(frozen=True)
class Difference:
    """A script that does not come out as it does with a server.

    Attributes:
        script: its name; majors: on which.
        failed: names of the tests that fail.
        ends_behind: the last test that passes, where the script does not come to its end.
        why: the reason.
    """

    script: str
    majors: tuple[int, ...]
    failed: tuple[str, ...]
    ends_behind: str | None
    why: str


@dataclass(frozen=True)
class Expectations:
    """All that is expected.

    Attributes:
        passed: how many tests pass, by script and major.
        differences: where scripts differ.
    """

    passed: dict[str, dict[int, int]]
    differences: tuple[Difference, ...]

    def of(self, script: str, major: int) -> Difference | None:
        """Find how a script differs on a major; None where it does not."""
        fitting = (entry for entry in self.differences if entry.script == script and major in entry.majors)
        return next(fitting, None)

    def unlike(self, script: str, major: int, result: Result) -> list[str]:
        """Say what of a result is not as it is expected."""
        expected = self.of(script, major)
        failed = expected.failed if expected else ()
        ends_behind = expected.ends_behind if expected else None
        faults = [f"failed: {name}" for name in result.failed if name not in failed]
        faults += [f"passed, though it is expected to fail: {name}" for name in failed if name not in result.failed]
        if result.is_whole is not (ends_behind is None):
            faults.append("came to its end" if result.is_whole else f"ended behind: {result.last}")
        elif ends_behind is not None and result.last != ends_behind:
            faults.append(f"ended behind: {result.last}; expected: {ends_behind}")
        count = self.passed.get(script, {}).get(major)
        if len(result.passed) != count:
            faults.append(f"{len(result.passed)} tests passed, {count} are expected")
        return faults


def read_expectations(file: Path = FILE) -> Expectations:
    """Read the file of what is expected."""
    document = tomllib.loads(file.read_text())
    passed = {
        script: {int(major): count for major, count in counts.items()} for script, counts in document["passed"].items()
    }
    differences = (
        Difference(
            entry["script"], tuple(entry["majors"]), tuple(entry.get("failed", ())), entry.get("ends_behind"),
            entry["why"],
        )
        for entry in document.get("differs", ())
    )  # fmt: skip
    return Expectations(passed, tuple(differences))


def scripts_section(expectations: Expectations) -> str:
    """Write the section of the page of conformance."""
    head = _row(["script", *map(str, MAJORS), "what differs, and why"])
    lines = [*_INTRODUCTION, "", head, "|---" * (len(MAJORS) + 2) + "|"]
    for script in sorted(expectations.passed):
        cells = [_cell(expectations, script, major) for major in MAJORS]
        notes = dict.fromkeys(entry.why for entry in expectations.differences if entry.script == script)
        lines.append(_row([f"`{script}`", *cells, "; ".join(notes)]))
    return "\n".join(lines) + "\n"


def _cell(expectations: Expectations, script: str, major: int) -> str:
    count = expectations.passed[script].get(major)
    if count is None:
        return "-"
    difference = expectations.of(script, major)
    if difference is None:
        return f"all {count}"
    end = "" if difference.ends_behind is None else ", then ends"
    failed = f", {len(difference.failed)} fail" if difference.failed else ""
    return f"{count} pass{failed}{end}"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
