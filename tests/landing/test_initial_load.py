"""Rows that were there before: with the changes that follow they are what the server has, however it was copied."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headwater.errors import CatalogError, DecodingError, LakeError, UsageError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.landing import initial_load
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.plugins.table_patterns import TablePatterns
from headwater.receiver.catalog_export import export_catalog
from headwater.slots.value_file import save_value
from landing.busy_servers import BUSY, EAGER, Load
from landing.existing_rows import compare, landed, run, selected, server_of
from landing.online_backups import back_up
from serving.service import wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark]


SETUP = """
CREATE TABLE plain (id int PRIMARY KEY, note text, total numeric(10,2));
INSERT INTO plain SELECT i, repeat('x', i % 50), i / 4.0 FROM generate_series(1, 3000) i;
UPDATE plain SET note = 'changed' WHERE id % 10 = 0;
DELETE FROM plain WHERE id % 7 = 0;
CREATE TABLE wide (id int PRIMARY KEY, body text, more bytea);
ALTER TABLE wide ALTER more SET STORAGE EXTERNAL;
INSERT INTO wide SELECT i, (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 300) j),
    decode(repeat(md5(i::text), 200), 'hex') FROM generate_series(1, 60) i;
UPDATE wide SET body = body || '!' WHERE id % 5 = 0;
DELETE FROM wide WHERE id % 6 = 0;
CREATE TABLE shaped (id int PRIMARY KEY, gone text, was int);
INSERT INTO shaped SELECT i, 'gone ' || i, i FROM generate_series(1, 50) i;
ALTER TABLE shaped DROP COLUMN gone;
ALTER TABLE shaped ADD COLUMN later text DEFAULT 'filled';
ALTER TABLE shaped RENAME was TO named;
INSERT INTO shaped VALUES (100, 1, NULL), (101, NULL, 'own');
ALTER TABLE shaped ADD COLUMN twice int GENERATED ALWAYS AS (named * 2) STORED;
CREATE TABLE part (id int, region int, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE part_0 PARTITION OF part FOR VALUES IN (0);
CREATE TABLE part_1 (v text, region int NOT NULL, id int NOT NULL);
ALTER TABLE part ATTACH PARTITION part_1 FOR VALUES IN (1);
INSERT INTO part SELECT i, i % 2, 'p' || i FROM generate_series(1, 200) i;
CREATE TABLE empty (id int PRIMARY KEY);
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
INSERT INTO unlogged VALUES (1);
BEGIN;
INSERT INTO plain SELECT i, 'never' FROM generate_series(10000, 10100) i;
DELETE FROM plain WHERE id < 100;
ROLLBACK;
BEGIN;
INSERT INTO plain VALUES (20000, 'kept');
SAVEPOINT a;
INSERT INTO plain VALUES (20001, 'not kept');
DELETE FROM plain WHERE id = 1;
ROLLBACK TO a;
SAVEPOINT b;
INSERT INTO plain VALUES (20002, 'kept, too');
COMMIT;
"""

KEYS = {"plain": ["id"], "wide": ["id"], "shaped": ["id"], "part": ["id", "region"], "empty": ["id"]}


@pytest.mark.parametrize("format", ["parquet", "delta", "ducklake"])
def test_rows_of_a_stopped_server(engine: Engine, tmp_path: Path, format: str) -> None:
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, SETUP)
            expected = selected(connection, KEYS)
        server.stop()
        target = LandingTarget(tmp_path / "lake", format)
        result = landed(engine, server.wal_directory, server.data_directory, target)
        counts = {f"public.{name}": len(rows) for name, rows in expected.items() if rows}
        assert result.rows == counts
        if format == "parquet":
            server.start()
            compare(target, expected, KEYS, server)
            plain = read_parquet_table(target.place / "public.plain").to_pylist()
            assert {row["_change_type"] for row in plain} == {"read"}
            assert {(row["_xid"], row["_commit_time"], row["_is_key"], row["_table"]) for row in plain} == {
                (None, None, False, "plain")
            }
            assert not (target.place / "public.unlogged").exists()


def test_columns_that_are_called_as_those_of_staged_changes(engine: Engine, tmp_path: Path) -> None:
    with server_of(16) as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE own (id int PRIMARY KEY, _relation int, _heap text)")
            connection.execute("INSERT INTO own VALUES (1, 111, 'a')")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            connection.execute("INSERT INTO own VALUES (2, 222, 'b')")
        server.stop()
        target = LandingTarget(tmp_path / "lake")
        landed(engine, server.wal_directory, backup, target)
        rows = read_parquet_table(target.place / "public.own").select(["id", "_relation", "_heap"]).to_pylist()
        assert sorted(map(tuple, (row.values() for row in rows))) == [(1, 111, "a"), (2, 222, "b")]


def test_a_damaged_page(engine: Engine, tmp_path: Path) -> None:
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE t (id int);\nINSERT INTO t SELECT generate_series(1, 1000)")
            (place,) = connection.execute("SELECT pg_relation_filepath('t')").fetchone() or ("",)
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        whole = (backup / place).read_bytes()
        flipped = whole[: 8192 + 5000] + bytes([whole[8192 + 5000] ^ 1]) + whole[8192 + 5001 :]
        without_header = whole[:8192] + bytes(512) + whole[8192 + 512 :]
        for number, pages in enumerate((flipped, without_header)):
            (backup / place).write_bytes(pages)
            with pytest.raises(CatalogError, match="page 1 has another checksum than what it holds"):
                landed(engine, server.wal_directory, backup, LandingTarget(tmp_path / f"lake {number}"))


FAR = """
CREATE TABLE near (id int PRIMARY KEY, body text);
INSERT INTO near SELECT i, (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 300) j)
    FROM generate_series(1, 40) i;
