"""Layouts that tables of a format can have: what Iceberg and Parquet have all of, Delta has in part."""

from __future__ import annotations

from headwater.errors import UsageError
from headwater.lakes.layout.transforms import IDENTITY
from headwater.lakes.settings.table_settings import TableSettings


def require_layout(entry: TableSettings, format: str) -> None:
    """See that tables of a format can be partitioned and sorted as settings say.

    Args:
        entry: the settings; format: of the tables.

    Raises:
        UsageError: they cannot.
    """
    if format == "ducklake" and (entry.partition or entry.sort):
        raise UsageError(
            f"tables of DuckLake are neither partitioned nor sorted here, and {', '.join(entry.patterns)} are to be",
            hint='leave out "partition" and "sort", or land to another format',
        )
    others = [field.text for field in entry.partition_fields if field.kind != IDENTITY]
    if format == "delta" and others:
        raise UsageError(
            f'tables of Delta are partitioned by columns, not by "{others[0]}"',
            hint="name columns as they are; a transform takes a generated column, of whose expressions each writer "
            "must know, and deltalake does not",
        )
