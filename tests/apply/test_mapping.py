"""Tables of the target that are not those of the source: what a stock subscriber does with each, and what we do.

Each case is made a subscription's first. The rows of both, and the first error, are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apply.target_pairs import Pair, pair_of

ROW = "INSERT INTO s.t VALUES (1, 'a')"
T = "CREATE TABLE s.t (id int PRIMARY KEY, v text)"

REFUSED: dict[str, tuple[str, str, str]] = {
    "a missing column": (T, "CREATE TABLE s.t (id int PRIMARY KEY)", ROW),
    "missing columns": (T, "CREATE TABLE s.t (x int)", ROW),
    "a generated column": (T, "CREATE TABLE s.t (id int PRIMARY KEY, v text GENERATED ALWAYS AS ('x') STORED)", ROW),
    "another type": (T, "CREATE TABLE s.t (v int, id int PRIMARY KEY)", ROW),
    "json": (T, T.replace("text", "json"), "INSERT INTO s.t VALUES (1, '{')"),
    "a domain": (
        T,
        "CREATE DOMAIN s.d AS text CHECK (value <> 'a'); CREATE TABLE s.t (id int PRIMARY KEY, v s.d)",
        ROW,
    ),
    "a check": (T, "CREATE TABLE s.t (id int PRIMARY KEY, v text CHECK (v <> 'a'))", ROW),
    "not null": (T, "CREATE TABLE s.t (id int PRIMARY KEY, v text, x int NOT NULL)", ROW),
    "no partition": (T, f"{T} PARTITION BY RANGE (id)", ROW),
    "no identity": (
        T,
        "CREATE TABLE s.t (id int, v text)",
        f"{ROW}; UPDATE s.t SET v = 'b'",
    ),
    "another identity": (
        T,
        "CREATE TABLE s.t (id int, v text PRIMARY KEY)",
        f"{ROW}; DELETE FROM s.t",
    ),
    "no identity of partitions": (
        T,
        "CREATE TABLE s.t (id int, v text) PARTITION BY LIST (id); CREATE TABLE s.a PARTITION OF s.t DEFAULT",
        f"{ROW}; DELETE FROM s.t",
    ),
}

INSTEAD = {
    "missing": "SELECT 1",
    "a view": "CREATE VIEW s.t AS SELECT 1 AS id, ''::text AS v",
    "a sequence": "CREATE SEQUENCE s.t",
    "a materialized view": "CREATE MATERIALIZED VIEW s.t AS SELECT 1 AS id, ''::text AS v",
    "a foreign table": "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER w FOREIGN DATA WRAPPER w; "
    "CREATE FOREIGN TABLE s.t (id int, v text) SERVER w",
}
"""What comes in the table's place once the subscription is made."""

