"""The catalog over a span of WAL: every version of every row that decoding reads.

Made by :func:`headwater.catalog.bootstrap.open_catalog`, rolled forward with :meth:`CatalogStore.apply`, told of the
fates of transactions, then asked for views at any LSN. Lives on the driver; tasks get the values that views give.

Rewritten catalogs: VACUUM FULL writes a new file before anyone can know what it is for. Its locator shows when the
relation map or the pg_class row changes. A store that was told it beforehand (``extra_locators``) has kept its pages,
and joins them with the catalog's history then; one that was not reports it in :meth:`CatalogStore.missing_locators`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.catalog.heaps import CatalogHeap, Locator
from headwater.catalog.historic_catalog import HistoricCatalog, Memo
from headwater.catalog.prepared import PreparedTransaction
from headwater.catalog.redo import MAIN_FORK, HeapRedo
from headwater.catalog.rows import CatalogRows
from headwater.catalog.tables import CatalogTable, Key
from headwater.catalog.versions import FIRST_NORMAL_XID, NEVER, Fates, OwnCommands, Timeline, Version
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    CATALOG_NAMES,
    GLOBAL_TABLESPACE,
    PG_ATTRIBUTE,
    PG_CLASS,
    PG_DATABASE,
    PG_TYPE,
    SHARED_CATALOGS,
    catalog_layout,
)
from headwater.rmgr import relmap as relmap_rmgr
from headwater.rmgr import smgr as smgr_rmgr
from headwater.wal.record import Record

RM_SMGR, RM_RELMAP = 2, 7
OWN_MEMOS = 64
INCOMPLETE = "is the copy complete? take a new base backup"


@dataclass(frozen=True)
class CatalogOrigin:
    """Where and when a catalog was taken.

    Attributes:
        major: PostgreSQL's major version.
        system_identifier: of the cluster.
        timeline: at ``start_lsn``.
        start_lsn: the redo LSN: WAL from here on rolls the catalog forward.
        is_shutdown: ``start_lsn`` is a shutdown checkpoint: nothing was running.
        database_oid: of the database.
        database_name: its name.
        database_tablespace: its default tablespace's OID.
        encoding: name of its encoding.
        wal_level: of ``pg_control``: 0 minimal, 1 replica, 2 logical.
        next_xid: low 32 bits of the next xid of ``pg_control``.
        prepared: transactions of the database that were prepared then.
        segment_blocks: blocks per file of a relation.
        backup_start: a BACKUP_END record that names this LSN must be in the window, None if none need be.
        reach_lsn: likewise, as far as the control file tells; reach_timeline: on which timeline.
    """

    major: int
    system_identifier: int
    timeline: int
    start_lsn: int
    is_shutdown: bool
    database_oid: int
    database_name: str
    database_tablespace: int
    encoding: str
    wal_level: int
    next_xid: int
    prepared: tuple[PreparedTransaction, ...] = ()
    segment_blocks: int = 1 << 17
    backup_start: int | None = None
    reach_lsn: int = 0
    reach_timeline: int = 1


class CatalogStore:
    """The versions of the catalogs of one database.

    Args:
        origin: where the catalog came from.
        fates: of transactions.
        update_xid: resolves a multixact to its updater.

    Attributes:
        reach_lsn: the window must go as far as this at least.
    """

    def __init__(
        self,
        origin: CatalogOrigin,
        fates: Fates,
        update_xid: Callable[[int], int],
    ) -> None:
        self.origin = origin
        self.fates = fates
        self.reach_lsn = origin.reach_lsn
        self.rows = CatalogRows(origin.major, origin.encoding)
        self.tables = {oid: CatalogTable(catalog_layout(origin.major, oid), fates) for oid in CATALOG_NAMES}
        self._by_name = {table.layout.name: table for table in self.tables.values()}
        self._update_xid = update_xid
        self._heaps: dict[Locator, CatalogHeap] = {}
        self._redo = HeapRedo(self._heaps, origin.major, self._arrived)
        self._class_reader = catalog_layout(origin.major, PG_CLASS).reader("oid", "relfilenode", "reltablespace")
        self._pages_reader = catalog_layout(origin.major, PG_CLASS).reader("relpages")
        self._moves: list[Version] = []
        self._missing: set[Locator] = set()
        self._places: dict[int, Locator] = {}
        self._is_settled = True
        self._mapped: dict[tuple[bool, int], int] = {}
        self._timelines: dict[tuple[str, str, Key], Timeline] = {}
        self._memo = Memo()
        self._own_memos: dict[OwnCommands, Memo] = {}
        self._own_keys: dict[frozenset[int], frozenset[tuple[str, str, Key]]] = {}

    @property
    def major(self) -> int:
        """PostgreSQL's major version."""
        return self.origin.major

    @property
    def system_identifier(self) -> int:
        """The cluster's."""
        return self.origin.system_identifier

    @property
    def timeline(self) -> int:
        """The timeline at :attr:`start_lsn`."""
        return self.origin.timeline

    @property
    def start_lsn(self) -> int:
        """Where rolling forward begins."""
        return self.origin.start_lsn

    @property
    def is_shutdown(self) -> bool:
        """Nothing was running at :attr:`start_lsn`."""
        return self.origin.is_shutdown

    @property
    def database_oid(self) -> int:
        """The database's OID."""
        return self.origin.database_oid

    @property
    def database_name(self) -> str:
        """The database's name."""
        return self.origin.database_name

    @property
    def database_tablespace(self) -> int:
        """The database's default tablespace."""
        return self.origin.database_tablespace

    @property
    def encoding(self) -> str:
        """Name of the database's encoding."""
        return self.origin.encoding

    @property
    def wal_level(self) -> int:
        """0 minimal, 1 replica, 2 logical."""
        return self.origin.wal_level

    @property
    def next_xid(self) -> int:
        """Low 32 bits of the next xid when the catalog was taken."""
        return self.origin.next_xid

    @property
    def prepared(self) -> tuple[PreparedTransaction, ...]:
        """Transactions of the database that were prepared when the catalog was taken."""
        return self.origin.prepared

    def locators(self) -> frozenset[Locator]:
        """The files whose records :meth:`apply` must be given."""
        return frozenset(self._heaps)

    def missing_locators(self) -> frozenset[Locator]:
        """Files of catalogs that are not in :meth:`locators`. A store that has any cannot be relied on."""
        self._settle()
        return frozenset(self._missing)

    def add_extra(self, locator: Locator, base: bytes | None = None, file: str = "") -> None:
        """A file that will turn out to be a catalog's, with its pages if the backup has them."""
        heap = self._new_heap(locator, base or b"")
        heap.is_missing, heap.file = base is None, file

    def add_heap(self, locator: Locator, catalog_oid: int, base: bytes | None, is_clean: bool, file: str = "") -> None:
        """A catalog's file in the backup.

        Args:
            locator: its place.
            catalog_oid: which catalog it is.
            base: its pages; None if the backup lacks it.
            is_clean: no server wrote during the copy; else torn pages are no error, as the WAL has them whole.
            file: its name, for errors.

        Raises:
            CatalogError: a page is broken.
        """
        table = self.tables[catalog_oid]
        heap = self._heaps.get(locator) or self._new_heap(locator, base or b"")
        heap.is_missing, heap.file = base is None, file
        scan = heap.scan(table.layout)
        if scan.bad_block >= 0 and is_clean:
            raise CatalogError(f"invalid page in block {scan.bad_block} of {table.layout.name}")
        heap.attach(table, scan)
        self._places.setdefault(catalog_oid, locator)

    def map_catalogs(self, mappings: dict[int, int], is_shared: bool) -> None:
        """The relation map says where mapped catalogs lie."""
        for oid, number in mappings.items():
            self._mapped[is_shared, number] = oid

    def mapped_oid(self, filenode: int, is_shared: bool) -> int | None:
        """The mapped catalog that lies, lay or will lie in a file."""
        return self._mapped.get((is_shared, filenode))

    def apply(self, record: Record) -> None:
        """Roll forward over one record, in LSN order.

        Args:
            record: of resource managers HEAP, HEAP2, XLOG (page images), SMGR or RELMAP; others are passed over.

        Raises:
            CatalogError: the catalog does not fit the WAL.
            RecordError: the record is malformed.
        """
        self._changed()
        self._is_settled = False
        if record.rmid == RM_RELMAP:
            self._remap(relmap_rmgr.parse_update(record.main_data, record.lsn), record.lsn)
        elif record.rmid == RM_SMGR and record.info & 0xF0 == smgr_rmgr.TRUNCATE:
            change = smgr_rmgr.parse_truncate(record.main_data, record.lsn)
            heap = self._heaps.get(change.locator)
            if heap is not None and change.flags & smgr_rmgr.TRUNCATE_HEAP:
                heap.truncate(change.blocks)
        elif record.rmid == RM_SMGR:
            made = smgr_rmgr.parse_create(record.main_data, record.lsn)
            if made.locator in self._heaps and made.fork == MAIN_FORK:
                self._heaps[made.locator].is_made = True
        else:
            self._redo.apply(record)

    def check_files(self) -> None:
        """Refuse a backup that lacks a file, or a part of one, that a catalog still lies in, as far as the WAL is read.

        What the WAL has made anew, or what the catalog has left in the window, the backup need not have: then the WAL
        has all of it. ``relpages`` is looked at only where a file may end because the next one is missing.

        Raises:
            CatalogError: a file is missing.
        """
        for oid, table in self.tables.items():
            locator, pages = self._place_and_pages(oid)
            heap = None if locator is None else self._heaps.get(locator)
            if heap is None or heap.is_made:
                continue
            if heap.is_missing:
                raise CatalogError(f"{table.layout.name} has no file", file=heap.file, hint=INCOMPLETE)
            may_end = heap.blocks % self.origin.segment_blocks == 0 and not heap.is_extended
            if may_end and pages > heap.blocks:
                raise CatalogError(
                    f"{table.layout.name} has {heap.blocks} pages, expected {pages} as pg_class says",
                    file=heap.file,
                    hint=INCOMPLETE,
                )

    def _place_and_pages(self, oid: int) -> tuple[Locator | None, int]:
        """Where a catalog lies at the end of the window, and how many pages it should have at least."""
        rows = self.timeline_of(("pg_class", "oid", oid)).rows[-1]
        if oid in SHARED_CATALOGS or not rows:
            return self._places.get(oid), 0
        (pages,) = self._pages_reader.unpack_from(rows[0].data.body)
        _, filenode, tablespace = self._class_reader.unpack_from(rows[0].data.body)
        if filenode == 0:
            return self._places.get(oid), pages
        return (tablespace or self.database_tablespace, self.database_oid, filenode), pages

    def youngest_page(self) -> int:
        """LSN of the page of the catalogs' files in the backup that was changed last."""
        return max((heap.base_lsn for heap in self._heaps.values()), default=0)

    def commit(self, xids: Sequence[int], lsn: int) -> None:
        """These transactions committed together, with a record that starts at ``lsn``."""
        self._changed()
        self.fates.commit(xids, lsn)

    def abort(self, xids: Sequence[int]) -> None:
        """These transactions aborted."""
        self._changed()
        self.fates.abort(xids)

    def view(self, lsn: int, own: OwnCommands | None = None) -> HistoricCatalog:
        """The catalog as it was at an LSN: with all that committed before it.

        Args:
            lsn: at or after :attr:`start_lsn`.
            own: a transaction that also sees its own changes.
        """
        self._settle()
        if own is None:
            return HistoricCatalog(self, lsn, None, self._memo, frozenset(), None)
        return HistoricCatalog(self, lsn, own, self._memo, self._touched_by(own.xids), self._own_memo(own))

    def versions(self, key: tuple[str, str, Key]) -> list[Version]:
        """All versions under (catalog, index, key)."""
        return self._by_name[key[0]].find(key[1], key[2])

    def timeline_of(self, key: tuple[str, str, Key]) -> Timeline:
        """When each version under (catalog, index, key) is visible."""
        timeline = self._timelines.get(key)
        if timeline is None:
            timeline = self._timelines[key] = Timeline(self.versions(key), self.fates)
        return timeline

    def _touched_by(self, xids: frozenset[int]) -> frozenset[tuple[str, str, Key]]:
        """Everything that rows made or removed by these transactions may be looked up by."""
        keys = self._own_keys.get(xids)
        if keys is None:
            touched = (self._redo.touched[xid] for xid in xids if xid in self._redo.touched)
            keys = self._own_keys[xids] = frozenset().union(*touched)
        return keys

    def _own_memo(self, own: OwnCommands) -> Memo:
        memo = self._own_memos.get(own)
        if memo is None:
            if len(self._own_memos) >= OWN_MEMOS:
                self._own_memos.pop(next(iter(self._own_memos)))
            memo = self._own_memos[own] = Memo()
        return memo

    def _changed(self) -> None:
        """What views remembered may no longer hold."""
        if self._timelines or self._memo or self._own_memos:
            self._timelines.clear()
            self._memo.clear()
            self._own_memos.clear()
            self._own_keys.clear()

    def _new_heap(self, locator: Locator, base: bytes = b"") -> CatalogHeap:
        heap = CatalogHeap(locator, self.fates, self.origin.start_lsn, self._update_xid, base)
        self._heaps[locator] = heap
        return heap

    def _arrived(self, heap: CatalogHeap, version: Version, lsn: int) -> None:
        """A pg_class row of a catalog may say that the catalog lies in another file now."""
        if heap.catalog is not None and heap.catalog.layout.oid == PG_DATABASE:
            self._note_place(version)
        if heap.catalog is None or heap.catalog.layout.oid != PG_CLASS:
            return
        oid, filenode, tablespace = self._class_reader.unpack_from(version.data.body)
        if oid in self.tables and oid not in SHARED_CATALOGS and filenode:
            self._moved(oid, (tablespace or self.database_tablespace, self.database_oid, filenode), lsn)

    def moved_at(self) -> int | None:
        """Where the database moved to another tablespace (ALTER DATABASE SET TABLESPACE), None if it never did.

        Its files are copied then, with no record of their pages.
        """
        commits = (self.fates.commit_lsn(version.inserter) for version in self._moves)
        return min((lsn for lsn in commits if self.start_lsn <= lsn < NEVER), default=None)

    def _note_place(self, version: Version) -> None:
        (row,) = self.rows.databases([version.data])
        if row.oid == self.database_oid and row.tablespace != self.database_tablespace:
            self._moves.append(version)

    def _remap(self, update: relmap_rmgr.RelmapUpdate, lsn: int) -> None:
        is_shared = update.database == 0
        if not is_shared and update.database != self.database_oid:
            return
        self.map_catalogs(update.mappings, is_shared)
        for oid, number in update.mappings.items():
            if oid in self.tables and (oid in SHARED_CATALOGS) == is_shared:
                spc = GLOBAL_TABLESPACE if is_shared else update.tablespace or self.database_tablespace
                self._moved(oid, (spc, update.database, number), lsn)

    def _moved(self, oid: int, locator: Locator, lsn: int) -> None:
        """A catalog lies, or may lie if the transaction commits, in this file from ``lsn`` on."""
        if self._places.get(oid) == locator:
            return
        self._places[oid] = locator
        heap = self._heaps.get(locator)
        if heap is None:
            self._missing.add(locator)
            return
        if heap.catalog is None or heap.is_rewritten:
            is_new = heap.catalog is None
            # The backup may hold a file to which the catalog moves even later.
            later = [h for h in self._heaps_of(oid) if h is not heap and not h.is_merged and h.base_lsn > lsn]
            heap.merge(self.tables[oid], [version for h in later for version in h.versions()])
            if is_new:
                self._joined(oid, heap, lsn)

    def _heaps_of(self, oid: int) -> list[CatalogHeap]:
        return [heap for heap in self._heaps.values() if heap.catalog is self.tables[oid]]

    def _joined(self, oid: int, heap: CatalogHeap, lsn: int) -> None:
        """What happened to this file's rows before it was known to be a catalog's is noted now."""
        for version in heap.versions():
            for xid in (version.inserter, *version.deleters):
                if xid >= FIRST_NORMAL_XID:
                    self._redo.touch(xid, heap, version)
            if oid == PG_CLASS:
                self._arrived(heap, version, lsn)

    def _settle(self) -> None:
        """Find the old file of a mapped catalog that was rewritten while the backup was taken.

        The backup has the new relation map, so nothing names the old file but NEW_CID records: no pg_class row and no
        map knows it. Which catalog it was shows in its rows.
        """
        if self._is_settled:
            return
        self._is_settled = True
        for locator in self._redo.strays - self._heaps.keys():
            if locator[1] == self.database_oid and self._owner(locator) is None:
                self._missing.add(locator)
        for heap in list(self._heaps.values()):
            if heap.catalog is None and not heap.is_rewritten:
                self._recognize(heap)

    def _owner(self, locator: Locator) -> int | None:
        """A relation that lies in a file in the eyes of anyone; 0 for one that is mapped."""
        spc = 0 if locator[0] == self.database_tablespace else locator[0]
        if self.mapped_oid(locator[2], False) is not None:
            return 0
        rows = self.rows.classes(v.data for v in self.tables[PG_CLASS].find("filenode", locator[2] | spc << 32))
        return rows[0].oid if rows else None

    def _recognize(self, heap: CatalogHeap) -> None:
        rows = [version.data for version in heap.versions()]
        for oid in (PG_CLASS, PG_ATTRIBUTE, PG_TYPE):
            if rows and all(self.rows.looks_like(oid, row) for row in rows):
                heap.precede(self.tables[oid])
                self._joined(oid, heap, self.start_lsn)
                break