CREATE TABLE far (id int PRIMARY KEY, body text) TABLESPACE far;
INSERT INTO far SELECT * FROM near;
DELETE FROM near WHERE id > 30;
"""


@pytest.mark.parametrize("packed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_backup_in_tar_format(engine: Engine, tmp_path: Path, packed: bool) -> None:
    keys = {"near": ["id"], "far": ["id"]}
    with server_of(16) as server:
        place = server.home.path / "far"
        place.mkdir()
        shutil.chown(place, *_owner(server.data_directory))
        with server.connect() as connection:
            connection.execute(f"CREATE TABLESPACE far LOCATION '{place}'")
            run(connection, FAR)
        backup = back_up(server, tmp_path / "backup", "-F", "tar", *(["--gzip"] if packed else []))
        with server.connect() as connection:
            run(connection, "UPDATE far SET body = 'short' WHERE id < 5;\nDELETE FROM near WHERE id = 1")
            expected = selected(connection, keys)
        server.stop()
        target = LandingTarget(tmp_path / "lake")
        result = landed(engine, server.wal_directory, backup, target)
        assert result.rows == {"public.near": 30 + 1, "public.far": 40 + 4}
        server.start()
        compare(target, expected, keys, server)


def _owner(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_uid, status.st_gid


def test_what_has_landed_does_not_land_again(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run stops at a table that it cannot land, behind others; the next one goes on with what is left."""
    monkeypatch.setattr(initial_load, "MOST_TOGETHER", 1)  # else small tables share a task, and land together or not
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE a (id int);\nINSERT INTO a SELECT generate_series(1, 500)")
            run(connection, "CREATE TABLE b (id int, n numeric(5,2));\nINSERT INTO b VALUES (1, 1.5), (2, 'NaN')")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        with server.connect() as connection:
            run(connection, "INSERT INTO a VALUES (501);\nDELETE FROM b WHERE id = 2")
        server.stop()
        target = LandingTarget(tmp_path / "lake")
        with pytest.raises(DecodingError, match=r'column "n" of table "public\.b"'):
            landed(engine, server.wal_directory, backup, target)
        a = read_parquet_table(target.place / "public.a")
        assert (a.num_rows, set(a["_change_type"].to_pylist())) == (500, {"read"})
        assert not (target.place / "_headwater" / "scratch").exists()
        second = landed(engine, server.wal_directory, backup, replace(target, on_unrepresentable="null"))
        assert second.rows == {"public.b": 2 + 1, "public.a": 1}
        third = landed(engine, server.wal_directory, backup, replace(target, on_unrepresentable="null"))
        assert third.rows == {}
        assert read_parquet_table(target.place / "public.a")["id"].to_pylist() == list(range(1, 502))
        with pytest.raises(LakeError, match="the tables have snapshot initial, not never"):
            landed(engine, server.wal_directory, backup, replace(target, snapshot="never"))


