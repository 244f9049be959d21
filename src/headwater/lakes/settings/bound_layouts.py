"""Layouts of tables with names of columns in the lake, where settings have those that the source had at first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from headwater.errors import LakeError
from headwater.lakes.layout.table_layout import NO_LAYOUT, SortField, TableLayout
from headwater.lakes.layout.transforms import IDENTITY, PartitionField
from headwater.lakes.settings.table_settings import TableSettings

Columns: TypeAlias = "Mapping[int, Sequence[pa.Field[Any]]]"
"""Columns in the lake by numbers of the source's, of those that a column has had in their order."""

RELOADED = "change the settings, and headwater lake reload --table-settings FILE lays its rows out anew"

F = TypeVar("F", PartitionField, SortField)


def bound_layout(settings: TableSettings, numbers: Mapping[str, int], columns: Columns, format: str) -> TableLayout:
    """Return the layout of a table; fields of columns that it has not had from the beginning are left out.

    Args:
        settings: of the table; numbers: of the columns in the source, by the names that settings have.
        columns: in the lake; format: of the table.

    Raises:
        LakeError: a column has a type that rows are not partitioned or sorted by.
    """
    if not settings.partition and not settings.sort:
        return NO_LAYOUT
    held = {name: columns[number][0] for name, number in numbers.items() if number in columns}
    partition = tuple(
        _bound(field, held, settings, "partitioned") for field in settings.partition_fields if field.column in held
    )
    sort = tuple(_bound(field, held, settings, "sorted") for field in settings.sort_fields if field.column in held)
    return TableLayout(partition, sort, has_directories=format == "parquet", takes_empty=format != "delta")


def reserved_names(settings: TableSettings | None) -> tuple[str, ...]:
    """Return names of partitions' fields, that no column can have in the lake."""
    fields = () if settings is None else settings.partition_fields
    return tuple(field.name for field in fields if field.kind != IDENTITY)


def _bound(field: F, held: Mapping[str, pa.Field[Any]], settings: TableSettings, what: str) -> F:
    column = held[field.column]
    if not field.takes(column.type):
        raise LakeError(
            f'table {", ".join(settings.patterns)} cannot be {what} by "{field.text}": the column is '
            f"{column.type} there",
            hint="choose another transform, or another column",
        )
    return field.of(column.name)


def require_there(
    table: str, layout_names: Sequence[str], numbers: Mapping[str, int], living: Mapping[int, str], columns: Columns
) -> None:
    """See that the columns of a layout, or a key, have values still, where they had them.

    Args:
        table: its name; layout_names: of the columns in settings; numbers: see :func:`bound_layout`.
        living: for each column that the source has, the one in the lake that takes its values.
        columns: in the lake.

    Raises:
        LakeError: one was dropped, or got a type that needs another column in the lake.
    """
    for name in layout_names:
        number = numbers.get(name)
        if number is None or number not in columns:
            continue
        first = columns[number][0].name
        if number not in living:
            raise LakeError(
                f'column "{name}" of table {table}, by which its rows are laid out, was dropped', hint=RELOADED
            )
        if living[number] != first:
            raise LakeError(
                f'column "{name}" of table {table}, by which its rows are laid out, has another type now, and lands as '
                f'"{living[number]}"',
                hint=RELOADED,
            )
