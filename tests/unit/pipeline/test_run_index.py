"""Windows of runs: how large they are, that nothing is left out, and which runs are indexed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import PageError
from headwater.pipeline.windows.index_job import IndexTask
from headwater.pipeline.windows.run_index import RunIndexer, WindowBounds
from headwater.rmgr.index.wal_index import Request, WalIndex, no_index
from headwater.wal.records.frames import EndOfWal
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.segment_files import SegmentFiles

SEGMENT = 1 << 20
DIRECTORY = WalDirectory((), SEGMENT, 1, 16, SegmentFiles((), SEGMENT, ()))
REQUEST = Request((5,), (), 16)


class Indexing:
    """A stand-in for the tasks: an index without rows of each run.

    Args:
        end: LSN where the log ends; broken_at: LSN of a damaged page.

    Attributes:
        running: jobs that have begun and not ended.
    """

    def __init__(self, end: int | None = None, broken_at: int | None = None) -> None:
        self.end, self.broken_at = end, broken_at
        self.asked: list[IndexTask] = []
        self.running = 0

    @contextmanager
    def __call__(self, tasks: Sequence[IndexTask]) -> Iterator[Iterator[list[WalIndex]]]:
        self.asked += tasks
        self.running += 1
        try:
            yield ([self._index(task)] for task in tasks)
        finally:
            self.running -= 1

    def _index(self, task: IndexTask) -> WalIndex:
        if self.broken_at is not None and task.lo <= self.broken_at < task.hi:
            raise PageError("broken")
        index = replace(no_index(task.lo), hi=task.hi)
        if self.end is not None and self.end < task.hi:
            return replace(index, end=EndOfWal(max(task.lo, self.end), "zero"))
        return index


def windows(indexing: Indexing, lo: int, hi: int, bounds: WindowBounds, **more: Any) -> list[list[tuple[int, int]]]:
    indexer = RunIndexer(DIRECTORY, lo, hi, indexing, 2, bounds)
    all_runs, is_last = [], False
    try:
        while not is_last:
            runs, is_last = indexer.take(REQUEST, more.get("is_enough", lambda _runs: True))
            all_runs.append([(run.task.lo, run.task.hi) for run in runs])
    finally:
        indexer.close()
        assert not indexing.running
    return all_runs


@given(st.integers(0, 40 * SEGMENT), st.integers(0, 60 * SEGMENT), st.integers(1, 30 * SEGMENT))
def test_windows_have_all_of_the_wal_once(lo: int, length: int, size: int) -> None:
    taken = windows(Indexing(), lo, lo + length, WindowBounds(size))
    places = [lo, *(hi for runs in taken for _, hi in runs)]
    assert [low for runs in taken for low, _ in runs] == places[:-1]
    assert places[-1] == lo + length
    for runs in taken:
        assert len(runs) <= 1 or runs[-1][1] - runs[0][0] <= size


def test_nothing_follows_the_end_of_the_log() -> None:
    taken = windows(Indexing(end=5 * SEGMENT + 10), SEGMENT, 40 * SEGMENT, WindowBounds(2 * SEGMENT))
    last = taken[-1][-1]
    assert last[0] <= 5 * SEGMENT + 10 < last[1]


def test_a_window_is_as_large_as_it_must_be() -> None:
    taken = windows(
        Indexing(), 0, 20 * SEGMENT, WindowBounds(SEGMENT), is_enough=lambda runs: runs[-1].task.hi >= 9 * SEGMENT
    )
    assert taken[0][-1][1] >= 9 * SEGMENT
    assert all(len(runs) == 1 for runs in taken[1:])


def test_runs_that_lack_something_are_indexed_anew() -> None:
    indexing = Indexing()
    indexer = RunIndexer(DIRECTORY, 0, 8 * SEGMENT, indexing, 2, WindowBounds())
    runs, _ = indexer.take(REQUEST, lambda _runs: True)
    before = len(indexing.asked)
    file = (1663, 5, 20000)
    more = replace(REQUEST, catalogs=(file,), cuts=(SEGMENT + 100,))
    again = indexer.again(runs, more, {file: 5 * SEGMENT})
    indexer.close()
    anew = {task.lo for task in indexing.asked[before:]}
    assert anew == {
        run.task.lo for run in runs if run.task.hi > 5 * SEGMENT or run.task.lo < SEGMENT + 100 < run.task.hi
    }
    assert [run.task.request == more for run in again] == [run.task.lo in anew for run in again]


def test_a_database_that_is_created_is_indexed_from_there_on() -> None:
    indexing = Indexing()
    indexer = RunIndexer(DIRECTORY, 0, 8 * SEGMENT, indexing, 2, WindowBounds())
    runs, _ = indexer.take(REQUEST, lambda _runs: True)
    before = len(indexing.asked)
    both = replace(REQUEST, databases=(5, 6), catalogs=((1663, 6, 1259),))
    again = indexer.again(runs, both, {6: 5 * SEGMENT, (1663, 6, 1259): 5 * SEGMENT + 100})
    indexer.close()
    anew = {task.lo for task in indexing.asked[before:]}
    assert anew == {run.task.lo for run in runs if run.task.hi > 5 * SEGMENT}
    assert [run.task.request == both for run in again] == [run.task.lo in anew for run in again]


def test_jobs_end_where_a_pass_is_given_up_half_way() -> None:
    indexing = Indexing()
    indexer = RunIndexer(DIRECTORY, 0, 2000 * SEGMENT, indexing, 2, WindowBounds(4 * SEGMENT))
    indexer.take(REQUEST, lambda _runs: True)
    assert indexing.running
    indexer.close()
    assert not indexing.running


def test_jobs_end_where_a_later_run_is_damaged() -> None:
    indexing = Indexing(broken_at=20 * SEGMENT)
    with pytest.raises(PageError):
        windows(indexing, 0, 2000 * SEGMENT, WindowBounds(4 * SEGMENT))
    assert indexing.asked
