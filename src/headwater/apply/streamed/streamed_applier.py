"""An applier of streams with blocks of transactions that have not ended: those are sorted out, all else is handed on.

Invariants: nothing of a transaction is committed before its end has come. The order of commits is the source's. All
that was handed on is applied before a transaction that runs ahead sees more, as it may depend on it. What is open is
forgotten with the session: the source sends it again.

PostgreSQL: worker.c (apply_handle_stream_start and so on, get_transaction_apply_action).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from headwater.apply.batches.batch import Messages, runs_in_block, runs_of_changes
from headwater.apply.batches.batch_applier import FEW_CHANGES, MOST_CHANGES
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.incoming.messages import (
    NAMES,
    Message,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    read_message,
)
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.folded_run import RunApplier
from headwater.apply.streamed.parallel_sessions import ParallelSessions
from headwater.apply.streamed.streamed_transaction import StreamedTransaction
from headwater.apply.streamed.transaction_ahead import TransactionAhead
from headwater.errors import DecodingError

LARGE_TRANSACTION = 200
"""Changes of a transaction, or of a part of it that has come, from which on runs of them are folded."""

_CHANGES, _ORIGIN = b"RYIUDTM", b"O"
_OF_BLOCKS = np.frombuffer(_CHANGES, np.uint8)
_XID = struct.Struct(">xI")


class StreamedApplier:
    """The applier; a context manager.

    Args:
        serial: applies all that is not in a block, and what was spooled.
        directory: for spools that do not fit into memory.
        number: of the main origin.
        sessions: for transactions that are applied ahead; None for their spools alone.
        may_run_ahead: tells whether a transaction may; a table that still gets its first rows stands against it.
        bulk: tables whose changes are folded; None for none.
    """

    def __init__(
        self,
        serial: SerialApplier,
        directory: Path,
        number: int,
        sessions: ParallelSessions | None = None,
        may_run_ahead: Callable[[], bool] = lambda: True,
        bulk: BulkTables | None = None,
    ) -> None:
        self._bulk = bulk
        self._serial, self._directory, self._number = serial, directory, number
        self._sessions, self._may_run_ahead = sessions, may_run_ahead
        self._open: dict[int, StreamedTransaction] = {}
        self._block: StreamedTransaction | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for transaction in self._open.values():
            transaction.close()

    @property
    def is_inside(self) -> bool:
        """Whether a transaction, or a block of one, has begun to come and has not ended."""
        return self._block is not None or self._serial.is_inside

    @property
    def comes_apart(self) -> bool:
        """Whether transactions have to come one by one; as of the serial applier."""
        return self._serial.comes_apart

    @property
    def leaves_out(self) -> bool:
        """Whether changes may be left out that are not applied; as of the serial applier."""
        return self._serial.leaves_out

    @property
    def has_open(self) -> bool:
        """Whether a transaction has begun to be streamed, and has not ended."""
        return bool(self._open)

    def apply(self, data: bytes, lsn: int) -> None:
        """Apply a message of pgoutput.

        Args:
            data: it; lsn: that it was sent with.

        Raises:
            TargetError, DecodingError, ConnectionLostError: see :meth:`SerialApplier.apply`.
            SpoolError: the disk refuses what has to be kept.
        """
        if self._block is not None and data[:1] in _CHANGES:
            self._change(self._block, data, lsn)
        elif data[:1] in _KINDS:
            message = read_message(data, lsn)
            _HANDLERS[type(message)](self, message)
        elif self._block is None:
            self._serial.apply(data, lsn)
        elif data[:1] != _ORIGIN:
            raise DecodingError(f"unexpected {NAMES.get(data[:1], data[:1])} message in a streamed block", lsn=lsn)

    def apply_all(self, messages: Messages) -> None:
        """Apply messages, the runs of blocks as such.

        Raises:
            TargetError, DecodingError, ConnectionLostError, SpoolError: see :meth:`apply`.
        """
        at = 0
        # Between these are changes of one transaction, or of one block.
        for stop in [*np.flatnonzero(~np.isin(messages.kind, _OF_BLOCKS)).tolist(), len(messages.kind)]:
            if stop > at and self._block is not None:
                self._changes(self._block, messages.part(at, stop))
                at = stop
            elif stop - at >= LARGE_TRANSACTION and self._bulk is not None and self._serial.is_inside:
                self._large(self._bulk, messages.part(at, stop))
                at = stop
            for data, lsn in messages.part(at, stop + 1):
                self.apply(data, lsn)
            at = stop + 1

    def flush(self) -> None:
        """Wait until all that was sent is applied.

        Raises:
            TargetError, ConnectionLostError: see :meth:`SerialApplier.flush`.
        """
        self._serial.flush()

    def look_for_flushed(self) -> None:
        """Ask the target how far its WAL is durable."""
        self._serial.look_for_flushed()

    def _change(self, block: StreamedTransaction, data: bytes, lsn: int) -> None:
        xid = _XID.unpack_from(data)[0] if len(data) >= _XID.size else 0
        if not xid:
            raise DecodingError("invalid transaction ID in streamed replication transaction", lsn=lsn)
        block.add(xid, data, lsn)

    def _changes(self, block: StreamedTransaction, messages: Messages) -> None:
        for xid, run, plain in runs_in_block(messages, FEW_CHANGES, MOST_CHANGES):
            if plain is not None and xid and self._bulk is not None:
                block.add_run(xid, run, plain)
            else:
                for data, lsn in run:
                    self._change(block, data, lsn)

    def _large(self, bulk: BulkTables, messages: Messages) -> None:
        """Apply changes of a transaction that is in no block, in runs that are folded."""
        applier = RunApplier(self._serial, bulk, self._one_by_one)
        for run, may_fold in runs_of_changes(messages, FEW_CHANGES, MOST_CHANGES):
            applier.apply(run, run if may_fold else None)

    def _one_by_one(self, messages: Messages) -> None:
        for data, lsn in messages:
            self._serial.apply(data, lsn)

    def _start(self, message: StreamStart) -> None:
        self._outside_of_block("duplicate STREAM START message")
        if not message.xid:
            raise DecodingError("invalid transaction ID in streamed replication transaction")
        if message.is_first:
            # A first block of a transaction that there is would be of the next one with its number.
            if (left := self._open.pop(message.xid, None)) is not None:
                left.roll_back()
            self._open[message.xid] = self._begun(message.xid)
        elif message.xid not in self._open:
            raise DecodingError(f"a block of transaction {message.xid} comes without its first one")
        self._block = self._open[message.xid]
        self._give_way(self._block)

    def _stop(self, _message: StreamStop) -> None:
        if self._block is None:
            raise DecodingError("STREAM STOP message without STREAM START")
        block, self._block = self._block, None
        block.end_block()

    def _commit(self, message: StreamCommit) -> None:
        self._ended(message.xid, "STREAM COMMIT").commit(message)

    def _prepare(self, message: StreamPrepare) -> None:
        self._ended(message.xid, "STREAM PREPARE").prepare(message)

    def _abort(self, message: StreamAbort) -> None:
        self._outside_of_block("STREAM ABORT message without STREAM STOP")
        transaction = self._open.get(message.toplevel_xid)
        if transaction is None:
            return
        if message.xid == message.toplevel_xid:
            del self._open[message.xid]
            transaction.roll_back()
        else:
            transaction.roll_back_to(message.xid)

    def _ended(self, xid: int, kind: str) -> StreamedTransaction:
        """Return a transaction that ends, once all is applied that has ended before."""
        self._outside_of_block(f"{kind} message without STREAM STOP")
        transaction = self._open.pop(xid, None)
        if transaction is None:
            raise DecodingError(f"{kind} message of transaction {xid}, which was not streamed")
        self._give_way(transaction)
        return transaction

    def _give_way(self, transaction: StreamedTransaction) -> None:
        if transaction.is_ahead:
            self._serial.flush()

    def _begun(self, xid: int) -> StreamedTransaction:
        ahead, sessions = None, self._sessions
        if sessions is not None and self._may_run_ahead() and (session := sessions.take()) is not None:
            ahead = TransactionAhead(xid, self._number, session, sessions)
        return StreamedTransaction(xid, self._directory, self._serial, ahead, self._bulk)

    def _outside_of_block(self, complaint: str) -> None:
        if self._block is not None:
            raise DecodingError(complaint)


_KINDS = b"SEcAp"
_HANDLERS: dict[type[Message], Callable[[StreamedApplier, Any], None]] = {
    StreamStart: StreamedApplier._start,
    StreamStop: StreamedApplier._stop,
    StreamCommit: StreamedApplier._commit,
    StreamPrepare: StreamedApplier._prepare,
    StreamAbort: StreamedApplier._abort,
}
