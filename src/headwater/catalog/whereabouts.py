"""Which database's files a store follows, and in which tablespace: both change where a database's directory is copied.

In: records of DBASE, in LSN order. Out: the heaps of a store under the locators that records name from there on.
Mirrors dbcommands.c (CreateDatabaseUsingFileCopy, CreateDatabaseUsingWalLog, movedb, dbase_redo).

Nobody is connected to a database that is copied or moved, nor has a prepared transaction in it, until that has
committed. So a copy is as of its record, and a database that moves is written to at one of its two places only, even
if the move fails after its record: its files are known under both until it is told which one holds.

Known gap: a copy while the catalog's own copy is not complete yet is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.catalog.heaps import CatalogHeap, Locator
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_CLASS
from headwater.pg.version import VERSIONS
from headwater.rmgr.dbase import CREATE_FILE_COPY, CREATE_WAL_LOG, DatabaseCopy, parse_file_copy, parse_wal_log
from headwater.rmgr.registry import RELMAP, SMGR
from headwater.rmgr.smgr import CREATE, parse_create
from headwater.wal.record import Record

if TYPE_CHECKING:
    from headwater.catalog.store import CatalogStore


@dataclass(frozen=True)
class CreatedDatabase:
    """A database of which a record of the WAL made a directory.

    Attributes:
        oid: its OID.
        tablespace: where the directory lies: that of its catalogs is in its default tablespace.
        lsn: of the record.
        source: OID of the database whose files were copied; None if the WAL has all its pages.
        xid: of the transaction that creates it.
    """

    oid: int
    tablespace: int
    lsn: int
    source: int | None
    xid: int


def created_database(record: Record, major: int) -> CreatedDatabase | None:
    """What a record of DBASE has made; None if it moves a database, or removes one.

    Raises:
        RecordError: it is malformed.
    """
    if record.kind == CREATE_FILE_COPY:
        copy = parse_file_copy(record.main_data, record.lsn)
        is_move = copy.database == copy.source_database
        if is_move:
            return None
        return CreatedDatabase(copy.database, copy.tablespace, record.lsn, copy.source_database, record.xid)
    if record.kind == CREATE_WAL_LOG and VERSIONS[major].logs_created_databases:
        made = parse_wal_log(record.main_data, record.lsn)
        return CreatedDatabase(made.database, made.tablespace, record.lsn, None, record.xid)
    return None


class Whereabouts:
    """Where a store's database lies as far as the WAL has come.

    Args:
        database: OID of the database whose files are followed.
        tablespace: its default tablespace.
        descent: databases that will be copied of it, one of the other; the last one is the store's own.

    Attributes:
        also: tablespaces that its directory was copied from and to, in their order: it may have moved there.
    """

    def __init__(self, database: int, tablespace: int, descent: tuple[int, ...] = ()) -> None:
        self.database = database
        self.tablespace = tablespace
        self.descent = descent
        self.also: tuple[int, ...] = ()

    def place(self, tablespace: int, filenode: int) -> Locator:
        """The file that a row of ``pg_class`` names."""
        return tablespace or self.tablespace, self.database, filenode

    def note(self, record: Record) -> None:
        """A record names files where the database may have moved to: then it has."""
        if self.also:
            for spc, database, _ in _named(record):
                if database == self.database and spc in self.also:
                    self.tablespace = spc


def _named(record: Record) -> list[Locator]:
    if record.rmid == SMGR and record.kind == CREATE:
        return [parse_create(record.main_data, record.lsn).locator]
    return [] if record.rmid == RELMAP else [block.locator for block in record.blocks]


def follow_copy(store: CatalogStore, record: Record) -> None:
    """Apply a record of DBASE: the files that the store follows may have been copied.

    Args:
        store: the store.
        record: the record.

    Raises:
        RecordError: it is malformed.
        CatalogError: the store's own copy was not complete then.
    """
    if record.kind != CREATE_FILE_COPY:
        return
    copy, where = parse_file_copy(record.main_data, record.lsn), store.whereabouts
    if copy.source_database != where.database or copy.source_tablespace not in {where.tablespace, *where.also}:
        return
    if copy.database == where.database:
        _check_complete(store, record, "moves to another tablespace")
        _known_at(store, copy)
    elif copy.database in where.descent[:1]:
        _check_complete(store, record, "is copied")
        _go_on_as(store, copy)


def _check_complete(store: CatalogStore, record: Record, what: str) -> None:
    if not store.is_complete:
        raise CatalogError(
            f"database {store.whereabouts.database} {what} before the copy of the catalog was complete",
            lsn=record.lsn,
            hint="give an older or a newer base backup",
        )


def _known_at(store: CatalogStore, copy: DatabaseCopy) -> None:
    """The files are known at a second place."""
    where = store.whereabouts
    for heap in _lying_in(store, copy.source_tablespace):
        _put(store, heap, (copy.tablespace, where.database, heap.locator[2]))
    where.also += (copy.source_tablespace, copy.tablespace)


def _go_on_as(store: CatalogStore, copy: DatabaseCopy) -> None:
    """From here on the files of the copy are followed."""
    where = store.whereabouts
    for heap in _lying_in(store, copy.source_tablespace):
        heap.locator = copy.tablespace, copy.database, heap.locator[2]
        heap.is_changed = True
        _put(store, heap, heap.locator)
    _leave(store, where.database)
    for places in (store.places, store.remapped):
        for oid, (spc, database, number) in places.items():
            if database == where.database:
                places[oid] = copy.tablespace if spc in {where.tablespace, *where.also} else spc, copy.database, number
    store.whereabouts = Whereabouts(copy.database, copy.tablespace, where.descent[1:])


def _lying_in(store: CatalogStore, tablespace: int) -> list[CatalogHeap]:
    place = tablespace, store.whereabouts.database
    return [heap for locator, heap in store.heaps.items() if locator[:2] == place and heap.catalog is not None]


def _put(store: CatalogStore, heap: CatalogHeap, locator: Locator) -> None:
    """A file was copied: who did not know that it would be has not read what the WAL says of it there."""
    if locator not in store.heaps:
        store.note_missing(locator)
    store.heaps[locator] = heap


def _leave(store: CatalogStore, database: int) -> None:
    for locator in [locator for locator in store.heaps if locator[1] == database]:
        del store.heaps[locator]


def settle_place(store: CatalogStore) -> None:
    """Know the files at one place only, for an image: where ``pg_database`` has the database in the eyes of all.

    The database may still be on its way from there.
    """
    where = store.whereabouts
    if not where.also:
        return
    rows, places = store.database_rows(), {where.tablespace, *where.also}
    here = rows[-1].tablespace if rows else where.tablespace
    last = max((number for number, spc in enumerate(where.also, 1) if spc == here), default=0)
    for locator, heap in list(store.heaps.items()):
        if locator[0] in places and locator[1] == where.database and heap.catalog is not None:
            del store.heaps[locator]
            heap.is_changed |= locator[0] != here
            heap.locator = here, where.database, locator[2]
            store.heaps[heap.locator] = heap
    for found in (store.places, store.remapped):
        for oid, (spc, database, number) in found.items():
            if spc in places and database == where.database:
                found[oid] = here, database, number
    where.tablespace, where.also = here, where.also[last:]


def restore_place(store: CatalogStore, database: int, descent: tuple[int, ...], copied_to: tuple[int, ...]) -> None:
    """Be where a store was when an image was made of it.

    Args:
        store: the store, as the image has it.
        database, descent, copied_to: of its :class:`Whereabouts`.
    """
    tablespace = store.places.get(PG_CLASS, (store.whereabouts.tablespace,))[0]
    store.whereabouts = Whereabouts(database, tablespace, descent)
    store.whereabouts.also = copied_to
    expect_move(store)


def expect_move(store: CatalogStore) -> None:
    """Know the files of a database that may be moving at all places again, once an image was made or opened."""
    where = store.whereabouts
    for heap in _lying_in(store, where.tablespace) if where.also else ():
        for tablespace in where.also:
            store.heaps[tablespace, where.database, heap.locator[2]] = heap
    where.also = (where.tablespace, *where.also) if where.also else ()


def forget_files(store: CatalogStore) -> None:
    """Let a store that was not rolled forward hold nothing but the shared catalogs."""
    for locator, heap in list(store.heaps.items()):
        if locator[1] == store.whereabouts.database:
            del store.heaps[locator]
            if heap.catalog is not None:
                for version in heap.versions():
                    heap.catalog.discard(version)
    store.mapped = {key: to for key, to in store.mapped.items() if key[0]}
    for places in (store.places, store.remapped):
        for oid in [oid for oid, locator in places.items() if locator[1] != 0]:
            del places[oid]
