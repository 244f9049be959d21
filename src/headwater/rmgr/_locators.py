"""Kernels: a hash from relation files to their numbers, by open addressing; a search for an OID in a sorted list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rmgr._record import Int

Int64s = NDArray[np.int64]
Slots = NDArray[np.int32]


@borrowing_kernel
def find_locator(spc: Int, db: Int, rel: Int, table: Int64s, slots: Slots) -> Int:
    """Find the index of a relation file in ``table``, or -1 - the free slot where it belongs.

    Args:
        spc: tablespace OID; db: database OID; rel: file number.
        table: int64[3, k] known files.
        slots: int32[power of two] open addressing, -1 free.
    """
    mask = len(slots) - 1
    slot = (rel * 2654435761 + db * 40503 + spc * 9973) & mask
    while True:
        index = slots[slot]
        if index < 0:
            return -1 - slot
        if table[2, index] == rel and table[1, index] == db and table[0, index] == spc:
            return index
        slot = (slot + 1) & mask


@borrowing_kernel
def fill_locators(table: Int64s, count: Int, slots: Slots) -> None:
    """Enter the first ``count`` files of int64[3, k] ``table`` into an empty hash."""
    for i in range(count):
        index = find_locator(table[0, i], table[1, i], table[2, i], table, slots)
        if index < 0:
            slots[-1 - index] = i


@inline_kernel
def is_among(oid: Int, oids: Int64s) -> bool:
    """Tell whether int64[] ``oids``, sorted, has an OID."""
    low, high = 0, len(oids)
    while low < high:
        middle = (low + high) // 2
        if oids[middle] < oid:
            low = middle + 1
        else:
            high = middle
    return low < len(oids) and oids[low] == oid
