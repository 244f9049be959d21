"""The catalog over a span of WAL: every version of every row that decoding reads.

Made by :func:`headwater.catalog.bootstrap.open_catalog`, or of an image that a store has made of itself. Rolled forward
with :meth:`CatalogStore.apply`, told of the fates of transactions, then asked for views at any LSN from its horizon on.
Lives on the driver; tasks get the values that views give.

Rewritten catalogs: VACUUM FULL writes a new file before anyone can know what it is for. Its locator shows when the
relation map or the pg_class row changes. A store that was told it beforehand (:meth:`CatalogStore.add_extra`) has kept
its pages, and joins them with the catalog's history then; one that was not reports it in
:meth:`CatalogStore.missing_locators`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.catalog.commit_log import NoTransactions, Transactions
from headwater.catalog.heaps import CatalogHeap, HeapPlaces, Locator, places_in_pages
from headwater.catalog.historic_catalog import HistoricCatalog, relation_map_key
from headwater.catalog.image import CatalogImage
from headwater.catalog.memo import Memo
from headwater.catalog.origin import CatalogOrigin
from headwater.catalog.prepared import PreparedTransaction
from headwater.catalog.redo import HeapRedo, apply_storage
from headwater.catalog.rows import CatalogRows, DatabaseRow
from headwater.catalog.saving import image_of, restore
from headwater.catalog.search_path import DEFAULT_SEARCH_PATH, SearchPath
from headwater.catalog.tables import CatalogTable
from headwater.catalog.versions import FIRST_NORMAL_XID, NEVER, Dependency, Fates, OwnCommands, Timeline, Version
from headwater.catalog.whereabouts import Whereabouts, expect_move, follow_copy, settle_place
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    GLOBAL_TABLESPACE,
    PG_ATTRIBUTE,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_REPLICATION_ORIGIN,
    PG_TYPE,
    SHARED_CATALOGS,
    CatalogLayout,
    catalog_layout,
    catalog_oids,
)
from headwater.pg.lsn import Lsn
from headwater.rmgr import relmap as relmap_rmgr
from headwater.rmgr.registry import DBASE, RELMAP, SMGR
from headwater.wal.record import Record

OWN_MEMOS = 64


class CatalogStore:
    """The versions of the catalogs of one database.

    Args:
        origin: where the catalog came from.
        transactions: who knows those of before the WAL.
        is_complete: no page or file of the copy can lack what the WAL of before ``lsn`` did.
        with_definitions: the catalogs that have the definitions of objects are followed, too.

    Attributes:
        origin: where the catalog was taken first.
        transactions: who knows those of before the WAL.
        lsn: WAL from here on rolls it forward: the origin's ``start_lsn``, or the LSN of the image it was opened from.
        horizon: views at this LSN or later can be had.
        is_complete: see :meth:`complete`.
        reach_lsn: the window must go as far as this at least.
        fates: of transactions.
        rows: reads rows.
        tables: the catalogs, by OID.
        heaps: their files, by locator.
        redo: applies heap records.
        mapped: what relation maps name, by (is shared, file number): the catalog's OID, and the LSN where a record
            mapped it elsewhere.
        places: the file in which each catalog lies, or will lie if a running transaction commits, by OID.
        remapped: the file in which a record of the WAL mapped each catalog last, by OID.
        whereabouts: where the database's files lie.
        unread: catalogs whose rows are not known; an exported one may leave out those of roles.
        publication_names: of publications that were visible before the horizon.
        search_path: of the session that names types and objects; see :meth:`name_by`.
    """

    def __init__(
        self,
        origin: CatalogOrigin,
        transactions: Transactions,
        is_complete: bool = True,
        *,
        with_definitions: bool = False,
    ) -> None:
        self.origin = origin
        self.transactions = transactions
        self.lsn = origin.start_lsn
        self.horizon = 0
        self.is_complete = is_complete
        self.reach_lsn = origin.reach_lsn
        self.fates = Fates(transactions.is_committed, origin.next_xid)
        self.rows = CatalogRows(origin.major, origin.encoding)
        self._changed: set[Dependency] = set()
        self.tables = {
            oid: CatalogTable(catalog_layout(origin.major, oid), self.fates, self._changed, with_definitions)
            for oid in catalog_oids(origin.major, with_definitions)
        }
        self.heaps: dict[Locator, CatalogHeap] = {}
        self.redo = HeapRedo(self.heaps, origin.major, self._arrived)
        self.mapped: dict[tuple[bool, int], tuple[int, int]] = {}
        self.places: dict[int, Locator] = {}
        self.remapped: dict[int, Locator] = {}
        self.whereabouts = Whereabouts(origin.database_oid, origin.database_tablespace)
        self.unread: frozenset[int] = frozenset()
        self.publication_names: frozenset[bytes] = frozenset()
        self.search_path = DEFAULT_SEARCH_PATH
        self._source: CatalogImage | None = None
        self._by_name = {table.layout.name: table for table in self.tables.values()}
        self._class_reader = catalog_layout(origin.major, PG_CLASS).reader("oid", "relfilenode", "reltablespace")
        self._missing: set[Locator] = set()
        self._extras: set[Locator] = set()
        self._is_settled = True
        self._timelines: dict[Dependency, Timeline] = {}
        self._memo = Memo()
        self._own_memos: dict[OwnCommands, Memo] = {}
        self._own_keys: dict[frozenset[int], frozenset[Dependency]] = {}

    @classmethod
    def of_image(cls, image: CatalogImage, before: CatalogStore | None = None) -> CatalogStore:
        """The store as it was when an image was made of it.

        Args:
            image: the image.
            before: the store that made it, not touched since: what its views remember is taken over.
        """
        source: Transactions = image.commit_log or NoTransactions()
        with_definitions = len(image.catalogs) > len(catalog_oids(image.origin.major))
        store = cls(image.origin, source, image.is_complete, with_definitions=with_definitions)
        restore(store, image)
        store._source = image
        if before is not None:
            before._forget_changed()
            store.search_path = before.search_path
            store._memo, before._memo = before._memo.aged(image.horizon), Memo()
        return store

    def image(self, horizon: int, lsn: int, next_xid: int) -> CatalogImage:
        """The catalog as a value, from which a store can go on without the backup and the WAL up to here.

        Args:
            horizon: the oldest LSN at which views will be asked for; one before the store's own stands for that.
            lsn: WAL from here on rolls it forward: where the next record begins.
            next_xid: 64 bits, at ``lsn``.

        Raises:
            CatalogError: a file that a catalog lies in has not been read, see :meth:`missing_locators`.
        """
        settle_place(self)
        missing = self.missing_locators()
        if missing:
            raise CatalogError(f"{len(missing)} files of catalogs have not been read, first {min(missing)}", lsn=lsn)
        image = image_of(self, self._source, max(horizon, self.horizon), lsn, next_xid)
        expect_move(self)
        return image

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
        """The database's default tablespace, as far as the WAL has come."""
        return self.whereabouts.tablespace

    @property
    def encoding(self) -> str:
        """Name of the database's encoding."""
        return self.origin.encoding

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
        return frozenset(self.heaps)

    def missing_locators(self) -> frozenset[Locator]:
        """Files of catalogs that are not in :meth:`locators`. A store that has any cannot be relied on."""
        self._settle()
        return frozenset(self._missing)

    def add_extra(self, locator: Locator, base: bytes | None = None) -> None:
        """A file that will turn out to be a catalog's, with its pages if the backup has them.

        One that is followed already stays as it is.
        """
        if locator not in self.heaps:
            self._new_heap(locator, base, "", 0)
            self._extras.add(locator)

    def apply_earlier(self, records: Iterable[Record]) -> None:
        """Roll files forward that were added with :meth:`add_extra`, up to where this store begins.

        They were made, or written to, before :attr:`lsn`, when nothing told yet whose they are.

        Args:
            records: of before :attr:`lsn`, in LSN order: all that name one of these files; others are passed over.

        Raises:
            CatalogError: a file does not fit the WAL.
            RecordError: a record is malformed.
        """
        unknown = {locator: self.heaps[locator] for locator in self._extras if self.heaps[locator].catalog is None}
        redo = HeapRedo(unknown, self.major, self._arrived)
        for record in records:
            if record.rmid == SMGR:
                apply_storage(record, unknown)
            elif record.rmid != RELMAP:
                redo.apply(record)
        self._is_settled = False

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
        heap, bad_block = self._new_heap(locator, base, file, table.layout.fixed_length)
        if bad_block >= 0 and is_clean:
            raise CatalogError(f"invalid page in block {bad_block} of {table.layout.name}")
        heap.attach(table)
        self.places.setdefault(catalog_oid, locator)

    def add_places(self, locator: Locator, catalog_oid: int, places: HeapPlaces, base_lsn: int) -> None:
        """A catalog's file of which the rows are known, not the pages.

        Args:
            locator: its place.
            catalog_oid: which catalog it is.
            places: the rows, on provisional pages.
            base_lsn: as of which they are.
        """
        heap = CatalogHeap(locator, self.fates, self.transactions.update_xid, places)
        heap.blocks, heap.base_lsn = heap.end, base_lsn
        self.heaps[locator] = heap
        heap.attach(self.tables[catalog_oid])
        self.places.setdefault(catalog_oid, locator)

    def add_successor(self, locator: Locator, is_certain: bool) -> None:
        """A file that was added is the one to which its catalog moved from one that was added before.

        Args:
            locator: its place.
            is_certain: it had moved when the WAL begins, or will have if a transaction that runs there commits.
        """
        heap = self.heaps[locator]
        heap.is_rewritten = True
        if is_certain and heap.catalog is not None:
            heap.merge(heap.catalog, self._strangers(heap.catalog.layout.oid, heap, self.start_lsn))

    def _new_heap(self, locator: Locator, base: bytes | None, file: str, fixed_length: int) -> tuple[CatalogHeap, int]:
        places, bad_block = places_in_pages(
            base or b"", fixed_length, self.origin.start_lsn, self.fates, self.transactions.update_xid
        )
        heap = CatalogHeap(locator, self.fates, self.transactions.update_xid, places)
        heap.is_missing, heap.file = base is None, file
        heap.blocks, heap.base_lsn = heap.end, int(places.page_lsns.max(initial=0))
        self.heaps[locator] = heap
        return heap, bad_block

    def map_catalogs(self, mappings: dict[int, int], is_shared: bool, lsn: int = 0) -> None:
        """The relation map says where mapped catalogs lie.

        Args:
            mappings: OID to file number, the whole map.
            is_shared: it is that of the shared catalogs.
            lsn: of the record that says so.
        """
        before = self.mapped.copy()
        for (shared, number), (oid, left) in before.items():
            if shared == is_shared and left == NEVER and mappings.get(oid) != number:
                self.mapped[shared, number] = oid, lsn
        for oid, number in mappings.items():
            self.mapped[is_shared, number] = oid, NEVER
        changed = {key for key in self.mapped if self.mapped[key] != before.get(key)}
        self._forget({relation_map_key(shared, number) for shared, number in changed})

    def mapped_oid(self, filenode: int, is_shared: bool) -> int | None:
        """The mapped catalog that lies, lay or will lie in a file."""
        found = self.mapped.get((is_shared, filenode))
        return None if found is None else found[0]

    def complete(self) -> None:
        """The WAL that was applied has shown all that the copy may lack.

        To be called after the BACKUP_END record of an online backup; for another copy of a server that was not shut
        down, after the first checkpoint whose redo LSN is later than the origin's; for an exported catalog at its
        consistent point. Until then nothing is left out of images, and a view may lack rows that the copy lacks.
        """
        self.is_complete = True
        for heap in self.heaps.values():
            heap.is_as_of_now = self.origin.is_exported

    def take_fates(self, fates: Fates) -> None:
        """Ask these fates of transactions from here on; before there is any heap."""
        self.fates = fates
        for table in self.tables.values():
            table.fates = fates

    def settle_before(self, xid: int) -> None:
        """All transactions older than this one have ended: those of which no record says so aborted.

        To be called with the oldest running xid of each RUNNING_XACTS record, after the ends of transactions before it
        were told. Without it, what a crash has left behind stays in images.

        Args:
            xid: low 32 bits.
        """
        self.fates.settle_before(xid)

    def apply(self, record: Record) -> None:
        """Roll forward over one record, in LSN order.

        Args:
            record: of resource managers HEAP, HEAP2, XLOG (page images), SMGR, RELMAP or DBASE; others are passed over.

        Raises:
            CatalogError: the catalog does not fit the WAL.
            RecordError: the record is malformed.
        """
        self._is_settled = False
        self.whereabouts.note(record)
        if record.rmid == SMGR:
            apply_storage(record, self.heaps)
        elif record.rmid == DBASE:
            follow_copy(self, record)
        elif record.rmid == RELMAP:
            self._remap(relmap_rmgr.parse_update(record.main_data, record.lsn), record.lsn)
        else:
            self.redo.apply(record)

    def youngest_page(self) -> int:
        """LSN of the page of the catalogs' files in the backup that was changed last, as far as they are known."""
        return max((heap.base_lsn for heap in self.heaps.values() if heap.catalog is not None), default=0)

    def commit(self, xids: Sequence[int], lsn: int) -> None:
        """These transactions committed together, with a record that starts at ``lsn``."""
        self.fates.commit(xids, lsn)
        self._forget_touched(xids)

    def abort(self, xids: Sequence[int]) -> None:
        """These transactions aborted."""
        self.fates.abort(xids)
        self._forget_touched(xids)

    def view(self, lsn: int, own: OwnCommands | None = None) -> HistoricCatalog:
        """The catalog as it was at an LSN: with all that committed before it.

        Args:
            lsn: at or after :attr:`horizon`.
            own: a transaction that also sees its own changes.

        Raises:
            CatalogError: the LSN lies before the horizon.
        """
        if lsn < self.horizon:
            raise CatalogError(f"the catalog is known from {Lsn(self.horizon)} on, expected {Lsn(lsn)}", lsn=lsn)
        self._settle()
        self._forget_changed()
        if own is None:
            return HistoricCatalog(self, lsn, None, self._memo, frozenset(), None)
        return HistoricCatalog(self, lsn, own, self._memo, self._touched_by(own.xids), self._own_memo(own))

    def name_by(self, path: SearchPath) -> None:
        """Let views name types and objects as a session with this search_path; views from before are of no use then."""
        if path != self.search_path:
            self.search_path = path
            self._memo, self._own_memos = Memo(), {}

    def versions(self, key: Dependency) -> list[Version]:
        """All versions under (catalog, index, key)."""
        return self._by_name[key[0]].find(key[1], key[2])

    def has_rows(self, catalog: int) -> bool:
        """Whether the rows of a catalog, by OID, are known."""
        return catalog not in self.unread

    @property
    def has_definitions(self) -> bool:
        """The catalogs that have the definitions of objects are followed."""
        return PG_CONSTRAINT in self.tables

    def follows(self, catalog: str) -> bool:
        """Whether a catalog is followed, by its name."""
        return catalog in self._by_name

    def layout_of(self, catalog: str) -> CatalogLayout:
        """The layout of a catalog that is followed, by its name."""
        return self._by_name[catalog].layout

    def commands_under(self, key: Dependency, xids: frozenset[int]) -> list[int]:
        """Commands by which transactions made or removed rows under (catalog, index, key); unknown ones too."""
        versions = self.versions(key)
        made = [version.cmin for version in versions if version.inserter in xids]
        return made + [command for version in versions for xid, command in version.deleters.items() if xid in xids]

    def touched_by(self, xids: Iterable[int]) -> set[Dependency]:
        """Everything that rows made or removed by these transactions may be looked up by."""
        return set().union(*map(self._touched, xids))

    def timeline_of(self, key: Dependency) -> Timeline:
        """When each version under (catalog, index, key) is visible."""
        self._forget_changed()
        timeline = self._timelines.get(key)
        if timeline is None:
            timeline = self._timelines[key] = Timeline(self.versions(key), self.fates)
        return timeline

    def _touched_by(self, xids: frozenset[int]) -> frozenset[Dependency]:
        """Everything that rows made or removed by these transactions may be looked up by."""
        keys = self._own_keys.get(xids)
        if keys is None:
            keys = self._own_keys[xids] = frozenset().union(*map(self._touched, xids))
        return keys

    def _touched(self, xid: int) -> set[Dependency]:
        """Everything that rows which a transaction made or removed may be looked up by."""
        named = [(table, v) for table in self.tables.values() for base in table.bases for v in base.named_by(xid)]
        keys = self.redo.touched.get(xid, set()).union(*(table.keys_of(version) for table, version in named))
        return keys | {self._by_name[catalog].whole for catalog in {key[0] for key in keys} & self._by_name.keys()}

    def _own_memo(self, own: OwnCommands) -> Memo:
        memo = self._own_memos.get(own)
        if memo is None:
            if len(self._own_memos) >= OWN_MEMOS:
                self._own_memos.pop(next(iter(self._own_memos)))
            memo = self._own_memos[own] = Memo()
        return memo

    def _remembers(self) -> bool:
        return bool(self._timelines or self._memo or self._own_keys)

    def _forget_touched(self, xids: Sequence[int]) -> None:
        """What views remembered of rows that these transactions made or removed may no longer hold."""
        if self._remembers():
            self._forget(set().union(*map(self._touched, xids)))

    def _forget_changed(self) -> None:
        """What views remembered of rows that have changed may no longer hold; before a view is asked again."""
        if self._changed:
            self._forget(self._changed)
            self._changed.clear()

    def _forget(self, keys: set[Dependency]) -> None:
        if keys and self._remembers():
            for key in keys:
                self._timelines.pop(key, None)
            self._memo.forget(keys)
            self._own_memos.clear()
            self._own_keys.clear()

    def _arrived(self, heap: CatalogHeap, version: Version, lsn: int) -> None:
        """A pg_class row of a catalog may say that the catalog lies in another file now."""
        if heap.catalog is None or heap.catalog.layout.oid != PG_CLASS:
            return
        oid, filenode, tablespace = self._class_reader.unpack_from(version.data.body)
        if oid in self.tables and oid not in SHARED_CATALOGS and filenode:
            self._moved(oid, self.whereabouts.place(tablespace, filenode), lsn)

    @property
    def is_being_made(self) -> bool:
        """The database is created in WAL that has all its pages, and that has not come to its end yet."""
        return self.origin.is_logged and not self.database_rows()

    def database_rows(self) -> list[DatabaseRow]:
        """The committed versions of the database's row of ``pg_database``, in their order."""
        rows = [row for span in self.timeline_of(("pg_database", "oid", self.database_oid)).rows for row in span]
        return self.rows.databases(version.data for version in rows)

    def note_missing(self, locator: Locator) -> None:
        """A catalog lies in a file that nobody knew of."""
        self._missing.add(locator)

    def become(self, origin: CatalogOrigin, whereabouts: Whereabouts) -> None:
        """Be the store of another database, which is made in the WAL; before it is rolled forward."""
        self.origin, self.whereabouts = origin, whereabouts
        self.rows = CatalogRows(origin.major, origin.encoding)

    def _remap(self, update: relmap_rmgr.RelmapUpdate, lsn: int) -> None:
        is_shared = update.database == 0
        if not is_shared and update.database != self.whereabouts.database:
            return
        self.map_catalogs(update.mappings, is_shared, lsn)
        for oid, number in update.mappings.items():
            if oid in self.tables and (oid in SHARED_CATALOGS) == is_shared:
                spc = GLOBAL_TABLESPACE if is_shared else update.tablespace or self.whereabouts.tablespace
                self.remapped[oid] = spc, update.database, number
                self._moved(oid, self.remapped[oid], lsn)

    def _moved(self, oid: int, locator: Locator, lsn: int) -> None:
        """A catalog lies, or may lie if the transaction commits, in this file from ``lsn`` on.

        The backup may have known that before: then its files have not been joined yet, but are now.
        """
        self.places[oid] = locator
        heap = self.heaps.get(locator)
        if heap is None:
            self._missing.add(locator)
            return
        is_new = heap.catalog is None
        if (is_new or heap.is_rewritten) and not heap.is_merged:
            heap.merge(self.tables[oid], self._strangers(oid, heap, lsn))
        if is_new:
            self._joined(oid, heap, lsn)

    def _strangers(self, oid: int, heap: CatalogHeap, lsn: int) -> list[Version]:
        """Versions of a catalog that the WAL shows behind ``lsn`` only: no version of this file is a copy of them."""
        # The backup may hold a file to which the catalog moves even later.
        others = [other for other in self.heaps.values() if other.catalog is self.tables[oid] and other is not heap]
        later = [not other.is_merged and other.base_lsn > lsn for other in others]
        return [
            v
            for other, is_later in zip(others, later, strict=True)
            for v in (other.versions() if is_later else other.unsettled())
        ]

    def _joined(self, oid: int, heap: CatalogHeap, lsn: int) -> None:
        """What happened to this file's rows before it was known to be a catalog's is noted now."""
        if not self.is_complete:
            self.reach_lsn = max(self.reach_lsn, heap.base_lsn)
        for version in heap.versions():
            for xid in (version.inserter, *version.deleters):
                if xid >= FIRST_NORMAL_XID:
                    self.redo.touch(xid, heap, version)
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
        for locator in self.redo.strays.keys() - self.heaps.keys():
            if locator[1] in (0, self.whereabouts.database) and self.owner(locator) is None:
                self._missing.add(locator)
        for locator in sorted(self.redo.strays.keys() & self.heaps.keys()):
            heap = self.heaps[locator]
            if heap.catalog is None and not heap.is_rewritten:
                self._recognize(heap)

    def owner(self, locator: Locator) -> int | None:
        """A relation that lies in a file in the eyes of anyone; 0 for one that is mapped."""
        is_shared, spc = locator[1] == 0, 0 if locator[0] == self.database_tablespace else locator[0]
        if self.mapped_oid(locator[2], is_shared) is not None:
            return 0
        rows = self.rows.classes(v.data for v in self.tables[PG_CLASS].find("filenode", locator[2] | spc << 32))
        return rows[0].oid if rows else None

    def _recognize(self, heap: CatalogHeap) -> None:
        rows = [version.data for version in heap.versions()]
        is_shared = heap.locator[1] == 0
        for oid in (PG_REPLICATION_ORIGIN,) if is_shared else (PG_CLASS, PG_ATTRIBUTE, PG_TYPE):
            if rows and all(self.rows.looks_like(oid, row) for row in rows):
                # The catalog's other files are copies of this one as soon as the WAL has moved it there.
                heap.precede(self.tables[oid], self._strangers(oid, heap, -1))
                self._joined(oid, heap, self.start_lsn)
                break
