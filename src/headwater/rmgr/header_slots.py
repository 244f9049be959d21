"""Where :func:`headwater.rmgr._record.parse_headers` puts what it reads: int64 slots of one scratch array."""

from __future__ import annotations

MAIN_AT, MAIN_LENGTH, TOPLEVEL_XID, ORIGIN, PAYLOAD_AT = 0, 1, 2, 3, 4
"""Slots before the blocks; PAYLOAD_AT is where the headers end, and images and data of the blocks begin."""

BLOCKS = 5
"""Where the blocks' slots start; each block takes eight."""

SPC, DB, REL, FORK, BLOCK, DATA_AT, DATA_LENGTH, IMAGE = 0, 1, 2, 3, 4, 5, 6, 7
"""Slots of one block; IMAGE is -1 without an image, else its ``bimg_info``."""

HEADERS_LENGTH = BLOCKS + 33 * 8
"""Length of the array."""
