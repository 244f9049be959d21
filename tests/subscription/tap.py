"""Results of a script, from what it prints: TAP, the Test Anything Protocol, as Test::More writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEST = re.compile(r"(not )?ok \d+(?: - (.*?))?(?:\s+# (TODO|skip)\b.*)?$", re.IGNORECASE)
_PLAN = re.compile(r"1\.\.(\d+)(?:\s*# SKIP\s*(.*))?$", re.IGNORECASE)


@dataclass(frozen=True)
class Result:
    """Tests of a script and how they ended.

    Attributes:
        passed: names of tests that passed, in order; failed: of those that did not.
        is_whole: the script came to its end.
        skipped: why all of it was left out; None if it was run.
    """

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    is_whole: bool
    skipped: str | None = None

    @property
    def last(self) -> str:
        """The last test that passed, behind which a script that is not whole has ended."""
        return self.passed[-1] if self.passed else ""


def parse(text: str, status: int) -> Result:
    """Parse what a script printed.

    Args:
        text: its standard output; status: its exit status.
    """
    passed: list[str] = []
    failed: list[str] = []
    planned, skipped = None, None
    for line in text.splitlines():
        if match := _PLAN.match(line):
            planned, skipped = int(match[1]), match[2]
        elif match := _TEST.match(line):
            is_failure = match[1] is not None and (match[3] or "").upper() != "TODO"
            (failed if is_failure else passed).append(match[2] or "")
    is_whole = planned == len(passed) + len(failed) and status == len(failed)
    return Result(tuple(passed), tuple(failed), is_whole, skipped)
