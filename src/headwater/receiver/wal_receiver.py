"""The receiver: a server's WAL into a directory, as it is written, over timelines and lost connections.

In: a :class:`ReceiveRequest`. Out: files as of pg_receivewal (:mod:`headwater.receiver.received_files`).

One round is a connection. It asks the server who it is, and brings the history files that are missing. Then it streams
from the beginning of the segment that the directory lacks next. When the server has left a timeline, the next one is
streamed from the beginning of the segment in which it was left. What a round ends by decides what is done. A lost
connection is tried again, each time later, up to :data:`MOST_SECONDS`. What the server refuses ends the run.

Invariants: acknowledged is what is synced, never more. The server is answered by the thread that reads the socket,
which waits for no disk. A server of another cluster, or one that is behind, is an error before a byte is written.

PostgreSQL: receivelog.c (ReceiveXlogStream, HandleCopyStream), pg_receivewal.c (StreamLog), walreceiver.c.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.base.system_errors import errors_as
from headwater.errors import ConnectionLostError, SegmentError, ServerError, WalError
from headwater.option_names import option
from headwater.pg.lsn import Lsn
from headwater.protocol.replication_messages import WalData, parse_message, status_update
from headwater.receiver.archived_segments import bring_segments
from headwater.receiver.received_files import SegmentWriter, history_path, newest_received, system_of, write_history
from headwater.receiver.replication_connection import ReplicationConnection, Row, quoted
from headwater.receiver.wal_writing import Wakeup, WalWriting
from headwater.wal.segments.place import WalSource

FIRST_SECONDS, MOST_SECONDS = 1.0, 5.0
"""A lost connection is tried again after so long; then after twice that, at last at this distance."""

_SIZE = re.compile(r"(\d+)(B|kB|MB|GB)")
_UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_DUPLICATE_OBJECT, _UNDEFINED_FILE = "42710", "58P01"


@dataclass(frozen=True)
class Position:
    """The place from which WAL is received: a timeline, and the LSN at which a segment begins."""

    timeline: int
    lsn: int


@dataclass(frozen=True, kw_only=True)
class ReceiveRequest:
    """A request to receive WAL.

    Attributes:
        conninfo: libpq's connection string or URI.
        directory: where it is written; is made if it is missing.
        slot: a physical slot that keeps WAL on the server until it is synced here; None for none.
        creates_slot: the slot is made if it is missing.
        is_synchronous: each write is synced and acknowledged at once.
        end: LSN to stop at; None to go on.
        status_seconds: the server is told at least as often how far all is.
        timeout_seconds: a server that says nothing for so long is lost; 0 for never.
        tries_again: a lost connection is tried again.
        waits_for_server: so is the first one, where the directory has WAL already.
        archive: has segments that the server has removed already; None for none.
        begin: where an empty directory begins; None for where the slot stands, or the server is.
        begins_later: it begins where :meth:`WalReceiver.begin_at` says, once that is called.
        is_temporary: the slot is made for the connection, and ends with it.
    """

    conninfo: str
    directory: Path
    slot: str | None = None
    creates_slot: bool = False
    is_synchronous: bool = False
    end: int | None = None
    status_seconds: float = 10.0
    timeout_seconds: float = 60.0
    tries_again: bool = True
    waits_for_server: bool = False
    archive: WalSource | None = None
    begin: Position | None = None
    begins_later: bool = False
    is_temporary: bool = False


@dataclass(frozen=True)
class Server:
    """A server, as it says itself.

    Attributes:
        system_identifier: of its cluster; timeline: the one it writes, or replays; flushed: LSN that it has synced.
        segment_size: bytes of a segment.
    """

    system_identifier: int
    timeline: int
    flushed: int
    segment_size: int


@dataclass(frozen=True)
class Reached:
    """A report: what has been received of which timeline, and what the server has.

    Attributes:
        position: LSN up to which all is synced, with its timeline.
        server: LSN that the server's WAL reaches.
    """

    position: Position
    server: int


Report = Callable[[Reached], None]
Warn = Callable[[str], None]


class WalReceiver:
    """A receiver.

    Args:
        request: what it receives.
        report: called after each status that the server is sent.
        lost: called with the reason when a connection is lost and tried again.
    """

    def __init__(self, request: ReceiveRequest, report: Report = lambda _: None, lost: Warn = lambda _: None) -> None:
        self._request, self._report, self._lost = request, report, lost
        self._wakeup = Wakeup()
        self._is_stopping = False
        self._begin, self._end = request.begin, request.end
        self._knows_begin = threading.Event()
        self.has_slot = threading.Event()
        """Set once the slot is made, or found, if there is one."""
        self._system: int | None = None
        self._has_received = False

    def stop(self) -> None:
        """Let it end, with all synced that it has received; may be called by any thread, and by a signal's handler."""
        self._is_stopping = True
        self._knows_begin.set()
        self._wakeup.wake()

    def begin_at(self, position: Position) -> None:
        """Let it begin there; may be called by any thread."""
        self._begin = position
        self._knows_begin.set()

    def end_at(self, lsn: int) -> None:
        """Let it end once all is received up to an LSN; may be called by any thread."""
        self._end = lsn
        self._wakeup.wake()

    def run(self) -> None:
        """Receive until the end, or until it is stopped.

        Raises:
            UsageError: the connection string is malformed.
            ServerError: the server refuses.
            ConnectionLostError: there is no server, or there is none any more and that is not tried again.
            SegmentError: the directory cannot be written to, or is not of this cluster.
        """
        with self._alone():
            seconds = FIRST_SECONDS
            while not self._is_stopping:
                self._has_received = False
                try:
                    with ReplicationConnection(self._request.conninfo) as connection:
                        if self._round(connection):
                            return
                        continue
                except ConnectionLostError as error:
                    if not self._tries_again():
                        raise
                    seconds = FIRST_SECONDS if self._has_received else min(2 * seconds, MOST_SECONDS)
                    self._lost(f"{error.message}; trying again in {seconds:.0f} s")
                self._pause(seconds)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the directory, which only one receiver writes to."""
        directory = self._request.directory
        with errors_as(SegmentError, "open directory", directory):
            directory.mkdir(0o700, parents=True, exist_ok=True)
            descriptor = os.open(directory, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SegmentError("another receiver writes to the directory", file=str(directory)) from None
            yield
        finally:
            os.close(descriptor)

    def _tries_again(self) -> bool:
        if self._is_stopping or not self._request.tries_again:
            return False
        goes_on = self._request.waits_for_server and system_of(self._request.directory) is not None
        return goes_on or self._system is not None

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    def _round(self, connection: ReplicationConnection) -> bool:
        """Receive over one connection; False if segments came from the archive, and the server is to be asked anew."""
        _ = connection.postgres  # An unknown major is refused before it is asked anything.
        server = identify(connection)
        self._check(server)
        self._make_slot(connection)
        self.has_slot.set()
        if self._request.begins_later:
            self._knows_begin.wait()
        following: Position | None = self._beginning(connection, server)
        while (position := following) is not None and not self._is_stopping and not self._has_all(position):
            self._bring_histories(connection, position.timeline, max(server.timeline, position.timeline))
            try:
                following = self._timeline(connection, server, position)
            except ServerError as error:
                if error.sqlstate != _UNDEFINED_FILE or self._request.archive is None:
                    raise
                self._fill(self._request.archive, server, position, error)
                return False
        return True

    def _has_all(self, position: Position) -> bool:
        return self._end is not None and position.lsn >= self._end

    def _fill(self, archive: WalSource, server: Server, position: Position, gone: ServerError) -> None:
        """Bring what the server has removed from the archive; if that has nothing either, wait as a standby does."""
        try:
            place = server.system_identifier, server.timeline, position.lsn, server.segment_size
            count = bring_segments(archive, self._request.directory, *place)
            reason = "the archive has nothing further yet"
        except SegmentError as error:
            count, reason = 0, error.one_line()
        if count == 0:
            self._lost(f"{gone.message}, and {reason}; trying again in {MOST_SECONDS:.0f} s")
            self._pause(MOST_SECONDS)

    def _check(self, server: Server) -> None:
        if self._system not in (None, server.system_identifier):
            raise ServerError(
                f"the server is of the system {server.system_identifier}, expected {self._system} as before"
            )
        present = system_of(self._request.directory)
        if present not in (None, server.system_identifier):
            raise SegmentError(
                f"the directory has WAL of the system {present}, the server is of {server.system_identifier}",
                file=str(self._request.directory),
                hint="receive into another directory",
            )
        self._system = server.system_identifier

    def _make_slot(self, connection: ReplicationConnection) -> None:
        """Make the slot if that is asked for and it is missing; WAL is kept for it from now on."""
        if self._request.slot is None or not self._request.creates_slot:
            return
        kind = "TEMPORARY PHYSICAL" if self._request.is_temporary else "PHYSICAL"
        reserve = "(RESERVE_WAL)" if connection.postgres.options_in_parentheses else "RESERVE_WAL"
        try:
            connection.rows(f"CREATE_REPLICATION_SLOT {quoted(self._request.slot)} {kind} {reserve}")
        except ServerError as error:
            if error.sqlstate != _DUPLICATE_OBJECT:
                raise

    def _beginning(self, connection: ReplicationConnection, server: Server) -> Position:
        """Find where receiving goes on: behind what is here, else where the slot stands, else where the server is."""
        newest = newest_received(self._request.directory, server.segment_size)
        if newest is not None:
            if newest.timeline > server.timeline:
                raise ServerError(
                    f"the directory has WAL of timeline {newest.timeline}, the server's newest is {server.timeline}",
                    hint="ask the server that has been promoted",
                )
            return Position(newest.timeline, newest.next_lsn(server.segment_size))
        position = self._begin
        if position is None and self._request.slot is not None:
            position = slot_position(connection, self._request.slot)
        position = position or Position(server.timeline, server.flushed)
        return Position(position.timeline, position.lsn - position.lsn % server.segment_size)

    def _bring_histories(self, connection: ReplicationConnection, oldest: int, newest: int) -> None:
        """Write the history files that are missing, which say where each timeline begins."""
        for timeline in range(max(oldest, 2), newest + 1):
            if not history_path(self._request.directory, timeline).exists():
                name, content = _only(connection.rows(f"TIMELINE_HISTORY {timeline}"), 2)
                if name != history_path(self._request.directory, timeline).name or content is None:
                    raise ServerError(f'the server calls the history file of timeline {timeline} "{name}"')
                write_history(self._request.directory, timeline, content.encode())

    def _timeline(self, connection: ReplicationConnection, server: Server, position: Position) -> Position | None:
        """Stream a timeline; return where the next one is streamed from, None if that was all that is wanted."""
        slot = f"SLOT {quoted(self._request.slot)} " if self._request.slot is not None else ""
        rows = connection.start_stream(f"START_REPLICATION {slot}{Lsn(position.lsn)} TIMELINE {position.timeline}")
        if rows is None:
            stream = _Stream(self, connection, server, position)
            if stream.run():
                return None
            rows = connection.end_stream()
        return _following(rows, position.timeline, server.segment_size)


class _Stream:
    """A stream of one timeline."""

    def __init__(
        self, receiver: WalReceiver, connection: ReplicationConnection, server: Server, position: Position
    ) -> None:
        self._receiver, self._connection, self._timeline = receiver, connection, position.timeline
        self._request = receiver._request
        self._writer = SegmentWriter(self._request.directory, position.timeline, server.segment_size, position.lsn)
        self._server_end, self._position = server.flushed, position.lsn
        self._heard_at = self._told_at = time.monotonic()
        self._told_flushed, self._has_asked = -1, False

    def run(self) -> bool:
        """Receive until the server ends the stream; True if it was left before that."""
        with WalWriting(self._writer, self._receiver._wakeup, self._request.is_synchronous) as writing:
            self._tell(writing)
            while not self._connection.has_ended:
                self._receiver._wakeup.clear()
                if self._is_over():
                    writing.sync()
                    self._tell(writing)
                    self._connection.leave_stream()
                    return True
                self._take_all(writing)
                self._tell_if_due(writing)
                if not self._connection.has_ended and not self._is_over():
                    self._wait(writing)
            writing.sync()
        return False

    def _is_over(self) -> bool:
        end = self._receiver._end
        return self._receiver._is_stopping or (end is not None and self._position >= end)

    def _take_all(self, writing: WalWriting) -> None:
        """Take what has come, as long as there is room for it."""
        while writing.has_room and not self._is_over() and (data := self._connection.message()) is not None:
            self._heard_at, self._has_asked = time.monotonic(), False
            message = parse_message(data)
            self._server_end = max(self._server_end, message.end)
            if isinstance(message, WalData):
                self._take(message, writing)
            elif message.wants_reply:
                # A server that shuts down waits until all is synced, and asks for that so.
                writing.ask_sync()
                self._tell(writing)

    def _take(self, message: WalData, writing: WalWriting) -> None:
        if message.lsn != self._position:
            raise WalError(f"received WAL from {Lsn(message.lsn)} on, expected {Lsn(self._position)}", lsn=message.lsn)
        self._position += len(message.data)
        self._receiver._has_received = True
        writing.put(message.lsn, message.data)

    def _tell_if_due(self, writing: WalWriting) -> None:
        """Tell the server how far all is: after each sync, and every few seconds."""
        _, flushed = writing.progress()
        now, timeout = time.monotonic(), self._request.timeout_seconds
        if timeout and now - self._heard_at >= timeout:
            raise ConnectionLostError(f"the server has said nothing for {timeout:.0f} s")
        asks = bool(timeout) and not self._has_asked and now - self._heard_at >= timeout / 2
        if flushed > self._told_flushed or now - self._told_at >= self._request.status_seconds or asks:
            self._has_asked = self._has_asked or asks
            self._tell(writing, asks)

    def _tell(self, writing: WalWriting, asks: bool = False) -> None:
        written, flushed = writing.progress()
        self._connection.send(status_update(written, flushed, 0, asks))
        self._told_at, self._told_flushed = time.monotonic(), flushed
        self._receiver._report(Reached(Position(self._timeline, flushed), self._server_end))

    def _wait(self, writing: WalWriting) -> None:
        due = self._told_at + self._request.status_seconds - time.monotonic()
        self._connection.wait(min(due, 1.0), [self._receiver._wakeup.fileno()], writing.has_room)


def identify(connection: ReplicationConnection) -> Server:
    """Ask a server who it is.

    Raises:
        ServerError: it refuses, or answers what is not understood.
        ConnectionLostError: the connection is lost.
    """
    rows = connection.rows("IDENTIFY_SYSTEM")
    system, timeline, flushed = _only(rows, 4)[:3]
    size = _SIZE.fullmatch(_only(connection.rows("SHOW wal_segment_size"), 1)[0] or "")
    if system is None or timeline is None or flushed is None or size is None:
        raise ServerError("the server does not say who it is (IDENTIFY_SYSTEM, wal_segment_size)")
    return Server(int(system), int(timeline), int(Lsn.parse(flushed)), int(size[1]) * _UNITS[size[2]])


def slot_position(connection: ReplicationConnection, slot: str) -> Position | None:
    """Ask where a physical slot stands; None if it keeps no WAL yet, or the server cannot tell (14).

    Raises:
        ServerError: there is no such slot, or it is a logical one.
        ConnectionLostError: the connection is lost.
    """
    if not connection.postgres.reads_replication_slots:
        return None
    kind, restart, timeline = _only(connection.rows(f"READ_REPLICATION_SLOT {quoted(slot)}"), 3)
    if kind is None:
        raise ServerError(
            f'replication slot "{slot}" does not exist', hint=f"use {option('create-slot')}", sqlstate="42704"
        )
    return Position(int(timeline), int(Lsn.parse(restart))) if restart and timeline else None


def _only(rows: list[Row], columns: int) -> Row:
    if len(rows) != 1 or len(rows[0]) < columns:
        shape = f"{len(rows)} rows" if len(rows) != 1 else f"{len(rows[0])} columns"
        raise ServerError(f"the server's answer has {shape}, expected one row of {columns} columns")
    return rows[0]


def _following(rows: list[Row], timeline: int, segment_size: int) -> Position | None:
    """Return where the timeline that follows is streamed from: the segment in which the old one was left."""
    if not rows:
        raise ConnectionLostError("the server has ended the stream, as it shuts down")
    following, start = _only(rows, 2)
    if following is None or start is None or int(following) <= timeline:
        raise ServerError(f"the server says that timeline {following} follows timeline {timeline}")
    lsn = int(Lsn.parse(start))
    return Position(int(following), lsn - lsn % segment_size)
