"""Kernels: values in binary form, as arrays in binary form and for COPY.

PostgreSQL: arrayfuncs.c (array_recv), copyfromparse.c (ReceiveCopyBinaryHeader, NextCopyFrom). Numbers are big-endian;
the length of a NULL is -1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import NULL

Int64s = NDArray[np.int64]
Cells = tuple[NDArray[np.uint8], Int64s, NDArray[np.int32]]

ARRAY_HEADER, COPY_HEADER, COPY_TRAILER = 20, 19, 2
"""Bytes before the elements of an array; before the rows of COPY, and behind them."""


@borrowing_kernel
def _number(out: Bytes, at: Int, value: Int, size: Int) -> Int:
    """Write a number; return where it ends."""
    for place in range(size):
        out[at + place] = (value >> (8 * (size - 1 - place))) & 255
    return at + size


@borrowing_kernel
def _value(data: Bytes, rows: Cells, cell: Int, out: Bytes, at: Int) -> Int:
    """Write a value behind its length; return where it ends."""
    if rows[0][cell] == NULL:
        return _number(out, at, np.int64(-1), 4)
    at = _number(out, at, np.int64(rows[2][cell]), 4)
    for place in range(rows[2][cell]):
        out[at + place] = data[rows[1][cell] + place]
    return at + rows[2][cell]


@borrowing_kernel
def _size(rows: Cells, cell: Int) -> Int:
    """Return the bytes of a value with its length."""
    return np.int64(4) if rows[0][cell] == NULL else np.int64(4) + np.int64(rows[2][cell])


@borrowing_kernel
def array_size(rows: Cells, chosen: Int64s, natts: Int, column: Int) -> Int:
    """Return the size of what :func:`write_array` writes."""
    size = np.int64(ARRAY_HEADER)
    for number in range(len(chosen)):
        size += _size(rows, chosen[number] * natts + column)
    return size


@borrowing_kernel
def write_array(data: Bytes, rows: Cells, chosen: Int64s, natts: Int, column: Int, type_oid: Int, out: Bytes) -> Int:
    """Write a column of chosen rows as an array in binary form; return the bytes written.

    Args:
        data: uint8[]; rows: kinds, starts, lengths of values in it.
        chosen: int64[n > 0] numbers of rows; natts: cells of each; column: which of them.
        type_oid: OID of the elements' type; out: uint8[] gets it.
    """
    has_null = np.int64(0)
    for number in range(len(chosen)):
        if rows[0][chosen[number] * natts + column] == NULL:
            has_null = np.int64(1)
    at = _number(out, np.int64(0), np.int64(1), 4)
    at = _number(out, at, has_null, 4)
    at = _number(out, at, np.int64(type_oid), 4)
    at = _number(out, at, np.int64(len(chosen)), 4)
    at = _number(out, at, np.int64(1), 4)
    for number in range(len(chosen)):
        at = _value(data, rows, chosen[number] * natts + column, out, at)
    return at


@borrowing_kernel
def copy_size(rows: Cells, chosen: Int64s, natts: Int) -> Int:
    """Return the size of what :func:`write_copy` writes."""
    size = np.int64(COPY_HEADER + COPY_TRAILER)
    for number in range(len(chosen)):
        size += 2
        for cell in range(chosen[number] * natts, (chosen[number] + 1) * natts):
            size += _size(rows, cell)
    return size


@borrowing_kernel
def write_copy(data: Bytes, rows: Cells, chosen: Int64s, natts: Int, signature: Bytes, out: Bytes) -> Int:
    """Write chosen rows as COPY takes them in its binary format; return the bytes written.

    Args:
        data, rows, chosen, natts, out: see :func:`write_array`; signature: uint8[11] that the format begins with.
    """
    at = np.int64(len(signature))
    for place in range(len(signature)):
        out[place] = signature[place]
    at = _number(out, at, np.int64(0), 8)
    for number in range(len(chosen)):
        at = _number(out, at, np.int64(natts), 2)
        for cell in range(chosen[number] * natts, (chosen[number] + 1) * natts):
            at = _value(data, rows, cell, out, at)
    return _number(out, at, np.int64(-1), 2)
