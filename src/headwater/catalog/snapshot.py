"""The point where decoding may begin: the snapshot builder's states (PostgreSQL: snapbuild.c, SnapBuildFindSnapshot).

::

    START -> BUILDING -> FULL -> CONSISTENT

Driven by RUNNING_XACTS records. A record that says that nothing was running jumps straight to CONSISTENT. Otherwise the
transactions running at the first record must end (FULL: from here every new transaction is seen whole). Then those
running at that point must end (CONSISTENT: every transaction that commits from here on was seen whole). A clean
shutdown is a consistent point of its own, as nothing runs across it but prepared transactions. The server has no use
for that, an offline reader has. If a transaction was prepared before the start of the log that is read, the point is
where the last such transaction ends.

A builder is a value: each event gives another one. Xids are 64-bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class SnapBuildState(IntEnum):
    """The states, with PostgreSQL's names and order (snapbuild.h)."""

    START = -1
    BUILDING = 0
    FULL = 1
    CONSISTENT = 2


def xid_precedes(a: int, b: int) -> bool:
    """Tell whether xid ``a`` is older than ``b``, modulo 2^32 (TransactionIdPrecedes, transam.c)."""
    return (a - b) & 0xFFFFFFFF >= 0x80000000


def full_xid(xid: int, near: int) -> int:
    """Return the 64-bit xid with low half ``xid`` that is nearest to ``near`` (FullTransactionIdFromAllowableAt)."""
    return near + ((xid - near + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def full_xids(xids: NDArray[np.int64], near: int) -> NDArray[np.int64]:
    """Apply :func:`full_xid` to a column, int64[n]."""
    return near + ((xids - near + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@dataclass(frozen=True)
class SnapBuilder:
    """The builder's state while the log is read in order.

    Attributes:
        start_decoding_at: transactions whose commit record starts before this LSN are left out.
        state: the state that the builder is in.
        next_phase_at: xid that must be the oldest running one before the next state.
        consistent_at: LSN of the record that made the builder consistent, None before.
        shut_down_at: LSN of a clean shutdown after which only ``awaited`` transactions must end, None without one.
        awaited: xids of transactions that were prepared then, whose first records are not available, sorted.
    """

    start_decoding_at: int = 0
    state: SnapBuildState = SnapBuildState.START
    next_phase_at: int = 0
    consistent_at: int | None = None
    shut_down_at: int | None = None
    awaited: tuple[int, ...] = ()

    @property
    def is_consistent(self) -> bool:
        """Whether decoding may begin."""
        return self.state is SnapBuildState.CONSISTENT

    def clean_shutdown(self, lsn: int, prepared: Iterable[int] = ()) -> SnapBuilder:
        """Note a shutdown checkpoint at ``lsn``, when nothing ran but these prepared transactions."""
        awaited = tuple(sorted(prepared))
        if self.is_consistent or self.shut_down_at is not None:
            return self
        if not awaited:
            return self._consistent(lsn, lsn)
        return replace(self, shut_down_at=lsn, awaited=awaited)

    def prepared_ended(self, lsn: int, xid: int) -> SnapBuilder:
        """Note that the record at ``lsn`` committed or rolled back a prepared transaction."""
        if self.is_consistent or xid not in self.awaited:
            return self
        awaited = tuple(other for other in self.awaited if other != xid)
        return replace(self, awaited=awaited) if awaited else self._consistent(lsn, lsn + 1)

    def running_xacts(self, lsn: int, next_xid: int, oldest_running_xid: int) -> SnapBuilder:
        """Note a RUNNING_XACTS record that starts at ``lsn``."""
        if self.is_consistent:
            return self
        if oldest_running_xid == next_xid:
            return self._consistent(lsn, lsn + 1)
        if self.state is SnapBuildState.START:
            return replace(self, state=SnapBuildState.BUILDING, next_phase_at=next_xid)
        if oldest_running_xid < self.next_phase_at:
            return self
        if self.state is SnapBuildState.BUILDING:
            return replace(self, state=SnapBuildState.FULL, next_phase_at=next_xid)
        return self._consistent(lsn, lsn + 1)

    def _consistent(self, lsn: int, decode_from: int) -> SnapBuilder:
        return SnapBuilder(max(self.start_decoding_at, decode_from), SnapBuildState.CONSISTENT, 0, lsn)
