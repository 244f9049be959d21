"""A large table copied by ranges of its blocks, in several connections that share a snapshot.

The slot's session exports its snapshot, and stays: the snapshot is there as long as that session is. Each range is a
COPY of the rows between two places (``ctid``), and a transaction of its own on the target. It is noted there with its
xid, in the same transaction. While the publisher's session lives, a target that is lost is connected to again, and only
ranges that are missing are copied. Another snapshot would see rows elsewhere, so behind the end of the session the
table is begun anew: exactly the rows that noted transactions have inserted are deleted first.

Invariants: ranges are used for a table that is empty on the target. The last one has no end, so what the snapshot sees
is in exactly one range. Rows carry an origin of their own connection, as a session needs an origin for itself.

PostgreSQL: snapmgr.c (ExportSnapshot), nodeTidrangescan.c (14 to 19); the server itself copies a table as a whole.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.progress.installation import transaction
from headwater.apply.progress.origins import ensure_origin, leave_origin, use_origin
from headwater.apply.progress.subscriptions import Subscription
from headwater.apply.table_sync.copying_threads import run_together
from headwater.apply.table_sync.mapped_tables import describe_mapped
from headwater.apply.table_sync.publisher_tables import SourceTable
from headwater.apply.table_sync.row_transfer import transfer
from headwater.apply.table_sync.sync_slots import open_server
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target
from headwater.errors import ConnectionLostError, ServerError
from headwater.receiver.replication_connection import ReplicationConnection, Wait
from headwater.remote_slots.slot_connection import literal

_BLOCKS = "SELECT pg_catalog.pg_relation_size({}) / pg_catalog.current_setting('block_size')::int8"
_IS_EMPTY = "SELECT NOT EXISTS (SELECT FROM ONLY {})"
_NOTE = """
INSERT INTO headwater.subscription_range (srsubid, srrelid, first_block, xid)
VALUES ($1::int4, $2::oid, $3::int8, pg_catalog.pg_current_xact_id()::text::int8)
"""
_IS_NOTED = """
SELECT 1 FROM headwater.subscription_range WHERE srsubid = $1::int4 AND srrelid = $2::oid AND first_block = $3::int8
"""
_HOLD = """
SELECT 1 FROM headwater.subscription_rel
WHERE srsubid = $1::int4 AND srrelid = $2::oid AND srsubstate = 'd' FOR {}
"""
_FORGET = "DELETE FROM headwater.subscription_range WHERE srsubid = $1::int4 AND srrelid = $2::oid"
_ARE_NOTED = "SELECT 1 FROM headwater.subscription_range WHERE srsubid = $1::int4 AND srrelid = $2::oid LIMIT 1"
_UNDO = """
DELETE FROM ONLY {} WHERE xmin::text::int8 IN (
    SELECT xid & 4294967295 FROM headwater.subscription_range WHERE srsubid = $1::int4 AND srrelid = $2::oid)
