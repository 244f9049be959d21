"""The database whose files a store follows, and its tablespace: both change where a database's directory is copied.

Mirrors dbcommands.c (CreateDatabaseUsingFileCopy, CreateDatabaseUsingWalLog, movedb). The effect of a copy on the files
is in :mod:`headwater.catalog.store.database_copies`.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.catalog.store.heaps import Locator
from headwater.pg.version import VERSIONS
from headwater.rmgr.dbase import CREATE_FILE_COPY, CREATE_WAL_LOG, parse_file_copy, parse_wal_log
from headwater.rmgr.registry import RELMAP, SMGR
from headwater.rmgr.smgr import CREATE, parse_create
from headwater.wal.records.record import Record


@dataclass(frozen=True)
class CreatedDatabase:
    """A database of which a record of the WAL made a directory.

    Attributes:
        oid: the database's OID.
        tablespace: the tablespace of the directory: the directory of its catalogs lies in its default tablespace.
        lsn: LSN of the record.
        source: OID of the database whose files were copied; None if the WAL has all its pages.
        xid: the transaction that creates the database.
    """

    oid: int
    tablespace: int
    lsn: int
    source: int | None
    xid: int


def created_database(record: Record, major: int) -> CreatedDatabase | None:
    """Return the database that a record of DBASE has made; None if it moves a database, or removes one.

    Raises:
        RecordError: the record is malformed.
    """
    if record.kind == CREATE_FILE_COPY:
        copy = parse_file_copy(record.main_data, record.lsn)
        is_move = copy.database == copy.source_database
        if is_move:
            return None
        return CreatedDatabase(copy.database, copy.tablespace, record.lsn, copy.source_database, record.xid)
    if record.kind == CREATE_WAL_LOG and VERSIONS[major].logs_created_databases:
        create = parse_wal_log(record.main_data, record.lsn)
        return CreatedDatabase(create.database, create.tablespace, record.lsn, None, record.xid)
    return None


class Whereabouts:
    """The location of a store's database, as far as the WAL has come.

    Args:
        database: OID of the database whose files are followed.
        tablespace: the database's default tablespace.
        descent: databases that will be copied from it, one from the other; the last one is the store's own.

    Attributes:
        also: tablespaces that its directory was copied from and to, in their order: it may have moved there.
    """

    def __init__(self, database: int, tablespace: int, descent: tuple[int, ...] = ()) -> None:
        self.database = database
        self.tablespace = tablespace
        self.descent = descent
        self.also: tuple[int, ...] = ()

    def place(self, tablespace: int, filenode: int) -> Locator:
        """Return the file that a row of ``pg_class`` names."""
        return tablespace or self.tablespace, self.database, filenode

    def note(self, record: Record) -> None:
        """Move, if a record names files where the database may have moved to: then it has."""
        if self.also:
            for spc, database, _ in _named(record):
                if database == self.database and spc in self.also:
                    self.tablespace = spc


def _named(record: Record) -> list[Locator]:
    if record.rmid == SMGR and record.kind == CREATE:
        return [parse_create(record.main_data, record.lsn).locator]
    return [] if record.rmid == RELMAP else [block.locator for block in record.blocks]
