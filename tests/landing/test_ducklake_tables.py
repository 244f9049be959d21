"""Tables of DuckLake are what DuckDB reads: files that come and go, deletes, columns, versions, others that write."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import LakeConflictError, LakeError, UsageError
from headwater.lakes.compaction import compacting
from headwater.lakes.data_files import write_data_file
from headwater.lakes.ducklake_table import DuckLakeFormat, DuckLakeTable
from headwater.lakes.lake_table import DataFile, LakeTable, Landed, TableCommit, file_name
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.ducklake_lakes import attached

COLUMNS: dict[str, pa.DataType] = {"id": pa.int32(), "v": pa.string(), "made": pa.timestamp("us", tz="UTC")}
SCHEMA = pa.schema(COLUMNS)
AT = datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=UTC)


def table_at(form: DuckLakeFormat, place: Path, name: str = "public.t") -> DuckLakeTable:
    return form.table(place / name, "1/2", name)


def written(table: LakeTable, lsn: int, *ids: int, schema: pa.Schema = SCHEMA) -> DataFile:
    """Write a file of rows."""
    made: dict[str, Any] = {"id": ids, "v": [f"v{n}" for n in ids], "made": [AT] * len(ids)}
    rows = pa.table({name: made.get(name, list(ids)) for name in schema.names}, schema=schema)
    own = table.file_schema(schema)
    return write_data_file(rows.cast(own), table.staging, file_name(lsn), own)


def rows(place: Path, statement: str) -> list[Any]:
    """Ask DuckDB."""
    with attached(f"sqlite:{place}/ducklake.sqlite") as connection:
        return connection.execute(statement).fetchall()


def ids(place: Path, at: str = "") -> list[int]:
    return [number for (number,) in rows(place, f"SELECT id FROM lake.public.t {at} ORDER BY id")]


def test_files_come_and_go_and_rows_are_deleted_beside_them(tmp_path: Path) -> None:
    """Every version stays readable; a second window is one snapshot of both tables."""
    with closing(DuckLakeFormat(tmp_path, deletes_beside=True)) as form:
        table, other = table_at(form, tmp_path), table_at(form, tmp_path, "public.u")
        first, second = written(table, 1, 1, 2, 3), written(table, 1, 4, 5)
        form.commit([TableCommit(table, [first, second], Landed(1, SCHEMA, "1/2"))])
        two = [TableCommit(each, [written(each, 2, 6)], Landed(2, SCHEMA, "1/2")) for each in (table, other)]
        form.commit(two)
        assert table.version == other.version == 2
        table.commit_deleting([], Landed(3, SCHEMA, "1/2"), [second.path], {first.path: np.array([0])})
        table.commit_deleting([], Landed(4, SCHEMA, "1/2"), [], {first.path: np.array([2])})
        again = table_at(form, tmp_path)
        assert again.files == table.files
        assert (again.landed, again.version) == (table.landed, table.version)
        sizes = [form.size(tmp_path / "public.t", "public.t", version).rows for version in range(1, 5)]
    assert [ids(tmp_path, f"AT (VERSION => {version})") for version in range(1, 5)] == [
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5, 6],
        [2, 3, 6],
        [2, 6],
    ]
    assert sizes == [5, 6, 3, 2]
    assert rows(tmp_path, "SELECT count(*), min(made), max(v) FROM lake.public.t WHERE id < 6") == [(1, AT, "v2")]
    assert rows(tmp_path, "SELECT id FROM lake.public.u WHERE v = 'v6'") == [(6,)]


@pytest.mark.slow
def test_columns_are_added_and_widened(tmp_path: Path) -> None:
    more: dict[str, pa.DataType] = {"x": pa.list_(pa.field("element", pa.int32())), "y": pa.float64()}
    wide = pa.schema({**COLUMNS, "id": pa.int64(), **more})
    with closing(DuckLakeFormat(tmp_path)) as form:
        table = table_at(form, tmp_path)
        table.commit([written(table, 1, 1)], Landed(1, SCHEMA, "1/2"))
        own = table.file_schema(wide)
        made = pa.table([[1 << 40], ["w"], [AT], [[7]], [float("nan")]], schema=wide)
        coming = write_data_file(made.cast(own), table.staging, file_name(2), own)
        table.commit([coming], Landed(2, wide, "1/2"))
        assert form.schema(tmp_path / "public.t", "public.t", 1) == SCHEMA
        assert table_at(form, tmp_path).landed.schema == wide
    assert rows(tmp_path, "SELECT id, x FROM lake.public.t ORDER BY id") == [(1, None), (1 << 40, [7])]
    assert rows(tmp_path, "SELECT count(*) FROM lake.public.t WHERE y IS NULL OR y > 5") == [(2,)]
    assert rows(tmp_path, "SELECT typeof(id) FROM lake.public.t AT (VERSION => 1)") == [("INTEGER",)]


@pytest.mark.slow
def test_two_that_land_the_same_are_told(tmp_path: Path) -> None:
    with closing(DuckLakeFormat(tmp_path)) as form, closing(DuckLakeFormat(tmp_path)) as second:
        table, other = table_at(form, tmp_path), table_at(second, tmp_path)
        table.commit([written(table, 1, 1)], Landed(1, SCHEMA, "1/2"))
        with pytest.raises(LakeConflictError, match="made, or dropped, meanwhile"):
            other.commit([written(other, 1, 1)], Landed(1, SCHEMA, "1/2"))
        other = table_at(second, tmp_path)
        table.commit([written(table, 2, 2)], Landed(2, SCHEMA, "1/2"))
        with pytest.raises(LakeConflictError, match="has come to 0/2 meanwhile"):
            other.commit([written(other, 2, 2)], Landed(2, SCHEMA, "1/2"))
        with pytest.raises(LakeError, match="has rows of 1/2, not of 3/4"):
            form.table(tmp_path / "public.t", "3/4", "public.t")
    assert ids(tmp_path) == [1, 2]


@pytest.mark.slow
def test_duckdb_merges_files_meanwhile(tmp_path: Path) -> None:
    """What adds rows goes on; what takes away a file that is gone is refused, and nothing of it is there."""
    with closing(DuckLakeFormat(tmp_path, deletes_beside=True)) as form:
        table = table_at(form, tmp_path)
        files = [written(table, number, number) for number in (1, 2)]
        for number, file in enumerate(files, 1):
            table.commit([file], Landed(number, SCHEMA, "1/2"))
        with attached(f"sqlite:{tmp_path}/ducklake.sqlite", writes=True) as connection:
            connection.execute("CALL ducklake_merge_adjacent_files('lake')")
        with pytest.raises(LakeConflictError, match="rewritten meanwhile"):
            table.commit([], Landed(3, SCHEMA, "1/2"), [files[0].path])
        table = table_at(form, tmp_path)
        table.commit([written(table, 4, 4)], Landed(4, SCHEMA, "1/2"))
        (merged,) = [path for path in table.files if path.startswith("ducklake-")]
        table.commit_deleting([], Landed(5, SCHEMA, "1/2"), [], {merged: np.array([0])})
    assert len(ids(tmp_path)) == 2


@pytest.mark.slow
def test_versions_expire(tmp_path: Path) -> None:
    with closing(DuckLakeFormat(tmp_path)) as form:
        table = table_at(form, tmp_path)
        files = [written(table, number, number) for number in (1, 2, 3)]
        table.commit(files[:1], Landed(1, SCHEMA, "1/2"))
        table.commit(files[1:2], Landed(2, SCHEMA, "1/2"), [files[0].path])
        table.commit(files[2:], Landed(3, SCHEMA, "1/2"), [files[1].path])
        written(table, 4, 4)
        place, soon = tmp_path / "public.t", datetime.now(UTC) + timedelta(seconds=1)
        form.forget_versions({2}, datetime.now(UTC) - timedelta(days=1))
        assert form.expire(place, "public.t", {2}, datetime.now(UTC) - timedelta(days=1)).files == 0
        form.forget_versions({2}, soon)
        assert form.expire(place, "public.t", {2}, soon).files == 2  # of the first version, and of none
        with pytest.raises(LakeError, match="snapshot 1 has expired"):
            form.size(place, "public.t", 1)
    assert (ids(tmp_path, "AT (VERSION => 2)"), ids(tmp_path)) == ([2], [3])
    assert {path.name for path in place.iterdir()} == {files[1].path, files[2].path}


_NUMBERS: list[pa.Field[Any]] = [pa.field(name, pa.int64()) for name in ("_commit_lsn", "_lsn", "_seq")]
CHANGES = pa.schema([pa.field("_change_type", pa.string()), *_NUMBERS, pa.field("id", pa.int32())])


def change_file(table: LakeTable, lsn: int, *ids: int) -> DataFile:
    """Write a file of changes of a commit; the last one first."""
    made = [["insert"] * len(ids), [lsn] * len(ids), [lsn] * len(ids), [*reversed(range(len(ids)))], ids]
    own = table.file_schema(CHANGES)
    return write_data_file(pa.table(made, schema=CHANGES).cast(own), table.staging, file_name(lsn), own)


def test_who_follows_the_table_sees_nothing_of_merged_files(tmp_path: Path) -> None:
    """What DuckDB reads of each version, and as its changes, is the same as before, however often files are merged."""
    with closing(DuckLakeFormat(tmp_path)) as form:
        table, expected = table_at(form, tmp_path), []
        for lsn in range(1, 7):
            table.commit([change_file(table, lsn, lsn, lsn + 10)], Landed(lsn, CHANGES, "1/2"))
            expected += [(lsn, row_id, "insert", number) for row_id, number in enumerate((lsn, lsn + 10), 2 * lsn - 2)]
            if lsn % 2 == 0:
                assert len(list(compacting(table, 1 << 20))) == 1
        assert len(table.files) == 1
        place, versions = tmp_path / "public.t", sorted({version for version, *_ in changes_of(tmp_path)})
        assert [form.size(place, "public.t", version).rows for version in versions] == [2, 4, 6, 8, 10, 12]
        soon = datetime.now(UTC) + timedelta(seconds=5)
        assert form.expire(place, "public.t", {*versions}, datetime.now(UTC) - timedelta(days=1)).files == 0
        assert form.expire(place, "public.t", {*versions}, soon).files == 8
        assert table_at(form, tmp_path).files.keys() == table.files.keys()
    assert [(row_id, kind, number) for _, row_id, kind, number in changes_of(tmp_path)] == [
        (row_id, kind, number) for _, row_id, kind, number in expected
    ]
    for at, version in enumerate(versions, 1):
        assert ids(tmp_path, f"AT (VERSION => {version})") == sorted([*range(1, at + 1), *range(11, at + 11)])
    (kinds,) = rows(tmp_path, "SELECT changes FROM ducklake_snapshots('lake') ORDER BY snapshot_id DESC LIMIT 1")
    assert list(kinds[0]) == ["merge_adjacent"]


def changes_of(place: Path) -> list[Any]:
    """Ask DuckDB for the changes of all versions: snapshot, row id, what, id."""
    ((last,),) = rows(place, "SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
    asked = f"SELECT snapshot_id, rowid, change_type, id FROM ducklake_table_changes('lake', 'public', 't', 0, {last})"
    return sorted(rows(place, asked))


@pytest.mark.server
@pytest.mark.slow
def test_the_catalog_is_in_postgres(tmp_path: Path) -> None:
    """Others have tables in it, and commit at the same time."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        known = server.connection_info()
        catalog = "postgres:" + " ".join(f"{name}={value}" for name, value in known.items() if name != "password")
        with closing(DuckLakeFormat(tmp_path / "other", catalog)) as form:
            others = form.table(tmp_path / "other" / "public.o", "3/4", "public.o")
            others.commit([written(others, 1, 9)], Landed(1, SCHEMA, "3/4"))
            with closing(DuckLakeFormat(tmp_path / "lake", catalog, deletes_beside=True)) as own:
                table = table_at(own, tmp_path / "lake")
                first = written(table, 1, 1, 2)
                table.commit([first], Landed(1, SCHEMA, "1/2"))
                others.commit([written(others, 2, 10)], Landed(2, SCHEMA, "3/4"))
                table.commit_deleting([], Landed(2, SCHEMA, "1/2"), [], {first.path: np.array([1])})
                assert table_at(own, tmp_path / "lake").files == table.files
                soon = datetime.now(UTC) + timedelta(seconds=1)
                own.forget_versions({table.version}, soon)
                own.expire(tmp_path / "lake" / "public.t", "public.t", {table.version}, soon)
        with attached(catalog) as connection:
            read = [connection.execute(f"SELECT id FROM lake.public.{name}").fetchall() for name in ("t", "o")]
    assert [sorted(rows) for rows in read] == [[(1,)], [(9,), (10,)]]


