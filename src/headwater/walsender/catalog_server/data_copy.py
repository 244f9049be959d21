"""A data directory that has the catalogs of a backup and nothing else, for a standby that replays filtered WAL.

In: the files of a backup, plain or in tar format. Out: the same files in a directory, of the catalogs, the fates of
transactions and what recovery begins with. No table's file is among them, nor any database's but one, and those that
it is a copy of: a server that is asked for rows finds no file, and says so. Nor are there commit times, of which a
source may have new pages, or none any more: a commit would not find its page, and end the replay.

The directory of a database that was created since is made by the WAL.

PostgreSQL: basebackup.c, xlogrecovery.c (read_backup_label), relpath.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.file_tree import TABLESPACES
from headwater.pg.catalogs import DEFAULT_TABLESPACE
from headwater.wal.control import without_commit_times
from headwater.walsender.catalog_server.filtered_wal import SystemFiles
from headwater.walsender.catalog_server.stand_in import letting_in

_FOLDERS = (
    *("base", "global", "pg_commit_ts", "pg_dynshmem", "pg_logical", "pg_logical/mappings"),
    *("pg_logical/snapshots", "pg_multixact", "pg_multixact/members", "pg_multixact/offsets", "pg_notify"),
    *("pg_replslot", "pg_serial", "pg_snapshots", "pg_stat", "pg_stat_tmp", "pg_subtrans", "pg_tblspc"),
    *("pg_twophase", "pg_wal", "pg_wal/archive_status", "pg_wal/summaries", "pg_xact"),
)
_WHOLE_FOLDERS = ("pg_xact", "pg_multixact/members", "pg_multixact/offsets", "pg_twophase")
_CONTROL_FILE = "global/pg_control"
_SINGLE_FILES = ("PG_VERSION", _CONTROL_FILE, "global/pg_filenode.map", "backup_label")
_RELATION_FILE = re.compile(r"(\d+)(_fsm|_vm|_init)?(\.\d+)?")


def copy_catalogs(source: DataDirectory, files: SystemFiles, directory: Path) -> None:
    """Copy the catalogs of a backup into an empty directory.

    Args:
        source: the backup.
        files: of the catalogs.
        directory: of the new cluster.

    Raises:
        CatalogError: a file cannot be read.
    """
    folders = [database_folder(source, *place) for place in files.places]
    there = [folder for folder in folders if source.tree.exists(f"{folder}/PG_VERSION")]
    for name in (*_FOLDERS, *(folder.rpartition("/")[0] for folder in folders), *there):
        (directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    names = list(_names(source, files, there))
    source.tree.expect(names)
    roles = {f"global/{number}" for number in files.roles}
    has_checksums = source.control.data_checksum_version != 0
    for name in names:
        data = source.tree.read(name)
        if name == _CONTROL_FILE:
            data = without_commit_times(data, source.major)
        (directory / name).write_bytes(letting_in(data, has_checksums) if name in roles else data)
        (directory / name).chmod(0o600)


def database_folder(source: DataDirectory, tablespace: int, database: int) -> str:
    """Return the folder of a database."""
    if tablespace == DEFAULT_TABLESPACE:
        return f"base/{database}"
    version = f"PG_{source.major}_{source.control.catalog_version}"
    return f"{TABLESPACES}{tablespace}/{version}/{database}"


def _names(source: DataDirectory, files: SystemFiles, folders: Sequence[str]) -> Iterator[str]:
    tree = source.tree
    of_folders = (f"{folder}/{name}" for folder in folders for name in ("PG_VERSION", "pg_filenode.map"))
    yield from (name for name in (*_SINGLE_FILES, *of_folders) if tree.exists(name))
    for place in _WHOLE_FOLDERS:
        yield from (f"{place}/{name}" for name in tree.names(place))
    for place, numbers in (("global", files.shared), *((folder, files.local) for folder in folders)):
        for name in tree.names(place):
            match = _RELATION_FILE.fullmatch(name)
            if match is not None and int(match[1]) in numbers:
                yield f"{place}/{name}"
