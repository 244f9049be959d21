"""The parts of transactions that are streamed before they end, as values.

Out of :mod:`headwater.reorder.commits.accounting`; PostgreSQL: ReorderBufferStreamTXN of reorderbuffer.c. A block is
what goes between stream_start and stream_stop: all that is queued of a transaction, and of its subtransactions that
have not been rolled back, and was not streamed before.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import check_lengths

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

EVERY = int(np.iinfo(np.int64).max)
"""All changes of a record."""


@dataclass(frozen=True)
class Running:
    """RUNNING_XACTS records of a window, r of them.

    Attributes:
        lsn: int64[r]; oldest: int64[r] the oldest xid that runs, its low half.
    """

    lsn: Int64s
    oldest: Int64s


@dataclass(frozen=True)
class Blocks:
    """Blocks of transactions that are streamed, in the order of the output, b of them.

    The last block of a transaction that commits or is prepared may be empty: nothing was queued after the one before.
    Then there is no stream_start and no stream_stop.

    Attributes:
        xid: int64[b] toplevel xid.
        place: int64[b] ascending: start of the record that made the server stream it (that of COMMIT or PREPARE for the
            last one).
        lo, lo_taken: int64[b] what was streamed before, or (0, 0): all of the records before ``lo``, and the first
            ``lo_taken`` changes of the record at ``lo`` (:data:`EVERY` for all).
        hi, hi_taken: int64[b] likewise: how far this one goes.
        is_first: bool[b] it is the first one of its transaction.
        is_last: bool[b] the transaction is committed or prepared after it.
        first, last: int64[b] ``lsn`` of the first and last queued change of any kind (commands, invalidations,
            snapshots and messages count; a message's is its record's end), as stream_start and stream_stop get them; 0
            for an empty one.
        origin: uint16[b] replication origin of the first queued change.
    """

    xid: Int64s
    place: Int64s
    lo: Int64s
    lo_taken: Int64s
    hi: Int64s
    hi_taken: Int64s
    is_first: Bools
    is_last: Bools
    first: Int64s
    last: Int64s
    origin: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.xid)


@dataclass(frozen=True)
class Accounting:
    """The queued changes at an LSN: the reorder buffer, as far as it decides what is streamed next.

    A value, the same wherever windows were cut.

    Attributes:
        lsn: events before it are in it; 0 for none.
        committed: int64[c] sorted: transactions and subtransactions that changed the catalog, committed, and are in
            the snapshots that are handed out.
        xid: int64[n] toplevel transactions in the order in which they showed, each before its subtransactions, which
            ascend; top: int64[n] toplevel xid.
        flags: int64[n] of :mod:`headwater.reorder.commits._reorder_buffer`.
        size: int64[n] bytes queued in memory; queued: int64[n] changes queued, also those that were spilled.
        oldest, newest: int64[n] ``lsn`` of the first and last of them; origin: int64[n] the first one's origin.
        base: int64[n] where a toplevel one got its base snapshot, 0 without one.
        invals: int64[n] invalidation messages that a toplevel one hands on when it commits.
        hi, hi_taken: int64[n] how far a toplevel one is streamed (:class:`Blocks`).
        since: int64[n] place of the first block that it was streamed in, 0 for none.
    """

    lsn: int
    committed: Int64s
    xid: Int64s
    top: Int64s
    flags: Int64s
    size: Int64s
    queued: Int64s
    oldest: Int64s
    newest: Int64s
    origin: Int64s
    base: Int64s
    invals: Int64s
    hi: Int64s
    hi_taken: Int64s
    since: Int64s

    def check_parts(self) -> None:
        """Check that the columns are of one length.

        Raises:
            ValueError: they are not.
        """
        check_lengths([getattr(self, f.name) for f in fields(self)[2:]])

    @property
    def in_new_session(self) -> Accounting:
        """The accounting that another session begins with: all is queued again, and nothing is streamed yet."""
        return replace(NOTHING_QUEUED, committed=self.committed)


NOTHING_QUEUED = Accounting(0, *(np.empty(0, np.int64) for _ in range(14)))
"""The start of a session that nobody knows anything of."""


@dataclass(frozen=True)
class Streams:
    """The blocks of a window that are streamed.

    Attributes:
        blocks: in the order of the output.
        sub_xid: int64[s] sorted: subtransactions of open transactions, or of the window's, that are marked as streamed:
            their rollback is reported; sub_since: int64[s] place of the first block that made them so.
        top_xid, top_since: int64[s] likewise of toplevel transactions: their first block.
        accounting: the accounting that the next window begins with.
        lacking: stretches of WAL that have to be indexed one change a row to know (:class:`Refinement`): this value is
            an estimate, unless there are none.
    """

    blocks: Blocks
    sub_xid: Int64s
    sub_since: Int64s
    top_xid: Int64s
    top_since: Int64s
    accounting: Accounting
    lacking: tuple[tuple[int, int], ...] = ()
