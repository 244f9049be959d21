"""Mirrors whose rows are deleted beside files are what the server has, whatever is done to the files meanwhile."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headwater.errors import LakeConflictError, LakeError
from headwater.jobs.engine import Engine
from headwater.lakes.data_files import write_data_file
from headwater.lakes.deletes import deletion_vectors
from headwater.lakes.delta_table import DeltaLakeTable
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.lake_table import DataFile, Landed, file_name
from headwater.lakes.landing_target import COPY_ON_WRITE, FORMATS, MERGE_ON_READ, LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.landing.landing import land
from headwater.landing.landing_modes import CURRENT, HISTORY
from headwater.landing.landing_pass import LandingResult
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.iceberg_lakes import ICEBERG_3, target_of
from landing.mirrored_log import as_of
from landing.mirrors import Rows, columns_by_number, mirror_rows, read_table, server_rows

pytestmark = [pytest.mark.server, pytest.mark.spark]

TABLES = ("numbered", "named", "long", "parts", "notes")
ROWS, ROUNDS = 400, 12
SETUP = f"""
CREATE TABLE numbered (id int PRIMARY KEY, v text);
CREATE TABLE named (name text, at uuid, v numeric(12, 2), PRIMARY KEY (name, at));
CREATE TABLE long (id bigint PRIMARY KEY, v int, long text);
ALTER TABLE long ALTER long SET STORAGE EXTERNAL;
CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO ({ROWS // 2});
CREATE TABLE high PARTITION OF parts FOR VALUES FROM ({ROWS // 2}) TO (MAXVALUE);
CREATE TABLE notes (x int);
INSERT INTO notes SELECT n % 7 FROM generate_series(1, {ROWS}) n;
INSERT INTO numbered SELECT n, n::text FROM generate_series(1, {ROWS}) n;
INSERT INTO named SELECT 'n' || n, md5(n::text)::uuid, n FROM generate_series(1, {ROWS}) n;
INSERT INTO long SELECT n, n, repeat(md5(n::text), 100) FROM generate_series(1, {ROWS}) n;
INSERT INTO parts SELECT n, n::text FROM generate_series(1, {ROWS}) n;
"""


@dataclass(frozen=True)
class Log:
    """A server's copy and WAL.

    Attributes:
        backup, wal: files.
        moments: LSNs, and what tables held there: numbers of columns, and rows.
    """

    backup: Path
    wal: Path
    moments: dict[int, dict[str, tuple[list[int], Rows]]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    place, rng = tmp_path_factory.mktemp("deleting"), random.Random(7)
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.execute(SETUP)
        server.stop()
        backup = server.copy_data_directory(place / "backup")
        server.start()
        moments = {}
        with server.connect() as connection:
            connection.autocommit = True
            for number in range(ROUNDS):
                _work(connection, rng, number)
                row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
                assert row is not None
                moments[int(Lsn.parse(row[0]))] = {table: server_rows(connection, table) for table in TABLES}
                connection.execute("SELECT pg_switch_wal()")
        server.stop()
        yield Log(backup, server.wal_directory, moments)


def _work(connection: Any, rng: random.Random, number: int) -> None:
    """Change some rows of each table; in some rounds, what concerns all of them."""
    for _ in range(12):
        row, other = rng.randint(1, ROWS), rng.randint(1, 3 * ROWS)
        statements = [
            f"UPDATE numbered SET v = v || 'x' WHERE id = {row}",
            f"DELETE FROM numbered WHERE id = {other}",
            f"INSERT INTO numbered VALUES ({other}, 'new') ON CONFLICT DO NOTHING",
            f"UPDATE numbered SET id = {2 * ROWS + other} WHERE id = {row} AND {other} NOT IN "
            f"(SELECT id - {2 * ROWS} FROM numbered)",
            f"UPDATE named SET v = v + 1 WHERE name = 'n{row}'",
            f"UPDATE named SET name = name || 'é' WHERE name = 'n{row}'",
            f"DELETE FROM named WHERE name = 'n{row}'",
            f"UPDATE long SET v = v + 1 WHERE id = {row}",
            f"UPDATE long SET id = -id WHERE id = {row}",
            f"INSERT INTO notes VALUES ({row % 7})",
            f"UPDATE parts SET v = v || 'y' WHERE id = {row}",
            f"UPDATE parts SET id = {3 * ROWS} - id WHERE id = {row} AND {3 * ROWS} - {row} NOT IN "
            "(SELECT id FROM parts)",
        ]
        for statement in rng.sample(statements, 5):
            connection.execute(statement)
    if number == 3:
        connection.execute("ALTER TABLE named ADD COLUMN more int DEFAULT 5")
        connection.execute("TRUNCATE low")
    if number == 4:
        connection.execute("ALTER TABLE numbered ADD COLUMN more timestamp")
        connection.execute("UPDATE numbered SET more = '2026-01-01' WHERE id < 20")


THIRD = pytest.param(ICEBERG_3, marks=pytest.mark.slow)
FORMS = [*FORMATS, THIRD]


def deleting(place: Path, form: str = "delta", mode: str = CURRENT) -> LandingTarget:
    return target_of(place, form, mode=mode, write_mode=MERGE_ON_READ)


def landed(engine: Engine, log: Log, target: LandingTarget, end: int) -> LandingResult:
    asked = DecodeRequest(str(log.wal), str(log.backup), "postgres", end=Lsn(end))
    return land(engine, asked, target, bounds=WindowBounds(1 << 20))


def require_equal(log: Log, target: LandingTarget, lsn: int) -> None:
    for name, (numbers, rows) in log.moments[lsn].items():
        columns = columns_by_number(target.place / f"public.{name}", target.format)
        held = read_table(target.place / f"public.{name}", target.format)
        if target.mode == HISTORY:
            held = held.filter(as_of(lsn))
        ours = mirror_rows(held, [columns[number] for number in numbers])
        assert ours == rows, f"{name}: missing {rows - ours}, not on the server {ours - rows}"


CURRENT_DELETES = """SELECT count(*) FROM ducklake_delete_file JOIN ducklake_table USING (table_id)
    WHERE table_name = ? AND ducklake_delete_file.end_snapshot IS NULL AND ducklake_table.end_snapshot IS NULL"""


def deletes(target: LandingTarget, name: str) -> int:
    """Count vectors, or delete files, of a table."""
    if target.format == "delta":
        return sum(batch.num_rows for batch in DeltaTable(str(target.place / f"public.{name}")).deletion_vectors())
    if target.format == "parquet":
        return sum(file.deleted is not None for file in table_of(target, name).values())
    if target.format == "ducklake":
        with closing(sqlite3.connect(target.place / "ducklake.sqlite")) as connection:
            (count,) = connection.execute(CURRENT_DELETES, [name]).fetchone()
            return int(count)
    with closing(own_catalog(target.place)) as catalog:
        tasks = catalog.load_table(("public", name)).scan().plan_files()
        return len({file.file_path for task in tasks for file in task.delete_files})


def table_of(target: LandingTarget, name: str) -> Mapping[str, DataFile]:
    """Return the files of a table."""
    with Lake(target) as lake:
        return {key: table.files for key, table in lake.tables.landed()}.get(f"public.{name}", {})


@pytest.mark.parametrize("mode", [CURRENT, HISTORY])
@pytest.mark.parametrize("form", FORMS)
def test_mirrors_are_what_the_server_has(engine: Engine, log: Log, tmp_path: Path, form: str, mode: str) -> None:
    target, seen = deleting(tmp_path / "lake", form, mode), set()
    for lsn in log.moments:
        landed(engine, log, target, lsn)
        require_equal(log, target, lsn)
        seen |= {name for name in TABLES if deletes(target, name)}
    assert seen == {*TABLES} - {"notes"}
    for lsn in log.moments if mode == HISTORY else ():
        require_equal(log, target, lsn)
    again = landed(engine, log, target, lsn)
    assert (again.rows, again.files) == ({}, 0)


@pytest.mark.parametrize("form", FORMS)
def test_the_write_mode_may_change(engine: Engine, log: Log, tmp_path: Path, form: str) -> None:
    target = target_of(tmp_path / "lake", form, mode="current")
    modes = [COPY_ON_WRITE, MERGE_ON_READ, MERGE_ON_READ, COPY_ON_WRITE]
    for number, lsn in enumerate(log.moments):
        write_mode = modes[number % len(modes)]
        landed(engine, log, replace(target, write_mode=write_mode), lsn)
        require_equal(log, target, lsn)


@pytest.mark.parametrize("form", FORMS)
def test_deletes_are_folded_away(engine: Engine, log: Log, tmp_path: Path, form: str) -> None:
    """Files stay few, and none has much that is deleted; without a budget all stay."""
    counts = {}
    for budget in (0, 1 << 20):
        target = replace(deleting(tmp_path / f"lake-{budget}", form), rewrite_budget=budget)
        for lsn in log.moments:
            landed(engine, log, target, lsn)
        require_equal(log, target, lsn)
        with Lake(target) as lake:
            files = [file for _, table in lake.tables.landed() for file in table.files.values()]
        counts[budget] = len(files)
        if budget:
            assert all(file.left >= 0.7 * file.rows for file in files)
    assert counts[1 << 20] < counts[0] - 12


DELETE_FILES = {"delta": "deletion_vector_*.bin", "iceberg": "*-deletes.parquet", ICEBERG_3: "*-deletes.puffin"}


@pytest.mark.parametrize("form", ["delta", "iceberg", THIRD])
def test_old_versions_expire(
    engine: Engine, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES", 0)
    target = deleting(tmp_path / "lake", form)
    for lsn in list(log.moments)[:-1]:
        landed(engine, log, target, lsn)
    there = len(list(target.place.rglob(DELETE_FILES[form])))
    with Lake(target) as lake:
        expired = lake.expire(datetime.now(UTC) - timedelta(days=1))
        assert not any(table.files for table in expired.values())
        expired = lake.expire(datetime.now(UTC) + timedelta(seconds=1))
        assert all(table.files for table in expired.values())
    assert 0 < len(list(target.place.rglob(DELETE_FILES[form]))) < there
    require_equal(log, target, lsn)
    landed(engine, log, target, max(log.moments))
    require_equal(log, target, max(log.moments))


@pytest.mark.parametrize("mode", [CURRENT, HISTORY])
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_others_rewrite_files_and_the_index_is_lost(
    engine: Engine, log: Log, tmp_path: Path, form: str, mode: str
) -> None:
    target = deleting(tmp_path / "lake", form, mode)
    for number, lsn in enumerate(log.moments):
        landed(engine, log, target, lsn)
        require_equal(log, target, lsn)
        if number % 3 == 0:
            rewrite(target, "numbered")
            if form == "delta":
                DeltaTable(str(target.place / "public.named")).create_checkpoint()
        if number % 4 == 1:
            for run in (target.place / "_headwater" / "keys").rglob("*.run"):
                run.write_bytes(run.read_bytes()[:-1])


def rewrite(target: LandingTarget, name: str) -> None:
    """Put the rows of a table into files of another program's."""
    if target.format == "delta":
        DeltaTable(str(target.place / f"public.{name}")).optimize.compact()
        return
    with closing(own_catalog(target.place)) as catalog:
        table = catalog.load_table(("public", name))
        table.overwrite(table.scan().to_arrow())


def ids(place: Path) -> list[int]:
    return sorted(number for (number,) in mirror_rows(read_table(place, "delta"), ["id"]).elements())


def test_somebody_else_rewrites_a_file_while_a_window_lands(tmp_path: Path) -> None:
    """A commit of deletes is refused, and none is half there; one that adds rows alone is taken."""
    place, schema = tmp_path / "t", pa.schema([("id", pa.int64())])
    (place / "_delta_log").mkdir(parents=True)
    (place / "_delta_log" / f"{0:020d}.json.01ab.part").write_text("of a process that was killed")
    table = DeltaLakeTable(place, "1/2", "t", deletes_beside=True)
    files = [write_data_file(pa.table({"id": [n, n + 1]}), table.staging, file_name(n)) for n in range(3)]
    table.commit(files[:2], Landed(1, schema, "1/2"))
    DeltaTable(str(place)).optimize.compact()
    with pytest.raises(LakeConflictError, match="rewritten meanwhile"):
        table.commit_deleting([], Landed(2, schema, "1/2"), [], {files[0].path: np.array([0])})
    table.commit([files[2]], Landed(3, schema, "1/2"))
    assert ids(place) == [0, 1, 1, 2, 2, 3]
    assert len(table.files) == 2
    table.commit_deleting([], Landed(4, schema, "1/2"), [], {files[2].path: np.array([1])})
    other = DeltaLakeTable(place, "1/2", "t")
    assert other.files == table.files
    table.commit_deleting([], Landed(5, schema, "1/2"), [], {files[2].path: np.array([0])})
    assert ids(place) == [0, 1, 1, 2]
    with pytest.raises(LakeConflictError, match="has come to"):
        other.commit([], Landed(6, schema, "1/2"))


def test_an_index_that_cannot_be_written_is_an_error(engine: Engine, log: Log, tmp_path: Path) -> None:
    target, first = deleting(tmp_path / "lake"), min(log.moments)
    with Lake(target) as lake:
        lake.indexes.write_text("no directory")
    with pytest.raises(LakeError, match="_headwater/keys"):
        landed(engine, log, target, first)
    (target.place / "_headwater" / "keys").unlink()
    landed(engine, log, target, first)
    require_equal(log, target, first)


def test_somebody_else_rewrites_a_file_that_a_window_takes_away(tmp_path: Path) -> None:
    """Copy-on-write, too: its rows would else be there twice, or still."""
    place, schema = tmp_path / "t", pa.schema([("id", pa.int64())])
    table = DeltaLakeTable(place, "1/2", "t")
    files = [write_data_file(pa.table({"id": [n]}), table.staging, file_name(n)) for n in range(3)]
    table.commit(files[:2], Landed(1, schema, "1/2"))
    DeltaTable(str(place)).optimize.compact()
    with pytest.raises(LakeConflictError, match="rewritten meanwhile"):
        table.commit([files[2]], Landed(2, schema, "1/2"), [files[0].path])
    assert ids(place) == [0, 1]
