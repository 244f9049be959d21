"""The messages of the extended query protocol, answered: Parse, Bind, Describe, Execute, Close.

Calls come one after the other, in a thread: preparing and running takes its time. Who calls skips to the next Sync
after an error.

PostgreSQL: exec_parse_message, exec_bind_message, exec_execute_message, exec_describe_*_message (postgres.c).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from headwater.errors import SessionError
from headwater.pg.encodings import decode_name
from headwater.pg.sqlstates import IN_FAILED_SQL_TRANSACTION, INVALID_PARAMETER_VALUE, PROTOCOL_VIOLATION
from headwater.protocol.backend_messages import (
    BIND_COMPLETE,
    CLOSE_COMPLETE,
    EMPTY_QUERY,
    NO_DATA,
    PARSE_COMPLETE,
    PORTAL_SUSPENDED,
    Column,
    command_complete,
    data_row,
    parameter_description,
    row_description,
)
from headwater.protocol.extended_messages import (
    STATEMENT,
    Bind,
    bind_message,
    close_message,
    describe_message,
    execute_message,
    parse_message,
)
from headwater.protocol.frontend_messages import BIND, CLOSE, DESCRIBE, EXECUTE, PARSE, Message
from headwater.walsender.queries.prepared import Prepared, RawParameter
from headwater.walsender.sessions.portals import Portal, Portals


class Preparing(Protocol):
    """The preparation of a session's statements.

    Attributes:
        portals: its named statements and portals.
    """

    portals: Portals

    def prepare(self, text: str, types: Sequence[int]) -> Prepared:
        """Prepare the one statement of a text."""

    def cut_names(self, query: str) -> Iterator[bytes]:
        """Give notices of the names that are cut in a query."""

    @property
    def is_failed(self) -> bool:
        """Whether its transaction has failed."""

    @property
    def client_encoding(self) -> str:
        """The encoding of texts on the connection."""

    def encoded(self, text: str) -> bytes:
        """Encode a name as the client gets it."""


class ExtendedQueries:
    """The extended queries of one session.

    Args:
        preparing: prepares its statements.
    """

    def __init__(self, preparing: Preparing) -> None:
        self._preparing = preparing

    def answer(self, message: Message) -> Iterator[bytes]:
        """Answer a message, piece by piece.

        Raises:
            SessionError: it is refused.
        """
        if message.kind == EXECUTE:
            yield from self.execute(message.body)
        elif message.kind == PARSE:
            yield from self.parse(message.body)
        else:
            yield _ANSWERS[message.kind](self, message.body)

    def parse(self, body: bytes) -> Iterator[bytes]:
        """Prepare a statement; notices come first."""
        message, portals = parse_message(body), self._preparing.portals
        name = self._text(message.name)
        if not name:
            portals.statements.pop("", None)
        query = self._text(message.query)
        yield from self._preparing.cut_names(query)
        prepared = self._preparing.prepare(query, message.types)
        portals.add_statement(name, prepared)
        yield PARSE_COMPLETE

    def bind(self, body: bytes) -> bytes:
        """Bind a statement to values of its parameters."""
        message, portals = bind_message(body), self._preparing.portals
        statement = portals.statement(self._text(message.statement))
        if len(message.parameters) != len(statement.parameters):
            raise SessionError(
                f"bind message supplies {len(message.parameters)} parameters, but prepared statement "
                f'"{self._text(message.statement)}" requires {len(statement.parameters)}',
                sqlstate=PROTOCOL_VIOLATION,
            )
        self._check_not_failed(is_allowed=statement.ends_transaction and not message.parameters)
        name = self._text(message.portal)
        portals.check_new_portal(name)
        run = statement.bind(list(self._parameters(message, statement)))
        _check_formats(message.result_formats, statement.columns)
        portals.add(Portal(name, statement, run, message.result_formats))
        return BIND_COMPLETE

    def _parameters(self, message: Bind, statement: Prepared) -> list[RawParameter]:
        formats = message.parameter_formats
        given = list[RawParameter]()
        for place, value in enumerate(message.parameters):
            form = formats[place] if len(formats) > 1 else formats[0] if formats else 0
            if form not in (0, 1):
                raise SessionError(f"unsupported format code: {form}", sqlstate=INVALID_PARAMETER_VALUE)
            is_text = form == 0 or statement.parameters[place] in _TEXTS
            data = self._text(value).encode("utf-8", "surrogateescape") if is_text and value is not None else value
            given.append(RawParameter(data, form == 1))
        return given

    def describe(self, body: bytes) -> bytes:
        """Describe a statement, or a portal."""
        message, portals = describe_message(body), self._preparing.portals
        if message.kind == STATEMENT:
            statement = portals.statement(self._text(message.name))
            self._check_not_failed(is_allowed=statement.columns is None)
            return parameter_description(statement.parameters) + self._described(statement.columns)
        portal = portals.portal(self._text(message.name))
        self._check_not_failed(is_allowed=portal.columns is None)
        return self._described(portal.columns, portal.column_formats())

    def execute(self, body: bytes) -> Iterator[bytes]:
        """Run a portal, or go on with it."""
        message = execute_message(body)
        portal = self._preparing.portals.portal(self._text(message.portal))
        if not portal.statement.kind:
            yield EMPTY_QUERY
            return
        self._check_not_failed(is_allowed=portal.statement.ends_transaction)
        yield from executed(portal, message.row_limit)

    def close(self, body: bytes) -> bytes:
        """Let go of a statement, or a portal; that there is none is no error."""
        message, portals = close_message(body), self._preparing.portals
        if message.kind == STATEMENT:
            portals.statements.pop(self._text(message.name), None)
        else:
            portals.drop(self._text(message.name))
        return CLOSE_COMPLETE

    def _described(self, columns: Sequence[Column] | None, formats: Sequence[int] = ()) -> bytes:
        return NO_DATA if columns is None else row_description(columns, formats, self._preparing.encoded)

    def _text(self, data: bytes) -> str:
        return decode_name(data, self._preparing.client_encoding)

    def _check_not_failed(self, *, is_allowed: bool) -> None:
        if self._preparing.is_failed and not is_allowed:
            raise SessionError(
                "current transaction is aborted, commands ignored until end of transaction block",
                sqlstate=IN_FAILED_SQL_TRANSACTION,
            )


_TEXTS = {18, 19, 25, 1043}
"""Types whose binary form is text in the client's encoding."""


