"""Updates of rows that were deleted: told as servers of 19 tell them, by deletions that are kept on the target."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.conflict_lines import counts, of_ours, of_stock
from apply.differential import OURS as DATABASE
from apply.differential import STOCK, Differential, differential, rows_of
from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.worker import ApplyWorker
from headwater.errors import TargetError, UsageError
from serving.service import wait_until

pytestmark = pytest.mark.server

RETAINS = 19
"""The first major whose subscriptions tell rows that were deleted from those that are missing."""
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, v text)",
    "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 20) g",
    "CREATE TABLE emptied (id int PRIMARY KEY, v text)",
    "INSERT INTO emptied VALUES (1, 'x')",
    "CREATE TABLE exact (n numeric, d date, v text, PRIMARY KEY (n, d))",
    "INSERT INTO exact SELECT g, '2024-05-06', 'x' FROM generate_series(1, 5) g",
    "CREATE TABLE whole (a int, b text, c float8, d timestamptz)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "INSERT INTO whole SELECT g, nullif(g, 2), g / 3.0, '2024-05-06 07:08:09.1+02' FROM generate_series(1, 6) g",
    "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parts_2 (v text, id int NOT NULL)",
    "ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (100)",
    "INSERT INTO parts SELECT g, 'x' FROM generate_series(1, 20) g",
)
LOCAL = (
    "DELETE FROM t WHERE id IN (1, 2, 3)",
    "UPDATE t SET id = 104 WHERE id = 4",
    "BEGIN; SAVEPOINT a; DELETE FROM t WHERE id = 5; RELEASE a; COMMIT",
    "BEGIN; SAVEPOINT a; DELETE FROM t WHERE id = 6; ROLLBACK TO a; COMMIT",
    "INSERT INTO t VALUES (2, 'again')",
    "DELETE FROM t WHERE id = 2",
    "INSERT INTO t VALUES (3, 'stays')",
    "BEGIN; SELECT pg_replication_origin_session_setup('elsewhere'); "
    "SELECT pg_replication_origin_xact_setup('0/1', now()); DELETE FROM t WHERE id = 7; COMMIT",
    "SELECT pg_replication_origin_session_reset()",
    "DELETE FROM t WHERE id IN (11, 12)",
    "INSERT INTO t VALUES (11, 'again')",
    "TRUNCATE emptied",
    "DELETE FROM exact WHERE n < 3",
    "SET DateStyle = 'German'; SET TimeZone = 'Asia/Tokyo'; DELETE FROM whole WHERE a < 3",
    "UPDATE whole SET b = 'mine' WHERE a = 3",
    "DELETE FROM parts WHERE id IN (1, 11)",
    "UPDATE parts SET id = 50 WHERE id = 2",
)
WORK = (
    "UPDATE t SET v = 'new' WHERE id < 9",
    "UPDATE t SET id = 201 WHERE id = 1",
    "DELETE FROM t WHERE id IN (2, 11, 12, 13)",
    "INSERT INTO t VALUES (11, 'new'), (12, 'new'), (13, 'new')",
    "UPDATE t SET v = 'newer' WHERE id IN (11, 12, 13)",
    "UPDATE emptied SET v = 'new'",
    "UPDATE exact SET v = 'new', n = n + 0.00",
    "UPDATE whole SET b = 'new'",
    "UPDATE parts SET v = 'new' WHERE id IN (1, 2, 3, 11, 12)",
)
MAJORS = [pytest.param(RETAINS, marks=pytest.mark.slow)]


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("flag", ["--batches", pytest.param("--no-batches", marks=pytest.mark.slow)])
def test_the_same_is_told_as_by_a_subscription(tmp_path: Path, major: int, flag: str) -> None:
    with differential(
        tmp_path,
        (major, major),
        TABLES,
        # Inserts are left out: so the subscription itself may be the last to have deleted a row that is updated.
        publication="FOR ALL TABLES WITH (publish_via_partition_root = true, publish = 'update, delete')",
        options="retain_dead_tuples = true, enabled = true",
        flags=[flag, "--retain-deleted", "1h"],
        is_apart=True,
    ) as pair:
        wait_until(lambda: _are_kept(pair))
        # A server forgets what its publisher had done, too, before it is asked for it, unless it is not applying.
        rows_of(pair.target, "ALTER SUBSCRIPTION stock DISABLE", STOCK)
        rows_of(pair.target, "SELECT pg_replication_origin_create('elsewhere')")
        pair.on_targets(*LOCAL)
        pair.on_source(*WORK)
        rows_of(pair.target, "ALTER SUBSCRIPTION stock ENABLE", STOCK)
        pair.catch_up(is_clean=False)
        pair.compare()
        stock = of_stock(pair.target)
        assert {conflict.message.rpartition("=")[2] for conflict in stock} >= {"update_deleted", "update_missing"}
        assert of_ours(pair.worker.text()) == stock
        wait_until(lambda: counts(pair)[0] == counts(pair)[1])
        assert counts(pair)[1]["confl_update_deleted"] > 10


def _are_kept(pair: Differential) -> bool:
    """Tell whether both keep what is deleted: the server needs some transactions of its own for that."""
    pair.mark()
    slot = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'pg_conflict_detection' AND xmin IS NOT NULL"
    watched = "SELECT to_regclass('headwater.watched_table') IS NOT NULL"
    if rows_of(pair.target, slot) != [(1,)] or rows_of(pair.target, watched, DATABASE) != [(True,)]:
        return False
    return rows_of(pair.target, "SELECT count(*) >= 5 FROM headwater.watched_table", DATABASE) == [(True,)]


@pytest.mark.parametrize("major", [16, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 18))])
def test_what_is_kept_and_for_how_long(major: int) -> None:
    with pair_of(major, track_commit_timestamp="on") as pair:
        slot = _begun(pair)
        rules = ConflictRules.parse(
            ["update_deleted=keep_local", "update_missing=apply_remote"], keeps_deleted_seconds=3600
        )
        _run(pair, slot, rules)
        deletions = "SELECT key FROM headwater.deleted_row ORDER BY key"
        pair.run(
            OURS,
            "CREATE ROLE user_of_s",
            "GRANT USAGE ON SCHEMA s TO user_of_s",
            "GRANT ALL ON s.t TO user_of_s",
            "SET ROLE user_of_s",
            "DELETE FROM s.t WHERE id = 1",
        )
        pair.run(OURS, "ALTER TABLE s.t RENAME id TO number", "DELETE FROM s.t WHERE number = 2")
        assert pair.run(OURS, deletions) == [(["1"],), (["2"],)]
        pair.run(OURS, "ALTER TABLE s.t RENAME number TO id", "TRUNCATE s.t", "INSERT INTO s.t VALUES (5, 'own')")
        pair.run(SOURCE, "UPDATE s.t SET v = 'new' WHERE id IN (1, 3)", "DELETE FROM s.t WHERE id = 4")
        lines = _run(pair, slot, rules)
        assert [line.partition("conflict=")[2].partition(" ")[0] for line in lines] == [
            "update_deleted,",
            "update_missing,",
            *(["delete_missing"] if major >= 18 else []),
        ]
        assert pair.rows(OURS)["s.t"] == ["(3,new)", "(5,own)"]

        pair.run(OURS, "UPDATE headwater.deleted_row SET deleted_at = now() - interval '2h'")
        pair.run(SOURCE, "UPDATE s.t SET v = 'later' WHERE id = 1")
        _run(pair, slot, rules)
        assert pair.rows(OURS)["s.t"] == ["(1,later)", "(3,new)", "(5,own)"]
        assert pair.run(OURS, deletions) == []
        _run(pair, slot, ConflictRules())
        assert pair.run(OURS, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 's.t'::regclass") == [(0,)]


def test_what_is_needed_for_it() -> None:
    with pair_of(16) as pair:
        slot = _begun(pair)
        with pytest.raises(UsageError, match="track_commit_timestamp = on"):
            _run(pair, slot, ConflictRules.parse([], keeps_deleted_seconds=60))
    with pair_of(16, track_commit_timestamp="on") as pair:
        slot = _begun(pair)
        request = pair.request(slot, "p", conflicts=ConflictRules.parse([], keeps_deleted_seconds=60))
        pair.subscribe(request)
        holder = pair.server.connect(OURS)
        with holder as session:
            session.execute("BEGIN; LOCK TABLE s.t IN ROW EXCLUSIVE MODE")
            lines = _run(pair, slot, request.conflicts)
        assert 'deletions in table "s.t" are not kept yet' in lines[0]
        pair.run(OURS, "CREATE ROLE poor LOGIN", "GRANT ALL ON SCHEMA headwater, s TO poor")
        pair.run(OURS, "GRANT ALL ON ALL TABLES IN SCHEMA headwater, s TO poor")
        pair.run(OURS, "GRANT SET ON PARAMETER session_replication_role TO poor")
        pair.run(OURS, "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_catalog, headwater TO poor")
        pair.run(SOURCE, "UPDATE s.t SET v = 'x'")
        with pytest.raises(TargetError) as refused:
            _run(pair, slot, request.conflicts, target=pair.place(OURS, "poor"), run_as_owner=True)
        assert refused.value.sqlstate == "42501"
        assert "needs the owner" in str(refused.value.hint)


def test_a_source_that_keeps_deletions_itself() -> None:
    """All its tables are published; the target does not have all of the schema headwater's."""
    with pair_of(16) as pair:
        slot = _begun(pair)
        pair.run(SOURCE, "CREATE SCHEMA headwater", "CREATE TABLE headwater.deleted_row (key text)")
        pair.run(SOURCE, "DROP PUBLICATION p", "CREATE PUBLICATION p FOR ALL TABLES")
        _, slot = pair.slots()
        request = pair.request(slot, "p")
        pair.subscribe(request)
        pair.run(
            SOURCE, "BEGIN; INSERT INTO headwater.deleted_row VALUES ('a'); INSERT INTO s.t VALUES (9, 'x'); COMMIT"
        )
        assert _run(pair, slot, ConflictRules()) == []
        assert pair.rows(OURS)["s.t"] == ["(9,x)"]


def _begun(pair: Pair) -> str:
    """Make a table on both sides, and a slot before its first rows; return the slot."""
    for database in (SOURCE, OURS):
        pair.run(database, "CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY, v text)")
    pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLE s.t")
    _, slot = pair.slots()
    pair.run(SOURCE, "INSERT INTO s.t SELECT g, 'base' FROM generate_series(1, 4) g")
    return slot


def _run(pair: Pair, slot: str, rules: ConflictRules, **options: object) -> list[str]:
    """Apply all that there is; return what is told."""
    lines: list[str] = []
    ApplyWorker(pair.request(slot, "p", conflicts=rules, **options), lambda _: None, lines.append).run()
    return lines
