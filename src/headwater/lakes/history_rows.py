"""Rows of files of a mirror, of a history those that have ended apart from the valid ones.

A history has them in files of their own. Another program may have put them together (Delta's OPTIMIZE, Iceberg's
rewrite_data_files): then who merges changes looks at the valid ones alone, and the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.lakes.deletes.deleted_rows import DeletedRows, left_rows
from headwater.lakes.stores.places import arrow_source
from headwater.rows.columns.arrow import no_rows

VALID_FIELDS = (
    pa.field("_valid_from", pa.timestamp("us", tz="UTC")),
    pa.field("_valid_to", pa.timestamp("us", tz="UTC")),
    pa.field("_valid_from_lsn", pa.int64()),
    pa.field("_valid_to_lsn", pa.int64()),
)
"""Of a mirror with history, before the source's columns."""
FROM_TIME, TO_TIME, FROM_LSN, TO_LSN = (field.name for field in VALID_FIELDS)


def read_rows(path: str, columns: Sequence[str] | None = None, deleted: DeletedRows | None = None) -> pa.Table:
    """Return rows of a file.

    Args:
        path: of the file; columns: which; None for all.
        deleted: rows that are not there any more.
    """
    wanted = None if columns is None else list(columns)
    rows = pq.read_table(arrow_source(path), columns=wanted, partitioning=None)
    return left_rows(rows, deleted)


def schema_of(path: str) -> pa.Schema:
    """Return the columns of a file.

    Args:
        path: of the file.
    """
    return pq.read_schema(arrow_source(path))


def valid_rows(path: str, columns: Sequence[str] | None = None, deleted: DeletedRows | None = None) -> pa.Table:
    """Return rows of a history's file that have not ended; see :func:`read_rows`."""
    rows = read_rows(path, None if columns is None else list(dict.fromkeys([*columns, TO_LSN])), deleted)
    if rows[TO_LSN].null_count < len(rows):
        rows = rows.filter(pc.is_null(rows[TO_LSN]))
    return rows if columns is None else rows.select(columns)


def ended_rows(path: str, schema: pa.Schema, deleted: DeletedRows | None = None) -> pa.Table:
    """Return rows of a history's file that have ended, as they are; columns that came later have nothing of them.

    Args:
        path: of the file; schema: the columns that the history has now.
        deleted: see :func:`read_rows`.
    """
    ends = read_rows(path, [TO_LSN])[TO_LSN]
    if ends.null_count == len(ends):
        return no_rows(schema)
    rows = read_rows(path, deleted=deleted)
    rows = rows.filter(pc.is_valid(rows[TO_LSN]))
    return in_columns(rows, schema)


def in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in other columns, by their names; of columns that came later they have nothing."""
    return pa.table([_column(rows, field) for field in schema], schema=schema)


def _column(rows: pa.Table, wanted: pa.Field[Any]) -> pa.ChunkedArray[Any]:
    if wanted.name not in rows.column_names:
        return pa.chunked_array([pa.nulls(len(rows), wanted.type)])
    values = rows[wanted.name]
    return values if values.type == wanted.type else values.cast(wanted.type)
