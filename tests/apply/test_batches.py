"""Transactions applied several at a time: the same as one by one, also where a batch meets something unforeseen."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.worker import ApplyWorker
from headwater.errors import ServerError
from serving.service import wait_until

TABLE = "CREATE TABLE s.t (id int PRIMARY KEY, n int, note text)"
FILL = "INSERT INTO s.t SELECT g, g, 'note ' || g FROM generate_series(1, 50) g"
MANY = (
    *(
        f"INSERT INTO s.t SELECT g, g, E'a\\tb\\\\c\"' || g FROM generate_series({g * 100}, {g * 100 + 40}) g"
        for g in range(1, 9)
    ),
    "UPDATE s.t SET n = n + 1 WHERE id % 3 = 0",
    "UPDATE s.t SET n = n + 1, note = NULL WHERE id % 5 = 0",
    "DELETE FROM s.t WHERE id % 7 = 0",
    "INSERT INTO s.t SELECT g, 0, '' FROM generate_series(7, 49, 7) g",
    "UPDATE s.t SET note = repeat(note, 400) WHERE id = 3",
    "UPDATE s.t SET n = -1 WHERE id = 3",
    "INSERT INTO s.t VALUES (100000, 1, NULL); DELETE FROM s.t WHERE id = 100000",
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Run a server."""
    with pair_of(18) as started:
        yield started


def _begun(pair: Pair, more: Sequence[str] = ()) -> str:
    """Make the table on both sides, with rows that were applied; return the slot."""
    pair.run(SOURCE, "DROP PUBLICATION IF EXISTS p")
    for database in (SOURCE, OURS):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", TABLE)
    pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLES IN SCHEMA s")
    _, slot = pair.slots()
    pair.run(SOURCE, FILL)
    _apply(pair, slot)
    pair.run(OURS, *more)
    return slot


def _apply(pair: Pair, slot: str, lines: list[str] | None = None, **options: object) -> ApplyWorker:
    noted = lines if lines is not None else []
    worker = ApplyWorker(pair.request(slot, "p", **options), lambda _: None, noted.append)
    worker.run()
    return worker


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("batches", [True, False])
def test_the_same_rows(pair: Pair, batches: bool, binary: bool) -> None:
    slot = _begun(pair)
    pair.run(SOURCE, *MANY)
    worker = _apply(pair, slot, batches=batches, binary=binary)
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert (worker.batches.tried > 0) == batches
    assert worker.batches.fallbacks == 0


VALUES = {
    "int2": ("g", "-g"),
    "int8": ("g * 10000000000", "NULL"),
    "numeric": ("g / 7.0", "'NaN'"),
    "numeric(9, 3)": ("g / 8.0", "-g"),
    "float4": ("g / 3.0", "'-Infinity'"),
    "float8": ("g / 3.0", "'-0'"),
    "text": ("'näh' || g", "repeat('x', 3000)"),
    "varchar(9)": ("g", "''"),
    "char(4)": ("g", "' '"),
    '"char"': ("'a'", "''"),
    "bool": ("g % 2 = 0", "NULL"),
    "bytea": ("'\\x00ff'", "''"),
    "uuid": ("md5(g::text)::uuid", "NULL"),
    "date": ("date '2024-02-29' + g", "'-infinity'"),
    "timestamptz": ("timestamptz '2024-02-29 12:00+01' + g * interval '1s'", "'infinity'"),
    "timestamp(0)": ("timestamp '2024-02-29 12:00' + g * interval '1s'", "NULL"),
    "interval": ("g * interval '1 day 2h'", "'-1 year'"),
    "jsonb": ("jsonb_build_object('a', g)", "'null'"),
    "json": ("'{\"a\":  1}'", "'[1]'"),
    "inet": ("'10.0.0.1'", "'::1/8'"),
    "bit varying(5)": ("'101'", "''"),
    "point": ("point(g, 1)", "NULL"),
    "s.mood": ("'sad'", "'merry'"),
    "money": ("g::money", "NULL"),
    "pg_lsn": ("'0/1'", "'1/0'"),
    "xml": ("'<a/>'", "NULL"),
    # Whatever has no binary form comes as text beside it.
    "aclitem": ("makeaclitem(10, 10, 'SELECT', false)", "NULL"),
}


