"""The feed of a slot: a thread that reads its stream, answers the server, and has what came ready to be taken.

In: a connection on which the slot streams. Out: pieces of the stream (:class:`Piece`): messages one after the other, as
kernels take them (:mod:`headwater.remote_slots._message_parts`).

Invariants: the connection is the thread's alone. Confirmed to the server is what :meth:`SlotFeed.confirm` was told,
never more. The server is answered while nobody takes anything; only then it is not read from any more.

PostgreSQL: walsender.c (WalSndKeepalive, ProcessStandbyReplyMessage), worker.c (LogicalRepApplyLoop).
"""

from __future__ import annotations

import struct
import threading
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headwater.errors import ConnectionLostError
from headwater.pg.lsn import Lsn
from headwater.protocol.replication_messages import POSTGRES_EPOCH, Keepalive, parse_message, status_update
from headwater.receiver.frame_stream import FrameStream
from headwater.receiver.wal_writing import Wakeup
from headwater.remote_slots.slot_connection import close_quietly
from headwater.remote_slots.stream_marks import Marks, marks_of

STATUS_SECONDS, TIMEOUT_SECONDS, ASKING_SECONDS = 10.0, 60.0, 0.1
"""The server is told at least as often how far all is; it is lost if it says nothing for so long; and is asked as
often for how far it has come, where that is waited for."""

MANY_TIMES, SHUTDOWN_SECONDS = 20, 3.0
"""A server that asks so often in so long for what is durable, without having come further, shuts down."""

MOST_BYTES = 64 << 20
"""Bytes that wait to be taken; when there are more the server is not read from."""

_FRAME_BYTES = 5
"""Bytes of CopyData before the walsender's message."""
_DATA, _SENT = struct.Struct(">cQQq"), struct.Struct(">q")


@dataclass(frozen=True)
class Piece:
    """A piece of a slot's stream.

    Attributes:
        data: messages as CopyData, one after the other.
        is_whole: it ends outside of any transaction.
        reached: LSN before which all transactions that have committed are in this piece or in those before it, if it
            is whole.
        transactions: how many commit in it.
    """

    data: bytes
    is_whole: bool
    reached: int
    transactions: int


@dataclass(frozen=True)
class Heard:
    """The last that a server has said of itself, as ``pg_stat_subscription`` has it; times are microseconds since 2000.

    Attributes:
        received: LSN up to which its log has come here; sent_at, received_at: when its last message was sent and came.
        end, end_at: LSN up to which its log had come when it last gave a sign of life, and when that was sent.
    """

    received: int
    sent_at: int | None = None
    received_at: int | None = None
    end: int = 0
    end_at: int | None = None


