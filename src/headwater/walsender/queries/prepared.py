"""Statements that are ready to be bound and run, whoever answers them; and what running one gives.

A statement is prepared (Parse), bound to values of its parameters (Bind), and run when it is executed, once. What is
wrong is told at the step at which the server tells it.

PostgreSQL: CachedPlanSource, PortalData.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.sqlstates import INVALID_BINARY_REPRESENTATION
from headwater.protocol.backend_messages import Column, Value
from headwater.walsender.queries.select import Select
from headwater.walsender.queries.value_types import TYPES, Printing, ValueType

Encode = Callable[[Sequence[Any], Sequence[int]], Sequence[Value]]
"""Gives the values of a row as they are sent, in a format each; without formats as text."""


@dataclass(frozen=True)
class RawParameter:
    """A parameter as the client has sent it: bytes, texts in UTF-8, and whether they are its binary form."""

    value: Value
    is_binary: bool = False


def as_they_are(row: Sequence[Any], _: Sequence[int]) -> Sequence[Value]:
    """Return values that are encoded already."""
    return row


class RowSource(Protocol):
    """Rows that are fetched as they are wanted, each once."""

    def take(self, limit: int | None) -> Iterator[Sequence[Any]]:
        """Give the next rows, as many at most; of None all that are left.

        Raises:
            SessionError: they cannot be had.
        """

    def notices(self) -> bytes:
        """Return the messages that have come with rows since they were asked for last."""

    def close(self) -> None:
        """Let go of what is left."""


class ReadyRows:
    """Rows that are all there.

    Args:
        rows: they.
    """

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self._rows, self._position = rows, 0

    def take(self, limit: int | None) -> Iterator[Sequence[Any]]:
        """Give the next rows; see :class:`RowSource`."""
        start = self._position
        self._position = len(self._rows) if limit is None else min(len(self._rows), start + limit)
        return iter(self._rows[start : self._position])

    def notices(self) -> bytes:
        """Return no messages."""
        return b""

    def close(self) -> None:
        """Let go of what is left."""
        self._rows = ()


class FailedRows(ReadyRows):
    """The rows of a query that has failed as it ran.

    Args:
        error: that it has failed with.
    """

    def __init__(self, error: HeadwaterError) -> None:
        super().__init__(())
        self._error = error

    def take(self, limit: int | None) -> Iterator[Sequence[Any]]:
        """Give no rows.

        Raises:
            HeadwaterError: as the server says.
        """
        del limit
        raise self._error


@dataclass(frozen=True)
class Outcome:
    """The outcome of running a statement.

    Attributes:
        tag: what CommandComplete says; of a query without the number of rows, which is added.
        columns: of the rows; None for a statement without a result.
        rows: values, which ``encode`` makes ready to be sent.
        before, after: whole messages that go before the rows, and after CommandComplete.
        is_query: its rows can be fetched piece by piece.
        source: gives the rows instead, as they are wanted.
    """

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: Sequence[Sequence[Any]] = ()
    encode: Encode = as_they_are
    before: bytes = b""
    after: bytes = b""
    is_query: bool = False
    source: RowSource | None = None

    def opened(self) -> RowSource:
        """Return what gives the rows; to be called once."""
        return self.source or ReadyRows(self.rows)


Run = Callable[[Sequence[int]], Outcome]
"""Runs a statement that is bound; it is given the formats of the columns."""


@dataclass(frozen=True)
class Prepared:
    """A statement that is prepared.

    Attributes:
        text: of the statement.
        parameters: OIDs of the types of its parameters.
        columns: of its result; None where it returns no rows.
        bind: takes the parameters' values; what it returns runs the statement.
        kind: its node in the grammar; empty for a statement without any word.
        ends_transaction: it may be used in a transaction that has failed.
    """

    text: str
    parameters: tuple[int, ...]
    columns: tuple[Column, ...] | None
    bind: Callable[[Sequence[RawParameter]], Run]
    kind: str = "SelectStmt"
    ends_transaction: bool = False


def format_of(formats: Sequence[int], place: int) -> int:
    """Return the format of a column: none are given for all text, one for all columns, or one for each."""
    return formats[place] if len(formats) > 1 else formats[0] if formats else 0


def encoder(columns: Sequence[Column], printing: Callable[[], Printing], sent: Callable[[Value], Value]) -> Encode:
    """Return what encodes values of our types.

    Args:
        columns: of the rows; printing: what output functions go by, when they are called.
        sent: converts a text to the client's encoding.
    """
    types = [TYPES[column.type] for column in columns]

    def encode(row: Sequence[Any], formats: Sequence[int]) -> Sequence[Value]:
        form = printing()
        values = list[Value]()
        for place, (type, value) in enumerate(zip(types, row, strict=True)):
            is_binary = bool(format_of(formats, place))
            data = type.sent(value, is_binary, form)
            values.append(sent(data) if not is_binary or type.family == "text" else data)
        return values

    return encode


def _taken(type: ValueType, raw: RawParameter, place: int) -> Any:
    """Return the value of a parameter."""
    try:
        return type.taken(raw.value, raw.is_binary)
    except SessionError as error:
        if error.sqlstate == INVALID_BINARY_REPRESENTATION:
            error.message = f"incorrect binary data format in bind parameter {place}"
        raise


def prepared_select(text: str, select: Select, encode: Callable[[Sequence[Column]], Encode]) -> Prepared:
    """Return a SELECT that is answered here.

    Args:
        text: of the statement; select: it, compiled; encode: makes the encoder of its columns.

    Raises:
        SessionError: the type of a parameter is not known.
    """
    types, columns = select.types.all(), select.columns

    def bind(parameters: Sequence[RawParameter]) -> Run:
        pairs = zip(types, parameters, strict=True)
        values = [_taken(type, raw, place) for place, (type, raw) in enumerate(pairs, 1)]
        select.plan(values)

        def run(_: Sequence[int]) -> Outcome:
            try:
                rows = select.rows(values)
            except HeadwaterError as error:  # It comes behind the description of the rows.
                return Outcome("SELECT", columns, is_query=True, source=FailedRows(error))
            return Outcome("SELECT", columns, rows, encode(columns), is_query=True)

        return run

    return Prepared(text, tuple(type.oid for type in types), columns, bind)
