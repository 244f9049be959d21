"""A column of jsonb as VARIANT: room for what the kernel writes, and how far it has come.

Rows of a slice are written one after the other into two arrays, values and metadata, which grow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.rows.columns._stored_columns import Spans
from headwater.rows.columns._variant import ROOM_MORE, ROOM_TIMES, scratch_of, write_variants


@dataclass(frozen=True)
class Variants:
    """Values as VARIANT, n of them.

    Attributes:
        value, metadata: uint8[] one value's after the other's; value_ends, metadata_ends: int64[n + 1] byte offsets.
        fits: uint8[n] see :func:`headwater.rows.columns._variant.write_variants`.
        malformed: number of the first value that no server writes, after which nothing is written; None for none.
    """

    value: NDArray[np.uint8]
    value_ends: NDArray[np.int64]
    metadata: NDArray[np.uint8]
    metadata_ends: NDArray[np.int64]
    fits: NDArray[np.uint8]
    malformed: int | None


def variants(values: Spans) -> Variants:
    """Write stored values of jsonb as VARIANT."""
    n, longest = len(values.start), int(values.length.max(initial=0))
    room = ROOM_TIMES * longest + ROOM_MORE
    value, metadata = (np.empty(size + room, np.uint8) for size in (2 * len(values.data), len(values.data)))
    value_ends, metadata_ends = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    fits, scratch, done = np.empty(n, np.uint8), scratch_of(longest), 0
    while True:
        done, is_malformed = write_variants(values, done, scratch, value, value_ends, metadata, metadata_ends, fits)
        if is_malformed or done == n:
            return Variants(value, value_ends, metadata, metadata_ends, fits, done if is_malformed else None)
        value, metadata = (np.concatenate([part, np.empty(len(part) + room, np.uint8)]) for part in (value, metadata))
