"""The WAL itself, as a physical walsender sends it: bytes of a timeline from an LSN on, as far as it goes.

In: WAL at hand. Out: pieces of at most 128 KiB in CopyData that end with a page, unless they are the last there is;
behind them the end of the timeline, where the log has left it.

PostgreSQL: StartReplication, XLogSendPhysical, WalSndSegmentOpen (walsender.c), tliSwitchPoint (timeline.c).

Known gap: the flush position is the end of the last whole record; a server's may be after the head of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.errors import SegmentError, SessionError
from headwater.pg.lsn import lsn_text
from headwater.pg.sqlstates import UNDEFINED_FILE
from headwater.protocol.backend_messages import copy_data
from headwater.protocol.copy_frames import Piece
from headwater.protocol.replication_messages import wal_data
from headwater.slots.history import Position, check_of_history, off_history
from headwater.wal.layout import PAGE_SIZE
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.segment_files import segment_name
from headwater.wal.segments.segment_reader import open_segment
from headwater.walsender.folds.items import TimelineEnd
from headwater.walsender.served_cluster import ServedCluster

MOST_BYTES = 16 * PAGE_SIZE
"""Bytes of WAL of a piece (MAX_SEND_SIZE)."""


@dataclass(frozen=True)
class SentTimeline:
    """The timeline that is sent.

    Attributes:
        number: its number.
        left: LSN where the log has left it; None for the one that it is on.
        next: the timeline that it went on with there; 0 for none.
    """

    number: int
    left: int | None = None
    next: int = 0


def sent_timeline(cluster: ServedCluster, number: int, start: int) -> SentTimeline:
    """Choose the timeline of a stream.

    Args:
        cluster: has the WAL; number: the timeline that is asked for, 0 for the newest.
        start: LSN where the stream begins.

    Raises:
        SessionError: the log has not been on this timeline there.
    """
    directory = cluster.look()
    if number == 0:
        return SentTimeline(directory.lineage[-1][0])
    check_of_history(directory, Position(number, start))
    return _sent(directory, number)


def _sent(directory: WalDirectory, number: int) -> SentTimeline:
    lineage = dict(directory.lineage)
    if number not in lineage:
        raise off_history(directory, Position(number, 0))
    left = lineage[number]
    return SentTimeline(number, left, 0 if left is None else min(other for other in lineage if other > number))


class PhysicalWal:
    """The WAL of a stream; calls come one after the other, in one thread.

    Args:
        cluster: has the WAL.
        timeline: which is sent.
        start: LSN of the first byte.

    Attributes:
        timeline: as it is now: it may be left while it is sent.
    """

    def __init__(self, cluster: ServedCluster, timeline: SentTimeline, start: int) -> None:
        self._cluster, self.timeline, self._at = cluster, timeline, start
        self._is_over = self._has_begun = False

    def has_more(self) -> bool:
        """Tell whether there is WAL that was not given, or an end of the timeline.

        Raises:
            SessionError: the stream begins where there is none yet; WalError: the WAL cannot be read.
        """
        if self._is_over:
            return False
        end = self._end()
        if self.timeline.left is not None:
            return True
        if not self._has_begun and self._at > end:
            start, flushed = (lsn_text(lsn, self._cluster.version) for lsn in (self._at, end))
            raise SessionError(
                f"requested starting point {start} is ahead of the WAL flush position of this server {flushed}"
            )
        self._has_begun = True
        return self._at < end

    def decoded(self) -> Iterator[Piece | TimelineEnd]:
        """Give what is there.

        Raises:
            SessionError: a segment has been removed; WalError: one cannot be read.
        """
        end = self._end()
        directory = self._cluster.look_at(self._at, self.timeline.number)
        while self._at < end:
            stop = self._at + MOST_BYTES
            stop = end if end <= stop else stop - stop % PAGE_SIZE
            data = self._read(directory, stop)
            yield Piece(memoryview(copy_data(wal_data(self._at, end, data))), 1, stop)
            self._at = stop
        if self.timeline.left is not None:
            self._is_over = True
            yield TimelineEnd()

    def _end(self) -> int:
        """Return where what can be sent ends; a timeline that was left meanwhile is looked at behind that."""
        if self.timeline.left is None:
            end = self._cluster.end()[1]
            self.timeline = _sent(self._cluster.look(self._at), self.timeline.number)
        return end if self.timeline.left is None else self.timeline.left

    def _read(self, directory: WalDirectory, stop: int) -> bytes:
        """Read up to an LSN, over the ends of segments."""
        data, at, size = b"", self._at, directory.segment_size
        while at < stop:
            until = min(stop, at - at % size + size)
            data += self._read_segment(directory, at, until)
            at = until
        return data

    def _read_segment(self, directory: WalDirectory, at: int, until: int) -> bytes:
        segment, size = directory.segment_at(at), directory.segment_size
        if segment is None:
            name = segment_name(self.timeline.number, at // size, size)
            raise SessionError(f"requested WAL segment {name} has already been removed", sqlstate=UNDEFINED_FILE)
        buffer = bytearray(until - at)
        with open_segment(segment, size, until - segment.start_lsn) as reader:
            count = reader.read_into(memoryview(buffer), at - segment.start_lsn)
        if count < len(buffer):
            raise SegmentError(f"the segment ends after {count} bytes of {len(buffer)}", lsn=at, file=segment.path)
        return bytes(buffer)
