"""The files of a mirror that the changes of a window may concern, and which of them are merged together.

In: the mirror's files with their bounds, the values that changes have in the first column of the key. Out: one
:class:`~headwater.landing.mirrors.merge_task.Merge` for each group. A mirror is kept in the order of its key, so files
are intervals; those that overlap are one *block*. A block has all values from its least one up to the next block's.
Values between two blocks go to the last file of the one below if that is small. Else they make a file of their own.

Groups are cut between blocks, or where there is no block: each is a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.lakes.file_bounds import comparable, has_place
from headwater.lakes.history_rows import TO_LSN
from headwater.lakes.lake_table import DataFile
from headwater.landing.mirrors.merge_task import FILE_BYTES, FILE_ROWS

GROUP_BYTES = 4 * FILE_BYTES
"""Of a group's files, about."""

GROUP_VALUES = 1 << 20
"""Different values of the key's first column that changes of a group have, about."""

LEAST_ROWS = 1 << 17
"""Of a group's files, below which another task costs more than it saves."""


@dataclass(frozen=True)
class Group:
    """The files and values that one task merges.

    Attributes:
        above, upto: see :class:`~headwater.landing.mirrors.merge_task.Merge`.
        files: the mirror's.
    """

    above: pa.Scalar[Any] | None
    upto: pa.Scalar[Any] | None
    files: tuple[DataFile, ...]


def is_small(file: DataFile) -> bool:
    """Tell whether new rows go to a file."""
    return file.size < FILE_BYTES // 4 and file.rows < FILE_ROWS // 4


def is_closed(file: DataFile) -> bool:
    """Tell whether all versions in a file have ended; other programs put some together with valid ones."""
    return TO_LSN in file.lower and file.nulls.get(TO_LSN) == 0


def groups(
    files: Mapping[str, DataFile],
    key: str,
    values: pa.ChunkedArray[Any],
    *,
    touches_all: bool,
    tasks: int = 1,
    most: int | None = None,
) -> list[Group]:
    """Return the groups of a mirror.

    Args:
        files: of the mirror.
        key: the first column of its key.
        values: that changes have in it; null for what concerns no key.
        touches_all: all files are concerned, whatever values there are.
        tasks: that can run at once; there are more groups if one is as large as a group may be.
        most: different values that a group has, about; None for :data:`GROUP_VALUES`.
    """
    if not has_place(values.type) or pa.types.is_floating(values.type):
        return [Group(None, None, tuple(files.values()))]
    if any(key not in file.lower or key not in file.upper or file.nulls.get(key, 0) for file in files.values()):
        return [Group(None, None, tuple(files.values()))]
    try:
        share = max(sum(file.rows for file in files.values()) // tasks, LEAST_ROWS)
        grouping = _Grouping.of(list(files.values()), key, values, touches_all, share, most or GROUP_VALUES)
    except (pa.ArrowException, AttributeError):  # bounds of another type, which the column had
        return [Group(None, None, tuple(files.values()))]
    touched = list(grouping.groups())
    # What has no key is of each group: of one at least.
    return touched or [Group(None, None, ())] if values.null_count else touched


@dataclass(frozen=True)
class _Grouping:
    """One call of :func:`groups`, with numbers for values, in their order.

    Attributes:
        files: in the order of their least values.
        lower, upper: int64[f] theirs.
        values: int64[v] those of changes, ascending, each once; scalars: they.
        touches_all: see there.
        share: rows of files from which on a group is full.
        most: values of one.
    """

    files: list[DataFile]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    values: NDArray[np.int64]
    scalars: pa.Array[Any]
    touches_all: bool
    share: int
    most: int

    @classmethod
    def of(
        cls, files: Sequence[DataFile], key: str, values: pa.ChunkedArray[Any], touches_all: bool, share: int, most: int
    ) -> _Grouping:
        """Give numbers to the values."""
        bounds = [file.lower[key] for file in files] + [file.upper[key] for file in files]
        shown = cast("pa.Array[Any]", pc.unique(comparable(values.drop_null())))  # of chunks, too, an array
        known = comparable(pa.chunked_array([bounds_of(bounds, values.type)]))
        ranks = pc.rank(pa.chunked_array([*known.chunks, shown]), tiebreaker="dense").to_numpy().astype(np.int64)
        lower, upper, changed = ranks[: len(files)], ranks[len(files) : len(bounds)], ranks[len(bounds) :]
        order, by_value = np.argsort(lower, kind="stable"), np.argsort(changed, kind="stable")
        return cls(
            files=[files[at] for at in order.tolist()],
            lower=lower[order],
            upper=upper[order],
            values=changed[by_value],
            scalars=shown.take(by_value),
            touches_all=touches_all,
            share=share,
            most=most,
        )

    def groups(self) -> Iterator[Group]:
        """Yield the blocks that are touched, as many together as a task takes."""
        above: pa.Scalar[Any] | None = None
        files: list[DataFile] = []
        first = done = 0
        for end, block in self._territories():
            files += block
            while end - first >= self.most and not files:
                first += self.most  # values that are new, and go to files of their own
                upto = self.scalars[first - 1]
                yield Group(above, upto, ())
                above = upto
            done = end
            if done > first and (done - first >= self.most or self._is_full(files)):
                upto = self.scalars[done - 1]
                yield Group(above, upto, tuple(files))
                above, first, files = upto, done, []
        if done > first or files:
            yield Group(above, None, tuple(files))

    def _is_full(self, files: Sequence[DataFile]) -> bool:
        return sum(file.size for file in files) >= GROUP_BYTES or sum(file.rows for file in files) >= self.share

    def _territories(self) -> Iterator[tuple[int, list[DataFile]]]:
        """Yield by block how many values are up to where the next one begins, and which of its files are concerned."""
        starts = self._block_starts()
        ends = [*starts[1:], len(self.files)]
        bounds = [int(np.searchsorted(self.values, self.lower[at], "left")) for at in ends[:-1]] + [len(self.values)]
        if not starts:
            yield len(self.values), []
            return
        begin = 0
        for start, end, bound in zip(starts, ends, bounds, strict=True):
            # New rows after a block are a matter of their own, but for those that a small file takes in.
            inside = int(np.searchsorted(self.values, self.upper[start:end].max(), "right"))
            yield min(max(inside, begin) + self.most, bound), self._touched(start, end, begin, bound)
            yield bound, []
            begin = bound

    def _block_starts(self) -> list[int]:
        if not self.files:
            return []
        before = np.maximum.accumulate(self.upper)[:-1]
        return [0, *(np.flatnonzero(self.lower[1:] > before) + 1).tolist()]

    def _touched(self, start: int, end: int, begin: int, bound: int) -> list[DataFile]:
        """Return files of a block that its values concern."""
        own = self.values[begin:bound]
        inside = np.searchsorted(own, self.upper[start:end], "right") > np.searchsorted(
            own, self.lower[start:end], "left"
        )
        touched = []
        for file, is_inside in zip(self.files[start:end], inside.tolist(), strict=True):
            if self.touches_all or is_inside or (len(own) and is_small(file)):
                touched.append(file)
        return touched


def bounds_of(values: Sequence[object], type: pa.DataType) -> pa.Array[Any]:
    """Return bounds of files as values of a column, which may have become wider since."""
    if type == pa.uuid():
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes for value in values], pa.binary(16)))  # type: ignore[attr-defined]
    return pa.array(values, type)
