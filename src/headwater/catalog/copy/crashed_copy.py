"""The reach of a crashed server's files: the end of the WAL that it had written.

In: the copy's own ``pg_wal``. Out: where recovery of the copy would end. A server writes WAL before the pages that it
changes, and before it cuts off or removes a file. So nothing in the copy is of after that end, and everything in it can
be: a page, a row of ``pg_xact``, a file that is gone. PostgreSQL: xlogrecovery.c (ReadRecord, until a record is not
whole).

Known gap: a ``pg_wal`` that is not of the same moment, or that lacks its end, is not recognized, but by pages that are
younger than it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.errors import SegmentError
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory


@dataclass(frozen=True)
class WrittenWal:
    """The end of a server's WAL.

    Attributes:
        end_lsn: the end of the last whole record; timeline: that record's timeline.
    """

    end_lsn: int
    timeline: int


def written_wal(place: Path, start_lsn: int) -> WrittenWal | None:
    """Find the end of the WAL in a ``pg_wal``; None if there is no WAL.

    Args:
        place: the directory.
        start_lsn: the start of a record that must be in it.

    Raises:
        WalError: the WAL is damaged.
    """
    try:
        directory = WalDirectory.scan(place)
    except SegmentError:
        return None
    if directory.segment_at(start_lsn) is None:
        return None
    end = _end_of_records(directory, start_lsn)
    return WrittenWal(end, directory.timeline_at(end))


def _end_of_records(directory: WalDirectory, start_lsn: int) -> int:
    """Find the end of the last whole record, which may begin, or be cut off, in a segment before the last one."""
    for segment in reversed(directory.segments):
        lo = max(segment.start_lsn, start_lsn)
        frames = read_frames(directory, lo)
        if len(frames.end_lsns):
            return int(frames.end_lsns[-1])
        if lo == start_lsn:
            break
    return start_lsn
