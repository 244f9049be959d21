"""A database's directory that is copied: the files of its catalogs are elsewhere then.

In: records of DBASE, in LSN order. Out: the heaps under the locators that records name from there on.
Mirrors dbcommands.c (CreateDatabaseUsingFileCopy, CreateDatabaseUsingWalLog, movedb, dbase_redo).

Nobody is connected to a database that is copied or moved, nor has a prepared transaction in it, until that has
committed. So a copy is as of its record. A database that moves is written to at one of its two places only, even if the
move fails after its record. Its files are known under both places until it is known which one holds.

Known gap: a copy while the catalog's own copy is not complete yet is refused.
"""

from __future__ import annotations

from headwater.catalog.store.catalog_files import CatalogFiles
from headwater.catalog.store.database_location import Whereabouts
from headwater.catalog.store.heaps import CatalogHeap, Locator
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_CLASS
from headwater.rmgr.dbase import CREATE_FILE_COPY, DatabaseCopy, parse_file_copy
from headwater.wal.records.record import Record


def follow_copy(files: CatalogFiles, record: Record) -> None:
    """Apply a record of DBASE: the files that are followed may have been copied.

    Args:
        files: the files.
        record: the record.

    Raises:
        RecordError: the record is malformed.
        CatalogError: the catalog's own copy was not complete then.
    """
    if record.kind != CREATE_FILE_COPY:
        return
    copy, location = parse_file_copy(record.main_data, record.lsn), files.whereabouts
    if copy.source_database != location.database or copy.source_tablespace not in {location.tablespace, *location.also}:
        return
    if copy.database == location.database:
        _check_complete(files, record, "moves to another tablespace")
        _know_at(files, copy)
    elif copy.database in location.descent[:1]:
        _check_complete(files, record, "is copied")
        _go_on_as(files, copy)


def _check_complete(files: CatalogFiles, record: Record, event: str) -> None:
    if not files.is_complete:
        raise CatalogError(
            f"database {files.whereabouts.database} {event} before the copy of the catalog was complete",
            lsn=record.lsn,
            hint="give an older or a newer base backup",
        )


def _know_at(files: CatalogFiles, copy: DatabaseCopy) -> None:
    """Add a second place at which the files are known."""
    location = files.whereabouts
    for heap in _lying_in(files, copy.source_tablespace):
        _put(files, heap, (copy.tablespace, location.database, heap.locator[2]))
    location.also += (copy.source_tablespace, copy.tablespace)


def _go_on_as(files: CatalogFiles, copy: DatabaseCopy) -> None:
    """Follow the files of the copy from here on."""
    location = files.whereabouts
    for heap in _lying_in(files, copy.source_tablespace):
        heap.locator = copy.tablespace, copy.database, heap.locator[2]
        heap.is_changed = True
        _put(files, heap, heap.locator)
    for locator in [locator for locator in files.heaps if locator[1] == location.database]:
        del files.heaps[locator]
    for places in (files.places, files.remapped):
        for oid, (spc, database, number) in places.items():
            if database == location.database:
                places[oid] = (
                    copy.tablespace if spc in {location.tablespace, *location.also} else spc,
                    copy.database,
                    number,
                )
    files.whereabouts = Whereabouts(copy.database, copy.tablespace, location.descent[1:])


def _lying_in(files: CatalogFiles, tablespace: int) -> list[CatalogHeap]:
    place = tablespace, files.whereabouts.database
    return [heap for locator, heap in files.heaps.items() if locator[:2] == place and heap.catalog is not None]


def _put(files: CatalogFiles, heap: CatalogHeap, locator: Locator) -> None:
    """Enter a copied file at a locator.

    If the locator was not known before, the WAL's records of the file there were not read: the file is missing.
    """
    if locator not in files.heaps:
        files.missing.add(locator)
    files.heaps[locator] = heap


def settle_place(files: CatalogFiles, tablespace: int | None) -> None:
    """Reduce the files to one known place, for an image. The database may still be on its way from there.

    Args:
        files: the files.
        tablespace: the tablespace that ``pg_database`` has for the database in the eyes of all; None if it has no row.
    """
    location = files.whereabouts
    places = {location.tablespace, *location.also}
    here = location.tablespace if tablespace is None else tablespace
    last = max((number for number, spc in enumerate(location.also, 1) if spc == here), default=0)
    for locator, heap in list(files.heaps.items()):
        if locator[0] in places and locator[1] == location.database and heap.catalog is not None:
            del files.heaps[locator]
            heap.is_changed |= locator[0] != here
            heap.locator = here, location.database, locator[2]
            files.heaps[heap.locator] = heap
    for catalogs in (files.places, files.remapped):
        for oid, (spc, database, number) in catalogs.items():
            if spc in places and database == location.database:
                catalogs[oid] = here, database, number
    location.tablespace, location.also = here, location.also[last:]


def restore_place(files: CatalogFiles, database: int, descent: tuple[int, ...], copied_to: tuple[int, ...]) -> None:
    """Restore the location that the files had when an image was made of them.

    Args:
        files: the files, as the image has them.
        database, descent, copied_to: parts of their :class:`Whereabouts`.
    """
    tablespace = files.places.get(PG_CLASS, (files.whereabouts.tablespace,))[0]
    files.whereabouts = Whereabouts(database, tablespace, descent)
    files.whereabouts.also = copied_to
    expect_move(files)


def expect_move(files: CatalogFiles) -> None:
    """Enter the files of a database that may be moving at all places again, once an image was made or opened."""
    location = files.whereabouts
    for heap in _lying_in(files, location.tablespace) if location.also else ():
        for tablespace in location.also:
            files.heaps[tablespace, location.database, heap.locator[2]] = heap
    location.also = (location.tablespace, *location.also) if location.also else ()
