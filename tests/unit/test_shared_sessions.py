"""What a run gives to one process as a whole: a file, or all files that use a session of Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared_sessions import SESSION_OF_SPARK, short_files_last, unit_of

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
    assert [name for name in SESSION_OF_SPARK if not (ROOT / name).exists()] == []


def test_short_files_come_last() -> None:
    names = ["tests/unit/test_a.py::test_a", "tests/values/test_a.py::test_a", "tests/unit/test_b.py::test_a"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    assert [item.nodeid for item in short_files_last(items)] == [names[1], names[0], names[2]]
