"""The catalog at an LSN as a value: all that a store needs to go on from there, and nothing that no one sees any more.

Made and opened by :mod:`headwater.catalog.store.image_io`, compared and written by :mod:`headwater.base.value_codec`.
It needs neither the backup nor the WAL of before.

An image is canonical: it depends on the backup, the WAL up to its LSN and its horizon. It does not depend on how many
images were made on the way, nor on what was looked up. Versions stand in the order of their first place (file, block,
offset number), those without a place after them in the order of their content. Xids have 64 bits, so that an image may
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
from headwater.pg.catalogs import PG_SEQUENCE, catalog_layout, catalog_oids
from headwater.pg.version import VERSIONS

Int64s = NDArray[np.int64]
_BLOCKS = 1 << 32


class MappedFile(NamedTuple):
    """A file that a relation map names, or named at or after the horizon.

    Attributes:
        is_shared: whether the map is that of the shared catalogs.
        number: the file's number.
        oid: the catalog that lies there.
        left_lsn: LSN where a record mapped the catalog elsewhere, NEVER if none did.
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
    """The commands that a NEW_CID record gave for a tuple whose own record lies after the image's LSN."""

    block: int
    offnum: int
    xid: int
    cmin: int
    cmax: int


@dataclass(frozen=True, eq=False)
class HeapImage:
    """A file of a catalog, m tuples in b blocks; see :class:`headwater.catalog.store.heaps.CatalogHeap`.

    Attributes:
        locator: the file's locator.
        catalog: OID of the catalog, 0 if that is not known yet.
        rows: the versions of a file whose catalog is not known, else None: they are among the catalog's.
        file, is_missing, is_made, blocks, base_lsn, is_extended: the facts that the backup has of the file.
        is_rewritten, is_merged: the way the file came to be.
        block, offnum, row: int64[m] each tuple's block, offset number and version.
        lay: int64[] versions that lay here before, as far as that still matters.
        page_lsns: int64[b] ``pd_lsn`` of each block, up to the last one that has any.
        provisional: int64[] blocks that may come from the future.
        commands: the pending commands, in the order of their tuples.
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
        """Check that the columns fit each other.

        Raises:
            ValueError: the columns do not.
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
        """Check that the tuples are among these versions.

        Raises:
            ValueError: a tuple is not.
        """
        check_range(self.row, 0, len(rows))
        check_range(self.lay, 0, len(rows))


@dataclass(frozen=True, eq=False)
class CatalogImage:
    """The catalogs of one database at an LSN.

    Attributes:
        origin: the place and time at which the catalog was first taken.
        lsn: WAL from here on rolls the image forward.
        horizon: views at this LSN or later are available.
        next_xid: the next xid at ``lsn``, 64 bits.
        settled_before: 64 bits: all transactions before it had ended, None if that is not known of any.
        is_complete: whether the WAL has shown everything that the copy may lack.
        reach_lsn: the LSN that the WAL must reach at least.
        xids: int64[k] transactions that versions name, or a copy of one may yet, and commits: int64[k] their commit
            LSNs: 0 before the horizon, NEVER for an abort. Those not listed still run.
        hinted: int64[] transactions of which only the backup says that they committed, as far as versions name them or
            they may still run.
        commit_log: the backup's word on transactions, None once the copy is complete.
        mapped: in order; places: the file in which each catalog lies; remapped: the file to which a record mapped it;
            each by OID.
        strays: in order.
        unread: catalogs whose rows are not known.
        database: the database of these files: another one, as long as the own files are to be copied from it.
        descent: databases that will be copied from it, one from the other.
        copied_to: tablespaces that the database may have moved to.
        publication_names: names of all publications that have been visible, also before the horizon.
        catalogs: OID and versions of each catalog, by OID.
        heaps: the catalogs' files, by locator.
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
        """Check that the image has all catalogs, and that everything its columns and heaps name is there.

        Raises:
            ValueError: a part is missing, or not there.
        """
        check_lengths([self.xids, self.commits])
        check_lengths([self.hinted], len(self.hinted))
        catalogs = dict(self.catalogs)
        wanted = catalog_oids(self.origin.major) if self.origin.major in VERSIONS else frozenset()
        # Those of 19 that an earlier release made, without definitions, do not have that of sequences.
        has = (wanted, wanted - {PG_SEQUENCE}, catalog_oids(self.origin.major, True)) if wanted else ()
        if catalogs.keys() not in has:
            raise ValueError("it does not have the catalogs of its version")
        for oid, rows in catalogs.items():
            rows.check_fixed_length(catalog_layout(self.origin.major, oid).fixed_length)
        for heap in self.heaps:
            if heap.rows is None:
                heap.check_rows(catalogs[heap.catalog])
