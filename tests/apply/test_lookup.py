"""Rows that updates and deletes are for: by which columns they are looked up, and that an index serves.

What a stock subscriber finds is what is found here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apply.target_pairs import OURS, Pair, pair_of
from headwater.apply.incoming.messages import SentTuple
from headwater.apply.target.relations import map_relation
from headwater.apply.target.session import open_target
from headwater.apply.target.statements import delete, update
from headwater.remote_slots.announced_relations import SentColumn, SentRelation

FULL = "ALTER TABLE s.t REPLICA IDENTITY FULL"
NONE = "ALTER TABLE s.t REPLICA IDENTITY NOTHING"

CASES: dict[str, tuple[str, str, str]] = {
    "whole rows, equal ones and NULLs": (
        f"CREATE TABLE s.t (a int, b text, c numeric); {FULL}",
        "CREATE TABLE s.t (c numeric, b text, x int, a int)",
        "INSERT INTO s.t VALUES (1, 'a', 1.0), (1, 'a', 1.0), (NULL, NULL, NULL), (NULL, NULL, 2); "
        "UPDATE s.t SET b = 'z' WHERE ctid = '(0,1)'; DELETE FROM s.t WHERE ctid = '(0,3)'; "
        "DELETE FROM s.t WHERE c = 2",
    ),
    "whole rows, an index": (
        f"CREATE TABLE s.t (a int, b text); {FULL}",
        "CREATE TABLE s.t (a int, b text); CREATE INDEX ON s.t (b, a)",
        "INSERT INTO s.t SELECT g % 10, g::text FROM generate_series(1, 50) g; UPDATE s.t SET a = 5 WHERE b = '7'; "
        "DELETE FROM s.t WHERE a = 5",
    ),
    "whole rows, a primary key here": (
        f"CREATE TABLE s.t (id int, v text); {FULL}",
        "CREATE TABLE s.t (id int PRIMARY KEY, v text)",
        "INSERT INTO s.t VALUES (1, 'a'), (2, 'b'); UPDATE s.t SET v = 'c' WHERE id = 1; "
        "UPDATE s.t SET id = 5 WHERE id = 2",
    ),
    "another replica identity here": (
        f"CREATE TABLE s.t (id int, v text, u int NOT NULL); {FULL}",
        "CREATE TABLE s.t (id int PRIMARY KEY, v text, u int NOT NULL UNIQUE); "
        "ALTER TABLE s.t REPLICA IDENTITY USING INDEX t_u_key",
        "INSERT INTO s.t VALUES (1, 'a', 10), (2, 'b', 20); UPDATE s.t SET v = 'c', id = 7 WHERE id = 1; "
        "DELETE FROM s.t WHERE id = 2",
    ),
    "fewer key columns here": (
        "CREATE TABLE s.t (a int, b int, v text, PRIMARY KEY (a, b))",
        "CREATE TABLE s.t (a int, b int PRIMARY KEY, v text)",
        "INSERT INTO s.t VALUES (1, 2, 'a'); UPDATE s.t SET a = 4; DELETE FROM s.t",
    ),
    "a primary key that is not the replica identity here": (
        "CREATE TABLE s.t (id int PRIMARY KEY, v text)",
        f"CREATE TABLE s.t (id int PRIMARY KEY, v text); {NONE}",
        "INSERT INTO s.t VALUES (1, 'a'); UPDATE s.t SET v = 'b'",
    ),
    "a key of several types": (
        'CREATE TABLE s.t (a text COLLATE "C", b char(5), c timestamptz, d numeric, e bytea, v text, '
        "PRIMARY KEY (a, b, c, d, e))",
        "CREATE TABLE s.t (a varchar(20), b char(5), c timestamptz, d numeric, e bytea, v text, PRIMARY KEY (a, "
        "b, c, d, e))",
        r"INSERT INTO s.t VALUES ('x', 'y', now(), 1.50, '\x01', 'a'); UPDATE s.t SET v = 'b'; UPDATE s.t SET a = 'z'; "
        "DELETE FROM s.t",
    ),
    "enums, domains and arrays as keys": (
        "CREATE TABLE s.t (a text, b text, c text, v int, PRIMARY KEY (a, b, c))",
        "CREATE TYPE s.e AS ENUM ('x', 'y'); CREATE DOMAIN s.d AS s.e; "
        "CREATE TABLE s.t (a s.e, b s.d, c s.e[], v int, PRIMARY KEY (a, b, c))",
        "INSERT INTO s.t VALUES ('x', 'y', '{x}', 1); UPDATE s.t SET v = 2; DELETE FROM s.t",
    ),
    "whole rows of many types": (
        f"CREATE TABLE s.t (a text, b text, c int4range, d int[], e text, f varchar, g cidr, n int); {FULL}",
        "CREATE TYPE s.e AS ENUM ('x'); CREATE TYPE s.c AS (p int, q s.e); CREATE DOMAIN s.d AS s.c; "
        "CREATE TABLE s.t (a s.e, b s.c, c int4range, d int[], e s.d, f varchar, g cidr, n int, x text)",
        "INSERT INTO s.t VALUES ('x', '(1,x)', '[1,3)', '{1}', '(2,x)', 'f', '10.0.0.0/8', 1), "
        "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2); UPDATE s.t SET n = 5; DELETE FROM s.t",
    ),
    "a type without equality": (
        f"CREATE TABLE s.t (a int, j json, b int); {FULL}",
        "CREATE TABLE s.t (a int, j json, b int)",
        "INSERT INTO s.t VALUES (1, '{}', 1); UPDATE s.t SET b = 2",
    ),
    "a type without equality that is not looked at": (
        f"CREATE TABLE s.t (a int, j json, b int); {FULL}",
        "CREATE TABLE s.t (a int, j json, b int); CREATE TABLE s.other (a int)",
        "INSERT INTO s.t VALUES (1, NULL, 1); UPDATE s.t SET b = 2; UPDATE s.t SET j = '[]'; "
        "DELETE FROM s.t WHERE b = 9",
    ),
    "an array of a type without equality": (
        f"CREATE TABLE s.t (a int, j json[]); {FULL}",
        "CREATE TABLE s.t (a int, j json[], x int GENERATED ALWAYS AS (a) STORED)",
        "INSERT INTO s.t VALUES (1, NULL); UPDATE s.t SET a = 2",
    ),
    "long values that are unchanged": (
        "CREATE TABLE s.t (id int PRIMARY KEY, long text, v int); ALTER TABLE s.t ALTER long SET STORAGE EXTERNAL",
        "CREATE TABLE s.t (id int PRIMARY KEY, long text, v int)",
        "INSERT INTO s.t SELECT 1, repeat('x', 9000), 1; UPDATE s.t SET v = 2; UPDATE s.t SET id = 2; "
        "UPDATE s.t SET long = 'short'",
    ),
    "rows that are not there": (
        "CREATE TABLE s.t (id int PRIMARY KEY, v text); CREATE TABLE s.f (id int); "
        "ALTER TABLE s.f REPLICA IDENTITY FULL",
        "CREATE TABLE s.t (id int PRIMARY KEY, v text); CREATE TABLE s.f (id int); "
        "CREATE FUNCTION s.none() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
        "CREATE TRIGGER a BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.none(); "
        "CREATE TRIGGER a BEFORE INSERT ON s.f FOR EACH ROW EXECUTE FUNCTION s.none(); "
        "ALTER TABLE s.t ENABLE ALWAYS TRIGGER a; ALTER TABLE s.f ENABLE ALWAYS TRIGGER a",
        "INSERT INTO s.t VALUES (1, 'a'); UPDATE s.t SET v = 'b'; DELETE FROM s.t; INSERT INTO s.f VALUES (1); "
        "UPDATE s.f SET id = 2; DELETE FROM s.f",
    ),
}
ERRORS = {"a type without equality"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(14, id="pg14", marks=pytest.mark.slow),
        pytest.param(16, id="pg16"),
        pytest.param(18, id="pg18", marks=pytest.mark.slow),
    ],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Run the server of a major."""
    with pair_of(request.param) as started:
        yield started


