"""Values of catalog rows that are stored out of line, put together from their chunks.

In: the pointer that stands in the row, and a function that finds chunks. Out: the value's content, decompressed.
Whether the chunks' catalog is followed is the caller's matter: chunks that are not there are an error.

PostgreSQL: ``varatt.h`` (varatt_external), ``detoast.c`` (toast_fetch_datum).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from headwater.catalog import fields
from headwater.errors import CatalogError
from headwater.rmgr.heap import TupleBytes

Chunks = Callable[[str, int], Sequence[TupleBytes]]
"""Finds the rows with a value's OID in a catalog's TOAST table (``pg_toast_`` and the catalog's OID)."""

_POINTER = struct.Struct("<iIII")
_ON_DISK = 18
_EXTERNAL_SIZE_MASK = 0x3FFFFFFF


def long_value(pointer: bytes, catalog: int, chunks: Chunks) -> bytes | None:
    """Read a varlena's content from the TOAST table of its catalog.

    Args:
        pointer: the value as the row has it.
        catalog: OID of the row's catalog.
        chunks: finds the value's chunks.

    Raises:
        CatalogError: the pointer is none to a value on disk, or chunks are not there; the caller adds whose value it
            is.
    """
    if pointer[1] != _ON_DISK:
        raise CatalogError("is stored in a way that is not known")
    size, info, value, _ = _POINTER.unpack_from(pointer, 2)
    stored = info & _EXTERNAL_SIZE_MASK
    pieces = dict(map(_chunk, chunks(f"pg_toast_{catalog}", value)))
    content = b"".join(pieces[number] for number in sorted(pieces))
    if len(content) != stored:
        raise CatalogError(f"has {len(content)} bytes outside, expected {stored}")
    if stored >= size - 4:
        return content
    return fields.payload(struct.pack("<I", len(content) + 4 << 2 | 2) + content)


def _chunk(row: TupleBytes) -> tuple[int, bytes]:
    number = int.from_bytes(row.body[4:8], "little")
    size = fields.varlena_size(row.body, 8)
    return number, fields.payload(row.body[8 : 8 + size]) or b""
