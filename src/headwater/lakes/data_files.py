"""Files of rows, as tasks write them: whole on the disk when that returns, with what the writer has seen of the values.

Bounds and counts of nulls come from the file's own footer, which the writer makes anyway: the rows are not gone through
again, but for columns of floats, whose bounds do not say whether there is a NaN.

Numbers and moments are written as differences (DELTA_BINARY_PACKED), decimals of up to 18 digits as integers, which is
what Iceberg asks for: places in the log, keys and times take next to nothing so, and half of the time. Strings have
dictionaries, which Arrow gives up where they do not pay. Spark (3.3), DuckDB, Arrow and Trino read all of it.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.base.system_errors import system_error
from headwater.lakes.file_bounds import has_order, is_bound
from headwater.lakes.lake_table import DataFile, errors_at, staged_path
from headwater.lakes.layout.hive_paths import hive_path
from headwater.lakes.layout.table_layout import TableLayout
from headwater.lakes.stores.places import new_file
from headwater.rows.columns.arrow import no_rows

_ARROW = b"ARROW:schema"
"""Under which key of a file Arrow looks for the schema that it was written with (parquet/arrow/schema.cc)."""

COMPRESSION = "zstd"
_DIGITS_OF_INTEGERS = 18

_ROW_GROUP_BYTES = 64 << 20
"""Of rows in memory: what a task holds beside the batch that it makes."""


def write_data_file(rows: pa.Table, place: str, name: str, schema: pa.Schema | None = None) -> DataFile:
    """Write rows into a file of a name that no other attempt has; it is on the disk then.

    Args:
        rows: at least one.
        place: the directory; name: of the file.
        schema: as for :func:`write_batches`; None for that of the rows.
    """
    return write_batches([rows], schema or rows.schema, place, name)


def write_laid_out(
    rows: pa.Table, layout: TableLayout, place: str, name: Callable[[], str], schema: pa.Schema | None = None
) -> Iterator[DataFile]:
    """Write rows into a file for each partition, one after the other, in each in the order of the layout.

    Args:
        rows: of a table; layout: the table's.
        place: the directory; name: makes names of files that no other attempt has.
        schema: as for :func:`write_batches`; None for that of the rows.

    Raises:
        LakeError: a file cannot be written; or a partition cannot be named.
    """
    if not layout:
        yield from [write_data_file(rows, place, name(), schema)] if len(rows) else []
        return
    for partition, own in layout.apart(rows):
        directory = hive_path(layout, partition) if layout.has_directories else ""
        file = write_data_file(layout.sorted(own), place, f"{directory}{name()}", schema)
        yield replace(file, partition=partition)


def write_batches_laid_out(
    batches: Iterable[pa.Table], layout: TableLayout, place: str, name: Callable[[], str], schema: pa.Schema
) -> Iterator[DataFile]:
    """Write rows that come batch by batch, some megabytes of them at a time (:func:`write_laid_out`).

    Args, Raises:
        see there, and :func:`write_batches`.
    """
    if layout:
        for rows in _row_groups(_read(batches)):
            yield from write_laid_out(rows, layout, place, name, schema)
        return
    there = iter(batches)
    first = next(there, None)
    if first is not None:
        yield write_batches(chain([first], there), schema, place, name())


def write_batches(batches: Iterable[pa.Table], schema: pa.Schema, place: str, name: str) -> DataFile:
    """Write the file of rows that come one batch after the other; small ones share row groups.

    Args:
        batches: of the columns of ``schema``, of which strings may be in dictionaries, in all batches alike.
        schema: them.
        place: the directory; name: of the file.

    Raises:
        LakeError: it cannot be written; names it.
        HeadwaterError: batches cannot be read.
    """
    with errors_at(os.path.join(place, name)):
        return _written(_read(batches), schema, place, name)


def _read(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Read batches; an error of the system there is not said of the file that is written."""
    try:
        yield from batches
    except OSError as error:
        raise system_error("read", error) from error


def _written(batches: Iterable[pa.Table], schema: pa.Schema, place: str, name: str) -> DataFile:
    footers: list[pq.FileMetaData] = []
    seen = _Seen(schema)
    there = iter(batches)
    first = next(there, None)
    first = no_rows(schema) if first is None else first
    with new_file(staged_path(place, name)) as sink:
        options = {**parquet_options(schema), "store_schema": False, "metadata_collector": footers}
        with pq.ParquetWriter(sink, _as_read(first, schema), **options) as writer:
            for rows in _row_groups(chain([first], there)):
                writer.write_table(rows)
                seen.add(rows)
        size = sink.tell()
    return DataFile(name, seen.rows, size, *_bounds(footers[0], schema, seen.with_nan), seen.nulls)


