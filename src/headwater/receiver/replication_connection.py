"""A connection for replication: libpq's, by psycopg's ``pq``, one command or one stream at a time.

In: a connection string as of psql; libpq finds the password file, the service file, certificates and variables of the
environment. Out: rows of commands, and the messages of a stream, as bytes.

Invariants: it belongs to one thread. While a stream runs nothing here waits but :meth:`ReplicationConnection.wait`.
What the server refuses is a :class:`~headwater.errors.ServerError` with its SQLSTATE. An end of the connection is a
:class:`~headwater.errors.ConnectionLostError`.

PostgreSQL: libpqwalreceiver.c, streamutil.c, receivelog.c (14 to 19).
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from headwater.errors import ConnectionLostError, ServerError, UsageError
from headwater.pg.version import VERSIONS, Version
from headwater.receiver.server_extra import load_psycopg

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Row = tuple[str | None, ...]

Wait = Callable[[Sequence[int], Sequence[int]], None]
"""Waits for a while until a descriptor can be read or written; raises if nothing is to be waited for any more."""

APPLICATION = "headwater"

BLOCK_BYTES = 1 << 18
"""Data that is copied out is handed on in blocks of about as many bytes."""

_PASSING = ("08", "57P", "53", "55006")
"""Beginnings of SQLSTATEs of which the next attempt may fare better.

