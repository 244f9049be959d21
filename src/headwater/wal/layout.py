"""The layout of the WAL: pages and their headers, records and theirs, with the codes in them.

PostgreSQL: ``access/xlog_internal.h``, ``access/xlogrecord.h``. Alike in 14 to 19, but for the flags of images.
"""

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

XID_AT, PREV_AT, INFO_AT, RMID_AT, RECORD_HEADER_SIZE = 4, 8, 16, 17, 24
"""Offsets of ``xl_xid``, ``xl_prev``, ``xl_info`` and ``xl_rmid``, after ``xl_tot_len``; SizeOfXLogRecord."""

XLR_RMGR_INFO_MASK = 0xF0
"""The bits of ``xl_info`` that are the resource manager's."""

BKPBLOCK_FORK_MASK, BKPBLOCK_HAS_IMAGE, BKPBLOCK_HAS_DATA, BKPBLOCK_WILL_INIT, BKPBLOCK_SAME_REL = (
    0x0F,
    0x10,
    0x20,
    0x40,
    0x80,
)
BKPIMAGE_HAS_HOLE, BKPIMAGE_APPLY = 0x01, 0x02
BKPIMAGE_COMPRESS_PGLZ, BKPIMAGE_COMPRESS_LZ4, BKPIMAGE_COMPRESS_ZSTD = 0x04, 0x08, 0x10
BKPIMAGE_COMPRESSED = BKPIMAGE_COMPRESS_PGLZ | BKPIMAGE_COMPRESS_LZ4 | BKPIMAGE_COMPRESS_ZSTD
"""Flags of block references and of their images, as 15 and newer have them."""

BKPIMAGE_IS_COMPRESSED_14, BKPIMAGE_APPLY_14 = 0x02, 0x04
"""The flags of images in 14, which knows no method but pglz."""


def image_flags(info: int, names_method: bool) -> int:
    """Return ``bimg_info`` with the flags of 15 and newer.

    Args:
        info: as in the record.
        names_method: it has these flags.
    """
    if names_method:
        return info
    compressed = BKPIMAGE_COMPRESS_PGLZ if info & BKPIMAGE_IS_COMPRESSED_14 else 0
    return info & BKPIMAGE_HAS_HOLE | compressed | (BKPIMAGE_APPLY if info & BKPIMAGE_APPLY_14 else 0)


XLR_MAX_BLOCK_ID = 32
XLR_BLOCK_ID_TOPLEVEL_XID, XLR_BLOCK_ID_ORIGIN, XLR_BLOCK_ID_DATA_LONG, XLR_BLOCK_ID_DATA_SHORT = 252, 253, 254, 255
"""The subjects of headers after the first one: up to the maximum, a block."""
