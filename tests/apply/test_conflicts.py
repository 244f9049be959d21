"""Conflicts as servers of 18 and 19 detect them: the same rows, lines, errors and counts as a stock subscription's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from apply.conflict_lines import counts, of_ours, of_stock
from apply.differential import Differential, differential
from packaged_servers import is_packaged
from serving.service import wait_until

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, n int UNIQUE, note text, amount numeric(8, 2))",
    "INSERT INTO t SELECT g, g, 'x', g FROM generate_series(1, 20) g",
    'CREATE TABLE "Odd" ("Key" varchar(9), b int, PRIMARY KEY ("Key", b), "timestamp" timestamptz)',
    "INSERT INTO \"Odd\" VALUES ('a b', 1, '2020-01-01'), ('q\"', 2, NULL)",
    "CREATE TABLE whole (a int, b text, c bool)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "INSERT INTO whole VALUES (1, 'one', true), (2, 'two', NULL)",
    "CREATE TABLE parts (id int, k int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parts_2 (v text, id int NOT NULL, k int)",
    "ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (100)",
    "INSERT INTO parts SELECT g, g, 'p' FROM generate_series(1, 20) g",
    "CREATE TABLE skipped (id int PRIMARY KEY)",
    "INSERT INTO skipped VALUES (1), (2)",
)
ON_TARGET = (
    *TABLES,
    "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE TRIGGER skip BEFORE UPDATE ON skipped FOR EACH ROW WHEN (old.id = 1) EXECUTE FUNCTION skip()",
    "ALTER TABLE skipped ENABLE REPLICA TRIGGER skip",
    "ALTER TABLE t ADD extra int DEFAULT 7, ADD made int GENERATED ALWAYS AS (n * 2) STORED",
    "CREATE UNIQUE INDEX t_note ON t (lower(note)) WHERE note LIKE 'u%'",
    "UPDATE t SET extra = 1 WHERE id % 2 = 0",
)
LOCAL = (
    "UPDATE t SET n = n + 1000 WHERE id = 1",
    "DELETE FROM t WHERE id IN (2, 3)",
    "UPDATE t SET note = 'mine' WHERE id = 4",
    'UPDATE "Odd" SET "timestamp" = \'2021-01-01\' WHERE b = 1',
    'DELETE FROM "Odd" WHERE b = 2',
    "DELETE FROM whole WHERE a = 2",
    "UPDATE parts SET v = 'mine' WHERE id IN (3, 13)",
    "DELETE FROM parts WHERE id IN (4, 14)",
    "DELETE FROM skipped WHERE id = 2",
)
WORK = (
    "UPDATE t SET note = repeat('näh', 40), amount = 1.5 WHERE id = 1",
    "BEGIN; UPDATE t SET note = NULL WHERE id = 2; DELETE FROM t WHERE id = 3; DELETE FROM t WHERE id = 4; COMMIT",
    "UPDATE t SET id = 200 WHERE id = 2",
    'UPDATE "Odd" SET "timestamp" = NULL WHERE b = 1',
    'UPDATE "Odd" SET "Key" = \'other\' WHERE b = 2',
    "UPDATE whole SET b = 'zwei' WHERE a = 2",
    "UPDATE whole SET b = 'eins' WHERE a = 1",
    "DELETE FROM whole WHERE a = 2",
    "UPDATE parts SET v = 'new' WHERE id IN (3, 4, 13, 14)",
    "DELETE FROM parts WHERE id IN (3, 4, 13, 14)",
    "UPDATE skipped SET id = id + 10",
)
MINE = "INSERT INTO t VALUES (50, 50, 'mine', 1)"
REFUSED = {
    "a primary key": (MINE, "INSERT INTO t VALUES (50, 51, 'new', 2.5)", "id = 50"),
    "another key": (MINE, "INSERT INTO t VALUES (51, 50, 'new', 2.5)", "id = 50"),
    "both": (
        "INSERT INTO t VALUES (50, 50, 'mine', 1), (51, 51, repeat('long', 30), 2)",
        "INSERT INTO t VALUES (50, 51, 'new', 2.5)",
        "id IN (50, 51)",
    ),
    "an expression": (
        "INSERT INTO t VALUES (50, 50, 'UP', 1), (51, 51, 'up', 1)",
        "INSERT INTO t VALUES (52, 52, 'uP', 2)",
        "id IN (50, 51)",
    ),
    "an update": (MINE, "UPDATE t SET n = 50 WHERE id = 5", "id = 50"),
    "an update of the key": (MINE, "UPDATE t SET id = 50 WHERE id = 6", "id = 50"),
    "an update of both": (
        "INSERT INTO t VALUES (50, 50, 'mine', 1), (51, 51, 'too', 2)",
        "UPDATE t SET id = 50, n = 51 WHERE id = 7",
        "id IN (50, 51)",
    ),
}
KINDS = {
    "confl_insert_exists",
    "confl_update_exists",
    "confl_update_origin_differs",
    "confl_multiple_unique_conflicts",
}
MAJORS = [18, *(pytest.param(major, marks=pytest.mark.slow) for major in (19,) if is_packaged(major))]


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("tracks", ["on", pytest.param("off", marks=pytest.mark.slow)])
@pytest.mark.parametrize("flag", ["--batches", pytest.param("--no-batches", marks=pytest.mark.slow)])
def test_rows_that_are_missing_or_of_others(tmp_path: Path, major: int, tracks: str, flag: str) -> None:
    settings = {"track_commit_timestamp": tracks}
    with differential(
        tmp_path,
        (major, major),
        TABLES,
        target_tables=ON_TARGET,
        publication="FOR ALL TABLES WITH (publish_via_partition_root = true)",
        settings=settings,
        flags=[flag],
    ) as pair:
        pair.on_targets(*LOCAL)
        pair.on_source(*WORK)
        pair.catch_up(is_clean=False)
        if tracks == "on":
            pair.compare()
        the_same_is_told(pair)


@pytest.mark.parametrize("major", MAJORS)
def test_rows_in_the_way(tmp_path: Path, major: int) -> None:
    """Each is an error, in a transaction that has more; mended, both go on."""
    with differential(tmp_path, (major, major), TABLES, target_tables=ON_TARGET) as pair:
        for number, (local, work, mended) in enumerate(REFUSED.values()):
            done = len(of_stock(pair.target)), len(of_ours(pair.worker.text()))
            pair.on_targets(local)
            pair.on_source(
                f"BEGIN; INSERT INTO whole VALUES ({number + 10}); {work}; INSERT INTO whole VALUES (9); COMMIT"
            )
            wait_until(partial(have_told, pair, *done))
            stock, ours = of_stock(pair.target)[done[0]], of_ours(pair.worker.text())[done[1]]
            assert ours == stock
            pair.on_targets(f"DELETE FROM t WHERE {mended}")
            pair.catch_up(is_clean=False)
            pair.compare()
            pair.on_source("DELETE FROM t WHERE id > 20 OR n > 20")
            pair.catch_up(is_clean=False)
        # How often each has tried differs.
        wait_until(
            lambda: [{name for name, count in counted.items() if count} for counted in counts(pair)] == 2 * [KINDS]
        )


def have_told(pair: Differential, stock: int, ours: int) -> bool:
    """Tell whether both have told of more conflicts than they had."""
    return len(of_stock(pair.target)) > stock and len(of_ours(pair.worker.text())) > ours


def the_same_is_told(pair: Differential) -> None:
    """Require that both have told of the same conflicts, and counted the same."""
    assert of_stock(pair.target)
    assert of_ours(pair.worker.text()) == of_stock(pair.target)
    wait_until(lambda: counts(pair)[0] == counts(pair)[1])
