"""The files of the catalogs of one database: which file each catalog lies in, and what lies there.

In: files of a backup, rows that a server sent, or the heaps of an image; relation maps. Out: heaps by locator, which
:mod:`headwater.catalog.store.catalog_redo` rolls forward, and :mod:`headwater.catalog.store.database_copies` moves with
their database.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.store.database_location import Whereabouts
from headwater.catalog.store.heaps import CatalogHeap, HeapPlaces, Locator, places_in_pages
from headwater.catalog.store.tables import CatalogTable
from headwater.catalog.versions import NEVER, Dependency, Fates, Version, relation_map_key
from headwater.errors import CatalogError


class CatalogFiles:
    """The files that the catalogs of one database lie in, lay in, or may come to lie in.

    Args:
        origin: the place and time at which the catalog was taken.
        tables: the catalogs, by OID.
        fates: the fates of transactions.
        update_xid: resolves the updater of a multixact of before the WAL, 0 if it has none.
        changed: takes the keys under which something may be found otherwise; emptied by its owner.
        is_complete: whether no page or file of the copy can lack what the WAL of before ``start_lsn`` did.

    Attributes:
        heaps: the files, by locator.
        places: the file in which each catalog lies, or will lie if a running transaction commits, by OID.
        remapped: the file in which a record of the WAL mapped each catalog last, by OID.
        mapped: the files that relation maps name, by (is shared, file number): the catalog's OID, and the LSN where a
            record mapped it elsewhere.
        missing: files in which a catalog lies, and whose records were not applied.
        whereabouts: the location of the database's files.
        start_lsn: the WAL from here on shows what happened to the files.
        is_complete: see :meth:`complete`.
        reach_lsn: the LSN that the window must reach at least.
    """

    def __init__(
        self,
        origin: CatalogOrigin,
        tables: dict[int, CatalogTable],
        fates: Fates,
        update_xid: Callable[[int], int],
        changed: set[Dependency],
        is_complete: bool,
    ) -> None:
        self.heaps: dict[Locator, CatalogHeap] = {}
        self.places: dict[int, Locator] = {}
        self.remapped: dict[int, Locator] = {}
        self.mapped: dict[tuple[bool, int], tuple[int, int]] = {}
        self.missing: set[Locator] = set()
        self.whereabouts = Whereabouts(origin.database_oid, origin.database_tablespace)
        self.start_lsn = origin.start_lsn
        self.is_complete = is_complete
        self.reach_lsn = origin.reach_lsn
        self._is_exported = origin.is_exported
        self._tables = tables
        self._fates = fates
        self._update_xid = update_xid
        self._changed = changed
        self._extras: set[Locator] = set()

    def locators(self) -> frozenset[Locator]:
        """Return the files whose records must be applied."""
        return frozenset(self.heaps)

    def complete(self) -> None:
        """Note that the WAL that was applied has shown everything that the copy may lack.

        To be called after the BACKUP_END record of an online backup. For a copy of a server that was not shut down,
        call it after the first checkpoint whose redo LSN is later than the origin's. For an exported catalog, call it
        at its consistent point. Until then nothing is left out of images, and a view may lack rows that the copy lacks.
        """
        self.is_complete = True
        for heap in self.heaps.values():
            heap.is_as_of_now = self._is_exported

    def add_extra(self, locator: Locator, base: bytes | None = None) -> None:
        """Add a file that will turn out to be a catalog's, with its pages if the backup has them.

        A file that is followed already stays as it is.
        """
        if locator not in self.heaps:
            self._read(locator, base, "", 0)
            self._extras.add(locator)

    def extras_unknown(self) -> dict[Locator, CatalogHeap]:
        """Return the files that were added with :meth:`add_extra`, as far as their catalog is not known yet."""
        return {locator: self.heaps[locator] for locator in self._extras if self.heaps[locator].catalog is None}

    def add_heap(self, locator: Locator, catalog_oid: int, base: bytes | None, is_clean: bool, file: str = "") -> None:
        """Add a catalog's file in the backup.

        Args:
            locator: the file's locator.
            catalog_oid: the catalog's OID.
            base: the file's pages; None if the backup lacks it.
            is_clean: whether no server wrote during the copy; else torn pages are no error, as the WAL has them whole.
            file: the file's name, for errors.

        Raises:
            CatalogError: a page is broken.
        """
        table = self._tables[catalog_oid]
        heap, bad_block = self._read(locator, base, file, table.layout.fixed_length)
        if bad_block >= 0 and is_clean:
            raise CatalogError(f"invalid page in block {bad_block} of {table.layout.name}")
        heap.attach(table)
        self.places.setdefault(catalog_oid, locator)

    def add_places(self, locator: Locator, catalog_oid: int, places: HeapPlaces, base_lsn: int) -> None:
        """Add a catalog's file of which the rows are known, not the pages.

        Args:
            locator: the file's locator.
            catalog_oid: the catalog's OID.
            places: the rows, on provisional pages.
            base_lsn: the LSN as of which they are.
        """
        self._new_heap(locator, places, base_lsn).attach(self._tables[catalog_oid])
        self.places.setdefault(catalog_oid, locator)

    def add_successor(self, locator: Locator, is_certain: bool) -> None:
        """Note that a catalog moved to a file that was added, from a file that was added before.

        Args:
            locator: the new file's locator.
            is_certain: whether the catalog had moved when the WAL begins, or will have if a transaction that runs there
                commits.
        """
        heap = self.heaps[locator]
        heap.is_rewritten = True
        if is_certain and heap.catalog is not None:
            heap.merge(heap.catalog, self.strangers(heap.catalog, heap, self.start_lsn))

    def _read(self, locator: Locator, base: bytes | None, file: str, fixed_length: int) -> tuple[CatalogHeap, int]:
        """Add a file of the backup; return its heap and its first broken block, -1 if there is none."""
        places, bad_block = places_in_pages(base or b"", fixed_length, self.start_lsn, self._fates, self._update_xid)
        heap = self._new_heap(locator, places, int(places.page_lsns.max(initial=0)))
        heap.is_missing, heap.file = base is None, file
        return heap, bad_block

    def _new_heap(self, locator: Locator, places: HeapPlaces, base_lsn: int) -> CatalogHeap:
        heap = self.heaps[locator] = CatalogHeap(locator, self._fates, self._update_xid, places)
        heap.blocks, heap.base_lsn = heap.end, base_lsn
        return heap

    def map_catalogs(self, mappings: dict[int, int], is_shared: bool, lsn: int = 0) -> None:
        """Take over the files of mapped catalogs from a relation map.

        Args:
            mappings: OID to file number, the whole map.
            is_shared: whether the map is that of the shared catalogs.
            lsn: LSN of the record that has the map.
        """
        before = self.mapped.copy()
        for (shared, number), (oid, left) in before.items():
            if shared == is_shared and left == NEVER and mappings.get(oid) != number:
                self.mapped[shared, number] = oid, lsn
        for oid, number in mappings.items():
            self.mapped[is_shared, number] = oid, NEVER
        self._changed.update(relation_map_key(*key) for key, to in self.mapped.items() if to != before.get(key))

    def mapped_oid(self, filenode: int, is_shared: bool) -> int | None:
        """Return the mapped catalog that lies, lay or will lie in a file."""
        mapping = self.mapped.get((is_shared, filenode))
        return None if mapping is None else mapping[0]

    def youngest_page(self) -> int:
        """Return the LSN of the page of the catalogs' files in the backup that was changed last, as far as known."""
        return max((heap.base_lsn for heap in self.heaps.values() if heap.catalog is not None), default=0)

    def strangers(self, table: CatalogTable, heap: CatalogHeap, lsn: int) -> list[Version]:
        """Return versions of a catalog that the WAL shows after ``lsn`` only: none of this file is a copy of them.

        Args:
            table: the catalog.
            heap: the file.
            lsn: the LSN at which the catalog moves to the file.
        """
        strangers = list[Version]()
        for other in self.heaps.values():
            if other.catalog is table and other is not heap:
                # The backup may hold a file to which the catalog moves even later.
                is_later = not other.is_merged and other.base_lsn > lsn
                strangers += other.versions() if is_later else other.unsettled()
        return strangers

    def forget_database(self) -> None:
        """Hold nothing but the shared catalogs; before a record is applied."""
        for locator, heap in list(self.heaps.items()):
            if locator[1] == self.whereabouts.database:
                del self.heaps[locator]
                if heap.catalog is not None:
                    for version in heap.versions():
                        heap.catalog.discard(version)
        self.mapped = {key: to for key, to in self.mapped.items() if key[0]}
        for places in (self.places, self.remapped):
            for oid in [oid for oid, locator in places.items() if locator[1] != 0]:
                del places[oid]
