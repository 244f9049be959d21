"""Rows of tables, as a server's SELECT has them at a known position of its log.

:func:`snapshot_contents` reads under a snapshot that a slot's creation exports: it shows what committed before the
slot's consistent point and nothing else, while other sessions write. Values are the text that the type's output
function gives, under the same settings that Headwater prints by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from oracle.streams import parse_lsn

Row = dict[str, Any]

TABLES_QUERY = """
SELECT c.oid, n.nspname, c.relname, format('%I.%I', n.nspname, c.relname), c.relreplident::text, c.relfilenode,
       coalesce(i.indisprimary, false),
       (SELECT array_agg(a.attname::text ORDER BY k.place)
          FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place)
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN LATERAL (SELECT * FROM pg_index WHERE indrelid = c.oid AND (indisprimary OR indisreplident)
                      ORDER BY indisprimary DESC LIMIT 1) i ON true
 WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384
 ORDER BY 1
"""
COLUMNS_QUERY = """
WITH RECURSIVE base AS (
  SELECT oid AS type, oid AS found, typbasetype AS below, 0 AS depth FROM pg_type
  UNION ALL
  SELECT b.type, t.oid, t.typbasetype, b.depth + 1 FROM base b JOIN pg_type t ON t.oid = b.below
   WHERE b.below <> 0)
SELECT a.attrelid, a.attnum, a.attname::text, a.atttypid::bigint * 100000 + a.atttypmod,
       CASE WHEN b.depth = 0 THEN format_type(b.found, a.atttypmod) ELSE format_type(b.found, NULL) END
  FROM pg_attribute a JOIN base b ON b.type = a.atttypid AND b.below = 0
 WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated::text <> 'v' AND a.attrelid = ANY (%s)
 ORDER BY 1, 2
"""


@dataclass(frozen=True)
class HeldColumn:
    """A column whose values are stored.

    Attributes:
        number: its attnum.
        name: as of the moment.
        identity: of its type and modifier, to tell whether they are another column's.
        type: the type's name; of a domain the base type's.
    """

    number: int
    name: str
    identity: int
    type: str


@dataclass(frozen=True)
class Content:
    """A permanent table and its rows.

    Attributes:
        oid: the table's.
        schema, name: as of the moment.
        qualified: both, quoted where need be.
        replica_identity: ``relreplident``.
        has_primary_key: else the key is the replica identity's.
        key: columns that tell rows apart, empty if there are none.
        columns: in the order of their numbers.
        rows: text by column name, None for NULL; None if they could not be read.
    """

    oid: int
    schema: str
    name: str
    qualified: str
    replica_identity: str
    has_primary_key: bool
    key: tuple[str, ...]
    columns: tuple[HeldColumn, ...]
    rows: tuple[Row, ...] | None


def snapshot_contents(server: EmbeddedPostgres) -> tuple[int, dict[int, Content]]:
    """Read what a snapshot shows while others write.

    Tables that were given new files or another name since the snapshot have no rows: no snapshot shows what was there
    before a TRUNCATE or a rewrite.

    Returns:
        the LSN before which the commits lie that it shows, and contents by OID.
    """
    with server.connect(replication="database") as replication, server.connect() as connection:
        made = replication.pgconn.exec_(b"CREATE_REPLICATION_SLOT exported TEMPORARY LOGICAL test_decoding")
        assert made.ntuples == 1, made.error_message
        lsn, name = (bytes(made.get_value(0, column) or b"").decode() for column in (1, 2))
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'".encode())
        return parse_lsn(lsn), _contents(connection)


def read_contents(connection: psycopg.Connection[Any]) -> dict[int, Content]:
    """Read permanent tables by OID, with nobody writing; those that an open transaction locks have no rows."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    contents = _contents(connection)
    connection.execute("COMMIT")
    return contents


def _contents(connection: psycopg.Connection[Any]) -> dict[int, Content]:
    tables = connection.execute(TABLES_QUERY.encode()).fetchall()
    columns: dict[int, list[HeldColumn]] = {table[0]: [] for table in tables}
    for oid, *column in connection.execute(COLUMNS_QUERY, [list(columns)]).fetchall():
        columns[oid].append(HeldColumn(*column))
    connection.execute("SET LOCAL lock_timeout = '100ms'")
    contents = {}
    for oid, schema, name, qualified, identity, file, is_primary, key in tables:
        rows = _rows(connection, oid, qualified, file, columns[oid])
        held = tuple(columns[oid])
        contents[oid] = Content(oid, schema, name, qualified, identity, is_primary, tuple(key or ()), held, rows)
    return contents


def _rows(
    connection: psycopg.Connection[Any], oid: int, qualified: str, file: int, columns: Sequence[HeldColumn]
) -> tuple[Row, ...] | None:
    """Read a table's rows; None if it is not the table that the snapshot shows, or somebody holds it."""
    names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in columns)
    connection.execute("SAVEPOINT here")
    try:
        connection.execute(f"LOCK TABLE {qualified} IN ACCESS SHARE MODE".encode())
        same = connection.execute("SELECT %s::regclass::oid, pg_relation_filenode(%s)", [qualified, oid]).fetchone()
        if same != (oid, file):
            return None
        result = connection.execute(f"SELECT {names} FROM ONLY {qualified}".encode()).pgresult
    except psycopg.Error:
        connection.execute("ROLLBACK TO SAVEPOINT here")
        return None
    assert result is not None
    return tuple(
        {
            column.name: None if (value := result.get_value(row, place)) is None else value.decode()
            for place, column in enumerate(columns)
        }
        for row in range(result.ntuples)
    )
