"""A stream: messages out, the client's positions in, signs of life both ways.

One loop looks at all that may have happened and then waits, as the server does at its latch. What it sends, and when,
is the server's: a keepalive whenever everything has been sent and the client has not reported it; an answer at once to
a status that asks for one; a ping after half the timeout without a word, the end after all of it.

PostgreSQL: WalSndLoop, WalSndWaitForWal, ProcessRepliesIfAny, WalSndCheckTimeOut, WalSndDone (walsender.c).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.sqlstates import PROTOCOL_VIOLATION
from headwater.pg.version import Version
from headwater.protocol.backend_messages import COPY_DONE, copy_data
from headwater.protocol.copy_frames import Piece
from headwater.protocol.frontend_messages import COPY_DATA, TERMINATE, BrokenMessageError, Message
from headwater.protocol.frontend_messages import COPY_DONE as CLIENT_COPY_DONE
from headwater.protocol.replication_messages import (
    PrimaryStatusRequest,
    StandbyStatus,
    keepalive,
    parse_client_message,
)
from headwater.walsender.connection import Connection
from headwater.walsender.feed import Feed
from headwater.walsender.folds.items import Reached, TimelineEnd
from headwater.walsender.operating.activity import StreamActivity, StreamState
from headwater.walsender.slot_progress import Progress

log = logging.getLogger("headwater.walsender")

MOST_HEEDED = 100
"""Messages of the client that are taken before others have their turn."""

LONGEST_WAIT = 10.0
"""Seconds after which the loop looks at everything again."""


class StreamEnd(Enum):
    """The end of a stream: both sides agreed, the service ends, or the client is not there any more."""

    AGREED = "agreed"
    SERVICE_ENDS = "service ends"
    LOST = "lost"
    TIMED_OUT = "timed out"


class Stream:
    """A stream to one client.

    Args:
        connection: the client's.
        feed: what is sent.
        progress: of the slot, or of the client alone.
        timeout: seconds after which a silent client is given up; 0 for never.
        is_ending: says whether the service ends.
        check: raises what the stream is to end with at once.
        activity: how far the stream has come. The client of a logical one is told how far all was sent whenever it has
            not reported that.
        version: of the server that clients see.
    """

    def __init__(
        self,
        connection: Connection,
        feed: Feed,
        progress: Progress,
        timeout: float,
        is_ending: Callable[[], bool],
        check: Callable[[], None],
        activity: StreamActivity,
        version: Version,
    ) -> None:
        self._connection, self._feed, self._progress = connection, feed, progress
        self._timeout, self._is_ending, self._check = timeout, is_ending, check
        self.activity, self._version = activity, version
        activity.sent = progress.confirmed
        self._loop = asyncio.get_running_loop()
        self._last_reply = self._loop.time()
        self._is_pinged = False
        self._has_received_done = self._has_sent_done = self._is_finishing = False
        self._has_been_asked = self._has_looked_again = False
        self._says_more = self._owes_reply = False
        self._writing: asyncio.Future[None] | None = None

    async def run(self) -> StreamEnd:
        """Stream until one side ends it.

        Raises:
            HeadwaterError: what is there cannot be decoded, or the client says what it may not.
        """
        self.activity.state = StreamState.CATCHUP
        try:
            while True:
                self._connection.wake.clear()
                end = self._step()
                if end is not None:
                    return end
                if not self._can_go_on() and not self._says_more:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._connection.wake.wait(), self._sleep())
                else:
                    await asyncio.sleep(0)
        finally:
            if self._writing is not None:
                await self._writing

    def _step(self) -> StreamEnd | None:
        """Do what there is to do now; None: go on."""
        self._check()
        self._look_again_at_end()
        if not self._heed_client() or self._connection.is_lost:
            return StreamEnd.LOST
        if self._has_received_done and self._has_sent_done and self._connection.has_room:
            return StreamEnd.AGREED
        self._send()
        if self._is_finishing or self._is_caught_up:
            if self._is_ending():
                self.activity.state = StreamState.STOPPING
                return self._finish()
            self.activity.state = StreamState.STREAMING
            if self.activity.is_logical:
                self._show_position()
        return self._check_time()

    def _look_again_at_end(self) -> None:
        """Let all be sent that is there when the service is told to end."""
        if self._is_ending() and not self._has_looked_again:
            self._has_looked_again = True
            self._feed.look_again()

    def _can_go_on(self) -> bool:
        may_send = not self._has_sent_done and not self._is_finishing
        return may_send and self._feed.has_items and self._connection.has_room

    @property
    def _is_caught_up(self) -> bool:
        return self._feed.is_drained and self._connection.has_room

    def _heed_client(self) -> bool:
        """Take what the client has sent, but for much of it at a time; False: it goes."""
        count, self._says_more = 0, False
        while not self._has_received_done and (message := self._connection.take_message()) is not None:
            self._last_reply, self._is_pinged = self._loop.time(), False
            if message.kind == TERMINATE or not self._heed(message):
                return False
            count += 1
            if count == MOST_HEEDED:
                self._says_more = True
                break
        if self._owes_reply and self._connection.has_room:
            self._keepalive(False)
        return True

    def _heed(self, message: Message) -> bool:
        if message.kind == CLIENT_COPY_DONE:
            self._send_done()
            self._has_received_done = True
            return True
        if message.kind != COPY_DATA:
            shown = message.kind.decode("latin-1")
            raise SessionError(f'invalid standby message type "{shown}"', sqlstate=PROTOCOL_VIOLATION)
        try:
            status = parse_client_message(message.body, self._version)
        except BrokenMessageError as error:
            log.info("%s", error)
            return False
        if isinstance(status, StandbyStatus):
            self._take(status)
        elif isinstance(status, PrimaryStatusRequest):
            self._leave_unanswered()
        return True

    def _leave_unanswered(self) -> None:
        """Say once that a question is not answered. That is safe: what the subscriber retains, it retains longer."""
        if not self._has_been_asked:
            log.warning("a subscriber asks for the primary's status, which is not known here: its dead tuples stay")
            self._has_been_asked = True

    def _send_done(self) -> None:
        if not self._has_sent_done:
            self._connection.send(COPY_DONE)
            self._has_sent_done = True

    def _take(self, status: StandbyStatus) -> None:
        self.activity.has_reported(status.written, status.flushed, status.applied, status.time)
        self._owes_reply |= status.wants_reply
        if self._owes_reply and self._connection.has_room:
            self._keepalive(False)
        if status.flushed and self._progress.confirm(status.flushed):
            self._write_slot()

    def _write_slot(self) -> None:
        if self._writing is None or self._writing.done():
            self._log_failure()
            self._writing = self._loop.run_in_executor(None, self._progress.write)

    def _log_failure(self) -> None:
        """Tell of a slot's file that could not be written; it is tried again, and the session's end raises."""
        error = None if self._writing is None else self._writing.exception()
        if error is not None:
            log.error("the slot is not written: %s", error)

    def _send(self) -> None:
        """Send as much as there is room for; nothing after CopyDone."""
        while self._can_go_on():
            item = self._feed.take()
            if isinstance(item, Piece):
                self._connection.send(item.data)
                self._progress.sent(item.count, len(item.data))
                self.activity.has_sent(item.lsn, item.count, len(item.data))
                return
            if isinstance(item, Reached):
                self.activity.has_sent(item.kept.state.lsn)
                self._progress.reached(item.kept.state)
            elif isinstance(item, TimelineEnd):
                self._send_done()
            elif isinstance(item, HeadwaterError):
                raise item

    def _show_position(self) -> None:
        """Tell how far all was sent, unless the client has reported it: it may confirm what had nothing for it."""
        place = self.activity
        if place.flushed < place.sent and place.written < place.sent and not self._is_pinged:
            self._keepalive(False)

    def _keepalive(self, wants_reply: bool) -> None:
        self._connection.send(copy_data(keepalive(self.activity.sent, wants_reply)))
        self._owes_reply = False
        self._is_pinged = self._is_pinged or wants_reply

    def _finish(self) -> StreamEnd | None:
        """End when the client has everything that it was sent; else ask how far it is. Nothing more is sent."""
        self._is_finishing = True
        replicated = self.activity.flushed or self.activity.written
        if replicated >= self.activity.sent:
            return StreamEnd.SERVICE_ENDS
        if not self._is_pinged:
            self._keepalive(True)
        return None

    def _check_time(self) -> StreamEnd | None:
        if not self._timeout:
            return None
        silent = self._loop.time() - self._last_reply
        if silent >= self._timeout:
            return StreamEnd.TIMED_OUT
        if silent >= self._timeout / 2 and not self._is_pinged:
            self._keepalive(True)
        return None

    def _sleep(self) -> float:
        """Return the seconds until time alone makes something happen."""
        if not self._timeout:
            return LONGEST_WAIT
        limit = self._timeout if self._is_pinged else self._timeout / 2
        return min(LONGEST_WAIT, max(0.001, limit - (self._loop.time() - self._last_reply)))
