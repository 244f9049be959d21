"""The first rows of a mirror, those that a table had before: which of their files a task takes, and which keys of them.

In: files that tasks have staged. Out: groups, each with its files. There is nothing that these rows could be merged
with, and no two of them have one key. So a group is a range of the key, as a mirror is kept in its order; or, where
values of the key have none, or there is no key, some of the files.

Invariants: a row is of one group. A group has about as many rows as a merge holds in memory, however many the table
has; of their keys the driver holds about a million at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.lakes.file_bounds import comparable, has_place
from headwater.landing.mirrors.landed_files import Written
from headwater.landing.mirrors.merge_plan import GROUP_BYTES, GROUP_VALUES, Group, bounds_of, groups
from headwater.landing.mirrors.staged_changes import staged_rows

MOST_KEYS = 1 << 20
"""Of all rows, those that groups are cut by."""

Grouped = tuple[Group, Sequence[Written]]


def first_groups(files: Sequence[Written], staging: str, key: pa.Field[Any] | None) -> Iterator[Grouped]:
    """Yield groups with the files that have rows of theirs.

    Args:
        files: staged, one at least; staging: the directory that they are in.
        key: the first column of the mirror's key, if it has one.
    """
    if key is None or not has_place(key.type) or pa.types.is_floating(key.type):
        yield from _by_files(files)
        return
    rows, size = sum(file.file.rows for file in files), sum(file.file.size for file in files)
    step = -(-rows // MOST_KEYS)
    keys = _every(files, staging, key.name, step)
    most = min(GROUP_VALUES, rows * GROUP_BYTES // max(size, 1)) // step
    ends = _ends(files, key)
    for group in groups({}, key.name, keys, touches_all=False, most=max(most, 1)):
        yield group, files if ends is None else _files_of(group, files, *ends)


def _by_files(files: Sequence[Written]) -> Iterator[Grouped]:
    """Yield as many files at a time as a merge holds in memory."""
    taken: list[Written] = []
    size = 0
    for file in files:
        if taken and size + file.file.size > GROUP_BYTES:
            yield Group(None, None, ()), taken
            taken, size = [], 0
        taken.append(file)
        size += file.file.size
    yield Group(None, None, ()), taken


def _every(files: Sequence[Written], staging: str, key: str, step: int) -> pa.ChunkedArray[Any]:
    """Return the key of every so many rows, in their order within a file."""
    parts, first = [], 0
    for file in files:
        values = staged_rows([f"{staging}/{file.file.path}"], [key])[0]
        at = np.arange(first, len(values), step)
        first += step * len(at) - len(values)
        parts.append(values if step == 1 else values.take(_order(values)[at]))
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)


def _order(values: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    order: pa.Array[Any] = pc.sort_indices(comparable(values))
    return order.to_numpy().astype(np.int64)


def _ends(files: Sequence[Written], key: pa.Field[Any]) -> tuple[pa.ChunkedArray[Any], pa.ChunkedArray[Any]] | None:
    """Return the least and the greatest keys of files; None where one does not tell, or has keys that are null."""
    every, name = [file.file for file in files], key.name
    if any(name not in file.lower or name not in file.upper or file.nulls.get(name, 0) for file in every):
        return None
    bounds = [file.lower[name] for file in every], [file.upper[name] for file in every]
    lower, upper = (comparable(pa.chunked_array([bounds_of(values, key.type)])) for values in bounds)
    return lower, upper


def _files_of(
    group: Group, files: Sequence[Written], lower: pa.ChunkedArray[Any], upper: pa.ChunkedArray[Any]
) -> Sequence[Written]:
    """Return the files that may have rows of a group, by the bounds of their keys."""
    may_have = np.ones(len(files), np.bool_)
    for ends, bound, compare in ((upper, group.above, pc.greater), (lower, group.upto, pc.less_equal)):
        if bound is not None:
            may_have &= cast("NDArray[np.bool_]", compare(ends, bound).to_numpy())
    return list(compress(files, may_have.tolist()))
