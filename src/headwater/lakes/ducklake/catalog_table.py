"""A table of a DuckLake, as its catalog has it: where it lies, its columns, its files, and what we note of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.errors import LakeError
from headwater.lakes.ducklake.catalog_database import CatalogDatabase
from headwater.lakes.ducklake.columns import Column

SOURCE, COMMIT_LSN, SNAPSHOT = "headwater_source", "headwater_commit_lsn", "headwater_snapshot"
"""Keys in ``ducklake_metadata`` that say of a table how far it has come, and by which snapshot."""

COLUMNS = "headwater_columns"
"""Likewise, whose its columns are: an object of JSON, marks by their numbers. DuckDB (1.5) refuses tags of columns."""

_AT = "begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)"


@dataclass(frozen=True)
class FoundTable:
    """A table of the catalog.

    Attributes:
        number: ``table_id``; directory: of its files.
    """

    number: int
    directory: str


@dataclass(frozen=True)
class DeleteRow:
    """A delete file in the catalog.

    Attributes:
        number: ``delete_file_id``; path: whole.
        count: rows that it names; partial_max: the last snapshot in which any of them went, None for its own.
    """

    number: int
    path: str
    count: int
    partial_max: int | None


@dataclass(frozen=True)
class FileRow:
    """A file of rows in the catalog.

    Attributes:
        number: ``data_file_id``; path: below the table's directory, or whole.
        rows: how many; size: bytes.
        deletes: its delete file; None for none.
        partial_max: the last snapshot in which any of them came, None for the first.
        bounds: by number of a column, how many nulls it has, its least and its greatest value as text.
    """

    number: int
    path: str
    rows: int
    size: int
    deletes: DeleteRow | None
    partial_max: int | None = None
    bounds: Mapping[int, tuple[int | None, str | None, str | None]] = field(default_factory=dict)


def schema_directory(database: CatalogDatabase, data_path: str, schema: str) -> tuple[int, str] | None:
    """Return the number of a schema, and the directory of its files; None for one that is not there."""
    rows = database.rows(
        "SELECT schema_id, path, path_is_relative FROM ducklake_schema "
        "WHERE lower(schema_name) = lower(?) AND end_snapshot IS NULL",
        [schema],
    )
    return next(((int(number), _whole(data_path, path, relative)) for number, path, relative in rows), None)


def find_table(database: CatalogDatabase, data_path: str, schema: str, name: str) -> FoundTable | None:
    """Return the table of a name; None for none."""
    known = schema_directory(database, data_path, schema)
    if known is None:
        return None
    rows = database.rows(
        "SELECT table_id, path, path_is_relative FROM ducklake_table "
        "WHERE schema_id = ? AND lower(table_name) = lower(?) AND end_snapshot IS NULL",
        [known[0], name],
    )
    return next((FoundTable(int(number), _whole(known[1], path, relative)) for number, path, relative in rows), None)


def _whole(folder: str, path: str | None, is_relative: bool | int | None) -> str:
    return f"{folder}{path or ''}" if is_relative or path is None else path


def settings_of(database: CatalogDatabase, table: int) -> dict[str, str]:
    """Return what is noted of a table."""
    rows = database.rows("SELECT key, value FROM ducklake_metadata WHERE scope = 'table' AND scope_id = ?", [table])
    return {str(key): str(value) for key, value in rows}


def columns_at(database: CatalogDatabase, table: int, snapshot: int) -> list[Column]:
    """Return the columns of a table in a snapshot, in their order."""
    rows = database.rows(
        "SELECT column_id, column_name, column_type, parent_column FROM ducklake_column "
        f"WHERE table_id = ? AND {_AT} ORDER BY column_order, column_id",
        [table, snapshot, snapshot],
    )
    return [Column(int(number), name, type, parent) for number, name, type, parent in rows]


def next_column(database: CatalogDatabase, table: int) -> int:
    """Return the number that no column of a table has had."""
    ((most,),) = database.rows("SELECT coalesce(max(column_id), 0) FROM ducklake_column WHERE table_id = ?", [table])
    return int(most) + 1


def require_own_names(database: CatalogDatabase, table: int, place: str) -> None:
    """See that nobody has renamed a column: files have those names that they were written with.

    Raises:
        LakeError: somebody has.
    """
    renamed = database.rows(
        "SELECT column_id FROM ducklake_column WHERE table_id = ? GROUP BY column_id "
        "HAVING count(DISTINCT column_name) > 1",
        [table],
    )
    if renamed:
        raise LakeError("another program has renamed columns of the table", file=place, hint="land to another place")


def require_no_inlined(database: CatalogDatabase, table: int, place: str) -> None:
    """See that nobody keeps rows of a table, or which of them are deleted, in the catalog itself.

    Raises:
        LakeError: somebody does.
    """
    names = [f"ducklake_inlined_delete_{table}"]
    names += [
        str(name)
        for (name,) in database.rows("SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", [table])
    ]
    for name in names:
        if database.has_table(name) and database.rows(f'SELECT 1 FROM "{name}" LIMIT 1'):
            raise LakeError(
                "another program has written rows of the table into the catalog",
                file=place,
                hint="land to another place; nothing else may write to the tables of a target",
            )


def files_at(database: CatalogDatabase, table: FoundTable, snapshot: int, *, bounds: bool = True) -> list[FileRow]:
    """Return the files of a table in a snapshot.

    Args:
        database: of the catalog; table: it; snapshot: which.
        bounds: with statistics of columns.

    Raises:
        LakeError: one has no columns that are known by numbers, or delete files of another kind.
    """
    rows = database.rows(
        "SELECT data_file_id, path, path_is_relative, record_count, file_size_bytes, partial_max, mapping_id FROM "
        f"ducklake_data_file WHERE table_id = ? AND {_AT} ORDER BY data_file_id",
        [table.number, snapshot, snapshot],
    )
    if any(row[-1] is not None for row in rows):
        raise LakeError("another program has added files", file=table.directory, hint="land to another place")
    deletes = _deletes_at(database, table, snapshot)
    seen = _bounds_of(database, table.number) if bounds and rows else {}
    return [
        FileRow(
            number,
            path if relative else _below(table, path),
            count,
            size,
            deletes.get(number),
            partial_max,
            seen.get(number, {}),
        )
        for number, path, relative, count, size, partial_max, _ in rows
    ]


def _below(table: FoundTable, path: str) -> str:
    return path.removeprefix(table.directory)


def _deletes_at(database: CatalogDatabase, table: FoundTable, snapshot: int) -> dict[int, DeleteRow]:
    rows = database.rows(
        "SELECT data_file_id, delete_file_id, path, path_is_relative, delete_count, partial_max, format FROM "
        f"ducklake_delete_file WHERE table_id = ? AND {_AT}",
        [table.number, snapshot, snapshot],
    )
    if any(row[-1] != "parquet" for row in rows):
        raise LakeError(
            "a delete file of another format than Parquet", file=table.directory, hint="land to another place"
        )
    return {
        of: DeleteRow(number, path if not relative else os.path.join(table.directory, path), count, partial)
        for of, number, path, relative, count, partial, _ in rows
    }


def _bounds_of(
    database: CatalogDatabase, table: int
) -> dict[int, dict[int, tuple[int | None, str | None, str | None]]]:
    bounds: dict[int, dict[int, tuple[int | None, str | None, str | None]]] = {}
    rows = database.rows(
        "SELECT data_file_id, column_id, null_count, min_value, max_value FROM ducklake_file_column_stats "
        "WHERE table_id = ?",
        [table],
    )
    for file, column, nulls, least, greatest in rows:
        bounds.setdefault(file, {})[column] = nulls, least, greatest
    return bounds


def snapshot_is_there(database: CatalogDatabase, snapshot: int) -> bool:
    """Tell whether a snapshot has not expired."""
    return bool(database.rows("SELECT 1 FROM ducklake_snapshot WHERE snapshot_id = ?", [snapshot]))


def current_files(database: CatalogDatabase, table: int) -> Mapping[int, int | None]:
    """Return the numbers of a table's files, with those of their delete files."""
    rows = database.rows(
        "SELECT data_file_id, (SELECT max(delete_file_id) FROM ducklake_delete_file d WHERE d.data_file_id = "
        "f.data_file_id AND d.end_snapshot IS NULL) FROM ducklake_data_file f WHERE table_id = ? AND "
        "end_snapshot IS NULL",
        [table],
    )
    return {int(number): deletes for number, deletes in rows}


def ids(numbers: Sequence[int]) -> str:
    """Return numbers as a list in SQL."""
    return ", ".join(map(str, numbers))
