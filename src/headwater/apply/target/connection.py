"""The connection to the target: libpq's pipeline, by psycopg's ``pq``.

Statements are sent one after the other without waiting; their results come in the same order. A statement is prepared
the first time that it is sent. An error makes the server skip all up to the next sync: :meth:`TargetConnection.drain`
raises it, once that has been reached, with what the statement was sent for.

Invariants: it belongs to one thread. No name of a prepared statement is used whose preparation was skipped.

PostgreSQL: libpq's pipeline mode (protocol 3, extended query).
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headwater.errors import ConnectionLostError, ServerError, TargetError
from headwater.receiver.replication_connection import Wait
from headwater.receiver.server_extra import load_psycopg

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Row = tuple[str | None, ...]

MOST_PREPARED = 2000
"""Prepared statements that a session has at most; then all are forgotten at the next sync."""

MOST_PENDING, MOST_UNSENT_BYTES = 4096, 16 << 20
"""Results, and bytes of values, that wait at most: then it is waited for, so that a target that is behind, or waits for
a lock, does not have libpq keep all that is sent."""

WAIT_SECONDS = 0.1
"""How long it waits at a time where something is to be done while it waits."""
PATIENCE_SECONDS = 0.5
"""After which, where nothing has come, it is looked whether to wait at all: a statement may wait for a lock."""

_PASSING = ("08", "57P", "53", "55006")
"""Beginnings of SQLSTATEs of which the next attempt may fare better: see ``receiver/replication_connection.py``."""
_MALFORMED = "08P01"
"""A value in binary form that the column's type cannot read: no fault of the connection's."""


@dataclass(frozen=True)
class Statement:
    """A statement that can be prepared.

    Attributes:
        sql: its text, with $1 and so on; types: OIDs of the parameters' types, 0 where the server infers one.
    """

    sql: str
    types: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with its values.

    Attributes:
        statement: it; values: of its parameters, None for NULL.
        formats: 0 for text, 1 for binary, of each value; empty for text throughout.
    """

    statement: Statement
    values: tuple[bytes | None, ...] = ()
    formats: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a statement.

    Attributes:
        count: rows that it has changed or returned.
        rows: those that it has returned.
    """

    count: int
    rows: tuple[Row, ...]


Take = Callable[[Outcome], None]
About = Callable[[], str]
"""Says what a statement was sent for, in the words of the apply worker's CONTEXT."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A result that is waited for: of a statement, of a preparation (``prepares``), or of a sync (``is_sync``)."""

    take: Take | None = None
    about: About | None = None
    prepares: Statement | None = None
    is_sync: bool = False


