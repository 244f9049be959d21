"""A connection to a standby: statements in a transaction that leaves nothing behind, errors as a client gets them.

A statement is parsed first, and what the server has made of it is told: its tree after rewriting, in which each object
is named by its OID. Nothing is planned by then. Then it is bound, and its rows are fetched as they are wanted: what is
not taken waits in the server. In: SQL, parameters and settings. Nothing here knows what may be asked.

Invariant: the messages of one call are answered up to ReadyForQuery before the call ends, or the connection is closed.

PostgreSQL: fe-protocol3.c, postgres.c (pg_rewrite_query, exec_bind_message), print.c (elog_node_display).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import SessionError
from headwater.local_servers.server_errors import LocalServerError
from headwater.pg.sqlstates import NAME_TOO_LONG, PROGRAM_LIMIT_EXCEEDED
from headwater.protocol import client_messages as messages
from headwater.protocol.backend_messages import IDLE, IN_FAILED_TRANSACTION, Column, Value

_STATEMENT, _BUSY = b"asked", b"?"
_FOR_CLIENTS = ("INFO", "NOTICE", "WARNING")
_READ_BYTES = 64 << 10
MOST_MESSAGE = 64 << 20
"""Bytes of a row, at most: rows come into the memory of this process, one at a time."""

_TREE = "rewritten parse tree"
_SHOW_TREE = """SELECT pg_catalog.set_config('client_min_messages', 'log', true),
    pg_catalog.set_config('debug_pretty_print', 'off', true),
    pg_catalog.set_config('debug_print_rewritten', 'on', true)
