"""Columns of which every element is the same, in the memory of one.

Memory that is touched for the first time costs more than most passes over it, and of millions of rows many columns say
nothing: no replication origin, one database, each a commit. Such a column is an ordinary array with a stride of 0,
which NumPy takes wherever it takes arrays. Nobody may write to it, and no kernel may get it: kernels are compiled for
arrays that lie in one piece. So the field of a dataclass has to say that it may be one (:data:`MAY_BE_CONSTANT`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

MAY_BE_CONSTANT: Mapping[str, bool] = {"may_be_constant": True}
"""Metadata of a dataclass's field that holds a column."""


def constant(values: Column) -> Column:
    """Return the same column, in the memory of one element if all are equal.

    Args:
        values: [n] in any order.
    """
    # Most columns that are not constant show it at their ends.
    if len(values) < 2 or values[0] != values[-1] or not (values == values[0]).all():
        return values
    return np.broadcast_to(values[:1].copy(), len(values))


def is_constant(values: Column) -> bool:
    """Tell whether a column of several elements is in the memory of one."""
    return len(values) > 1 and values.strides == (0,)


def check_lengths(columns: Sequence[Column], length: int | None = None) -> None:
    """Check that columns go together.

    Args:
        columns: of the same rows; one of them at least is not constant: its length is real.
        length: of them, if that is known from elsewhere.

    Raises:
        ValueError: they are not of one length, or have more dimensions than one.
    """
    shapes = {column.shape for column in columns}
    expected = {(length,)} if length is not None else shapes
    if len(shapes) != 1 or shapes != expected or any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"columns have the shapes {sorted(shapes)}, expected one length")


def check_range(numbers: Column, lowest: int, end: int) -> None:
    """Check that all numbers lie between two bounds.

    Args:
        numbers: some; of a constant column its element is looked at.
        lowest: the first that is allowed; end: the first above those.

    Raises:
        ValueError: one does not.
    """
    some = numbers[:1] if is_constant(numbers) else numbers
    if some.size and (int(some.min()) < lowest or int(some.max()) >= end):
        raise ValueError(f"found numbers from {some.min()} to {some.max()}, expected {lowest} to {end - 1}")


def memory_bytes(values: Column) -> int:
    """Return the bytes of memory that a column holds."""
    return values.itemsize if is_constant(values) else values.nbytes


def taken(values: Column, which: NDArray[np.int64] | slice) -> Column:
    """Return the elements that ``which`` names, or the stretch of them."""
    if is_constant(values) and not isinstance(which, slice):
        return np.broadcast_to(values[:1], len(which))
    return values[which]


def joined(parts: Sequence[Column]) -> Column:
    """Join columns, one after the other; the result is constant if they are and agree."""
    full = [part for part in parts if len(part)]
    if len(full) and all(map(is_constant, full)) and all(part[0] == full[0][0] for part in full):
        return np.broadcast_to(full[0][:1], sum(map(len, full)))
    return np.concatenate(parts)
