"""Kernel that takes the page headers out of WAL pages (PostgreSQL: XLogReaderValidatePageHeader).

Everything is moved in 64-bit words: headers are 24 or 40 bytes, pages 8192, so that payload stays word-aligned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import kernel
from headwater.wal.layout import LONG_HEADER, LONG_HEADER_FLAG, PAGE_SIZE, SHORT_HEADER

PAGE_WORDS = PAGE_SIZE // 8
SHORT_WORDS = SHORT_HEADER // 8
LONG_WORDS = LONG_HEADER // 8

PAGE_OK = 0
PAGE_ZERO = 1
PAGE_MAGIC = 2
PAGE_INFO = 3
PAGE_SYSTEM = 4
PAGE_SEGMENT_SIZE = 5
PAGE_BLOCK_SIZE = 6
PAGE_NOT_LONG = 7
PAGE_ADDRESS = 8
PAGE_TIMELINE = 9
PAGE_UNREAD = 10
"""A page's status; PAGE_UNREAD: nothing was read there, as its neighbours hold no WAL."""


class PageTable(NamedTuple):
    """The fields of page headers that are needed later, one entry a page.

    Attributes:
        status: uint8[p] PAGE_OK or why not.
        info: int64[p] xlp_info.
        given_up: bool[p] the record that goes on here was given up; another one begins.
        rest: int64[p] xlp_rem_len.
        timeline: int64[p] xlp_tli.
    """

    status: NDArray[np.uint8]
    info: NDArray[np.int64]
    given_up: NDArray[np.bool_]
    rest: NDArray[np.int64]
    timeline: NDArray[np.int64]


@kernel
def header_status(
    words: NDArray[np.int64], at: int, lsn: int, identity: NDArray[np.int64], highest: int, lowest: int
) -> int:
    """Judge the page header at words[at : at + 5] (the caller sees to the bounds) as that of the page at `lsn`.

    Args:
        words: int64[n] raw pages.
        at: index of the page's first word.
        lsn: where the page should be.
        identity: int64[4] segment size in bytes; expected xlp_magic; expected system identifier; the flag of
            xlp_info for records that were given up.
        highest: highest timeline allowed: that of the segment file.
        lowest: lowest timeline allowed: that of the page before.
    """
    segment_size = identity[0]
    first = words[at]
    if first == 0 and words[at + 1] == 0:
        return PAGE_ZERO
    if first & 0xFFFF != identity[1]:
        return PAGE_MAGIC
    info = (first >> 16) & 0xFFFF
    if info >= 2 * identity[3]:
        return PAGE_INFO
    if info & LONG_HEADER_FLAG:
        if words[at + 3] != identity[2]:
            return PAGE_SYSTEM
        if words[at + 4] & 0xFFFFFFFF != segment_size:
            return PAGE_SEGMENT_SIZE
        if (words[at + 4] >> 32) & 0xFFFFFFFF != PAGE_SIZE:
            return PAGE_BLOCK_SIZE
        if lsn % segment_size != 0:
            return PAGE_INFO
    elif lsn % segment_size == 0:
        return PAGE_NOT_LONG
    if words[at + 1] != lsn:
        return PAGE_ADDRESS
    timeline = (first >> 32) & 0xFFFFFFFF
    if timeline > highest or timeline < lowest:
        return PAGE_TIMELINE
    return PAGE_OK


@kernel
def first_valid_page(
    words: NDArray[np.int64], pages: int, stride: int, lsn: int, identity: NDArray[np.int64], highest: int
) -> int:
    """Find the first of some pages with a header that belongs to its place.

    Args:
        words: int64[n] raw pages, or the beginnings of some.
        pages: how many; stride: words from one to the next.
        lsn: where the first one should be.
        identity, highest: see :func:`header_status`.

    Returns:
        its number; -1 if there is none.
    """
    for page in range(pages):
        if header_status(words, page * stride, lsn + page * PAGE_SIZE, identity, highest, 0) == PAGE_OK:
            return page
    return -1


@kernel
def unpage(
    raw: NDArray[np.int64],
    count: int,
    lsn: int,
    identity: NDArray[np.int64],
    timeline: int,
    table: PageTable,
    first: int,
    payload: NDArray[np.int64],
    at: int,
) -> int:
    """Copy the payload of `count` pages and fill their entries of the page table; bad pages are copied as well.

    Args:
        raw: int64[count * 1024] whole pages of one segment.
        count: pages.
        lsn: of the first of them.
        identity: as for :func:`header_status`.
        timeline: of the segment.
        table: entries [first, first + count) are written.
        first: index of the first page in the table.
        payload: int64[n] destination.
        at: index of its first word to write.

    Returns:
        Index after the last word written; -1 if an array is too short.
    """
    size = identity[0]
    if raw.shape[0] < count * PAGE_WORDS or table.status.shape[0] < first + count:
        return -1
    needed = count * (PAGE_WORDS - SHORT_WORDS) - (LONG_WORDS - SHORT_WORDS if lsn % size == 0 else 0)
    if at < 0 or payload.shape[0] < at + needed:
        return -1
    lowest = table.timeline[first - 1] if first > 0 else 0
    for page in range(count):
        source = page * PAGE_WORDS
        here = lsn + page * PAGE_SIZE
        info = (raw[source] >> 16) & 0xFFFF
        table.status[first + page] = header_status(raw, source, here, identity, timeline, lowest)
        table.info[first + page] = info
        table.given_up[first + page] = info & identity[3] != 0
        table.rest[first + page] = raw[source + 2] & 0xFFFFFFFF
        if table.status[first + page] == PAGE_OK:
            lowest = (raw[source] >> 32) & 0xFFFFFFFF
        table.timeline[first + page] = lowest
        skip = LONG_WORDS if here % size == 0 else SHORT_WORDS
        for word in range(PAGE_WORDS - skip):
            payload[at + word] = raw[source + skip + word]
        at += PAGE_WORDS - skip
    return at
