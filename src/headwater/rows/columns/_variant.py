"""Kernels for jsonb as VARIANT, without text in between (apache/parquet-format: ``VariantEncoding.md``, version 1).

A value's metadata is its keys, each once, sorted by their bytes. Its containers are written as jsonb has them (layout:
:mod:`headwater.rows.text._json`), children in the same order; only an object's fields are listed by their names. Places
inside a container are as wide as its greatest size needs, which its stored size bounds.

Invariant: a number keeps all its digits, as an integer or a decimal of its own scale; one of more than 38 does not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_u32
from headwater.rows._text_codes import CORRUPT
from headwater.rows.columns._columns import FITS, TOO_MANY_DIGITS, scaled_number
from headwater.rows.columns._stored_columns import Spans
from headwater.rows.text._json import (
    CONTAINER,
    COUNT_MASK,
    FALSE,
    FRAME,
    HEADER,
    IS_OBJECT,
    IS_SCALAR,
    NEXT,
    NULL,
    NUMERIC,
    OFFSET,
    STRING,
    TRUE,
    TYPE_MASK,
    VALUE_OFFSET,
    next_child,
    open_container,
    stored_numeric,
)
from headwater.rows.text._number import numeric_header

_OBJECT, _ARRAY, _SHORT_STRING = 2, 3, 1
_NULL, _TRUE, _FALSE, _INT8, _INT16, _INT32, _INT64, _DECIMAL4, _DECIMAL8, _DECIMAL16, _STRING = (
    *(0, 1, 2, 3, 4, 5, 6),
    *(8, 9, 10, 16),
)
_MOST_SCALE, _MOST_SHORT = 38, 63

# Rows of the table of open containers, beside their frames: where a container's ids, offsets and values begin in the
# output, and how wide offsets are.
_IDS, _OFFSETS, _VALUES, _WIDTH = range(4)

ROOM_TIMES, ROOM_MORE = 4, 64
"""A value takes at most so many times its stored size, and so many bytes more; its metadata likewise."""


class Scratch(NamedTuple):
    """The room that a kernel needs while it writes one value.

    Attributes:
        stack: uint8[] frames of open containers.
        open: int64[4, depth] more of them.
        key_start, key_length, rank, order, spare: int64[k] keys as they come, their ids, and room to sort them.
        id, place: int64[k] fields of an object.
        number, limit: uint64[4] see :func:`headwater.rows.columns._columns.scaled_number`.
    """

    stack: Bytes
    open: NDArray[np.int64]
    key_start: NDArray[np.int64]
    key_length: NDArray[np.int64]
    rank: NDArray[np.int64]
    order: NDArray[np.int64]
    spare: NDArray[np.int64]
    id: NDArray[np.int64]
    place: NDArray[np.int64]
    number: NDArray[np.uint64]
    limit: NDArray[np.uint64]


def scratch_of(longest: int) -> Scratch:
    """Make room for values that are stored in so many bytes: a child takes 4, a key 4, a container 4 more."""
    most = longest // 8 + 2
    top = 10**_MOST_SCALE - 1
    return Scratch(
        stack=np.empty(FRAME * most, np.uint8),
        open=np.empty((4, most), np.int64),
        key_start=np.empty(most, np.int64),
        key_length=np.empty(most, np.int64),
        rank=np.empty(most, np.int64),
        order=np.empty(most, np.int64),
        spare=np.empty(most, np.int64),
        id=np.empty(most, np.int64),
        place=np.empty(most, np.int64),
        number=np.empty(4, np.uint64),
        limit=np.array([top >> 32 * limb & 0xFFFFFFFF for limb in range(4)], np.uint64),
    )


@inline_kernel
def _put(value: Int, width: Int, out: Bytes, o: Int) -> Int:
    """Write an integer, the lowest byte first."""
    for i in range(width):
        out[o + i] = value >> 8 * i & 0xFF
    return o + width


@inline_kernel
def _put_bytes(src: Bytes, start: Int, size: Int, out: Bytes, o: Int) -> Int:
    for i in range(size):
        out[o + i] = src[start + i]
    return o + size


@inline_kernel
def _got(width: Int, out: Bytes, o: Int) -> Int:
    value = np.int64(0)
    for i in range(width):
        value |= np.int64(out[o + i]) << 8 * i
    return value


@inline_kernel
def _width(most: Int) -> Int:
    """Count the bytes of integers up to one."""
    if most < 1 << 8:
        return 1
    if most < 1 << 16:
        return 2
    return 3 if most < 1 << 24 else 4


@borrowing_kernel
def _collect_keys(src: Bytes, start: Int, end: Int, s: Scratch) -> Int:
    """Collect all keys of a value, as :func:`_write_value` meets them; how many, or CORRUPT."""
    keys, depth = np.int64(0), np.int64(0)
    if open_container(src, start, start, end, s.stack, 0) < 0:
        return CORRUPT
    while depth >= 0:
        frame = depth * FRAME
        header, child = load_u32(s.stack, frame + HEADER), load_u32(s.stack, frame + NEXT)
        count, is_object = header & COUNT_MASK, header & IS_OBJECT != 0
        if child == count:
            depth -= 1
            continue
        _put(child + 1, 4, s.stack, frame + NEXT)
        if is_object:
            entry, begin, stop = next_child(src, start, child, OFFSET, s.stack, frame)
            if stop < 0 or entry & TYPE_MASK != STRING:
                return CORRUPT
            s.key_start[keys], s.key_length[keys] = begin, stop - begin
            keys += 1
        index, slot = (count + child, VALUE_OFFSET) if is_object else (child, OFFSET)
        entry, begin, stop = next_child(src, start, index, slot, s.stack, frame)
        if stop < 0:
            return CORRUPT
        if entry & TYPE_MASK == CONTAINER:
            depth += 1
            header = open_container(src, start, begin, stop, s.stack, depth * FRAME)
            if header < 0 or header & IS_SCALAR:
                return CORRUPT
    return keys


@borrowing_kernel
def _precedes(src: Bytes, a: Int, b: Int, s: Scratch) -> bool:
    """Tell whether a key comes before another one, or is the same."""
    at, to, size, other = s.key_start[a], s.key_start[b], s.key_length[a], s.key_length[b]
    for i in range(min(size, other)):
        if src[at + i] != src[to + i]:
            return bool(src[at + i] < src[to + i])
    return bool(size <= other)


@borrowing_kernel
def _sort_keys(src: Bytes, keys: Int, s: Scratch) -> Int:
    """Give each key its id: the place of its bytes among the different ones, sorted (a merge sort); how many.

    ``order`` has one key of each id then.
    """
    for i in range(keys):
        s.order[i] = i
    run = np.int64(1)
    while run < keys:
        for lo in range(0, keys, 2 * run):
            mid, hi = min(lo + run, keys), min(lo + 2 * run, keys)
            left, right = lo, mid
            for at in range(lo, hi):
                if right >= hi or (left < mid and _precedes(src, s.order[left], s.order[right], s)):
                    s.spare[at] = s.order[left]
                    left += 1
                else:
                    s.spare[at] = s.order[right]
                    right += 1
        for i in range(keys):
            s.order[i] = s.spare[i]
        run *= 2
    different = np.int64(0)
    for i in range(keys):
        key = s.order[i]
        if i == 0 or not _precedes(src, key, s.order[different - 1], s):
            s.order[different] = key
            different += 1
        s.rank[key] = different - 1
    return different


@borrowing_kernel
def _write_metadata(src: Bytes, different: Int, s: Scratch, out: Bytes, o: Int) -> Int:
    """Write the metadata: version 1, sorted; the different keys."""
    total = np.int64(0)
    for i in range(different):
        total += s.key_length[s.order[i]]
    width = _width(max(total, different))
    out[o] = 1 | 1 << 4 | (width - 1) << 6
    o = _put(different, width, out, o + 1)
    place = np.int64(0)
    for i in range(different):
        o = _put(place, width, out, o)
        place += s.key_length[s.order[i]]
    o = _put(place, width, out, o)
    for i in range(different):
        at, size = s.key_start[s.order[i]], s.key_length[s.order[i]]
        o = _put_bytes(src, at, size, out, o)
    return o


@borrowing_kernel
def _write_number(src: Bytes, begin: Int, end: Int, s: Scratch, out: Bytes, o: Int) -> Int:
    """Write an integer of as few bytes as it needs, else a decimal.

    CORRUPT, or CORRUPT - 1 if it has too many digits.
    """
    at, size = stored_numeric(src, begin, end)
    if at < 0:
        return CORRUPT
    special, _, _, scale, _ = numeric_header(src, at, size)
    if special != 0:
        return CORRUPT
    if scale > _MOST_SCALE:
        return CORRUPT - 1
    status, negative = scaled_number(src, at, size, scale, s.limit, s.number)
    if status < 0:
        return CORRUPT
    if status != FITS:
        return CORRUPT - 1
    low, high = (
        np.int64(s.number[0] | s.number[1] << np.uint64(32)),
        np.int64(s.number[2] | s.number[3] << np.uint64(32)),
    )
    if negative:
        low, high = -low, ~high + (1 if low == 0 else 0)
    fits_64 = high == (-1 if low < 0 else 0)
    if scale == 0 and fits_64:
        return _write_integer(low, out, o)
    if fits_64 and scale <= 9 and -1_000_000_000 < low < 1_000_000_000:
        out[o], out[o + 1] = _DECIMAL4 << 2, scale
        return _put(low, 4, out, o + 2)
    if fits_64 and scale <= 18 and -1_000_000_000_000_000_000 < low < 1_000_000_000_000_000_000:
        out[o], out[o + 1] = _DECIMAL8 << 2, scale
        return _put(low, 8, out, o + 2)
    out[o], out[o + 1] = _DECIMAL16 << 2, scale
    return _put(high, 8, out, _put(low, 8, out, o + 2))


@inline_kernel
def _write_integer(value: Int, out: Bytes, o: Int) -> Int:
    if -(1 << 7) <= value < 1 << 7:
        kind, width = _INT8, 1
    elif -(1 << 15) <= value < 1 << 15:
        kind, width = _INT16, 2
    elif -(1 << 31) <= value < 1 << 31:
        kind, width = _INT32, 4
    else:
        kind, width = _INT64, 8
    out[o] = kind << 2
    return _put(value, width, out, o + 1)


@inline_kernel
def _write_string(src: Bytes, begin: Int, end: Int, out: Bytes, o: Int) -> Int:
    size = end - begin
    if size <= _MOST_SHORT:
        out[o] = size << 2 | _SHORT_STRING
        o += 1
    else:
        out[o] = _STRING << 2
        o = _put(size, 4, out, o + 1)
    return _put_bytes(src, begin, size, out, o)


@borrowing_kernel
def _begin(header: Int, size: Int, id_width: Int, s: Scratch, depth: Int, out: Bytes, o: Int) -> Int:
    """Write the header of a container, and leave room for where its children are."""
    count, is_object = header & COUNT_MASK, header & IS_OBJECT != 0
    width, is_large = _width(ROOM_TIMES * size + ROOM_MORE), 1 if count > 255 else 0
    if is_object:
        out[o] = (is_large << 4 | (id_width - 1) << 2 | (width - 1)) << 2 | _OBJECT
    else:
        out[o] = (is_large << 2 | (width - 1)) << 2 | _ARRAY
    o = _put(count, 4 if is_large else 1, out, o + 1)
    s.open[_IDS, depth], s.open[_WIDTH, depth] = o, width
    if is_object:
        o += count * id_width
    s.open[_OFFSETS, depth] = o
    o += (count + 1) * width
    s.open[_VALUES, depth] = o
    return o


@borrowing_kernel
def _end(count: Int, is_object: bool, id_width: Int, s: Scratch, depth: Int, out: Bytes, o: Int) -> None:
    """Write where the container's values end; the fields of an object in the order of their names."""
    ids, offsets, width = s.open[_IDS, depth], s.open[_OFFSETS, depth], s.open[_WIDTH, depth]
    _put(o - s.open[_VALUES, depth], width, out, offsets + count * width)
    if not is_object:
        return
    for i in range(count):
        s.id[i], s.place[i] = _got(id_width, out, ids + i * id_width), _got(width, out, offsets + i * width)
    _sort_fields(count, s)
    for i in range(count):
        _put(s.id[i], id_width, out, ids + i * id_width)
        _put(s.place[i], width, out, offsets + i * width)