def _row_groups(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows put together, until they are as many as make a row group worth its while; none are copied.

    In each row group a column has pages and bounds of its own, and a dictionary of strings is tried again: 720,000 rows
    of six columns took a fifth longer in eight of them than in one, a column of strings twice the room.
    """
    waiting: list[pa.Table] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield _together(waiting)
            waiting, size = [], 0
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.Table]) -> pa.Table:
    """Join tables, each column with one dictionary, or none."""
    return batches[0] if len(batches) == 1 else pa.concat_tables(batches).unify_dictionaries()


def read_data_file(place: str, name: str, schema: pa.Schema) -> DataFile:
    """Read the footer of a file that another program has written.

    Args:
        place: the directory; name: of the file.
        schema: its columns.
    """
    path = os.path.join(place, name)
    footer = pq.read_metadata(path)
    floats = {field.name for field in schema if pa.types.is_floating(field.type)}  # nothing tells of a NaN
    return DataFile(
        name, footer.num_rows, os.path.getsize(path), *_bounds(footer, schema, floats), _nulls(footer, schema)
    )


def _nulls(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, int]:
    """Return nulls of columns that are not nested; where the footer does not tell, all may be."""
    counts = {}
    for leaf, field in _leaves(schema):
        if _is_leaf(field.type):
            groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
            statistics = [(group.column(leaf).statistics, group.num_rows) for group in groups]
            counts[field.name] = sum(
                rows if chunk is None or chunk.null_count is None else chunk.null_count for chunk, rows in statistics
            )
    return counts


def _as_read(batch: pa.Table, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a batch, with what tells Arrow's readers that they are those of a schema."""
    described = base64.b64encode(schema.serialize().to_pybytes())
    return batch.schema.with_metadata({**(schema.metadata or {}), _ARROW: described})


class _Seen:
    """The counts of rows in a file: how many, nulls of columns that are not nested, columns with NaN."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = 0
        self.nulls = {field.name: 0 for field in schema if _is_leaf(field.type)}
        self.with_nan: set[str] = set()

    def add(self, batch: pa.Table) -> None:
        """Add the bounds of a file's next rows."""
        self.rows += len(batch)
        for name in self.nulls:
            self.nulls[name] += batch[name].null_count
        self.with_nan |= {field.name for field in batch.schema if _has_nan(batch[field.name])}


def _bounds(
    footer: pq.FileMetaData, schema: pa.Schema, without: Container[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the least and the greatest values of columns that have bounds."""
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    for leaf, field in _leaves(schema):
        if not has_order(field.type) or field.name in without:
            continue
        statistics = list(_statistics(footer, leaf))
        least, greatest = _bound(statistics, "min", min, field.type), _bound(statistics, "max", max, field.type)
        if is_bound(least) and is_bound(greatest):
            lower[field.name], upper[field.name] = least, greatest
    return lower, upper


def _is_leaf(type: pa.DataType) -> bool:
    return not (pa.types.is_list(type) or pa.types.is_struct(type))


def _leaves(schema: pa.Schema) -> Iterator[tuple[int, pa.Field[Any]]]:
    """Yield columns with the number of their first leaf in a file."""
    leaf = 0
    for field in schema:
        yield leaf, field
        leaf += _leaf_count(field.type)


def _leaf_count(type: pa.DataType) -> int:
    if pa.types.is_list(type):
        return _leaf_count(type.value_type)
    return sum(_leaf_count(field.type) for field in type) if pa.types.is_struct(type) else 1


def _statistics(footer: pq.FileMetaData, leaf: int) -> Iterator[Any]:
    """Yield the statistics of the groups of rows in which a column has values."""
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(leaf)
        statistics = column.statistics
        if statistics is None or statistics.null_count is None or statistics.null_count < column.num_values:
            yield statistics


def _bound(statistics: list[Any], name: str, choose: Callable[[Iterable[Any]], Any], type: pa.DataType) -> Any:
    """Return the least or the greatest value of all groups; None where that is not known."""
    if not statistics or any(group is None or not group.has_min_max for group in statistics):
        return None
    try:
        bound = choose(getattr(group, name) for group in statistics)
    except OverflowError:  # a date that Python has not
        return None
    return uuid.UUID(bytes=bound) if type == pa.uuid() else bound


def _has_nan(column: pa.ChunkedArray[Any]) -> bool:
    return bool(pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py())


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the options of pyarrow's writers for files of these columns."""
    by_differences = [field.name for field in schema if _has_differences(field.type)]
    return {
        "compression": COMPRESSION,
        "store_decimal_as_integer": True,
        "column_encoding": dict.fromkeys(by_differences, "DELTA_BINARY_PACKED"),
        "use_dictionary": [field.name for field in schema if field.name not in by_differences],
    }


def _has_differences(type: pa.DataType) -> bool:
    """Tell whether values are integers in a file."""
    if pa.types.is_decimal128(type):
        return bool(type.precision <= _DIGITS_OF_INTEGERS)
    return bool(pa.types.is_signed_integer(type) or pa.types.is_temporal(type)) and not pa.types.is_interval(type)
