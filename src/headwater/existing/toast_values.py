"""Values out of line: the ones that tuples refer to, and the ones that the chunks of a TOAST table are of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.existing._toast_values import SEQUENCE_BITS, chunk_keys, external_values
from headwater.existing.page_history import VisibleTuples
from headwater.rows.tuples.layout import SliceLayouts

Int64s = NDArray[np.int64]

_INFOMASK_AT = 2
_HAS_EXTERNAL = 0x0004


def first_key(values: Int64s) -> Int64s:
    """Return int64[n] the least key that a chunk of each value can have."""
    return values << SEQUENCE_BITS


def value_of(key: int) -> int:
    """Return the value that a chunk is of."""
    return key >> SEQUENCE_BITS


def keys_of(tuples: VisibleTuples) -> tuple[Int64s, int | None]:
    """Return the keys of chunks, which sort by value and by their order in it; and the number of any malformed one."""
    keys = np.empty(len(tuples.at), np.int64)
    wrong = int(chunk_keys(tuples.data, tuples.at, tuples.length, keys))
    return keys, None if wrong < 0 else wrong


def values_in(tuples: VisibleTuples, layouts: SliceLayouts) -> tuple[Int64s, Int64s, int | None]:
    """Return the values out of line that the n tuples of a table have.

    Args:
        tuples: the tuples of the table.
        layouts: of the table alone, of c columns.

    Returns:
        int64[n, c] ids, -1 for none (one column if no tuple has any); int64[n] bytes that they are stored in; and the
        number of a malformed tuple, if there is one.
    """
    sizes = np.zeros(len(tuples.at), np.int64)
    has = np.flatnonzero(tuples.data[tuples.at + _INFOMASK_AT] & _HAS_EXTERNAL)
    if not len(has):
        return np.full((len(tuples.at), 1), -1, np.int64), sizes, None
    values = np.full((len(tuples.at), len(layouts.columns)), -1, np.int64)
    found_values, size = np.empty((len(has), values.shape[1]), np.int64), np.empty(len(has), np.int64)
    wrong = int(external_values(tuples.data, tuples.at[has], tuples.length[has], layouts.columns, found_values, size))
    values[has], sizes[has] = found_values, size
    return values, sizes, None if wrong < 0 else int(has[wrong])