@pytest.mark.slow
def test_the_catalog_is_in_a_file_of_duckdb(tmp_path: Path) -> None:
    """It is read by both of its names, every version of it; a second process is told, and changes nothing."""
    catalog = f"duckdb:{tmp_path / 'catalog.duckdb'}"
    with closing(DuckLakeFormat(tmp_path / "lake", catalog, deletes_beside=True)) as form:
        table, other = table_at(form, tmp_path / "lake"), table_at(form, tmp_path / "lake", "public.u")
        first, second = written(table, 1, 1, 2), written(table, 2, 3)
        form.commit([TableCommit(table, [first], Landed(1, SCHEMA, "1/2"))])
        form.commit([TableCommit(each, [written(each, 2, 6)], Landed(2, SCHEMA, "1/2")) for each in (table, other)])
        table.commit_deleting([second], Landed(3, SCHEMA, "1/2"), [], {first.path: np.array([1])})
        assert table_at(form, tmp_path / "lake").files == table.files
        command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "lake"), catalog]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert "LakeConflictError: another process has the catalog open" in ended.stderr
        with closing(DuckLakeFormat(tmp_path / "lake", catalog)) as again:
            late = table_at(again, tmp_path / "lake")
            table.commit([written(table, 4, 7)], Landed(4, SCHEMA, "1/2"))
            with pytest.raises(LakeConflictError, match="has come to 0/4 meanwhile"):
                late.commit([written(late, 4, 7)], Landed(4, SCHEMA, "1/2"))
        soon = datetime.now(UTC) + timedelta(seconds=1)
        form.forget_versions({2}, soon)
        form.expire(tmp_path / "lake" / "public.t", "public.t", {2}, soon)
    for name in (catalog, catalog.removeprefix("duckdb:")):
        with attached(name) as connection:
            read = [
                connection.execute(f"SELECT id FROM lake.public.t {at} ORDER BY id").fetchall()
                for at in ("", "AT (VERSION => 2)")
            ]
        assert read == [[(1,), (3,), (6,), (7,)], [(1,), (2,), (6,)]]


