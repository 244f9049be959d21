"""Rows that the target refuses, put aside one by one; tables that are paused and go on; and what stays an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apply.refused_runs import RefusedRuns, refused_runs
from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.errors import ServerError

SOURCE_TABLES = (
    "CREATE TABLE s.t (id int PRIMARY KEY, n int, note text)",
    "CREATE TABLE s.other (id int PRIMARY KEY, note text)",
    "ALTER TABLE s.t ALTER note SET STORAGE EXTERNAL",
)
TARGET_TABLES = (
    "CREATE TABLE s.t (id int PRIMARY KEY, n int CHECK (n < 100), note varchar(9000)) PARTITION BY RANGE (id)",
    "CREATE TABLE s.p PARTITION OF s.t FOR VALUES FROM (0) TO (1000)",
    "CREATE FUNCTION s.judge() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN IF new.id = 13 THEN RAISE 'no luck'; END IF; RETURN new; END$$",
    "CREATE TRIGGER judge BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION s.judge()",
    "ALTER TABLE s.t ENABLE ALWAYS TRIGGER judge",
    "CREATE TABLE s.other (id int PRIMARY KEY, note text)",
)
WORK = (
    "INSERT INTO s.t SELECT g, g, repeat('x', 8000) FROM generate_series(1, 40) g",
    "BEGIN; UPDATE s.t SET n = 200 WHERE id = 3; UPDATE s.t SET n = 5 WHERE id IN (4, 13); "
    "INSERT INTO s.other VALUES (1, 'a'); INSERT INTO s.t VALUES (5000, 1, 'far'); COMMIT",
    "INSERT INTO s.other SELECT g FROM generate_series(2, 30) g",
    "DELETE FROM s.t WHERE id = 5000",
    "UPDATE s.t SET note = repeat('y', 9500) WHERE id = 5",
)
MEND = (
    "ALTER TABLE s.t DROP CONSTRAINT t_n_check",
    "DROP TRIGGER judge ON s.t",
    "CREATE TABLE s.q PARTITION OF s.t DEFAULT",
    "ALTER TABLE s.t ALTER note TYPE text",
)
LETTERS = (
    ("INSERT", "P0001", "no luck"),
    ("UPDATE", "23514", 'new row for relation "p" violates check constraint "t_n_check"'),
    ("INSERT", "23514", 'no partition of relation "t" found for row'),
    ("DELETE", "23514", 'no partition of relation "t" found for row'),
    ("UPDATE", "22001", "value too long for type character varying(9000)"),
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(major, id=f"pg{major}", marks=[] if major == 18 else [pytest.mark.slow]) for major in (15, 16, 18)
    ],
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Run the server of a major."""
    with pair_of(request.param, logical_decoding_work_mem="64kB", max_prepared_transactions="20") as started:
        yield started


def _letters(runs: RefusedRuns) -> list[tuple[Any, ...]]:
    query = "SELECT kind, sqlstate, message FROM headwater.dead_letters WHERE subname = '{}' ORDER BY id"
    return runs.pair.run(OURS, query.format(runs.ours))


ASKED: dict[str, dict[str, Any]] = {
    "batches": {},
    "one by one": {"batches": False},
    "streamed": {"streaming": "on"},
    "parallel": {"streaming": "parallel"},
    "binary": {"binary": True},
}


@pytest.mark.parametrize("name", ASKED)
def test_put_aside_and_back(pair: Pair, name: str) -> None:
    with refused_runs(pair, SOURCE_TABLES, TARGET_TABLES, **ASKED[name]) as runs:
        pair.run(SOURCE, *WORK)
        assert runs.run_ours(dead_letters=("s.*",)) is None
        assert _letters(runs) == list(LETTERS)
        warned = [line for line in runs.said if line.startswith("warning: ")]
        assert len(warned) == len(LETTERS)
        assert len(pair.rows(OURS)["s.p"]) == 39
        assert len(pair.rows(OURS)["s.other"]) == 30
        pair.run(OURS, *MEND)
        pair.run(SOURCE, "INSERT INTO s.other VALUES (100)")
        assert runs.run_ours(retries=True) is None
        assert 'dead letters of table "s.t": 5 applied, 0 refused still' in runs.said
        assert _letters(runs) == []
        assert _rows(pair, OURS) == _rows(pair, SOURCE)


def _rows(pair: Pair, database: str) -> list[tuple[Any, ...]]:
    """Return the rows of both tables; a change that comes late is in no order with those behind it."""
    return [
        *pair.run(database, "SELECT id, n, note FROM s.t WHERE id <> 13 ORDER BY id"),
        *pair.run(database, "SELECT id, note FROM s.other ORDER BY id"),
    ]


