"""Rows of an initial copy, made of a backup and WAL: byte for byte what the server sends in a snapshot at the same LSN.

The snapshot is that of a slot: its consistent point is the LSN. Both sides have the settings of subscribers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg import pq

from bad_input.servers import conninfo_of, run, small_server
from headwater.demo.embedded_postgres import EmbeddedPostgres
from headwater.errors import SessionError
from headwater.jobs.local_engine import LocalEngine
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slot_moves import kept_at
from headwater.plugins.rows.plugin import RowChanges
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.copying.copied_rows import CopySource, copied_rows
from headwater.walsender.sql.copy_shapes import parse_copy
from serving.service import backup_of

pytestmark = pytest.mark.server

MAJORS = (14, 16, 18)
SETTINGS = {"datestyle": "ISO", "intervalstyle": "postgres", "extra_float_digits": "3", "search_path": ""}
BINARY = " WITH (FORMAT binary)"

Answer = list[bytes] | tuple[str, str, str | None, str | None]
"""Payloads of CopyData, or an error: SQLSTATE, message, detail, hint."""


class Snapshot:
    """A slot's snapshot on a server, in a session that reads by it."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._slot = pq.PGconn.connect(f"{conninfo_of(server)} replication=database".encode())
        made = self._slot.exec_(b"CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")
        self.lsn = Lsn.parse(_value(made, 1))
        name = _value(made, 2)
        self._session = pq.PGconn.connect(f"{conninfo_of(server)} client_encoding=UTF8".encode())
        for setting, value in SETTINGS.items():
            self._session.exec_(f"SET {setting} = '{value}'".encode())
        self._session.exec_(b"SET synchronize_seqscans = off")
        self._session.exec_(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
        self._session.exec_(f"SET TRANSACTION SNAPSHOT '{name}'".encode())

    def copy(self, statement: str) -> Answer:
        """Copy, in a subtransaction so that errors end nothing."""
        session = self._session
        session.exec_(b"SAVEPOINT before")
        result = session.exec_(statement.encode())
        if result.status != pq.ExecStatus.COPY_OUT:
            answer = _error(result)
            session.exec_(b"ROLLBACK TO before")
            return answer
        payloads = []
        while True:
            size, data = session.get_copy_data(0)
            if size < 0:
                break
            payloads.append(bytes(data))
        last = session.get_result()
        assert last is not None
        if last.status == pq.ExecStatus.COMMAND_OK:
            assert session.get_result() is None
            return payloads
        session.get_result()
        session.exec_(b"ROLLBACK TO before")
        return _error(last)

    def close(self) -> None:
        self._session.finish()
        self._slot.finish()


def _value(result: pq.abc.PGresult, column: int) -> str:
    value = result.get_value(0, column)
    assert value is not None, result.error_message
    return value.decode()


def _error(result: pq.abc.PGresult) -> Answer:
    field = pq.DiagnosticField
    state, message, detail, hint = (
        result.error_field(name)
        for name in (field.SQLSTATE, field.MESSAGE_PRIMARY, field.MESSAGE_DETAIL, field.MESSAGE_HINT)
    )
    assert state is not None
    assert message is not None
    return state.decode(), message.decode(), None if detail is None else detail.decode(), hint and hint.decode()


@dataclass(frozen=True)
class Copies:
    """A backup that rows are copied from, as of the LSN of a snapshot."""

    server: EmbeddedPostgres
    major: int
    backup: Path
    snapshot: Snapshot
    settings: Mapping[str, str]

    def state(self) -> KeptState:
        """Follow the catalog to the LSN."""
        request = DecodeRequest(
            wal=str(self.server.wal_directory),
            catalog=str(self.backup),
            database="postgres",
            plugin=RowChanges.name,
            with_definitions=False,
        )
        return kept_at(request, None, self.snapshot.lsn)

    def ours(self, at: KeptState, statement: str) -> Answer:
        copy = parse_copy(statement)
        assert copy is not None, statement
        directory = WalDirectory.scan(str(self.server.wal_directory))  # type: ignore[arg-type]
        source = CopySource(str(self.backup), directory, VERSIONS[self.major])
        try:
            out = copied_rows(source, at, copy, LocalEngine(), self.settings)
        except SessionError as error:
            return error.sqlstate, error.message, error.detail, error.hint
        payloads: list[bytes] = []
        for batch in out.batches:
            data, offsets = batch.data.tobytes(), batch.offsets.tolist()
            payloads += [data[low:high] for low, high in zip(offsets, offsets[1:], strict=False)]
        return payloads

    def compare(self, *statements: str) -> None:
        """Copy by statements, in text and in binary form."""
        at = self.state()
        for statement in statements:
            for form in ("", BINARY):
                expected = self.snapshot.copy(statement + form)
                assert self.ours(at, statement + form) == expected, statement + form


@contextmanager
def copies(server: EmbeddedPostgres, major: int, backup: Path, **settings: Any) -> Iterator[Copies]:
    snapshot = Snapshot(server)
    try:
        yield Copies(server, major, backup, snapshot, {**SETTINGS, **settings})
    finally:
        snapshot.close()


@pytest.mark.parametrize("major", MAJORS)
def test_a_plain_table(tmp_path: Path, major: int) -> None:
    with small_server(major, wal_level="logical") as server:
        run(server, "CREATE TABLE t (id int, name text)", "INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, E'a\\tb\\\\')")
        backup = backup_of(server, tmp_path / "base")
        run(server, "INSERT INTO t VALUES (4, 'four')", "DELETE FROM t WHERE id = 1", "UPDATE t SET name = 'two' WHERE id = 2")
        with copies(server, major, backup) as compared:
            run(server, "INSERT INTO t VALUES (5, 'later')", "DELETE FROM t WHERE id = 3")
            compared.compare("COPY public.t TO STDOUT", "COPY public.t (name, id) TO STDOUT")
