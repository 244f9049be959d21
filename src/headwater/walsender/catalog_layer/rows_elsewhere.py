"""Rows of an answer that is fetched from somewhere else while the client takes it.

In: a portal at a standby, or rows that are read from files. Out: rows for the session, each once; what it took to have
them is let go of when there are no more, or nobody wants more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import islice
from typing import Any

from headwater.protocol.backend_messages import Value
from headwater.walsender.catalog_server.asked_connection import AskedConnection, AskedPortal
from headwater.walsender.sessions.interruption import Interruption


class PortalRows:
    """Rows of a portal; see :class:`headwater.walsender.queries.prepared.RowSource`.

    Args:
        connection: that the portal is of; portal: it.
        interruption: how the session's statement is ended.
        stack: gives the connection back.
        translated: makes errors of the standby those of the client. is_marked: errors end no more than the statement.
    """

    def __init__(
        self,
        connection: AskedConnection,
        portal: AskedPortal,
        interruption: Interruption,
        stack: ExitStack,
        translated: Callable[[], AbstractContextManager[None]],
        *,
        is_marked: bool,
    ) -> None:
        self._connection, self._portal = connection, portal
        self._interruption, self._stack, self._translated = interruption, stack, translated
        self._is_marked = is_marked

    def take(self, limit: int | None) -> Iterator[Sequence[Any]]:
        """Give the next rows."""
        if self._has_ended():
            return
        with self._translated(), self._interruption.ended_by(self._connection.cancel), self._mark():
            yield from self._connection.fetch(self._portal, limit or 0)
        if self._has_ended():
            self.close()

    def _has_ended(self) -> bool:
        return self._portal.has_ended

    def _mark(self) -> AbstractContextManager[None]:
        return self._connection.marked() if self._is_marked else nullcontext()

    def notices(self) -> bytes:
        """Return what the standby has said since it was asked last."""
        notices, self._connection.notices = self._connection.notices, []
        return b"".join(notices)

    def close(self) -> None:
        """Give the connection back."""
        self._stack.close()


class ReadRows:
    """Rows that an iterator reads.

    Args:
        rows: it; interruption: how the session's statement is ended.
    """

    def __init__(self, rows: Generator[tuple[Value, ...], None, None], interruption: Interruption) -> None:
        self._rows, self._interruption = rows, interruption

    def take(self, limit: int | None) -> Iterator[Sequence[Any]]:
        """Give the next rows."""
        for row in islice(self._rows, limit):
            self._interruption.check()
            yield row

    def notices(self) -> bytes:
        """Return no messages."""
        return b""

    def close(self) -> None:
        """Read no more."""
        self._rows.close()
