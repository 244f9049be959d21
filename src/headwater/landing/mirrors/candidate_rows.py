"""Rows of a mirror's files that an index of keys names; of a file only the groups of rows are read that have some.

A row may be among them that has another key, with the same hash: it is one that no change is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.lakes.stores.places import arrow_source
from headwater.landing.key_index.index import Candidates
from headwater.landing.key_index.key_hashes import integers_of, is_told_by_hash
from headwater.rows.columns.arrow import no_rows


def told_rows(schema: pa.Schema, names: Sequence[str], path: str, candidates: Candidates) -> pa.Table:
    """Return the columns that tell rows apart, of rows that were candidates.

    Args:
        schema: of the mirror; names: of the columns; path: of the file; candidates: rows there.
    """
    fields = [schema.field(name) for name in names]
    if is_told_by_hash([field.type for field in fields]):
        keys = pa.array(integers_of(candidates.hashes)).cast(fields[0].type)
        return pa.table([keys], schema=pa.schema(fields))
    return rows_at(schema, names, path, candidates)


def rows_at(schema: pa.Schema, names: Sequence[str], path: str, candidates: Candidates) -> pa.Table:
    """Return columns of rows that were candidates; of columns that the file has not they have nothing.

    Args:
        schema, names, path, candidates: see :func:`told_rows`.
    """
    wanted = pa.schema([schema.field(name) for name in names])
    with pq.ParquetFile(arrow_source(path)) as file:
        there = [name for name in names if name in file.schema_arrow.names]
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        group = np.searchsorted(ends, candidates.rows, "right")
        parts = [no_rows(wanted)]
        for number in np.unique(group).tolist():
            rows = file.read_row_group(number, columns=there)
            parts.append(_in(wanted, rows.take(candidates.rows[group == number] - (ends[number] - sizes[number]))))
    return pa.concat_tables(parts)


def _in(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    """Return rows in columns of the mirror."""
    columns: list[Any] = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
