"""A command that lands what a running server writes."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bad_input.running_command import Running, running
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs

AT_ONCE = ("--commit-every", "0")
"""Flags of a run that commits as soon as there is anything."""


@dataclass(frozen=True)
class Source:
    """A server that runs, and a copy of it from before its work."""

    server: EmbeddedPostgres
    backup: Path

    def run(self, *statements: str) -> None:
        with self.server.connect() as connection:
            for statement in statements:
                connection.execute(statement)


@contextmanager
def running_source(directory: Path) -> Iterator[Source]:
    """Have a server with a table ``t``, of segments of a megabyte, and a copy of it from before there are rows."""
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        yield Source(server, backup)


@contextmanager
def following(source: Source, wal: Path, target: Path, *flags: str, form: str = "parquet") -> Iterator[Running]:
    directory = target.parent / "temporary"
    directory.mkdir(exist_ok=True)
    where = ("--wal", wal, "--catalog", source.backup, "--database", "postgres", "--to", target, "--format", form)
    with running("land", *where, "--follow", *AT_ONCE, *flags, directory=directory) as process:
        yield process


def until_said(process: Running, words: str) -> str:
    """Wait for the next line of standard error that has some words in it."""
    assert process.process.stderr is not None
    lines = (line.decode().rstrip("\n") for line in iter(process.process.stderr.readline, b""))
    return next(line for line in lines if words in line)


def end(process: Running) -> str:
    process.process.send_signal(signal.SIGTERM)
    output = process.standard_error()
    assert process.process.wait() == 0, output
    return output


def scraped(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] != "#"}