"""


@dataclass(frozen=True)
class BlockRange:
    """A range of a table's blocks.

    Attributes:
        first: its first block; end: the block behind it, None for the last range.
    """

    first: int
    end: int | None

    @property
    def condition(self) -> str:
        """What its rows meet."""
        below = "" if self.end is None else f" AND ctid < '({self.end},0)'::pg_catalog.tid"
        return f"ctid >= '({self.first},0)'::pg_catalog.tid{below}"


def split(blocks: int, size: int) -> list[BlockRange]:
    """Cut a table of so many blocks into ranges of a size."""
    firsts = range(0, max(blocks, 1), size)
    return [BlockRange(first, first + size if first + size < blocks else None) for first in firsts]


def count_blocks(source: ReplicationConnection, table: SourceTable) -> int:
    """Ask how many blocks a table has now; 0 for a publisher that does not know.

    Raises:
        ConnectionLostError: the publisher is lost.
    """
    try:
        ((blocks,),) = source.rows(_BLOCKS.format(literal(table.table)))
    except ConnectionLostError:
        raise
    except ServerError:
        return 0  # such as headwater serve, whose tables are no files that are read by ranges
    return int(blocks or 0)


def is_lost(exporter: ReplicationConnection) -> bool:
    """Tell whether a session that says nothing by itself has ended."""
    return bool(select.select([exporter.fileno()], [], [], 0)[0])


def undo_ranges(connection: TargetConnection, subscription: Subscription, oid: int, table: str) -> None:
    """Delete the rows that ranges of an earlier attempt have copied; what it has begun is waited for.

    Args:
        connection: the target's; subscription, oid: whose; table: its name for SQL.
    """
    key = (str(subscription.number), str(oid))
    with transaction(connection):
        connection.rows(_HOLD.format("UPDATE"), key)
        # A table that is published without an identity cannot be deleted from at all.
        if connection.rows(_ARE_NOTED, key):
            connection.rows(_UNDO.format(table), key)
            connection.rows(_FORGET, key)


def forget_ranges(connection: TargetConnection, subscription: Subscription, oid: int) -> None:
    """Forget the ranges of a table of which all are copied."""
    connection.rows(_FORGET, (str(subscription.number), str(oid)))


class BegunAnewError(ConnectionLostError):
    """A table is no longer being copied as it was: its state is another one, as a crash of the target may undo it."""


def hold_row(connection: TargetConnection, subscription: Subscription, oid: int) -> None:
    """Hold a table's row of the subscription: whoever undoes ranges waits for the transaction.

    Raises:
        BegunAnewError: the table is no longer being copied.
        ConnectionLostError: the target is lost.
    """
    if not connection.rows(_HOLD.format("SHARE"), (str(subscription.number), str(oid))):
        raise BegunAnewError("the copy of a table is begun anew")


def note_range(connection: TargetConnection, subscription: Subscription, oid: int, first: int) -> None:
    """Note the transaction that the connection is in as one that has inserted rows, by what is first in it."""
    connection.rows(_NOTE, (str(subscription.number), str(oid), str(first)))


def is_empty(connection: TargetConnection, table: str) -> bool:
    """Tell whether a table of the target has no rows."""
    return connection.rows(_IS_EMPTY.format(table)) == [("t",)]


class RangeCopy:
    """A copy of one table by ranges.

    Args:
        request: what is asked for; subscription, oid, table: whose; name: of the table's slot.
        exporter: the session that has exported the snapshot; snapshot: its name; binary: rows come in binary form.
        wait: waits, and raises when all is to end.
    """

    def __init__(
        self,
        request: ApplyRequest,
        subscription: Subscription,
        oid: int,
        table: SourceTable,
        name: str,
        exporter: ReplicationConnection,
        snapshot: str,
        binary: bool,
        wait: Wait,
    ) -> None:
        self._request, self._subscription, self._oid, self._table = request, subscription, oid, table
        self._name, self._snapshot, self._binary, self._waits = name, snapshot, binary, wait
        self._exporter = exporter
        self._left = deque[BlockRange]()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Copy all ranges.

        Raises:
            HeadwaterError: one of them fails.
        """
        with open_server(self._request) as source:
            self._read_by_snapshot(source)
            sent = self._table.sent
            self._table = describe_mapped(source, self._request, sent.namespace, sent.name)
            blocks = count_blocks(source, self._table)
        self._left.extend(split(blocks, self._request.range_blocks))
        numbers = range(min(self._request.copy_connections, len(self._left)))
        run_together([partial(self._run, f"{self._name}_{number}") for number in numbers], self._failed)
        if self._error is not None:
            raise self._error

    def _failed(self, error: BaseException) -> None:
        self._error = error

    def _run(self, origin: str) -> None:
        for own in iter(self._next, None):
            while not self._tried(origin, own):
                self._waits([], [])

    def _next(self) -> BlockRange | None:
        try:
            return None if self._error is not None else self._left.popleft()
        except IndexError:
            return None

    def _tried(self, origin: str, own: BlockRange) -> bool:
        """Copy a range; tell whether it is copied, or a server was lost while the snapshot is still there."""
        try:
            connection, _ = open_target(self._request.target, origin, self._request.synchronous_commit)
            with connection, open_server(self._request) as source:
                use_origin(connection, ensure_origin(connection, origin))
                self._read_by_snapshot(source)
                self._copy(connection, source, own)
                leave_origin(connection)
        except BegunAnewError:
            raise
        except ConnectionLostError:
            if is_lost(self._exporter):
                raise
            return False
        return True

    def _read_by_snapshot(self, source: ReplicationConnection) -> None:
        source.rows("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        source.rows(f"SET TRANSACTION SNAPSHOT {literal(self._snapshot)}")

    def _copy(self, connection: TargetConnection, source: ReplicationConnection, own: BlockRange) -> None:
        table = (str(self._subscription.number), str(self._oid))
        key = (*table, str(own.first))
        with transaction(connection):
            hold_row(connection, self._subscription, self._oid)
            if connection.rows(_IS_NOTED, key):
                return
            about, condition = self._about(own), own.condition
            transfer(source, self._table, connection, self._waits, about, binary=self._binary, condition=condition)
            note_range(connection, self._subscription, self._oid, own.first)

    def _about(self, own: BlockRange) -> Callable[[], str]:
        return lambda: f"copying blocks from {own.first} on of table {self._table.table}"
