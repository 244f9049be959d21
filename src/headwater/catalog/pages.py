"""Heap pages: line pointers and tuple headers (PostgreSQL: ``storage/bufpage.h``, ``access/htup_details.h``).

In: bytes of pages. Out: tuples with their transaction fields. Whole heaps are scanned with NumPy for keys only; a page
becomes Python values when it is asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.rmgr.heap import HEADER_SIZE, TupleBytes

BLCKSZ = 8192
PAGE_HEADER_SIZE = 24
PAGE_VERSION = 0x2004
"""``pd_pagesize_version``: 8192-byte pages of layout 4."""

HEAP_HASNULL, HEAP_XMAX_EXCL_LOCK, HEAP_XMAX_LOCK_ONLY = 0x0001, 0x0040, 0x0080
HEAP_XMAX_KEYSHR_LOCK = 0x0010
HEAP_XMIN_COMMITTED, HEAP_XMIN_INVALID, HEAP_XMIN_FROZEN = 0x0100, 0x0200, 0x0300
HEAP_XMAX_COMMITTED, HEAP_XMAX_INVALID, HEAP_XMAX_IS_MULTI = 0x0400, 0x0800, 0x1000
HEAP_NATTS_MASK = 0x07FF
LP_NORMAL = 1

_PAGE = struct.Struct("<IIHHHHHHI")
_TUPLE = struct.Struct("<II4x6xHHB")


@dataclass(frozen=True, slots=True)
class PageTuple:
    """A tuple as it lies on a page."""

    xmin: int
    xmax: int
    data: TupleBytes

    @property
    def is_frozen(self) -> bool:
        """Inserted by a transaction older than all others (HeapTupleHeaderXminFrozen)."""
        return self.data.infomask & HEAP_XMIN_FROZEN == HEAP_XMIN_FROZEN

    @property
    def is_xmin_invalid(self) -> bool:
        """Known to be inserted by an aborted transaction (HeapTupleHeaderXminInvalid)."""
        return self.data.infomask & HEAP_XMIN_FROZEN == HEAP_XMIN_INVALID

    @property
    def is_deleted(self) -> bool:
        """``xmax`` is that of a delete or update, committed or not: neither invalid nor a mere lock."""
        mask = self.data.infomask
        kinds = HEAP_XMAX_IS_MULTI | HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK
        is_lock = bool(mask & HEAP_XMAX_LOCK_ONLY) or mask & kinds == HEAP_XMAX_EXCL_LOCK
        return self.xmax != 0 and mask & HEAP_XMAX_INVALID == 0 and not is_lock


def page_lsn(page: bytes | memoryview) -> int:
    """``pd_lsn``: end of the last record that changed the page; 0 on a new page."""
    high, low = struct.unpack_from("<II", page)
    return int(high << 32 | low)


def page_tuples(page: bytes | memoryview) -> Iterator[tuple[int, PageTuple]]:
    """The tuples of a page: offset number and tuple. Line pointers that point outside are passed over."""
    lower = min(_PAGE.unpack_from(page)[4], BLCKSZ)
    for offnum, (pointer,) in enumerate(struct.iter_unpack("<I", page[PAGE_HEADER_SIZE : _whole(lower)]), 1):
        start, flags, length = pointer & 0x7FFF, pointer >> 15 & 3, pointer >> 17
        if flags != LP_NORMAL or length < HEADER_SIZE or start + length > BLCKSZ:
            continue
        xmin, xmax, infomask2, infomask, hoff = _TUPLE.unpack_from(page, start)
        if HEADER_SIZE <= hoff <= length:
            tail = bytes(page[start + HEADER_SIZE : start + length])
            yield offnum, PageTuple(xmin, xmax, TupleBytes(infomask2, infomask, hoff, tail))


def _whole(lower: int) -> int:
    return max(PAGE_HEADER_SIZE, lower - (lower - PAGE_HEADER_SIZE) % 4)


@dataclass(frozen=True)
class HeapScan:
    """Where the tuples of a heap lie, n of them.

    Attributes:
        data: uint8[] the heap's bytes.
        block: int64[n] block number.
        body: int64[n] offset in ``data`` of the tuple's columns.
        bad_block: a block with a broken header or line pointer, -1 if there is none.
    """

    data: NDArray[np.uint8]
    block: NDArray[np.int64]
    body: NDArray[np.int64]
    bad_block: int

    def column(self, offset: int, length: int) -> NDArray[np.generic]:
        """A fixed column of every tuple: uint32[n] for 4 bytes, else S``length``[n]."""
        at = self.body[:, None] + np.arange(offset, offset + length)
        found = np.ascontiguousarray(self.data[at])
        return found.view("<u4" if length == 4 else f"S{length}")[:, 0]


def scan_heap(data: bytes, fixed_length: int) -> HeapScan:
    """Find the tuples of a heap.

    Args:
        data: whole pages.
        fixed_length: bytes that each row has at least.

    Returns:
        the places of all sound tuples, and the first block that has an unsound one.
    """
    array = np.frombuffer(data, np.uint8)
    words = np.frombuffer(data, "<u2").reshape(-1, BLCKSZ // 2)
    lower, version = words[:, 6].astype(np.int64), words[:, 9]
    sound = (version == PAGE_VERSION) & (lower >= PAGE_HEADER_SIZE) & (lower <= BLCKSZ)
    bad = np.flatnonzero(~sound & words.any(axis=1))
    counts = np.where(sound, (lower - PAGE_HEADER_SIZE) // 4, 0)
    block = np.repeat(np.arange(len(words)), counts)
    index = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    pointer = np.frombuffer(data, "<u4").reshape(-1, BLCKSZ // 4)[block, PAGE_HEADER_SIZE // 4 + index].astype(np.int64)
    normal = pointer >> 15 & 3 == LP_NORMAL
    block, start, length = block[normal], pointer[normal] & 0x7FFF, pointer[normal] >> 17
    inside = (start + length <= BLCKSZ) & (length >= HEADER_SIZE)
    hoff = np.zeros(len(block), np.int64)
    hoff[inside] = array[(block * BLCKSZ + start)[inside] + HEADER_SIZE - 1]
    good = inside & (hoff >= HEADER_SIZE) & (hoff + fixed_length <= length)
    bad_blocks = np.concatenate([bad, block[~good]])
    body = block * BLCKSZ + start + hoff
    return HeapScan(array, block[good], body[good], int(bad_blocks.min()) if len(bad_blocks) else -1)
