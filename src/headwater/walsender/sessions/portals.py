"""The named things of a session: prepared statements, and portals, whose rows are fetched piece by piece.

A portal runs when rows of it are asked for first, and keeps what is left. Portals go with their transaction.

PostgreSQL: portalmem.c, prepare.c, pquery.c (PortalRun, PortalRunFetch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import SessionError
from headwater.pg.sqlstates import (
    DUPLICATE_CURSOR,
    DUPLICATE_STATEMENT,
    INVALID_CURSOR_NAME,
    INVALID_STATEMENT_NAME,
    OBJECT_NOT_IN_PREREQUISITE_STATE,
    PROGRAM_LIMIT_EXCEEDED,
)
from headwater.protocol.backend_messages import Column, Value
from headwater.walsender.queries.prepared import Outcome, Prepared, ReadyRows, RowSource, Run, format_of

MOST_HELD = 256 << 20
"""Bytes of a cursor's rows that outlive its transaction."""


@dataclass
class Portal:
    """A statement that is bound.

    Attributes:
        name: its name; statement: what it is of.
        formats: of its columns.
        outcome: what running it gave; None before. rows: what is left of that.
        is_held: it outlives its transaction.
    """

    name: str
    statement: Prepared
    run: Run
    formats: tuple[int, ...] = ()
    outcome: Outcome | None = None
    rows: RowSource | None = None
    is_held: bool = False

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of its rows; None for a statement without any."""
        return self.statement.columns

    def column_formats(self) -> list[int]:
        """Return the format of each column."""
        return [format_of(self.formats, place) for place in range(len(self.columns or ()))]

    def started(self, formats: Sequence[int] | None = None) -> Outcome:
        """Run it, if it has not been run.

        Raises:
            SessionError: as the statement says, or it cannot be run again.
        """
        if self.outcome is None:
            self.outcome = self.run(self.formats if formats is None else formats)
            self.rows = self.outcome.opened()
        elif self.outcome.columns is None:
            raise SessionError(f'portal "{self.name}" cannot be run', sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE)
        return self.outcome

    def fetched(self, limit: int | None, formats: Sequence[int] | None = None) -> Iterator[Sequence[Value]]:
        """Give the next rows, encoded; of None all that are left.

        Raises:
            SessionError: as :meth:`started`.
        """
        outcome = self.started(formats)
        assert self.rows is not None
        chosen = self.formats if formats is None else formats
        return (outcome.encode(row, chosen) for row in self.rows.take(limit))

    def hold(self) -> None:
        """Keep the rows, as the portal outlives its transaction.

        Raises:
            SessionError: as :meth:`started`, or they are too many.
        """
        self.started()
        assert self.rows is not None
        rows, size = list[Sequence[Any]](), 0
        for row in self.rows.take(None):
            size += sum(map(_size, row))
            if size > MOST_HELD:
                raise SessionError("the rows of a cursor that is held are too many", sqlstate=PROGRAM_LIMIT_EXCEEDED)
            rows.append(row)
        self.rows = ReadyRows(rows)

    def close(self) -> None:
        """Let go of its rows."""
        if self.rows is not None:
            self.rows.close()


def _size(value: object) -> int:
    return len(value) if isinstance(value, bytes | str) else 8


class CursorRows:
    """Rows that FETCH gives; see :class:`headwater.walsender.queries.prepared.RowSource`.

    Args:
        portal: the cursor; count: of rows at most, None for all that are left; formats: of the columns.
    """

    def __init__(self, portal: Portal, count: int | None, formats: Sequence[int]) -> None:
        self._portal, self._count, self._formats = portal, count, formats
        self._rest: RowSource | None = None

    def take(self, limit: int | None) -> Iterator[Sequence[Any]]:
        """Give the next rows; where they are wanted in parts, nobody else must wait for the cursor meanwhile."""
        if limit is None and self._rest is None:
            return self._portal.fetched(self._count, self._formats)
        if self._rest is None:
            self._rest = ReadyRows(list(self._portal.fetched(self._count, self._formats)))
        return self._rest.take(limit)

    def notices(self) -> bytes:
        """Return the messages that have come with rows."""
        return b"" if self._portal.rows is None else self._portal.rows.notices()

    def close(self) -> None:
        """Let the cursor be."""


@dataclass
class Portals:
    """The statements and the portals of a session.

    Attributes:
        statements, portals: by name; the empty name is one that is replaced in silence.
    """

    statements: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)

    def add_statement(self, name: str, statement: Prepared) -> None:
        """Add a statement.

        Raises:
            SessionError: there is one of this name.
        """
        if name and name in self.statements:
            raise SessionError(f'prepared statement "{name}" already exists', sqlstate=DUPLICATE_STATEMENT)
        self.statements[name] = statement

    def drop_named(self) -> None:
        """Let go of all statements that have a name."""
        self.statements = {name: statement for name, statement in self.statements.items() if not name}

    def drop_unnamed(self) -> None:
        """Let go of the statement and the portal that have no name."""
        self.statements.pop("", None)
        self.drop("")

    def add(self, portal: Portal) -> None:
        """Add a portal, in the place of another one of its name."""
        self.drop(portal.name)
        self.portals[portal.name] = portal

    def drop(self, name: str) -> None:
        """Let go of a portal; that there is none is no error."""
        portal = self.portals.pop(name, None)
        if portal is not None:
            portal.close()

    def drop_all(self, leaves: Callable[[Portal], bool] = lambda _: True) -> None:
        """Let go of all portals that leave."""
        for name in [name for name, portal in self.portals.items() if leaves(portal)]:
            self.drop(name)

    def statement(self, name: str) -> Prepared:
        """Return a statement.

        Raises:
            SessionError: there is none.
        """
        if name not in self.statements:
            text = (
                f'prepared statement "{name}" does not exist' if name else "unnamed prepared statement does not exist"
            )
            raise SessionError(text, sqlstate=INVALID_STATEMENT_NAME)
        return self.statements[name]

    def check_new_portal(self, name: str) -> None:
        """Check that a portal can have this name.

        Raises:
            SessionError: another one has it.
        """
        if name and name in self.portals:
            raise SessionError(f'cursor "{name}" already exists', sqlstate=DUPLICATE_CURSOR)

    def portal(self, name: str, word: str = "portal") -> Portal:
        """Return a portal.

        Raises:
            SessionError: there is none.
        """
        if name not in self.portals:
            raise SessionError(f'{word} "{name}" does not exist', sqlstate=INVALID_CURSOR_NAME)
        return self.portals[name]

    def end_transaction(self, *, commits: bool) -> None:
        """Let go of the portals that go with a transaction."""
        self.drop_all(lambda portal: not (portal.is_held and commits))
