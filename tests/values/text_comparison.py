"""Text of values, compared with the text of the server."""

from __future__ import annotations

import zlib
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from server_versions import session_of
from values.stored_tables import compare, store


def compare_values(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], type_name: str, values: list[str]
) -> None:
    """Store values, with long and with short headers, and compare what they print as."""
    for plain in (True, False):
        stored = values if plain else [value for value in values if len(value.encode()) < 500]
        table = f"t{zlib.crc32(f'{type_name}{plain}'.encode())}"
        type = store(connection, table, type_name, [*stored, None], plain=plain)
        session = session_of(server)
        assert compare(server, connection, table, type, session) == len(stored)
        connection.execute(f"drop table {table}")
