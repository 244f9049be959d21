"""Rows for which the target has no partition: refused as by a stock subscriber, with the same words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apply.target_pairs import Pair, pair_of

T = "CREATE TABLE s.t (id int PRIMARY KEY, v text)"
FULL = "CREATE TABLE s.t (id int, v text); ALTER TABLE s.t REPLICA IDENTITY FULL"
RANGE = (
    "CREATE TABLE s.t (v text, id int PRIMARY KEY) PARTITION BY RANGE (id); "
    "CREATE TABLE s.a PARTITION OF s.t FOR VALUES FROM (0) TO (10)"
)
NESTED = (
    f"{RANGE}; CREATE TABLE s.b PARTITION OF s.t FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id); "
    "CREATE TABLE s.c PARTITION OF s.b FOR VALUES IN (11, 12)"
)
LIST = (
    "CREATE TABLE s.t (id int, more int, v text) PARTITION BY LIST (v); "
    "CREATE TABLE s.a PARTITION OF s.t FOR VALUES IN ('a', 'b')"
)
ROWS = "INSERT INTO s.t VALUES (1, 'a'), (2, 'b')"
GONE = "INSERT INTO s.t VALUES (1, 'a'), (15, 'b')"
UNHEARD = "DELETE FROM s.t WHERE id = 15"

REFUSED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "an insert": (T, RANGE, (ROWS, "INSERT INTO s.t VALUES (3, 'c'), (15, 'b')")),
    "an insert below": (T, NESTED, (ROWS, "INSERT INTO s.t VALUES (15, 'b')")),
    "a move": (T, RANGE, (ROWS, "UPDATE s.t SET id = 15 WHERE id = 1")),
    "a move below": (T, NESTED, (ROWS, "UPDATE s.t SET id = 15 WHERE id = 1")),
    "a move by whole rows": (FULL, LIST, (ROWS, "UPDATE s.t SET v = 'c' WHERE id = 1")),
    "a move of many rows": (
        T,
        RANGE,
        (
            "INSERT INTO s.t SELECT g FROM generate_series(1, 9) g",
            "UPDATE s.t SET v = 'x'; UPDATE s.t SET id = id + 20 WHERE id > 3",
        ),
    ),
}
"""On the publisher the rows are in one table; all of them were sent."""
MISSING: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "an update": (T, RANGE, ("UPDATE s.t SET v = 'c' WHERE id = 15",)),
    "an update below": (T, NESTED, ("UPDATE s.t SET v = 'c' WHERE id = 15",)),
    "an update of a key": (T, RANGE, ("UPDATE s.t SET id = 5 WHERE id = 15",)),
    "an update of both": (T, RANGE, ("UPDATE s.t SET id = 16 WHERE id = 15",)),
    "a delete": (T, RANGE, (UNHEARD,)),
    "a delete below": (T, NESTED, (UNHEARD,)),
    "several": (
        T,
        RANGE,
        (
            "BEGIN; UPDATE s.t SET v = 'd' WHERE id = 1; DELETE FROM s.t WHERE id = 15; "
            "INSERT INTO s.t VALUES (1000, 'x'); COMMIT",
        ),
    ),
    "an expression": (
        T,
        "CREATE TABLE s.t (id int, v text) PARTITION BY LIST ((id * 2)); "
        "CREATE TABLE s.a PARTITION OF s.t FOR VALUES IN (2); ALTER TABLE s.a ADD PRIMARY KEY (id)",
        (UNHEARD,),
    ),
    "a hash": (
        T,
        "CREATE TABLE s.t (v text, id int PRIMARY KEY) PARTITION BY HASH (id); "
        "CREATE TABLE s.a PARTITION OF s.t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        ("DELETE FROM s.t WHERE id = 15", "DELETE FROM s.t WHERE id = 1"),
    ),
    "no partition at all": (T, "CREATE TABLE s.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)", (UNHEARD,)),
    "whole rows": (FULL, LIST.replace("'a', 'b'", "'a'"), ("UPDATE s.t SET id = 3 WHERE v = 'b'",)),
    "whole rows that are gone": (FULL, LIST.replace("'a', 'b'", "'a'"), ("DELETE FROM s.t",)),
    "columns that are not sent": (
        "CREATE TABLE s.t (id int, v text); ALTER TABLE s.t REPLICA IDENTITY FULL",
        "CREATE TABLE s.t (id int, more int DEFAULT 1, v text) PARTITION BY LIST (more); "
        "CREATE TABLE s.a PARTITION OF s.t FOR VALUES IN (1)",
        (UNHEARD,),
    ),
    "long values": (
        FULL,
        LIST,
        ("UPDATE s.t SET v = repeat('long', 50) WHERE id = 15", "DELETE FROM s.t WHERE id = 15"),
    ),
    "numbers that are rounded": (
        "CREATE TABLE s.t (id numeric PRIMARY KEY, v text)",
        RANGE.replace("id int", "id numeric(4, 1)"),
        (UNHEARD,),
    ),
}
"""Of rows that were there before the slot."""
PASSED_OVER: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a row that is not there": (T, RANGE.replace("(10)", "(100)"), ("UPDATE s.t SET v = 'c'; DELETE FROM s.t",)),
    "one of a default partition": (
        T,
        f"{RANGE}; CREATE TABLE s.z PARTITION OF s.t DEFAULT",
        ("UPDATE s.t SET v = 'c'; DELETE FROM s.t",),
    ),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(14, id="pg14", marks=pytest.mark.slow),
        pytest.param(16, id="pg16", marks=pytest.mark.slow),
        pytest.param(18, id="pg18"),
    ],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Run the server of a major."""
    with pair_of(request.param) as started:
        yield started


@pytest.mark.parametrize("name", REFUSED)
def test_refused(pair: Pair, name: str) -> None:
    source, target, work = REFUSED[name]
    result = pair.compare([source], [target], work)
    assert result.refusal is not None
    assert result.refusal.sqlstate == "23514"


@pytest.mark.parametrize("name", MISSING)
def test_missing(pair: Pair, name: str) -> None:
    source, target, work = MISSING[name]
    result = pair.compare([source, GONE], [target], work)
    assert result.refusal is not None
    assert result.refusal.sqlstate == "23514"
    assert result.refusal.detail


@pytest.mark.parametrize("name", PASSED_OVER)
def test_passed_over(pair: Pair, name: str) -> None:
    source, target, work = PASSED_OVER[name]
    assert pair.compare([source, GONE], [target], work).refusal is None