class TargetConnection:
    """A connection to the target; a context manager.

    Args:
        conninfo: libpq's connection string or URI.
        application: ``application_name``, unless the string has one.
        options: settings of the session, by name.

    Attributes:
        ends: tells whether to end: what takes long is cancelled then, and fails (57014).

    Raises:
        ServerError: the connection string is malformed, or the server refuses.
        ConnectionLostError: there is no server.

    Attributes:
        while_waiting: is called now and then while results are waited for.
    """

    def __init__(self, conninfo: str, application: str, options: dict[str, str] | None = None) -> None:
        self._psycopg = load_psycopg("a target")
        self._connection = self._connect(_with_defaults(conninfo, application, options or {}))
        self._backend_pid = int(self._connection.backend_pid)
        self.ends: Callable[[], bool] = lambda: False
        self._names: dict[Statement, bytes] = {}
        self._made = self._bytes = 0
        self._pending = deque[_Pending]()
        self._is_pipeline = False
        self._error: TargetError | None = None
        self.while_waiting: Callable[[], None] | None = None
        self._connection.nonblocking = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The server's version as a number, such as 160004."""
        return int(self._connection.server_version)

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.version // 10000

    @property
    def pending(self) -> int:
        """How many results are waited for."""
        return len(self._pending)

    @property
    def has_failed(self) -> bool:
        """Whether a statement has failed since the last :meth:`drain`."""
        return self._error is not None

    @property
    def backend_pid(self) -> int:
        """The process of the server's that the session is, or was."""
        return self._backend_pid

    def close(self) -> None:
        """End the connection."""
        self._connection.finish()

    def rows(self, sql: str, values: Sequence[str | None] = ()) -> list[Row]:
        """Run a statement, and wait for its rows.

        Args:
            sql: its text; values: of $1 and so on, as text.

        Raises:
            TargetError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        rows: list[Row] = []
        bytes_of = tuple(None if value is None else value.encode() for value in values)
        self.send(Bound(Statement(sql), bytes_of), lambda outcome: rows.extend(outcome.rows), prepares=False)
        self.sync()
        self.drain()
        return rows

    def send(
        self, bound: Bound, take: Take | None = None, about: About | None = None, *, prepares: bool = True
    ) -> None:
        """Send a statement, without waiting for its result.

        Args:
            bound: it; take: is given its result.
            about: says what it is for, should it fail.
            prepares: it is prepared, as it will be sent again.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        self._enter()
        formats = bound.formats or None
        if prepares:
            name = self._prepared(bound.statement, about)
            self._guarded(self._connection.send_query_prepared, name, bound.values, formats, 0)
        else:
            statement = bound.statement
            types = statement.types or None
            self._guarded(self._connection.send_query_params, statement.sql.encode(), bound.values, types, formats, 0)
        self._pending.append(_Pending(take, about))
        self._bytes += sum(map(len, filter(None, bound.values)))
        if len(self._pending) >= MOST_PENDING or self._bytes >= MOST_UNSENT_BYTES:
            self._catch_up()

    def sync(self) -> None:
        """End what is skipped if a statement before fails; what follows is run whatever became of it."""
        self._enter()
        if len(self._names) > MOST_PREPARED:
            self.send(Bound(Statement("DEALLOCATE ALL")), prepares=False)
            self._names.clear()
        self._guarded(self._connection.pipeline_sync)
        self._pending.append(_Pending(is_sync=True))
        self._guarded(self._connection.flush)

    def take_ready(self) -> None:
        """Take the results that are there.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        if self._pending:
            self._pump()

    def drain(self) -> None:
        """Wait for all results; the last thing sent has to be a sync.

        Raises:
            TargetError: a statement has failed: the first one.
            ConnectionLostError: the connection is lost.
        """
        while self._pending:
            self._pump()
            if self._pending:
                self._wait()
        self._bytes = 0
        error, self._error = self._error, None
        if error is not None:
            raise error

    def copy(self, sql: str, pieces: Sequence[bytes], about: About | None = None) -> int:
        """Run COPY FROM STDIN with data, outside of the pipeline; rows that were copied are returned.

        Raises:
            TargetError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        self._leave()
        status = self._psycopg.pq.ExecStatus
        self._guarded(self._connection.send_query, sql.encode())
        result = self._awaited()
        if result is not None and result.status == status.COPY_IN:
            for piece in pieces:
                self._guarded(self._connection.put_copy_data, piece)
            self._guarded(self._connection.put_copy_end)
            result = self._awaited()
        if result is None:
            raise ConnectionLostError("the connection to the target is lost: it has not answered")
        error = self._refusal(result, about) if result.status == status.FATAL_ERROR else None
        count = int(result.command_tuples or 0)
        while self._awaited() is not None:
            pass
        if error is not None:
            raise error
        return count

    def begin_copy(self, sql: str, wait: Wait, about: About | None = None) -> None:
        """Begin COPY FROM STDIN, outside of the pipeline; :meth:`put_copy` and :meth:`end_copy` follow.

        Args:
            sql: the command.
            wait: is called again and again while nothing happens, with what is waited for; it may raise.
            about: says what it is for, should it fail.

        Raises:
            TargetError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        self._leave()
        self._guarded(self._connection.send_query, sql.encode())
        result = self._result(wait)
        if result.status != self._psycopg.pq.ExecStatus.COPY_IN:
            self._end_results(result, wait, about)
            raise ConnectionLostError("the target copies nothing in, expected that it takes data")

    def put_copy(self, data: bytes | memoryview, wait: Wait) -> None:
        """Send data of a COPY; an error that it leads to is raised by :meth:`end_copy`.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        while not self._guarded(self._connection.put_copy_data, data):
            self._flush(wait)
        self._flush(wait)

    def hear_copy(self) -> None:
        """Take what the server says while data of a COPY goes to it, so that it is not held up by that.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        self._guarded(self._connection.consume_input)
        self._connection.is_busy()

    def end_copy(self, wait: Wait, about: About | None = None) -> int:
        """End a COPY, and return how many rows it has copied.

        Raises:
            TargetError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        while not self._guarded(self._connection.put_copy_end):
            self._flush(wait)
        self._flush(wait)
        return self._end_results(self._result(wait), wait, about)

    def _flush(self, wait: Wait) -> None:
        # What the server says meanwhile has to be read: it may not read on before.
        while self._guarded(self._connection.flush):
            wait([self.fileno()], [self.fileno()])
            self._guarded(self._connection.consume_input)

    def _result(self, wait: Wait) -> PGresult:
        self._flush(wait)
        while self._connection.is_busy():
            wait([self.fileno()], [])
            self._guarded(self._connection.consume_input)
        result: PGresult | None = self._guarded(self._connection.get_result)
        if result is None:
            raise ConnectionLostError("the connection to the target is lost: it has ended its answers early")
        return result

    def _end_results(self, result: PGresult, wait: Wait, about: About | None) -> int:
        status = self._psycopg.pq.ExecStatus
        error = self._refusal(result, about) if result.status == status.FATAL_ERROR else None
        count = int(result.command_tuples or 0)
        while self._connection.is_busy() or self._guarded(self._connection.get_result) is not None:
            wait([self.fileno()], [])
            self._guarded(self._connection.consume_input)
        if error is not None:
            raise error
        return count

    @property
    def is_plain(self) -> bool:
        """Whether what goes over the socket is not encrypted."""
        return not self._connection.ssl_in_use and not self._connection.used_gssapi

    def fileno(self) -> int:
        """Return the socket, for select."""
        return int(self._connection.socket)

    def _awaited(self) -> PGresult | None:
        """Wait for the next result outside of the pipeline."""
        while True:
            self._guarded(self._connection.consume_input)
            if not self._guarded(self._connection.flush) and not self._connection.is_busy():
                result: PGresult | None = self._guarded(self._connection.get_result)
                return result
            self._wait()

    def _enter(self) -> None:
        if not self._is_pipeline:
            self._guarded(self._connection.enter_pipeline_mode)
            self._is_pipeline = True

    def _leave(self) -> None:
        """Leave the pipeline, in which nothing is waited for."""
        assert not self._pending
        if self._is_pipeline:
            self._guarded(self._connection.exit_pipeline_mode)
            self._is_pipeline = False

    def _prepared(self, statement: Statement, about: About | None) -> bytes:
        name = self._names.get(statement)
        if name is None:
            self._made += 1
            name = self._names[statement] = b"s%d" % self._made
            self._guarded(self._connection.send_prepare, name, statement.sql.encode(), statement.types or None)
            self._pending.append(_Pending(prepares=statement, about=about))
        return name

    def _catch_up(self) -> None:
        """Take results until half of what may wait is left at most."""
        self._guarded(self._connection.send_flush_request)
        self._pump()
        most = len(self._pending) // 2
        while len(self._pending) > most:
            self._wait()
            self._pump()
        self._bytes //= 2

    def _pump(self) -> None:
        """Send what can be sent, and take the results that are there."""
        self._guarded(self._connection.flush)
        self._guarded(self._connection.consume_input)
        while self._pending and not self._connection.is_busy():
            self._take_one()

    def _take_one(self) -> None:
        """Take the result of what was sent first."""
        status = self._psycopg.pq.ExecStatus
        pending = self._pending.popleft()
        result = self._guarded(self._connection.get_result)
        if result is None:
            raise ConnectionLostError("the connection to the target is lost: it has ended its answers early")
        if pending.is_sync:
            if result.status == status.FATAL_ERROR:
                raise self._refusal(result, pending.about)
            return
        self._judge(pending, result)
        # The end of a statement's results; it does not come after a sync.
        if self._guarded(self._connection.get_result) is not None:
            raise ConnectionLostError("the connection to the target is lost: it has answered more than was asked")

    def _judge(self, pending: _Pending, result: PGresult) -> None:
        status = self._psycopg.pq.ExecStatus
        if result.status in (status.COMMAND_OK, status.TUPLES_OK):
            if pending.take is not None:
                pending.take(_outcome(result))
            return
        if pending.prepares is not None:
            self._names.pop(pending.prepares, None)
        if result.status != status.PIPELINE_ABORTED and self._error is None:
            self._error = self._refusal(result, pending.about)

    def _wait(self) -> None:
        unsent = self._guarded(self._connection.flush)
        own = [self.fileno()]
        seconds = PATIENCE_SECONDS if self.while_waiting is None else WAIT_SECONDS
        readable, writable, _ = select.select(own, own if unsent else [], [], seconds)
        if not readable and not writable:
            if self.while_waiting is not None:
                self.while_waiting()
            if self.ends():
                self._guarded(self._connection.get_cancel().cancel)

    def _connect(self, conninfo: bytes) -> PGconn:
        connection: PGconn = self._psycopg.pq.PGconn.connect(conninfo)
        if connection.status != self._psycopg.pq.ConnStatus.OK:
            message = _one_line(connection.error_message)
            connection.finish()
            kind = ServerError if "FATAL:" in message else ConnectionLostError
            raise kind(f"could not connect to the target: {message}")
        return connection

    def _refusal(self, result: PGresult, about: About | None) -> TargetError:
        field = self._psycopg.pq.DiagnosticField
        texts = {name: _text(result.error_field(getattr(field, name))) for name in _FIELDS}
        message, sqlstate = texts["MESSAGE_PRIMARY"], texts["SQLSTATE"]
        if message is None or sqlstate is None:
            raise ConnectionLostError(f"the connection to the target is lost: {_one_line(result.error_message)}")
        if sqlstate.startswith(_PASSING) and sqlstate != _MALFORMED:
            raise ConnectionLostError(f"the target says: {message}", hint=texts["MESSAGE_HINT"], sqlstate=sqlstate)
        context = "\n".join(filter(None, [texts["CONTEXT"], about() if about else None]))
        return TargetError(
            message,
            hint=texts["MESSAGE_HINT"],
            sqlstate=sqlstate,
            detail=texts["MESSAGE_DETAIL"],
            context=context or None,
        )

    def _guarded(self, call: Any, *arguments: Any) -> Any:
        """Call libpq; what it reports is that the connection is lost."""
        try:
            return call(*arguments)
        except self._psycopg.Error as error:
            raise ConnectionLostError(
                f"the connection to the target is lost: {_one_line(str(error).encode())}"
            ) from None


