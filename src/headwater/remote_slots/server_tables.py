"""A table of a server as publications have it now: its columns, for readers who want one table's own columns.

PostgreSQL: pg_class, pg_attribute, pg_publication_tables. Before 15 there are no lists of columns.
"""

from __future__ import annotations

from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import CatalogError, ConnectionLostError
from headwater.receiver.server_extra import load_psycopg
from headwater.remote_slots.server_types import ServerTypes
from headwater.remote_slots.slot_address import SlotAddress
from headwater.remote_slots.slot_connection import conninfo_of

_TABLE = """
SELECT c.oid::int8, c.relreplident::text FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname || '.' || c.relname = %s AND EXISTS (
    SELECT FROM pg_catalog.pg_publication_tables p
    WHERE p.schemaname = n.nspname AND p.tablename = c.relname AND p.pubname = ANY(%s))
"""
_COLUMNS = """
SELECT a.attname::text, a.atttypid::int8, a.atttypmod FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND {} ORDER BY a.attnum
"""
_OF_LISTS = """a.attname = ANY(ARRAY(SELECT pg_catalog.unnest(p.attnames) FROM pg_catalog.pg_publication_tables p
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE p.schemaname = n.nspname AND p.tablename = c.relname AND p.pubname = ANY(%s)))"""
_NOT_GENERATED = "a.attgenerated = '' AND %s::text[] IS NOT NULL"
_FIRST_WITH_LISTS = 150000


def published_table(address: SlotAddress, name: str) -> RelationSchema:
    """Return a table as it is published now; its columns are numbered from 1 on.

    Args:
        address: of the slot; name: ``schema.table``.

    Raises:
        CatalogError: there is none of that name in the publications.
        ConnectionLostError: the server cannot be asked.
    """
    psycopg = load_psycopg("a server's tables")
    conninfo, _ = conninfo_of(address)
    names = list(address.publications)
    try:
        with psycopg.connect(conninfo, autocommit=True) as session:
            row = session.execute(_TABLE, [name, names]).fetchone()
            if row is None:
                raise CatalogError(f'no table "{name}" is in the publications {", ".join(names)}')
            has_lists = session.info.server_version >= _FIRST_WITH_LISTS
            query = _COLUMNS.format(_OF_LISTS if has_lists else _NOT_GENERATED)
            columns = session.execute(query, [row[0], names]).fetchall()
    except psycopg.Error as error:
        message = " ".join((error.diag.message_primary or "the connection is lost").split())
        raise ConnectionLostError(f"the server cannot be asked for its tables: {message}") from None
    types = ServerTypes(conninfo).of([type_oid for _, type_oid, _ in columns])
    namespace, _, table = name.partition(".")
    made = tuple(
        Column(number, column, type, typmod, type.typlen, type.typalign, False)
        for number, ((column, _, typmod), type) in enumerate(zip(columns, types, strict=True), 1)
    )
    return RelationSchema(row[0], namespace, table, "r", "p", row[1], (), made)