class SlotFeed:
    """A slot's feed; a context manager, whose end lets go of the connection.

    Args:
        stream: of the slot.
        reached: LSN from which it does; all before it is confirmed.
        asks: the server is asked again and again how far it has come.

    Attributes:
        asks: see above; may be changed.
        start: LSN from which the slot streams.
        heard: the last that the server has said of itself.
    """

    def __init__(self, stream: FrameStream, reached: int, *, asks: bool = False) -> None:
        self._stream, self.asks, self.start = stream, asks, reached
        self.heard = Heard(reached)
        self._reached = self._given = self._confirmed = reached
        self._data, self._is_inside = bytearray(), False
        self._marks, self._begin = Marks.none(), 0
        self._changed, self._wakeup = threading.Condition(), Wakeup()
        self._error: Exception | None = None
        self._is_ending = False
        self._asked_for, self._asked_at, self._asked = -1, 0.0, 0
        self._heard_at, self._told_at, self._told = time.monotonic(), 0.0, -1
        self._thread = threading.Thread(target=self._run, name="slot feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ending = True
        self._wakeup.wake()
        self._thread.join()
        self._wakeup.close()

    def confirm(self, lsn: int) -> None:
        """Let the server know that all up to an LSN is durable; it may forget what came before."""
        self._confirmed = max(self._confirmed, lsn)
        self._wakeup.wake()

    def take(self, seconds: float, most_bytes: int = MOST_BYTES, stop: int | None = None) -> Piece:
        """Take what has come, or the first transactions of it.

        Args:
            seconds: how long to wait at most until there is anything, or the server has come further.
            most_bytes: it ends with the transaction that goes beyond.
            stop: LSN before whose commit records it ends; None for none.

        Raises:
            ServerError: the server has ended the stream by an error.
            ConnectionLostError: the connection is lost.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._data or self._error or self._reached > self._given, seconds)
            if self._error is not None and not self._data:
                raise self._error
            piece = self._cut(most_bytes, stop)
            self._given = max(self._given, piece.reached)
        self._wakeup.wake()
        return piece

    def _cut(self, most_bytes: int, stop: int | None) -> Piece:
        """Take the first transactions, or all that there is."""
        marks, size, reached, is_whole = self._marks, len(self._data), self._reached, not self._is_inside
        at, count = marks.at - self._begin, len(marks.at)
        stopped = count if stop is None else _first(~marks.is_end & (marks.lsn >= stop))
        enough = _first(marks.is_end & (at >= most_bytes))
        taken = min(stopped, enough + 1, count)
        if stop is not None and stopped < min(enough, count):
            size, reached, is_whole = int(at[stopped]), max(stop, self._given), True
        elif enough < count and at[enough] < size:
            # Behind the last one the server may have come further still.
            size, reached, is_whole = int(at[enough]), int(marks.lsn[enough]), True
        self._marks = marks.behind(taken)
        data = bytes(memoryview(self._data)[:size])
        del self._data[:size]
        self._begin += size
        return Piece(data, is_whole, reached, int(np.count_nonzero(marks.is_end[:taken])))

    def _run(self) -> None:
        try:
            while not self._is_ending:
                self._wakeup.clear()
                has_room = len(self._data) < MOST_BYTES
                if has_room and self._read():
                    self._tell_if_due()
                    continue
                if not has_room:
                    # What it says is not heard meanwhile.
                    self._heard_at = time.monotonic()
                if self._stream.has_ended:
                    self._stream.end()
                    raise ConnectionLostError("the server has ended the stream, as it shuts down")
                self._tell_if_due()
                self._stream.wait(self._patience, [self._wakeup.fileno()], has_room)
            self._tell(False)
        except Exception as error:  # whatever it is, who takes pieces has to hear of it
            self._fail(error)
        finally:
            close_quietly(self._stream)

    @property
    def _patience(self) -> float:
        return ASKING_SECONDS if self.asks else 1.0

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _read(self) -> bool:
        """Read what is there, up to a bound; tell whether there was anything."""
        frames = self._stream.frames(MOST_BYTES >> 4)
        if frames:
            self._heard_at = time.monotonic()
            self._note(frames)
        return bool(frames)

    def _note(self, frames: bytes) -> None:
        """Have messages ready to be taken, and note where transactions begin and end in them."""
        marks = marks_of(frames)
        ends = [self._heard(frames[at + _FRAME_BYTES : end]) for at, end in marks.signs]
        reached = marks.reached(ends, self._is_inside, self._reached)
        if marks.last >= 0:
            _, start, end, sent_at = _DATA.unpack_from(frames, marks.last + _FRAME_BYTES)
            received = max(self.heard.received, start, end)
            self.heard = replace(self.heard, received=received, sent_at=sent_at, received_at=_now())
        data = marks.without_signs(frames)
        if data or reached[-1] > self._reached:
            with self._changed:
                self._marks = self._marks.joined(marks.kept(reached, self._begin + len(self._data)))
                self._data += data
                self._is_inside = marks.is_inside(self._is_inside)
                self._reached = int(reached[-1])
                self._changed.notify_all()

    def _heard(self, message: bytes) -> int:
        """Answer a sign of life; return how far the server has come."""
        sign = parse_message(message)
        assert isinstance(sign, Keepalive)
        received, (sent_at,) = max(self.heard.received, sign.end), _SENT.unpack_from(message, 9)
        self.heard = Heard(received, sent_at, _now(), received, sent_at)
        if sign.wants_reply:
            self._note_asked(sign.end)
            self._tell(False)
        return sign.end

    def _note_asked(self, end: int) -> None:
        """Let go of a server that shuts down: it asks again and again until all is confirmed that it has sent.

        Raises:
            ConnectionLostError: it has asked for so long, and that may take long still.
        """
        now = time.monotonic()
        if end != self._asked_for:
            self._asked_for, self._asked_at, self._asked = end, now, 0
        self._asked += 1
        if self._asked >= MANY_TIMES and now - self._asked_at >= SHUTDOWN_SECONDS and self._confirmed < end:
            raise ConnectionLostError("the server shuts down, and waits for what is not durable yet")

    def _tell_if_due(self) -> None:
        now = time.monotonic()
        silence = now - self._heard_at
        if silence >= TIMEOUT_SECONDS:
            raise ConnectionLostError(f"the server has said nothing for {TIMEOUT_SECONDS:.0f} s")
        asks = self.asks or silence >= TIMEOUT_SECONDS / 2
        due = ASKING_SECONDS if self.asks else 1.0 if asks else STATUS_SECONDS
        if self._confirmed > self._told or now - self._told_at >= due:
            self._tell(asks)

    def _tell(self, asks: bool) -> None:
        confirmed = self._confirmed
        self._stream.send(status_update(confirmed, Lsn(confirmed), Lsn(confirmed), asks))
        self._told, self._told_at = confirmed, time.monotonic()


def _first(chosen: NDArray[np.bool_]) -> int:
    """Return the first that is chosen, or how many there are."""
    return int(np.argmax(chosen)) if chosen.any() else len(chosen)


def _now() -> int:
    return int((time.time() - POSTGRES_EPOCH) * 1e6)
