"""Step 1: the index of a window, one task per run of segments.

Tasks run anywhere that sees the WAL directory; each makes a few :class:`WalIndex` values, small beside their WAL.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from headwater.catalog.snapshot import xid_precedes
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import WalError
from headwater.reorder.commits.prepared_before_catalog import xids_told
from headwater.rmgr.index.wal_index import Locator, Request, WalIndex, build_index
from headwater.wal.records.frames import read_frames
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory

RUN_BYTES = 64 << 20
"""Upper bound of the WAL bytes of one index task."""

RUNS_PER_CORE = 2
"""Runs for each task that can run at once: where the log really ends is not known when it is cut."""

TASKS_PER_THREAD = 2

Indexing = AbstractContextManager[Iterator[list[WalIndex]]]
"""Tasks that run from the beginning of a ``with`` block to its end at the latest; gives the pieces of one after the
other, in their order, as they are done. Iterating raises what a task raised."""


def index_start(directory: WalDirectory, store: CatalogStore) -> int:
    """Return the LSN where the index begins: the catalog's, or one before transactions began that were prepared then.

    The WAL is read backwards, segment by segment, as long as it goes on in one piece.

    Args:
        directory: the WAL.
        store: the catalog.
    """
    xids = [prepared.xid for prepared in store.origin.prepared if not prepared.changes_catalog]
    start, hi = store.start_lsn, store.start_lsn
    while xids and store.origin.is_shutdown and (segment := directory.segment_at(hi - 1)) is not None:
        try:
            counters = list(xids_told(read_frames(directory, segment.start_lsn, hi), store.major))
        except WalError:
            break
        for lsn, next_xid in reversed(counters):
            begun_later = [xid for xid in xids if not xid_precedes(xid, next_xid)]
            if begun_later:
                start = lsn
                xids = [xid for xid in xids if xid not in begun_later]
        hi = segment.start_lsn
    return start


@dataclass(frozen=True)
class IndexTask:
    """One run: the records that start in ``[lo, hi)``. Pickles; runs once per window."""

    directory: WalDirectory
    lo: int
    hi: int
    request: Request

    def answers(self, request: Request, since: Mapping[Locator | int, int]) -> bool:
        """Tell whether the run's index has all that a request asks for.

        Args:
            request: the request.
            since: LSNs before which nothing is in the WAL about some of the files, and of the databases, by OID.
        """
        new: set[Locator | int] = {*request.catalogs, *request.databases}
        lacking = new.difference(self.request.catalogs, self.request.databases)
        files = [file for file in lacking if since.get(file, 0) < self.hi]
        cuts = [cut for cut in set(request.cuts).difference(self.request.cuts) if self.lo < cut < self.hi]
        detailed = (request.detailed_in(self.lo, self.hi), self.request.detailed_in(self.lo, self.hi))
        return not files and not cuts and detailed[0] == detailed[1]

    def run(self) -> list[WalIndex]:
        """Frame, verify and index the run; its index in pieces, in LSN order.

        Raises:
            WalError: a segment, page or record is not what it should be.
        """
        pieces = read_stretches(self.directory, self.lo, self.hi)
        return [build_index(frames, lo, hi, self.request) for lo, hi, frames in pieces]


def cut_runs(lo: int, hi: int, segment_size: int, parallel: int) -> Iterator[tuple[int, int]]:
    """Cut a stretch of WAL into runs of whole segments, but for its ends.

    Args:
        lo: LSN where it begins; hi: LSN where it ends.
        segment_size: bytes of a segment.
        parallel: tasks that can run at once.
    """
    segments = -(-(hi - lo) // segment_size)
    per_run = max(1, min(RUN_BYTES // segment_size, -(-segments // (RUNS_PER_CORE * parallel))))
    at = lo
    while at < hi:
        cut = min(hi, (at // segment_size + per_run) * segment_size)
        yield at, cut
        at = cut


@contextmanager
def index_in_threads(tasks: Sequence[IndexTask], threads: int) -> Iterator[Iterator[list[WalIndex]]]:
    """Run the tasks in this process, for readers that have no Spark context (the data source's planner).

    Only so many are ahead of what was taken that threads have work: what waits is in memory.

    Args:
        tasks: them; threads: how many work.
    """
    ahead = TASKS_PER_THREAD * threads
    with ThreadPoolExecutor(threads) as pool:
        begun = deque(pool.submit(task.run) for task in tasks[:ahead])

        def in_order() -> Iterator[list[WalIndex]]:
            for number in range(len(tasks)):
                pieces = begun.popleft().result()
                begun.extend(pool.submit(task.run) for task in tasks[number + ahead : number + ahead + 1])
                yield pieces

        try:
            yield in_order()
        finally:
            pool.shutdown(cancel_futures=True)
