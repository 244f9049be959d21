"""The seam to what answers SQL that neither the shapes of stock clients nor our own functions and views answer.

:class:`~headwater.walsender.statements.Statements` tries, in this order: the session's own statements (transactions,
settings), shapes of stock subscribers, SELECT of our functions and views, and then ``Served.elsewhere``. That is asked
in a thread, never in the event loop, by several sessions at a time. It sees whole statements, one at a time, never
those of the session itself. Without it, or where it raises :class:`NotAnsweredError`, the client gets 0A000.

A statement is described first (Parse, Describe), then answered as often as it is executed. Rows come as they are
wanted. A transaction that reads by one snapshot hands over a :class:`~headwater.walsender.sessions.held.Held`, in which
what was opened for it stays open until it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.protocol.backend_messages import Column, Value
from headwater.slots.kept_state import KeptState
from headwater.walsender.queries.prepared import RowSource
from headwater.walsender.sessions.held import Held
from headwater.walsender.sessions.interruption import Interruption


class NotAnsweredError(Exception):
    """The statement cannot be answered here; the client is told so with 0A000.

    Attributes:
        reason: why, in a sentence for the hint; empty for the usual one.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class AskingSession:
    """The session that asks.

    Attributes:
        database, user: names.
        settings: what the client has set, such as DateStyle, TimeZone, search_path: names and values.
        snapshot: the state of the database as of which catalogs are read; None for the end of the log.
        publications: those that the user is limited to; None for all that there is.
        held: what the transaction holds that reads by the snapshot. interruption: how its statement is ended.
        milliseconds: that a statement may take; 0 for any time.
    """

    database: str
    user: str
    settings: tuple[tuple[str, str], ...]
    snapshot: KeptState | None
    publications: tuple[str, ...] | None = None
    held: Held = field(default_factory=Held)
    interruption: Interruption = field(default_factory=Interruption)
    milliseconds: int = 0


@dataclass(frozen=True)
class Parameter:
    """A parameter of a statement, as the client has sent it.

    Attributes:
        type: OID; value: bytes in its format, UTF-8 where it is text; is_binary: its format.
    """

    type: int
    value: Value
    is_binary: bool = False


@dataclass(frozen=True)
class Described:
    """The parameters and the columns of a statement.

    Attributes:
        parameters: OIDs of the parameters' types, with those that were inferred.
        columns: of its result; None where it returns no rows (NoData).
    """

    parameters: tuple[int, ...]
    columns: tuple[Column, ...] | None


@dataclass(frozen=True)
class Answered:
    """The answer to a statement.

    Attributes:
        columns: of the rows.
        rows: gives values in the formats that were asked for, texts in UTF-8.
        messages: whole NoticeResponse messages that go before the rows.
    """

    columns: tuple[Column, ...]
    rows: RowSource
    messages: bytes = b""


class Elsewhere(Protocol):
    """The last layer."""

    def describe(self, sql: str, parameters: Sequence[int], session: AskingSession) -> Described:
        """Describe a statement.

        Args:
            sql: one statement, without a semicolon.
            parameters: OIDs of types as the client gives them, 0 where it leaves them open; may be fewer than there
                are.
            session: that asks.

        Raises:
            NotAnsweredError: nobody can answer it.
            SessionError: it is wrong, as the server would say.
        """

    def answer_elsewhere(
        self, sql: str, parameters: Sequence[Parameter], formats: Sequence[int], session: AskingSession
    ) -> Answered:
        """Answer a statement.

        Args:
            sql: one statement, without a semicolon.
            parameters: with the types that :meth:`describe` has told.
            formats: of the columns, 0 for text and 1 for binary; none for all text, one for all columns.
            session: that asks.

        Raises:
            NotAnsweredError: nobody can answer it.
            SessionError: the server's error.
        """