"""
_SHOW_NONE = "SET LOCAL debug_print_rewritten = off; SET LOCAL client_min_messages = notice"
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(frozen=True)
class Arguments:
    """The parameters of a statement, each with a type, a value, and the value's format.

    Attributes:
        types: OIDs; values: bytes, None for NULL; formats: 0 for text, 1 for binary.
    """

    types: Sequence[int] = ()
    values: Sequence[Value] = ()
    formats: Sequence[int] = ()


@dataclass(frozen=True)
class Parsed:
    """A statement as the server has parsed it.

    Attributes:
        parameters: OIDs of their types; columns: of its result.
        tree: the text of its tree, rewritten.
    """

    parameters: tuple[int, ...]
    columns: tuple[Column, ...]
    tree: str


@dataclass
class AskedPortal:
    """A statement that is bound.

    Attributes:
        name: on its connection; has_ended: there are no more rows.
    """

    name: bytes
    has_ended: bool = False


class AskedConnection:
    """A connection.

    Args:
        directory: of the server's socket; port: in its name.
        parameters: the user, the database, settings.

    Attributes:
        notices: NoticeResponse messages that nobody has taken yet. is_open: it is not closed.

    Raises:
        LocalServerError: the server refuses it.
    """

    def __init__(self, directory: Path, port: int, parameters: dict[str, str]) -> None:
        self._place = f"{directory}/.s.PGSQL.{port}"
        self.notices: list[bytes] = []
        self._trees: list[str] = []
        self._key = b""
        self._status = IDLE
        self.is_open = True
        self._count = 0
        self._settings: dict[str, str] = {}
        self._socket = socket.socket(socket.AF_UNIX)
        self._reader = self._socket.makefile("rb", _READ_BYTES)
        try:
            self._socket.connect(self._place)
            fixed = {"client_encoding": "UTF8", "application_name": "headwater"}
            self._exchange(messages.startup({**parameters, **fixed}))
        except (OSError, SessionError) as error:
            self.close()
            raise LocalServerError(f"the server of the catalogs refuses a connection: {error}") from None

    @property
    def is_clean(self) -> bool:
        """Whether somebody else may have it: it is open, and in no transaction."""
        return self.is_open and self._status == IDLE

    def begin(self) -> None:
        """Begin a transaction."""
        self.notices, self._settings = [], {}
        self._exchange(messages.query(_BEGIN))

    def take_settings(self, settings: Sequence[tuple[str, str]]) -> None:
        """Let settings be those of the transaction, instead of those that it had."""
        wanted = dict(settings)
        for name in self._settings.keys() - wanted.keys():
            self.run(f"SET LOCAL {name} TO DEFAULT")
        changed = [(name, value) for name, value in wanted.items() if self._settings.get(name) != value]
        if changed:
            calls = ", ".join(f"pg_catalog.set_config(${2 * i + 1}, ${2 * i + 2}, true)" for i in range(len(changed)))
            self.ask(f"SELECT {calls}", [text for pair in changed for text in pair])
        self._settings = wanted

    def search_path(self) -> str:
        """Return the search path of the transaction."""
        return (self.run("SHOW search_path")[0][0] or b"").decode("utf-8", "surrogateescape")

    def stand_in_for(self, user: str) -> None:
        """Let ``"$user"`` in the search path be another's name than the role's own."""
        path = self.search_path()
        if '"$user"' in path:
            path = path.replace('"$user"', '"' + user.replace('"', '""') + '"')
            self.ask("SELECT pg_catalog.set_config('search_path', $1, true)", [path])

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Let what fails meanwhile undo no more than itself."""
        self.run("SAVEPOINT asked")
        try:
            yield
        except BaseException:
            if self.is_open:
                self._exchange(messages.query("ROLLBACK TO SAVEPOINT asked; RELEASE SAVEPOINT asked"))
            raise
        self.run("RELEASE SAVEPOINT asked")

    def end(self) -> None:
        """End the transaction, and forget all that it has left."""
        self._exchange(messages.query("ROLLBACK") + messages.query("DISCARD ALL"), 2)

    def run(self, sql: str) -> list[tuple[Value, ...]]:
        """Run a statement of ours; return its rows, as text.

        Raises:
            SessionError: the server refuses it.
        """
        return _rows(self._exchange(messages.query(sql)))

    def ask(self, sql: str, values: Sequence[str]) -> list[tuple[Value, ...]]:
        """Run a query of ours with parameters; as :meth:`run`."""
        texts = [value.encode("utf-8", "surrogateescape") for value in values]
        return _rows(self._exchange(_all_of(sql, texts) + messages.SYNC))

    def next_xid(self) -> int:
        """Return the number of the transaction that comes next, 64 bits."""
        return int(self.run("SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())")[0][0] or 0)

    def parse(self, sql: str, types: Sequence[int]) -> Parsed:
        """Parse a statement, without planning it.

        Raises:
            SessionError: as the server refuses it.
        """
        asked = messages.close_statement(_STATEMENT) + messages.parse(_STATEMENT, sql, types)
        described = messages.describe_statement(_STATEMENT) + messages.SYNC
        answers = self._exchange(_all_of(_SHOW_TREE) + asked + described + messages.query(_SHOW_NONE), 2)
        columns = next((messages.columns_of(body) for kind, body in answers if kind == b"T"), ())
        parameters = next(messages.parameter_types(body) for kind, body in answers if kind == b"t")
        return Parsed(parameters, columns, self._trees[0] if self._trees else "")

    def bind(self, arguments: Arguments, formats: Sequence[int], milliseconds: int) -> AskedPortal:
        """Bind the statement that was parsed last: it is planned, and runs from here on.

        Args:
            arguments: its parameters; formats: of the columns.
            milliseconds: that planning may take, which computes what is constant.

        Raises:
            SessionError: as the server refuses it.
        """
        self._count += 1
        portal = AskedPortal(f"rows_{self._count}".encode())
        bound = messages.bind(portal.name, _STATEMENT, arguments.values, arguments.formats, formats)
        self._limit(str(milliseconds))
        self._exchange(bound + messages.SYNC)
        self._limit(self._settings.get("statement_timeout", "0"))
        return portal

    def _limit(self, timeout: str) -> None:
        """Let statements of this transaction take so long from here on, as a setting has it."""
        self.ask("SELECT pg_catalog.set_config('statement_timeout', $1, true)", [timeout])

    def fetch(self, portal: AskedPortal, limit: int = 0) -> Iterator[tuple[Value, ...]]:
        """Give rows as they come; who does not take them all has no connection any more.

        Args:
            portal: it; limit: rows at most, 0 for all.

        Raises:
            SessionError: as the server refuses it.
        """
        if portal.has_ended:
            return
        self._send(messages.execute(portal.name, limit) + messages.SYNC)
        has_ended = False
        try:
            for kind, body in self._answers():
                if kind == b"D":
                    yield messages.row_values(body)
                elif kind == b"C":
                    portal.has_ended = True
            has_ended = True
        finally:
            if not has_ended and self.is_open and self._status != IN_FAILED_TRANSACTION:
                self.cancel()
                self.close()

    def cancel(self) -> None:
        """Let the statement that runs end; called from another thread."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
            asking.connect(self._place)
            asking.sendall(messages.cancel_request(self._key))
            asking.recv(1)

    def close(self) -> None:
        """Close it."""
        self.is_open = False
        self._reader.close()
        self._socket.close()

    def _exchange(self, sent: bytes, count: int = 1) -> list[tuple[bytes, bytes]]:
        """Send messages, and return what is answered up to the last of so many ReadyForQuery.

        Raises:
            SessionError: the first error among the answers.
        """
        self._send(sent)
        answers, failed = list[tuple[bytes, bytes]](), None
        for _ in range(count):
            try:
                answers += self._answers()
            except SessionError as error:
                failed = failed or error
                if not self.is_open:
                    break
        if failed is not None:
            raise failed
        return answers

    def _send(self, data: bytes) -> None:
        if self._status == _BUSY:  # Somebody has not taken what he asked for.
            self.cancel()
            raise self._gone()
        try:
            self._socket.sendall(data)
        except OSError:
            raise self._gone() from None

    def _answers(self) -> Iterator[tuple[bytes, bytes]]:
        """Give what the server answers up to ReadyForQuery; an error comes behind it."""
        failed: SessionError | None = None
        self._status = _BUSY
        while True:
            try:
                kind, body = self._message()
            except SessionError as error:
                raise failed or error from None
            if kind == b"Z":
                self._status = body
                break
            if kind == b"E":
                failed = messages.error(body)
            elif kind == b"N":
                self._take_notice(body)
            elif kind == b"K":
                self._key = body
            elif kind == b"3":
                self._trees = []
                yield kind, body
            elif kind not in b"SR":
                yield kind, body
        if failed is not None:
            raise failed

    def _message(self) -> tuple[bytes, bytes]:
        try:
            header = self._reader.read(5)
            if len(header) == 5 and int.from_bytes(header[1:], "big") > MOST_MESSAGE:
                raise self._too_long()
            body = self._reader.read(int.from_bytes(header[1:], "big") - 4) if len(header) == 5 else b""
        except (OSError, ValueError):
            raise self._gone() from None
        if len(header) < 5 or len(body) < int.from_bytes(header[1:], "big") - 4:
            raise self._gone()
        return header[:1], body

    def _too_long(self) -> SessionError:
        self.cancel()
        self.close()
        return SessionError(f"a row has more than {MOST_MESSAGE} bytes", sqlstate=PROGRAM_LIMIT_EXCEEDED)

    def _gone(self) -> SessionError:
        self.close()
        return SessionError("the server of the catalogs is gone", sqlstate="08006")

    def _take_notice(self, body: bytes) -> None:
        notice = messages.report(body)
        if notice.sqlstate == NAME_TOO_LONG:
            return  # The session has said so already.
        if notice.severity in _FOR_CLIENTS:
            self.notices.append(notice.as_bytes())
        elif notice.message.startswith(_TREE):
            self._trees.append(notice.detail or "")


def _all_of(sql: str, values: Sequence[Value] = ()) -> bytes:
    """Return the messages of a statement that is executed at once, without a name."""
    return messages.parse(b"", sql) + messages.bind(b"", b"", values) + messages.execute(b"")


def _rows(answers: Sequence[tuple[bytes, bytes]]) -> list[tuple[Value, ...]]:
    return [messages.row_values(body) for kind, body in answers if kind == b"D"]
