"""Segments that the server has removed already, from an archive into the directory that WAL is received in.

In: an archive in any form that ``--wal`` reads. Out: plain segments under their names, written as received ones are.
The history is that of the directory's history files, which the server has given.

Invariants: only whole segments are brought, without a gap, from where receiving goes on. What is not there yet is left
for the next attempt, or for the server.

PostgreSQL: a standby does the same with restore_command (xlogrecovery.c, WaitForWALToBecomeAvailable).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headwater.errors import SegmentError, TruncatedSegmentError
from headwater.receiver.received_files import SegmentWriter
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import Place, WalSource
from headwater.wal.segments.segment_files import Segment, segment_name
from headwater.wal.segments.segment_reader import open_segment


def bring_segments(
    archive: WalSource, directory: Path, system: int, timeline: int, begin: int, segment_size: int
) -> int:
    """Bring whole segments from an archive.

    Args:
        archive: its places.
        directory: gets them, and has the history file of the timeline.
        system: the server's system identifier.
        timeline: the server's; those that led to it count, too.
        begin: LSN at which the first one begins.
        segment_size: bytes.

    Returns:
        how many there were.

    Raises:
        SegmentError: the archive cannot be read, has other WAL, or the directory cannot be written to.
    """
    source = replace(archive, places=(*archive.places, Place(str(directory))), timeline=timeline)
    first = segment_name(timeline, begin // segment_size, segment_size)
    wal = WalDirectory.scan(source, first=first, is_growing=True)
    if (wal.system_identifier, wal.segment_size) != (system, segment_size):
        raise SegmentError(
            f"the archive has WAL of the system {wal.system_identifier} in segments of {wal.segment_size} bytes,"
            f" the server is {system} with {segment_size}",
            file=archive.address,
        )
    count = 0
    for segment in _following(wal, begin // segment_size):
        if not _bring(segment, directory, segment_size):
            break
        count += 1
    return count


def _following(wal: WalDirectory, number: int) -> Iterator[Segment]:
    """Give the whole segments from a number on, up to the first gap."""
    while (segment := wal.segments.numbered(number)) is not None and not segment.form.is_partial:
        yield segment
        number += 1


def _bring(segment: Segment, directory: Path, size: int) -> bool:
    """Write a segment under its plain name; False if it is not whole yet."""
    data = bytearray(size)
    try:
        with open_segment(segment, size) as reader:
            if reader.read_into(memoryview(data), 0) < size:
                return False
    except TruncatedSegmentError:
        return False
    writer = SegmentWriter(directory, segment.timeline, size, segment.start_lsn)
    try:
        writer.write(segment.start_lsn, memoryview(data))
    finally:
        writer.drop()
    return True