def test_a_table_of_another_access_method(engine: Engine, tmp_path: Path) -> None:
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, "CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler")
            run(connection, "CREATE TABLE a AS SELECT 1 AS id;\nCREATE TABLE b USING other AS SELECT 1 AS id")
        server.stop()
        target = LandingTarget(tmp_path / "lake")
        with pytest.raises(LakeError, match=r"table public\.b has another access method than heap"):
            landed(engine, server.wal_directory, server.data_directory, target)
        chosen = replace(target, where=tmp_path / "chosen")
        asked = TablePatterns.parse(["public.a"])
        assert landed(engine, server.wal_directory, server.data_directory, chosen, tables=asked).rows == {"public.a": 1}


def test_a_start_and_existing_rows(engine: Engine, tmp_path: Path) -> None:
    with server_of(16) as server:
        server.stop()
        with pytest.raises(UsageError, match="existing rows land as of the backup"):
            landed(engine, server.wal_directory, server.data_directory, LandingTarget(tmp_path / "lake"), start=1 << 30)


def test_an_exported_catalog_has_no_rows(engine: Engine, tmp_path: Path) -> None:
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE t (id int);\nINSERT INTO t VALUES (1);\nCHECKPOINT")
        dsn = " ".join(f"{name}={word}" for name, word in server.connection_info().items())
        save_value(tmp_path / "catalog", export_catalog(dsn))
        with server.connect() as connection:
            connection.execute("INSERT INTO t VALUES (2)")
        server.stop()
        with pytest.raises(LakeError, match=r"no rows of tables.*--snapshot never"):
            landed(engine, server.wal_directory, tmp_path / "catalog", LandingTarget(tmp_path / "lake"))
        target = LandingTarget(tmp_path / "other", snapshot="never")
        assert landed(engine, server.wal_directory, tmp_path / "catalog", target).rows == {"public.t": 1}


def test_rows_that_several_have_locked(engine: Engine, tmp_path: Path) -> None:
    """Multixacts whose members lock, update and delete, in the copy and in the log behind it."""
    with server_of(16) as server:
        with server.connect() as connection:
            run(
                connection,
                "CREATE TABLE t (id int PRIMARY KEY, n int);\nINSERT INTO t SELECT i, 0 FROM generate_series(1, 60) i",
            )
        with server.connect() as before, server.connect() as connection:
            lock_and_change(server, before, 0)
            run(before, "DELETE FROM t WHERE id > 25 AND id <= 35;\nCOMMIT")
            run(before, "BEGIN;\nSELECT 1 FROM t WHERE id <= 60 FOR KEY SHARE")
            change(connection, 30)
            backup = back_up(server, tmp_path / "backup")
            run(before, "COMMIT")
        with server.connect() as connection:
            connection.execute("CHECKPOINT")
            expected = selected(connection, {"t": ["id"]})
        server.stop()
        assert len(expected["t"]) == 60 - 10
        for name, copy in (("stopped", server.copy_data_directory(tmp_path / "copy")), ("online", backup)):
            target = LandingTarget(tmp_path / name, mode="current")
            landed(engine, server.wal_directory, copy, target)
            held = read_parquet_table(target.place / "public.t").to_pylist()
            assert sorted((row["id"], row["n"]) for row in held) == expected["t"]


