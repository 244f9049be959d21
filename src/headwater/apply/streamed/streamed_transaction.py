"""A streamed transaction: in its spool, and as long as nothing stands in the way, applied ahead, too.

What goes wrong ahead is not an error yet: it may come from the order alone, as a lock does, or the transaction may be
rolled back. It is left to the spool then, and applied from there when it commits. The errors are those that a whole
transaction would get: the spool is the exact twin of what is ahead.

PostgreSQL: worker.c (apply_handle_stream_commit, apply_spooled_messages), applyparallelworker.c.
"""

from __future__ import annotations

from pathlib import Path

from headwater.apply.batches.batch import Messages, runs_in_block
from headwater.apply.batches.batch_applier import FEW_CHANGES, MOST_CHANGES
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.incoming.messages import Relation, StreamCommit, StreamPrepare, read_message
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.apply.streamed.folded_run import RunApplier
from headwater.apply.streamed.spool import Spool
from headwater.apply.streamed.transaction_ahead import TransactionAhead
from headwater.errors import ServerError

_OID_AT = 5
"""Where a change in a block has its relation's OID: behind the ID of its transaction."""


class StreamedTransaction:
    """The transaction.

    Args:
        xid: its own; directory: for its spool; serial: applies the spool.
        ahead: applies it ahead; None for its spool alone.
        bulk: tables whose changes are folded when the spool is applied; None to apply them one by one.
    """

    def __init__(
        self,
        xid: int,
        directory: Path,
        serial: SerialApplier,
        ahead: TransactionAhead | None,
        bulk: BulkTables | None = None,
    ) -> None:
        self.xid, self._serial, self._ahead, self._bulk = xid, serial, ahead, bulk
        self._spool = Spool(xid, directory)
        self._relations: list[tuple[int, Relation]] = []

    @property
    def is_ahead(self) -> bool:
        """Whether it is applied ahead, still."""
        if self._ahead is not None and self._ahead.is_lost:
            self._ahead = None
        return self._ahead is not None

    def add(self, xid: int, data: bytes, lsn: int) -> None:
        """Take a change.

        Args:
            xid: of the transaction, or of its subtransaction that the change is of.
            data: the message; lsn: that it was sent with.

        Raises:
            SpoolError: it cannot be kept.
            DecodingError: it is malformed.
        """
        at = self._spool.size
        self._spool.add(xid, data, lsn)
        if (ahead := self._running()) is not None:
            message = read_message(data, lsn, is_streamed=True)
            if isinstance(message, Relation):
                self._relations.append((at, message))
            try:
                ahead.change(xid, message)
            except ServerError:
                self._leave_to_spool()

    def add_run(self, xid: int, run: Messages, plain: Messages) -> None:
        """Take changes of one transaction, or subtransaction, that may be folded.

        Args:
            xid: its own; run: the messages; plain: the same without the ID.

        Raises:
            SpoolError: they cannot be kept.
            DecodingError: one is malformed.
        """
        self._spool.add_framed(xid, run.framed.tobytes())
        if (ahead := self._running()) is not None:
            try:
                ahead.changes(xid, run, plain)
            except ServerError:
                self._leave_to_spool()

    def end_block(self) -> None:
        """Have all applied that has come, as far as it is applied ahead."""
        if (ahead := self._running()) is not None:
            try:
                ahead.end_block()
            except ServerError:
                self._leave_to_spool()

    def roll_back_to(self, xid: int) -> None:
        """Forget a subtransaction."""
        left = self._spool.roll_back(xid)
        if left is not None:
            self._relations = [(at, message) for at, message in self._relations if at < left]
        if (ahead := self._running()) is not None:
            try:
                ahead.roll_back_to(xid)
            except ServerError:
                self._leave_to_spool()

    def roll_back(self) -> None:
        """Forget all of it."""
        if (ahead := self._running()) is not None:
            try:
                ahead.roll_back()
            except ServerError:
                self._leave_to_spool()
        self._spool.close()

    def commit(self, message: StreamCommit) -> None:
        """Apply what is not yet, and commit it.

        Raises:
            TargetError: the target refuses it.
            ConnectionLostError: the target is lost.
        """
        if (ahead := self._running()) is not None:
            ahead.commit(message)
            self._announce()
        else:
            self._replay(message.final_lsn, message.time)
            self._serial.commit(message.end_lsn, message.time, "STREAM COMMIT")
        self._spool.close()

    def prepare(self, message: StreamPrepare) -> None:
        """Apply what is not yet, and prepare it.

        Raises:
            TargetError, ConnectionLostError: see :meth:`commit`.
        """
        self._serial.will_end(message.xid, message.end_lsn, is_prepared=True)
        if (ahead := self._running()) is not None:
            self._serial.flush()
            ahead.prepare(message)
            self._announce()
        else:
            self._replay(message.prepare_lsn, None)
            self._serial.prepare(message.xid, message.end_lsn, message.time, "STREAM PREPARE")
        self._spool.close()

    def close(self) -> None:
        """Let go of the spool's file."""
        self._spool.close()

    def _running(self) -> TransactionAhead | None:
        return self._ahead if self.is_ahead else None

    def _leave_to_spool(self) -> None:
        ahead, self._ahead = self._ahead, None
        assert ahead is not None
        ahead.abandon()

    def _replay(self, finish_lsn: int, time: int | None) -> None:
        self._serial.begin(RemoteTransaction(self.xid, finish_lsn, time))
        applier = RunApplier(self._serial, self._bulk, self._one_by_one, _OID_AT)
        for piece in self._spool.pieces():
            for _, run, plain in runs_in_block(Messages.parse(piece), FEW_CHANGES, MOST_CHANGES):
                applier.apply(run, plain)

    def _one_by_one(self, messages: Messages) -> None:
        for data, lsn in messages:
            self._serial.change(read_message(data, lsn, is_streamed=True))

    def _announce(self) -> None:
        """Let the serial applier know relations, too: the source does not announce them again after the commit."""
        for _, relation in self._relations:
            self._serial.change(relation)