def executed(portal: Portal, row_limit: int) -> Iterator[bytes]:
    """Give what executing a portal answers, piece by piece: rows, and that it is done or suspended.

    Args:
        portal: it; row_limit: rows at most, 0 for all.

    Raises:
        SessionError: as the statement says.
    """
    for form in portal.column_formats():
        if form not in (0, 1):
            raise SessionError(f"unsupported format code: {form}", sqlstate=INVALID_PARAMETER_VALUE)
    outcome = portal.started()
    yield outcome.before
    count = 0
    for row in portal.fetched(row_limit or None) if outcome.columns is not None else ():
        count += 1
        yield data_row(row)
    # Whether there is more is not known as long as no more rows are asked for than there are.
    if row_limit and count == row_limit and outcome.columns is not None:
        yield PORTAL_SUSPENDED
        return
    tag = f"{outcome.tag} {count}" if outcome.is_query else outcome.tag
    assert portal.rows is not None
    yield portal.rows.notices() + command_complete(tag) + outcome.after


def _check_formats(formats: Sequence[int], columns: Sequence[Column] | None) -> None:
    count = len(columns or ())
    if len(formats) > 1 and len(formats) != count and columns is not None:
        raise SessionError(
            f"bind message has {len(formats)} result formats but query has {count} columns",
            sqlstate=PROTOCOL_VIOLATION,
        )


_ANSWERS: dict[bytes, Callable[[ExtendedQueries, bytes], bytes]] = {
    BIND: ExtendedQueries.bind,
    DESCRIBE: ExtendedQueries.describe,
    CLOSE: ExtendedQueries.close,
}
