"""Invalidation messages that commits hand on to the transactions that run then, as far as one is still open.

PostgreSQL: SnapBuildDistributeSnapshotAndInval. The server keeps them with each transaction that receives them; here
they are kept once, by the commit they come from. They go with open transactions from window to window, and from session
to session, whatever the plugin makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import check_lengths
from headwater.reorder.commits.invalidation_places import committed_with
from headwater.reorder.commits.transactions import CommittedTransactions, toplevel_of
from headwater.reorder.integer_keys import distinct_rows
from headwater.rmgr.index.index_rows import InvalidationTable, Rows

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class HandedOn:
    """Messages, h of them, sorted, equal ones of one commit once.

    Attributes:
        lsn: int64[h] start of the commit record.
        id: int64[h]; db: int64[h]; value: int64[h] (:class:`headwater.rmgr.invalidation.Invalidation`).
        count: int64[h] how many there are.
    """

    lsn: Int64s
    id: Int64s
    db: Int64s
    value: Int64s
    count: Int64s

    def check_parts(self) -> None:
        """Check that the columns are of one length.

        Raises:
            ValueError: they are not.
        """
        check_lengths([self.lsn, self.id, self.db, self.value, self.count])

    def messages(self) -> InvalidationTable:
        """Return the messages as an index has them, with the LSNs of the commits."""
        return InvalidationTable(
            xid=np.ones(len(self.lsn), np.int64),
            lsn=self.lsn,
            id=self.id.astype(np.int8),
            db=self.db.astype(np.uint32),
            value=self.value.astype(np.uint32),
        )

    def counts(self) -> Int64s:
        """Count the messages that each commit hands on: int64[2, c] commits and counts."""
        commits, number = np.unique(self.lsn, return_inverse=True)
        return np.stack([commits, np.bincount(number, self.count, len(commits)).astype(np.int64)])

    def followed_by(self, rows: Rows, txns: CommittedTransactions, since: int) -> HandedOn:
        """Return these messages, and those of a window, that come from commits after an LSN.

        Args:
            rows: of the window, with those of transactions that were open before it.
            txns: transactions that committed in it.
            since: where the oldest base snapshot of an open transaction was taken.
        """
        table = rows.invals
        giver = committed_with(table.owner, toplevel_of(rows), txns)
        which = np.flatnonzero(giver >= 0)
        columns = (table.id, table.db, table.value)
        new = np.stack([txns.commit_lsn[giver[which]], *(column[which].astype(np.int64) for column in columns)])
        distinct, number = distinct_rows(new)
        count = np.bincount(number, minlength=distinct.shape[1])
        parts = zip((self.lsn, self.id, self.db, self.value, self.count), (*distinct, count), strict=True)
        both = [np.concatenate(pair).astype(np.int64) for pair in parts]
        keep = np.flatnonzero(both[0] > since)
        return HandedOn(*(column[keep] for column in both))


NOTHING_HANDED_ON = HandedOn(*(np.empty(0, np.int64) for _ in range(5)))
