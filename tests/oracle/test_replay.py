"""Faults that the following of rows sees: changes that do not fit, values that differ, rows too many."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from oracle.contents import Row
from oracle.doings import Doings
from oracle.replay import Replay, ReplayError, RowChange, differences, typed_value

ROWS: list[Row] = [{"id": "1", "a": "x"}, {"id": "2", "a": None}]


def test_rows_with_a_key() -> None:
    replay = Replay(["id"], ROWS)
    replay.apply(RowChange(1, "update", {"id": "1"}, {"id": "3", "b": "added"}))
    replay.apply(RowChange(2, "delete", {"id": "2"}, None))
    assert replay.rows == [{"id": "3", "a": "x", "b": "added"}]
    replay.apply(RowChange(3, "insert", None, {"id": "2", "a": "y"}))
    replay.apply(RowChange(4, "update", None, {"id": "2", "a": "z"}))
    assert replay.rows[-1] == {"id": "2", "a": "z"}
    replay.apply(RowChange(5, "truncate", None, None))
    assert replay.rows == []


def test_whole_rows() -> None:
    replay = Replay([], [{"a": "x"}, {"a": "x", "b": "y"}])
    replay.apply(RowChange(1, "delete", {"a": "x", "b": "y"}, None))
    assert replay.rows == [{"a": "x"}]


@pytest.mark.parametrize(
    "change",
    [
        RowChange(1, "insert", None, {"id": "1"}),
        RowChange(1, "update", None, {"id": "3"}),
        RowChange(1, "update", {"id": "1"}, {"id": "2"}),
        RowChange(1, "delete", {"id": "3"}, None),
        RowChange(1, "delete", None, None),
    ],
)
def test_changes_that_do_not_fit(change: RowChange) -> None:
    with pytest.raises(ReplayError):
        Replay(["id"], ROWS).apply(change)


def test_rows_that_differ() -> None:
    assert differences(ROWS, [{"id": "1"}, {"id": "2", "a": None}], ["id", "a"], ["id"]) == []
    lines = differences(ROWS, [{"id": "1", "a": "y"}, {"id": "3", "a": "x"}], ["id", "a"], ["id"])
    assert lines == ["('1',).a: expected 'x', found 'y'", "('2',): missing", "('3',): not on the server"]
    assert differences(ROWS, [*ROWS, ROWS[0]], ["id", "a"], []) != []
    assert differences(ROWS, list(reversed(ROWS)), ["id", "a"], []) == []


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("t", "boolean", True),
        ("1.10", "numeric(6,2)", "1.10"),
        ("NaN", "numeric(6,2)", None),
        ("NaN", "numeric", "NaN"),
        ("{1.10}", "numeric(6,2)[]", "{1.10}"),
        ("1.1", "real", "1.100000023841858"),
        ("\\x00ff", "bytea", b"\x00\xff"),
        ("2024-02-29", "date", date(2024, 2, 29)),
        ("0044-03-15 BC", "date", None),
        ("infinity", "timestamp(0) without time zone", None),
        ("2024-02-29 12:00:00.5", "timestamp(3) without time zone", datetime(2024, 2, 29, 12, 0, 0, 500_000)),
        ("2024-02-29 12:00:00+00", "timestamp with time zone", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("x", "text", "x"),
        (None, "integer", None),
    ],
)
def test_typed_values(text: str | None, type_name: str, value: object) -> None:
    assert typed_value(text, type_name) == value


def test_what_statements_did_to_tables() -> None:
    doings = Doings(
        [
            'ALTER TABLE s0.t RENAME TO "T 2"',
            'ALTER TABLE s0."T 2" SET UNLOGGED',
            "ALTER TABLE aside0_12.thing ALTER COLUMN \"a\" TYPE text USING 'x'",
            "ALTER TABLE aside0_13.thing REPLICA IDENTITY NOTHING",
            "ALTER TABLE tag ALTER label TYPE name",
            "DROP TABLE s0.u CASCADE",
        ]
    )
    assert doings.done("s0.t") == doings.done('s0."T 2"') == {"renamed", "unlogged"}
    assert doings.done("aside0_99.thing") == {"retyped", "identity NOTHING"}
    assert doings.retyped("aside0_99.thing") == {"a"}
    assert doings.retyped("public.tag") == {"label"}
    assert doings.done("s0.u") == {"dropped"}
    assert doings.done("s0.base") == set()
