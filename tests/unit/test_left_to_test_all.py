"""The list of tests that are left to the long run: its lines mean what they say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from left_to_test_all import LeftTests, mark_left_tests, read_list


@dataclass
class Item:
    """A test, as far as the marking reads it."""

    nodeid: str
    marks: list[Any] = field(default_factory=list)

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark)


def left(*patterns: str, items: list[Any]) -> tuple[list[str], list[str]]:
    """Return which tests are left, and which patterns none answers to."""
    unused = mark_left_tests(items, [LeftTests("of a test", patterns)])
    return [item.nodeid for item in items if item.marks], unused


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a/test_b.py::test_c[1]", ["tests/a/test_b.py::test_c[1]"]),
        ("a/test_b.py::test_c[*", ["tests/a/test_b.py::test_c[1]", "tests/a/test_b.py::test_c[12]"]),
        (
            "a/test_b.py::*",
            ["tests/a/test_b.py::test_c[1]", "tests/a/test_b.py::test_c[12]", "tests/a/test_b.py::test_d"],
        ),
        ("a/test_b.py::*[12]", ["tests/a/test_b.py::test_c[12]"]),
    ],
)
def test_a_pattern_names_tests(pattern: str, names: list[str]) -> None:
    items = [Item(f"tests/a/test_{file}.py::test_{name}") for file in "bx" for name in ("c[1]", "c[12]", "d")]
    assert left(pattern, items=items) == (names, [])


def test_a_pattern_that_no_test_answers_to_is_told() -> None:
    assert left("a/test_b.py::test_c", "a/test_b.py::test_d*", items=[Item("tests/a/test_b.py::test_d")]) == (
        ["tests/a/test_b.py::test_d"],
        ["a/test_b.py::test_c"],
    )


def test_each_entry_of_the_list_has_a_reason_and_no_test_twice() -> None:
    entries = read_list()
    assert all(entry.reason and entry.patterns for entry in entries)
    patterns = [pattern for entry in entries for pattern in entry.patterns]
    assert len(patterns) == len(set(patterns))
