"""A large table copied from the backup in several connections: one reader, whose batches whoever is free takes.

Each connection copies some batches in one transaction, and notes each of them as a range is noted
(:mod:`headwater.apply.table_sync.ranges`): rows are seen before all are there. After an error or a kill the
same rows are read again, as of the same LSN. Only batches that are not noted are copied.

Invariants: the table is empty on the target at first. A batch has whole rows, in text form. It is noted by a hash of
its bytes and its place among all. So another cut into batches does not count as copied; what is noted and does not come
again makes the table begin anew. So does another file of the target's table, which is noted before the first batch, by
a number below 0: somebody has emptied it, or written it anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.origins import ensure_origin, leave_origin, use_origin
from headwater.apply.progress.subscriptions import Subscription
from headwater.apply.table_sync.copying_threads import run_together
from headwater.apply.table_sync.publisher_tables import SourceTable
from headwater.apply.table_sync.ranges import hold_row, note_ranges
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.rights import acting_as
from headwater.apply.target.session import open_target
from headwater.receiver.replication_connection import Wait

BLOCK_BYTES = 8192
"""Bytes of rows that count as a block: after those of a range a connection commits."""

_FILE = "SELECT pg_catalog.pg_relation_filenode($1::oid::regclass)"


def file_of(connection: TargetConnection, oid: int) -> int:
    """Return what the file that a table of the target has is noted by, given its OID."""
    ((number,),) = connection.rows(_FILE, (str(oid),))
    return -1 - int(number or 0)


@dataclass
class SharedCopy:
    """A copy.

    Attributes:
        request: what is asked for; subscription, oid, table: whose; name: of the table's slot.
        role: that rows are copied as, None for the session's.
        batches: of rows; wait: waits, and raises when all is to end; check: only raises.
        noted: batches that are copied already.
    """

    request: ApplyRequest
    subscription: Subscription
    oid: int
    table: SourceTable
    name: str
    role: str | None
    batches: Iterator[bytes]
    wait: Wait
    check: Callable[[], None]
    noted: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _place: int = 0
    _error: BaseException | None = None

    def run(self) -> bool:
        """Copy all rows; false if something that was copied before is none of them, and the table is to be begun anew.

        Raises:
            HeadwaterError: one of the connections fails.
        """
        numbers = range(self.request.copy_connections)
        run_together([partial(self._run, f"{self.name}_{number}") for number in numbers], self._failed)
        if self._error is not None:
            raise self._error
        return not self.noted

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error

    def _next(self) -> tuple[int, bytes] | None:
        """Take a batch that is not copied, with its number; None if there are no more, or a connection has failed."""
        with self._lock:
            while self._error is None and (batch := next(self.batches, None)) is not None:
                self.check()
                number = self._number(batch)
                self._place += len(batch)
                if number not in self.noted:
                    return number, batch
                self.noted.discard(number)
            return None

    def _number(self, batch: bytes) -> int:
        """Return what a batch is noted by; it is not negative."""
        digest = blake2b(f"{self._place} ".encode(), digest_size=8)
        digest.update(batch)
        return int.from_bytes(digest.digest(), "big") >> 1

    def _run(self, origin: str) -> None:
        connection, _ = open_target(self.request.target, origin, self.request.synchronous_commit)
        with connection:
            use_origin(connection, ensure_origin(connection, origin))
            while (first := self._next()) is not None:
                self._copy(connection, *first)
            leave_origin(connection)

    def _copy(self, connection: TargetConnection, number: int, batch: bytes) -> None:
        """Copy a share, whose first batch was taken."""

        def about() -> str:
            return f"copying rows of table {self.table.table}"

        with transaction(connection):
            hold_row(connection, self.subscription, self.oid)
            numbers = list[int]()
            with acting_as(connection, self.role):
                connection.begin_copy(self.table.copy_in_sql(), self.wait, about)
                size = 0
                following: tuple[int, bytes] | None = (number, batch)
                while following is not None:
                    numbers.append(following[0])
                    size += len(following[1])
                    connection.put_copy(following[1], self.wait)
                    following = self._next() if size < self.request.range_blocks * BLOCK_BYTES else None
                if self._error is not None:
                    connection.close()  # Else the target would take for all what there is.
                connection.end_copy(self.wait, about)
            note_ranges(connection, self.subscription, self.oid, numbers)
