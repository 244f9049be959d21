"""The changes of a relation that publications publish, as which relation, and which of its columns.

Mirrors ``get_rel_sync_entry``, ``pgoutput_column_list_init``, ``check_and_init_gencol`` and the first half of
``pgoutput_row_filter_init`` of replication/pgoutput/pgoutput.c, ``GetTopMostAncestorInPublication`` and
``is_publishable_class`` of catalog/pg_publication.c, ``logicalrep_should_publish_column`` of
replication/logical/proto.c.

Differences between majors:

- A column list that names every column counts as none, where 15 counts dropped columns as columns and 18 has no such
  rule.
- From 19 on a publication of all tables can leave tables out.
- Generated columns are never published before 18.
- A publication that does not exist where it is loaded is an error before 18, and skipped with a warning from then on.
- 14 has neither schemas nor lists of columns nor filters.

That not one of the named publications has existed in the window is an error here in any major.

Row filters are read here (pgoutput_row_filter_init) and evaluated in decode tasks (:mod:`headwater.filters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.catalog.relation import Column, Publication, PublicationMember, RelationSchema, RowFilters
from headwater.errors import CatalogError, PluginError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, UNDEFINED_OBJECT
from headwater.pg.version import VERSIONS
from headwater.plugins.api import WANT_DELETE, WANT_INSERT, WANT_TRUNCATE, WANT_UPDATE, CatalogView, WholeCatalog
from headwater.reorder.wanted_changes import TRUNCATE_IF_DETACHED

_Members = Mapping[int, PublicationMember]
"""What publications say of a relation, by their OIDs."""


@dataclass(frozen=True)
class Published:
    """The way one relation's changes are published (RelationSyncEntry).

    Attributes:
        emits: WANT bits.
        publish_as: the relation itself, or the partition ancestor whose changes they become.
        columns: attnums of the column list, None for all columns.
        with_generated: stored generated columns go along (18).
        filters: say which changes are published; None for all.
    """

    emits: int
    publish_as: RelationSchema
    columns: frozenset[int] | None = None
    with_generated: bool = False
    filters: RowFilters | None = None

    def publishes(self, column: Column) -> bool:
        """Tell whether a column is sent (logicalrep_should_publish_column)."""
        if column.is_dropped:
            return False
        if self.columns is not None:
            return column.number in self.columns
        return not column.generated or (column.generated == "s" and self.with_generated)


def is_publishable(schema: RelationSchema) -> bool:
    """Tell whether a relation could be published at all (is_publishable_class)."""
    return schema.kind in "rp" and schema.persistence == "p" and schema.oid >= FIRST_NORMAL_OBJECT_ID


def has_same_rows(schema: RelationSchema, other: RelationSchema) -> bool:
    """Tell whether rows of a relation, taken for such of another one, are the same."""
    return len(schema.columns) == len(other.columns) and all(
        mine.attlen == theirs.attlen
        and mine.attalign == theirs.attalign
        and (theirs.is_dropped or (mine.name, mine.type) == (theirs.name, theirs.type))
        for mine, theirs in zip(schema.columns, other.columns, strict=True)
    )


def load_publications(names: Sequence[str], catalog: CatalogView, major: int) -> list[Publication]:
    """Return the named publications (LoadPublications); 18 leaves out those that do not exist.

    Raises:
        PluginError: before 18, a publication does not exist.
    """
    publications = []
    for name in names:
        publication = catalog.publication(name)
        if publication is not None:
            publications.append(publication)
        elif not VERSIONS[major].warns_of_missing_publications:
            raise PluginError(f'publication "{name}" does not exist', sqlstate=UNDEFINED_OBJECT)
    return publications


def require_publications(names: Sequence[str], catalog: WholeCatalog) -> None:
    """Stop if not one of the named publications has existed in the window: nothing could be published.

    The server would warn at each loading (18), or stop at the first change, if there is one.

    Raises:
        PluginError: naming the first one.
    """
    if names and not any(catalog.has_had_publication(name) for name in names):
        raise PluginError(
            f'publication "{names[0]}" does not exist', hint="name a publication that exists in the window"
        )


def published(
    schema: RelationSchema, publications: Sequence[Publication], catalog: CatalogView, major: int
) -> Published:
    """Find how a publishable relation's changes are published.

    Raises:
        PluginError: the publications contradict each other.
    """
    emits, level, chosen = 0, 0, list[Publication]()
    publish_as = schema.oid
    for publication in publications:
        target = _target(schema, publication, catalog)
        if target is None or (schema.kind == "p" and not publication.via_root):
            continue
        emits |= _actions(publication)
        oid, depth = target
        if depth > level:
            publish_as, level, chosen = oid, depth, [publication]
        elif depth == level:
            chosen.append(publication)
    emits = held_back(emits, schema, publish_as, major)
    relation = schema if publish_as == schema.oid else ancestor_relation(catalog, publish_as)
    if emits & ~(WANT_TRUNCATE | TRUNCATE_IF_DETACHED) == 0:
        return Published(emits, relation)
    members = _members(relation, chosen, catalog)
    filters = _filters(relation, chosen, members, catalog)
    lists = [_listed(publication, members) for publication in chosen]
    with_generated = VERSIONS[major].publishes_generated_columns and _with_generated(relation, chosen, lists)
    return Published(emits, relation, _column_list(relation, lists, with_generated, major), with_generated, filters)


def held_back(emits: int, schema: RelationSchema, publish_as: int, major: int) -> int:
    """Return WANT bits without TRUNCATE of a partition that is published as an ancestor.

    Args:
        emits: WANT bits.
        schema: the relation; publish_as: OID of the relation that it is published as.
        major: PostgreSQL's.
    """
    truncates = bool(emits & (WANT_TRUNCATE | TRUNCATE_IF_DETACHED))
    emits &= ~(WANT_TRUNCATE | TRUNCATE_IF_DETACHED)
    if not truncates:
        return emits
    if not schema.is_partition or publish_as == schema.oid:
        return emits | WANT_TRUNCATE
    return emits if VERSIONS[major].announces_anew_with_publications else emits | TRUNCATE_IF_DETACHED


def _actions(publication: Publication) -> int:
    """Return the WANT bits of what a publication publishes; a DELETE without an old tuple is never sent."""
    flags = (
        (publication.insert, WANT_INSERT),
        (publication.update, WANT_UPDATE),
        (publication.delete, WANT_DELETE),
        (publication.truncate, WANT_TRUNCATE),
    )
    return sum(bit for on, bit in flags if on)


def is_targeted(schema: RelationSchema, publications: Sequence[Publication], catalog: CatalogView) -> bool:
    """Tell whether publications have a relation, itself or as a part of another one."""
    return any(_target(schema, publication, catalog) is not None for publication in publications)


def _target(schema: RelationSchema, publication: Publication, catalog: CatalogView) -> tuple[int, int] | None:
    """Return the OID that a publication publishes a relation as, and that many levels up; None if it does not."""
    itself = (schema.oid, 0)
    ancestors = schema.ancestors if schema.is_partition else ()
    if publication.all_tables:
        # Of a partition the root is what can be left out (get_rel_sync_entry, 19).
        if -publication.oid in catalog.relation_publications(ancestors[-1] if ancestors else schema.oid):
            return None
        return (ancestors[-1], len(ancestors)) if publication.via_root and ancestors else itself
    top = _topmost_ancestor(ancestors, publication, catalog)
    if top is not None:
        return top if publication.via_root else itself
    is_in = _has_relation(publication, schema.oid, catalog) or _has_schema(publication, schema.namespace_oid, catalog)
    return itself if is_in else None


def _topmost_ancestor(
    ancestors: Sequence[int], publication: Publication, catalog: CatalogView
) -> tuple[int, int] | None:
    """Return the highest ancestor in the publication, and its level from 1 (GetTopMostAncestorInPublication)."""
    top = None
    for level, oid in enumerate(ancestors, 1):
        ancestor = catalog.relation(oid)
        in_schema = ancestor is not None and _has_schema(publication, ancestor.namespace_oid, catalog)
        if in_schema or _has_relation(publication, oid, catalog):
            top = (oid, level)
    return top


def _has_relation(publication: Publication, oid: int, catalog: CatalogView) -> bool:
    return publication.oid in catalog.relation_publications(oid)


def _has_schema(publication: Publication, oid: int, catalog: CatalogView) -> bool:
    return publication.oid in catalog.schema_publications(oid)


def _members(relation: RelationSchema, publications: Sequence[Publication], catalog: CatalogView) -> _Members:
    """Return the entries of a relation in publications; those that have it by its schema have none of it."""
    memberships = (
        (publication.oid, catalog.publication_member(relation.oid, publication.oid)) for publication in publications
    )
    return {oid: member for oid, member in memberships if member is not None}


def ancestor_relation(catalog: CatalogView, oid: int) -> RelationSchema:
    """Return the relation that a partition is published as.

    Raises:
        CatalogError: it does not exist.
    """
    relation = catalog.relation(oid)
    if relation is None:
        raise CatalogError(f"relation with OID {oid} does not exist, expected a partition ancestor")
    return relation


def _filters(
    relation: RelationSchema, publications: Sequence[Publication], members: _Members, catalog: CatalogView
) -> RowFilters | None:
    """Return the row filters, by kind of change (pgoutput_row_filter_init)."""
    filters = []
    for publication in publications:
        whole = publication.all_tables or _has_schema(publication, relation.namespace_oid, catalog)
        tree = None if whole or publication.oid not in members else members[publication.oid].filter
        filters.append((_actions(publication), tree))
    return joined_filters(filters, relation, catalog)


def joined_filters(
    filters: Iterable[tuple[int, str | None]], relation: RelationSchema, catalog: CatalogView
) -> RowFilters | None:
    """Join the row filters of several publications.

    One without a filter overrides those with one, of the actions it publishes.

    Args:
        filters: by each, WANT bits of its actions, and its filter's tree, None without one.
        relation: what they publish; catalog: the view.
    """
    kinds = WANT_INSERT, WANT_UPDATE, WANT_DELETE
    trees: dict[int, list[str]] = {kind: [] for kind in kinds}
    open_for = 0
    for actions, tree in filters:
        if tree is None:
            open_for |= actions
            continue
        for kind in kinds:
            if actions & kind:
                trees[kind].append(tree)
    insert, update, delete = (() if open_for & kind else tuple(trees[kind]) for kind in kinds)
    if not insert and not update and not delete:
        return None
    return RowFilters(insert, update, delete, relation.columns, catalog.locale())


def _listed(publication: Publication, members: _Members) -> frozenset[int] | None:
    """Return the publication's column list for the relation with these memberships, None if it has none."""
    if publication.all_tables or publication.oid not in members:
        return None
    columns = members[publication.oid].columns
    return None if columns is None else frozenset(columns)


