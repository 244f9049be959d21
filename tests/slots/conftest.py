"""One server's run for the tests of slots, and what its plugins said of it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.servers import copy_wal, make_slot, peek, run, small_server
from headwater.cli.main import main
from headwater.cli.shared_flags import EngineFlags
from headwater.errors import HeadwaterWarning
from headwater.jobs.local_engine import LocalEngine
from headwater.pg.lsn import Lsn

Command = Callable[..., tuple[int, bytes, str]]
"""Runs the command here with arguments: status, standard output and error."""


@dataclass(frozen=True)
class ServerRun:
    """Files of a stopped server, and all lines of its slot: LSN, xid, data."""

    backup: Path
    wal: Path
    lines: bytes


@pytest.fixture(scope="session")
def server_run(tmp_path_factory: pytest.TempPathFactory) -> ServerRun:
    directory = tmp_path_factory.mktemp("slots")
    with small_server(16) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        run(server, "CREATE PUBLICATION every FOR ALL TABLES")
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        make_slot(server, "s")
        for number in range(60):
            first, last = number * 100, number * 100 + 99
            run(server, f"INSERT INTO t SELECT g, rpad('row ' || g, 500, '.') FROM generate_series({first}, {last}) g")
            run(server, f"UPDATE t SET a = a || '!' WHERE id = {first}")
            if number % 20 == 10:
                run(server, f"ALTER TABLE t ADD COLUMN c{number} int DEFAULT {number}")
        lines = peek(server, "s")
        server.stop()
        return ServerRun(backup, copy_wal(server, directory / "wal"), lines)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Return a function that runs the command in this process, tasks and all."""
    monkeypatch.setattr(EngineFlags, "choose", lambda *_: LocalEngine())

    def run_here(*arguments: object) -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "argv", ["headwater", *map(str, arguments)])
        capfdbinary.readouterr()
        status = 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", HeadwaterWarning)
                main()
        except SystemExit as end:
            status = int(end.code or 0)
        written = capfdbinary.readouterr()
        return status, written.out, written.err.decode()

    return run_here


def done(command: Command, *arguments: object) -> bytes:
    """Return standard output of a command that succeeds."""
    status, out, errors = command(*arguments)
    assert status == 0, errors
    return out


def refused(command: Command, *arguments: object) -> str:
    """Return standard error of a command that fails."""
    status, out, errors = command(*arguments)
    assert status in (1, 2), out
    return errors


def create_slot(command: Command, path: Path, made: ServerRun) -> None:
    """Create a slot at the beginning of a server's run."""
    done(command, "slot", "create", path, "--wal", made.wal, "--catalog", made.backup, "--database", "postgres")


def lsns(lines: bytes) -> list[int]:
    """Read the LSNs of lines as --with-lsn prints them."""
    return [Lsn.parse(line.split(b"\t")[0].decode()) for line in lines.splitlines()]
