"""The feed of a slot: a thread that reads its stream, answers the server, and has what came ready to be taken.

In: a connection on which the slot streams. Out: pieces of the stream (:class:`Piece`): messages one after the other, as
kernels take them (:mod:`headwater.remote_slots._message_parts`).

Invariants: the connection is the thread's alone. Confirmed to the server is what :meth:`SlotFeed.confirm` was told,
never more. The server is answered while nobody takes anything; only then it is not read from any more.

Known gap: libpq gives a message at a time, so each goes through Python once, as bytes.

PostgreSQL: walsender.c (WalSndKeepalive, ProcessStandbyReplyMessage), worker.c (LogicalRepApplyLoop).
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, Self

from headwater.errors import ConnectionLostError
from headwater.pg.lsn import Lsn
from headwater.protocol.replication_messages import POSTGRES_EPOCH, Keepalive, parse_message, status_update
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.receiver.wal_writing import Wakeup
from headwater.remote_slots._message_parts import BEGIN, COMMIT
from headwater.remote_slots.slot_connection import close_quietly

STATUS_SECONDS, TIMEOUT_SECONDS, ASKING_SECONDS = 10.0, 60.0, 0.1
"""The server is told at least as often how far all is; it is lost if it says nothing for so long; and is asked as
often for how far it has come, where that is waited for."""

MANY_TIMES, SHUTDOWN_SECONDS = 20, 3.0
"""A server that asks so often in so long for what is durable, without having come further, shuts down."""

MOST_BYTES = 64 << 20
"""Bytes that wait to be taken; when there are more the server is not read from."""

_FRAME = struct.Struct(">cI")
_BEGIN = struct.Struct(">cQqI")
_DATA, _SENT = struct.Struct(">cQQq"), struct.Struct(">q")
_BLOCKS = {ord("b"), ord("S")}
_ENDS: dict[int, struct.Struct | None] = {
    COMMIT: struct.Struct(">cBQQ"),
    ord("P"): struct.Struct(">cBQQ"),
    ord("K"): struct.Struct(">cBQQ"),
    ord("r"): struct.Struct(">cBQQ"),
    ord("c"): struct.Struct(">cIBQQ"),
    ord("p"): struct.Struct(">cBQQ"),
    ord("E"): None,
}
"""Messages that end a transaction, or what else moves the place of a slot, with its END; or a block, which does not."""
_DATA_KIND = ord("w")
_MARKED = {BEGIN, *_BLOCKS, *_ENDS}
_AT = 25
"""Where pgoutput's message begins in one of the stream."""


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


class _Mark(NamedTuple):
    """The beginning of a transaction with the START of its commit record, or its end with that record's END.

    Attributes:
        at: bytes of the stream before the beginning, or up to the end; lsn: the LSN; is_end: which of both.
    """

    at: int
    lsn: int
    is_end: bool


class SlotFeed:
    """A slot's feed; a context manager, whose end lets go of the connection.

    Args:
        connection: on which the slot streams.
        reached: LSN from which it does; all before it is confirmed.
        asks: the server is asked again and again how far it has come.

    Attributes:
        asks: see above; may be changed.
        start: LSN from which the slot streams.
        heard: the last that the server has said of itself.
    """

    def __init__(self, connection: ReplicationConnection, reached: int, *, asks: bool = False) -> None:
        self._connection, self.asks, self.start = connection, asks, reached
        self.heard = Heard(reached)
        self._reached = self._given = self._confirmed = reached
        self._data, self._is_inside = bytearray(), False
        self._marks, self._begin = deque[_Mark](), 0
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
        transactions, size, reached, is_whole = 0, len(self._data), self._reached, not self._is_inside
        while self._marks:
            mark = self._marks[0]
            at = mark.at - self._begin
            if not mark.is_end and stop is not None and mark.lsn >= stop:
                size, reached, is_whole = at, max(stop, self._given), True
                break
            self._marks.popleft()
            transactions += mark.is_end
            if mark.is_end and at >= most_bytes:
                # Behind the last one the server may have come further still.
                if at < size:
                    size, reached, is_whole = at, mark.lsn, True
                break
        data = bytes(memoryview(self._data)[:size])
        del self._data[:size]
        self._begin += size
        return Piece(data, is_whole, reached, transactions)

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
                if self._connection.has_ended:
                    self._connection.end_stream()
                    raise ConnectionLostError("the server has ended the stream, as it shuts down")
                self._tell_if_due()
                self._connection.wait(self._patience, [self._wakeup.fileno()], has_room)
            self._tell(False)
        except Exception as error:  # whatever it is, who takes pieces has to hear of it
            self._fail(error)
        finally:
            close_quietly(self._connection)

    @property
    def _patience(self) -> float:
        return ASKING_SECONDS if self.asks else 1.0

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _read(self) -> bool:
        """Read what is there, up to a bound; tell whether there was anything."""
        messages = self._connection.messages(MOST_BYTES >> 4)
        if messages:
            self._heard_at = time.monotonic()
            self._note(messages)
        return bool(messages)

    def _note(self, messages: list[bytes]) -> None:
        """Have messages ready to be taken, and note where transactions begin and end in them."""
        own, marks, reached, is_inside = list[bytes](), list[_Mark](), self._reached, self._is_inside
        last: bytes | None = None
        with self._changed:  # Who takes pieces changes both.
            begin = self._begin + len(self._data)
        at = begin
        for message in messages:
            if message[0] != _DATA_KIND:
                end = self._heard(message)
                reached = reached if is_inside else max(reached, end)
                continue
            last = message
            kind, size = message[_AT], len(message)
            own += (_FRAME.pack(b"d", size + 4), message)
            at += size + _FRAME.size
            if kind not in _MARKED:
                continue
            if kind == BEGIN:
                is_inside = True
                marks.append(_Mark(at - size - _FRAME.size, _BEGIN.unpack_from(message, _AT)[1], False))
            elif kind in _ENDS:
                is_inside = False
                if (form := _ENDS[kind]) is not None:
                    reached = max(reached, form.unpack_from(message, _AT)[-1])
                    marks.append(_Mark(at, reached, True))
            else:
                is_inside = True
        if last is not None:
            _, start, end, sent_at = _DATA.unpack_from(last)
            received = max(self.heard.received, start, end)
            self.heard = replace(self.heard, received=received, sent_at=sent_at, received_at=_now())
        if own or reached > self._reached:
            with self._changed:
                self._data += b"".join(own)
                self._is_inside = is_inside
                self._marks += marks
                self._reached = reached
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
        self._connection.send(status_update(confirmed, Lsn(confirmed), Lsn(confirmed), asks))
        self._told, self._told_at = confirmed, time.monotonic()


def _now() -> int:
    return int((time.time() - POSTGRES_EPOCH) * 1e6)
