"""TOAST chunks on their way to the tuple that points at them.

Mirrors ``ReorderBufferToastAppendChunk``, ``ReorderBufferToastReplace`` and ``ReorderBufferToastReset`` of
``replication/logical/reorderbuffer.c``: a transaction's chunks wait in a hash by value id until a change takes them;
the change that ends its record's work empties the hash. A pointer whose value is not there is an unchanged datum.

The table has open addressing. A slot is taken if its stamp is the current generation, so emptying costs nothing. Its
arrays are made once per slice, as long as the slice has chunk rows (:class:`Pending`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.catalog.pages import HEAP_HASNULL, HEAP_NATTS_MASK
from headwater.rmgr.heap_layout import HEAP_HEADER_SIZE, HOFF_AT, INFOMASK_AT, UNLOGGED_SIZE
from headwater.rows._copy import copy, read_u32
from headwater.rows._text_bytes import Bytes, Int

CHUNK_MALFORMED, CHUNK_ORDER = -6, -5
"""Statuses: no chunk row that a server would write; a chunk that does not follow the one before."""

VALUES, CHUNKS, GENERATION = 0, 1, 2
"""Indexes into Pending.counts."""

_INDEX, _STAMP = 0, 1
_VALUE, _FIRST, _LAST, _SEQUENCE, _SIZE = 0, 1, 2, 3, 4
_NEXT, _AT, _LENGTH = 0, 1, 2

_ROW_COLUMNS, _ROW_HOFF, _ROW_SEQUENCE_AT, _ROW_DATA_AT = 3, 24, 4, 8
"""A chunk row: its number of columns, its ``t_hoff``, and from there to ``chunk_seq`` and ``chunk_data``."""

_MULTIPLIER = 0x61C88647


class Pending(NamedTuple):
    """Chunks that wait, of one transaction; t is the number of chunk rows of the slice, s a power of two >= 2t.

    Attributes:
        slots: int64[s, 2] value index, and the generation in which the slot was taken.
        values: int64[t, 5] ``chunk_id``, first chunk, last chunk so far, its ``chunk_seq``, bytes of all its chunks.
        chunks: int64[t, 3] next chunk of the value or -1, offset of its bytes in the slice's data, their number.
        counts: int64[3] values, chunks, generation.
    """

    slots: NDArray[np.int64]
    values: NDArray[np.int64]
    chunks: NDArray[np.int64]
    counts: NDArray[np.int64]


def make_pending(chunks: int) -> Pending:
    """Make an empty table with room for that many chunk rows."""
    slots = 2
    while slots < 2 * chunks:
        slots *= 2
    return Pending(
        slots=np.zeros((slots, 2), dtype=np.int64),
        values=np.empty((chunks, 5), dtype=np.int64),
        chunks=np.empty((chunks, 3), dtype=np.int64),
        counts=np.array([0, 0, 1], dtype=np.int64),
    )


@borrowing_kernel
def reset(pending: Pending) -> None:
    """Drop all chunks."""
    if pending.counts[CHUNKS] > 0:
        pending.counts[VALUES] = 0
        pending.counts[CHUNKS] = 0
        pending.counts[GENERATION] += 1


@borrowing_kernel
def find(pending: Pending, value: Int) -> tuple[Int, Int]:
    """Look a value id up; (its index or -1, the slot it has or would take)."""
    slots, values = pending.slots, pending.values
    mask = len(slots) - 1
    generation = pending.counts[GENERATION]
    slot = (value * _MULTIPLIER >> 16) & mask
    while slots[slot, _STAMP] == generation:
        index = slots[slot, _INDEX]
        if values[index, _VALUE] == value:
            return index, slot
        slot = (slot + 1) & mask
    return -1, slot


@borrowing_kernel
def value_size(pending: Pending, index: Int) -> Int:
    """Count the bytes of a value's chunks so far."""
    return pending.values[index, _SIZE]


@borrowing_kernel
def chunk_row(data: Bytes, at: Int, length: Int) -> tuple[Int, Int, Int, Int]:
    """Take a chunk row apart: ``(chunk_id oid, chunk_seq int4, chunk_data bytea)``, none of them null.

    Args:
        data: uint8[].
        at: offset of the 5-byte ``xl_heap_header``.
        length: bytes, header included.

    Returns:
        ``(chunk_id, chunk_seq, offset of the bytes, their number)``; the offset is CHUNK_MALFORMED for anything that
        the server would not have written.
    """
    bad = (0, 0, CHUNK_MALFORMED, 0)
    end = at + length
    if at < 0 or length < HEAP_HEADER_SIZE or end > len(data):
        return bad
    natts = (np.int64(data[at]) | np.int64(data[at + 1]) << 8) & HEAP_NATTS_MASK
    hoff = np.int64(data[at + HOFF_AT])
    start = at - UNLOGGED_SIZE + hoff
    if natts != _ROW_COLUMNS or data[at + INFOMASK_AT] & HEAP_HASNULL or hoff != _ROW_HOFF:
        return bad
    value = start + _ROW_DATA_AT
    if value >= end:
        return bad
    identity = read_u32(data, start)
    sequence = (read_u32(data, start + _ROW_SEQUENCE_AT) ^ 0x80000000) - 0x80000000
    head = np.int64(data[value])
    if head & 1:
        skip, size = 1, head >> 1
        if head == 1:
            return bad
    elif value + 4 > end or head & 3:
        return bad
    else:
        skip, size = 4, read_u32(data, value) >> 2
    if size < skip or value + size != end:
        return bad
    return identity, sequence, value + skip, size - skip


@borrowing_kernel
def append_chunk(data: Bytes, at: Int, length: Int, pending: Pending, report: NDArray[np.int64]) -> Int:
    """Queue a chunk row; arguments as of :func:`chunk_row`, and report int64[>= 3] takes the details of an error.

    Returns:
        0, CHUNK_MALFORMED, or CHUNK_ORDER with (sequence found, value id, sequence expected) in report.
    """
    value, sequence, start, size = chunk_row(data, at, length)
    slots, values, chunks, counts = pending.slots, pending.values, pending.chunks, pending.counts
    chunk = counts[CHUNKS]
    if start < 0 or chunk >= len(chunks):
        return CHUNK_MALFORMED
    index, slot = find(pending, value)
    expected = 0 if index < 0 else values[index, _SEQUENCE] + 1
    if sequence != expected:
        report[0], report[1], report[2] = sequence, value, expected
        return CHUNK_ORDER
    counts[CHUNKS] = chunk + 1
    chunks[chunk, _NEXT], chunks[chunk, _AT], chunks[chunk, _LENGTH] = -1, start, size
    if index < 0:
        index = counts[VALUES]
        counts[VALUES] = index + 1
        slots[slot, _INDEX], slots[slot, _STAMP] = index, counts[GENERATION]
        values[index, _VALUE], values[index, _FIRST], values[index, _SIZE] = value, chunk, 0
    else:
        chunks[values[index, _LAST], _NEXT] = chunk
    values[index, _LAST], values[index, _SEQUENCE] = chunk, sequence
    values[index, _SIZE] += size
    return 0


@borrowing_kernel
def reassemble(data: Bytes, pending: Pending, index: Int, out: Bytes, o: Int) -> Int:
    """Write a value's chunks one after the other; ``out`` has room for its :func:`value_size` from ``o`` on."""
    chunks = pending.chunks
    chunk = pending.values[index, _FIRST]
    while chunk >= 0:
        o = copy(data, chunks[chunk, _AT], out, o, chunks[chunk, _LENGTH])
        chunk = chunks[chunk, _NEXT]
    return o
