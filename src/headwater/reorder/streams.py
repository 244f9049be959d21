"""Which parts of which transactions are streamed before they end, as values.

Out of :mod:`headwater.reorder.accounting`; PostgreSQL: ReorderBufferStreamTXN of reorderbuffer.c. A block is what goes
between stream_start and stream_stop: all that is queued of a transaction, and of its subtransactions that have not been
rolled back, and was not streamed before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

EVERY = int(np.iinfo(np.int64).max)
"""All changes of a record."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of transactions that are streamed, in the order of the output, b of them.

    The last block of a transaction that commits or is prepared may be empty: nothing was queued behind the one before.
    Then there is no stream_start and no stream_stop.

    Attributes:
        xid: int64[b] toplevel xid.
        place: int64[b] ascending: start of the record that made the server stream it (that of COMMIT or PREPARE for the
            last one).
        lo, lo_taken: int64[b] what was streamed before, or (0, 0): all of the records before ``lo``, and the first
            ``lo_taken`` changes of the record at ``lo`` (:data:`EVERY` for all).
        hi, hi_taken: int64[b] likewise: how far this one goes.
        is_first: bool[b] it is the first one of its transaction.
        is_last: bool[b] the transaction is committed or prepared behind it.
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
