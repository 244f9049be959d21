"""Kernel for PostGIS' geometry and geography (``liblwgeom``: gserialized1.c, gserialized2.c, lwout_wkb.c).

A value begins with three bytes of SRID and a byte of flags. If the flags say so, eight bytes of more flags follow, and
a bounding box of singles. Then come geometries one after the other: a type, a count of points, rings or geometries, and
these. It is printed as extended WKB in upper-case hexadecimal digits, little-endian as on the machines whose WAL is
read here (LWGEOM_out, geography_out). Open collections are kept as counts of what is left of them at the end of the
output buffer.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_u32, no_room, store_u32
from headwater.rows._text_codes import CORRUPT, NEED_SPACE

_DIGITS = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8).copy()
_HAS_Z, _HAS_M, _HAS_BOX, _IS_GEODETIC, _IS_EXTENDED, _IS_VERSION_2 = 1, 2, 4, 8, 16, 64
_WKB_Z, _WKB_M, _WKB_SRID = 0x80000000, 0x40000000, 0x20000000
_HEADER, _COORDINATE, _FRAME = 4, 8, 4
_POINT, _LINE, _POLYGON, _CIRCULAR_STRING, _TRIANGLE = 1, 2, 3, 8, 14
_WKB_TYPES = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 17, 16], dtype=np.int64)
"""WKB's number of each type: those of surfaces differ."""
_NAN_HIGH = 0x7FF80000


@inline_kernel
def _put_byte(byte: Int, out: Bytes, o: Int) -> Int:
    """Write two digits. Room: 2."""
    out[o], out[o + 1] = _DIGITS[byte >> 4], _DIGITS[byte & 15]
    return o + 2


@inline_kernel
def _put_u32(value: Int, out: Bytes, o: Int) -> Int:
    """Write eight digits, the lowest byte first. Room: 8."""
    for shift in range(0, 32, 8):
        o = _put_byte(value >> shift & 255, out, o)
    return o


@borrowing_kernel
def _put_points(src: Bytes, at: Int, size: Int, out: Bytes, o: Int) -> Int:
    """Write so many bytes of coordinates."""
    if no_room(out, o, 2 * size):
        return NEED_SPACE
    for i in range(size):
        o = _put_byte(np.int64(src[at + i]), out, o)
    return o


@borrowing_kernel
def _put_polygon(src: Bytes, at: Int, end: Int, rings: Int, point: Int, out: Bytes, o: Int) -> tuple[Int, Int]:
    """Write a polygon's rings: their counts, and their points; none if the first is empty.

    Returns (end of the text or a status, end of the rings).
    """
    points = at + (4 * rings + 7 & -8)
    if points > end:
        return np.int64(CORRUPT), at
    is_empty = rings == 0 or load_u32(src, at) == 0
    if no_room(out, o, 8):
        return np.int64(NEED_SPACE), at
    o = _put_u32(0 if is_empty else rings, out, o)
    for ring in range(rings):
        count = load_u32(src, at + 4 * ring)
        if points + count * point > end:
            return np.int64(CORRUPT), at
        if not is_empty:
            if no_room(out, o, 8):
                return np.int64(NEED_SPACE), at
            o = _put_points(src, points, count * point, out, _put_u32(count, out, o))
            if o < 0:
                return o, at
        points += count * point
    return o, points


@borrowing_kernel
def _put_simple(src: Bytes, type: Int, at: Int, end: Int, count: Int, point: Int, out: Bytes, o: Int) -> Int:
    """Write a point, a line or a triangle, whose `count` points begin at `at`. Room: 16."""
    if at + count * point > end or (type == _POINT and count > 1):
        return CORRUPT
    if type == _POINT and count == 0:
        if no_room(out, o, 2 * point):
            return NEED_SPACE
        for _ in range(point // _COORDINATE):
            o = _put_u32(_NAN_HIGH, out, _put_u32(0, out, o))
        return o
    if type == _TRIANGLE and count > 0:
        o = _put_u32(1, out, o)
    if type != _POINT:
        o = _put_u32(count, out, o)
    return _put_points(src, at, count * point, out, o)


@inline_kernel
def _srid(src: Bytes, start: Int) -> Int:
    """Read the low 21 bits of three bytes, signed."""
    bits = np.int64(src[start]) << 16 | np.int64(src[start + 1]) << 8 | np.int64(src[start + 2])
    return ((bits & 0x1FFFFF) ^ 0x100000) - 0x100000


@borrowing_kernel
def write_postgis(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write extended WKB in hexadecimal digits."""
    if start < 0 or length < _HEADER:
        return CORRUPT
    srid, flags, end = _srid(src, start), np.int64(src[start + 3]), start + length
    dimensions = 2 + (flags & _HAS_Z) + (flags >> 1 & 1)
    point, mark = _COORDINATE * dimensions, 0
    if flags & _HAS_Z:
        mark |= _WKB_Z
    if flags & _HAS_M:
        mark |= _WKB_M
    at = start + _HEADER
    if flags & _IS_VERSION_2 and flags & _IS_EXTENDED:
        at += 8
    if flags & _HAS_BOX:
        at += 8 * (3 if flags & _IS_GEODETIC else dimensions)
    frame, is_top = len(out), True
    while is_top or frame < len(out):
        if at + 8 > end:
            return CORRUPT
        type, count = load_u32(src, at), load_u32(src, at + 4)
        if type == 0 or type >= len(_WKB_TYPES):
            return CORRUPT
        room = out[:frame]
        if no_room(room, o, 42 + _FRAME):
            return NEED_SPACE
        at += 8
        o = _put_byte(np.int64(1), room, o)
        has_srid = is_top and srid != 0
        o = _put_u32(_WKB_TYPES[type] | mark | (_WKB_SRID if has_srid else 0), room, o)
        if has_srid:
            o = _put_u32(srid, room, o)
        is_top = False
        if type == _POLYGON:
            o, at = _put_polygon(src, at, end, count, point, room, o)
        elif type in (_POINT, _LINE, _CIRCULAR_STRING, _TRIANGLE):
            o = _put_simple(src, type, at, end, count, point, room, o)
            at += count * point
        else:
            o = _put_u32(count, room, o)
            # One more, as the collection counts as a geometry itself when it is taken off.
            frame -= _FRAME
            store_u32(count + 1, out, frame)
        if o < 0:
            return o
        while frame < len(out) and load_u32(out, frame) <= 1:
            frame += _FRAME
        if frame < len(out):
            store_u32(load_u32(out, frame) - 1, out, frame)
    return o