APPLIED: dict[str, tuple[str, str, str]] = {
    "a column that comes in a transaction": (
        T,
        "CREATE TABLE s.t (id int PRIMARY KEY, v text, w int)",
        f"BEGIN; {ROW}; ALTER TABLE s.t ADD w int; INSERT INTO s.t VALUES (2, 'b', 3); COMMIT",
    ),
    "columns in another order": (T, "CREATE TABLE s.t (v text, id int PRIMARY KEY)", ROW),
    "dropped columns": (
        "CREATE TABLE s.t (a int, id int PRIMARY KEY, v text); ALTER TABLE s.t DROP a",
        "CREATE TABLE s.t (v text, x int, id int PRIMARY KEY); ALTER TABLE s.t DROP x",
        f"{ROW}; UPDATE s.t SET v = 'b'",
    ),
    "more columns": (
        T,
        "CREATE TABLE s.t (a int DEFAULT 5, id int PRIMARY KEY, b text, v text, c serial, "
        "d int GENERATED ALWAYS AS (id * 2) STORED, "
        "e int GENERATED ALWAYS AS IDENTITY)",
        f"{ROW}; INSERT INTO s.t VALUES (2, NULL); UPDATE s.t SET v = 'b' WHERE id = 2; "
        "UPDATE s.t SET id = 3 WHERE id = 2",
    ),
    "other types": (
        "CREATE TABLE s.t (id int PRIMARY KEY, n text, m numeric, ts timestamp, c text)",
        "CREATE TABLE s.t (id bigint PRIMARY KEY, n numeric(6, 2), m text, ts timestamp(0), c char(4))",
        "INSERT INTO s.t VALUES (1, '12.345', 1.50, '2026-01-01 00:00:00.7', 'a'); UPDATE s.t SET n = '7.777'",
    ),
    "an identity that is always generated": (
        T,
        "CREATE TABLE s.t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text, x int DEFAULT 3)",
        f"{ROW}; UPDATE s.t SET v = 'b'; UPDATE s.t SET id = 7; UPDATE s.t SET id = 8, v = NULL; UPDATE s.t SET id = 8",
    ),
    "an identity that is not the key": (
        "CREATE TABLE s.t (id int PRIMARY KEY, v int, w text)",
        "CREATE TABLE s.t (id int PRIMARY KEY, v int GENERATED ALWAYS AS IDENTITY UNIQUE, w text, x int DEFAULT 3)",
        "INSERT INTO s.t VALUES (1, 5, 'a'), (2, 6, 'b'); UPDATE s.t SET w = 'c' WHERE id = 1; "
        "UPDATE s.t SET v = 9 WHERE id = 2; UPDATE s.t SET id = 4, v = 10 WHERE id = 1",
    ),
    "nothing but an identity": (
        "CREATE TABLE s.t (id int PRIMARY KEY)",
        "CREATE TABLE s.t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
        "INSERT INTO s.t VALUES (1); UPDATE s.t SET id = 1; UPDATE s.t SET id = 2",
    ),
    "inheritance": (
        T,
        f"{T}; CREATE TABLE s.child () INHERITS (s.t); INSERT INTO s.child VALUES (1, 'mine')",
        f"{ROW}; UPDATE s.t SET v = 'b'; INSERT INTO s.t VALUES (2, 'c'); DELETE FROM s.t WHERE id = 1",
    ),
    "domains, enums, composites, arrays": (
        "CREATE TABLE s.t (id int PRIMARY KEY, d text, e text, c text, a text)",
        "CREATE TYPE s.e AS ENUM ('x', 'y'); CREATE TYPE s.c AS (p int, q text); CREATE DOMAIN s.d AS varchar(3)[]; "
        "CREATE TABLE s.t (id int PRIMARY KEY, d s.d, e s.e, c s.c, a s.c[])",
        """INSERT INTO s.t VALUES (1, '{abc,d}', 'x', '(1,"a b")', '{"(1,a)","(2,b)"}'); UPDATE s.t SET e = 'y'""",
    ),
    "partitions": (
        T,
        "CREATE TABLE s.t (id int PRIMARY KEY, v text, x int DEFAULT 1) PARTITION BY RANGE (id); "
        "CREATE TABLE s.a PARTITION OF s.t FOR VALUES FROM (0) TO (10); "
        "CREATE TABLE s.b (x int DEFAULT 2, v text, gone int, id int NOT NULL); ALTER TABLE s.b DROP gone; "
        "ALTER TABLE s.t ATTACH PARTITION s.b FOR VALUES FROM (10) TO (20)",
        f"{ROW}; INSERT INTO s.t VALUES (11, 'x'), (12, 'y'); UPDATE s.t SET id = 15 WHERE id = 1; "
        "UPDATE s.t SET v = 'z' WHERE id = 12; DELETE FROM s.t WHERE id = 11",
    ),
    "partitions without a key": (
        "CREATE TABLE s.t (id int, v text); ALTER TABLE s.t REPLICA IDENTITY FULL",
        "CREATE TABLE s.t (v text, id int) PARTITION BY LIST (v); "
        "CREATE TABLE s.a PARTITION OF s.t FOR VALUES IN ('a'); CREATE TABLE s.b PARTITION OF s.t DEFAULT",
        f"{ROW}; {ROW}; UPDATE s.t SET v = 'b' WHERE ctid = '(0,1)'; INSERT INTO s.t VALUES (2, NULL); "
        "UPDATE s.t SET v = 'a' WHERE id = 2; DELETE FROM s.t WHERE ctid = '(0,2)'",
    ),
    "partitions with an identity": (
        T,
        "CREATE TABLE s.t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text) PARTITION BY RANGE (id); "
        "CREATE TABLE s.a PARTITION OF s.t FOR VALUES FROM (0) TO (10); "
        "CREATE TABLE s.b PARTITION OF s.t FOR VALUES FROM (10) TO (20)",
        f"{ROW}; UPDATE s.t SET id = 2; UPDATE s.t SET id = 12; UPDATE s.t SET v = 'x'",
    ),
    "no columns": ("CREATE TABLE s.t ()", "CREATE TABLE s.t (x int DEFAULT 4)", "INSERT INTO s.t DEFAULT VALUES"),
    "odd names": (
        'CREATE TABLE s."T 1""x" ("a b" int PRIMARY KEY, "ctid2" text, "$1" text)',
        'CREATE TABLE s."T 1""x" ("$1" text, "a b" int PRIMARY KEY, "ctid2" text)',
        'INSERT INTO s."T 1""x" VALUES (1, \'x\', \'y\'); UPDATE s."T 1""x" SET "$1" = \'z\'',
    ),
    "triggers": (
        T,
        f"{T}; CREATE TABLE s.seen (what text); CREATE FUNCTION s.note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO s.seen VALUES (tg_name || tg_op || current_user); "
        "IF tg_name = 'skips' AND new.v = 'skip' THEN RETURN NULL; END IF; RETURN coalesce(new, old); END$$; "
        "CREATE TRIGGER off AFTER INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.note(); "
        "CREATE TRIGGER skips BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.note(); "
        "ALTER TABLE s.t ENABLE ALWAYS TRIGGER skips; "
        "CREATE TRIGGER of AFTER UPDATE OF v ON s.t FOR EACH ROW EXECUTE FUNCTION s.note(); "
        "ALTER TABLE s.t ENABLE REPLICA TRIGGER of",
        f"{ROW}; INSERT INTO s.t VALUES (2, 'skip'); UPDATE s.t SET v = 'c'; DELETE FROM s.t",
    ),
    "tables emptied together": (
        "CREATE TABLE s.t (id serial PRIMARY KEY, v text); CREATE TABLE s.u (id int REFERENCES s.t)",
        "CREATE TABLE s.t (id serial PRIMARY KEY, v text); CREATE TABLE s.u (id int REFERENCES s.t); "
        "CREATE TABLE s.child () INHERITS (s.u); INSERT INTO s.child VALUES (8); SELECT nextval('s.t_id_seq'); "
        "CREATE VIEW s.value AS SELECT 1; CREATE TABLE s.seen (what text); "
        "CREATE FUNCTION s.note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO s.seen VALUES (tg_name || tg_table_name || nextval('s.t_id_seq')); RETURN NULL; END$$; "
        "CREATE TRIGGER emptied AFTER TRUNCATE ON s.t EXECUTE FUNCTION s.note(); "
        "ALTER TABLE s.t ENABLE ALWAYS TRIGGER emptied",
        f"{ROW}; INSERT INTO s.u VALUES (1); BEGIN; TRUNCATE s.t, s.u RESTART IDENTITY; {ROW}; COMMIT; "
        "TRUNCATE s.t CASCADE",
    ),
    "partitions emptied": (
        T,
        "CREATE TABLE s.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); "
        "CREATE TABLE s.a PARTITION OF s.t FOR VALUES FROM (0) TO (10); "
        "CREATE TABLE s.b PARTITION OF s.t FOR VALUES FROM (10) TO (20)",
        f"{ROW}; INSERT INTO s.t VALUES (12, 'y'); TRUNCATE s.t; INSERT INTO s.t VALUES (13, 'z')",
    ),
    "a foreign key from outside": (
        T,
        f"{T}; CREATE TABLE s.u (id int REFERENCES s.t)",
        f"{ROW}; TRUNCATE s.t",
    ),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(14, id="pg14", marks=pytest.mark.slow),
        pytest.param(15, id="pg15", marks=pytest.mark.slow),
        pytest.param(16, id="pg16", marks=pytest.mark.slow),
        pytest.param(18, id="pg18"),
    ],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Run the server of a major."""
    with pair_of(request.param) as started:
        yield started


@pytest.mark.parametrize("name", INSTEAD)
def test_no_table(pair: Pair, name: str) -> None:
    assert pair.compare([T], [T], [ROW], later=["DROP TABLE s.t", INSTEAD[name]]).refusal is not None


@pytest.mark.parametrize("name", REFUSED)
def test_refused(pair: Pair, name: str) -> None:
    source, target, work = REFUSED[name]
    assert pair.compare([source], [target], [work]).refusal is not None


@pytest.mark.parametrize("name", APPLIED)
def test_applied(pair: Pair, name: str) -> None:
    source, target, work = APPLIED[name]
    result = pair.compare([source], [target], work.split("; ") if "$$" not in work else [work])
    assert (result.refusal is not None) == (name == "a foreign key from outside")


def test_binary_of_other_lengths(pair: Pair) -> None:
    result = pair.compare(
        ["CREATE TABLE s.t (id int PRIMARY KEY, v bigint)"],
        ["CREATE TABLE s.t (v int, id int PRIMARY KEY)"],
        ["INSERT INTO s.t VALUES (1, 2)"],
        binary=True,
    )
    assert result.refusal is not None
    assert result.refusal.sqlstate == "22P03"


def test_binary(pair: Pair) -> None:
    pair.compare(
        ["CREATE TABLE s.t (id int PRIMARY KEY, v numeric, a int[], t timestamptz)"],
        ["CREATE TABLE s.t (t timestamptz, v numeric(10, 1), a int[], id int PRIMARY KEY)"],
        ["INSERT INTO s.t VALUES (1, 2.25, '{1,2}', now()), (2, NULL, NULL, NULL)", "UPDATE s.t SET v = 3, a = NULL"],
        binary=True,
    )


def test_a_definition_that_changes_in_a_transaction(pair: Pair) -> None:
    result = pair.compare(
        ["CREATE TABLE s.t (id int PRIMARY KEY)"],
        ["CREATE TABLE s.t (id int PRIMARY KEY, b int, c text)"],
        [
            "BEGIN; INSERT INTO s.t VALUES (1); ALTER TABLE s.t ADD b int; INSERT INTO s.t VALUES (2, 3); "
            "ALTER TABLE s.t DROP b; ALTER TABLE s.t ADD c text; INSERT INTO s.t VALUES (3, 'x'); COMMIT"
        ],
    )
    assert result.rows["s.t"] == ["(1,,)", "(2,3,)", "(3,,x)"]
