"""A connection to a standby: statements in a transaction that leaves nothing behind, errors as a client gets them.

In: SQL, parameters and settings. Out: libpq's results. Nothing here knows what may be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from headwater.errors import SessionError
from headwater.local_servers.server_errors import LocalServerError
from headwater.protocol.backend_messages import Report


@dataclass(frozen=True)
class Arguments:
    """The parameters of a statement, each with a type, a value, and the value's format.

    Attributes:
        types: OIDs; values: bytes, None for NULL; formats: 0 for text, 1 for binary.
    """

    types: Sequence[int] = ()
    values: Sequence[bytes | None] = ()
    formats: Sequence[int] = ()


_FINE = frozenset((pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY))
_FIELDS = pq.DiagnosticField


class AskedConnection:
    """A connection.

    Args:
        words: that libpq connects with.

    Attributes:
        messages: NoticeResponse messages since the transaction began.

    Raises:
        LocalServerError: the server refuses it.
    """

    def __init__(self, words: dict[str, str]) -> None:
        text = psycopg.conninfo.make_conninfo(**words, client_encoding="UTF8", application_name="headwater")
        self._connection: PGconn = pq.PGconn.connect(text.encode())
        self.messages: list[bytes] = []
        self._count = 0
        if self._connection.status != pq.ConnStatus.OK:
            reason = self._connection.error_message.decode(errors="replace").strip()
            self._connection.finish()
            raise LocalServerError(f"the server of the catalogs refuses a connection: {reason}")
        self._connection.notice_handler = self._take_notice

    @property
    def is_clean(self) -> bool:
        """Whether somebody else may have it: it is open, and in no transaction."""
        return (
            self._connection.status == pq.ConnStatus.OK
            and self._connection.transaction_status == pq.TransactionStatus.IDLE
        )

    def begin(self, settings: Sequence[tuple[str, str]]) -> None:
        """Begin a transaction under settings that end with it."""
        self.messages = []
        self.run(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if settings:
            calls = ", ".join(f"pg_catalog.set_config(${2 * i + 1}, ${2 * i + 2}, true)" for i in range(len(settings)))
            values = [text.encode("utf-8", "surrogateescape") for pair in settings for text in pair]
            self._checked(self._connection.exec_params(f"SELECT {calls}".encode(), values))

    def search_path(self) -> str:
        """Return the search path of the transaction."""
        return (self.run(b"SHOW search_path").get_value(0, 0) or b"").decode("utf-8", "surrogateescape")

    def stand_in_for(self, user: str) -> None:
        """Let ``"$user"`` in the search path be another's name than the role's own."""
        path = self.search_path()
        if '"$user"' in path:
            path = path.replace('"$user"', '"' + user.replace('"', '""') + '"')
            values = [path.encode("utf-8", "surrogateescape")]
            self._checked(
                self._connection.exec_params(b"SELECT pg_catalog.set_config('search_path', $1, true)", values)
            )

    def end(self) -> None:
        """End the transaction, and forget all that it has left."""
        self.run(b"ROLLBACK")
        self.run(b"DISCARD ALL")

    def run(self, sql: bytes) -> PGresult:
        """Run a statement of ours.

        Raises:
            SessionError: the server refuses it.
        """
        return self._checked(self._connection.exec_(sql))

    def ask(self, sql: bytes, values: Sequence[str]) -> list[list[bytes | None]]:
        """Run a query of ours; return its rows, as text.

        Raises:
            SessionError: the server refuses it.
        """
        texts = [value.encode("utf-8", "surrogateescape") for value in values]
        result = self._checked(self._connection.exec_params(sql, texts))
        return [[result.get_value(row, i) for i in range(result.nfields)] for row in range(result.ntuples)]

    def prepare(self, sql: str, types: Sequence[int]) -> PGresult:
        """Parse a statement; return what describes it.

        Raises:
            SessionError: as the server refuses it.
        """
        self._count += 1
        name = self._name()
        self._checked(self._connection.prepare(name, _bytes(sql), types or None))
        return self._checked(self._connection.describe_prepared(name))

    def plan(self, sql: str, arguments: Arguments) -> str:
        """Return the plan of a statement, with all expressions.

        Raises:
            SessionError: as the server refuses it.
        """
        explained = self._checked(
            self._connection.exec_params(
                b"EXPLAIN (VERBOSE, COSTS OFF) " + _bytes(sql),
                arguments.values,
                arguments.types,
                arguments.formats,
            )
        )
        lines = (explained.get_value(row, 0) or b"" for row in range(explained.ntuples))
        return b"\n".join(lines).decode("utf-8", "surrogateescape")

    def next_xid(self) -> int:
        """Return the transaction id that comes next, 64 bits."""
        result = self.run(b"SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())")
        return int(result.get_value(0, 0) or 0)

    def execute(self, arguments: Arguments, form: int) -> PGresult:
        """Execute the statement that was parsed last; all columns in one format.

        Raises:
            SessionError: as the server refuses it.
        """
        values: Any = arguments.values  # The declaration of libpq's function knows no NULL.
        return self._checked(self._connection.exec_prepared(self._name(), values, arguments.formats, form))

    def _name(self) -> bytes:
        return f"asked_{self._count}".encode()

    def close(self) -> None:
        """Close it."""
        self._connection.finish()

    def _checked(self, result: PGresult) -> PGresult:
        if pq.ExecStatus(result.status) not in _FINE:
            raise _error_of(result)
        return result

    def _take_notice(self, result: PGresult) -> None:
        severity, sqlstate, message, detail, hint = _report(result)
        self.messages.append(Report(severity or "NOTICE", sqlstate or "00000", message or "", detail, hint).as_bytes())


def _error_of(result: PGresult) -> SessionError:
    _, sqlstate, message, detail, hint = _report(result)
    text = message or result.error_message.decode(errors="replace").strip() or "the server of the catalogs is gone"
    position = result.error_field(_FIELDS.STATEMENT_POSITION)
    place = None if position is None else int(position)
    return SessionError(text, sqlstate=sqlstate or "08006", detail=detail, hint=hint, position=place)


def _report(result: PGresult) -> list[str | None]:
    names = (_FIELDS.SEVERITY_NONLOCALIZED, _FIELDS.SQLSTATE, _FIELDS.MESSAGE_PRIMARY)
    fields = (result.error_field(name) for name in (*names, _FIELDS.MESSAGE_DETAIL, _FIELDS.MESSAGE_HINT))
    return [None if field is None else field.decode("utf-8", "surrogateescape") for field in fields]


def _bytes(sql: str) -> bytes:
    return sql.encode("utf-8", "surrogateescape")
