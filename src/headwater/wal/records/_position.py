"""Arithmetic between LSNs and payload positions (PostgreSQL: ``xlog.c``, XLogBytePosToRecPtr and its neighbours).

A payload position counts the bytes of the WAL that are not page headers, from LSN 0 on. Every page has 8192 bytes; the
first of a segment has a header of 40 bytes, the others of 24.
"""

from __future__ import annotations

from headwater.base.kernels import inline_kernel
from headwater.wal.layout import FIRST_PAYLOAD, LONG_HEADER, PAGE_PAYLOAD, PAGE_SIZE, SHORT_HEADER


@inline_kernel
def lsn_to_payload(lsn: int, segment_size: int) -> int:
    """Return the payload position of an LSN.

    A page's boundary and its first byte after the header are the same position.
    """
    segment = lsn // segment_size
    page = lsn % segment_size // PAGE_SIZE
    offset = lsn % PAGE_SIZE
    at = segment * (segment_size // PAGE_SIZE * PAGE_PAYLOAD - (LONG_HEADER - SHORT_HEADER))
    if page == 0:
        return at + max(offset - LONG_HEADER, 0)
    return at + FIRST_PAYLOAD + (page - 1) * PAGE_PAYLOAD + max(offset - SHORT_HEADER, 0)


@inline_kernel
def payload_to_lsn(at: int, segment_size: int) -> int:
    """Return the LSN of the byte at a payload position: where a record that starts there starts (ReadRecPtr)."""
    per_segment = segment_size // PAGE_SIZE * PAGE_PAYLOAD - (LONG_HEADER - SHORT_HEADER)
    start = at // per_segment * segment_size
    rest = at % per_segment
    if rest < FIRST_PAYLOAD:
        return start + rest + LONG_HEADER
    rest -= FIRST_PAYLOAD
    return start + PAGE_SIZE + rest // PAGE_PAYLOAD * PAGE_SIZE + rest % PAGE_PAYLOAD + SHORT_HEADER


@inline_kernel
def payload_to_end_lsn(at: int, segment_size: int) -> int:
    """Return the LSN of an end: as :func:`payload_to_lsn`, but an end at a page's end stays before the next header."""
    lsn = payload_to_lsn(at, segment_size)
    if lsn % segment_size == LONG_HEADER:
        return lsn - LONG_HEADER
    if lsn % PAGE_SIZE == SHORT_HEADER:
        return lsn - SHORT_HEADER
    return lsn