ELSEWHERE = """
import sys
from pathlib import Path
from headwater.lakes.compaction import compacting
from headwater.lakes.ducklake_table import DuckLakeFormat
DuckLakeFormat(Path(sys.argv[1]), sys.argv[2])
"""


def landing_for_ever(place: Path) -> None:
    """Commit windows of two tables: the next row to each, where the last one has come to."""
    with closing(DuckLakeFormat(place)) as form:
        tables = [table_at(form, place, f"public.{name}") for name in ("t", "u")]
        while True:
            lsn = max(tables[0].landed.commit_lsn, 0) + 1
            landed = Landed(lsn, SCHEMA, "1/2")
            form.commit([TableCommit(each, [written(each, lsn, lsn)], landed) for each in tables])


@pytest.mark.slow
def test_a_window_is_whole_or_not_there_when_a_run_is_killed(tmp_path: Path) -> None:
    context, reached = get_context("spawn"), [0]
    for kill in range(4):
        process = context.Process(target=landing_for_ever, args=(tmp_path,))
        process.start()
        while last_of(tmp_path) < reached[-1] + 2 + kill:
            assert process.is_alive()
        process.kill()
        process.join()
        with closing(DuckLakeFormat(tmp_path)) as form:
            tables = [table_at(form, tmp_path, f"public.{name}") for name in ("t", "u")]
            (lsn,) = {table.landed.commit_lsn for table in tables}
            assert all(
                sorted(file.lower["id"] for file in table.files.values()) == [*range(1, lsn + 1)] for table in tables
            )
        reached.append(lsn)
    assert ids(tmp_path) == [*range(1, lsn + 1)]


def last_of(place: Path) -> int:
    """Return the number of the last snapshot; 0 for none."""
    path = place / "ducklake.sqlite"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as catalog:
        known = catalog.execute("SELECT 1 FROM sqlite_master WHERE name = 'ducklake_snapshot'").fetchall()
        return int(catalog.execute("SELECT max(snapshot_id) FROM ducklake_snapshot").fetchone()[0]) if known else 0


def test_catalogs_that_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no catalog of DuckLake"):
        DuckLakeFormat(tmp_path, "metadata.ducklake")
    with pytest.raises(UsageError, match="password"):
        DuckLakeFormat(tmp_path, "postgres:dbname=x password=y")
    with closing(DuckLakeFormat(tmp_path)) as form:
        form.database.rows("UPDATE ducklake_metadata SET value = '9.9' WHERE key = 'version'")
    with pytest.raises(LakeError, match=r"format 9\.9, not 1\.0"):
        DuckLakeFormat(tmp_path)