def test_tuples(pair: Pair) -> None:
    with refused_runs(pair, SOURCE_TABLES, TARGET_TABLES) as runs:
        pair.run(SOURCE, *WORK[:2])
        assert runs.run_ours(dead_letters=("s.t",)) is None
        rows = pair.run(
            OURS,
            "SELECT old_tuple, new_tuple - 'note', new_tuple->'note'->>'unchanged', place, remote_xid > 0, "
            f"commit_time > now() - interval '1 hour' FROM headwater.dead_letters WHERE subname = '{runs.ours}' "
            "AND kind = 'UPDATE'",
        )
        assert rows == [(None, {"id": "3", "n": "200"}, "true", 1, True, True)]


def test_prepared(pair: Pair) -> None:
    with refused_runs(pair, SOURCE_TABLES, TARGET_TABLES, "two_phase = true") as runs:
        work = "BEGIN; INSERT INTO s.t VALUES (1, 1, ''), (2, 200, ''), (3, 3, ''); PREPARE TRANSACTION 'p'"
        pair.run(
            SOURCE,
            work,
            "COMMIT PREPARED 'p'",
            work.replace("1, 1", "4, 4").replace("(2,", "(5,").replace("3, 3", "6, 6"),
        )
        assert runs.run_ours(dead_letters=("*.*",)) is None
        assert [kind for kind, *_ in _letters(runs)] == ["INSERT"]
        assert len(pair.rows(OURS)["s.p"]) == 2
        pair.run(SOURCE, "ROLLBACK PREPARED 'p'")
        assert runs.run_ours(dead_letters=("*.*",)) is None
        # The letter of what was rolled back went with it.
        assert len(_letters(runs)) == 1


STAYS = {
    "another table": (("s.other",), "INSERT INTO s.t VALUES (1, 1000)", "SELECT 1", "23514"),
    "a missing column": (("*.*",), "INSERT INTO s.other VALUES (1)", "ALTER TABLE s.other DROP note", "55000"),
    "a deferred constraint": (
        ("*.*",),
        "INSERT INTO s.other VALUES (1, 'x'), (2, 'x')",
        "CREATE FUNCTION s.late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'late'; END$$; "
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON s.other DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION s.late(); ALTER TABLE s.other ENABLE ALWAYS TRIGGER late",
        "P0001",
    ),
    "a truncate": (("*.*",), "TRUNCATE s.other", "CREATE TABLE s.points (id int REFERENCES s.other)", "0A000"),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_an_error(pair: Pair, name: str) -> None:
    patterns, work, breaks, sqlstate = STAYS[name]
    with refused_runs(pair, SOURCE_TABLES, TARGET_TABLES) as runs:
        pair.run(OURS, breaks)
        pair.run(SOURCE, work)
        error = runs.run_ours(dead_letters=patterns)
        assert isinstance(error, ServerError)
        assert error.sqlstate == sqlstate
        assert _letters(runs) == []


PAUSED_WORK = (
    "UPDATE s.t SET n = 7 WHERE id = 9",
    "UPDATE s.t SET note = 'after', n = 8 WHERE id IN (3, 10)",
    "BEGIN; TRUNCATE s.t, s.other; INSERT INTO s.t VALUES (1, 2, 'new'); INSERT INTO s.other VALUES (8, 'x'); COMMIT",
    "INSERT INTO s.t VALUES (2, 400, 'large')",
)


@pytest.mark.parametrize("name", ["batches", "streamed", "parallel"])
def test_paused_and_resumed(pair: Pair, name: str) -> None:
    with refused_runs(pair, SOURCE_TABLES, TARGET_TABLES, **ASKED[name]) as runs:
        pair.run(SOURCE, *WORK[:2])
        assert runs.run_ours(pauses=True) is None
        paused = f"SELECT relname, sqlstate FROM headwater.paused_tables WHERE subname = '{runs.ours}'"
        assert pair.run(OURS, paused) == [("t", "P0001")]
        assert len(pair.rows(OURS)["s.p"]) == 12
        assert len(pair.rows(OURS)["s.other"]) == 1
        # It stays paused, whatever the next run is asked for; resuming needs the cause mended.
        pair.run(SOURCE, *WORK[2:], *PAUSED_WORK)
        assert runs.run_ours(resumes=("s.t",)) is None
        assert any(line.startswith('warning: table "s.t" stays paused: no luck') for line in runs.said)
        assert pair.rows(OURS)["s.other"] == ["(8,x)"]
        assert len(pair.rows(OURS)["s.p"]) == 12
        pair.run(OURS, *MEND)
        pair.run(SOURCE, "UPDATE s.t SET n = n + 1")
        assert runs.run_ours(resumes=("*.*",)) is None
        assert pair.run(OURS, paused) == []
        assert _letters(runs) == []
        everything = "SELECT * FROM s.t ORDER BY id"
        assert pair.run(OURS, everything) == pair.run(SOURCE, everything)
        assert len(pair.run(OURS, everything)) == 2
