"""Kernels for geometric types: lists of points whose coordinates are doubles (PostgreSQL: ``geo_ops.c``).

Doubles are printed with so many `digits` as ``write_float8`` takes them.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i32, no_room
from headwater.rows._text_codes import (
    CODE_BOX,
    CODE_CIRCLE,
    CODE_LINE,
    CODE_LSEG,
    CODE_PATH,
    CODE_POINT,
    CODE_POLYGON,
    CORRUPT,
    NEED_SPACE,
)
from headwater.rows.text._float import write_float8


@borrowing_kernel
def _write_numbers(src: Bytes, start: Int, count: Int, left: Int, right: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write `count` doubles with commas between a left and a right bracket."""
    for i in range(count):
        if no_room(out, o, 2):
            return NEED_SPACE
        out[o] = left if i == 0 else 44
        o = write_float8(src, start + 8 * i, np.int64(8), digits, out, o + 1)
        if o < 0:
            return o
    if no_room(out, o, 1):
        return NEED_SPACE
    out[o] = right
    return o + 1


@borrowing_kernel
def _write_points(src: Bytes, start: Int, count: Int, left: Int, right: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write `count` points as ``(x,y)`` with commas, inside brackets unless these are 0 (path_encode)."""
    for i in range(count):
        if no_room(out, o, 2):
            return NEED_SPACE
        mark = 44 if i > 0 else left
        if mark != 0:
            out[o] = mark
            o += 1
        o = _write_numbers(src, start + 16 * i, np.int64(2), np.int64(40), np.int64(41), digits, out, o)
        if o < 0:
            return o
    if right == 0:
        return o
    if no_room(out, o, 2):
        return NEED_SPACE
    if count == 0:
        out[o] = left
        o += 1
    out[o] = right
    return o + 1


@borrowing_kernel
def _write_list(code: Int, src: Bytes, start: Int, length: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write a path (count, is closed, padding, points) or polygon (count, bounding box, points)."""
    first = 12 if code == CODE_PATH else 36
    if start < 0 or length < first:
        return CORRUPT
    count = load_i32(src, start)
    if count < 0 or length != first + 16 * count:
        return CORRUPT
    is_open = code == CODE_PATH and load_i32(src, start + 4) == 0
    return _write_points(src, start + first, count, 91 if is_open else 40, 93 if is_open else 41, digits, out, o)


@borrowing_kernel
def write_geometry(code: Int, src: Bytes, start: Int, length: Int, digits: Int, out: Bytes, o: Int) -> Int:
    """Write a point, lseg, box, line, circle, path or polygon."""
    if code in (CODE_PATH, CODE_POLYGON):
        return _write_list(code, src, start, length, digits, out, o)
    if length != (16 if code == CODE_POINT else 24 if code in (CODE_LINE, CODE_CIRCLE) else 32):
        return CORRUPT
    if code in (CODE_BOX, CODE_LSEG):
        is_box = code == CODE_BOX
        return _write_points(src, start, np.int64(2), 0 if is_box else 91, 0 if is_box else 93, digits, out, o)
    if no_room(out, o, 1):
        return NEED_SPACE
    if code == CODE_LINE:
        return _write_numbers(src, start, np.int64(3), np.int64(123), np.int64(125), digits, out, o)
    if code == CODE_CIRCLE:
        out[o] = 60
        o += 1
    o = _write_numbers(src, start, np.int64(2), np.int64(40), np.int64(41), digits, out, o)
    if o < 0 or code == CODE_POINT:
        return o
    return _write_numbers(src, start + 16, np.int64(1), np.int64(44), np.int64(62), digits, out, o)