@pytest.mark.parametrize("left_out", [(), ("aclitem",)])
def test_values_in_binary_form(pair: Pair, left_out: tuple[str, ...]) -> None:
    """Columns of all kinds, with some as text among them and without."""
    slot = _begun(pair)
    columns = [(f"c{at}", name, *of) for at, (name, of) in enumerate(VALUES.items()) if name not in left_out]
    listed = ", ".join(f"{column} {name}" for column, name, *_ in columns)
    for database in (SOURCE, OURS):
        pair.run(
            database, "CREATE TYPE s.mood AS ENUM ('sad', 'merry')", f"CREATE TABLE s.v (id date PRIMARY KEY, {listed})"
        )
    rows = f"SELECT date '2024-01-01' + g, {', '.join(first for *_, first, _ in columns)}"
    sets = ", ".join(f"{column} = {later}" for column, *_, later in columns)
    pair.run(
        SOURCE,
        "INSERT INTO s.v (id) VALUES ('1999-01-01')",
        f"INSERT INTO s.v {rows} FROM generate_series(1, 400) g",
        f"INSERT INTO s.v {rows} FROM generate_series(401, 430) g",
        f"UPDATE s.v SET {sets.replace('-g', '-5')} WHERE id < '2024-02-01'",
        "UPDATE s.v SET c1 = 7 WHERE id > '2025-01-01'",
        "DELETE FROM s.v WHERE id BETWEEN '2024-06-01' AND '2024-07-01'",
    )
    worker = _apply(pair, slot, binary=True)
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert (worker.batches.tried > 0, worker.batches.fallbacks) == (True, 0)


def test_binary_forms_without_arrays_are_applied_one_by_one(pair: Pair) -> None:
    slot = _begun(pair)
    for database in (SOURCE, OURS):
        pair.run(database, "CREATE TABLE s.a (id int PRIMARY KEY, v int[], r int4range)")
    pair.run(
        SOURCE,
        "INSERT INTO s.a VALUES (0)",
        "INSERT INTO s.a SELECT g, ARRAY[[g, 1]], int4range(1, g) FROM generate_series(1, 300) g",
    )
    _apply(pair, slot, binary=True)
    assert pair.rows(OURS) == pair.rows(SOURCE)


def test_definitions_that_come_back(pair: Pair) -> None:
    slot = _begun(pair)
    rows = "INSERT INTO s.t (id, n, note) SELECT g, g, g::text FROM generate_series({0}, {0} + 20) g"
    swap = "ALTER TABLE s.t RENAME n TO x; ALTER TABLE s.t RENAME other TO n; ALTER TABLE s.t RENAME x TO other"
    for database in (SOURCE, OURS):
        pair.run(database, "ALTER TABLE s.t ADD other int")
    pair.run(SOURCE, rows.format(1000), swap, rows.format(2000), swap, rows.format(3000), swap, rows.format(4000), swap)
    _apply(pair, slot)
    names = "SELECT id, n, other, note FROM s.t ORDER BY id"
    sums = "SELECT count(*), sum(n), sum(other) FROM s.t WHERE id >= 1000"
    assert pair.run(OURS, sums) == [
        (84, sum(range(1000, 1021)) + sum(range(2000, 2021)) + sum(range(3000, 3021)) + sum(range(4000, 4021)), None)
    ]
    assert len(pair.run(OURS, names)) == 134


def test_a_trigger_that_comes_later(pair: Pair) -> None:
    slot = _begun(pair)
    pair.run(SOURCE, *MANY)
    worker = ApplyWorker(pair.request(slot, "p", end=None), lambda _: None)
    applying = threading.Thread(target=worker.run)
    applying.start()
    try:
        end = pair.end()
        wait_until(lambda: worker.durable >= end)
        assert (worker.batches.tried > 0, worker.batches.fallbacks) == (True, 0)
        pair.run(
            OURS,
            "CREATE TABLE s.seen (id int)",
            "CREATE FUNCTION s.see() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN INSERT INTO s.seen VALUES (new.id); RETURN NULL; END$$",
            "CREATE TRIGGER see AFTER UPDATE ON s.t FOR EACH ROW EXECUTE FUNCTION s.see()",
            "ALTER TABLE s.t ENABLE REPLICA TRIGGER see",
        )
        pair.run(SOURCE, "BEGIN; UPDATE s.t SET n = 0; UPDATE s.t SET n = 1; COMMIT")
        end = pair.end()
        wait_until(lambda: worker.durable >= end)
    finally:
        worker.stop()
        applying.join()
    assert pair.run(OURS, "SELECT count(*) = 2 * (SELECT count(*) FROM s.t) FROM s.seen") == [(True,)]


