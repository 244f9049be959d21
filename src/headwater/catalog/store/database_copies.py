"""A database's directory that is copied: the files of its catalogs are elsewhere then.

In: records of DBASE, in LSN order. Out: the heaps under the locators that records name from there on.
Mirrors dbcommands.c (CreateDatabaseUsingFileCopy, CreateDatabaseUsingWalLog, movedb, dbase_redo).

Nobody is connected to a database that is copied or moved, nor has a prepared transaction in it, until that has
committed. So a copy is as of its record, and a database that moves is written to at one of its two places only, even
if the move fails after its record: its files are known under both until it is told which one holds.

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
        RecordError: it is malformed.
        CatalogError: the catalog's own copy was not complete then.
    """
    if record.kind != CREATE_FILE_COPY:
        return
    copy, where = parse_file_copy(record.main_data, record.lsn), files.whereabouts
    if copy.source_database != where.database or copy.source_tablespace not in {where.tablespace, *where.also}:
        return
    if copy.database == where.database:
        _check_complete(files, record, "moves to another tablespace")
        _know_at(files, copy)
    elif copy.database in where.descent[:1]:
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
    """Know the files at a second place."""
    where = files.whereabouts
    for heap in _lying_in(files, copy.source_tablespace):
        _put(files, heap, (copy.tablespace, where.database, heap.locator[2]))
    where.also += (copy.source_tablespace, copy.tablespace)


def _go_on_as(files: CatalogFiles, copy: DatabaseCopy) -> None:
    """Follow the files of the copy from here on."""
    where = files.whereabouts
    for heap in _lying_in(files, copy.source_tablespace):
        heap.locator = copy.tablespace, copy.database, heap.locator[2]
        heap.is_changed = True
        _put(files, heap, heap.locator)
    for locator in [locator for locator in files.heaps if locator[1] == where.database]:
        del files.heaps[locator]
    for places in (files.places, files.remapped):
        for oid, (spc, database, number) in places.items():
            if database == where.database:
                places[oid] = copy.tablespace if spc in {where.tablespace, *where.also} else spc, copy.database, number
    files.whereabouts = Whereabouts(copy.database, copy.tablespace, where.descent[1:])


def _lying_in(files: CatalogFiles, tablespace: int) -> list[CatalogHeap]:
    place = tablespace, files.whereabouts.database
    return [heap for locator, heap in files.heaps.items() if locator[:2] == place and heap.catalog is not None]


def _put(files: CatalogFiles, heap: CatalogHeap, locator: Locator) -> None:
    """Know a copied file; who did not know that it would be has not read what the WAL says of it there."""
    if locator not in files.heaps:
        files.missing.add(locator)
    files.heaps[locator] = heap


def settle_place(files: CatalogFiles, tablespace: int | None) -> None:
    """Know the files at one place only, for an image. The database may still be on its way from there.

    Args:
        files: the files.
        tablespace: where ``pg_database`` has the database in the eyes of all; None if it has no row.
    """
    where = files.whereabouts
    places = {where.tablespace, *where.also}
    here = where.tablespace if tablespace is None else tablespace
    last = max((number for number, spc in enumerate(where.also, 1) if spc == here), default=0)
    for locator, heap in list(files.heaps.items()):
        if locator[0] in places and locator[1] == where.database and heap.catalog is not None:
            del files.heaps[locator]
            heap.is_changed |= locator[0] != here
            heap.locator = here, where.database, locator[2]
            files.heaps[heap.locator] = heap
    for catalogs in (files.places, files.remapped):
        for oid, (spc, database, number) in catalogs.items():
            if spc in places and database == where.database:
                catalogs[oid] = here, database, number
    where.tablespace, where.also = here, where.also[last:]


def restore_place(files: CatalogFiles, database: int, descent: tuple[int, ...], copied_to: tuple[int, ...]) -> None:
    """Be where the files were when an image was made of them.

    Args:
        files: the files, as the image has them.
        database, descent, copied_to: of their :class:`Whereabouts`.
    """
    tablespace = files.places.get(PG_CLASS, (files.whereabouts.tablespace,))[0]
    files.whereabouts = Whereabouts(database, tablespace, descent)
    files.whereabouts.also = copied_to
    expect_move(files)


def expect_move(files: CatalogFiles) -> None:
    """Know the files of a database that may be moving at all places again, once an image was made or opened."""
    where = files.whereabouts
    for heap in _lying_in(files, where.tablespace) if where.also else ():
        for tablespace in where.also:
            files.heaps[tablespace, where.database, heap.locator[2]] = heap
    where.also = (where.tablespace, *where.also) if where.also else ()
