"""Records applied to the files of catalogs, and files joined when a catalog moves from one to another.

In: records of HEAP, HEAP2, XLOG, SMGR, RELMAP and DBASE. Out: catalogs with all versions that these have shown.

Rewritten catalogs: VACUUM FULL writes a new file before anyone can know what it is for. Its locator shows when the
relation map or the pg_class row changes. Files that were added beforehand
(:meth:`headwater.catalog.store.catalog_files.CatalogFiles.add_extra`) have kept their pages, and join the catalog's
history then. A file that was not added is reported by :meth:`CatalogRedo.missing_locators`.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.catalog.rows import looks_like
from headwater.catalog.store.catalog_files import CatalogFiles
from headwater.catalog.store.database_copies import follow_copy
from headwater.catalog.store.heaps import CatalogHeap, Locator
from headwater.catalog.store.redo import HeapRedo, apply_storage
from headwater.catalog.store.tables import CatalogTable
from headwater.catalog.versions import FIRST_NORMAL_XID, Version
from headwater.pg.catalogs import (
    GLOBAL_TABLESPACE,
    PG_ATTRIBUTE,
    PG_CLASS,
    PG_REPLICATION_ORIGIN,
    PG_TYPE,
    SHARED_CATALOGS,
)
from headwater.rmgr.registry import DBASE, RELMAP, SMGR
from headwater.rmgr.relmap import RelmapUpdate, parse_update
from headwater.wal.records.record import Record


class CatalogRedo(HeapRedo):
    """Redo of the catalogs of one database.

    Args:
        files: the files of the catalogs.
        tables: the catalogs, by OID.
        major: PostgreSQL's major version.
    """

    def __init__(self, files: CatalogFiles, tables: dict[int, CatalogTable], major: int) -> None:
        super().__init__(files.heaps, major)
        self._files = files
        self._tables = tables
        self._class_reader = tables[PG_CLASS].layout.reader("oid", "relfilenode", "reltablespace")
        self._is_settled = True

    def apply(self, record: Record) -> None:
        """Roll forward over one record, in LSN order.

        Args:
            record: a record of resource manager HEAP, HEAP2, XLOG (page images), SMGR, RELMAP or DBASE; others are
                passed over.

        Raises:
            CatalogError: the catalog does not fit the WAL.
            RecordError: the record is malformed.
        """
        self._is_settled = False
        self._files.whereabouts.note(record)
        if record.rmid == SMGR:
            apply_storage(record, self._files.heaps)
        elif record.rmid == DBASE:
            follow_copy(self._files, record)
        elif record.rmid == RELMAP:
            self._remap(parse_update(record.main_data, record.lsn), record.lsn)
        else:
            super().apply(record)

    def apply_earlier(self, records: Iterable[Record]) -> None:
        """Roll files forward that were added as extras, up to where the catalog begins.

        They were made, or written to, before that, when nothing said yet whose they are.

        Args:
            records: records of before the catalog's LSN, in LSN order: all that name one of these files; others are
                passed over.

        Raises:
            CatalogError: a file does not fit the WAL.
            RecordError: a record is malformed.
        """
        unknown = self._files.extras_unknown()
        redo = HeapRedo(unknown, self._major)
        for record in records:
            if record.rmid == SMGR:
                apply_storage(record, unknown)
            elif record.rmid != RELMAP:
                redo.apply(record)
        self._is_settled = False

    def missing_locators(self) -> frozenset[Locator]:
        """Return files of catalogs whose records were not applied. A catalog that has any cannot be relied on."""
        self.settle()
        return frozenset(self._files.missing)

    def arrived(self, heap: CatalogHeap, version: Version, lsn: int) -> None:
        """Follow a catalog to another file, if the version is the row of ``pg_class`` that says so."""
        if heap.catalog is None or heap.catalog.layout.oid != PG_CLASS:
            return
        oid, filenode, tablespace = self._class_reader.unpack_from(version.data.body)
        if oid in self._tables and oid not in SHARED_CATALOGS and filenode:
            self._move(oid, self._files.whereabouts.place(tablespace, filenode), lsn)

    def _remap(self, update: RelmapUpdate, lsn: int) -> None:
        files, is_shared = self._files, update.database == 0
        if not is_shared and update.database != files.whereabouts.database:
            return
        files.map_catalogs(update.mappings, is_shared, lsn)
        for oid, number in update.mappings.items():
            if oid in self._tables and (oid in SHARED_CATALOGS) == is_shared:
                spc = GLOBAL_TABLESPACE if is_shared else update.tablespace or files.whereabouts.tablespace
                files.remapped[oid] = spc, update.database, number
                self._move(oid, files.remapped[oid], lsn)

    def _move(self, oid: int, locator: Locator, lsn: int) -> None:
        """Let a catalog lie in this file from ``lsn`` on, or note that it may if the transaction commits.

        The backup may have known that before: then its files have not been joined yet, but are now.
        """
        files = self._files
        files.places[oid] = locator
        heap = files.heaps.get(locator)
        if heap is None:
            files.missing.add(locator)
            return
        is_new = heap.catalog is None
        if (is_new or heap.is_rewritten) and not heap.is_merged:
            heap.merge(self._tables[oid], files.strangers(self._tables[oid], heap, lsn))
        if is_new:
            self._note_past(oid, heap, lsn)

    def _note_past(self, oid: int, heap: CatalogHeap, lsn: int) -> None:
        """Note what happened to the rows of a file before it was known to be a catalog's."""
        if not self._files.is_complete:
            self._files.reach_lsn = max(self._files.reach_lsn, heap.base_lsn)
        for version in heap.versions():
            for xid in (version.inserter, *version.deleters):
                if xid >= FIRST_NORMAL_XID:
                    self.touch(xid, heap, version)
            if oid == PG_CLASS:
                self.arrived(heap, version, lsn)

    def settle(self) -> None:
        """Find the old file of a mapped catalog that was rewritten while the backup was taken.

        The backup has the new relation map, so nothing names the old file but NEW_CID records: no pg_class row and no
        map knows it. The rows of the file show which catalog it was.
        """
        if self._is_settled:
            return
        self._is_settled = True
        files = self._files
        for locator in self.strays.keys() - files.heaps.keys():
            if locator[1] in (0, files.whereabouts.database) and self.owner(locator) is None:
                files.missing.add(locator)
        for locator in sorted(self.strays.keys() & files.heaps.keys()):
            heap = files.heaps[locator]
            if heap.catalog is None and not heap.is_rewritten:
                self._recognize(heap)

    def owner(self, locator: Locator) -> int | None:
        """Return a relation that lies in a file in the eyes of anyone; 0 for a mapped one."""
        tablespace, database, filenode = locator
        if self._files.mapped_oid(filenode, is_shared=database == 0) is not None:
            return 0
        spc = 0 if tablespace == self._files.whereabouts.tablespace else tablespace
        versions = self._tables[PG_CLASS].find("filenode", filenode | spc << 32)
        return self._class_reader.unpack_from(versions[0].data.body)[0] if versions else None

    def _recognize(self, heap: CatalogHeap) -> None:
        rows = [version.data for version in heap.versions()]
        is_shared = heap.locator[1] == 0
        for oid in (PG_REPLICATION_ORIGIN,) if is_shared else (PG_CLASS, PG_ATTRIBUTE, PG_TYPE):
            table = self._tables[oid]
            if rows and all(looks_like(table.layout, row) for row in rows):
                # The catalog's other files are copies of this one as soon as the WAL has moved it there.
                heap.precede(table, self._files.strangers(table, heap, -1))
                self._note_past(oid, heap, self._files.start_lsn)
                break
