"""One server's WAL in the forms that archives have: the command and the data source say what the server said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater.pg.lsn import Lsn
from headwater.source.data_source import HeadwaterDataSource
from slots.conftest import Command, ServerRun, done, lsns, refused
from sources.archives import ARCHIVES
from sources.s3_server import S3Server

pytestmark = [pytest.mark.server, pytest.mark.spark]

DAILY = ("pg_receivewal.lz4", "pgBackRest.zst", "WAL-G.br", "barman.gz", "simple.xz")
ALL = [name if name in DAILY else pytest.param(name, marks=pytest.mark.slow) for name in ARCHIVES]


def decode(server_run: ServerRun, *wal: Path) -> list[str | Path]:
    """Return the command's words for a run's window."""
    places = [word for path in wal for word in ("--wal", path)]
    begin = Lsn(lsns(server_run.lines)[0])
    return ["decode", *places, "--catalog", server_run.backup, "--start", str(begin), "--with-lsn", "-q"]


@pytest.mark.parametrize("name", ALL)
def test_an_archive_is_decoded(command: Command, server_run: ServerRun, tmp_path: Path, name: str) -> None:
    archive = ARCHIVES[name](server_run.wal, tmp_path)
    assert done(command, *decode(server_run, archive)) == server_run.lines


def test_an_archive_and_what_the_server_has_not_archived_yet(
    command: Command, server_run: ServerRun, tmp_path: Path
) -> None:
    """A slot keeps both places."""
    archive = ARCHIVES["pgBackRest.gz"](server_run.wal, tmp_path / "repo")
    own = tmp_path / "pg_wal"
    own.mkdir()
    files = sorted(archive.glob("*/0*"))
    for path in files[-4:]:
        shutil.copy(server_run.wal / path.name[:24], own)
        path.unlink()
    assert done(command, *decode(server_run, archive, own)) == server_run.lines
    words = ["--wal", archive, "--wal", own, "--catalog", server_run.backup, "--database", "postgres"]
    done(command, "slot", "create", tmp_path / "slot", *words)
    assert done(command, "decode", "--slot", tmp_path / "slot", "--with-lsn", "-q") == server_run.lines
    shown = json.loads(done(command, "slot", "show", tmp_path / "slot", "--json"))
    assert (shown["wal"], shown["timeline"]) == ([str(archive), str(own)], "newest")


def test_waldump_of_an_archive(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    archive = ARCHIVES["WAL-G.zst"](server_run.wal, tmp_path)
    assert done(command, "waldump", "--wal", archive) == done(command, "waldump", "--wal", server_run.wal)


def test_a_truncated_archive_stops_the_command(command: Command, server_run: ServerRun, tmp_path: Path) -> None:
    archive = ARCHIVES["simple.gz"](server_run.wal, tmp_path)
    path = sorted(archive.iterdir())[-2]
    path.write_bytes(path.read_bytes()[:-100])
    errors = refused(command, *decode(server_run, archive))
    assert "WAL segment is truncated: its packed file ends too early" in errors
    assert str(path) in errors


def test_rows_of_an_archive(spark: Any, server_run: ServerRun, tmp_path: Path) -> None:
    spark.dataSource.register(HeadwaterDataSource)
    archive = ARCHIVES["barman.zst"](server_run.wal, tmp_path)
    (tmp_path / "empty").mkdir()
    given = {"path": f"{tmp_path / 'empty'}\n{archive}", "catalog": str(server_run.backup), "timeline": "1"}
    rows = spark.read.format("headwater").options(**given, database="postgres", ddl="false").load()
    counts = {row[0]: row[1] for row in rows.groupBy("_op").count().collect()}
    assert counts == {word: server_run.lines.count(b": %s: " % word.upper().encode()) for word in ("insert", "update")}


@pytest.mark.slow
def test_records_of_an_archive(spark: Any, server_run: ServerRun, tmp_path: Path) -> None:
    spark.dataSource.register(HeadwaterDataSource)
    archive = ARCHIVES["barman.zst"](server_run.wal, tmp_path)
    reader = spark.read.format("headwater").option("view", "records").option("timeline", "1")
    actual, expected = (reader.load(str(path)).groupBy("record_type").count() for path in (archive, server_run.wal))
    assert sorted(map(tuple, actual.collect())) == sorted(map(tuple, expected.collect()))


@pytest.mark.slow
def test_a_stream_of_an_archive_that_gets_segments(spark: Any, server_run: ServerRun, tmp_path: Path) -> None:
    """The rows of a second run follow those of the first."""
    spark.dataSource.register(HeadwaterDataSource)
    whole = ARCHIVES["pgBackRest.zst"](server_run.wal, tmp_path / "whole")
    files = sorted(path for path in whole.glob("*/*") if path.is_file())
    archive = tmp_path / "archive" / files[0].parent.name
    archive.mkdir(parents=True)
    given = {"path": str(archive.parent), "catalog": str(server_run.backup), "database": "postgres"}
    given |= {"plugin": "test_decoding"}
    for part in (files[: len(files) // 2], files[len(files) // 2 :]):
        for path in part:
            shutil.copy(path, archive)
        rows = spark.readStream.format("headwater").options(**given).load()
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).format("parquet")
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    streamed = spark.read.parquet(str(tmp_path / "out")).count()
    batch = spark.read.format("headwater").options(**(given | {"path": str(server_run.wal)})).load()
    assert streamed == batch.count() > 0


# -- in a store


def flags(s3: S3Server, *addresses: str) -> list[str]:
    words = [word for address in addresses for word in ("--wal", address)]
    return [*words, *(word for pair in s3.options().items() for word in ("--storage-option", "=".join(pair)))]


def test_a_store_is_decoded(
    command: Command, fresh: S3Server, plain: str, server_run: ServerRun, tmp_path: Path
) -> None:
    window = ["--catalog", server_run.backup, "--database", "postgres"]
    begin = str(Lsn(lsns(server_run.lines)[0]))
    called = ["decode", *flags(fresh, plain), *window, "--start", begin, "--with-lsn", "-q"]
    assert done(command, *called) == server_run.lines
    done(command, "slot", "create", tmp_path / "slot", *flags(fresh, plain), *window)
    assert all(fresh.secret.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "Unable to locate credentials" in refused(command, "decode", "--slot", tmp_path / "slot")
    asked = flags(fresh)
    assert done(command, "decode", "--slot", tmp_path / "slot", *asked, "--with-lsn", "-q") == server_run.lines


@pytest.mark.slow
def test_rows_of_a_store(spark: Any, fresh: S3Server, plain: str, server_run: ServerRun) -> None:
    spark.dataSource.register(HeadwaterDataSource)
    given = {"catalog": str(server_run.backup), "database": "postgres"}
    storage = {f"storage.{name}": value for name, value in fresh.options().items()}

    def counts(path: str, **options: str) -> dict[str, int]:
        rows = spark.read.format("headwater").options(path=path, **options).load()
        return {row[0]: row[1] for row in rows.groupBy("_op").count().collect()}

    assert counts(plain, **given, **storage) == counts(str(server_run.wal), **given)