@borrowing_kernel
def _sort_fields(count: Int, s: Scratch) -> None:
    """Sort fields by their ids, which differ (a heap sort)."""
    for root in range(count // 2 - 1, -1, -1):
        _sift(root, count, s)
    for end in range(count - 1, 0, -1):
        _swap(0, end, s)
        _sift(np.int64(0), end, s)


@borrowing_kernel
def _sift(root: Int, end: Int, s: Scratch) -> None:
    """Put the field at a place of the heap under all that are greater."""
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and s.id[child] < s.id[child + 1]:
            child += 1
        if s.id[root] >= s.id[child]:
            return
        _swap(root, child, s)
        root = child


@inline_kernel
def _swap(a: Int, b: Int, s: Scratch) -> None:
    s.id[a], s.id[b] = s.id[b], s.id[a]
    s.place[a], s.place[b] = s.place[b], s.place[a]


@borrowing_kernel
def _write_value(src: Bytes, start: Int, end: Int, id_width: Int, s: Scratch, out: Bytes, o: Int) -> Int:
    """Write a value, whose keys have their ids; the status of :func:`_write_number` for one that does not fit."""
    keys, depth = np.int64(0), np.int64(0)
    header = open_container(src, start, start, end, s.stack, 0)
    if not header & IS_SCALAR:
        o = _begin(header, end - start, id_width, s, depth, out, o)
    while True:
        frame = depth * FRAME
        header, child = load_u32(s.stack, frame + HEADER), load_u32(s.stack, frame + NEXT)
        count, is_object, is_scalar = header & COUNT_MASK, header & IS_OBJECT != 0, header & IS_SCALAR != 0
        if child == count:
            if not is_scalar:
                _end(count, is_object, id_width, s, depth, out, o)
            if depth == 0:
                return o
            depth -= 1
            continue
        _put(child + 1, 4, s.stack, frame + NEXT)
        if not is_scalar:
            width = s.open[_WIDTH, depth]
            _put(o - s.open[_VALUES, depth], width, out, s.open[_OFFSETS, depth] + child * width)
        if is_object:
            next_child(src, start, child, OFFSET, s.stack, frame)
            _put(s.rank[keys], id_width, out, s.open[_IDS, depth] + child * id_width)
            keys += 1
        index, slot = (count + child, VALUE_OFFSET) if is_object else (child, OFFSET)
        entry, begin, stop = next_child(src, start, index, slot, s.stack, frame)
        kind = entry & TYPE_MASK
        if kind == CONTAINER:
            depth += 1
            header = open_container(src, start, begin, stop, s.stack, depth * FRAME)
            o = _begin(header, stop - begin, id_width, s, depth, out, o)
        else:
            o = _write_scalar(src, kind, begin, stop, s, out, o)
            if o < 0:
                return o


@borrowing_kernel
def _write_scalar(src: Bytes, kind: Int, begin: Int, end: Int, s: Scratch, out: Bytes, o: Int) -> Int:
    if kind == STRING:
        return _write_string(src, begin, end, out, o)
    if kind == NUMERIC:
        return _write_number(src, begin, end, s, out, o)
    if kind == NULL:
        out[o] = _NULL << 2
    elif kind == TRUE:
        out[o] = _TRUE << 2
    elif kind == FALSE:
        out[o] = _FALSE << 2
    else:
        return CORRUPT
    return o + 1


@borrowing_kernel
def write_variants(
    values: Spans,
    first: Int,
    s: Scratch,
    value: Bytes,
    value_ends: NDArray[np.int64],
    metadata: Bytes,
    metadata_ends: NDArray[np.int64],
    fits: NDArray[np.uint8],
) -> tuple[Int, bool]:
    """Write values of jsonb as VARIANT, from one on.

    Returns (the one that there is no room for, or n; whether it is malformed).

    Args:
        values: n of them.
        first: the one to begin with; those before it are written.
        s: room for the longest.
        value, metadata: bytes, one value's after the other's.
        value_ends, metadata_ends: int64[n + 1] where each begins and ends, from 0 on.
        fits: uint8[n] FITS, or TOO_MANY_DIGITS of those that do not; they have no bytes.
    """
    for i in range(first, len(values.start)):
        start, size = values.start[i], values.length[i]
        o, m, room = value_ends[i], metadata_ends[i], ROOM_TIMES * size + ROOM_MORE
        if o + room > len(value) or m + room > len(metadata):
            return np.int64(i), False
        keys = _collect_keys(values.data, start, start + size, s)
        if keys < 0:
            return np.int64(i), True
        different = _sort_keys(values.data, keys, s)
        end = _write_value(values.data, start, start + size, _width(max(different - 1, 0)), s, value, o)
        if end == CORRUPT:
            return np.int64(i), True
        fits[i] = FITS if end >= 0 else TOO_MANY_DIGITS
        value_ends[i + 1] = end if end >= 0 else o
        metadata_ends[i + 1] = _write_metadata(values.data, different, s, metadata, m) if end >= 0 else m
    return np.int64(len(values.start)), False
