"""The tables of publications, and what of each is copied, as the publisher has them now.

The queries are those of stock subscribers, so whatever has them for clients can be asked. Row filters and column
lists are followed whichever the target's major is.

PostgreSQL: subscriptioncmds.c (fetch_table_list), tablesync.c (fetch_remote_table_info, copy_table); publishers of 14
to 19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.apply.mapped.mapped_rows import MappedRows, copied_places
from headwater.apply.mapped.table_maps import TableMap
from headwater.apply.progress.installation import SCHEMA
from headwater.apply.table_sync.wal_publisher import Publisher
from headwater.errors import ServerError
from headwater.pg.version import Version
from headwater.receiver.replication_connection import quoted
from headwater.remote_slots.announced_relations import SentColumn, SentRelation
from headwater.remote_slots.slot_connection import literal

_VIEW = "FROM pg_catalog.pg_publication_tables t WHERE t.pubname IN ({})"
_GATHERED = """
SELECT DISTINCT n.nspname, c.relname, gpt.attrs
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN (SELECT (pg_get_publication_tables(VARIADIC array_agg(pubname::text))).*
FROM pg_publication WHERE pubname IN ({})) AS gpt ON gpt.relid = c.oid
"""
_RELATION = """
SELECT c.oid, c.relreplident, c.relkind FROM pg_catalog.pg_class c
INNER JOIN pg_catalog.pg_namespace n ON (c.relnamespace = n.oid)
WHERE n.nspname = {} AND c.relname = {}
"""
_EACH = "FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt"
_LISTS = f"""
SELECT DISTINCT (CASE WHEN (array_length(gpt.attrs, 1) = c.relnatts) THEN NULL ELSE gpt.attrs END)
{_EACH}, pg_class c WHERE gpt.relid = {{oid}} AND c.oid = gpt.relid AND p.pubname IN ({{names}})
"""
_FILTERS = f"""
SELECT DISTINCT pg_get_expr(gpt.qual, gpt.relid) {_EACH} WHERE gpt.relid = {{oid}} AND p.pubname IN ({{names}})
"""
_COLUMNS = """
SELECT a.attnum, a.attname, a.atttypid, a.attnum = ANY(i.indkey){generated}
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_index i
ON (i.indexrelid = pg_get_replica_identity_index({oid}))
WHERE a.attnum > 0::pg_catalog.int2 AND NOT a.attisdropped {condition} AND a.attrelid = {oid} ORDER BY a.attnum
"""


@dataclass(frozen=True)
class SourceTable:
    """A table as it is copied.

    Attributes:
        sent: it, as the stream would announce it, but for the types' modifiers.
        kind: ``relkind``.
        filters: conditions of rows of which any has to hold; none for all rows.
        has_generated: a column that is generated is among those that are published.
        map: what becomes of it on the way, None for nothing.
    """

    sent: SentRelation
    kind: str
    filters: tuple[str, ...]
    has_generated: bool
    map: TableMap | None = None

    @property
    def target_table(self) -> str:
        """The target's name for it, for SQL."""
        return f"{quoted(self.into.namespace)}.{quoted(self.into.name)}"

    @property
    def rows_map(self) -> MappedRows | None:
        """What each of its rows goes through, None if they are copied as they are."""
        if self.map is None or not (self.map.masks or self.map.condition):
            return None
        return MappedRows(self.map, copied_places(self.map))

    @property
    def into(self) -> SentRelation:
        """It as the target's tables are to have it."""
        return self.sent if self.map is None else self.map.target

    @property
    def is_plain(self) -> bool:
        """Whether COPY of the table itself gives its rows."""
        return self.kind == "r" and not self.filters and not self.has_generated

    @property
    def table(self) -> str:
        """Its name for SQL."""
        return f"{quoted(self.sent.namespace)}.{quoted(self.sent.name)}"

    @property
    def columns(self) -> str:
        """Its columns that are copied out, for SQL."""
        columns = self.sent.columns
        if self.map is not None:
            columns = tuple(columns[place] for place in copied_places(self.map))
        return ", ".join(quoted(column.name) for column in columns)

    def copy_sql(self, binary: bool = False, condition: str = "") -> str:
        """Return the statement that copies its rows out.

        Args:
            binary: in binary form; condition: that rows have to meet, too.
        """
        form = " WITH (FORMAT binary)" if binary else ""
        if self.is_plain and not condition:
            listed = f" ({self.columns})" if self.columns else ""
            return f"COPY {self.table}{listed} TO STDOUT{form}"
        filters = " OR ".join(self.filters)
        wanted = f"({filters}) AND {condition}" if filters and condition else filters or condition
        where = f" WHERE {wanted}" if wanted else ""
        only = "ONLY " if self.kind == "r" else ""
        return f"COPY (SELECT {self.columns} FROM {only}{self.table}{where}) TO STDOUT{form}"

    def copy_in_sql(self, binary: bool = False) -> str:
        """Return the statement that copies its rows into the target's table."""
        form = " WITH (FORMAT binary)" if binary else ""
        columns = ", ".join(quoted(column.name) for column in self.into.columns)
        return f"COPY {self.target_table}{f' ({columns})' if columns else ''} FROM STDIN{form}"


