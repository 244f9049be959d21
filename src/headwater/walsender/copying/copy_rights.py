"""The right to copy a table, of a user who is limited to publications: what they publish of it, and no more."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.pg.version import Version
from headwater.walsender.sql.copy_shapes import CopyTable
from headwater.walsender.sql.published_tables import PublishedTable, existing_publications, table_in_each


def may_copy(copy: CopyTable, names: Iterable[str], catalog: HistoricCatalog, version: Version) -> bool:
    """Tell whether one of the named publications has all that is copied.

    A publication that filters rows of the table does not count: what a condition in SQL leaves out is not looked at.
    """
    publications = existing_publications(names, catalog)
    oid = catalog.relation_named(copy.schema, copy.table)
    tables = [] if oid is None else table_in_each(oid, publications, catalog)
    return any(table.member.filter is None and _has_columns(table, copy, version) for table in tables)


def _has_columns(table: PublishedTable, copy: CopyTable, version: Version) -> bool:
    names = table.column_names(version)
    live = {column.name for column in table.relation.columns if not column.is_dropped}
    return set(copy.columns or live) <= (live if names is None else set(names))
