"""The int64 slots of one scratch array, where :func:`headwater.rmgr._record.parse_headers` puts what it reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.pg.version import VERSIONS
from headwater.wal.layout import BKPIMAGE_COMPRESSED, BKPIMAGE_IS_COMPRESSED_14

COMPRESSED = 0
"""The slot that is read: the bits of ``bimg_info`` that say that an image is compressed."""

MAIN_AT, MAIN_LENGTH, TOPLEVEL_XID, ORIGIN, PAYLOAD_AT = 1, 2, 3, 4, 5
"""The slots before the blocks; PAYLOAD_AT is where the headers end, and images and data of the blocks begin."""

BLOCKS = 6
"""The first slot of the blocks; each block takes eight."""

SPC, DB, REL, FORK, BLOCK, DATA_AT, DATA_LENGTH, IMAGE = 0, 1, 2, 3, 4, 5, 6, 7
"""The slots of one block; IMAGE is -1 without an image, else its ``bimg_info`` as the version writes it."""

HEADERS_LENGTH = BLOCKS + 33 * 8
"""Length of the array."""


def header_scratch(major: int) -> NDArray[np.int64]:
    """Make the array: int64[HEADERS_LENGTH], for records of a major version."""
    headers = np.zeros(HEADERS_LENGTH, np.int64)
    named = VERSIONS[major].names_image_compression
    headers[COMPRESSED] = BKPIMAGE_COMPRESSED if named else BKPIMAGE_IS_COMPRESSED_14
    return headers
