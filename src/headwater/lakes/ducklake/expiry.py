"""Snapshots of a DuckLake that expire, and the files that are in none any more.

A file is noted in ``ducklake_files_scheduled_for_deletion`` with the transaction that forgets it, and removed after
that: a run that ends in between leaves it for the next one, or for DuckDB's ``ducklake_cleanup_old_files``.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from datetime import datetime

from headwater.lakes.ducklake.catalog_database import CatalogDatabase, read_moment
from headwater.lakes.ducklake.catalog_table import FoundTable, ids
from headwater.lakes.ducklake.merged_files import DATA_FILES, DELETE_FILES, SCHEDULED, schedule
from headwater.lakes.ducklake.snapshots import AUTHOR
from headwater.lakes.stores.places import Where, files_below, remove_file, size_of

_FILES = (DATA_FILES, DELETE_FILES)


def forget_snapshots(database: CatalogDatabase, kept_versions: Container[int], older_than: datetime) -> None:
    """Forget snapshots that ``headwater land`` has made; others' stay.

    Args:
        database: of the catalog; kept_versions: that stay.
        older_than: those that were the last at any time since then stay, too; with a time zone.

    Raises:
        LakeError: it cannot be done.
    """
    with database.transaction():
        rows = database.rows(
            "SELECT s.snapshot_id, CAST(s.snapshot_time AS VARCHAR), c.author FROM ducklake_snapshot s LEFT JOIN "
            "ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id ORDER BY s.snapshot_id"
        )
        old = [(int(number), author) for number, time, author in rows if read_moment(time) < older_than]
        gone = [number for number, author in old[:-1] if author == AUTHOR and number not in kept_versions]
        for table in ("ducklake_snapshot", "ducklake_snapshot_changes") if gone else ():
            database.rows(f"DELETE FROM {table} WHERE snapshot_id IN ({ids(gone)})")


def remove_files(
    database: CatalogDatabase, table: FoundTable, place: Where, data_path: str, older_than: datetime
) -> tuple[int, int]:
    """Remove files of a table that are in no snapshot; return how many, and their bytes.

    Args:
        database: of the catalog; table: whose; place: of its files; data_path: of the catalog.
        older_than: files of no commit that are younger stay, and those that were merged later; with a time zone.

    Raises:
        LakeError: the catalog cannot be changed; OSError: a file cannot be removed.
    """
    with database.transaction():
        forgotten = set().union(*(_forget(database, table, kind) for kind in _FILES))
    scheduled = _scheduled(database, table, data_path, forgotten, older_than)
    removed = [_remove(place / whole.removeprefix(table.directory)) for whole in scheduled]
    with database.transaction():
        for path in scheduled.values():
            database.rows(f"DELETE FROM {SCHEDULED} WHERE path = ?", [path])
    unknown = list(_unknown(database, table, place, data_path, older_than.timestamp()))
    removed += [_remove(place / name) for name in unknown]
    sizes = [size for size in removed if size is not None]
    return len(sizes), sum(sizes)


def _forget(database: CatalogDatabase, table: FoundTable, kind: tuple[str, str]) -> set[str]:
    """Forget the files of a kind that are in no snapshot, and schedule them; return their paths."""
    name, key = kind
    rows = database.rows(
        f"SELECT {key} FROM {name} f WHERE table_id = ? AND end_snapshot IS NOT NULL AND NOT "
        "EXISTS (SELECT 1 FROM ducklake_snapshot s WHERE s.snapshot_id >= f.begin_snapshot AND "
        "s.snapshot_id < f.end_snapshot)",
        [table.number],
    )
    return schedule(database, table, kind, [int(number) for (number,) in rows])


def _scheduled(
    database: CatalogDatabase, table: FoundTable, data_path: str, forgotten: Container[str], older_than: datetime
) -> dict[str, str]:
    """Return scheduled files of a table that go now: whole paths, with those in the catalog."""
    rows = database.rows(f"SELECT path, path_is_relative, CAST(schedule_start AS VARCHAR) FROM {SCHEDULED}")
    paths = {
        (f"{data_path}{path}" if relative else path): path
        for path, relative, since in rows
        if path in forgotten or read_moment(since) < older_than
    }
    return {whole: path for whole, path in paths.items() if whole.startswith(table.directory)}


def _unknown(
    database: CatalogDatabase, table: FoundTable, place: Where, data_path: str, older_than: float
) -> Iterator[str]:
    """Yield the names of files in a table's directory that no commit has, and that are older than a time."""
    known: set[str] = set()
    for kind, _ in _FILES:
        rows = database.rows(f"SELECT path FROM {kind} WHERE table_id = ?", [table.number])
        known |= {os.path.join(table.directory, path) for (path,) in rows}
    scheduled = database.rows(f"SELECT path, path_is_relative FROM {SCHEDULED}")
    known |= {f"{data_path}{path}" if relative else path for path, relative in scheduled}
    for file in files_below(place):
        is_own = file.path == f"{table.directory}{file.name}" and file.name.endswith(".parquet")
        if is_own and file.path not in known and file.time < older_than:
            yield file.name


def _remove(path: Where) -> int | None:
    """Remove a file; return its size, None where it is not there."""
    size = size_of(path)
    if size is not None:
        remove_file(path)
    return size
