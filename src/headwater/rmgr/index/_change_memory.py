"""Kernel: the memory of changes in the server's accounting (PostgreSQL: ReorderBufferChangeSize, reorderbuffer.c).

The sizes are those of 64-bit servers, alike in 14 to 19 but for the size of a change itself. A tuple weighs its
``t_len``, as DecodeXLogTuple of decode.c sets it: the header of a heap tuple, and what the record holds after its own
short header.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr import heap
from headwater.rmgr._record import Int, u16
from headwater.rmgr.header_slots import BLOCKS, DATA_AT, DATA_LENGTH, MAIN_AT, MAIN_LENGTH
from headwater.rmgr.heap_layout import (
    DELETE_SIZE,
    HEAP_HEADER_SIZE,
    MULTI_INSERT_COUNT_AT,
    MULTI_TUPLE_SIZE,
    UPDATE_FLAGS_AT,
    UPDATE_SIZE,
)
from headwater.rmgr.index.index_codes import DELETES_OLD, INSERTS, SPECULATIVE, UPDATES
from headwater.rmgr.registry import HEAP2

MESSAGE_LENGTHS = 16
"""The memory of a message beside its change, its prefix with a NUL and its content: two lengths."""

TUPLE_SIZE = 24 + 23
"""The memory of a tuple without its null bitmap and columns: sizeof(HeapTupleData), and SizeofHeapTupleHeader."""

MALFORMED_MEMORY = -1
"""The result of :func:`change_memory` when the lengths disagree."""

Int64s = NDArray[np.int64]


@inline_kernel
def next_tuple(data: NDArray[np.uint8], base: Int, p: Int) -> tuple[Int, Int]:
    """Return the start and the end of the columns of the next tuple of a MULTI_INSERT (xl_multi_insert_tuple).

    Args:
        data: uint8[].
        base: the start of the block's data; p: how far it has been read; the header lies within.

    Returns:
        two offsets from ``base``: between them is the tuple without the header of a heap tuple.
    """
    start = ((p + 1) & ~1) + MULTI_TUPLE_SIZE
    return start, start + u16(data, base + start - MULTI_TUPLE_SIZE)


@borrowing_kernel
def _multi_insert_memory(data: NDArray[np.uint8], change_size: Int, headers: Int64s) -> Int:
    """Compute the memory of a MULTI_INSERT's changes, or MALFORMED_MEMORY."""
    count = u16(data, headers[MAIN_AT] + MULTI_INSERT_COUNT_AT)
    base, length = headers[BLOCKS + DATA_AT], headers[BLOCKS + DATA_LENGTH]
    total, p = count * (change_size + TUPLE_SIZE), np.int64(0)
    for _ in range(count):
        if ((p + 1) & ~1) + MULTI_TUPLE_SIZE > length:
            return MALFORMED_MEMORY
        start, p = next_tuple(data, base, p)
        total += p - start
    return total if p <= length else MALFORMED_MEMORY


@borrowing_kernel
def change_memory(data: NDArray[np.uint8], rmid: Int, change: Int, change_size: Int, headers: Int64s) -> Int:
    """Compute the memory of a record's changes in the server's accounting (ReorderBufferChangeSize).

    Args:
        data: uint8[]; rmid: HEAP or HEAP2.
        change: the ``kinds`` bits of its change, not 0.
        change_size: sizeof(ReorderBufferChange).
        headers: int64[HEADERS_LENGTH] the headers of the record, which has a block.

    Returns:
        bytes, or MALFORMED_MEMORY.
    """
    if rmid == HEAP2:
        return _multi_insert_memory(data, change_size, headers)
    length, of_block = headers[MAIN_LENGTH], headers[BLOCKS + DATA_LENGTH]
    if change & (INSERTS | SPECULATIVE):
        return change_size + TUPLE_SIZE + of_block - HEAP_HEADER_SIZE
    if change & UPDATES:
        if length < UPDATE_SIZE:
            return MALFORMED_MEMORY
        flags = data[headers[MAIN_AT] + UPDATE_FLAGS_AT]
        new = TUPLE_SIZE + of_block - HEAP_HEADER_SIZE if flags & heap.UPDATE_CONTAINS_NEW_TUPLE else 0
        old = TUPLE_SIZE + length - UPDATE_SIZE - HEAP_HEADER_SIZE if flags & heap.UPDATE_CONTAINS_OLD else 0
        return change_size + new + old
    if change & DELETES_OLD:
        return change_size + TUPLE_SIZE + length - DELETE_SIZE - HEAP_HEADER_SIZE
    return np.int64(change_size)