def test_rows_that_are_not_there(pair: Pair) -> None:
    slot = _begun(pair, ["DELETE FROM s.t WHERE id IN (3, 14)"])
    pair.run(SOURCE, *MANY)
    lines: list[str] = []
    worker = _apply(pair, slot, lines)
    assert worker.batches.fallbacks > 0
    text = 'conflict detected on relation "s.t": conflict='
    kinds = [line.removeprefix(text).partition(" ")[0] for line in lines if line.startswith(text)]
    assert kinds == ["update_missing", "delete_missing", "update_missing", "update_missing"]
    expected = [row for row in pair.rows(SOURCE)["s.t"] if not row.startswith("(3,")]
    assert pair.rows(OURS)["s.t"] == expected


@pytest.mark.parametrize(
    ("on_target", "work", "sqlstate"),
    [
        (
            "CREATE UNIQUE INDEX ON s.t (n)",
            "BEGIN; UPDATE s.t SET n = n + 1; COMMIT",
            "23505",
        ),
        (
            "ALTER TABLE s.t ALTER n SET NOT NULL",
            "BEGIN; UPDATE s.t SET n = NULL; UPDATE s.t SET n = 1; COMMIT",
            "23502",
        ),
        (
            "CREATE UNIQUE INDEX ON s.t (n)",
            "BEGIN; INSERT INTO s.t SELECT g + 1000, g, '' FROM generate_series(1, 50) g; "
            "DELETE FROM s.t WHERE id <= 50; COMMIT",
            "23505",
        ),
        (
            "ALTER TABLE s.t ADD CHECK (n >= 0)",
            "BEGIN; UPDATE s.t SET n = -1; UPDATE s.t SET n = 1; COMMIT",
            "23514",
        ),
        ("INSERT INTO s.t VALUES (120)", MANY[0], "23505"),
        (
            "INSERT INTO s.t VALUES (1020)",
            "BEGIN; INSERT INTO s.t SELECT g FROM generate_series(1001, 1040) g; "
            "DELETE FROM s.t WHERE id > 1000; COMMIT",
            "23505",
        ),
    ],
    ids=["moves", "NULLs between", "order", "values between", "a key that is there", "a row that comes and goes"],
)
def test_what_one_by_one_is_refused(pair: Pair, on_target: str, work: str, sqlstate: str) -> None:
    slot = _begun(pair, [on_target])
    before = pair.rows(OURS)
    pair.run(SOURCE, work)
    with pytest.raises(ServerError) as refused:
        _apply(pair, slot)
    assert refused.value.sqlstate == sqlstate
    assert pair.rows(OURS) == before


REPEATED = (
    "BEGIN; UPDATE s.t SET n = n + 100; UPDATE s.t SET note = 'x' WHERE id % 2 = 0; COMMIT",
    "INSERT INTO s.t SELECT g, g + 1000, '' FROM generate_series(1001, 1300) g",
    "BEGIN; DELETE FROM s.t WHERE id > 1200; INSERT INTO s.t SELECT g, g, '' FROM generate_series(1201, 1240) g; END",
    "UPDATE s.t SET note = 'z' WHERE id < 1100",
)


