"""The parts of a run that go to one process: a file, or all files that use a session of Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared_sessions import FIRST, in_order, unit_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/spark/test_a.py::test_b[c::d]", "spark"),
        ("tests/oracle/test_random.py::test_b", "spark"),
        ("tests/oracle/test_tables.py::test_b[c::d]", "tests/oracle/test_tables.py"),
    ],
)
def test_files_that_use_a_session_of_spark_go_together(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_what_is_named_is_there() -> None:
    assert [name for name in FIRST if not (ROOT / name).exists()] == []


def test_long_files_come_first_and_short_ones_last() -> None:
    names = [f"tests/{file}.py::test_a" for file in ("unit/test_a", "values/test_a", "unit/test_b", "spark/test_a")]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    assert [item.nodeid for item in in_order(items)] == [names[3], names[1], names[0], names[2]]
