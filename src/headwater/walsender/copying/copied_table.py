"""A table that is copied: its columns, the relations whose rows it has, the rows that pass.

In: the statement, the catalog as of the LSN. Out: :class:`CopiedTable`, or the server's error. Privileges and row
security are not looked at: clients are served as superusers.

PostgreSQL: commands/copy.c (DoCopy, CopyGetAttnums), copyto.c (BeginCopyTo), parse_relation.c.

Known gaps, refused: views, sequences, foreign and unlogged tables, catalogs, virtual and system columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.catalog.relation import Column, RelationSchema, RowFilters
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import SessionError
from headwater.existing.leaves import Leaf, leaf_of, other_access_method
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.encodings import encode_name
from headwater.pg.sqlstates import (
    DUPLICATE_COLUMN,
    INVALID_COLUMN_REFERENCE,
    INVALID_SCHEMA_NAME,
    UNDEFINED_COLUMN,
    UNDEFINED_TABLE,
    WRONG_OBJECT_TYPE,
)
from headwater.pg.version import Version
from headwater.rows.session import SessionSettings
from headwater.walsender.copying.inheritors import all_inheritors
from headwater.walsender.copying.partition_order import partitions_in_order
from headwater.walsender.copying.refusals import not_without_server
from headwater.walsender.copying.row_conditions import row_filters
from headwater.walsender.sql.copy_shapes import CopyTable

_SYSTEM_COLUMNS = frozenset(("ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"))
_KINDS = {
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
    "S": "sequence",
    "p": "partitioned table",
}
_QUERY_HINT = "Try the COPY (SELECT ...) TO variant."


@dataclass(frozen=True)
class CopiedTable:
    """A table that is copied, and the part of it.

    Attributes:
        relation: the table; columns: of it, in the order of the fields.
        leaves: the relations with the rows, in their order.
        filters: they decide which rows pass; None for all.
    """

    relation: RelationSchema
    columns: tuple[Column, ...]
    leaves: tuple[Leaf, ...]
    filters: RowFilters | None = None


def copied_table(store: CatalogStore, view: HistoricCatalog, copy: CopyTable, session: SessionSettings) -> CopiedTable:
    """Find what a COPY reads.

    Args:
        store: the catalog; view: of it, as of the LSN.
        copy: the statement; session: that runs it.

    Raises:
        SessionError: the server's, or that only a server can answer.
    """
    relation = _relation(view, copy, session.version)
    columns = _queried_columns(relation, copy.columns or ()) if copy.is_query else _columns(relation, copy.columns)
    filters = None if copy.where is None else row_filters(view, relation, copy.where, session)
    leaves = [_leaf(store, view, oid, relation, copy) for oid in _oids(view, relation, copy)]
    return CopiedTable(relation, columns, tuple(leaf for leaf in leaves if leaf is not None), filters)


def _relation(view: HistoricCatalog, copy: CopyTable, version: Version) -> RelationSchema:
    oid = view.relation_named(copy.schema, copy.table)
    if oid is None:
        raise _missing(view, copy)
    kind = view.class_rows(oid)[0].kind
    name = f'"{copy.schema}.{copy.table}"'
    if not copy.is_query:
        _check_kind(kind, copy.table, version)
    if kind not in "rp":
        raise not_without_server(f"rows of {_KINDS.get(kind, 'relation')} {name} are not in the backup")
    if oid < FIRST_NORMAL_OBJECT_ID:
        raise not_without_server(f"{name} is a catalog")
    relation = view.relation(oid)
    assert relation is not None
    return relation


def _missing(view: HistoricCatalog, copy: CopyTable) -> SessionError:
    if not copy.is_query and not view.named_rows("pg_namespace", "nspname", encode_name(copy.schema, view.encoding)):
        return SessionError(f'schema "{copy.schema}" does not exist', sqlstate=INVALID_SCHEMA_NAME)
    return SessionError(f'relation "{copy.schema}.{copy.table}" does not exist', sqlstate=UNDEFINED_TABLE)


def _check_kind(kind: str, name: str, version: Version) -> None:
    """Check that COPY takes a relation by its name (BeginCopyTo)."""
    takes = {"r": True, "p": version.copies_partitioned_tables, "m": version.copies_materialized_views}
    if takes.get(kind, False):
        return
    what = _KINDS.get(kind, "non-table relation")
    hint = _QUERY_HINT if kind in "vmfp" else None
    raise SessionError(f'cannot copy from {what} "{name}"', sqlstate=WRONG_OBJECT_TYPE, hint=hint)


def _columns(relation: RelationSchema, names: tuple[str, ...] | None) -> tuple[Column, ...]:
    """Return the columns of COPY by a table's name (CopyGetAttnums)."""
    live_columns = {column.name: column for column in relation.columns if not column.is_dropped}
    if names is None:
        return tuple(column for column in live_columns.values() if not column.generated)
    columns: dict[str, Column] = {}
    for name in names:
        column = live_columns.get(name)
        if column is None:
            text = f'column "{name}" of relation "{relation.name}" does not exist'
            raise SessionError(text, sqlstate=UNDEFINED_COLUMN)
        if column.generated:
            raise SessionError(
                f'column "{name}" is a generated column',
                sqlstate=INVALID_COLUMN_REFERENCE,
                detail="Generated columns cannot be used in COPY.",
            )
        if name in columns:
            raise SessionError(f'column "{name}" specified more than once', sqlstate=DUPLICATE_COLUMN)
        columns[name] = column
    return tuple(columns.values())


def _queried_columns(relation: RelationSchema, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Return the columns of a SELECT."""
    columns = {column.name: column for column in relation.columns if not column.is_dropped}
    for name in names:
        if name not in columns and name not in _SYSTEM_COLUMNS:
            raise SessionError(f'column "{name}" does not exist', sqlstate=UNDEFINED_COLUMN)
        if name not in columns or columns[name].generated == "v":
            what = "virtual generated column" if name in columns else "system column"
            raise not_without_server(f'values of {what} "{name}" are not stored')
    return tuple(columns[name] for name in names)


def _oids(view: HistoricCatalog, relation: RelationSchema, copy: CopyTable) -> Iterator[int]:
    """Give the relations whose rows belong to a table, itself among them."""
    if relation.kind == "p":
        if not copy.only:
            yield from (partitions_in_order if copy.is_query else all_inheritors)(view, relation.oid)
    elif copy.is_query and not copy.only:
        yield from all_inheritors(view, relation.oid)
    else:
        yield relation.oid


def _leaf(store: CatalogStore, view: HistoricCatalog, oid: int, root: RelationSchema, copy: CopyTable) -> Leaf | None:
    """Return where a relation's own rows lie; None for one that has none."""
    (row,) = view.class_rows(oid)
    if row.kind == "p":
        return None
    name = f'"{view.namespace_name(row.namespace)}.{row.name}"'
    if row.kind == "f" and not copy.is_query:
        raise SessionError(
            f'cannot copy from foreign table "{row.name}"',
            sqlstate=WRONG_OBJECT_TYPE,
            detail=f'Partition "{row.name}" is a foreign table in partitioned table "{root.name}".',
            hint=_QUERY_HINT,
        )
    if row.kind != "r" or row.persistence != "p":
        what = "unlogged table" if row.kind == "r" else _KINDS.get(row.kind, "relation")
        raise not_without_server(f"rows of {what} {name} are not in the backup")
    if other_access_method(view, oid) is not None:
        raise not_without_server(f"table {name} has another access method than heap")
    schema = view.relation(oid)
    assert schema is not None
    return leaf_of(store, view, schema)
