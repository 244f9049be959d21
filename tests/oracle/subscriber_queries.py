"""The queries of stock subscribers, word by word and blank by blank as each major sends them to a server of a major.

PostgreSQL: commands/subscriptioncmds.c (check_publications, check_publications_origin and its two successors in 19,
fetch_table_list, fetch_relation_list), replication/logical/tablesync.c (fetch_remote_table_info) of REL_14_STABLE to
REL_19_STABLE.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

CLIENTS = (14, 15, 16, 17, 18, 19)

NOTHING = "''"

SEARCH_PATH = "SELECT pg_catalog.set_config('search_path', '', false);"

_PARTITIONS_TOO = (
    " OR     GPT.relid IN (SELECT relid FROM pg_partition_ancestors(PS.srrelid) UNION"
    "                   SELECT relid FROM pg_partition_tree(PS.srrelid))"
)


def quote_literal(text: str) -> str:
    """Write a string constant (quote_literal_cstr)."""
    prefix = "E" if "\\" in text else ""
    return prefix + "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote_literal, names))


def subscription_queries(client: int, server: int, names: Sequence[str]) -> Iterator[str]:
    """Give the queries of CREATE SUBSCRIPTION and ALTER SUBSCRIPTION ... REFRESH PUBLICATION."""
    listed = _listed(names)
    if client >= 15:
        yield f"SELECT t.pubname FROM\n pg_catalog.pg_publication t WHERE\n t.pubname IN ({listed})"
    yield table_list(client, server, listed)
    if client >= 16:
        yield from origin_checks(client, server, listed)


def table_list(client: int, server: int, listed: str) -> str:
    """Return the query for the tables of publications."""
    if client == 14:
        return (
            "SELECT DISTINCT t.schemaname, t.tablename\n"
            "  FROM pg_catalog.pg_publication_tables t\n"
            f" WHERE t.pubname IN ({listed})"
        )
    kind = ", 'r'::\"char\" AS relkind" if client == 19 else ""
    if client == 15 or server < 16:
        names = ", t.attnames\n" if server >= 15 else ""
        ending = f" WHERE t.pubname IN ( {listed} )" if client >= 18 else f" WHERE t.pubname IN ({listed})"
        return (
            f"SELECT DISTINCT t.schemaname, t.tablename{kind} \n{names}"
            f"FROM pg_catalog.pg_publication_tables t\n{ending}"
        )
    first = "   FROM pg_class c\n" if client == 19 else "       FROM pg_class c\n"
    query = (
        f"SELECT DISTINCT n.nspname, c.relname, {'c.relkind, ' if client == 19 else ''}gpt.attrs\n{first}"
        "         JOIN pg_namespace n ON n.oid = c.relnamespace\n"
        "         JOIN ( SELECT (pg_get_publication_tables(VARIADIC array_agg(pubname::text))).*\n"
        "                FROM pg_publication\n"
        f"                WHERE pubname IN ( {listed} )) AS gpt\n"
        "             ON gpt.relid = c.oid\n"
    )
    if client == 19 and server >= 19:
        query += (
            "UNION ALL\n"
            "  SELECT DISTINCT s.schemaname, s.sequencename, 'S'::\"char\" AS relkind, NULL::int2vector AS attrs\n"
            "  FROM pg_catalog.pg_publication_sequences s\n"
            f"  WHERE s.pubname IN ( {listed} )"
        )
    return query


def origin_checks(client: int, server: int, listed: str) -> Iterator[str]:
    """Give the queries for tables that the publisher subscribes to, with tables that are left out and without."""
    left_out = "AND NOT (N.nspname = 'public' AND C.relname = 't''s')\nAND NOT (N.nspname = 'a' AND C.relname = 'b')\n"
    functions = [("tables", "GPT", f"GPT.relid = PS.srrelid{_PARTITIONS_TOO}")]
    if client < 18:
        functions.append(("tables", "GPT", "GPT.relid = PS.srrelid"))
    if client >= 19 and server >= 19:
        functions.append(("sequences", "GPS", "GPS.relid = PS.srrelid"))
    for kind, alias, condition in functions:
        for ending in ("", left_out):
            yield (
                "SELECT DISTINCT P.pubname AS pubname\n"
                "FROM pg_publication P,\n"
                f"     LATERAL pg_get_publication_{kind}(P.pubname) {alias}\n"
                f"     JOIN pg_subscription_rel PS ON ({condition}),\n"
                "     pg_class C JOIN pg_namespace N ON (N.oid = C.relnamespace)\n"
                f"WHERE C.oid = {alias}.relid AND P.pubname IN ({listed})\n{ending}"
            )


def relation_query(schema: str, table: str) -> str:
    """Return the query for what a table is, the same in all majors."""
    return (
        "SELECT c.oid, c.relreplident, c.relkind  FROM pg_catalog.pg_class c  INNER JOIN pg_catalog.pg_namespace n"
        "        ON (c.relnamespace = n.oid)"
        f" WHERE n.nspname = {quote_literal(schema)}   AND c.relname = {quote_literal(table)}"
    )


def table_queries(client: int, server: int, oid: int, names: Sequence[str]) -> Iterator[str]:
    """Give the queries for a table's column list, columns and row filters (fetch_remote_table_info)."""
    listed = _listed(names)
    yield columns_query(client, server, oid)
    if client < 15 or server < 15:
        return
    lists = "SELECT DISTINCT  (CASE WHEN (array_length(gpt.attrs, 1) = c.relnatts)   THEN NULL ELSE gpt.attrs END)"
    filters = "SELECT DISTINCT pg_get_expr(gpt.qual, gpt.relid)"
    if client >= 19 and server >= 19:
        one_call = f"  FROM pg_get_publication_tables(ARRAY[{listed}], {oid}) gpt"
        yield f"{lists}{one_call},  pg_class c WHERE c.oid = gpt.relid"
        yield f"{filters}{one_call}"
        return
    each = "  FROM pg_publication p,  LATERAL pg_get_publication_tables(p.pubname) gpt"
    yield (f"{lists}{each},  pg_class c WHERE gpt.relid = {oid} AND c.oid = gpt.relid   AND p.pubname IN ( {listed} )")
    yield f"{filters}{each} WHERE gpt.relid = {oid}   AND p.pubname IN ( {listed} )"


