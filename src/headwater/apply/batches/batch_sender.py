"""The thread that has a batch applied on the target, while the next one comes, is taken apart and folded.

Invariants: one batch at a time. As long as one is on its way the connection is the thread's alone.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from headwater.apply.batches.batch import Messages, last_commit
from headwater.apply.batches.folded_batch import FoldedBatch, send_folded
from headwater.apply.progress.origin_progress import come_to
from headwater.apply.progress.origins import CHECK_DEFERRED, move
from headwater.apply.target.connection import Bound, Outcome, Statement, TargetConnection
from headwater.apply.target.transaction_commands import BEGIN, COMMIT, ROLLBACK
from headwater.errors import TargetError
from headwater.pg.lsn import Lsn

_LOCAL_END = Bound(Statement("SELECT pg_catalog.pg_current_wal_insert_lsn(), pg_catalog.pg_current_wal_flush_lsn()"))


@dataclass(frozen=True)
class Committed:
    """The commit of a batch.

    Attributes:
        end_lsn: end of its last transaction on the source.
        local_end: LSN of the target before which it was committed; flushed: up to which its WAL was durable then.
    """

    end_lsn: int
    local_end: int
    flushed: int


@dataclass(frozen=True)
class Sent:
    """The outcome of a batch.

    Attributes:
        messages: of its transactions.
        committed: None if nothing of it was done: it has to be applied one by one.
    """

    messages: Messages
    committed: Committed | None


class BatchSender:
    """The thread; a context manager, whose end waits for the batch on its way.

    Args:
        connection: the target's.
    """

    def __init__(self, connection: TargetConnection) -> None:
        self._connection = connection
        self._pool = ThreadPoolExecutor(1, "batch")
        self._begun: tuple[Messages, Future[Committed | None]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    @property
    def is_busy(self) -> bool:
        """Whether a batch is on its way, and the target has not done with it."""
        return self._begun is not None and not self._begun[1].done()

    def begin(self, messages: Messages, folded: FoldedBatch) -> None:
        """Have a batch applied; the connection waits for nothing, and the one before is finished."""
        self._begun = messages, self._pool.submit(self._apply, messages, folded)

    def finish(self) -> Sent | None:
        """Wait for the batch on its way, and return what became of it; None if there is none.

        Raises:
            ConnectionLostError: the target is lost.
        """
        begun, self._begun = self._begun, None
        return None if begun is None else Sent(begun[0], begun[1].result())

    def _apply(self, messages: Messages, folded: FoldedBatch) -> Committed | None:
        try:
            self._connection.send(BEGIN)
            if send_folded(self._connection, folded):
                return self._commit(messages)
        except TargetError:
            pass
        self._roll_back()
        return None

    def _commit(self, messages: Messages) -> Committed:
        _, end_lsn, time = last_commit(messages)
        outcomes: list[Outcome] = []
        for statement in (come_to(end_lsn), CHECK_DEFERRED, move(end_lsn, time), COMMIT):
            self._connection.send(statement)
        self._connection.send(_LOCAL_END, outcomes.append)
        self._drain()
        ((local_end, flushed),) = outcomes[0].rows
        assert local_end is not None
        assert flushed is not None
        return Committed(end_lsn, int(Lsn.parse(local_end)), int(Lsn.parse(flushed)))

    def _drain(self) -> None:
        if self._connection.pending:
            self._connection.sync()
        self._connection.drain()

    def _roll_back(self) -> None:
        """Undo the batch; the session may have failed before it began one."""
        with suppress(TargetError):
            self._drain()
        self._connection.send(ROLLBACK)
        self._drain()