def _with_generated(
    relation: RelationSchema, publications: Sequence[Publication], lists: Sequence[frozenset[int] | None]
) -> bool:
    """Tell whether stored generated columns are published without a column list (check_and_init_gencol, 18)."""
    if not any(column.generated for column in relation.columns):
        return False
    unlisted = (member for member, columns in zip(publications, lists, strict=True) if columns is None)
    choices = {publication.generated for publication in unlisted}
    if len(choices) > 1:
        raise PluginError(
            f"cannot use different values of publish_generated_columns for table "
            f'"{relation.namespace}.{relation.name}" in different publications',
            sqlstate=FEATURE_NOT_SUPPORTED,
        )
    return choices == {"s"}


def _column_list(
    relation: RelationSchema, lists: Sequence[frozenset[int] | None], with_generated: bool, major: int
) -> frozenset[int] | None:
    """Return the one column list that all publications agree on (pgoutput_column_list_init)."""
    if VERSIONS[major].publishes_generated_columns:
        if all(columns is None for columns in lists):
            return None
        everything = Published(0, relation, None, with_generated)
        all_columns = frozenset(column.number for column in relation.columns if everything.publishes(column))
        lists = [all_columns if columns is None else columns for columns in lists]
    else:
        full = _column_count(relation, major)
        lists = [None if columns is None or len(columns) == full else columns for columns in lists]
    if any(columns != lists[0] for columns in lists):
        raise PluginError(
            f'cannot use different column lists for table "{relation.namespace}.{relation.name}" '
            f"in different publications",
            sqlstate=FEATURE_NOT_SUPPORTED,
        )
    return lists[0] if lists else None


def _column_count(relation: RelationSchema, major: int) -> int:
    """Return the number of columns that a list must have to mean all of them."""
    if not VERSIONS[major].counts_live_columns:
        return len(relation.columns)
    return sum(1 for column in relation.columns if not column.is_dropped and not column.generated)
