"""Step 1: the index of a window, one task per run of segments.

Tasks run anywhere that sees the WAL directory; each makes a few :class:`WalIndex` values, small beside their WAL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headwater.catalog.snapshot import xid_precedes
from headwater.catalog.store import CatalogStore
from headwater.errors import WalError
from headwater.reorder.earlier import xids_told
from headwater.reorder.merge import merge_indexes
from headwater.rmgr.index import Request, WalIndex, build_index
from headwater.wal.directory import WalDirectory
from headwater.wal.frames import read_frames
from headwater.wal.page_layout import LONG_HEADER
from headwater.wal.stretches import read_stretches

RUN_BYTES = 192 << 20
"""Upper bound of the WAL bytes of one index task."""

RUNS_PER_CORE = 2
"""Runs for each task that can run at once: where the log really ends is not known when it is cut."""


def index_start(directory: WalDirectory, store: CatalogStore) -> int:
    """Where the index begins: at the catalog's LSN, or before transactions began that were prepared then.

    The WAL is read backwards, segment by segment, as long as it goes on in one piece.

    Args:
        directory: the WAL.
        store: the catalog.
    """
    xids = [one.xid for one in store.prepared if not one.changes_catalog]
    found, hi = store.start_lsn, store.start_lsn
    while xids and store.is_shutdown and (segment := directory.segment_at(hi - 1)) is not None:
        try:
            told = list(xids_told(read_frames(directory, segment.start_lsn, hi), store.major))
        except WalError:
            break
        for lsn, next_xid in reversed(told):
            begun_later = [xid for xid in xids if not xid_precedes(xid, next_xid)]
            if begun_later:
                found = lsn
                xids = [xid for xid in xids if xid not in begun_later]
        hi = segment.start_lsn
    return found


@dataclass(frozen=True)
class IndexTask:
    """One run: the records that start in ``[lo, hi)``. Pickles; runs once per window."""

    directory: WalDirectory
    lo: int
    hi: int
    request: Request

    def run(self) -> list[WalIndex]:
        """Frame, verify and index the run; its index in pieces, in LSN order.

        Raises:
            WalError: a segment, page or record is not what it should be.
        """
        pieces = read_stretches(self.directory, self.lo, self.hi)
        return [build_index(frames, lo, hi, self.request) for lo, hi, frames in pieces]


def index_tasks(directory: WalDirectory, lo: int, end: int | None, request: Request, parallel: int) -> list[IndexTask]:
    """Cut a window into runs of whole segments.

    Args:
        directory: the WAL.
        lo: LSN of the first record.
        end: LSN where the window ends, None for the end of the log.
        request: what to look for.
        parallel: tasks that can run at once.

    Returns:
        at least one task.
    """
    last = directory.segments[-1].start_lsn + directory.segment_size
    # The server still reads a record whose page begins before the end: with its header it may start 40 bytes later.
    hi = last if end is None else min(last, max(end + LONG_HEADER, lo + 1))
    return [IndexTask(directory, a, b, request) for a, b in _runs(lo, hi, directory.segment_size, parallel)]


def _runs(lo: int, hi: int, segment_size: int, parallel: int) -> Iterator[tuple[int, int]]:
    segments = -(-(hi - lo) // segment_size)
    per_run = max(1, min(RUN_BYTES // segment_size, -(-segments // (RUNS_PER_CORE * parallel))))
    at = lo
    while at < hi:
        cut = min(hi, (at // segment_size + per_run) * segment_size)
        yield at, cut
        at = cut


def index_in_threads(tasks: list[IndexTask], threads: int) -> WalIndex:
    """Run the tasks in this process, for readers that have no Spark context (the data source's planner)."""
    with ThreadPoolExecutor(threads) as pool:
        run: Callable[[IndexTask], list[WalIndex]] = IndexTask.run
        return merge_indexes([piece for pieces in pool.map(run, tasks) for piece in pieces])
