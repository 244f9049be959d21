"""Kernels that find the records in WAL payload (PostgreSQL: XLogDecodeNextRecord, ValidXLogRecord).

The payload is int64[n] words, as records start 8-aligned: word 0 of a record is xl_tot_len and xl_xid, word 1 xl_prev,
word 2 xl_info, xl_rmid, two zero bytes and xl_crc. A cursor, int64[16], carries the state from call to call, so that
the caller can load more pages or make room and go on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel
from headwater.wal._crc import record_crc
from headwater.wal._pages import PAGE_OK, PageTable
from headwater.wal.layout import (
    CONTRECORD,
    LONG_HEADER,
    PAGE_SIZE,
    RECORD_HEADER_SIZE,
    SHORT_HEADER,
    XLR_BLOCK_ID_DATA_SHORT,
    XLR_RMGR_INFO_MASK,
)
from headwater.wal.records._position import payload_to_lsn

LAST_BUILTIN_RMGR = 21
FIRST_CUSTOM_RMGR = 128
XLOG_RMGR = 0
XLOG_SWITCH = 0x40
XLOG_OVERWRITE_CONTRECORD = 0xD0
KIND_MASK = 0xFF << 8 | XLR_RMGR_INFO_MASK
"""Of word 2: ``xl_rmid``, and those bits of ``xl_info`` that are the resource manager's."""

OVERWRITE_DATA_SIZE = 16
OVERWRITE_BODY, OVERWRITE_BODY_MASK = OVERWRITE_DATA_SIZE << 8 | XLR_BLOCK_ID_DATA_SHORT, 0xFFFF
OVERWRITE_SIZE = RECORD_HEADER_SIZE + 2 + OVERWRITE_DATA_SIZE
"""The body of an OVERWRITE_CONTRECORD is main data after the two bytes of a short header."""

AT, PAGE, PAGE_START, PREV, PREV_KNOWN, COUNT, DROPPED, NEED, BAD_PAGE, BAD_LSN, FOUND, EXPECTED, LSN, PAGE_END = range(
    14
)
"""Slots of the cursor.

The next record: AT its payload offset, PAGE its page, PAGE_START that page's payload offset. PREV the LSN of the record
before it, and PREV_KNOWN whether that is so (else xl_prev only has to be lower than the record's LSN). COUNT records
written. DROPPED the LSN of a record cut off by a crash, or 0. NEED the pages needed. Of a failure: BAD_PAGE, the
record's BAD_LSN, what was FOUND and EXPECTED. LSN and PAGE_END: the record's LSN and its page's end, while it is read.
"""

DONE = 0
FULL = 1
MORE = 2
BAD_PAGE_HEADER = 3
UNEXPECTED_CONTRECORD = 4
NO_CONTRECORD = 5
BAD_REST = 6
BAD_LENGTH = 7
BAD_RMGR = 8
BAD_PREV = 9
BAD_CRC = 10
BAD_OVERWRITE = 11
STOP = 12
"""The statuses that :func:`frame` ends with: all done, outputs full, more pages needed, or what is wrong."""


@inline_kernel
def page_payload(lsn: int, segment_size: int) -> int:
    """Count the bytes of payload of the page at an LSN."""
    return PAGE_SIZE - LONG_HEADER if lsn % segment_size == 0 else PAGE_SIZE - SHORT_HEADER


@inline_kernel
def fail(cursor: NDArray[np.int64], status: int, page: int, lsn: int, actual: int, expected: int) -> int:
    """Note a failure in the cursor."""
    cursor[BAD_PAGE] = page
    cursor[BAD_LSN] = lsn
    cursor[FOUND] = actual
    cursor[EXPECTED] = expected
    return status