def lock_and_change(server: EmbeddedPostgres, first: psycopg.Connection[Any], rows: int) -> None:
    """Lock rows by two sessions, change them by a third one; the first one goes on."""
    with server.connect() as second, server.connect() as third:
        for session in (first, second):
            run(session, f"BEGIN;\nSELECT 1 FROM t WHERE id > {rows} AND id <= {rows + 30} FOR KEY SHARE")
        change(third, rows)
        run(second, "COMMIT")


def change(connection: psycopg.Connection[Any], rows: int) -> None:
    """Change ten rows, five of them once more, and roll back the change of ten others."""
    run(connection, f"UPDATE t SET n = n + 1 WHERE id > {rows} AND id <= {rows + 10}")
    run(connection, f"BEGIN;\nUPDATE t SET n = -1 WHERE id > {rows + 10} AND id <= {rows + 20};\nROLLBACK")
    run(connection, f"BEGIN;\nUPDATE t SET n = n + 5 WHERE id > {rows + 5} AND id <= {rows + 10};\nCOMMIT")


BUSY_KEYS = {
    "busy": ["id"],
    "child": ["id"],
    "rewritten": ["id"],
    "emptied": ["id"],
    "quiet": ["id"],
    "split": ["id", "region"],
}

"""Pages go to disk at once, so that the copy has some of every moment."""


def _other(major: int) -> Any:
    return pytest.param(major, 1, "changelog" if major % 2 else "current", marks=pytest.mark.slow)


CASES = [pytest.param(16, 1, "changelog", marks=pytest.mark.slow), (16, 2, "current"), *map(_other, (14, 15, 17, 18))]


@pytest.mark.parametrize(("major", "seed", "mode"), CASES)
def test_an_online_backup_of_a_busy_server(engine: Engine, tmp_path: Path, major: int, seed: int, mode: str) -> None:
    with server_of(major, **EAGER) as server:
        with server.connect() as connection:
            run(connection, BUSY)
        before, after = (server.connect() for _ in range(2))
        with before, after, Load(server, seed) as load:
            run(before, "BEGIN;\nUPDATE quiet SET v = 'kept' WHERE id < 50")
            run(after, "BEGIN;\nUPDATE quiet SET v = 'never' WHERE id BETWEEN 100 AND 150")
            with server.connect() as third:
                run(third, "BEGIN;\nDELETE FROM quiet WHERE id BETWEEN 200 AND 220;\nPREPARE TRANSACTION 'later'")
            backup = back_up(server, tmp_path / "backup")
            run(before, "UPDATE quiet SET v = 'kept, too' WHERE id BETWEEN 60 AND 70;\nCOMMIT")
            run(after, "DELETE FROM quiet WHERE id = 300;\nROLLBACK")
            with server.connect() as third:
                run(third, "COMMIT PREPARED 'later'")
                done = load.done
                for _ in range(6):
                    third.execute("CHECKPOINT")
            wait_until(lambda: load.done > done + 200)
        with server.connect() as connection:
            connection.execute("CHECKPOINT")
            run(connection, "INSERT INTO quiet VALUES (99999, 'last');\nUPDATE busy SET n = -1 WHERE id % 9 = 0")
            expected = selected(connection, BUSY_KEYS)
        server.stop()
        target = LandingTarget(tmp_path / "lake", mode=mode)
        landed(engine, server.wal_directory, backup, target)
        server.start()
        compare(target, expected, BUSY_KEYS, server)
        if mode != "changelog":
            return
        kinds = read_parquet_table(target.place / "public.busy")["_change_type"].to_pylist()
        assert {"read", "update_postimage"} <= set(kinds)