@pytest.mark.parametrize(
    ("on_target", "work", "fallbacks"),
    [
        ("ALTER TABLE s.t ADD CHECK (n > 0), ALTER note SET NOT NULL", REPEATED, 0),
        ("ALTER TABLE s.t ALTER n TYPE bigint", REPEATED, 0),
        ("CREATE UNIQUE INDEX ON s.t (n)", REPEATED[1:], 0),
        ("CREATE UNIQUE INDEX ON s.t (n) INCLUDE (note); CREATE UNIQUE INDEX ON s.t (note, n)", REPEATED[1:3], 0),
        ("CREATE UNIQUE INDEX ON s.t (n) WHERE n > 0", REPEATED[1:], 1),
        ("ALTER TABLE s.t ADD CHECK (n > 0)", ["UPDATE s.t SET n = n + 1 WHERE id = 1"] * 100, 1),
    ],
    ids=["checks", "another type", "a unique index", "two", "a predicate", "one row again and again"],
)
def test_rows_that_change_several_times(pair: Pair, on_target: str, work: Sequence[str], fallbacks: int) -> None:
    slot = _begun(pair, [on_target])
    pair.run(SOURCE, *work)
    worker = _apply(pair, slot)
    assert pair.rows(OURS) == pair.rows(SOURCE)
    assert worker.batches.tried > 0
    assert worker.batches.fallbacks == fallbacks


def test_triggers_see_each_change(pair: Pair) -> None:
    slot = _begun(
        pair,
        [
            "CREATE FUNCTION s.mark() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.note = 'seen'; RETURN new; END$$",
            "CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON s.t FOR EACH ROW EXECUTE FUNCTION s.mark()",
            "ALTER TABLE s.t ENABLE REPLICA TRIGGER mark",
        ],
    )
    pair.run(SOURCE, *MANY)
    assert _apply(pair, slot).batches.tried == 0
    changed = pair.run(OURS, "SELECT count(*) FROM s.t WHERE id >= 100 AND note <> 'seen'")
    assert changed == [(0,)]


def test_rows_that_somebody_else_has_written() -> None:
    """They are noticed in batches, too; rows that a subscription has copied or applied are its own."""
    with pair_of(18, track_commit_timestamp="on") as pair:
        for database in (SOURCE, OURS):
            pair.run(database, "CREATE SCHEMA s", TABLE)
        pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLES IN SCHEMA s", FILL)
        request = pair.request("copied", "p", end=pair.end())
        slot = replace(request.slot, creates_slot=True)
        lines: list[str] = []
        ApplyWorker(replace(request, slot=slot, copies_data=True), lambda _: None, lines.append).run()
        pair.run(SOURCE, MANY[0], "UPDATE s.t SET n = n + 1", "DELETE FROM s.t WHERE id % 2 = 0")
        worker = _apply(pair, "copied", lines)
        assert (worker.batches.tried > 0, worker.batches.fallbacks) == (True, 0)
        pair.run(OURS, "UPDATE s.t SET note = 'own' WHERE id IN (1, 101)")
        pair.run(
            SOURCE, "INSERT INTO s.t VALUES (5000)", "UPDATE s.t SET n = n + 1", "DELETE FROM s.t WHERE id % 3 = 2"
        )
        worker = _apply(pair, "copied", lines)
        assert worker.batches.fallbacks > 0
        assert pair.rows(OURS) == pair.rows(SOURCE)
        kinds = [line.partition("conflict=")[2].split()[0] for line in lines if "conflict=" in line]
        assert kinds == ["update_origin_differs"] * 2


@pytest.mark.parametrize("missing", [False, True])
def test_a_large_transaction_is_folded_in_runs(pair: Pair, missing: bool) -> None:
    slot = _begun(pair, ["DELETE FROM s.t WHERE id = 30"] if missing else [])
    for database in (SOURCE, OURS):
        pair.run(database, "CREATE TABLE s.more (id bigint PRIMARY KEY, note text)")
    pair.run(
        SOURCE,
        "BEGIN; INSERT INTO s.more SELECT g, repeat('x', g % 7) FROM generate_series(1, 70000) g; "
        "UPDATE s.t SET n = n + 1; TRUNCATE s.t; INSERT INTO s.t SELECT g, g FROM generate_series(1, 500) g; "
        "UPDATE s.more SET id = -id WHERE id < 100; DELETE FROM s.more WHERE id % 100 = 0; COMMIT",
    )
    lines: list[str] = []
    _apply(pair, slot, lines)
    assert pair.rows(OURS) == pair.rows(SOURCE)
    # Each run is behind a savepoint, of which its rows have the number.
    assert pair.run(OURS, "SELECT count(DISTINCT xmin::text) > 2 FROM s.more") == [(True,)]
    text = 'conflict detected on relation "s.t": conflict=update_missing'
    assert [line.startswith(text) for line in lines if "conflict" in line] == [True] * missing
