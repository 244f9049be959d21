"""Directories of databases that the server has copied as files, without the log: where a file lay before.

In: the WAL since a copy of a cluster. Out: :class:`DirectoryCopy`, in LSN order. Nobody writes to a database that is
copied or moved until its record is written, so a copy is as of its record: before it a file's pages are those of the
directory that was copied. A file that was made later has the same number as none there.

A move that failed after its record leaves the files where they were, which is where the catalog says that they are.

PostgreSQL: dbcommands.c (CreateDatabaseUsingFileCopy, movedb, dbase_redo).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.existing.page_history import Locator
from headwater.rmgr.dbase import CREATE_FILE_COPY, DatabaseCopy, parse_file_copy
from headwater.rmgr.registry import DBASE
from headwater.wal.layout import INFO_AT, RMID_AT, XLR_RMGR_INFO_MASK
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory


@dataclass(frozen=True)
class DirectoryCopy:
    """A copy of a database's directory in one tablespace.

    Attributes:
        lsn: of its record; copy: what was copied, and where to.
    """

    lsn: int
    copy: DatabaseCopy


def copies_for(
    directory: WalDirectory, copy: DataDirectory, stretch: tuple[int, int], files: Iterable[Locator]
) -> tuple[DirectoryCopy, ...]:
    """Find the copies by which files may have come; the WAL is read for that if the cluster's copy lacks their place.

    Args:
        directory: the WAL; copy: of the cluster.
        stretch: LSNs between which WAL is read; files: that are wanted.

    Raises:
        WalError: the WAL is missing or damaged.
    """
    lacking = any(not copy.has_database(file[1], file[0]) and not copy.has_heap(file) for file in files)
    return directory_copies(directory, *stretch) if lacking else ()


def directory_copies(directory: WalDirectory, lo: int, hi: int) -> tuple[DirectoryCopy, ...]:
    """Return all copies whose records start in ``[lo, hi)``.

    Raises:
        WalError: the WAL is missing or damaged.
    """
    return tuple(made for _, _, frames in read_stretches(directory, lo, hi) for made in copies_in(frames, directory))


def copies_in(frames: Frames, directory: WalDirectory) -> Iterator[DirectoryCopy]:
    """Give the copies that records tell of.

    Raises:
        RecordError: one is malformed.
    """
    info = frames.data[frames.positions + INFO_AT] & XLR_RMGR_INFO_MASK
    is_copy = (frames.data[frames.positions + RMID_AT] == DBASE) & (info == CREATE_FILE_COPY)
    for index in np.flatnonzero(is_copy).tolist():
        start, end = int(frames.lsns[index]), int(frames.end_lsns[index])
        record = parse_record(frames.record(index), start, end, directory.major)
        yield DirectoryCopy(start, parse_file_copy(record.main_data, start))


def place_at(file: Locator, copies: Sequence[DirectoryCopy], lsn: int) -> Locator:
    """Return where the pages of a file lay at an LSN: the copies that came behind it were not made yet."""
    for made in reversed(copies):
        copy = made.copy
        if made.lsn > lsn and file[:2] == (copy.tablespace, copy.database):
            file = copy.source_tablespace, copy.source_database, file[2]
    return file