_FIELDS = ("MESSAGE_PRIMARY", "SQLSTATE", "MESSAGE_DETAIL", "MESSAGE_HINT", "CONTEXT")


def _outcome(result: PGresult) -> Outcome:
    columns = range(result.nfields)
    rows = tuple(tuple(_text(result.get_value(row, column)) for column in columns) for row in range(result.ntuples))
    return Outcome(int(result.command_tuples or 0), rows)


def _with_defaults(conninfo: str, application: str, options: dict[str, str]) -> bytes:
    """Complete a connection string by the session's settings; text goes both ways in UTF8.

    Raises:
        ServerError: it is malformed.
    """
    psycopg = load_psycopg("a target")
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        own = conninfo_to_dict(conninfo)
    except psycopg.Error:
        # What libpq says of it may have a part of a password.
        raise ServerError("the target's connection string is malformed") from None
    own.setdefault("fallback_application_name", application)
    given = [str(own.get("options") or "")] + [f"-c {name}={_escaped(value)}" for name, value in options.items()]
    own |= {"options": " ".join(filter(None, given)), "client_encoding": "UTF8"}
    return make_conninfo("", **own).encode()


def _escaped(value: str) -> str:
    """Escape a setting's value as libpq's ``options`` wants it."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _one_line(message: bytes) -> str:
    return " ".join(message.decode("utf-8", "replace").split())
