"""The condition of a subscriber's COPY: row filters of the publications that have the table, found by their text.

Subscribers join with OR what they were told of row filters (pg_get_expr). So the stored tree of each part is known, and
no SQL is parsed. A condition that is made of anything else is refused.

PostgreSQL: replication/logical/tablesync.c (copy_table).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from headwater.catalog.relation import RelationSchema, RowFilters
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import HeadwaterError, SessionError
from headwater.filters.changes import compiled
from headwater.rows.session import SessionSettings
from headwater.walsender.copying.refusals import not_without_server
from headwater.walsender.sql.published_tables import PublishedTable, existing_publications, table_in_each
from headwater.walsender.sql.publisher_answers import filter_text

_OR = " OR "


def row_filters(view: HistoricCatalog, relation: RelationSchema, where: str, session: SessionSettings) -> RowFilters:
    """Return the filters that a condition is made of.

    Args:
        view: the catalog.
        relation: the table that is copied.
        where: the condition.
        session: that the texts were told in.

    Raises:
        SessionError: it is made of something else, or cannot be computed exactly here.
    """
    trees = condition_trees(view, relation, where, session)
    filters = RowFilters(trees, (), (), relation.columns, view.locale())
    try:
        compiled(filters, session.version, view.encoding)
    except HeadwaterError as error:
        raise not_without_server("a row filter cannot be computed here", error.message) from None
    return filters


def condition_trees(
    view: HistoricCatalog, relation: RelationSchema, where: str, session: SessionSettings
) -> tuple[str, ...]:
    """Return the stored trees of the row filters that a condition is made of.

    Args:
        view: the catalog; relation: the table; where: the condition; session: that the texts were told in.

    Raises:
        SessionError: it is made of something else.
    """
    publications = existing_publications(view.publication_names(), view)
    texts = _texts(table_in_each(relation.oid, publications, view), view, session)
    parts = split_condition(where, texts)
    if parts is None:
        name = f'"{relation.namespace}.{relation.name}"'
        raise not_without_server(f"the condition is not of row filters of table {name}: {where[:200]}")
    return tuple(texts[part] for part in parts)


def _texts(tables: Iterable[PublishedTable], view: HistoricCatalog, session: SessionSettings) -> dict[str, str]:
    """Map the text of each filter to its tree; those that cannot be printed no subscriber was told."""
    trees: dict[str, str] = {}
    for table in tables:
        try:
            text = filter_text(table, view, session)
        except SessionError:
            continue
        if text is not None and table.member.filter:
            trees[text] = table.member.filter
    return trees


def split_condition(where: str, texts: Mapping[str, str]) -> tuple[str, ...] | None:
    """Split a condition into known texts with OR between them; None if it is not made of these alone.

    However it is split, it means the same: the texts are whole expressions, and nothing binds weaker than OR.
    """

    @cache
    def rest(at: int) -> tuple[str, ...] | None:
        for text in texts:
            if not where.startswith(text, at):
                continue
            end = at + len(text)
            if end == len(where):
                return (text,)
            more = rest(end + len(_OR)) if where.startswith(_OR, end) else None
            if more is not None:
                return text, *more
        return None

    return rest(0)
