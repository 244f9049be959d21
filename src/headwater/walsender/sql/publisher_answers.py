"""Answers to the queries of stock subscribers, from the catalog as of an LSN: no server is asked.

In: the text of a query. Out: the result that the announced server would give, in an order of our own where SQL leaves
the order open; None for a query of no known shape.

PostgreSQL: catalog/pg_publication.c, system_views.sql (pg_publication_tables), utils/adt/ruleutils.c (pg_get_expr).

Known gaps:

- Tables that the publisher itself subscribes to (``pg_subscription_rel``) are not followed. The check for data of other
  origins (``origin = none``) gets no rows, as from a publisher without subscriptions. So whoever has a server of the
  catalogs asks that (:meth:`PublisherAnswers.is_of_subscriptions`).
- Row filters that :mod:`headwater.definitions.expressions` cannot print are refused: those with XML's own syntax.
- ``version()`` tells the server's version, not how it was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headwater.catalog.relation import Column as TableColumn
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.definitions.expressions import Deparser, parse_one
from headwater.definitions.reading import DefinitionSource
from headwater.errors import HeadwaterError, SessionError, UnsupportedDefinitionError
from headwater.pg.identifiers import cut_name
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED
from headwater.pg.version import Version
from headwater.protocol.backend_messages import Column
from headwater.rows.session import SessionSettings
from headwater.walsender.sql.published_tables import (
    PublishedTable,
    existing_publications,
    published_sequences,
    published_tables,
    table_in_each,
    tables_of_each,
)
from headwater.walsender.sql.publisher_shapes import SHAPES, Query
from headwater.walsender.sql.results import (
    Result,
    Row,
    bool_column,
    bool_value,
    char_column,
    distinct,
    int2_column,
    int2vector_column,
    int4_column,
    name_array_column,
    name_array_value,
    name_column,
    number_value,
    oid_column,
    selected,
    text_column,
    text_value,
    vector_value,
)
from headwater.walsender.sql.shapes import Match, first_match
from headwater.walsender.sql.tokens import tokens_of

_UNNAMED = "?column?"


@dataclass(frozen=True)
class PublisherAnswers:
    """The queries of subscribers, answered.

    Attributes:
        catalog: the catalog at the LSN that the session is at.
        version: the version that was announced to the client, of the catalog's major.
        database: the name of the database.
        settings: how the session prints the constants of row filters; None for the defaults.
    """

    catalog: HistoricCatalog
    version: Version
    database: str
    settings: SessionSettings | None = None

    @staticmethod
    def knows(text: str, version: Version) -> bool:
        """Tell whether a query has a shape that is known."""
        tokens = tokens_of(text)
        return tokens is not None and first_match(SHAPES, tokens, version) is not None

    @staticmethod
    def is_of_subscriptions(text: str, version: Version) -> bool:
        """Tell whether a query asks which tables the publisher itself subscribes to."""
        tokens = tokens_of(text)
        query = None if tokens is None else first_match(SHAPES, tokens, version)
        return query is not None and query[0] is Query.TABLES_OF_SUBSCRIPTIONS

    def answer(self, text: str) -> Result | None:
        """Answer a query; None if it has no known shape.

        Raises:
            SessionError: the shape is known, but what is asked cannot be told exactly.
            CatalogError: the catalog is inconsistent.
        """
        tokens = tokens_of(text)
        query = None if tokens is None else first_match(SHAPES, tokens, self.version)
        return None if query is None else _ANSWERS[query[0]](self, query[1])

    def set_search_path(self, _: Match) -> Result:
        rows = ((b"",),)
        return Result((text_column("set_config"),), rows, "SELECT 1", (("search_path", ""),))

    def is_in_recovery(self, _: Match) -> Result:
        return selected([bool_column("pg_is_in_recovery")], [(bool_value(False),)])

    def server_version(self, _: Match) -> Result:
        return selected([text_column("version")], [(text_value(f"PostgreSQL {self.version} (Headwater)"),)])

    def current_database(self, _: Match) -> Result:
        return selected([name_column("current_database")], [(text_value(self.database),)])

    def constant(self, _: Match) -> Result:
        return selected([int4_column(_UNNAMED)], [(number_value(1),)])

    def has_all_tables(self, match: Match) -> Result:
        publications = existing_publications([cut_name(match.text("name"))], self.catalog)
        rows = [(bool_value(publication.all_tables),) for publication in publications]
        return selected(self._placed("pg_publication", bool_column("puballtables")), rows)

    def publications(self, match: Match) -> Result:
        publications = existing_publications(map(cut_name, match.texts("names")), self.catalog)
        columns = self._placed("pg_publication", name_column("pubname"))
        return selected(columns, [(text_value(publication.name),) for publication in publications])

    def tables(self, match: Match, *, slot: str = "names", has_kind: bool = False, has_names: bool = False) -> Result:
        """Answer from the view pg_publication_tables."""
        view = "pg_publication_tables"
        columns = self._placed(view, name_column("schemaname"), name_column("tablename"))
        columns += [char_column("relkind")] if has_kind else []
        columns += self._placed(view, name_array_column("attnames")) if has_names else []
        publications = existing_publications(map(cut_name, match.texts(slot)), self.catalog)
        rows = []
        for table in tables_of_each(publications, self.catalog):
            kind = [b"r"] if has_kind else []
            names = [name_array_value(table.column_names(self.version))] if has_names else []
            rows.append((*_name_of(table), *kind, *names))
        return selected(columns, distinct(rows))

    def gathered_tables(self, match: Match, *, has_kind: bool = False, has_sequences: bool = False) -> Result:
        """Answer from one call of pg_get_publication_tables with all publications."""
        kinds = [char_column("relkind")] if has_kind else []
        schema, names = [name_column("nspname")], [name_column("relname"), *kinds]
        if not has_sequences:  # a column of a UNION is of no table
            schema, names = self._placed("pg_namespace", *schema), self._placed("pg_class", *names)
        columns = [*schema, *names, int2vector_column("attrs")]
        publications = existing_publications(map(cut_name, match.texts("names")), self.catalog)
        rows = []
        for table in published_tables(publications, self.catalog):
            kind = [text_value(table.relation.kind)] if has_kind else []
            rows.append((*_name_of(table), *kind, vector_value(table.columns(self.version))))
        return selected(columns, [*distinct(rows), *(self._sequences(match) if has_sequences else [])])

    def _sequences(self, match: Match) -> list[Row]:
        publications = existing_publications(map(cut_name, match.texts("of_sequences")), self.catalog)
        sequences = published_sequences(publications, self.catalog)
        return distinct((text_value(row.namespace), text_value(row.name), b"S", None) for row in sequences)

    def tables_of_subscriptions(self, _: Match) -> Result:
        return selected(self._placed("pg_publication", name_column("pubname")), [])

    def relation(self, match: Match) -> Result:
        schema, name = (cut_name(match.text(slot)) for slot in ("schema", "table"))
        oid = self.catalog.relation_named(schema, name)
        classes = [] if oid is None else self.catalog.class_rows(oid)
        rows = [(number_value(row.oid), text_value(row.replica_identity), text_value(row.kind)) for row in classes]
        columns = oid_column("oid"), char_column("relreplident"), char_column("relkind")
        return selected(self._placed("pg_class", *columns), rows)

    def column_lists(self, match: Match, *, in_one_call: bool = False) -> Result:
        rows: list[Row] = []
        for table in self._of_table(match, in_one_call):
            numbers = table.columns(self.version)
            is_whole = numbers is not None and len(numbers) == len(table.relation.columns)
            rows.append((vector_value(None if is_whole else numbers),))
        return selected([int2vector_column("attrs")], distinct(rows))

    def _of_table(self, match: Match, in_one_call: bool) -> list[PublishedTable]:
        """Return a table as its publications have it."""
        names = match.texts("names") if in_one_call else map(cut_name, match.texts("names"))
        tables = table_in_each(match.number("oid"), existing_publications(names, self.catalog), self.catalog)
        return [table for table in tables if table.relation.persistence == "p" or not in_one_call]

    def columns(
        self, match: Match, *, has_number: bool = True, tells_generated: bool = False, with_generated: bool = False
    ) -> Result:
        """Answer which columns a table has, and which of them are in its replica identity index."""
        numbers = [int2_column("attnum")] if has_number else []
        generated = [bool_column(_UNNAMED)] if tells_generated else []
        named = self._placed("pg_attribute", *numbers, name_column("attname"), oid_column("atttypid"))
        columns = [*named, bool_column(_UNNAMED), *generated]
        relation = self.catalog.relation(match.number("relation"))
        identity = self.catalog.identity_index_columns(match.number("oid"))
        rows: list[Row] = []
        for column in () if relation is None else relation.columns:
            if column.is_dropped or (column.generated and not with_generated):
                continue
            row = _column_row(column, identity)
            flags = [bool_value(bool(column.generated))] if tells_generated else []
            rows.append((*row[0 if has_number else 1 :], *flags))
        return selected(columns, rows)

    def _placed(self, name: str, *columns: Column) -> list[Column]:
        """Return columns with their places in a catalog, or a view, that they are columns of."""
        oid = self.catalog.relation_named("pg_catalog", name)
        relation = None if oid is None else self.catalog.relation(oid)
        if oid is None or relation is None:
            return list(columns)
        numbers = {column.name: column.number for column in relation.columns}
        return [replace(column, table=oid, number=numbers[column.name]) for column in columns]

    def row_filters(self, match: Match, *, in_one_call: bool = False) -> Result:
        tables = self._of_table(match, in_one_call)
        rows = [(text_value(filter_text(table, self.catalog, self.settings)),) for table in tables]
        return selected([text_column("pg_get_expr")], distinct(rows))


def filter_text(table: PublishedTable, catalog: HistoricCatalog, settings: SessionSettings | None = None) -> str | None:
    """Print a row filter as pg_get_expr does; None without one.

    Args:
        table: in a publication; catalog: that has it.
        settings: that constants are printed under; None for the defaults.

    Raises:
        SessionError: it cannot be printed exactly.
    """
    tree = table.member.filter
    if tree is None:
        return None
    try:
        if not tree:
            raise UnsupportedDefinitionError("a long row filter is stored where it cannot be read")
        return _deparser(table.relation.oid, catalog, settings).printed(parse_one(tree))
    except UnsupportedDefinitionError as error:
        raise _unprintable(table, error) from None


def _deparser(relation: int, catalog: HistoricCatalog, settings: SessionSettings | None) -> Deparser:
    source = DefinitionSource(catalog)
    if settings is not None:
        source.naming.session = settings
    return source.deparser(relation)


def _unprintable(table: PublishedTable, error: HeadwaterError) -> SessionError:
    name = f'"{table.relation.namespace}.{table.relation.name}"'
    return SessionError(
        f'the row filter of table {name} in publication "{table.publication.name}" cannot be printed',
        sqlstate=FEATURE_NOT_SUPPORTED,
        detail=error.message,
        hint="create the subscription with copy_data = false, or write the filter in another way",
    )


def _name_of(table: PublishedTable) -> Row:
    return text_value(table.relation.namespace), text_value(table.relation.name)


def _column_row(column: TableColumn, identity: Sequence[int] | None) -> Row:
    """Return a column's number, name, type, and whether it is in the replica identity index: NULL without that."""
    type_oid = 0 if column.type is None else column.type.oid
    is_key = None if identity is None else column.number in identity
    return number_value(column.number), text_value(column.name), number_value(type_oid), bool_value(is_key)


