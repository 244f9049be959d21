"""The tables that publications publish, with their columns and row filters, as a subscriber is told them.

In: publications, a view. Out: tables, each as often as there are publications that have it. A partition is left out
where a publication in the list publishes via the partition root, and an ancestor is listed.

Whether a publication lists a table is decided table by table. The server lists all, then leaves some out; both come to
the same, as a table's ancestors are known.

PostgreSQL: catalog/pg_publication.c (pg_get_publication_tables, GetPubPartitionOptionRelations, filter_partitions,
GetSchemaPublicationRelations, is_table_publishable_in_publication, pg_get_publication_sequences).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headwater.catalog.relation import Publication, PublicationMember, RelationSchema
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.version import Version
from headwater.plugins.publication import is_publishable


@dataclass(frozen=True)
class PublishedTable:
    """A table in a publication (published_rel).

    Attributes:
        publication: the publication.
        relation: the table.
        member: the entry of the table in it; of one that it has for another reason the empty entry.
    """

    publication: Publication
    relation: RelationSchema
    member: PublicationMember

    def columns(self, version: Version) -> tuple[int, ...] | None:
        """Return the attnums that pg_get_publication_tables tells; None for NULL."""
        if self.member.columns is not None or not version.gathers_publications:
            return self.member.columns
        with_generated = self.publication.generated == "s"
        numbers = (
            column.number
            for column in self.relation.columns
            if not column.is_dropped and (not column.generated or (column.generated == "s" and with_generated))
        )
        return tuple(numbers) or None

    def column_names(self, version: Version) -> tuple[str, ...] | None:
        """Return the names that the view pg_publication_tables tells (attnames); None for NULL."""
        numbers = self.columns(version)
        if numbers is None and version.gathers_publications:
            return None
        live_columns = (column for column in self.relation.columns if not column.is_dropped)
        return tuple(column.name for column in live_columns if numbers is None or column.number in numbers) or None


def existing_publications(names: Iterable[str], catalog: HistoricCatalog) -> list[Publication]:
    """Return those of the named publications that exist, each once."""
    publications = (catalog.publication(name) for name in dict.fromkeys(names))
    return [publication for publication in publications if publication is not None]


def published_tables(publications: Sequence[Publication], catalog: HistoricCatalog) -> list[PublishedTable]:
    """List the tables of publications, as of one call of pg_get_publication_tables with all of them."""
    relations = _relations(catalog)
    pairs = [
        (publication, relation)
        for publication in publications
        for relation in relations
        if _lists(publication, relation, catalog)
    ]
    if any(publication.via_root for publication in publications):
        listed = {relation.oid for _, relation in pairs}
        pairs = [pair for pair in pairs if listed.isdisjoint(_ancestors(pair[1]))]
    return [_published(publication, relation, catalog) for publication, relation in pairs]


def tables_of_each(publications: Sequence[Publication], catalog: HistoricCatalog) -> list[PublishedTable]:
    """List the tables of publications, as of a call of pg_get_publication_tables for each."""
    return [table for publication in publications for table in published_tables([publication], catalog)]


def table_in_each(oid: int, publications: Sequence[Publication], catalog: HistoricCatalog) -> list[PublishedTable]:
    """Return what :func:`tables_of_each` has of a table, without a look at other tables."""
    relation = catalog.relation(oid)
    if relation is None:
        return []
    listing = (publication for publication in publications if _lists_for_itself(publication, relation, catalog))
    return [_published(publication, relation, catalog) for publication in listing]


def published_sequences(publications: Sequence[Publication], catalog: HistoricCatalog) -> list[RelationSchema]:
    """Return all sequences, if one of the publications has them."""
    return _existing(catalog.sequences(), catalog) if has_all_sequences(publications, catalog) else []


def has_all_sequences(publications: Sequence[Publication], catalog: HistoricCatalog) -> bool:
    """Tell whether one of the publications has all sequences."""
    rows = (row for publication in publications for row in catalog.named_rows("pg_publication", "oid", publication.oid))
    return any(row.flag("puballsequences") for row in rows)


def _relations(catalog: HistoricCatalog) -> list[RelationSchema]:
    """List all relations that can come from a publication: partitions of published tables may be of any kind."""
    return _existing(sorted({*catalog.tables(), *catalog.partitions_without_wal()}), catalog)


def _existing(oids: Iterable[int], catalog: HistoricCatalog) -> list[RelationSchema]:
    relations = (catalog.relation(oid) for oid in oids if oid >= FIRST_NORMAL_OBJECT_ID)
    return [relation for relation in relations if relation is not None]


def _ancestors(relation: RelationSchema) -> tuple[int, ...]:
    return relation.ancestors if relation.is_partition else ()


def _lists(publication: Publication, relation: RelationSchema, catalog: HistoricCatalog) -> bool:
    """Tell whether a table is listed, before partitions are left out for their ancestors."""
    if relation.kind == "p" and not publication.via_root:
        return False
    if publication.all_tables:
        is_hidden = relation.is_partition and publication.via_root
        return is_publishable(relation) and not is_hidden and not _is_excepted(publication, relation, catalog)
    if _has(publication, relation, catalog):
        return True
    ancestors = () if publication.via_root else _existing(_ancestors(relation), catalog)
    return any(_has(publication, ancestor, catalog) for ancestor in ancestors)


def _lists_for_itself(publication: Publication, relation: RelationSchema, catalog: HistoricCatalog) -> bool:
    """Tell whether a table is listed and not left out, where the publication is asked for alone."""
    if not _lists(publication, relation, catalog):
        return False
    ancestors = _existing(_ancestors(relation), catalog) if publication.via_root else []
    return not any(_lists(publication, ancestor, catalog) for ancestor in ancestors)


def _has(publication: Publication, relation: RelationSchema, catalog: HistoricCatalog) -> bool:
    """Tell whether a publication names a table, or its schema."""
    if publication.oid in catalog.relation_publications(relation.oid):
        return True
    return is_publishable(relation) and _has_schema(publication, relation, catalog)


def _has_schema(publication: Publication, relation: RelationSchema, catalog: HistoricCatalog) -> bool:
    return publication.oid in catalog.schema_publications(relation.namespace_oid)


def _is_excepted(publication: Publication, relation: RelationSchema, catalog: HistoricCatalog) -> bool:
    """Tell whether a publication of all tables leaves a table out, or what it is a partition of (19)."""
    oids = relation.oid, *_ancestors(relation)
    return any(-publication.oid in catalog.relation_publications(oid) for oid in oids)


def _published(publication: Publication, relation: RelationSchema, catalog: HistoricCatalog) -> PublishedTable:
    """Return a published table; all tables, and those of a schema, have neither column list nor row filter."""
    member = None
    if not publication.all_tables and not _has_schema(publication, relation, catalog):
        member = catalog.publication_member(relation.oid, publication.oid)
    return PublishedTable(publication, relation, member or PublicationMember())
