"""Rows of catalogs as a server sends them, made into tuples as they would be stored.

Mirrors copyto.c and heaptuple.c.

In: the bytes of ``COPY (SELECT ctid, xmin, columns) TO STDOUT (FORMAT binary)``. Out: tuples with their places. A value
in network byte order becomes one in the server's own (little endian, as everything that is read here). Arrays of a few
element types become stored arrays.

Known gap: the bytes are not those that are stored. Columns of other types (privileges: ``aclitem[]``), which nothing
here reads, are NULL, and no value has a short header or is compressed. A bit says so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headwater.catalog.pages import HEAP_HASNULL, HEAP_XMAX_INVALID, HEAP_XMIN_COMMITTED, TUPLE_IS_SENT
from headwater.errors import CatalogError
from headwater.pg.catalogs import CatalogColumn, CatalogLayout, align_up
from headwater.rmgr.heap import HEADER_SIZE, TupleBytes

BYTEA, TEXT, PG_NODE_TREE = 17, 25, 194
_CHAR, _INT2, _INT4, _OID, _XID, _FLOAT4 = 18, 21, 23, 26, 28, 700
_ARRAYS = {22: _INT2, 30: _OID, 1002: _CHAR, 1005: _INT2, 1007: _INT4, 1009: TEXT, 1028: _OID, 1021: _FLOAT4}
"""The element types of the array types that catalogs have: int2vector, oidvector, "char"[], ..."""

_ELEMENT_ALIGN = {_CHAR: "c", _INT2: "s", _INT4: "i", _OID: "i", TEXT: "i", _FLOAT4: "i"}
_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEAD = struct.Struct(">11sII")
_TID = struct.Struct(">IH")
_ARRAY = struct.Struct(">iii")
_SPAN = struct.Struct(">ii")
_NAME_BYTES = 64


@dataclass(frozen=True, slots=True)
class SentRow:
    """A row with its place.

    Attributes:
        block, offnum: ``ctid``.
        xmin: raw ``t_xmin``.
        data: the tuple; it says that its inserter committed and that nobody has deleted it.
    """

    block: int
    offnum: int
    xmin: int
    data: TupleBytes


def is_readable(column: CatalogColumn, type_oid: int) -> bool:
    """Tell whether a column's values can be made into stored ones."""
    return column.length > 0 or type_oid in (BYTEA, TEXT, PG_NODE_TREE) or type_oid in _ARRAYS


def sent_rows(
    data: bytes, layout: CatalogLayout, types: Mapping[str, int], stored: Mapping[tuple[bytes | None, ...], bytes]
) -> Iterator[SentRow]:
    """Give the rows of a COPY.

    Args:
        data: all bytes of the COPY.
        layout: the catalog's layout; its columns follow ``ctid`` and ``xmin``.
        types: OIDs of the columns' types.
        stored: for ``pg_attribute``, values of the last column as they are stored, see :func:`row_key`.

    Raises:
        CatalogError: the bytes are no such rows.
    """
    for values in _tuples(data, len(layout.columns) + 2):
        tid, xmin, *fields = values
        if tid is None or xmin is None or len(tid) != _TID.size:
            raise CatalogError(f"the server sent a row of {layout.name} without ctid and xmin")
        columns = [
            None if value is None else _stored(column, types[column.name], value)
            for column, value in zip(layout.columns, fields, strict=True)
        ]
        if stored:
            columns[-1] = stored.get(row_key(layout, fields), columns[-1])
        block, offnum = _TID.unpack(tid)
        yield SentRow(block, offnum, int.from_bytes(xmin, "big"), _formed(layout, columns))


def row_key(layout: CatalogLayout, fields: list[bytes | None]) -> tuple[bytes | None, ...]:
    """Return the key of a row of ``pg_attribute``: ``attrelid`` and ``attnum`` as sent."""
    return fields[layout.number("attrelid")], fields[layout.number("attnum")]


def _tuples(data: bytes, width: int) -> Iterator[list[bytes | None]]:
    """Give the fields of each row."""
    if len(data) < _HEAD.size or data[:11] != _SIGNATURE:
        raise CatalogError("the server did not send rows in the binary format of COPY")
    at = _HEAD.size + _HEAD.unpack_from(data)[2]
    while (count := int.from_bytes(data[at : at + 2], "big", signed=True)) != -1:
        if at + 2 > len(data):
            raise CatalogError("the rows that the server sent end too early")
        at += 2
        if count != width:
            raise CatalogError(f"the server sent a row of {count} fields, expected {width}")
        fields: list[bytes | None] = []
        for _ in range(count):
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4
            fields.append(None if size < 0 else data[at : at + size])
            at += max(size, 0)
        if at > len(data):
            raise CatalogError("the rows that the server sent end too early")
        yield fields


def _stored(column: CatalogColumn, type_oid: int, value: bytes) -> bytes:
    """Make a value as a tuple has it."""
    if column.length == _NAME_BYTES:
        return value.ljust(_NAME_BYTES, b"\0")
    if column.length > 0:
        if len(value) != column.length:
            raise CatalogError(f"the server sent {len(value)} bytes for {column.name}, expected {column.length}")
        return value[::-1]
    return varlena(_stored_array(value, _ARRAYS[type_oid]) if type_oid in _ARRAYS else value)


def varlena(content: bytes) -> bytes:
    """Put the header of four bytes before a value of variable length."""
    return (len(content) + 4 << 2).to_bytes(4, "little") + content


def _stored_array(value: bytes, element: int) -> bytes:
    """Make an array without its leading length; as sent, it has at most one dimension and no NULLs."""
    dimensions, nulls, type_oid = _ARRAY.unpack_from(value)
    if dimensions == 0:
        return struct.pack("<iiI", 0, 0, element)
    if dimensions != 1 or nulls or type_oid != element:
        raise CatalogError(f"the server sent an array of {dimensions} dimensions, expected 1, without NULLs")
    count, lower = _SPAN.unpack_from(value, _ARRAY.size)
    stored, at = bytearray(struct.pack("<iiIii", 1, 0, element, count, lower)), _ARRAY.size + _SPAN.size
    for _ in range(count):
        size = int.from_bytes(value[at : at + 4], "big")
        item = value[at + 4 : at + 4 + size]
        # The four bytes of the array's length count for the alignment.
        stored += bytes(align_up(len(stored) + 4, _ELEMENT_ALIGN[element]) - len(stored) - 4)
        stored += varlena(item) if element == TEXT else item[::-1]
        at += 4 + size
    return bytes(stored)


def _formed(layout: CatalogLayout, columns: list[bytes | None]) -> TupleBytes:
    """Form a tuple of stored values (heap_form_tuple)."""
    body = bytearray()
    for column, value in zip(layout.columns, columns, strict=True):
        if value is not None:
            body += bytes(align_up(len(body), column.align) - len(body))
            body += value
    mask, bitmap = HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID, b""
    if None in columns:
        mask |= HEAP_HASNULL
        bits = sum(1 << number for number, value in enumerate(columns) if value is not None)
        bitmap = bits.to_bytes((len(columns) + 7) // 8, "little")
    hoff = align_up(HEADER_SIZE + len(bitmap), "d")
    return TupleBytes(len(columns) | TUPLE_IS_SENT, mask, hoff, bitmap.ljust(hoff - HEADER_SIZE, b"\0") + bytes(body))
