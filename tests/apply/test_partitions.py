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


FOREIGN = (
    "CREATE EXTENSION IF NOT EXISTS {0} SCHEMA public; CREATE SERVER IF NOT EXISTS {0} FOREIGN DATA WRAPPER {0}; "
    "CREATE TABLE s.t (id int NOT NULL, v text) PARTITION BY RANGE (id); "
    "CREATE TABLE s.a PARTITION OF s.t FOR VALUES FROM (0) TO (10); ALTER TABLE s.a ADD PRIMARY KEY (id); "
    "CREATE FOREIGN TABLE s.b PARTITION OF s.t FOR VALUES FROM (10) TO (20) SERVER {0} {1}"
)
FILE = FOREIGN.format("file_fdw", "OPTIONS (filename '/dev/null')")
REMOTE = f"""
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA public;
DO $$BEGIN EXECUTE format(
    'CREATE SERVER IF NOT EXISTS postgres_fdw FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
    split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
END$$;
CREATE USER MAPPING IF NOT EXISTS FOR postgres SERVER postgres_fdw OPTIONS (user 'postgres');
{FOREIGN.format("postgres_fdw", "OPTIONS (table_name 'x')")}
"""
MIXED = (
    "CREATE TABLE s.t (id int NOT NULL, v text NOT NULL, w text) PARTITION BY RANGE (id); "
    "CREATE TABLE s.a PARTITION OF s.t FOR VALUES FROM (0) TO (10); ALTER TABLE s.a ADD PRIMARY KEY (id); "
    "CREATE TABLE s.b PARTITION OF s.t FOR VALUES FROM (10) TO (20); ALTER TABLE s.b ADD PRIMARY KEY (id, v); "
    "CREATE TABLE s.c PARTITION OF s.t FOR VALUES FROM (20) TO (30)"
)
BY_VALUE = (
    "CREATE TABLE s.t (id int NOT NULL, v text) PARTITION BY LIST (v); "
    "CREATE TABLE s.a PARTITION OF s.t FOR VALUES IN ('a', 'b'); ALTER TABLE s.a ADD PRIMARY KEY (id); "
    "CREATE TABLE s.z PARTITION OF s.t DEFAULT; ALTER TABLE s.z ADD PRIMARY KEY (id)"
)
PAIRED = "CREATE TABLE s.t (id int, v text, w text, PRIMARY KEY (id, v))"
WHOLE = f"{FULL}; ALTER TABLE s.t ADD w text"
BELOW = "UPDATE s.t SET v = 'c' WHERE id < 10"

ODD: dict[str, tuple[str, str, tuple[str, ...], str | None]] = {
    "beside a foreign table": (T, FILE, (ROWS, "UPDATE s.t SET v = 'x'", "DELETE FROM s.t WHERE id = 1"), None),
    "insert into one": (T, FILE, ("INSERT INTO s.t VALUES (11, 'a')",), "0A000"),
    "move to one": (T, FILE, (ROWS, "UPDATE s.t SET id = 11 WHERE id = 1"), "0A000"),
    "delete of one": (f"{T}; {GONE}", FILE, (UNHEARD,), "0A000"),
    "beside one that takes rows": (T, REMOTE, (ROWS, "UPDATE s.t SET v = 'x'", "DELETE FROM s.t WHERE id = 1"), None),
    "insert into one that takes rows": (T, REMOTE, ("INSERT INTO s.t VALUES (11, 'a')",), "42809"),
    "move to one that takes rows": (T, REMOTE, (ROWS, "UPDATE s.t SET id = 11 WHERE id = 1"), "42809"),
    "update of one that takes rows": (f"{T}; {GONE}", REMOTE, ("UPDATE s.t SET v = 'x'",), "42809"),
    "other keys": (
        PAIRED,
        MIXED,
        (
            ROWS,
            "INSERT INTO s.t VALUES (11, 'a'), (12, 'b')",
            BELOW,
            "UPDATE s.t SET w = 'x' WHERE id > 10",
            "UPDATE s.t SET id = 5 WHERE id = 12",
            "UPDATE s.t SET id = 13 WHERE id = 1",
            "DELETE FROM s.t WHERE id = 11",
        ),
        None,
    ),
    "a partition without a key": (
        PAIRED,
        MIXED,
        (ROWS, "INSERT INTO s.t VALUES (21, 'a')", "UPDATE s.t SET w = 'x'"),
        "55000",
    ),
    "a key that is not sent": (
        T,
        MIXED,
        ("INSERT INTO s.t VALUES (1, 'a'), (11, 'a')", "UPDATE s.t SET v = 'x'"),
        "55000",
    ),
    "whole rows and keys": (
        WHOLE,
        MIXED,
        (
            ROWS,
            "INSERT INTO s.t VALUES (21, 'a'), (21, 'a'), (11, 'q')",
            "UPDATE s.t SET w = 'x'",
            "UPDATE s.t SET id = id + 10 WHERE id < 20",
            "DELETE FROM s.t WHERE id = 21",
        ),
        None,
    ),
    "keys without what routes": (
        FULL,
        BY_VALUE,
        (ROWS, "UPDATE s.t SET v = 'z' WHERE id = 1", "UPDATE s.t SET id = 3", "DELETE FROM s.t"),
        None,
    ),
    "keys without what routes, not sent": (
        T,
        BY_VALUE,
        (ROWS, "UPDATE s.t SET v = 'z' WHERE id = 1", "DELETE FROM s.t"),
        None,
    ),
}
"""Partitions that differ: of one kind of table or by key."""


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


@pytest.mark.parametrize("name", ODD)
def test_partitions_that_differ(pair: Pair, name: str) -> None:
    source, target, work, sqlstate = ODD[name]
    result = pair.compare([source], [target], work)
    assert (result.refusal.sqlstate if result.refusal else None) == sqlstate
