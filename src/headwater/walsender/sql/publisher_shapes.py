"""The queries that stock subscribers of 14 to 19 send to a publisher, as shapes, and a few that other clients send.

Which of them a subscriber sends goes by its own major and by the server's; a shape says which servers know it.

PostgreSQL: commands/subscriptioncmds.c (check_publications, check_publications_origin, fetch_table_list,
fetch_relation_list), replication/logical/tablesync.c (fetch_remote_table_info), libpqwalreceiver.c
(ALWAYS_SECURE_SEARCH_PATH_SQL). The values of sequences (19): :mod:`headwater.walsender.sql.sequence_answers`.
"""

from __future__ import annotations

from enum import Enum, auto

from headwater.pg.version import Version
from headwater.walsender.sql.shapes import Shape


class Query(Enum):
    """The questions that queries ask."""

    SET_SEARCH_PATH = auto()
    IS_IN_RECOVERY = auto()
    SERVER_VERSION = auto()
    CURRENT_DATABASE = auto()
    CONSTANT = auto()
    HAS_ALL_TABLES = auto()
    PUBLICATIONS = auto()
    TABLES = auto()
    TABLES_OF_ONE = auto()
    TABLES_WITH_KIND = auto()
    TABLES_WITH_COLUMNS = auto()
    TABLES_WITH_KIND_AND_COLUMNS = auto()
    GATHERED_TABLES = auto()
    GATHERED_TABLES_WITH_KIND = auto()
    TABLES_AND_SEQUENCES = auto()
    TABLES_OF_SUBSCRIPTIONS = auto()
    RELATION = auto()
    COLUMN_LISTS = auto()
    COLUMN_LISTS_OF_ONE_CALL = auto()
    COLUMNS_14 = auto()
    COLUMNS_14_NOT_GENERATED = auto()
    COLUMNS_NOT_GENERATED = auto()
    COLUMNS = auto()
    COLUMNS_WITH_GENERATED = auto()
    ROW_FILTERS = auto()
    ROW_FILTERS_OF_ONE_CALL = auto()


def _has_columns(version: Version) -> bool:
    return version.publishes_columns


def _gathers(version: Version) -> bool:
    return version.gathers_publications


def _has_sequences(version: Version) -> bool:
    return version.publishes_sequences


_VIEW = "FROM pg_catalog.pg_publication_tables t WHERE t.pubname IN ({texts names})"
_TABLES = "SELECT DISTINCT t.schemaname, t.tablename"
_KIND = """'r'::"char" AS relkind"""
_GATHERED = """
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN (SELECT (pg_get_publication_tables(VARIADIC array_agg(pubname::text))).*
    FROM pg_publication WHERE pubname IN ({texts names})) AS gpt ON gpt.relid = c.oid
"""
_GATHERED_KINDS = f"SELECT DISTINCT n.nspname, c.relname, c.relkind, gpt.attrs {_GATHERED}"
_SEQUENCES = """
    UNION ALL SELECT DISTINCT s.schemaname, s.sequencename, 'S'::"char" AS relkind, NULL::int2vector AS attrs
    FROM pg_catalog.pg_publication_sequences s WHERE s.pubname IN ({texts of_sequences})
"""
_ORIGINS = """
    SELECT DISTINCT P.pubname AS pubname FROM pg_publication P,
    LATERAL %s(P.pubname) %s JOIN pg_subscription_rel PS ON (%s),
    pg_class C JOIN pg_namespace N ON (N.oid = C.relnamespace)
    WHERE C.oid = %s.relid AND P.pubname IN ({texts names}) {leftouts tables}
"""
_SAME = ".relid = PS.srrelid"
_OR_RELATED = f"""{_SAME}
    OR GPT.relid IN (SELECT relid FROM pg_partition_ancestors(PS.srrelid)
    UNION SELECT relid FROM pg_partition_tree(PS.srrelid))
"""
_ORIGIN_SHAPES = (
    Shape(Query.TABLES_OF_SUBSCRIPTIONS, _ORIGINS % ("pg_get_publication_tables", "GPT", f"GPT{_OR_RELATED}", "GPT")),
    # Of minor releases from before February 2025.
    Shape(Query.TABLES_OF_SUBSCRIPTIONS, _ORIGINS % ("pg_get_publication_tables", "GPT", f"GPT{_SAME}", "GPT")),
    Shape(
        Query.TABLES_OF_SUBSCRIPTIONS,
        _ORIGINS % ("pg_get_publication_sequences", "GPS", f"GPS{_SAME}", "GPS"),
        _has_sequences,
    ),
)
_EACH = "FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt"
_ONE_CALL = "FROM pg_get_publication_tables(ARRAY[{texts names}], {number oid}) gpt"
_LIST = """
    SELECT DISTINCT (CASE WHEN (array_length(gpt.attrs, 1) = c.relnatts) THEN NULL ELSE gpt.attrs END)
"""
_FILTER = "SELECT DISTINCT pg_get_expr(gpt.qual, gpt.relid)"


