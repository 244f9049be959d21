"""When decoding may begin: the snapshot builder's state machine (PostgreSQL: snapbuild.c, SnapBuildFindSnapshot).

::

    START -> BUILDING -> FULL -> CONSISTENT

Driven by RUNNING_XACTS records. A record that says nothing was running jumps straight to CONSISTENT. Otherwise
the transactions running at the first record must end (FULL: from here every new transaction is seen whole), then those
running at that point (CONSISTENT: every transaction that commits from here on was seen whole). A clean shutdown is a
consistent point of its own, as nothing runs across it but prepared transactions; the server has no use for that, an
offline reader has. Where one was prepared before the log that is read begins, the point is where the last of them ends.

Known gap: state is not serialised; every run starts from the catalog's LSN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class SnapBuildState(IntEnum):
    """PostgreSQL's names and order (snapbuild.h)."""

    START = -1
    BUILDING = 0
    FULL = 1
    CONSISTENT = 2


def xid_precedes(a: int, b: int) -> bool:
    """Whether xid ``a`` is older than ``b``, modulo 2^32 (TransactionIdPrecedes, transam.c)."""
    return (a - b) & 0xFFFFFFFF >= 0x80000000


@dataclass
class SnapBuilder:
    """The builder's state while the log is read in order.

    Attributes:
        state: where it stands.
        next_phase_at: xid that must be the oldest running one before the next state.
        start_decoding_at: transactions whose commit record starts before this LSN are left out.
        consistent_at: LSN of the record that made it consistent, None before.
    """

    start_decoding_at: int = 0
    state: SnapBuildState = SnapBuildState.START
    next_phase_at: int = 0
    consistent_at: int | None = None

    def clean_shutdown(self, lsn: int, prepared_ends: Sequence[int | None] = ()) -> None:
        """Nothing ran when the log was at ``lsn`` but prepared transactions.

        Args:
            lsn: a shutdown checkpoint.
            prepared_ends: of the prepared transactions whose first records are not at hand, the LSN of the record that
                ends each, None where the log has none.
        """
        if self.state is SnapBuildState.CONSISTENT:
            return
        ends = [end for end in prepared_ends if end is not None]
        if len(ends) == len(prepared_ends):
            last = max(ends, default=-1)
            self._consistent(max(lsn, last), max(lsn, last + 1))

    def running_xacts(self, lsn: int, next_xid: int, oldest_running_xid: int) -> None:
        """A RUNNING_XACTS record that starts at ``lsn``."""
        if self.state is SnapBuildState.CONSISTENT:
            return
        if oldest_running_xid == next_xid:
            self._consistent(lsn, lsn + 1)
        elif self.state is SnapBuildState.START:
            self.state, self.next_phase_at = SnapBuildState.BUILDING, next_xid
        elif not xid_precedes(oldest_running_xid, self.next_phase_at):
            if self.state is SnapBuildState.BUILDING:
                self.state, self.next_phase_at = SnapBuildState.FULL, next_xid
            else:
                self._consistent(lsn, lsn + 1)

    def _consistent(self, lsn: int, decode_from: int) -> None:
        self.state = SnapBuildState.CONSISTENT
        self.consistent_at = lsn
        self.start_decoding_at = max(self.start_decoding_at, decode_from)
