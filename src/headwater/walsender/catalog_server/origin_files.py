"""The system files that a standby begins with: as the backup has them, of the database or of what it is a copy of.

A database that the backup does not have was created since. By WAL_LOG the WAL has all of it. By FILE_COPY its directory
is a copy of its template's as of a record: so the template's catalogs are replayed, too, and the standby copies them
when it comes to that record. A database that has moved to another tablespace is a copy of itself.

PostgreSQL: dbcommands.c (dbase_redo).
"""

from __future__ import annotations

from dataclasses import replace

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.store.bootstrap import list_databases, open_catalog
from headwater.existing.directory_copies import directory_copies
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.catalog_server.filtered_wal import SystemFiles
from headwater.walsender.catalog_server.system_files import system_files


def files_since(catalog: str, backup: DataDirectory, wal: WalDirectory, files: SystemFiles, lsn: int) -> SystemFiles:
    """Return the files that stay, from the backup on.

    Args:
        catalog: path of the backup; backup: it.
        wal: since then.
        files: as a state knows them; lsn: of the state.

    Raises:
        HeadwaterError: the backup, or the WAL, cannot be read.
    """
    rows = {(row.tablespace, row.oid): row for row in list_databases(catalog)}
    if (files.tablespace, files.database) not in rows:
        files = replace(files, earlier=_earlier(wal, files, backup.start_lsn, lsn))
    known = next((rows[place] for place in files.places if place in rows), None)
    return files if known is None else files | system_files(open_catalog(catalog, known))


def _earlier(wal: WalDirectory, files: SystemFiles, lo: int, hi: int) -> tuple[tuple[int, int], ...]:
    """Return the places of which a database's directory is a copy, the last one first."""
    place, earlier = (files.tablespace, files.database), list[tuple[int, int]]()
    for made in reversed(directory_copies(wal, lo, hi)):
        if (made.copy.tablespace, made.copy.database) == place:
            place = made.copy.source_tablespace, made.copy.source_database
            earlier.append(place)
    return tuple(earlier)
