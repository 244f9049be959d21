"""Filtered WAL, written into the ``pg_wal`` of a standby that looks there for more again and again.

In: the WAL of the source. Out: segments that are filled up to the end of a record, and empty after it. The standby
stops at that end: so it stands exactly where it is told to, also between two records of one page.

A file begins at a segment's start. Where a timeline begins inside of a segment, the new file has what was written in
that of its parent.

PostgreSQL: xlogrecovery.c (WaitForWALToBecomeAvailable: XLOG_FROM_PG_WAL).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.errors import SegmentError
from headwater.local_servers.server_user import give_to_server
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.segment_files import segment_name
from headwater.wal.segments.segment_reader import open_segment
from headwater.walsender.catalog_server.filtered_wal import SystemFiles, filter_wal


class WalFeed:
    """The WAL of a standby, and where it ends.

    Args:
        place: the standby's ``pg_wal``.
        start: LSN of a record, with which the standby begins.
        segment_size: bytes.

    Attributes:
        end: LSN up to which WAL was written.
        passed_over: files whose records the standby was not given though they were made in the WAL, as (database,
            number).
        hides_role: whether the role that stands in for others may not be able to log in any more.
    """

    def __init__(self, place: Path, start: int, segment_size: int) -> None:
        self._place, self._segment_size = place, segment_size
        self._written = start - start % segment_size
        self.end = start
        self.passed_over: frozenset[tuple[int, int]] = frozenset()
        self.hides_role = False

    def write(self, wal: WalDirectory, until: int, files: SystemFiles) -> None:
        """Write WAL up to the end of the last record that starts before an LSN.

        Args:
            wal: of the source; until: that LSN; files: whose records stay.

        Raises:
            WalError: it is damaged or missing.
        """
        for _, _, frames in read_stretches(wal, self.end, until):
            if not len(frames.lsns):
                continue
            stop = int(frames.end_lsns[-1])
            raw = _bytes_between(wal, self._written, stop)
            passed = filter_wal(frames, wal.major, wal.segment_size, files, raw, self._written)
            self.passed_over |= passed.made
            self.hides_role |= passed.hides_role
            self._write(wal, raw)
            self._written = stop
            self.end = stop

    def forget(self) -> None:
        """Remove the segments before the one that the WAL that was written ends in; the standby has replayed them."""
        last = segment_name(0, self.end // self._segment_size, self._segment_size)[8:]
        for file in self._place.glob("?" * 24):
            if file.name[8:] < last:
                file.unlink()

    def _write(self, wal: WalDirectory, raw: NDArray[np.uint8]) -> None:
        """Write bytes behind those that were written, each into its segment."""
        lsn, done = self._written, 0
        while done < len(raw):
            room = self._segment_size - (lsn + done) % self._segment_size
            self._write_into(wal, lsn + done, raw[done : done + room])
            done += room

    def _write_into(self, wal: WalDirectory, lsn: int, data: NDArray[np.uint8]) -> None:
        number = lsn // self._segment_size
        file = self._place / segment_name(_timeline(wal, number), number, self._segment_size)
        if not file.exists():
            self._begin(file)
        with file.open("r+b") as opened:
            opened.seek(lsn % self._segment_size)
            opened.write(data.data)

    def _begin(self, file: Path) -> None:
        """Make a segment's file, from that of the timeline before, if there is one."""
        others = sorted(self._place.glob(f"????????{file.name[8:]}"))
        if others:
            shutil.copyfile(others[-1], file)
        else:
            with file.open("wb") as made:
                made.truncate(self._segment_size)
        give_to_server(file)


def _timeline(wal: WalDirectory, number: int) -> int:
    segment = wal.segments.numbered(number)
    if segment is None:
        raise wal.missing(number)
    return segment.timeline


def _bytes_between(wal: WalDirectory, lo: int, hi: int) -> NDArray[np.uint8]:
    """Read the bytes of the WAL.

    Raises:
        SegmentError: they are not there.
    """
    data = np.empty(hi - lo, np.uint8)
    for segment in wal.covering(lo, hi):
        low, high = max(lo, segment.start_lsn), min(hi, segment.start_lsn + wal.segment_size)
        part = memoryview(data.data)[low - lo : high - lo]
        with open_segment(segment, wal.segment_size, high - segment.start_lsn) as reader:
            if reader.read_into(part, low - segment.start_lsn) < len(part):
                raise SegmentError("WAL segment is truncated", lsn=low, file=segment.path)
    return data
