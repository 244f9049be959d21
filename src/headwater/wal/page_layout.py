"""The pages of the WAL: their size and what of it is header (PostgreSQL: ``access/xlog_internal.h``)."""

from __future__ import annotations

PAGE_SIZE = 8192
"""XLOG_BLCKSZ, bytes."""

SHORT_HEADER, LONG_HEADER = 24, 40
"""Bytes of a page's header; the first page of a segment has the long one (SizeOfXLogShortPHD, SizeOfXLogLongPHD)."""

PAGE_PAYLOAD, FIRST_PAYLOAD = PAGE_SIZE - SHORT_HEADER, PAGE_SIZE - LONG_HEADER
"""Bytes of records in a page, and in the first page of a segment."""

CONTRECORD, LONG_HEADER_FLAG = 1, 2
"""Bits of ``xlp_info``: the page begins with the rest of a record, has a long header. Which bit says that it follows a
record that was given up is the version's; higher ones do not exist."""