Connection, shutdown, too many connections; a slot that is active, as the server has not noticed yet that who used it is
gone.
"""

PATIENCE_SECONDS = 0.1
"""How often it is asked whether to cancel what takes long."""


class ReplicationConnection:
    """A connection of a walsender.

    Args:
        conninfo: libpq's connection string or URI; its own database does not matter.
        database: that logical slots, and SQL, are of; empty for what the connection string's service says; None for
            physical replication.

    Attributes:
        has_ended: the server has ended the stream that was started last, by an error or as its timeline was left.

    Raises:
        UsageError: the connection string is malformed.
        ServerError: the server refuses the connection.
        ConnectionLostError: there is no server.
        HeadwaterError: psycopg is not installed.
    """

    def __init__(self, conninfo: str, database: str | None = None) -> None:
        self._psycopg = load_psycopg("a server's WAL")
        self.has_ended = False
        self._connection: PGconn = self._connect(_for_replication(self._psycopg, conninfo, database))

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
    def postgres(self) -> Version:
        """The facts of the server's major.

        Raises:
            ServerError: the major is not supported.
        """
        if self.major not in VERSIONS:
            raise ServerError(f"the server is PostgreSQL {self.major}, expected {min(VERSIONS)} to {max(VERSIONS)}")
        return VERSIONS[self.major]

    @property
    def is_plain(self) -> bool:
        """Whether what goes over the socket is not encrypted."""
        return not self._connection.ssl_in_use and not self._connection.used_gssapi

    def close(self) -> None:
        """End the connection."""
        self._connection.finish()

    def fileno(self) -> int:
        """Return the socket, for select."""
        return int(self._connection.socket)

    @property
    def backend_pid(self) -> int:
        """ID of the server's process."""
        return int(self._connection.backend_pid)

    def rows(self, command: str) -> list[Row]:
        """Run a replication command, and return its rows.

        Raises:
            ServerError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        return self._rows_of(self._run(command))

    def rows_unless(self, ends: Callable[[], bool], command: str) -> list[Row]:
        """Run a command that may take long, and return its rows; it is cancelled once it is to end.

        Args:
            ends: tells whether to end, then the server fails with 57014; command: see :meth:`rows`.

        Raises:
            ServerError: the server refuses, or has cancelled it.
            ConnectionLostError: the connection is lost.
        """
        self._guarded(self._connection.send_query, command.encode())
        while self._guarded(self._connection.is_busy):
            self.wait(PATIENCE_SECONDS)
            self._guarded(self._connection.consume_input)
            if ends() and self._guarded(self._connection.is_busy):
                self._guarded(self._connection.get_cancel().cancel)
        rows = self.next_rows()
        self.finish()
        return rows

    def begin(self, command: str) -> None:
        """Send a command that has several results, which :meth:`next_rows` and :meth:`copied` take in their order.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        self._guarded(self._connection.send_query, command.encode())

    def next_rows(self) -> list[Row]:
        """Take the next result of a command, which has rows.

        Raises:
            ServerError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        result = self._guarded(self._connection.get_result)
        if result is None:
            raise ServerError("the server has ended its answer early")
        return self._rows_of(result)

    def copied(self) -> Iterator[bytes]:
        """Take the next result of a command, which is data that the server copies out, in pieces as it comes.

        Raises:
            ServerError: the server refuses, or ends the data by an error.
            ConnectionLostError: the connection is lost.
        """
        self.begin_copy()
        yield from self.pieces()

    def begin_copy(self) -> tuple[int, bool]:
        """Take the beginning of data that the server copies out: how many columns it has, and whether it is binary.

        Raises:
            ServerError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        status = self._psycopg.pq.ExecStatus
        result = self._guarded(self._connection.get_result)
        if result is None or self._checked(result).status != status.COPY_OUT:
            raise ServerError("the server copies nothing out, expected data")
        return int(result.nfields), bool(result.binary_tuples)

    def pieces(self) -> Iterator[bytes]:
        """Take the data that the server copies out, a message at a time.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        while True:
            size, data = self._guarded(self._connection.get_copy_data, 0)
            if size < 0:
                return
            yield bytes(data)

    def blocks(self, wait: Wait) -> Iterator[bytes]:
        """Take the data that the server copies out, in blocks of several messages, without holding up other threads.

        Args:
            wait: is called while there is nothing, with what is waited for; it may raise.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        block = bytearray()
        while True:
            size, data = self._guarded(self._connection.get_copy_data, 1)
            if size > 0:
                block += data
            if block and (size <= 0 or len(block) >= BLOCK_BYTES):
                yield bytes(block)
                block.clear()
            if size < 0:
                return
            if size == 0:
                wait([self.fileno()], [])
                self._guarded(self._connection.consume_input)

    def finish(self) -> None:
        """Take the results that end a command.

        Raises:
            ServerError: the server has ended it by an error.
            ConnectionLostError: the connection is lost.
        """
        while (result := self._guarded(self._connection.get_result)) is not None:
            self._checked(result)

    def start_stream(self, command: str) -> list[Row] | None:
        """Run START_REPLICATION.

        Returns:
            None as the stream has begun; else the rows that say where the timeline was left, as all of it was sent.

        Raises:
            ServerError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        return self._started(self._run(command))

    def begin_stream(self, command: str) -> bytes:
        """Send START_REPLICATION, and return the letter that the answer begins with; nothing of it is read yet.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        self.begin(command)
        while self._guarded(self._connection.flush):
            select.select([], [self.fileno()], [])
        select.select([self.fileno()], [], [])
        with borrowed_socket(self.fileno()) as own, suppress(OSError):
            return own.recv(1, socket.MSG_PEEK)
        return b""

    def take_started(self) -> None:
        """Take the answer to START_REPLICATION of a logical slot.

        Raises:
            ServerError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        result = self._guarded(self._connection.get_result)
        if result is None:
            raise ConnectionLostError("the connection to the server is lost: it has not answered")
        self._started(self._checked(result))

    def _started(self, result: PGresult) -> list[Row] | None:
        if result.status == self._psycopg.pq.ExecStatus.COPY_BOTH:
            self._connection.nonblocking = 1
            self.has_ended = False
            return None
        rows = self._rows_of(result)
        self.finish()
        return rows

    def message(self) -> bytes | None:
        """Take the next message of the stream, None if none is there yet, or the server has ended it (`has_ended`).

        Raises:
            ConnectionLostError: the connection is lost.
        """
        if (data := self._taken()) is None and not self.has_ended:
            self._guarded(self._connection.consume_input)
            data = self._taken()
        return data

    def messages(self, most_bytes: int) -> list[bytes]:
        """Take the messages of the stream that are there, in their order; the server may have ended it (`has_ended`).

        Args:
            most_bytes: it ends with the message that goes beyond.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        messages = list[bytes]()
        self._guarded(self._take_all, messages, most_bytes)
        if not messages and not self.has_ended:
            self._guarded(self._connection.consume_input)
            self._guarded(self._take_all, messages, most_bytes)
        return messages

    def _take_all(self, messages: list[bytes], most_bytes: int) -> None:
        # This is run for each message of a stream: a call more is felt.
        take, add, taken, size = self._connection.get_copy_data, messages.append, 0, 1
        while taken < most_bytes:
            size, data = take(1)
            if size <= 0:
                break
            add(bytes(data))
            taken += size
        self.has_ended = size == -1

    def wait(self, seconds: float, others: Sequence[int] = (), is_reading: bool = True) -> None:
        """Wait until something can be read, or could not be sent before and now can, or for some time.

        Args:
            seconds: at most.
            others: descriptors that end the waiting, too.
            is_reading: whether the server's messages end it.
        """
        unsent = self._guarded(self._connection.flush)
        own = [self.fileno()]
        select.select([*(own if is_reading else ()), *others], own if unsent else [], [], max(seconds, 0))

    def send(self, message: bytes) -> None:
        """Send a message of ours, as soon as the socket takes it.

        Raises:
            ConnectionLostError: the connection is lost.
        """
        self._guarded(self._connection.put_copy_data, message)
        self._guarded(self._connection.flush)

    def end_stream(self) -> list[Row]:
        """End the stream that the server has ended, and return the rows that say where the timeline was left.

        Raises:
            ServerError: the server has ended it by an error.
            ConnectionLostError: the connection is lost.
        """
        status = self._psycopg.pq.ExecStatus
        self._guarded(setattr, self._connection, "nonblocking", 0)
        result = self._guarded(self._connection.get_result)
        if result is not None and result.status in (status.COPY_IN, status.COPY_BOTH):
            self._guarded(self._connection.put_copy_end)
            result = self._guarded(self._connection.get_result)
        if result is None or result.status == status.COMMAND_OK:
            self.finish()
            return []
        rows = self._rows_of(result)
        self.finish()
        return rows

    def leave_stream(self) -> None:
        """Tell the server that no more is wanted; what it has sent meanwhile is dropped with the connection."""
        try:
            self._guarded(self._connection.put_copy_end)
            self._guarded(self._connection.flush)
        except ServerError:
            pass

    def _connect(self, conninfo: bytes) -> PGconn:
        connection: PGconn = self._psycopg.pq.PGconn.connect(conninfo)
        if connection.status != self._psycopg.pq.ConnStatus.OK:
            message = _one_line(connection.error_message)
            connection.finish()
            # libpq does not tell the SQLSTATE of a connection that was refused.
            kind = ServerError if "FATAL:" in message and not _is_passing(message) else ConnectionLostError
            raise kind(f"could not connect to the server: {message}")
        return connection

    def _run(self, command: str) -> PGresult:
        return self._checked(self._guarded(self._connection.exec_, command.encode()))

    def _rows_of(self, result: PGresult) -> list[Row]:
        self._checked(result)
        columns = range(result.nfields)
        return [tuple(_text(result.get_value(row, column)) for column in columns) for row in range(result.ntuples)]

    def _checked(self, result: PGresult) -> PGresult:
        status = self._psycopg.pq.ExecStatus
        if result.status in (status.FATAL_ERROR, status.BAD_RESPONSE, status.NONFATAL_ERROR):
            self._refused(result)
        return result

    def _refused(self, result: PGresult) -> NoReturn:
        field = self._psycopg.pq.DiagnosticField
        sqlstate = _text(result.error_field(field.SQLSTATE))
        message = _text(result.error_field(field.MESSAGE_PRIMARY)) or _one_line(result.error_message)
        hint = _text(result.error_field(field.MESSAGE_HINT)) or _text(result.error_field(field.MESSAGE_DETAIL))
        text = " ".join(message.split())
        if sqlstate is None:
            raise ConnectionLostError(f"the connection to the server is lost: {text}")
        raise refusal(sqlstate, text, hint)

    def _taken(self) -> bytes | None:
        size, data = self._guarded(self._connection.get_copy_data, 1)
        self.has_ended = size == -1
        return bytes(data) if size > 0 else None

    def _guarded(self, call: Any, *arguments: Any) -> Any:
        """Call libpq; what it reports is that the connection is lost."""
        try:
            return call(*arguments)
        except self._psycopg.Error as error:
            message = _one_line(str(error).encode()) or "the server closed the connection"
            raise ConnectionLostError(f"the connection to the server is lost: {message}") from None