@kernel
def resync(table: PageTable, loaded: int, lsn: int, segment_size: int, hi: int, cursor: NDArray[np.int64]) -> int:
    """Set the cursor to the first record that starts on or after its page, skipping a continued record.

    Args:
        table: page table, [0, loaded) valid; page 0 is at `lsn`.
        loaded: pages.
        lsn: of page 0.
        segment_size: bytes.
        hi: stop at this LSN.
        cursor: its PAGE and PAGE_START are the page to begin with.

    Returns:
        DONE, MORE or BAD_PAGE_HEADER.
    """
    page = cursor[PAGE]
    start = cursor[PAGE_START]
    while True:
        here = lsn + page * PAGE_SIZE
        size = page_payload(here, segment_size)
        cursor[PAGE] = page
        cursor[PAGE_START] = start
        cursor[AT] = start
        if here >= hi:
            return DONE
        if page >= loaded:
            cursor[NEED] = page + 1
            return MORE
        if table.status[page] != PAGE_OK:
            return fail(cursor, BAD_PAGE_HEADER, page, here, table.status[page], PAGE_OK)
        if table.info[page] & CONTRECORD == 0:
            return DONE
        rest = (table.rest[page] + 7) // 8 * 8
        if rest < size:
            cursor[AT] = start + rest
            return DONE
        page += 1
        start += size


@inline_kernel
def header_fault(words: NDArray[np.int64], at: int, lsn: int, cursor: NDArray[np.int64]) -> int:
    """Judge a whole record header as ValidXLogRecordHeader does, length aside: 0 or a status."""
    rmgr = (words[at + 2] >> 8) & 0xFF
    if LAST_BUILTIN_RMGR < rmgr < FIRST_CUSTOM_RMGR:
        return fail(cursor, BAD_RMGR, cursor[PAGE], lsn, rmgr, LAST_BUILTIN_RMGR)
    prev = words[at + 1]
    if cursor[PREV_KNOWN]:
        if prev != cursor[PREV]:
            return fail(cursor, BAD_PREV, cursor[PAGE], lsn, prev, cursor[PREV])
    elif prev < 0 or prev >= lsn:
        return fail(cursor, BAD_PREV, cursor[PAGE], lsn, prev, -1)
    return 0


@inline_kernel
def overwrite_fault(words: NDArray[np.int64], at: int, size: int, lsn: int, cursor: NDArray[np.int64]) -> int:
    """Check that the OVERWRITE_CONTRECORD naming a record that a crash cut off is next: 0 or a status."""
    if cursor[DROPPED] == 0:
        return 0
    kind = words[at + 2] & KIND_MASK
    body = words[at + 3] & OVERWRITE_BODY_MASK if size >= OVERWRITE_SIZE else 0
    if kind != (XLOG_RMGR << 8 | XLOG_OVERWRITE_CONTRECORD) or body != OVERWRITE_BODY:
        return fail(cursor, BAD_OVERWRITE, cursor[PAGE], lsn, 0, cursor[DROPPED])
    named = ((words[at + 3] >> 16) & 0xFFFFFFFFFFFF) | ((words[at + 4] & 0xFFFF) << 48)
    if named != cursor[DROPPED]:
        return fail(cursor, BAD_OVERWRITE, cursor[PAGE], lsn, named, cursor[DROPPED])
    cursor[DROPPED] = 0
    return 0