_ANSWERS: dict[Query, Callable[[PublisherAnswers, Match], Result]] = {
    Query.SET_SEARCH_PATH: PublisherAnswers.set_search_path,
    Query.IS_IN_RECOVERY: PublisherAnswers.is_in_recovery,
    Query.SERVER_VERSION: PublisherAnswers.server_version,
    Query.CURRENT_DATABASE: PublisherAnswers.current_database,
    Query.CONSTANT: PublisherAnswers.constant,
    Query.HAS_ALL_TABLES: PublisherAnswers.has_all_tables,
    Query.PUBLICATIONS: PublisherAnswers.publications,
    Query.TABLES: PublisherAnswers.tables,
    Query.TABLES_OF_ONE: partial(PublisherAnswers.tables, slot="name"),
    Query.TABLES_WITH_KIND: partial(PublisherAnswers.tables, has_kind=True),
    Query.TABLES_WITH_COLUMNS: partial(PublisherAnswers.tables, has_names=True),
    Query.TABLES_WITH_KIND_AND_COLUMNS: partial(PublisherAnswers.tables, has_kind=True, has_names=True),
    Query.GATHERED_TABLES: PublisherAnswers.gathered_tables,
    Query.GATHERED_TABLES_WITH_KIND: partial(PublisherAnswers.gathered_tables, has_kind=True),
    Query.TABLES_AND_SEQUENCES: partial(PublisherAnswers.gathered_tables, has_kind=True, has_sequences=True),
    Query.TABLES_OF_SUBSCRIPTIONS: PublisherAnswers.tables_of_subscriptions,
    Query.RELATION: PublisherAnswers.relation,
    Query.COLUMN_LISTS: PublisherAnswers.column_lists,
    Query.COLUMN_LISTS_OF_ONE_CALL: partial(PublisherAnswers.column_lists, in_one_call=True),
    Query.COLUMNS_14: partial(PublisherAnswers.columns, has_number=False, with_generated=True),
    Query.COLUMNS_14_NOT_GENERATED: partial(PublisherAnswers.columns, has_number=False),
    Query.COLUMNS: partial(PublisherAnswers.columns, with_generated=True),
    Query.COLUMNS_NOT_GENERATED: PublisherAnswers.columns,
    Query.COLUMNS_WITH_GENERATED: partial(PublisherAnswers.columns, tells_generated=True, with_generated=True),
    Query.ROW_FILTERS: PublisherAnswers.row_filters,
    Query.ROW_FILTERS_OF_ONE_CALL: partial(PublisherAnswers.row_filters, in_one_call=True),
}
