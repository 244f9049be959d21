"""Transactions that were sent to the target, and may have to be sent again: one of them may meet a conflict.

Each is a list of steps, and its end. What is committed is forgotten, and so are steps of a transaction that has grown
too large: that one is asked of the source again, should it meet a conflict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.apply.conflicts.descriptions import RowChange
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.target.relations import MappedRelation

MOST_BYTES = 64 << 20
"""Bytes of values that are kept of a transaction; a step counts for some more."""
_STEP_BYTES = 700

Step = tuple[MappedRelation, MappedRelation, RowChange, str, int] | Callable[[], None]
"""A change of a row with its table, that limited to a partition, the kind of its message, and its number in the
transaction; or what sends something else again."""


@dataclass(eq=False)
class SentTransaction:
    """A transaction.

    Attributes:
        remote: it; steps: its changes; end: commits or prepares it, None until that is sent.
        is_whole: all of its steps are there.
    """

    remote: RemoteTransaction
    steps: list[Step] = field(default_factory=list)
    end: Callable[[], None] | None = None
    is_whole: bool = True
    size: int = 0


class Place(NamedTuple):
    """A step of a transaction."""

    transaction: SentTransaction
    number: int

    @classmethod
    def lost(cls, remote: RemoteTransaction) -> Place:
        """Return a place that nothing can be sent again from."""
        return cls(SentTransaction(remote, is_whole=False), 0)


class SentTransactions:
    """The transactions, in the order in which they were sent."""

    def __init__(self) -> None:
        self._sent = deque[SentTransaction]()
        self._open: SentTransaction | None = None

    def add(self, remote: RemoteTransaction, step: Step, size: int) -> Place:
        """Add a step to the transaction that is being sent, which it may begin.

        Args:
            remote: the transaction; step: sends it again; size: about how many bytes it has.
        """
        own = self._begun(remote)
        own.size += size + _STEP_BYTES
        if own.size > MOST_BYTES:
            own.is_whole = False
            own.steps.clear()
        if own.is_whole:
            own.steps.append(step)
        return Place(own, len(own.steps) - 1)

    def lose(self, remote: RemoteTransaction) -> None:
        """Note that a step of the transaction that is being sent, which it may begin, is not kept."""
        own = self._begun(remote)
        own.is_whole = False
        own.steps.clear()

    def _begun(self, remote: RemoteTransaction) -> SentTransaction:
        if self._open is None:
            self._open = SentTransaction(remote)
            self._sent.append(self._open)
        return self._open

    def end(self, step: Callable[[], None]) -> Callable[[], None]:
        """End the transaction that is being sent; what is returned is to be called once that has happened.

        Args:
            step: sends the end again.
        """
        own, self._open = self._open, None
        if own is None:
            return _nothing
        own.end = step
        return lambda: self._forget(own)

    def clear(self) -> list[SentTransaction]:
        """Forget all, and return it."""
        sent = list(self._sent)
        self._sent.clear()
        self._open = None
        return sent

    def _forget(self, transaction: SentTransaction) -> None:
        while self._sent and self._sent[0] is not transaction:
            self._sent.popleft()
        if self._sent:
            self._sent.popleft()


def _nothing() -> None:
    pass