@kernel
def continuation(
    table: PageTable, loaded: int, first_lsn: int, segment_size: int, size: int, lsn: int, cursor: NDArray[np.int64]
) -> int:
    """Follow a record of `size` bytes over the pages after the cursor's.

    On DONE, NEED is 0 and the cursor's PAGE and PAGE_START are those of the page where it ends. If NEED is 1, they are
    those of the page that says the record was cut off by a crash.
    """
    page = cursor[PAGE]
    end = cursor[PAGE_START] + page_payload(first_lsn + page * PAGE_SIZE, segment_size)
    got = end - cursor[AT]
    while got < size:
        page += 1
        here = first_lsn + page * PAGE_SIZE
        if page >= loaded:
            # xl_tot_len is trusted for more than one page only when a continuation page has confirmed it.
            confirmed = page > cursor[PAGE] + 1
            cursor[NEED] = page + 1 + ((size - got) // (PAGE_SIZE - LONG_HEADER) if confirmed else 0)
            return MORE
        if table.status[page] != PAGE_OK:
            return fail(cursor, BAD_PAGE_HEADER, page, lsn, table.status[page], PAGE_OK)
        if table.given_up[page]:
            cursor[NEED] = 1
            cursor[PAGE] = page
            cursor[PAGE_START] = end
            return DONE
        if table.info[page] & CONTRECORD == 0:
            return fail(cursor, NO_CONTRECORD, page, lsn, 0, size - got)
        if table.rest[page] != size - got:
            return fail(cursor, BAD_REST, page, lsn, table.rest[page], size - got)
        cursor[PAGE_START] = end
        payload = page_payload(here, segment_size)
        got += payload
        end += payload
    cursor[NEED] = 0
    cursor[PAGE] = page
    return DONE


@inline_kernel
def skip_segment(first_lsn: int, segment_size: int, cursor: NDArray[np.int64]) -> None:
    """Move the cursor to the start of the segment after its page, as after an XLOG_SWITCH."""
    page = cursor[PAGE]
    here = first_lsn + page * PAGE_SIZE
    left = (segment_size - here % segment_size) // PAGE_SIZE - 1
    start = cursor[PAGE_START] + page_payload(here, segment_size) + left * (PAGE_SIZE - SHORT_HEADER)
    cursor[PAGE] = page + left + 1
    cursor[PAGE_START] = start
    cursor[AT] = start


@inline_kernel
def content_fault(words: NDArray[np.int64], at: int, size: int, lsn: int, check: int, cursor: NDArray[np.int64]) -> int:
    """Judge a record that is there from end to end, its header apart: 0 or a status."""
    head = words[at + 2]
    if check:
        actual, expected = record_crc(words, at, size), (head >> 32) & 0xFFFFFFFF
        if actual != expected:
            return fail(cursor, BAD_CRC, cursor[PAGE], lsn, actual, expected)
    return overwrite_fault(words, at, size, lsn, cursor)


@inline_kernel
def pass_record(
    words: NDArray[np.int64], size: int, lsn: int, first_lsn: int, segment_size: int, cursor: NDArray[np.int64]
) -> int:
    """Move the cursor past a good record that starts at AT and ends on PAGE; the LSN of its end."""
    head = words[cursor[AT] // 8 + 2]
    cursor[AT] += (size + 7) // 8 * 8
    cursor[PREV], cursor[PREV_KNOWN] = lsn, 1
    last = first_lsn + cursor[PAGE] * PAGE_SIZE
    payload = page_payload(last, segment_size)
    used = cursor[AT] - cursor[PAGE_START]
    end: int = last + PAGE_SIZE if used == payload else last + PAGE_SIZE - payload + used
    if head & KIND_MASK == (XLOG_RMGR << 8 | XLOG_SWITCH):
        skip_segment(first_lsn, segment_size, cursor)
        end = (end + segment_size - 1) // segment_size * segment_size
    return end


@inline_kernel
def start_record(
    table: PageTable, loaded: int, first_lsn: int, segment_size: int, hi: int, cursor: NDArray[np.int64]
) -> int:
    """Go to the next page if this one is full, and judge the page if a record starts at its start: 0 or a status."""
    page = cursor[PAGE]
    payload = page_payload(first_lsn + page * PAGE_SIZE, segment_size)
    if cursor[AT] == cursor[PAGE_START] + payload:
        page += 1
        cursor[PAGE], cursor[PAGE_START] = page, cursor[AT]
        payload = page_payload(first_lsn + page * PAGE_SIZE, segment_size)
    lsn = first_lsn + page * PAGE_SIZE + PAGE_SIZE - payload + cursor[AT] - cursor[PAGE_START]
    cursor[LSN] = lsn
    cursor[PAGE_END] = cursor[PAGE_START] + payload
    # A record past the end is looked at only to see that it names the one that was cut off.
    if lsn >= hi and cursor[DROPPED] == 0:
        return STOP
    if page >= loaded:
        cursor[NEED] = page + 1
        return MORE
    if cursor[AT] == cursor[PAGE_START]:
        if table.status[page] != PAGE_OK:
            return fail(cursor, BAD_PAGE_HEADER, page, lsn, table.status[page], PAGE_OK)
        if table.info[page] & CONTRECORD:
            return fail(cursor, UNEXPECTED_CONTRECORD, page, lsn, table.rest[page], 0)
    return 0


@kernel
def frame(
    words: NDArray[np.int64],
    table: PageTable,
    loaded: int,
    origin: NDArray[np.int64],
    cursor: NDArray[np.int64],
    positions: NDArray[np.int64],
    lsns: NDArray[np.int64],
    end_lsns: NDArray[np.int64],
) -> int:
    """Find the records from the cursor on.

    Args:
        words: int64[n] payload; holds all of the loaded pages.
        table: page table, [0, loaded) valid.
        loaded: pages.
        origin: int64[4] LSN of page 0, segment size, LSN to stop at (records that start there are left), 1 to check
            checksums.
        cursor: int64[16], see its slots.
        positions: int64[m] out: payload offset of each record, bytes.
        lsns: int64[m] out: start of each record.
        end_lsns: int64[m] out: end of each record.

    Returns:
        DONE, FULL, MORE (cursor[NEED] pages) or the failure's status; the cursor stands at the next record.
    """
    first_lsn, segment_size, hi, check = origin[0], origin[1], origin[2], origin[3]
    while cursor[COUNT] < positions.shape[0]:
        fault = start_record(table, loaded, first_lsn, segment_size, hi, cursor)
        if fault:
            return DONE if fault == STOP else fault
        at, page, start, lsn = cursor[AT], cursor[PAGE], cursor[PAGE_START], cursor[LSN]
        word = at // 8
        size = words[word] & 0xFFFFFFFF if word < words.shape[0] else 0
        if size < RECORD_HEADER_SIZE:
            return fail(cursor, BAD_LENGTH, page, lsn, size, RECORD_HEADER_SIZE)
        is_whole = at + RECORD_HEADER_SIZE <= cursor[PAGE_END]
        if is_whole:
            fault = header_fault(words, word, lsn, cursor)
        if fault == 0 and at + size > cursor[PAGE_END]:
            fault = continuation(table, loaded, first_lsn, segment_size, size, lsn, cursor)
            if fault == 0 and cursor[NEED] == 1:
                cursor[DROPPED], cursor[AT] = lsn, cursor[PAGE_START]
                continue
        if fault == 0 and word + (size + 7) // 8 > words.shape[0]:
            fault = fail(cursor, BAD_LENGTH, page, lsn, size, RECORD_HEADER_SIZE)
        if fault == 0 and not is_whole:
            fault = header_fault(words, word, lsn, cursor)
        if fault == 0:
            fault = content_fault(words, word, size, lsn, check, cursor)
        if fault:
            cursor[PAGE], cursor[PAGE_START] = page, start
            return fault
        end = pass_record(words, size, lsn, first_lsn, segment_size, cursor)
        if lsn >= hi:
            return DONE
        positions[cursor[COUNT]], lsns[cursor[COUNT]], end_lsns[cursor[COUNT]] = at, lsn, end
        cursor[COUNT] += 1
    return FULL


@kernel
def chained_record(
    words: NDArray[np.int64], base: int, segment_size: int, first: int, last: int, end: int, floor: int
) -> int:
    """Find the first whole record in [first, last) with a good checksum and an xl_prev of at least `floor`.

    Returns its LSN, or -1. Stale bytes of a recycled segment always point further back than the record before the
    failure.

    Args:
        words: int64[n] payload.
        base: payload position of words[0].
        segment_size: bytes.
        first: payload offset, 8-aligned.
        last: payload offset.
        end: bytes of words that are loaded.
        floor: LSN.
    """
    for at in range(first, min(last, end - RECORD_HEADER_SIZE + 1), 8):
        word = at // 8
        size = words[word] & 0xFFFFFFFF
        prev = words[word + 1]
        if size < RECORD_HEADER_SIZE or prev < floor or at + (size + 7) // 8 * 8 > end:
            continue
        lsn = payload_to_lsn(base + at, segment_size)
        if prev >= lsn:
            continue
        if record_crc(words, word, size) == (words[word + 2] >> 32) & 0xFFFFFFFF:
            return lsn
    return -1
