"""A streamed transaction that is applied while it runs, in a session of its own.

Each subtransaction is behind a savepoint, so that it can be rolled back alone. All that is sent for a block is applied
before anything else is sent: what follows in the stream may depend on it, or on locks that it held.

PostgreSQL: applyparallelworker.c (pa_start_subtrans, pa_stream_abort, pa_process_spooled_messages_if_required).
"""

from __future__ import annotations

from headwater.apply.batches.batch import Messages
from headwater.apply.incoming.messages import Change, Message, StreamCommit, StreamPrepare, read_message
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.streamed.folded_run import Outcome, apply_folded
from headwater.apply.streamed.parallel_sessions import ParallelSession, ParallelSessions
from headwater.errors import TargetError


class TransactionAhead:
    """The transaction.

    Args:
        xid: its own; session: that it is applied in; sessions: all of them.
        number: of the main origin, which names of savepoints have.
    """

    def __init__(self, xid: int, number: int, session: ParallelSession, sessions: ParallelSessions) -> None:
        self._xid, self._number = xid, number
        self._session, self._sessions = session, sessions
        self._savepoints: dict[int, None] = {}
        session.applier.begin(RemoteTransaction(xid, None))

    @property
    def is_lost(self) -> bool:
        """Whether its session was ended, as it was in the way."""
        return self._session.is_lost

    def change(self, xid: int, message: Message) -> None:
        """Apply a change.

        Args:
            xid: of the transaction, or of its subtransaction that the change is of; message: it.

        Raises:
            ServerError: the target refuses this, or something before it, or would let it wait.
        """
        self._sessions.has_patience(self._session)
        if isinstance(message, Change):
            self._enter(xid)
        self._session.applier.change(message)

    def changes(self, xid: int, run: Messages, plain: Messages) -> None:
        """Apply changes that may be folded.

        Args:
            xid: of the transaction, or of its subtransaction that they are of.
            run: the messages; plain: the same without the ID.

        Raises:
            ServerError: see :meth:`change`.
        """
        self._sessions.has_patience(self._session)
        self._enter(xid)
        session = self._session
        if session.bulk is None or apply_folded(session.applier, session.bulk, plain) != Outcome.APPLIED:
            for data, lsn in run:
                session.applier.change(read_message(data, lsn, is_streamed=True))

    def _enter(self, xid: int) -> None:
        if xid != self._xid and xid not in self._savepoints:
            self._session.applier.command(f"SAVEPOINT {self._savepoint(xid)}", "STREAM START")
            self._savepoints[xid] = None

    def end_block(self) -> None:
        """Wait until the target has applied all that was sent.

        Raises:
            ServerError: it refuses something of it, or would let it wait.
        """
        self._sessions.has_patience(self._session)
        self._session.applier.flush()

    def roll_back_to(self, xid: int) -> None:
        """Roll a subtransaction back.

        Raises:
            ServerError: see :meth:`end_block`.
        """
        if xid in self._savepoints:
            self._session.applier.command(f"ROLLBACK TO SAVEPOINT {self._savepoint(xid)}", "STREAM ABORT")
            while xid in self._savepoints:  # the last ones come first
                self._savepoints.popitem()
            self.end_block()

    def roll_back(self) -> None:
        """Roll it back.

        Raises:
            ConnectionLostError: the target is lost.
        """
        self._session.applier.rollback()
        self._sessions.give_back(self._session)

    def commit(self, message: StreamCommit) -> None:
        """Commit it, behind all that was committed.

        Raises:
            TargetError: the target refuses that.
            ConnectionLostError: the target is lost; it may have done it.
        """
        applier = self._session.applier
        applier.begin(RemoteTransaction(self._xid, message.final_lsn))
        applier.commit(message.end_lsn, message.time, "STREAM COMMIT")
        self._finish()

    def prepare(self, message: StreamPrepare) -> None:
        """Prepare it.

        Raises:
            TargetError, ConnectionLostError: see :meth:`commit`.
        """
        applier = self._session.applier
        applier.begin(RemoteTransaction(self._xid, message.prepare_lsn))
        applier.prepare(message.xid, message.end_lsn, message.time, "STREAM PREPARE")
        self._finish()

    def abandon(self) -> None:
        """End its session, whatever became of it."""
        if not self.is_lost:
            self._sessions.end(self._session)

    def _finish(self) -> None:
        self._sessions.has_right_of_way(self._session)
        try:
            self._session.applier.flush()
        except TargetError as error:
            error.context = "\n".join(filter(None, [error.context, "logical replication parallel apply worker"]))
            raise
        self._sessions.give_back(self._session)

    def _savepoint(self, xid: int) -> str:
        return f"pg_sp_{self._number}_{xid}"