def columns_query(client: int, server: int, oid: int) -> str:
    """Return the query for a table's columns."""
    number = "a.attnum,       " if client >= 15 else ""
    is_limited = client < 18 or server < 18
    return (
        f"SELECT {number}a.attname,       a.atttypid,       a.attnum = ANY(i.indkey)"
        f"{'' if is_limited else ', a.attgenerated != ' + NOTHING}"
        "  FROM pg_catalog.pg_attribute a  LEFT JOIN pg_catalog.pg_index i"
        f"       ON (i.indexrelid = pg_get_replica_identity_index({oid}))"
        " WHERE a.attnum > 0::pg_catalog.int2   AND NOT a.attisdropped "
        f"{'AND a.attgenerated = ' + NOTHING if is_limited else ''}   AND a.attrelid = {oid} ORDER BY a.attnum"
    )


def sequence_query(names: Sequence[tuple[str, str]]) -> str:
    """Return the query of 19 for the values of sequences, by schemas and names (sequencesync.c, copy_sequences)."""
    rows = (f"({quote_literal(schema)}, {quote_literal(name)}, {i})" for i, (schema, name) in enumerate(names))
    return (
        "SELECT s.seqidx, has_sequence_privilege(c.oid, 'SELECT'),\n"
        "       ps.*, seq.seqtypid,\n"
        "       seq.seqstart, seq.seqincrement, seq.seqmin,\n"
        "       seq.seqmax, seq.seqcycle\n"
        f"FROM ( VALUES {', '.join(rows)} ) AS s (schname, seqname, seqidx)\n"
        "JOIN pg_namespace n ON n.nspname = s.schname\n"
        "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.seqname\n"
        "JOIN pg_sequence seq ON seq.seqrelid = c.oid\n"
        "JOIN LATERAL pg_get_sequence_data(seq.seqrelid) AS ps ON true\n"
    )
