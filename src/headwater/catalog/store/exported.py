"""A catalog that a server was asked for, row by row, made into a store that WAL rolls forward.

In: the rows that an exported snapshot of a logical slot shows, and the facts of ``pg_control``. Out: a store at the
redo LSN of a checkpoint that was made before the slot.

Why this joins the WAL without a gap. The slot waits until every transaction that it will decode begins after its
``restart_lsn``, and exports what a snapshot sees at its consistent point C. The checkpoint's redo LSN K lies before
``restart_lsn``. The first record that changes a page after K has the page as a whole (full_page_writes), so:

- A page that nothing has changed between K and C holds, of what anyone can still see, exactly the rows that the
  snapshot shows: whoever wrote to it had ended before C.
- Any other page comes whole from the WAL, with all that was on it, visible or not.

So a row of the server stands here for its page until the WAL brings that page: all pages are provisional, as those of
an online backup that ended at C. A row need not have the bytes that it is stored in, because no record changes it
before the WAL has brought those. A record that tries is refused: its page has the highest LSN there is.

The WAL also brings pages with dead rows and rows of aborted transactions. The server's commit log decides about these,
from the oldest xid on that can be there unfrozen. The log stays with the catalog, as a page may come late.

Known gap: the members of multixacts are not known. A catalog's row that one transaction locked and another updated,
both before the export, is refused when its page comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwater.catalog.copy.commit_log import CommitLog
from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.heaps import HeapPlaces, Locator
from headwater.catalog.store.rows_over_sql import SentRow
from headwater.catalog.store.tables import VersionBase
from headwater.catalog.store.version_rows import XID_MASK, VersionRows, rows_of_versions
from headwater.catalog.versions import FIRST_NORMAL_XID, FROZEN_XID, Version

NO_RECORD_YET = (1 << 62) - 1
"""The ``pd_lsn`` of a page that the WAL must bring as a whole before a record may change it."""


@dataclass(frozen=True)
class ExportedFile:
    """A catalog that a server exported.

    Attributes:
        oid: the catalog's OID.
        locator: the catalog's file.
        pages: number of pages of the file.
        rows: the rows that the snapshot shows.
    """

    oid: int
    locator: Locator
    pages: int
    rows: Sequence[SentRow]


@dataclass(frozen=True)
class ExportedCatalog:
    """The catalogs of a database, as a server exported them.

    Attributes:
        origin: the checkpoint and its cluster, with the consistent LSN.
        oldest_active_xid: the oldest xid that ran at the checkpoint, 0 if none did.
        oldest_xid: 64 bits: older xids lie in no catalog but frozen.
        commit_log: the fates of transactions from there on.
        shared_map, local_map: file numbers of mapped relations by OID.
        files: the catalogs.
    """

    origin: CatalogOrigin
    oldest_active_xid: int
    oldest_xid: int
    commit_log: CommitLog
    shared_map: dict[int, int]
    local_map: dict[int, int]
    files: Sequence[ExportedFile]


def store_of_export(export: ExportedCatalog) -> CatalogStore:
    """Make the store of an export, at the checkpoint's redo LSN."""
    store = CatalogStore(export.origin, export.commit_log, is_complete=False)
    if export.oldest_active_xid:
        store.settle_before(export.oldest_active_xid)
    store.unread = frozenset(store.tables) - {file.oid for file in export.files}
    store.files.map_catalogs(export.shared_map, is_shared=True)
    store.files.map_catalogs(export.local_map, is_shared=False)
    for file in export.files:
        store.files.add_places(file.locator, file.oid, _places(export, file), export.origin.consistent_lsn)
    return store


def _places(export: ExportedCatalog, file: ExportedFile) -> HeapPlaces:
    order = sorted(file.rows, key=lambda row: (row.block, row.offnum))
    blocks = max(file.pages, order[-1].block + 1 if order else 0)
    return HeapPlaces(
        base=VersionBase(_version_rows(export, order)),
        block=np.array([row.block for row in order], np.int64),
        offnum=np.array([row.offnum for row in order], np.int64),
        row=np.arange(len(order)),
        page_lsns=np.full(blocks, NO_RECORD_YET, np.int64),
        provisional=np.arange(blocks),
    )


def _version_rows(export: ExportedCatalog, rows: Sequence[SentRow]) -> VersionRows:
    next_xid = export.origin.next_full_xid
    return rows_of_versions(
        [Version(row.xmin, _inserter(row.xmin, next_xid, export.oldest_xid), row.data) for row in rows]
    )


def _inserter(xmin: int, next_xid: int, oldest_xid: int) -> int:
    """Return the xid that decides whether a row exists; the raw xmin of a frozen row may be of another epoch."""
    age = next_xid - xmin & XID_MASK
    is_recent = age <= next_xid - oldest_xid or age >= 1 << 31
    return xmin if is_recent or xmin < FIRST_NORMAL_XID else FROZEN_XID
