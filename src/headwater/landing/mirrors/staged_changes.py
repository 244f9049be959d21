"""Changes of a mirror as tasks stage them, on their way to being merged: which kind of event each is, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.lakes.file_bounds import comparable
from headwater.lakes.history_rows import read_rows
from headwater.landing.mirrors.fold import CHANGED, GONE, NOTHING, PUT
from headwater.landing.tables.attached_rows import Departure
from headwater.landing.tables.change_rows import STAGED

PREIMAGE, POSTIMAGE = "update_preimage", "update_postimage"
"""The halves of an update: one follows the other."""


@dataclass(frozen=True)
class Staged:
    """Staged changes of a table, n rows in their order.

    Attributes:
        rows: they, or those of their columns that are not the source's.
        kind: uint8[n] of :mod:`headwater.landing.mirrors.fold`.
        moved_from: int64[n] of a new row whose old one was logged, the row of that one; else -1.
    """

    rows: pa.Table
    kind: NDArray[np.uint8]
    moved_from: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table) -> Staged:
        """Make events of rows as tasks stage them."""
        is_pre, is_post = _is(rows, PREIMAGE), _is(rows, POSTIMAGE)
        has_pre = np.zeros(len(rows), np.bool_)
        has_pre[1:] = is_pre[:-1] & is_post[1:]
        kind = np.full(len(rows), PUT, np.uint8)
        kind[is_post & ~has_pre] = CHANGED
        kind[is_pre | _is(rows, "delete")] = GONE
        kind[_is(rows, "truncate")] = NOTHING
        return cls(rows, kind, np.where(has_pre, np.arange(len(rows)) - 1, -1))

    @property
    def place(self) -> NDArray[np.int64]:
        """int64[n] ascending: four times the row's number, and two; the numbers before are of what comes before it."""
        return 4 * np.arange(len(self.kind)) + 2

    def kills(self, gone: Sequence[Departure]) -> dict[int, NDArray[np.int64]]:
        """Tell where all rows of a relation ended; see :data:`headwater.landing.mirrors.fold.Kills`.

        Args:
            gone: relations that took their rows with them.
        """
        ends: dict[int, set[int]] = {}
        relation, heap = (numbers_of(self.rows[STAGED[name]]) for name in ("_relation", "_heap"))
        place = self.place
        for at in np.flatnonzero(_is(self.rows, "truncate")).tolist():
            ends.setdefault(int(relation[at]), set()).add(int(place[at]))
        heaps, first = np.unique(heap, return_index=True)
        for at in first[heaps != 0].tolist():
            ends.setdefault(int(relation[at]), set()).add(int(place[at]) - 1)
        commits = numbers_of(self.rows[STAGED["_commit_lsn"]])
        for departure in gone:
            ends.setdefault(departure.relation, set()).add(place_behind(commits, departure.lsn))
        return {oid: np.array(sorted(places), np.int64) for oid, places in ends.items()}

    @property
    def moves_unchanged(self) -> bool:
        """A row that got another key has values that only the row under its old key has."""
        return bool((has_elements(self.rows[STAGED["_unchanged"]]) & (self.moved_from >= 0)).any())


@dataclass(frozen=True)
class GroupChanges:
    """The staged changes that concern a group of a mirror's files.

    Attributes:
        staged: they, n rows; and those that say when all rows of a relation ended.
        paths: of the files that have them; at: int64[n_p] of each, which of its rows they are, ascending.
    """

    staged: Staged
    paths: tuple[str, ...]
    at: tuple[NDArray[np.int64], ...]

    @classmethod
    def read(
        cls,
        paths: Sequence[str],
        columns: Sequence[str],
        key: str | None,
        above: pa.Scalar[Any] | None,
        upto: pa.Scalar[Any] | None,
    ) -> GroupChanges:
        """Read them file by file, as all of the window's may be many times as many.

        Args:
            paths: of the window's files, in their order; one at least.
            columns: those that say what a change is, and the first one of the key.
            key, above, upto: that column, and see :class:`~headwater.landing.mirrors.merge_task.Merge`.
        """
        parts, at = [], []
        follows = False
        for path in paths:
            rows = read_rows(path, columns)
            own = np.ones(len(rows), np.bool_)
            if key is not None and (above is not None or upto is not None):
                own = _concerned(rows, in_range(rows[key], above, upto), follows)
            follows = len(rows) > 0 and bool(own[-1]) and rows[STAGED["_change_type"]][-1].as_py() == PREIMAGE
            at.append(np.flatnonzero(own))
            parts.append(rows if own.all() else rows.filter(pa.array(own)))
        return cls(Staged.of(pa.concat_tables(parts)), tuple(paths), tuple(at))

    def whole(self, picks: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Yield changes with all their columns, file by file.

        Args:
            picks: int64[k] ascending, which rows of :attr:`staged`.
        """
        first = 0
        for path, at in zip(self.paths, self.at, strict=True):
            own = picks[np.searchsorted(picks, first) : np.searchsorted(picks, first + len(at))] - first
            if len(own):
                yield read_rows(path).take(at[own])
            first += len(at)


def _concerned(rows: pa.Table, is_own: NDArray[np.bool_], follows: bool) -> NDArray[np.bool_]:
    """Tell of changes whether a group has to know them: its own, the other half of an update, first rows of a heap.

    Args:
        rows: of a file; is_own: bool[n] whether their keys are the group's; those of a truncate, which are null, are.
        follows: the row before the first is the old one of an update, and the group's.
    """
    concerned = is_own.copy()
    is_pair = _is(rows, PREIMAGE)[:-1] & _is(rows, POSTIMAGE)[1:]
    concerned[:-1] |= is_pair & is_own[1:]
    concerned[1:] |= is_pair & is_own[:-1]
    if len(rows):
        concerned[0] |= follows
        concerned[-1] |= bool(_is(rows.slice(len(rows) - 1), PREIMAGE)[0])
    heaps, first = np.unique(numbers_of(rows[STAGED["_heap"]]), return_index=True)
    concerned[first[heaps != 0]] = True
    return concerned


def place_behind(commits: NDArray[np.int64], lsn: int) -> int:
    """Return the place after all rows of a commit."""
    return 4 * int(np.searchsorted(commits, lsn, "right"))


def has_elements(lists: pa.ChunkedArray[Any]) -> NDArray[np.bool_]:
    """Tell of lists whether they have any."""
    has_elements: NDArray[np.bool_] = pc.list_value_length(lists).to_numpy() > 0
    return has_elements


def _is(rows: pa.Table, type: str) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = pc.equal(rows[STAGED["_change_type"]], pa.scalar(type)).to_numpy()
    return mask


def numbers_of(column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    """Return a column of numbers."""
    values: NDArray[np.int64] = column.to_numpy()
    return values


def in_range(
    values: pa.ChunkedArray[Any], above: pa.Scalar[Any] | None, upto: pa.Scalar[Any] | None
) -> NDArray[np.bool_]:
    """Tell of values in the first column of a key whether they are of a group; null is of each.

    Args:
        values: they; above, upto: see :class:`Merge`.
    """
    inside = np.ones(len(values), np.bool_)
    values = comparable(values)
    for bound, compare in ((above, pc.greater), (upto, pc.less_equal)):
        if bound is not None:
            inside &= compare(values, bound).fill_null(True).to_numpy()
    return inside


def staged_rows(paths: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
    """Return staged changes, in their order.

    Args:
        paths: of the files; one at least.
        columns: which; None for all.
    """
    return pa.concat_tables([read_rows(path, columns) for path in paths])
