"""The catalog at an LSN as a value: what a store needs to go on from there, and nothing that no one can see any more.

Made and opened by :mod:`headwater.catalog.store.image_io`, compared and written by :mod:`headwater.base.value_codec`.
It needs neither the backup nor the WAL of before.

An image is canonical: it depends on the backup, the WAL up to its LSN and its horizon, and not on how many images were
made on the way, nor on what was looked up. Versions stand in the order of their first place (file, block, offset
number), those without a place behind them in the order of their content. Xids have 64 bits, so that an image may
outlive 2^32 transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import check_lengths, check_range
from headwater.catalog.copy.commit_log import CommitLog
from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.store.version_rows import VersionRows
from headwater.pg.catalogs import catalog_layout, catalog_oids
from headwater.pg.version import VERSIONS

Int64s = NDArray[np.int64]
_BLOCKS = 1 << 32


class MappedFile(NamedTuple):
    """A file that a relation map names, or named at or after the horizon.

    Attributes:
        is_shared: the map of the shared catalogs.
        number: the file's.
        oid: the catalog that lies there.
        left_lsn: where a record mapped it elsewhere, NEVER if none did.
    """

    is_shared: bool
    number: int
    oid: int
    left_lsn: int


class CatalogPlace(NamedTuple):
    """The file in which a catalog lies."""

    oid: int
    locator: tuple[int, int, int]


class Stray(NamedTuple):
    """A file that a NEW_CID record of transaction ``xid`` named before it is known what lies in it."""

    locator: tuple[int, int, int]
    xid: int


class PendingCommand(NamedTuple):
    """What a NEW_CID record said of a tuple whose own record lies behind the image's LSN."""

    block: int
    offnum: int
    xid: int
    cmin: int
    cmax: int


@dataclass(frozen=True, eq=False)
class HeapImage:
    """A file of a catalog, m tuples in b blocks; see :class:`headwater.catalog.store.heaps.CatalogHeap`.

    Attributes:
        locator: its place.
        catalog: OID of the catalog, 0 if that is not known yet.
        rows: the versions of a file whose catalog is not known, else None: they are among the catalog's.
        file, is_missing, is_made, blocks, base_lsn, is_extended: what the backup has of it.
        is_rewritten, is_merged: how it came to be.
        block, offnum, row: int64[m] each tuple's block, offset number and version.
        lay: int64[] versions that lay here before, as far as that still matters.
        page_lsns: int64[b] ``pd_lsn`` of each block, up to the last one that has any.
        provisional: int64[] blocks that may come from the future.
        commands: in the order of their tuples.
    """

    locator: tuple[int, int, int]
    catalog: int
    rows: VersionRows | None
    file: str
    is_missing: bool
    is_made: bool
    blocks: int
    base_lsn: int
    is_extended: bool
    is_rewritten: bool
    is_merged: bool
    block: Int64s
    offnum: Int64s
    row: Int64s
    lay: Int64s
    page_lsns: Int64s
    provisional: Int64s
    commands: tuple[PendingCommand, ...]

    def check_parts(self) -> None:
        """Whether its columns fit each other.

        Raises:
            ValueError: they do not.
        """
        check_lengths([self.block, self.offnum, self.row])
        check_lengths([self.lay], len(self.lay))
        check_lengths([self.page_lsns], len(self.page_lsns))
        check_lengths([self.provisional], len(self.provisional))
        check_range(self.block, 0, _BLOCKS)
        check_range(self.provisional, 0, _BLOCKS)
        if self.rows is not None:
            self.check_rows(self.rows)

    def check_rows(self, rows: VersionRows) -> None:
        """Whether its tuples are among these versions.

        Raises:
            ValueError: one is not.
        """
        check_range(self.row, 0, len(rows))
        check_range(self.lay, 0, len(rows))


@dataclass(frozen=True, eq=False)
class CatalogImage:
    """The catalogs of one database at an LSN.

    Attributes:
        origin: where the catalog was taken first.
        lsn: WAL from here on rolls it forward.
        horizon: views at this LSN or later can be had.
        next_xid: 64 bits, at ``lsn``.
        settled_before: 64 bits: all transactions before it had ended, None if that is not known of any.
        is_complete: the WAL has shown all that the copy may lack.
        reach_lsn: the WAL must go as far as this at least.
        xids: int64[k] transactions that versions name, or a copy of one may yet, and commits: int64[k] where they
            committed: 0 before the horizon, NEVER for an abort. Those not listed still run.
        hinted: int64[] transactions of which only the backup says that they committed, as far as versions name them
            or they may still run.
        commit_log: what the backup said of transactions, None once the copy is complete.
        mapped: in order; places: where each catalog lies; remapped: where a record mapped it; each by OID.
        strays: in order.
        unread: catalogs whose rows are not known.
        database: whose files these are: another one's, as long as the own are to be copied of them.
        descent: databases that will be copied of it, one of the other.
        copied_to: tablespaces that the database may have moved to.
        publication_names: of all that have been visible, also before the horizon.
        catalogs: OID and versions of each catalog, by OID.
        heaps: by locator.
    """

    origin: CatalogOrigin
    lsn: int
    horizon: int
    next_xid: int
    settled_before: int | None
    is_complete: bool
    reach_lsn: int
    xids: Int64s
    commits: Int64s
    hinted: Int64s
    commit_log: CommitLog | None
    mapped: tuple[MappedFile, ...]
    places: tuple[CatalogPlace, ...]
    remapped: tuple[CatalogPlace, ...]
    strays: tuple[Stray, ...]
    unread: tuple[int, ...]
    database: int
    descent: tuple[int, ...]
    copied_to: tuple[int, ...]
    publication_names: tuple[bytes, ...]
    catalogs: tuple[tuple[int, VersionRows], ...]
    heaps: tuple[HeapImage, ...]

    def check_parts(self) -> None:
        """Whether it has all catalogs, and what its columns and heaps name is there.

        Raises:
            ValueError: it is not.
        """
        check_lengths([self.xids, self.commits])
        check_lengths([self.hinted], len(self.hinted))
        catalogs = dict(self.catalogs)
        has = (catalog_oids(self.origin.major, it) for it in (False, True)) if self.origin.major in VERSIONS else ()
        if catalogs.keys() not in has:
            raise ValueError("it does not have the catalogs of its version")
        for oid, rows in catalogs.items():
            rows.check_fixed_length(catalog_layout(self.origin.major, oid).fixed_length)
        for heap in self.heaps:
            if heap.rows is None:
                heap.check_rows(catalogs[heap.catalog])
