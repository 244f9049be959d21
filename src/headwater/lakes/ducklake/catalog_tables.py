"""The tables of DuckLake's catalog, as format 1.0 has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

VERSION = "1.0"

_I, _V, _B, _T, _U, _K = "BIGINT", "VARCHAR", "BOOLEAN", "TIMESTAMPTZ", "UUID", "BIGINT PRIMARY KEY"
_LIFE = {"begin_snapshot": _I, "end_snapshot": _I}
_BOUNDS = {"min_value": _V, "max_value": _V}
_COUNTS = {"column_size_bytes": _I, "value_count": _I, "null_count": _I}
_IS_RELATIVE = {"path": _V, "path_is_relative": _B}

TABLES: Mapping[str, Mapping[str, str]] = {
    "ducklake_metadata": {"key": "VARCHAR NOT NULL", "value": "VARCHAR NOT NULL", "scope": _V, "scope_id": _I},
    "ducklake_snapshot": {
        "snapshot_id": _K,
        "snapshot_time": _T,
        "schema_version": _I,
        "next_catalog_id": _I,
        "next_file_id": _I,
    },
    "ducklake_snapshot_changes": {
        "snapshot_id": _K,
        "changes_made": _V,
        "author": _V,
        "commit_message": _V,
        "commit_extra_info": _V,
    },
    "ducklake_schema": {"schema_id": _K, "schema_uuid": _U, **_LIFE, "schema_name": _V, **_IS_RELATIVE},
    "ducklake_table": {"table_id": _I, "table_uuid": _U, **_LIFE, "schema_id": _I, "table_name": _V, **_IS_RELATIVE},
    "ducklake_view": {
        "view_id": _I,
        "view_uuid": _U,
        **_LIFE,
        "schema_id": _I,
        "view_name": _V,
        "dialect": _V,
        "sql": _V,
        "column_aliases": _V,
    },
    "ducklake_tag": {"object_id": _I, **_LIFE, "key": _V, "value": _V},
    "ducklake_column_tag": {"table_id": _I, "column_id": _I, **_LIFE, "key": _V, "value": _V},
    "ducklake_data_file": {
        "data_file_id": _K,
        "table_id": _I,
        **_LIFE,
        "file_order": _I,
        **_IS_RELATIVE,
        "file_format": _V,
        "record_count": _I,
        "file_size_bytes": _I,
        "footer_size": _I,
        "row_id_start": _I,
        "partition_id": _I,
        "encryption_key": _V,
        "mapping_id": _I,
        "partial_max": _I,
    },
    "ducklake_file_column_stats": {
        "data_file_id": _I,
        "table_id": _I,
        "column_id": _I,
        **_COUNTS,
        **_BOUNDS,
        "contains_nan": _B,
        "extra_stats": _V,
    },
    "ducklake_file_variant_stats": {
        "data_file_id": _I,
        "table_id": _I,
        "column_id": _I,
        "variant_path": _V,
        "shredded_type": _V,
        **_COUNTS,
        **_BOUNDS,
        "contains_nan": _B,
        "extra_stats": _V,
    },
    "ducklake_delete_file": {
        "delete_file_id": _K,
        "table_id": _I,
        **_LIFE,
        "data_file_id": _I,
        **_IS_RELATIVE,
        "format": _V,
        "delete_count": _I,
        "file_size_bytes": _I,
        "footer_size": _I,
        "encryption_key": _V,
        "partial_max": _I,
    },
    "ducklake_column": {
        "column_id": _I,
        **_LIFE,
        "table_id": _I,
        "column_order": _I,
        "column_name": _V,
        "column_type": _V,
        "initial_default": _V,
        "default_value": _V,
        "nulls_allowed": _B,
        "parent_column": _I,
        "default_value_type": _V,
        "default_value_dialect": _V,
    },
    "ducklake_table_stats": {"table_id": _I, "record_count": _I, "next_row_id": _I, "file_size_bytes": _I},
    "ducklake_table_column_stats": {
        "table_id": _I,
        "column_id": _I,
        "contains_null": _B,
        "contains_nan": _B,
        **_BOUNDS,
        "extra_stats": _V,
    },
    "ducklake_partition_info": {"partition_id": _I, "table_id": _I, **_LIFE},
    "ducklake_partition_column": {
        "partition_id": _I,
        "table_id": _I,
        "partition_key_index": _I,
        "column_id": _I,
        "transform": _V,
    },
    "ducklake_file_partition_value": {
        "data_file_id": _I,
        "table_id": _I,
        "partition_key_index": _I,
        "partition_value": _V,
    },
    "ducklake_files_scheduled_for_deletion": {"data_file_id": _I, **_IS_RELATIVE, "schedule_start": _T},
    "ducklake_inlined_data_tables": {"table_id": _I, "table_name": _V, "schema_version": _I},
    "ducklake_column_mapping": {"mapping_id": _I, "table_id": _I, "type": _V},
    "ducklake_name_mapping": {
        "mapping_id": _I,
        "column_id": _I,
        "source_name": _V,
        "target_field_id": _I,
        "parent_column": _I,
        "is_partition": _B,
    },
    "ducklake_schema_versions": {"begin_snapshot": _I, "schema_version": _I, "table_id": _I},
    "ducklake_macro": {"schema_id": _I, "macro_id": _I, "macro_name": _V, **_LIFE},
    "ducklake_macro_impl": {"macro_id": _I, "impl_id": _I, "dialect": _V, "sql": _V, "type": _V},
    "ducklake_macro_parameters": {
        "macro_id": _I,
        "impl_id": _I,
        "column_id": _I,
        "parameter_name": _V,
        "parameter_type": _V,
        "default_value": _V,
        "default_value_type": _V,
    },
    "ducklake_sort_info": {"sort_id": _I, "table_id": _I, **_LIFE},
    "ducklake_sort_expression": {
        "sort_id": _I,
        "table_id": _I,
        "sort_key_index": _I,
        "expression": _V,
        "dialect": _V,
        "sort_direction": _V,
        "null_order": _V,
    },
}
"""Columns and their types by name, of each table."""

IN_SQLITE = {_B: _I, _T: _V, _U: _V}
"""Types that SQLite has not, as DuckDB has them there."""


def create_statements(types: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that make the tables.

    Args:
        types: of the database, for those that it has not.
    """
    for table, columns in TABLES.items():
        parts = ", ".join(f'"{name}" {types.get(type, type)}' for name, type in columns.items())
        yield f"CREATE TABLE {table} ({parts})"
