"""Expectations of PostgreSQL's own scripts: results are read and compared with them, and the page tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from subscription.expectations import Difference, Expectations, read_expectations, scripts_section
from subscription.tap import Result, parse

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
COUNTED = "2 tests passed, 1 are expected"
WHOLE = """\
# initializing database system by running initdb
ok 1 - rows are there
ok 2
not ok 3 - later # TODO not yet
1..3
"""


def test_results_of_a_script() -> None:
    assert parse(WHOLE, 0) == Result(("rows are there", "", "later"), (), True)
    assert parse("ok 1 - a\nnot ok 2 - b\n1..2\n", 1) == Result(("a",), ("b",), True)
    assert parse("ok 1 - a\n", 29) == Result(("a",), (), False)
    assert parse("1..0 # SKIP no ICU\n", 0).skipped == "no ICU"


@pytest.mark.parametrize(
    ("text", "status", "faults"),
    [
        ("ok 1 - a\nnot ok 2 - b\n1..2\n", 1, []),
        ("not ok 1 - a\nnot ok 2 - b\n1..2\n", 2, ["failed: a", "0 tests passed, 1 are expected"]),
        (
            "ok 1 - a\nok 2 - b\n1..2\n",
            0,
            ["passed, though it is expected to fail: b", COUNTED],
        ),
        ("ok 1 - a\nnot ok 2 - b\n", 29, ["ended behind: a"]),
    ],
)
def test_what_is_unlike_the_expected(text: str, status: int, faults: list[str]) -> None:
    expectations = Expectations({"s": {16: 1}}, (Difference("s", (16,), ("b",), None, "of the log"),))
    assert expectations.unlike("s", 16, parse(text, status)) == faults


def test_the_page_has_what_is_expected() -> None:
    """Run ``make conformance`` if not."""
    assert scripts_section(read_expectations()) in PAGE.read_text()


def test_each_difference_is_of_a_script() -> None:
    expectations = read_expectations()
    for entry in expectations.differences:
        assert set(entry.majors) <= expectations.passed[entry.script].keys(), entry.script
        assert entry.failed or entry.ends_behind is not None
        assert entry.why