def list_tables(source: Publisher, publications: Sequence[str]) -> list[tuple[str, str]]:
    """List the tables of publications, by schema and name, but for those of the schema ``headwater``.

    Raises:
        ServerError: the publisher refuses, or a table has different column lists.
        ConnectionLostError: the publisher is lost.
    """
    version, names = source.postgres, _names(publications)
    if version.gathers_publications:
        rows = source.rows(_GATHERED.format(names))
    else:
        lists = ", t.attnames" if version.publishes_columns else ""
        rows = source.rows(f"SELECT DISTINCT t.schemaname, t.tablename{lists} {_VIEW.format(names)}")
    # A publisher that applies changes itself has these tables, too: each server has its own.
    tables = [(str(row[0]), str(row[1])) for row in rows if row[0] != SCHEMA]
    for number, table in enumerate(tables):
        if table in tables[:number]:
            raise _different_lists(*table)
    return tables


def describe_table(source: Publisher, publications: Sequence[str], namespace: str, name: str) -> SourceTable:
    """Ask what of a table is copied.

    Raises:
        ServerError: there is none, or the publisher refuses.
        ConnectionLostError: the publisher is lost.
    """
    rows = source.rows(_RELATION.format(literal(namespace), literal(name)))
    if not rows:
        raise ServerError(f'table "{namespace}.{name}" not found on publisher', sqlstate="42704")
    oid, identity, kind = map(str, rows[0])
    version, names = source.postgres, _names(publications)
    listed = _listed(source, oid, names, (namespace, name)) if version.publishes_columns else None
    columns = [row for row in _columns(source, oid, version) if listed is None or int(str(row[0])) in listed]
    sent = tuple(SentColumn(str(row[1]), int(str(row[2])), -1, row[3] == "t") for row in columns)
    has_generated = any(row[4] == "t" for row in columns if len(row) > 4)
    filters = _filters(source, oid, names) if version.publishes_columns else ()
    return SourceTable(SentRelation(int(oid), namespace, name, identity, sent), kind, filters, has_generated)


def _columns(source: Publisher, oid: str, version: Version) -> list[tuple[str | None, ...]]:
    publishes_generated = version.publishes_generated_columns
    generated = ", a.attgenerated != ''" if publishes_generated else ""
    condition = "" if publishes_generated else "AND a.attgenerated = ''"
    return source.rows(_COLUMNS.format(oid=oid, generated=generated, condition=condition))


def _listed(source: Publisher, oid: str, names: str, table: tuple[str, str]) -> set[int] | None:
    """Return the numbers of the columns that are published, None for all."""
    rows = source.rows(_LISTS.format(oid=oid, names=names))
    if len(rows) > 1:
        raise _different_lists(*table)
    if not rows or rows[0][0] is None:
        return None
    return {int(number) for number in rows[0][0].split()}


def _filters(source: Publisher, oid: str, names: str) -> tuple[str, ...]:
    filters = [text for (text,) in source.rows(_FILTERS.format(oid=oid, names=names))]
    return tuple(str(text) for text in filters) if None not in filters else ()


def _different_lists(namespace: str, name: str) -> ServerError:
    text = f'cannot use different column lists for table "{namespace}.{name}" in different publications'
    return ServerError(text, sqlstate="0A000")


def _names(publications: Sequence[str]) -> str:
    return ", ".join(map(literal, publications))
