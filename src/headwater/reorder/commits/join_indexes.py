"""The indexes of neighbouring runs joined into one, with their seams checked.

In: :class:`WalIndex` values in LSN order, and rows that the windows before have left. Out: one :class:`WalIndex`. A
seam holds when the first record of a run points back (``xl_prev``) at the last record of the run before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headwater.errors import RecordError
from headwater.pg.lsn import Lsn
from headwater.rmgr.index.index_rows import NO_ROWS, Rows, join_rows
from headwater.rmgr.index.kept_records import join_kept
from headwater.rmgr.index.wal_index import WalIndex


def merge_indexes(indexes: Sequence[WalIndex], left: Rows = NO_ROWS) -> WalIndex:
    """Join the indexes of neighbouring runs.

    Args:
        indexes: at least one, in LSN order; what follows an end of the log is left out.
        left: rows of transactions that were open before them: they come first.

    Returns:
        their union.

    Raises:
        RecordError: two runs do not meet.
    """
    used = _until_end(indexes)
    _check_seams(used)
    return WalIndex(
        lo=used[0].lo,
        hi=used[-1].hi,
        records=sum(i.records for i in used),
        first_prev=next((i.first_prev for i in used if i.records), 0),
        last_lsn=next((i.last_lsn for i in reversed(used) if i.records), 0),
        last_end=next((i.last_end for i in reversed(used) if i.records), 0),
        rows=join_rows([*([left] if len(left.xids) or len(left.assigns) else []), *(i.rows for i in used)]),
        kept=join_kept([i.kept for i in used]),
        custom=np.sum([i.custom for i in used], axis=0),
        end=used[-1].end,
        grid=used[0].grid,
    )


def with_detailed(left: Rows, again: Rows, since: int) -> Rows:
    """Return the rows that were left, with finer rows of changes of some transactions.

    These are the transactions that have no changes before an LSN.

    Args:
        left: of open transactions.
        again: of the WAL from that LSN up to where they were left, indexed once more.
        since: the LSN.
    """
    xids = np.setdiff1d(left.changes.xid, left.changes.xid[left.changes.first < since])
    coarse, fine = ~np.isin(left.changes.xid, xids), np.isin(again.changes.xid, xids)
    parts = [
        replace(left, changes=left.changes.take(np.flatnonzero(coarse))),
        replace(NO_ROWS, changes=again.changes.take(np.flatnonzero(fine)), locators=again.locators),
    ]
    joined = join_rows(parts)
    return replace(joined, changes=joined.changes.take(np.argsort(joined.changes.first, kind="stable")))


def _until_end(indexes: Sequence[WalIndex]) -> list[WalIndex]:
    used = []
    for index in indexes:
        used.append(index)
        if index.end is not None:
            break
    return used


def _check_seams(indexes: Sequence[WalIndex]) -> None:
    last = 0
    for index in indexes:
        if not index.records:
            continue
        if last and index.first_prev != last:
            raise RecordError(
                f"the first record from {Lsn(index.lo)} points back at {Lsn(index.first_prev)}, expected {Lsn(last)}",
                lsn=index.lo,
                hint="segments of different servers or timelines may be mixed in one directory",
            )
        last = index.last_lsn
