"""Transactions that were prepared before the catalog was taken, decoded from WAL of before that.

In: an index that begins before the catalog's LSN. Out: the same without what lies before, but for transactions that
were prepared at that LSN and are whole. Of these the WAL shows that they had not begun where the index begins. They
changed no catalog themselves, and nobody else changed one since, or wal_level. Then the catalog is the one that they
saw.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from headwater.catalog.copy.prepared import PreparedTransaction
from headwater.catalog.snapshot import xid_precedes
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.reorder.commits.transactions import toplevel_of
from headwater.rmgr.index.index_codes import COMMIT, COMMIT_PREPARED
from headwater.rmgr.index.index_rows import Rows
from headwater.rmgr.index.wal_index import WalIndex
from headwater.rmgr.registry import STANDBY, XLOG
from headwater.rmgr.standby import RUNNING_XACTS, parse_running_xacts
from headwater.rmgr.xlog import CHECKPOINT_SHUTDOWN, LOGICAL_DECODING_STATUS_CHANGE, PARAMETER_CHANGE, parse_checkpoint
from headwater.wal.layout import INFO_AT, RMID_AT, XLR_RMGR_INFO_MASK
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record


def next_xid_at(record: bytes, lsn: int, end_lsn: int, major: int) -> int | None:
    """Return the first xid that had not been given out at a record, if it tells; None for most.

    An online checkpoint does not: what it says was so at some time before.
    """
    rmid, info = record[RMID_AT], record[INFO_AT] & XLR_RMGR_INFO_MASK
    if rmid == STANDBY and info == RUNNING_XACTS:
        return parse_running_xacts(parse_record(record, lsn, end_lsn, major).main_data, lsn).next_xid
    if rmid == XLOG and info == CHECKPOINT_SHUTDOWN:
        return parse_checkpoint(parse_record(record, lsn, end_lsn, major).main_data, lsn, major).next_xid & 0xFFFFFFFF
    return None


def xids_told(frames: Frames, major: int) -> Iterator[tuple[int, int]]:
    """Give (LSN, next xid) of the records that tell it."""
    at = frames.positions
    rmid, info = frames.data[at + RMID_AT], frames.data[at + INFO_AT] & XLR_RMGR_INFO_MASK
    likely = ((rmid == STANDBY) & (info == RUNNING_XACTS)) | ((rmid == XLOG) & (info == CHECKPOINT_SHUTDOWN))
    for i in np.flatnonzero(likely).tolist():
        next_xid = next_xid_at(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), major)
        if next_xid is not None:
            yield int(frames.lsns[i]), next_xid


def without_earlier(index: WalIndex, store: CatalogStore) -> tuple[WalIndex, frozenset[int]]:
    """Leave out what lies before the catalog's LSN, but for whole prepared transactions.

    Args:
        index: of a window that may begin before that.
        store: the catalog, not rolled forward.

    Returns:
        the rest, and the xids of the prepared transactions that are whole in it.
    """
    if index.lo >= store.start_lsn:
        return index, frozenset()
    whole = frozenset(prepared.xid for prepared in store.origin.prepared if _is_whole(prepared, index, store))
    return replace(index, rows=_rows(index.rows, store.start_lsn, whole), kept=index.kept.since(store.start_lsn)), whole


def _is_whole(prepared: PreparedTransaction, index: WalIndex, store: CatalogStore) -> bool:
    earlier = [record for record in index.kept if record.lsn < store.start_lsn]
    next_xids = ((r.lsn, next_xid_at(r.data, r.lsn, r.end_lsn, store.major)) for r in earlier)
    before = [lsn for lsn, next_xid in next_xids if next_xid is not None and not xid_precedes(prepared.xid, next_xid)]
    if prepared.changes_catalog or not before:
        return False
    since, ends = before[-1], index.rows.ends
    commits = (ends.kind == COMMIT) | (ends.kind == COMMIT_PREPARED)
    commits &= (ends.lsn > since) & (ends.lsn < store.start_lsn) & (ends.invals > 0)
    commits &= (ends.database == 0) | (ends.database == store.database_oid)
    return not commits.any() and not any(entry.lsn > since and _sets_level(entry.data) for entry in earlier)


def _sets_level(record: bytes) -> bool:
    kind = record[INFO_AT] & XLR_RMGR_INFO_MASK
    return record[RMID_AT] == XLOG and kind in (PARAMETER_CHANGE, LOGICAL_DECODING_STATUS_CHANGE)


def _rows(rows: Rows, lsn: int, whole: Collection[int]) -> Rows:
    """Return the rows from an LSN on, and those of these transactions."""
    toplevel, xids = toplevel_of(rows), np.array(sorted(whole), np.int64)
    return rows.of_transactions(lambda xid: np.isin(toplevel(xid), xids), lsn)
