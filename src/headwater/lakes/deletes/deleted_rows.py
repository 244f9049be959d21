"""The rows of a file that are deleted though the file has them, whatever the format keeps that in.

Positions count from 0, in the order of the file's rows. As bytes they are a roaring bitmap of 64 bits in its portable
form, which Delta and Iceberg both take (https://github.com/RoaringBitmap/RoaringFormatSpec).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]
"""int64[n] of rows, ascending, each once."""


class DeletedRows(ABC):
    """The rows of a file that are deleted; pickles, and reads its place when it is asked.

    Attributes:
        count: how many.
    """

    count: int

    @abstractmethod
    def positions(self) -> Positions:
        """Read where they are.

        Raises:
            LakeError: that is damaged, or lost.
        """


def bitmap_of(positions: Positions) -> bytes:
    """Return positions as a bitmap."""
    from pyroaring import BitMap64

    bitmap = BitMap64(np.ascontiguousarray(positions, np.uint64).data)
    bitmap.run_optimize()
    content: bytes = bitmap.serialize()
    return content


def positions_of(bitmap: bytes) -> Positions:
    """Read what :func:`bitmap_of` has written.

    Raises:
        ValueError: something else.
    """
    from pyroaring import BitMap64

    return np.frombuffer(BitMap64.deserialize(bitmap).to_array(), np.uint64).astype(np.int64)


def united(first: Positions, second: Positions) -> Positions:
    """Return the positions that are in either."""
    together: Positions = np.union1d(first, second).astype(np.int64)
    return together


def left_rows(rows: pa.Table, deleted: DeletedRows | None) -> pa.Table:
    """Return the rows of a file that are not deleted.

    Args:
        rows: all of the file, in their order; deleted: those that are; None for none.

    Raises:
        LakeError: see :meth:`DeletedRows.positions`.
    """
    if deleted is None:
        return rows
    is_left = np.ones(len(rows), np.bool_)
    is_left[deleted.positions()] = False
    mask: pa.Array[Any] = pa.array(is_left)
    return rows.filter(mask)