def refusal(sqlstate: str, text: str, hint: str | None) -> ServerError:
    """Return the error that a server has named: a connection that is lost, where the next attempt may fare better."""
    kind = ConnectionLostError if sqlstate.startswith(_PASSING) else ServerError
    return kind(f"the server says: {text}", hint=hint, sqlstate=sqlstate)


@contextmanager
def borrowed_socket(descriptor: int) -> Iterator[socket.socket]:
    """Give a socket of libpq's, which is left open."""
    own = socket.socket(fileno=descriptor)
    try:
        yield own
    finally:
        own.detach()


def quoted(name: str) -> str:
    """Quote a name for a replication command."""
    return '"' + name.replace('"', '""') + '"'


def _for_replication(psycopg: ModuleType, conninfo: str, database: str | None) -> bytes:
    """Make the connection string of a walsender; without a database it is one for physical replication."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        # As of conninfo_to_dict: parameters of the environment are libpq's to add.
        own = conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise UsageError(f"invalid connection string: {_one_line(str(error).encode())}") from None
    mode = {"replication": "true", "dbname": "replication"}
    if database is not None:
        mode = {"replication": "database"} | ({"dbname": database} if database else {})
    own |= mode
    own.setdefault("fallback_application_name", APPLICATION)
    return make_conninfo("", **own).encode()


def _is_passing(message: str) -> bool:
    """Tell whether a server that refuses a connection may take the next: it starts, ends, or has too many."""
    return any(
        words in message
        for words in ("the database system is", "too many clients", "connection slots", "standby connections exceeds")
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _one_line(message: bytes) -> str:
    return " ".join(message.decode("utf-8", "replace").split())
