"""The corpus: the files of a server that has gone through the workload, and what reading them unharmed gives.

A corpus is a directory. ``backup`` is the data directory before the workload. ``wal`` holds 1 MB segments, a few lines
of the workload from a segment's start on. ``states`` holds the state at each segment's start, as ``--keep-states``
writes it. A corpus is made once for a directory and a text of the workload, so that an input's number means the same
bytes again.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg

from fuzz import workload
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pipeline.requests.open_request import open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import windows_in_threads
from headwater.slots.kept_state import KeptState, find_state, keep_state
from headwater.wal.segments.directory import WalDirectory

SEGMENT = 1 << 20
LINES = 4
"""As many lines of the workload have a segment of their own."""

_DONE = "complete"


@dataclass(frozen=True)
class Corpus:
    """The files of one server.

    Attributes:
        path: of the directory.
        major: the server's.
    """

    path: Path
    major: int

    @property
    def backup(self) -> Path:
        """Data directory from before the workload."""
        return self.path / "backup"

    @property
    def wal(self) -> Path:
        """The segments."""
        return self.path / "wal"

    @property
    def states(self) -> Path:
        """States at segments' starts."""
        return self.path / "states"

    @cached_property
    def kept(self) -> list[KeptState]:
        """The states, in the order of their LSNs."""
        return [find_state(path, None) for path in sorted(self.states.iterdir())]

    @cached_property
    def directory(self) -> WalDirectory:
        """The WAL, unharmed."""
        return WalDirectory.scan(self.wal)


def get_corpus(directory: Path, major: int) -> Corpus:
    """Return the corpus of a major; made, if it is not there yet or is of another workload."""
    text = hashlib.sha256(Path(workload.__file__).read_bytes() + Path(__file__).read_bytes()).hexdigest()[:12]
    corpus = Corpus(directory / f"{major}-{text}", major)
    if not (corpus.path / _DONE).exists():
        shutil.rmtree(corpus.path, ignore_errors=True)
        corpus.path.mkdir(parents=True)
        _run_server(corpus)
        _keep_states(corpus)
        (corpus.path / _DONE).touch()
    return corpus


def _run_server(corpus: Corpus) -> None:
    with EmbeddedPostgres(find_programs(corpus.major), wal_segment_megabytes=1, autovacuum=False) as server:
        with server.connect() as connection:
            _execute(connection, workload.statements(workload.BEFORE, corpus.major))
        server.stop()
        server.copy_data_directory(corpus.backup)
        server.start()
        _work(server)
        server.stop()
        shutil.copytree(server.wal_directory, corpus.wal)


def _work(server: EmbeddedPostgres) -> None:
    major = server.programs.major
    with server.connect() as connection, server.connect() as other:
        connection.execute("SET statement_timeout = '20s'")
        connection.execute("SELECT pg_switch_wal()")
        for number, step in enumerate(workload.STEPS):
            if number == 1:
                _execute(other, workload.OPEN)
            if number == len(workload.STEPS) - 1:
                other.execute("COMMIT")
            for first in range(0, len(step), LINES):
                _execute(connection, workload.statements(step[first : first + LINES], major))
                connection.execute("SELECT pg_switch_wal()")


def _execute(connection: psycopg.Connection[tuple[object, ...]], statements: Iterable[str]) -> None:
    for statement in statements:
        with _named(statement):
            connection.execute(statement)


@contextmanager
def _named(statement: str) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InvalidParameterValue:
        # This server was built without that compression.
        if "wal_compression" not in statement:
            raise
    except psycopg.Error as error:
        raise RuntimeError(f"{statement}: {error}") from error


def _keep_states(corpus: Corpus) -> None:
    """Go through the WAL, a segment a window."""
    request = DecodeRequest(wal=str(corpus.wal), catalog=str(corpus.backup), database="postgres")
    opened = open_request(request)
    corpus.states.mkdir()
    for window in windows_in_threads(opened, Scope(SEGMENT), WindowBounds(SEGMENT)):
        state = window.behind.state(opened.directory.timeline_at(window.behind.lsn))
        if state.lsn % SEGMENT == 0:
            keep_state(corpus.states, KeptState(state, opened.server_settings))
