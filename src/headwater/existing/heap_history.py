"""The changes of heap pages in the WAL between a copy's first LSN and another one, gone through by tasks.

In: the WAL and the files that are wanted. Out: a history for each run of WAL, in a directory that the tasks share
with the driver, and what became of transactions. It is as large as the wanted files' part of that WAL.

Files whose directory was copied since, without the log, are followed from where they lay before
(:mod:`headwater.existing.directory_copies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.transaction_status import TransactionStatus, transaction_status
from headwater.errors import CatalogError
from headwater.existing.control_history import ControlHistory, check_levels, next_xid_at_start
from headwater.existing.directory_copies import DirectoryCopy, place_at
from headwater.existing.page_history import Fates, HistoryFile, HistoryScan, Locator
from headwater.jobs.engine import Engine
from headwater.jobs.outcome import Progress
from headwater.option_names import option, ways
from headwater.pipeline.windows.index_job import cut_runs
from headwater.rmgr.dbase import CREATE_FILE_COPY, parse_file_copy
from headwater.rmgr.index.index_codes import ABORT, ABORT_PREPARED, COMMIT, COMMIT_PREPARED
from headwater.rmgr.index.index_rows import EndTable
from headwater.rmgr.index.wal_index import Request, WalIndex, build_index
from headwater.rmgr.registry import DBASE
from headwater.wal.layout import INFO_AT, RMID_AT, XLR_RMGR_INFO_MASK
from headwater.wal.records.record import parse_record
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class HistoryTask:
    """A run of WAL: the records that start in ``[lo, hi)``; pickles.

    Attributes:
        directory: the WAL.
        files: that are wanted, where they lie in this run.
        found: where the history goes.
        copies: LSNs of records of directories that were copied, which are followed.
    """

    directory: WalDirectory
    lo: int
    hi: int
    files: tuple[Locator, ...]
    found: HistoryFile
    copies: frozenset[int] = frozenset()

    def run(self) -> RunHistory:
        """Go through the run.

        Raises:
            HeadwaterError: a record stands in the way.
        """
        ends: list[EndTable] = []
        control = ControlHistory(self.directory.major)
        with self.found.payload.open("wb") as payload:
            scan = HistoryScan(self.files, self.directory.major, payload)
            for lo, hi, frames in read_stretches(self.directory, self.lo, self.hi):
                scan.add(frames)
                index = build_index(frames, lo, hi, Request((), (), self.directory.major))
                self._check_moves(index)
                control.add(index)
                ends.append(index.rows.ends)
        history = scan.finish()
        self.found.save(history)
        return RunHistory(self.found, history.cuts, history.multis, *_ended(ends), control)

    def _check_moves(self, index: WalIndex) -> None:
        """Check that no files that are wanted were copied to another place without the log.

        Raises:
            CatalogError: they were.
        """
        databases = {database for _, database, _ in self.files}
        for entry in index.kept:
            if entry.data[RMID_AT] != DBASE or entry.data[INFO_AT] & XLR_RMGR_INFO_MASK != CREATE_FILE_COPY:
                continue
            if entry.lsn in self.copies:
                continue
            record = parse_record(entry.data, entry.lsn, entry.end_lsn, self.directory.major)
            if (copy := parse_file_copy(record.main_data, record.lsn)).database in databases:
                raise CatalogError(
                    f"database {copy.database} was moved to another tablespace: its files were copied without the log",
                    lsn=record.lsn,
                    hint=ways("take a base backup behind that", f"land changes only ({option('snapshot', 'never')})"),
                )


@dataclass(frozen=True, eq=False)
class RunHistory:
    """The report of a task on its run.

    Attributes:
        found: the history; cuts, multis: see :class:`headwater.existing.page_history.History`.
        xids: int64[n] low halves of transactions and subtransactions that have ended; is_commit: bool[n] how.
        control: what its control records say.
    """

    found: HistoryFile
    cuts: Int64s
    multis: Int64s
    xids: Int64s
    is_commit: NDArray[np.bool_]
    control: ControlHistory


def _ended(tables: Sequence[EndTable]) -> tuple[Int64s, NDArray[np.bool_]]:
    xids, commits = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for ends in tables:
        own = np.flatnonzero(np.isin(ends.kind, (COMMIT, COMMIT_PREPARED, ABORT, ABORT_PREPARED)))
        is_commit = np.isin(np.asarray(ends.kind)[own], (COMMIT, COMMIT_PREPARED))
        subs = ends.subs[own]
        xids += [np.asarray(ends.xid)[own].astype(np.int64), subs.values]
        commits += [is_commit, np.repeat(is_commit, subs.counts)]
    return np.concatenate(xids), np.concatenate(commits)


@dataclass(frozen=True, eq=False)
class HeapHistory:
    """The history of heap pages, all of it; pickles.

    Attributes:
        runs: in LSN order; cuts: int64[n, 3].
        place: where arrays are that tasks share.
        oldest: 64-bit xid of the first transaction that is known.
        lost: int64[g, 2] first and last of those after it that are not, counted from it.
    """

    runs: tuple[HistoryFile, ...]
    cuts: Int64s
    place: Path
    oldest: int
    lost: Int64s

    def blocks(self, file: int) -> int:
        """Return the number of pages that a file has at least, as the log has changed the last of them."""
        return max((run.blocks(file) for run in self.runs), default=0)

    def has_made(self, file: int) -> bool:
        """Tell whether the log has all pages of a file: it was made, or cut off before its first page."""
        return bool(((self.cuts[:, 0] == file) & (self.cuts[:, 1] == 0)).any())

    def fates(self) -> Fates:
        """Load the outcome of transactions, in a task."""
        bits = np.load(self.place / "status.npy")
        multis = np.load(self.place / "multis.npy")
        return Fates(
            bits,
            np.int64(self.oldest & 0xFFFFFFFF),
            np.int64(4 * len(bits)),
            self.lost,
            multis[0].copy(),
            multis[1].copy(),
        )


def heap_history(
    engine: Engine,
    directory: WalDirectory,
    copy: DataDirectory,
    stretch: tuple[int, int],
    files: Sequence[Locator],
    place: Path,
    progress: Progress | None,
    copies: Sequence[DirectoryCopy] = (),
) -> HeapHistory:
    """Go through WAL.

    Args:
        engine: runs the tasks.
        directory: the WAL; copy: of the cluster.
        stretch: LSNs, of the copy's first record and after the last one.
        files: that are wanted.
        place: a directory, empty.
        progress: hears of tasks.
        copies: of directories, by which the files may have come.

    Raises:
        HeadwaterError: WAL is missing, or a record stands in the way.
    """
    tasks = history_tasks(directory, stretch, files, place, engine.parallel, copies)
    return gathered_history(copy, engine.run_tasks("history of pages", HistoryTask.run, tasks, progress), place)


def history_tasks(
    directory: WalDirectory,
    stretch: tuple[int, int],
    files: Sequence[Locator],
    place: Path,
    parallelism: int,
    copies: Sequence[DirectoryCopy] = (),
) -> list[HistoryTask]:
    """Return the tasks of :func:`heap_history`; so many of them at once."""
    followed = frozenset(copy.lsn for copy in copies)
    return [
        HistoryTask(
            directory=directory,
            lo=low,
            hi=high,
            files=tuple(place_at(file, copies, low) for file in files),
            found=HistoryFile.named(place, number),
            copies=followed,
        )
        for number, (low, high) in enumerate(_runs(directory, stretch, parallelism, copies))
    ]


def _runs(
    directory: WalDirectory, stretch: tuple[int, int], parallelism: int, copies: Sequence[DirectoryCopy]
) -> Iterator[tuple[int, int]]:
    """Cut WAL into runs; each directory is copied by the first record of one."""
    lo, hi = stretch
    for cut in [*(copy.lsn for copy in copies), hi]:
        if lo < cut:
            yield from cut_runs(lo, cut, directory.segment_size, parallelism)
            lo = cut


def gathered_history(copy: DataDirectory, runs: Sequence[RunHistory], place: Path) -> HeapHistory:
    """Join what :func:`history_tasks` have found, with what became of transactions.

    Raises:
        CatalogError: the copy's ``pg_xact`` cannot be read.
        WalError: rows were written without the log.
    """
    check_levels(copy, [run.control for run in runs])
    status = _status(copy, runs)
    multis = np.concatenate([np.empty((0, 2), np.int64), *(run.multis for run in runs)])
    np.save(place / "status.npy", status.bits)
    np.save(place / "multis.npy", multis[np.argsort(multis[:, 0], kind="stable")].T.copy())
    cuts = np.concatenate([np.empty((0, 3), np.int64), *(run.cuts for run in runs)])
    lost = status.lost - status.oldest
    return HeapHistory(tuple(run.found for run in runs), cuts, place, status.oldest, lost)


def _status(copy: DataDirectory, runs: Sequence[RunHistory]) -> TransactionStatus:
    xids = np.concatenate([np.empty(0, np.int64), *(run.xids for run in runs)])
    is_commit = np.concatenate([np.empty(0, np.bool_), *(run.is_commit for run in runs)])
    begun = next_xid_at_start(copy, [run.control for run in runs])
    return transaction_status(copy.status_files(), copy.control.next_xid, xids, is_commit, begun)
