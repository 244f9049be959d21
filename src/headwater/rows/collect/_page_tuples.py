"""Kernel: where a tuple lies on a heap page (PostgreSQL: ``storage/bufpage.h``, ``storage/itemid.h``).

A tuple as logged is what lies on a page from ``t_infomask2`` on: the five bytes of ``xl_heap_header`` stand next to
each other there, and the null bitmap follows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel
from headwater.rmgr._record import Int, u16, u32
from headwater.rmgr.heap_layout import HEAP_HEADER_SIZE, UNLOGGED_SIZE

PAGE = 8192
LOWER_AT, POINTERS_AT = 12, 24
NORMAL = 1
"""LP_NORMAL: the line pointer is of a tuple that is stored."""


@inline_kernel
def tuple_on_page(pages: NDArray[np.uint8], page: Int, offnum: Int) -> tuple[Int, Int]:
    """Find a tuple as logged.

    Args:
        pages: uint8[k * PAGE].
        page: which of them.
        offnum: the tuple's offset number, from 1.

    Returns:
        its offset in pages, -1 if there is no such tuple, and its bytes.
    """
    base = page * PAGE
    lower, pointer = u16(pages, base + LOWER_AT), POINTERS_AT + 4 * (offnum - 1)
    if offnum < 1 or lower > PAGE or pointer + 4 > lower:
        return np.int64(-1), np.int64(0)
    item = u32(pages, base + pointer)
    at, length = item & 0x7FFF, item >> 17
    if item >> 15 & 3 != NORMAL or at < lower or length < UNLOGGED_SIZE + HEAP_HEADER_SIZE or at + length > PAGE:
        return np.int64(-1), np.int64(0)
    return base + at + UNLOGGED_SIZE, length - UNLOGGED_SIZE
