"""One server's WAL in the forms that archives have: the command and the data source say what the server said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater.pg.lsn import Lsn
from headwater.pipeline.source import HeadwaterDataSource
from slots.conftest import Command, ServerRun, done, lsns, refused
from sources.archives import ARCHIVES

pytestmark = [pytest.mark.server, pytest.mark.spark]

DAILY = ("pg_receivewal.lz4", "pgBackRest.zst", "WAL-G.br", "barman.gz", "simple.xz")
ALL = [name if name in DAILY else pytest.param(name, marks=pytest.mark.slow) for name in ARCHIVES]


def decode(server_run: ServerRun, *wal: Path) -> list[str | Path]:
    """The command's words for a run's window."""
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


def test_rows_and_records_of_an_archive(spark: Any, server_run: ServerRun, tmp_path: Path) -> None:
    spark.dataSource.register(HeadwaterDataSource)
    archive = ARCHIVES["barman.zst"](server_run.wal, tmp_path)
    given = {"catalog": str(server_run.backup), "database": "postgres", "timeline": "1"}

    def counts(path: str, **options: str) -> list[tuple[object, ...]]:
        rows = spark.read.format("headwater").options(path=path, **options).load()
        return sorted(map(tuple, rows.groupBy(rows.columns[1]).count().collect()), key=str)

    assert counts(str(archive), **given) == counts(str(server_run.wal), **given)
    assert counts(str(archive), view="records") == counts(str(server_run.wal), view="records")
    both = f"{tmp_path / 'empty'}\n{archive}"
    (tmp_path / "empty").mkdir()
    assert counts(both, **given) == counts(str(server_run.wal), **given)