def _columns(query: Query, has_number: bool, has_generated: bool, condition: str) -> Shape[Query]:
    """Return the shape of a query for a table's columns."""
    number = "a.attnum, " if has_number else ""
    generated = ", a.attgenerated != ''" if has_generated else ""
    return Shape(
        query,
        f"""
        SELECT {number}a.attname, a.atttypid, a.attnum = ANY(i.indkey){generated}
        FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_index i
        ON (i.indexrelid = pg_get_replica_identity_index({{number oid}}))
        WHERE a.attnum > 0::pg_catalog.int2 AND NOT a.attisdropped {condition}
        AND a.attrelid = {{number relation}} ORDER BY a.attnum
        """,
    )


_NOT_GENERATED = "AND a.attgenerated = ''"

SHAPES: tuple[Shape[Query], ...] = (
    Shape(Query.SET_SEARCH_PATH, "SELECT pg_catalog.set_config('search_path', '', false)"),
    Shape(Query.IS_IN_RECOVERY, "SELECT pg_is_in_recovery()"),
    Shape(Query.IS_IN_RECOVERY, "SELECT pg_catalog.pg_is_in_recovery()"),
    Shape(Query.SERVER_VERSION, "SELECT version()"),
    Shape(Query.SERVER_VERSION, "SELECT pg_catalog.version()"),
    Shape(Query.CURRENT_DATABASE, "SELECT current_database()"),
    Shape(Query.CURRENT_DATABASE, "SELECT pg_catalog.current_database()"),
    Shape(Query.CONSTANT, "SELECT 1"),
    Shape(Query.HAS_ALL_TABLES, "SELECT puballtables FROM pg_publication WHERE pubname = {text name}"),
    Shape(
        Query.TABLES_OF_ONE,
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = {text name}",
    ),
    Shape(Query.PUBLICATIONS, "SELECT t.pubname FROM pg_catalog.pg_publication t WHERE t.pubname IN ({texts names})"),
    Shape(Query.TABLES, f"{_TABLES} {_VIEW}"),
    Shape(Query.TABLES_WITH_KIND, f"{_TABLES}, {_KIND} {_VIEW}"),
    Shape(Query.TABLES_WITH_COLUMNS, f"{_TABLES}, t.attnames {_VIEW}", _has_columns),
    Shape(Query.TABLES_WITH_KIND_AND_COLUMNS, f"{_TABLES}, {_KIND}, t.attnames {_VIEW}", _has_columns),
    Shape(Query.GATHERED_TABLES, f"SELECT DISTINCT n.nspname, c.relname, gpt.attrs {_GATHERED}", _gathers),
    Shape(Query.GATHERED_TABLES_WITH_KIND, _GATHERED_KINDS, _gathers),
    Shape(Query.TABLES_AND_SEQUENCES, _GATHERED_KINDS + _SEQUENCES, _has_sequences),
    *_ORIGIN_SHAPES,
    Shape(
        Query.RELATION,
        """
        SELECT c.oid, c.relreplident, c.relkind FROM pg_catalog.pg_class c
        INNER JOIN pg_catalog.pg_namespace n ON (c.relnamespace = n.oid)
        WHERE n.nspname = {text schema} AND c.relname = {text table}
        """,
    ),
    Shape(
        Query.COLUMN_LISTS,
        f"{_LIST} {_EACH}, pg_class c WHERE gpt.relid = {{number oid}} AND c.oid = gpt.relid"
        " AND p.pubname IN ({texts names})",
        _has_columns,
    ),
    Shape(
        Query.COLUMN_LISTS_OF_ONE_CALL,
        f"{_LIST} {_ONE_CALL}, pg_class c WHERE c.oid = gpt.relid",
        _has_sequences,
    ),
    _columns(Query.COLUMNS_14, False, False, ""),
    _columns(Query.COLUMNS_14_NOT_GENERATED, False, False, _NOT_GENERATED),
    _columns(Query.COLUMNS, True, False, ""),
    _columns(Query.COLUMNS_NOT_GENERATED, True, False, _NOT_GENERATED),
    _columns(Query.COLUMNS_WITH_GENERATED, True, True, ""),
    Shape(
        Query.ROW_FILTERS,
        f"{_FILTER} {_EACH} WHERE gpt.relid = {{number oid}} AND p.pubname IN ({{texts names}})",
        _has_columns,
    ),
    Shape(Query.ROW_FILTERS_OF_ONE_CALL, f"{_FILTER} {_ONE_CALL}", _has_sequences),
)
"""The shapes; no text has two of them."""
