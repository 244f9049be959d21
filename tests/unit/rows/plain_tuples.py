"""Heap tuples made and taken apart in plain Python, and slices of items made of them.

``form_tuple`` follows ``heap_form_tuple`` and ``heap_fill_tuple``, ``deform_tuple`` follows ``heap_deform_tuple``; both
know only the few types below.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.rows.items import (
    ABSENT,
    CLEAR_TOAST,
    DELETE,
    INSERT,
    LITERAL,
    NULL,
    TEXT,
    TOAST,
    UNCHANGED,
    UPDATE,
    Cells,
    Items,
)
from unit.rows.plain_compression import pglz_compress, pglz_decompress

ALIGNMENT = {"c": 1, "s": 2, "i": 4, "d": 8}


def _type(oid: int, name: str, display_name: str, typlen: int, typalign: str) -> TypeInfo:
    return TypeInfo(oid, name, "pg_catalog", display_name, "b", typlen, typalign, 0 < typlen <= 8)


BOOL = _type(16, "bool", "boolean", 1, "c")
BYTEA = _type(17, "bytea", "bytea", -1, "i")
INT8 = _type(20, "int8", "bigint", 8, "d")
INT2 = _type(21, "int2", "smallint", 2, "s")
INT4 = _type(23, "int4", "integer", 4, "i")
TEXT_TYPE = _type(25, "text", "text", -1, "i")
FLOAT4 = _type(700, "float4", "real", 4, "i")
FLOAT8 = _type(701, "float8", "double precision", 8, "d")
DATE = _type(1082, "date", "date", 4, "i")
TIMESTAMP = _type(1114, "timestamp", "timestamp without time zone", 8, "d")
TIMESTAMPTZ = _type(1184, "timestamptz", "timestamp with time zone", 8, "d")
NUMERIC = _type(1700, "numeric", "numeric", -1, "i")
UUID = _type(2950, "uuid", "uuid", 16, "c")
XML_SCHEMA = _type(4711, "no_such_type", "no_such_type", -1, "i")

SIMPLE_TYPES = (BOOL, INT2, INT4, INT8, TEXT_TYPE, BYTEA, UUID)
"""What :func:`text_of` can print."""


def make_column(
    number: int, type: TypeInfo, *, dropped: bool = False, missing: bytes | None = None, name: str = ""
) -> Column:
    return Column(
        number=number,
        name=name or (f"........pg.dropped.{number}........" if dropped else f"c{number}"),
        type=None if dropped else type,
        typmod=-1,
        attlen=type.typlen,
        attalign=type.typalign,
        is_dropped=dropped,
        missing=missing,
    )


def make_schema(*columns: Column | TypeInfo, name: str = "t", oid: int = 16384) -> RelationSchema:
    made = tuple(
        column if isinstance(column, Column) else make_column(number, column)
        for number, column in enumerate(columns, start=1)
    )
    return RelationSchema(oid, "public", name, "r", "p", "d", (), made)


# Datums: what stands in a tuple for a value.
def short(payload: bytes) -> bytes:
    assert len(payload) < 127
    return bytes([(len(payload) + 1) << 1 | 1]) + payload


def plain(payload: bytes) -> bytes:
    return struct.pack("<I", (len(payload) + 4) << 2) + payload


def packed(payload: bytes) -> bytes:
    return short(payload) if len(payload) < 127 else plain(payload)


def compressed_payload(payload: bytes, method: int) -> bytes:
    block = pa.Codec("lz4_raw").compress(payload, asbytes=True) if method else pglz_compress(payload)
    return struct.pack("<I", method << 30 | len(payload)) + block


def compressed(payload: bytes, method: int = 0) -> bytes:
    body = compressed_payload(payload, method)
    return struct.pack("<I", (len(body) + 4) << 2 | 2) + body


def toast_pointer(value_id: int, raw_size: int, stored_size: int, method: int = 0, relation: int = 99999) -> bytes:
    return b"\x01\x12" + struct.pack("<iIII", raw_size + 4, method << 30 | stored_size, value_id, relation)


def form_tuple(columns: Sequence[Column], datums: Sequence[bytes | None]) -> bytes:
    """Make a tuple as it is logged: ``xl_heap_header``, then the bytes from tuple offset 23 on."""
    has_null = None in datums
    bitmap = bytearray((len(datums) + 7) // 8 if has_null else 0)
    body = bytearray()
    for k, (column, datum) in enumerate(zip(columns, datums, strict=False)):
        if datum is None:
            continue
        if has_null:
            bitmap[k >> 3] |= 1 << (k & 7)
        if column.attlen > 0 or not datum[0] & 1:
            body += bytes(-len(body) % ALIGNMENT[column.attalign])
        body += datum
    hoff = 23 + len(bitmap) + -(23 + len(bitmap)) % 8
    return (
        struct.pack("<HHB", len(datums), has_null, hoff) + bytes(bitmap) + bytes(hoff - 23 - len(bitmap)) + bytes(body)
    )


def deform_tuple(
    columns: Sequence[Column], logged: bytes, chunks: dict[int, bytes] | None = None
) -> list[tuple[int, bytes]]:
    """Return (kind of cell, text) per column; chunks are the pending TOAST values, None for an old tuple."""
    infomask2, infomask, hoff = struct.unpack_from("<HHB", logged)
    tuple_bytes = bytes(18) + logged
    at, cells = hoff, []
    for k, column in enumerate(columns):
        datum: bytes | None
        if k >= infomask2 & 0x7FF:
            datum = column.missing
        elif infomask & 1 and not tuple_bytes[23 + k // 8] >> k % 8 & 1:
            datum = None
        else:
            if column.attlen > 0 or tuple_bytes[at] == 0:
                at += -at % ALIGNMENT[column.attalign]
            length = column.attlen if column.attlen > 0 else _datum_length(tuple_bytes, at)
            datum = tuple_bytes[at : at + length]
            at += length
        cells.append(_cell(column, datum, chunks))
    return cells


def _datum_length(data: bytes, at: int) -> int:
    if data[at] == 1:
        return 18
    return data[at] >> 1 if data[at] & 1 else int.from_bytes(data[at : at + 4], "little") >> 2


def _cell(column: Column, datum: bytes | None, chunks: dict[int, bytes] | None) -> tuple[int, bytes]:
    if column.type is None:
        return ABSENT, b""
    if datum is None:
        return NULL, b""
    payload = datum if column.attlen > 0 else detoast(datum, chunks)
    return (UNCHANGED, b"") if payload is None else (TEXT, text_of(column.type, payload))


def detoast(datum: bytes, chunks: dict[int, bytes] | None) -> bytes | None:
    if datum[0] == 1:
        raw_size, extinfo, value_id, _ = struct.unpack_from("<iIII", datum, 2)
        if chunks is None or value_id not in chunks:
            return None
        stored = chunks[value_id]
        return decompress(stored) if extinfo & 0x3FFFFFFF < raw_size - 4 else stored
    if datum[0] & 1:
        return datum[1:]
    return decompress(datum[4:]) if datum[0] & 2 else datum[4:]


def decompress(payload: bytes) -> bytes:
    info = int.from_bytes(payload[:4], "little")
    if info >> 30:
        return bytes(pa.Codec("lz4_raw").decompress(payload[4:], info & 0x3FFFFFFF, asbytes=True))
    raw = pglz_decompress(payload[4:], info & 0x3FFFFFFF)
    assert raw is not None
    return raw


def text_of(type: TypeInfo, payload: bytes) -> bytes:
    if type is TEXT_TYPE:
        return payload
    if type is BYTEA:
        return b"\\x" + payload.hex().encode()
    if type is BOOL:
        return b"t" if payload != b"\0" else b"f"
    if type is UUID:
        digits = payload.hex()
        return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]]).encode()
    return str(int.from_bytes(payload, "little", signed=True)).encode()


@dataclass
class Slice:
    """Items and their bytes, added one at a time; offsets are made odd, as in the WAL."""

    data: bytearray = field(default_factory=lambda: bytearray(b"\xff" * 3))
    rows: list[tuple[int, ...]] = field(default_factory=list)
    txn: int = 0

    def _put(self, logged: bytes | None) -> tuple[int, int]:
        if logged is None:
            return -1, 0
        at = len(self.data)
        self.data += logged + b"\xff" * (1 + at % 3)
        return at, len(logged)

    def add(
        self,
        kind: int,
        new: bytes | None = None,
        old: bytes | None = None,
        *,
        layout: int = 0,
        flags: int = CLEAR_TOAST,
    ) -> int:
        lsn = 0x1000 + 64 * len(self.rows)
        self.rows.append((kind, self.txn, 700, lsn, layout, *self._put(new), *self._put(old), flags))
        return lsn

    def insert(self, new: bytes, *, layout: int = 0, flags: int = CLEAR_TOAST) -> int:
        return self.add(INSERT, new, layout=layout, flags=flags)

    def update(self, new: bytes, old: bytes | None = None, *, layout: int = 0, flags: int = CLEAR_TOAST) -> int:
        return self.add(UPDATE, new, old, layout=layout, flags=flags)

    def delete(self, old: bytes | None, *, layout: int = 0) -> int:
        return self.add(DELETE, None, old, layout=layout)

    def literal(self) -> int:
        return self.add(LITERAL, layout=12345, flags=0)

    def chunk(self, value_id: int, sequence: int, chunk_bytes: bytes, *, layout: int = 0) -> int:
        datums = [struct.pack("<I", value_id), struct.pack("<i", sequence), plain(chunk_bytes)]
        return self.add(TOAST, form_tuple(TOAST_COLUMNS, datums), layout=layout, flags=0)

    def toast(self, value_id: int, stored: bytes, *, chunk_size: int = 1996) -> None:
        for sequence, at in enumerate(range(0, len(stored), chunk_size)):
            self.chunk(value_id, sequence, stored[at : at + chunk_size])

    def items(self) -> Items:
        types = (np.uint8, np.int32, np.uint32, np.int64, np.int32, np.int64, np.int32, np.int64, np.int32, np.uint8)
        columns = list(zip(*self.rows, strict=True)) or [()] * len(types)
        return Items(*(np.array(values, dtype=type) for values, type in zip(columns, types, strict=True)))

    def array(self) -> np.ndarray:
        return np.frombuffer(bytearray(self.data), dtype=np.uint8)


TOAST_COLUMNS = (
    make_column(1, _type(26, "oid", "oid", 4, "i")),
    make_column(2, INT4),
    make_column(3, BYTEA),
)


def cells_at(cells: Cells, first: int, count: int) -> list[tuple[int, bytes]]:
    """Return (kind, text) of cells, for comparison with :func:`deform_tuple`."""
    return [
        (int(cells.kind[c]), cells.text[cells.start[c] : cells.start[c] + cells.length[c]].tobytes())
        for c in range(first, first + count)
    ]
