"""Answers of the service beside those of a server: by libpq, field by field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import Serving

FIELDS = {
    "severity": pq.DiagnosticField.SEVERITY,
    "sqlstate": pq.DiagnosticField.SQLSTATE,
    "message": pq.DiagnosticField.MESSAGE_PRIMARY,
    "detail": pq.DiagnosticField.MESSAGE_DETAIL,
}
ALL_FIELDS = {
    **FIELDS,
    "hint": pq.DiagnosticField.MESSAGE_HINT,
    "position": pq.DiagnosticField.STATEMENT_POSITION,
}
LSN = re.compile(rb"^[0-9A-F]{1,8}/[0-9A-F]{1,8}$")
LSN_OF_SLOT = re.compile(rb"^\(([a-z_0-9]+),[0-9A-F]{1,8}/[0-9A-F]{1,8}\)$")
SNAPSHOT = re.compile(rb"^[0-9A-F]{8}-[0-9A-F]{8}-\d+$")


@dataclass(frozen=True)
class Answer:
    """The answer to a command: its status, its columns, its rows, its error.

    A column is its name, type, size, modifier, and the table and the number that it has there.
    """

    status: str
    tag: bytes | None
    columns: tuple[tuple[bytes | None, int, int, int, int, int], ...]
    rows: tuple[tuple[bytes | None, ...], ...]
    error: tuple[bytes | None, ...]
    transaction: str


def plain(value: bytes | None) -> bytes | None:
    """Replace what differs from run to run."""
    if value is not None and SNAPSHOT.match(value):
        return b"SNAPSHOT"
    if value is not None and (slot := LSN_OF_SLOT.match(value)):
        return b"(%b,LSN)" % slot[1]
    return b"LSN" if value is not None and LSN.match(value) else value


def answer_of(connection: PGconn, command: str) -> Answer:
    """Run a command."""
    return answer_in(connection.exec_(command.encode()), connection)


def answer_in(
    result: PGresult,
    connection: PGconn,
    *,
    are_plain: bool = True,
    fields: Mapping[str, pq.DiagnosticField] = FIELDS,
) -> Answer:
    """Return the answer that a result has.

    Args:
        result: it; connection: that gave it.
        are_plain: what differs from run to run is replaced.
        fields: of errors.
    """
    columns = range(result.nfields)
    shown = plain if are_plain else lambda value: value
    return Answer(
        status=pq.ExecStatus(result.status).name,
        tag=result.command_status,
        columns=tuple(_column(result, i) for i in columns),
        rows=tuple(tuple(shown(result.get_value(row, i)) for i in columns) for row in range(result.ntuples)),
        error=tuple(result.error_field(field) for field in fields.values()) if result.error_message else (),
        transaction=pq.TransactionStatus(connection.transaction_status).name,
    )


def _column(result: PGresult, i: int) -> tuple[bytes | None, int, int, int, int, int]:
    place = result.ftable(i), result.ftablecol(i)
    return result.fname(i), result.ftype(i), result.fsize(i), result.fmod(i), *place


def conninfo_at(place: Mapping[str, str]) -> str:
    """Return the connection string of a place."""
    return " ".join(f"{name}='{value}'" for name, value in place.items())


@contextmanager
def connected(**words: str) -> Iterator[PGconn]:
    """Connect by libpq."""
    connection = pq.PGconn.connect(conninfo_at(words).encode())
    try:
        yield connection
    finally:
        connection.finish()


def places(server: EmbeddedPostgres, serving: Serving, **words: str) -> list[dict[str, str]]:
    """Return what clients connect with: to the server, to the service."""
    theirs = {**server.connection_info(), "dbname": "postgres"}
    ours = {"host": "127.0.0.1", "port": str(serving.port), "user": "postgres", "dbname": "postgres"}
    return [{**theirs, **words}, {**ours, **words}]
