"""The tests that the everyday run leaves to the long one: ``left_to_test_all.toml`` names them with their reasons.

They get the mark ``slow``, as those that say so themselves. A line that no test answers to is an error of a run of all
rungs: what was renamed is not left out, and what was removed is not named.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

LIST = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class LeftTests:
    """Tests that are left to the long run, for one reason.

    Attributes:
        reason: why they are.
        patterns: their paths below ``tests`` with their names; ``*`` stands for anything.
    """

    reason: str
    patterns: tuple[str, ...]


def read_list(path: Path = LIST) -> list[LeftTests]:
    """Read which tests are left to the long run.

    Raises:
        KeyError: an entry lacks its reason or its tests.
    """
    entries = tomllib.loads(path.read_text())["left"]
    return [LeftTests(entry["reason"], tuple(entry["tests"])) for entry in entries]


def mark_left_tests(items: Iterable[pytest.Item], left: Sequence[LeftTests]) -> list[str]:
    """Mark as slow the tests that are left to the long run.

    Returns:
        the patterns that no test answers to.
    """
    by_file: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for pattern in (pattern for entry in left for pattern in entry.patterns):
        file, _, name = pattern.partition("::")
        by_file.setdefault(f"tests/{file}", []).append((pattern, _expression(name)))
    unused = {pattern for entry in left for pattern in entry.patterns}
    for item in items:
        file, _, name = item.nodeid.partition("::")
        matching = [pattern for pattern, expression in by_file.get(file, ()) if expression.fullmatch(name)]
        if matching:
            item.add_marker(pytest.mark.slow)
            unused.difference_update(matching)
    return sorted(unused)


def _expression(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