@pytest.mark.parametrize("name", CASES)
def test_the_same_row_is_changed(pair: Pair, name: str) -> None:
    source, target, work = CASES[name]
    result = pair.compare([source], [target], work.split("; "))
    assert (result.refusal is not None) == (name in ERRORS)


def _sent(*columns: SentColumn, is_full: bool = False) -> SentRelation:
    return SentRelation(1, "s", "big", "f" if is_full else "d", columns)


A, B, C = (SentColumn(name, 25, -1, is_key=True) for name in "abc")
VALUE = SentColumn("v", 25, -1, is_key=False)
PLANS = {
    "a key": ("PRIMARY KEY (a)", "", (A, VALUE), False),
    "a key of two": ("PRIMARY KEY (a, b)", "", (A, B, VALUE), False),
    "a replica identity": (
        "UNIQUE (c)",
        "ALTER TABLE s.big ALTER c SET NOT NULL, REPLICA IDENTITY USING INDEX big_c_key",
        (C, VALUE),
        False,
    ),
    "whole rows": ("CHECK (true)", "CREATE INDEX ON s.big (b)", (A, B, C, VALUE), True),
    "whole rows, an index of several": ("CHECK (true)", "CREATE INDEX ON s.big (a, b)", (A, B, C, VALUE), True),
}


@pytest.mark.parametrize("analyzed", [False, True], ids=["no statistics", "analyzed"])
@pytest.mark.parametrize("name", PLANS)
def test_an_index_serves(pair: Pair, name: str, analyzed: bool) -> None:
    constraint, more, columns, is_full = PLANS[name]
    fill = "INSERT INTO s.big SELECT g, g::varchar, 'c' || g, 'v' FROM generate_series(1, 100000) g"
    table = f"CREATE TABLE s.big (a int, b varchar, c text, v text, {constraint})"
    pair.run(OURS, "DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s", table, more or "SELECT", fill)
    if analyzed:
        pair.run(OURS, "ANALYZE s.big")
    row = SentTuple(b"t" * len(columns), tuple(b"7" for _ in columns))
    connection, facts = open_target(pair.place(OURS), "test")
    with connection:
        mapped = map_relation(connection, facts, _sent(*columns, is_full=is_full))
        for bound in (update(mapped, None, row), delete(mapped, row)):
            for mode in ("force_generic_plan", "force_custom_plan"):
                connection.rows(f"SET plan_cache_mode = {mode}")
                types = ", ".join(f"{oid}::regtype" for oid in bound.statement.types)
                ((listed,),) = connection.rows(f"SELECT array_to_string(ARRAY[{types}], ', ')")
                connection.rows(f"PREPARE p ({listed}) AS {bound.statement.sql}")
                values = ", ".join("'7'" for _ in bound.values)
                plan = "\n".join(str(line) for (line,) in connection.rows(f"EXPLAIN EXECUTE p ({values})"))
                connection.rows("DEALLOCATE p")
                assert "Index" in plan
                assert "Seq Scan" not in plan
