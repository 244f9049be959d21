"""The WAL that a base backup needs, as files of its archive: for clients that fetch it with the backup.

PostgreSQL: basebackup.c (perform_base_backup, includewal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from headwater.errors import SessionError
from headwater.pg.sqlstates import UNDEFINED_FILE
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.segment_files import segment_name
from headwater.wal.segments.segment_reader import open_segment
from headwater.walsender.backups.backup_at_hand import Entry, wal_entry


def wal_of_backup(
    root: Path, directory: WalDirectory, places: tuple[int, int, int], history: Iterable[tuple[str, bytes]]
) -> Iterator[Entry]:
    """Give the segments between two LSNs, each whole.

    Args:
        root: the directory of the backup; directory: the WAL at hand.
        places: the timeline, and the LSNs.
        history: names and contents of files that say where timelines began.

    Raises:
        SessionError: a segment has been removed, or ends too early; WalError: it cannot be read.
    """
    timeline, start, end = places
    size = directory.segment_size
    for at in range(start - start % size, end, size):
        name = segment_name(timeline, at // size, size)
        yield wal_entry(root, name, _segment(directory, at, min(size, end - at), name))
    for name, content in history:
        yield wal_entry(root, name, content)


def _segment(directory: WalDirectory, at: int, least: int, name: str) -> bytes:
    """Read a segment; behind its end here are zeros, as in a file that the server has made."""
    segment, data = directory.segment_at(at), bytearray(directory.segment_size)
    count = 0
    if segment is not None:
        with open_segment(segment, len(data), len(data)) as reader:
            count = reader.read_into(memoryview(data), 0)
    if count < least:
        raise SessionError(f"requested WAL segment {name} has already been removed", sqlstate=UNDEFINED_FILE)
    return bytes(data)
