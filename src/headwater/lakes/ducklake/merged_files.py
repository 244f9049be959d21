"""Files of DuckLake that are made of several: in all snapshots, each row is there from the one on that it came with.

Such a file says of each row in which snapshot it came, and its row id: so an earlier version is read from it, and who
follows the table (``ducklake_table_changes``) sees nothing of it. The files that it is made of are forgotten at once,
as DuckDB's ``ducklake_merge_adjacent_files`` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.base.system_errors import reason_of
from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.ducklake.catalog_database import CatalogDatabase, moment_text
from headwater.lakes.ducklake.catalog_table import FoundTable, ids
from headwater.lakes.stores.places import arrow_source

DATA_FILES, DELETE_FILES = ("ducklake_data_file", "data_file_id"), ("ducklake_delete_file", "delete_file_id")
"""Tables of files in the catalog, with their keys."""
SCHEDULED = "ducklake_files_scheduled_for_deletion"
_ROW_ID, _SNAPSHOT_ID = "_ducklake_internal_row_id", "_ducklake_internal_snapshot_id"
_NUMBERS = {_ROW_ID: "2147483540", _SNAPSHOT_ID: "2147483539"}
_INTERNAL = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": number}) for name, number in _NUMBERS.items()]


@dataclass(frozen=True)
class Origin:
    """The first snapshot and the row ids of a file.

    Attributes:
        begin: the snapshot; first_row: the row id of the first row, None where the file says each row's.
    """

    begin: int
    first_row: int | None


def can_merge(schema: pa.Schema) -> bool:
    """Tell whether no column is called as those that say where rows come from."""
    return not set(schema.names) & set(_NUMBERS)


def origin_of(database: CatalogDatabase, number: int) -> Origin:
    """Return where the rows of a file come from.

    Raises:
        LakeConflictError: it is gone.
    """
    of = "SELECT begin_snapshot, row_id_start FROM ducklake_data_file WHERE data_file_id = ?"
    for begin, first_row in database.rows(of, [number]):
        return Origin(int(begin), first_row)
    raise LakeConflictError("files of the table were rewritten meanwhile", file=database.shown, hint="begin again")


def has_origins(columns: Iterable[str]) -> bool:
    """Tell whether a file of some columns says of each row where it comes from."""
    return set(_NUMBERS) <= set(columns)


def merging_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a file that is made of several, by those of one."""
    return pa.schema([*schema, *_INTERNAL])


def with_origins(rows: pa.Table, origin: Origin) -> pa.Table:
    """Return all rows of a file, with where each comes from.

    Args:
        rows: with the columns of :func:`merging_schema`, null where the file has none; origin: the file's.
    """
    if not set(_NUMBERS) <= set(rows.column_names):
        return rows
    first = 0 if origin.first_row is None else origin.first_row
    known: dict[str, Any] = {
        _ROW_ID: pa.array(np.arange(first, first + len(rows), dtype=np.int64)),
        _SNAPSHOT_ID: pa.scalar(origin.begin, pa.int64()),
    }
    for name, value in known.items():
        at = rows.column_names.index(name)
        filled: Any = pc.coalesce(rows[name], value)
        rows = rows.set_column(at, rows.schema.field(at), filled)
    return rows


def rows_until(path: str, snapshot: int) -> int:
    """Return how many rows of a file that is made of several there are in a snapshot.

    Args:
        path: the file's, or its address in a store; snapshot: its number.

    Raises:
        LakeError: the file cannot be read.
    """
    try:
        with pq.ParquetFile(arrow_source(path)) as there:
            came: Any = there.read(columns=[_SNAPSHOT_ID])[_SNAPSHOT_ID]
        return int(pc.sum(pc.less_equal(came, pa.scalar(snapshot))).as_py() or 0)
    except OSError as error:
        raise _unreadable(path, reason_of(error)) from None
    except (pa.ArrowException, KeyError) as error:
        raise _unreadable(path, str(error)) from None


def _unreadable(path: str, reason: str) -> LakeError:
    return LakeError(f"a file of rows cannot be read: {reason}", file=path, hint="restore it, or read a later version")


def schedule(database: CatalogDatabase, table: FoundTable, kind: tuple[str, str], numbers: Sequence[int]) -> set[str]:
    """Forget files, and note that they are to be removed; return their paths.

    Args:
        database: of the catalog, in a transaction; table: whose; kind: one of the tables of files; numbers: theirs.
    """
    if not numbers:
        return set()
    (name, key), known, now = kind, ids(numbers), moment_text(datetime.now(UTC))
    rows = database.rows(f"SELECT {key}, path, path_is_relative FROM {name} WHERE {key} IN ({known})")
    noted = [(n, os.path.join(table.directory, path) if relative else path, False, now) for n, path, relative in rows]
    database.insert(SCHEDULED, ("data_file_id", "path", "path_is_relative", "schedule_start"), noted)
    database.rows(f"DELETE FROM {name} WHERE {key} IN ({known})")
    if kind == DATA_FILES:
        database.rows(f"DELETE FROM ducklake_file_column_stats WHERE data_file_id IN ({known})")
    return {path for _, path, _, _ in noted}
