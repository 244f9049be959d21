"""A large table copied from the backup in several connections: one reader, whose batches whoever is free takes.

Each connection copies some batches in one transaction, and notes it as a range is noted
(:mod:`headwater.apply.table_sync.ranges`): rows are seen before all are there. After an error or a kill the table is
begun anew, and rows that noted transactions have inserted are deleted first.

Invariants: the table is empty on the target at first. A batch has whole rows, in text form.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.origins import ensure_origin, leave_origin, use_origin
from headwater.apply.progress.subscriptions import Subscription
from headwater.apply.table_sync.copying_threads import run_together
from headwater.apply.table_sync.publisher_tables import SourceTable
from headwater.apply.table_sync.ranges import hold_row, note_range
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target
from headwater.receiver.replication_connection import Wait

SHARE_BYTES = 64 << 20
"""Bytes of rows after which a connection commits."""


@dataclass
class SharedCopy:
    """A copy.

    Attributes:
        request: what is asked for; subscription, oid, table: whose; name: of the table's slot.
        batches: of rows; wait: waits, and raises when all is to end.
    """

    request: ApplyRequest
    subscription: Subscription
    oid: int
    table: SourceTable
    name: str
    batches: Iterator[bytes]
    wait: Wait
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _taken: int = 0
    _error: BaseException | None = None

    def run(self) -> None:
        """Copy all rows.

        Raises:
            HeadwaterError: one of the connections fails.
        """
        numbers = range(self.request.copy_connections)
        run_together([partial(self._run, f"{self.name}_{number}") for number in numbers], self._failed)
        if self._error is not None:
            raise self._error

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error

    def _next(self) -> tuple[int, bytes] | None:
        """Take a batch, with its number from 1 on; None if there are no more, or another connection has failed."""
        with self._lock:
            batch = None if self._error is not None else next(self.batches, None)
            if batch is None:
                return None
            self._taken += 1
            return self._taken, batch

    def _run(self, origin: str) -> None:
        connection, _ = open_target(self.request.target, origin, self.request.synchronous_commit)
        with connection:
            use_origin(connection, ensure_origin(connection, origin))
            while (first := self._next()) is not None:
                self._copy(connection, *first)
            leave_origin(connection)

    def _copy(self, connection: TargetConnection, number: int, batch: bytes) -> None:
        """Copy a share, whose first batch was taken; its transaction is noted by that one's number."""

        def about() -> str:
            return f"copying rows from batch {number} on of table {self.table.table}"

        with transaction(connection):
            hold_row(connection, self.subscription, self.oid)
            connection.begin_copy(self.table.copy_in_sql(), self.wait, about)
            size = 0
            following: tuple[int, bytes] | None = (number, batch)
            while following is not None:
                size += len(following[1])
                connection.put_copy(following[1], self.wait)
                following = self._next() if size < SHARE_BYTES else None
            if self._error is not None:
                connection.close()  # Else the target would take for all what there is.
            connection.end_copy(self.wait, about)
            note_range(connection, self.subscription, self.oid, number)
