"""Whole tables of a real server as items: every stored tuple and TOAST chunk, as if it had just been logged."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.rows.items import ABSENT, BINARY, INSERT, TEXT, TOAST, UNCHANGED, Cells, Items
from values.stored_tables import PAGE, type_info

_COLUMNS = """
    select attnum, attname::text, atttypid, atttypmod, attlen, attalign::text, attisdropped from pg_attribute
    where attrelid = %s::regclass and attnum > 0 order by attnum
"""


def schema_of(connection: psycopg.Connection[Any], table: str, missing: dict[str, bytes]) -> RelationSchema:
    """Read a table's schema, with the datums of its fast defaults by column name."""
    columns = tuple(
        Column(
            number=number,
            name=name,
            type=None if dropped else type_info(connection, oid),
            typmod=typmod,
            attlen=length,
            attalign=align,
            is_dropped=dropped,
            missing=missing.get(name),
        )
        for number, name, oid, typmod, length, align, dropped in connection.execute(_COLUMNS, (table,)).fetchall()
    )
    return RelationSchema(1, "public", table, "r", "p", "d", (), columns)


def stored_items(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], table: str
) -> tuple[NDArray[np.uint8], Items]:
    """Read the table's chunks by value and number, then its rows in the order they lie in the file."""
    connection.execute("checkpoint")
    rows = _tuples(_file(server, connection, table))
    chunks = sorted(
        _tuples(_file(server, connection, _toast_table(connection, table))),
        key=lambda chunk: struct.unpack_from("<Ii", chunk, chunk[22]),
    )
    pieces = [piece[18:] for piece in [*chunks, *rows]]
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int32)
    n = len(pieces)
    items = Items(
        kind=np.array([TOAST] * len(chunks) + [INSERT] * len(rows), dtype=np.uint8),
        txn=np.zeros(n, dtype=np.int32),
        xid=np.zeros(n, dtype=np.uint32),
        lsn=np.arange(n, dtype=np.int64),
        layout=np.zeros(n, dtype=np.int32),
        new_at=np.cumsum(lengths, dtype=np.int64) - lengths,
        new_len=lengths,
        old_at=np.full(n, -1, dtype=np.int64),
        old_len=np.zeros(n, dtype=np.int32),
        flags=np.zeros(n, dtype=np.uint8),
    )
    return np.frombuffer(bytearray(b"".join(pieces)), dtype=np.uint8), items


def rows_of(cells: Cells, schema: RelationSchema) -> list[list[bytes | None]]:
    """Return texts or binary forms of the live columns of each row, None for NULL."""
    rows = []
    for first in cells.new_first[cells.new_first >= 0]:
        row: list[bytes | None] = []
        for column, cell in zip(schema.columns, range(first, first + len(schema.columns)), strict=True):
            kind, start = cells.kind[cell], cells.start[cell]
            assert kind != UNCHANGED
            assert column.is_dropped == (kind == ABSENT)
            if not column.is_dropped:
                text = cells.text[start : start + cells.length[cell]].tobytes()
                row.append(text if kind in (TEXT, BINARY) else None)
        rows.append(row)
    return rows


def server_rows(connection: psycopg.Connection[Any], table: str, *, binary: bool = False) -> list[list[bytes | None]]:
    """Return what the server prints, or sends in binary form, in the order of the file."""
    with connection.cursor(binary=binary) as cursor:
        result = cursor.execute(f"select * from {table} order by ctid").pgresult
        assert result is not None
        return [[result.get_value(i, j) for j in range(result.nfields)] for i in range(result.ntuples)]


def _toast_table(connection: psycopg.Connection[Any], table: str) -> str:
    row = connection.execute("select reltoastrelid::regclass::text from pg_class where oid = %s::regclass", (table,))
    return str((row.fetchone() or ("",))[0])


def _file(server: EmbeddedPostgres, connection: psycopg.Connection[Any], table: str) -> Path:
    row = connection.execute("select pg_relation_filepath(%s)", (table,)).fetchone()
    assert row is not None
    return server.data_directory / str(row[0])


def _tuples(path: Path) -> list[bytes]:
    """Read every tuple of a heap file, dead ones excepted (the tests delete none)."""
    data = path.read_bytes()
    tuples = []
    for page in range(0, len(data), PAGE):
        lower = struct.unpack_from("<H", data, page + 12)[0]
        for pointer_at in range(page + 24, page + lower, 4):
            pointer = struct.unpack_from("<I", data, pointer_at)[0]
            if pointer >> 15 & 3 == 1:
                start = page + (pointer & 0x7FFF)
                tuples.append(data[start : start + (pointer >> 17)])
    return tuples
