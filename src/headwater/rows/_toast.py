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

from headwater.kernels import inline_kernel, kernel
from headwater.rows._compression import copy, read_u32
from headwater.rows._text_bytes import Bytes, Int

CHUNK_MALFORMED, CHUNK_ORDER = -6, -5

# Indexes into Pending.counts.
VALUES, CHUNKS, GENERATION = 0, 1, 2

_MULTIPLIER = 0x9E3779B1


class Pending(NamedTuple):
    """Chunks that wait, of one transaction; t is the number of chunk rows of the slice, s a power of two >= 2t.

    Attributes:
        slot: int32[s] value index.
        stamp: int64[s] generation in which the slot was taken.
        value: int64[t] ``chunk_id``.
        first: int64[t] the value's first chunk.
        last: int64[t] its last chunk so far.
        sequence: int64[t] ``chunk_seq`` of its last chunk.
        size: int64[t] bytes of its chunks together.
        next: int64[t] the chunk after this one, -1 none.
        at: int64[t] offset of the chunk's bytes in the slice's data.
        length: int64[t] bytes.
        counts: int64[3] values, chunks, generation.
    """

    slot: NDArray[np.int32]
    stamp: NDArray[np.int64]
    value: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    sequence: NDArray[np.int64]
    size: NDArray[np.int64]
    next: NDArray[np.int64]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    counts: NDArray[np.int64]


def make_pending(chunks: Int) -> Pending:
    """An empty table with room for that many chunk rows."""
    slots = 2
    while slots < 2 * chunks:
        slots *= 2
    wide = np.empty((8, chunks), dtype=np.int64)
    return Pending(
        slot=np.zeros(slots, dtype=np.int32),
        stamp=np.zeros(slots, dtype=np.int64),
        value=wide[0],
        first=wide[1],
        last=wide[2],
        sequence=wide[3],
        size=wide[4],
        next=wide[5],
        at=wide[6],
        length=wide[7],
        counts=np.array([0, 0, 1], dtype=np.int64),
    )


@inline_kernel
def reset(pending: Pending) -> None:
    """Drop all chunks."""
    if pending.counts[CHUNKS] > 0:
        pending.counts[VALUES] = 0
        pending.counts[CHUNKS] = 0
        pending.counts[GENERATION] += 1


@kernel
def find(pending: Pending, value: Int) -> tuple[Int, Int]:
    """Look a value id up; (its index or -1, the slot it has or would take)."""
    mask = len(pending.slot) - 1
    generation = pending.counts[GENERATION]
    slot = (value * _MULTIPLIER >> 7) & mask
    while pending.stamp[slot] == generation:
        index = np.int64(pending.slot[slot])
        if pending.value[index] == value:
            return index, slot
        slot = (slot + 1) & mask
    return -1, slot


@kernel
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
    if at < 0 or length < 5 or end > len(data):
        return bad
    natts = (np.int64(data[at]) | np.int64(data[at + 1]) << 8) & 0x07FF
    start = at - 18 + np.int64(data[at + 4])
    if natts != 3 or data[at + 2] & 1 or data[at + 4] != 24 or start + 9 > end:
        return bad
    identity = read_u32(data, start)
    sequence = (read_u32(data, start + 4) ^ 0x80000000) - 0x80000000
    head = np.int64(data[start + 8])
    if head & 1:
        skip, size = 1, head >> 1
        if head == 1:
            return bad
    elif start + 12 > end or head & 3:
        return bad
    else:
        skip, size = 4, read_u32(data, start + 8) >> 2
    if size < skip or start + 8 + size != end:
        return bad
    return identity, sequence, start + 8 + skip, size - skip


@kernel
def append_chunk(data: Bytes, at: Int, length: Int, pending: Pending, report: NDArray[np.int64]) -> Int:
    """Queue a chunk row; arguments as of :func:`chunk_row`, and report int64[>= 3] takes the details of an error.

    Returns:
        0, CHUNK_MALFORMED, or CHUNK_ORDER with (sequence found, value id, sequence expected) in report.
    """
    value, sequence, start, size = chunk_row(data, at, length)
    if start < 0 or pending.counts[CHUNKS] >= len(pending.at):
        return CHUNK_MALFORMED
    index, slot = find(pending, value)
    expected = 0 if index < 0 else pending.sequence[index] + 1
    if sequence != expected:
        report[0], report[1], report[2] = sequence, value, expected
        return CHUNK_ORDER
    chunk = pending.counts[CHUNKS]
    pending.counts[CHUNKS] = chunk + 1
    pending.next[chunk], pending.at[chunk], pending.length[chunk] = -1, start, size
    if index < 0:
        index = pending.counts[VALUES]
        pending.counts[VALUES] = index + 1
        pending.slot[slot] = index
        pending.stamp[slot] = pending.counts[GENERATION]
        pending.value[index], pending.first[index], pending.size[index] = value, chunk, 0
    else:
        pending.next[pending.last[index]] = chunk
    pending.last[index], pending.sequence[index] = chunk, sequence
    pending.size[index] += size
    return 0


@kernel
def reassemble(data: Bytes, pending: Pending, index: Int, out: Bytes, o: Int) -> Int:
    """Write a value's chunks one after the other; ``out`` has room for ``pending.size[index]`` bytes from ``o`` on."""
    chunk = pending.first[index]
    while chunk >= 0:
        o = copy(data, pending.at[chunk], out, o, pending.length[chunk])
        chunk = pending.next[chunk]
    return o
