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

HEAP_HASNULL, HEAP_HASEXTERNAL, HEAP_XMAX_EXCL_LOCK, HEAP_XMAX_LOCK_ONLY = 0x0001, 0x0004, 0x0040, 0x0080
HEAP_XMAX_KEYSHR_LOCK = 0x0010
HEAP_XMIN_COMMITTED, HEAP_XMIN_INVALID, HEAP_XMIN_FROZEN = 0x0100, 0x0200, 0x0300
HEAP_XMAX_COMMITTED, HEAP_XMAX_INVALID, HEAP_XMAX_IS_MULTI = 0x0400, 0x0800, 0x1000
HEAP_NATTS_MASK = 0x07FF
TUPLE_IS_SENT = 0x0800
"""A bit of ``infomask2`` that PostgreSQL does not use: no page had the tuple, a server sent it (rows_over_sql.py)."""

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
        """Whether a transaction older than all others inserted the tuple (HeapTupleHeaderXminFrozen)."""
        return self.data.infomask & HEAP_XMIN_FROZEN == HEAP_XMIN_FROZEN

    @property
    def is_xmin_invalid(self) -> bool:
        """Whether the tuple is known to be inserted by an aborted transaction (HeapTupleHeaderXminInvalid)."""
        return self.data.infomask & HEAP_XMIN_FROZEN == HEAP_XMIN_INVALID

    @property
    def is_deleted(self) -> bool:
        """Whether ``xmax`` is the xid of a delete or update, committed or not: neither invalid nor a mere lock."""
        mask = self.data.infomask
        kinds = HEAP_XMAX_IS_MULTI | HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK
        is_lock = bool(mask & HEAP_XMAX_LOCK_ONLY) or mask & kinds == HEAP_XMAX_EXCL_LOCK
        return self.xmax != 0 and mask & HEAP_XMAX_INVALID == 0 and not is_lock


def page_lsn(page: bytes | memoryview) -> int:
    """Read ``pd_lsn``: end of the last record that changed the page; 0 on a new page."""
    high, low = struct.unpack_from("<II", page)
    return int(high << 32 | low)


def page_tuples(page: bytes | memoryview) -> Iterator[tuple[int, PageTuple]]:
    """Give the tuples of a page: offset number and tuple. Line pointers that point outside are passed over."""
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


_HEADERS = np.dtype(
    {
        "names": ["xmin", "xmax", "infomask2", "infomask", "hoff"],
        "formats": ["<u4", "<u4", "<u2", "<u2", "u1"],
        "offsets": [0, 4, 18, 20, 22],
        "itemsize": HEADER_SIZE,
    }
)


@dataclass(frozen=True, eq=False)
class HeapScan:
    """The tuples of a heap, n of them, by block and offset number.

    Attributes:
        data: uint8[] the heap's bytes.
        block: int64[n] block number.
        offnum: int64[n] offset number.
        start: int64[n] offset in ``data`` of the tuple; length: int64[n] its bytes.
        xmin, xmax: uint32[n]; infomask2, infomask: uint16[n]; hoff: uint8[n] as in the tuple's header.
        page_lsns: int64[b] ``pd_lsn`` of each block.
        bad_block: a block with a broken header or line pointer, -1 if there is none.
    """

    data: NDArray[np.uint8]
    block: NDArray[np.int64]
    offnum: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    xmin: NDArray[np.uint32]
    xmax: NDArray[np.uint32]
    infomask2: NDArray[np.uint16]
    infomask: NDArray[np.uint16]
    hoff: NDArray[np.uint8]
    page_lsns: NDArray[np.int64]
    bad_block: int

    @property
    def is_frozen(self) -> NDArray[np.bool_]:
        """bool[n] as :attr:`PageTuple.is_frozen`."""
        return np.asarray(self.infomask & HEAP_XMIN_FROZEN == HEAP_XMIN_FROZEN)

    @property
    def is_xmin_invalid(self) -> NDArray[np.bool_]:
        """bool[n] as :attr:`PageTuple.is_xmin_invalid`."""
        return np.asarray(self.infomask & HEAP_XMIN_FROZEN == HEAP_XMIN_INVALID)

    @property
    def is_deleted(self) -> NDArray[np.bool_]:
        """bool[n] as :attr:`PageTuple.is_deleted`."""
        mask = self.infomask
        kinds = HEAP_XMAX_IS_MULTI | HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK
        is_lock = (mask & HEAP_XMAX_LOCK_ONLY != 0) | (mask & kinds == HEAP_XMAX_EXCL_LOCK)
        return np.asarray((self.xmax != 0) & (mask & HEAP_XMAX_INVALID == 0) & ~is_lock)


def scan_heap(data: bytes, fixed_length: int) -> HeapScan:
    """Find the tuples of a heap.

    Args:
        data: whole pages.
        fixed_length: bytes that each row has at least.

    Returns:
        all sound tuples, and the first block that has an unsound one.
    """
    array = np.frombuffer(data, np.uint8)
    words = np.frombuffer(data, "<u2").reshape(-1, BLCKSZ // 2)
    lower, version = words[:, 6].astype(np.int64), words[:, 9]
    sound = (version == PAGE_VERSION) & (lower >= PAGE_HEADER_SIZE) & (lower <= BLCKSZ)
    bad = np.flatnonzero(~sound & words.any(axis=1))
    counts = np.where(sound, (lower - PAGE_HEADER_SIZE) // 4, 0)
    block = np.repeat(np.arange(len(words)), counts)
    index = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    longs = np.frombuffer(data, "<u4").reshape(-1, BLCKSZ // 4)
    pointer = longs[block, PAGE_HEADER_SIZE // 4 + index].astype(np.int64)
    normal = pointer >> 15 & 3 == LP_NORMAL
    block, offnum, start, length = block[normal], index[normal] + 1, pointer[normal] & 0x7FFF, pointer[normal] >> 17
    inside = (start + length <= BLCKSZ) & (length >= HEADER_SIZE)
    start += block * BLCKSZ
    header = _headers(array, np.where(inside, start, 0))
    hoff = header["hoff"].astype(np.int64)
    good = inside & (hoff >= HEADER_SIZE) & (hoff + fixed_length <= length)
    bad_blocks = np.concatenate([bad, block[~good]])
    page_lsns = longs[:, 0].astype(np.int64) << 32 | longs[:, 1]
    columns = {name: np.ascontiguousarray(header[name][good]) for name in _HEADERS.names or ()}
    places = {"block": block[good], "offnum": offnum[good], "start": start[good], "length": length[good]}
    bad_block = int(bad_blocks.min()) if len(bad_blocks) else -1
    return HeapScan(data=array, **places, **columns, page_lsns=page_lsns, bad_block=bad_block)


def _headers(array: NDArray[np.uint8], start: NDArray[np.int64]) -> NDArray[np.void]:
    """Read the tuple headers at these offsets."""
    if not len(start):
        return np.empty(0, _HEADERS)
    return np.ascontiguousarray(array[start[:, None] + np.arange(HEADER_SIZE)]).view(_HEADERS)[:, 0]
