"""A directory that gets WAL while it is read: a server's ``pg_wal``, or an archive.

Looked at again and again, so what lies before the WAL that is still needed is not opened. Segments come and go between
the moment they are listed and the moment they are opened: then it is looked at once more.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.errors import SegmentError, warn
from headwater.wal.layout import LONG_HEADER
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from headwater.wal.segments.segment_files import segment_name

_LOOKS = 3


class GrowingDirectory:
    """Looks at a directory.

    Args:
        source: the directory, or several places as one.
    """

    def __init__(self, source: WalSource | str) -> None:
        self._source = source
        self._segment_size: int | None = None

    def look(self, needed: int | None) -> WalDirectory:
        """List the segments that are there now.

        Args:
            needed: LSN from which on WAL is needed; segments before it may be left out. None for all.

        Raises:
            SegmentError: as :meth:`WalDirectory.scan`.
        """
        first = ""
        if needed is not None and self._segment_size is not None:
            first = segment_name(1, max(needed - 1, 0) // self._segment_size, self._segment_size)
        for _ in range(_LOOKS - 1):
            try:
                return self._scan(first)
            except SegmentError:
                first = ""  # What is wrong with the whole of it says more.
        return self._scan(first)

    def _scan(self, first: str) -> WalDirectory:
        directory = WalDirectory.scan(self._source, first=first, is_growing=True)
        self._segment_size = directory.segment_size
        return directory


def unbroken(directory: WalDirectory, lsn: int) -> WalDirectory:
    """Leave out of a directory what follows a segment that is still to come: archives may get a later one first.

    Args:
        directory: the WAL.
        lsn: where a record ended; what is missing before it is not to come.
    """
    size, segments = directory.segment_size, directory.segments
    number = max(lsn // size, segments[0].number)
    for run in segments.runs:
        if run.first <= number < run.first + run.count:
            number = run.first + run.count
    if number <= segments[0].number or segments.following(number) is None:
        return directory
    name = segment_name(segments[0].timeline, number, size)
    warn(f'waiting for WAL segment "{name}", later ones are there', file=directory.path)
    return replace(directory, segments=segments.where([segment.number < number for segment in segments]))


def has_record(directory: WalDirectory, lsn: int) -> bool:
    """Tell whether a whole record is there after the one that ends at an LSN.

    Raises:
        WalError: the WAL there is damaged or missing.
    """
    if lsn >= directory.stop_lsn:
        return False
    return len(read_frames(directory, lsn, lsn + LONG_HEADER + 1).lsns) > 0


def end_of_log(directory: WalDirectory, known: int = 0) -> int:
    """Find the end of the last whole record; if none begins in the last segment or after ``known``, the later of both.

    Every whole record that is there starts before it.

    Args:
        directory: the WAL.
        known: where a record ended.

    Raises:
        WalError: the last segment is damaged.
    """
    lo = max(directory.segments[-1].start_lsn, known)
    frames = read_frames(directory, lo) if lo < directory.stop_lsn else None
    return lo if frames is None or not len(frames.end_lsns) else int(frames.end_lsns[-1])
