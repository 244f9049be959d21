"""Columns of catalog rows after the fixed part: varlenas, vectors, arrays (PostgreSQL: ``heaptuple.c``, ``varatt.h``).

In: a row and its catalog's layout. Out: bytes and small tuples. Values stored out of line are left to
:mod:`headwater.catalog.long_values`: of the values that decoding needs, only a row filter is ever that long.
"""

from __future__ import annotations

import struct

from headwater.catalog.pages import HEAP_HASNULL, HEAP_NATTS_MASK
from headwater.errors import CatalogError
from headwater.pg.catalogs import CatalogLayout, align_up
from headwater.rmgr.heap import TupleBytes
from headwater.wal.compression import decompressed

_ARRAY = struct.Struct("<iiI")
_EXTERNAL_SIZE = 18
_METHODS = {0: "pglz", 1: "lz4"}
_MAX_EXPANSION = 300
"""The most bytes that a method makes of one: pglz makes 273 of three, LZ4 255 of one."""


def column(layout: CatalogLayout, data: TupleBytes, name: str) -> bytes | None:
    """Return a column as stored, a varlena with its header; None if NULL or missing.

    Raises:
        CatalogError: the row is too short.
    """
    wanted = layout.number(name)
    if wanted >= data.infomask2 & HEAP_NATTS_MASK:
        return None
    body, at = data.body, 0
    if data.infomask & HEAP_HASNULL and len(data.tail) * 8 <= wanted:
        raise CatalogError(f"row of {layout.name} ends inside its null bitmap")
    if _is_null(data, wanted):
        return None
    for number, attribute in enumerate(layout.columns[: wanted + 1]):
        if _is_null(data, number):
            continue
        if attribute.length > 0 or at >= len(body) or body[at] == 0:
            at = align_up(at, attribute.align)
        length = attribute.length if attribute.length > 0 else varlena_size(body, at)
        if length <= 0 or at + length > len(body):
            raise CatalogError(f"row of {layout.name} ends inside its column {attribute.name}")
        if number == wanted:
            return body[at : at + length]
        at += length
    return None


def _is_null(data: TupleBytes, number: int) -> bool:
    return bool(data.infomask & HEAP_HASNULL) and not data.tail[number >> 3] >> (number & 7) & 1


def varlena_size(data: bytes, at: int) -> int:
    """Return the size in bytes of the varlena at an offset, header included; 0 if it does not fit."""
    if at >= len(data):
        return 0
    first = data[at]
    if first == 1:
        return _EXTERNAL_SIZE
    if first & 1:
        return first >> 1
    size = int.from_bytes(data[at : at + 4], "little") >> 2
    return size if size >= 4 else 0


def payload(varlena: bytes) -> bytes | None:
    """Return a varlena's content, decompressed; None if it is stored out of line.

    Raises:
        CatalogError: the content cannot be decompressed.
    """
    first = varlena[0]
    if first == 1:
        return None
    if first & 1:
        return varlena[1:]
    return varlena[4:] if first & 3 == 0 else _decompress(varlena)


def _decompress(varlena: bytes) -> bytes:
    """Decompress an inline compressed datum: pglz or a raw LZ4 block (toast_decompress_datum)."""
    info = int.from_bytes(varlena[4:8], "little")
    size, method = info & 0x3FFFFFFF, info >> 30
    if method in _METHODS and len(varlena) > 8 and size <= _MAX_EXPANSION * len(varlena):
        content = decompressed(_METHODS[method], varlena[8:], size)
        if content is not None:
            return content
    raise CatalogError("compressed value of a catalog row cannot be decompressed")


def array_data(content: bytes) -> tuple[int, int]:
    """Return the number of elements of a one-dimensional array without NULLs, and the first one's offset in it.

    Raises:
        CatalogError: the content is not such an array.
    """
    if len(content) < _ARRAY.size:
        raise CatalogError("array of a catalog row is too short")
    dimensions, data_offset, _ = _ARRAY.unpack_from(content)
    if dimensions == 0:
        return 0, len(content)
    if dimensions != 1 or data_offset != 0 or len(content) < _ARRAY.size + 8:
        raise CatalogError(f"array of a catalog row has {dimensions} dimensions, expected 1, without NULLs")
    count = int.from_bytes(content[_ARRAY.size : _ARRAY.size + 4], "little")
    # The array's own four length bytes count for alignment: MAXALIGN(16 + 8) from its start.
    return count, 24 - 4


def int2vector(varlena: bytes) -> tuple[int, ...]:
    """Read the numbers of an ``int2vector``. Raises CatalogError if the value is none."""
    content = payload(varlena)
    if content is None:
        raise CatalogError("int2vector of a catalog row is stored out of line")
    count, at = array_data(content)
    if at + 2 * count > len(content):
        raise CatalogError("int2vector of a catalog row is too short")
    return struct.unpack_from(f"<{count}h", content, at)


def oidvector(varlena: bytes) -> tuple[int, ...]:
    """Read the OIDs of an ``oidvector``. Raises CatalogError if the value is none."""
    content = payload(varlena)
    if content is None:
        raise CatalogError("oidvector of a catalog row is stored out of line")
    count, at = array_data(content)
    if at + 4 * count > len(content):
        raise CatalogError("oidvector of a catalog row is too short")
    return struct.unpack_from(f"<{count}I", content, at)


def text_array(varlena: bytes) -> tuple[bytes, ...]:
    """Read the elements of a ``text[]``; empty if stored out of line. Raises CatalogError if the value is none."""
    content = payload(varlena)
    if content is None:
        return ()
    count, at = array_data(content)
    elements = []
    for _ in range(count):
        at = align_up(at + 4, "i") - 4
        size = varlena_size(content, at)
        if size == 0 or at + size > len(content):
            raise CatalogError("text array of a catalog row is too short")
        elements.append(payload(content[at : at + size]) or b"")
        at += size
    return tuple(elements)


def single_element(varlena: bytes, attlen: int) -> bytes | None:
    """Return the element of a one-element ``anyarray`` such as ``attmissingval``; None if it is stored out of line.

    Args:
        varlena: the array.
        attlen: ``typlen`` of the element's type; for -1 the element comes with its varlena header.

    Raises:
        CatalogError: the value is not such an array.
    """
    content = payload(varlena)
    if content is None:
        return None
    count, at = array_data(content)
    if attlen == -1:
        size = varlena_size(content, at)
    elif attlen == -2:
        size = content.find(b"\0", at) + 1 - at
    else:
        size = attlen
    if count != 1 or size <= 0 or at + size > len(content):
        raise CatalogError(f"attmissingval has {count} elements, expected one of {attlen} bytes")
    return content[at : at + size]
