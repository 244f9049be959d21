"""The right to copy a table, of a user who is limited to publications: what they publish of it, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.catalog.relation import Publication
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.pg.version import Version
from headwater.walsender.copying.inheritors import all_inheritors
from headwater.walsender.sql.copy_shapes import CopyTable
from headwater.walsender.sql.published_tables import (
    PublishedTable,
    existing_publications,
    has_all_sequences,
    table_in_each,
)


def may_copy(copy: CopyTable, names: Iterable[str], catalog: HistoricCatalog, version: Version) -> bool:
    """Tell whether the named publications have all that is copied: of each table that gives rows, one of them.

    A publication that filters rows of the table does not count: what a condition in SQL leaves out is not looked at.
    With a condition all columns must be published, as it may read any of them.
    """
    publications = existing_publications(names, catalog)
    oid = catalog.relation_named(copy.schema, copy.table)
    relation = None if oid is None else catalog.relation(oid)
    if oid is None or relation is None:
        return False
    has_children = copy.is_query and not copy.only and relation.kind != "p"
    oids = all_inheritors(catalog, oid) if has_children else [oid]
    return all(_is_published(oid, copy, publications, catalog, version) for oid in oids)


def may_read_sequences(names: Iterable[str] | None, catalog: HistoricCatalog) -> bool:
    """Tell whether a user may read sequences: one who is limited to publications, if one of these has all sequences."""
    return names is None or has_all_sequences(existing_publications(names, catalog), catalog)


def _is_published(
    oid: int, copy: CopyTable, publications: Sequence[Publication], catalog: HistoricCatalog, version: Version
) -> bool:
    tables = table_in_each(oid, publications, catalog)
    return any(table.member.filter is None and _has_columns(table, copy, version) for table in tables)


def _has_columns(table: PublishedTable, copy: CopyTable, version: Version) -> bool:
    names = table.column_names(version)
    live = {column.name for column in table.relation.columns if not column.is_dropped}
    read = live if copy.where is not None else set(copy.columns or live)
    return read <= (live if names is None else set(names))
