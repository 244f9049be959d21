"""The hash from relation files to their numbers that kernels ask (:func:`headwater.rmgr._locators.find_locator`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.rmgr._locators import fill_locators


def locator_hash(locators: NDArray[np.int64], count: int) -> NDArray[np.int32]:
    """Make a hash with room for all columns of a table, of which some are in use.

    Args:
        locators: int64[3, k] (tablespace, database, file).
        count: how many files are entered, the first of the table.

    Returns:
        int32[power of two] numbers of files, -1 in free slots.
    """
    slots = np.full(1 << int(2 * locators.shape[1] + 1).bit_length(), -1, np.int32)
    fill_locators(locators, count, slots)
    return slots
