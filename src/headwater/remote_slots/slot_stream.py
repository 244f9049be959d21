"""The stream of a slot in windows of whole transactions, over lost connections.

In: a slot's address, and the LSN that the reader has come to. Out: a :class:`SlotWindow` after the other: all that
commits from one LSN to another. Nothing is confirmed but what the reader says is durable.

A connection that is lost is tried again where the log is followed, each time later; then the stream goes on from the
end of the last window that was given, as the server sends again what was not confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.errors import ConnectionLostError, ServerError
from headwater.pg.lsn import Lsn
from headwater.pipeline.windows.commit_pace import CommitPace
from headwater.receiver.frame_stream import FrameStream
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.receiver.wal_receiver import FIRST_SECONDS, MOST_SECONDS
from headwater.remote_slots.slot_address import SlotAddress
from headwater.remote_slots.slot_connection import SlotFacts, open_slot, start_slot
from headwater.remote_slots.slot_feed import MOST_BYTES, Piece, SlotFeed
from headwater.remote_slots.spooled_pieces import SpooledPieces

WAIT_SECONDS = 0.2
"""How long to wait for more, between two looks at whether the run was told to end."""


QUIET_SECONDS = 1.0
"""How often windows end at most that have no transaction."""

PATIENCE_SECONDS = 5.0
"""How long a slot may be another's at first: the server notices late that a reader was killed."""

_IN_USE = "55006"


@dataclass
class _Partial:
    """A window that is not whole yet.

    Attributes:
        pieces: what there is; lo: see :class:`SlotWindow`.
        transactions: how many; is_new_session: see there.
        reached, is_whole: as of the last piece.
    """

    pieces: SpooledPieces
    lo: int
    is_new_session: bool
    transactions: int = 0
    reached: int = 0
    is_whole: bool = False

    def add(self, piece: Piece) -> None:
        self.pieces.add(piece.data)
        self.transactions += piece.transactions
        self.reached, self.is_whole = max(self.lo, piece.reached), piece.is_whole


@dataclass(frozen=True)
class SlotWindow:
    """A window of a slot's stream.

    Attributes:
        pieces: the messages of whole transactions.
        lo, hi: LSNs: all are here that have committed between them.
        transactions: how many.
        is_new_session: a connection was made since the window before.
    """

    pieces: SpooledPieces
    lo: int
    hi: int
    transactions: int
    is_new_session: bool


class SlotStream:
    """A slot's stream; a context manager.

    Args:
        address: the slot's.
        scratch: a directory for what does not stay in memory.
        begin: LSN up to which the reader has everything; None to begin where the slot is confirmed.
        follows: it goes on after the end, and lost connections are tried again.
        end: LSN before whose commit records it ends otherwise; None for what the server has when it begins.
        lost: called with the reason when a connection is lost and tried again.
        quiet_bytes: WAL that the server goes on by without a transaction of the slot's before a window ends with none.
        pace: of windows where it is followed; None for as soon as there is anything.

    Attributes:
        facts: of the slot, as of the last connection.
        reached: LSN before which all was given.
        end: see above.
    """

    def __init__(
        self,
        address: SlotAddress,
        scratch: Path,
        begin: int | None = None,
        *,
        follows: bool = False,
        end: int | None = None,
        lost: Callable[[str], None] = lambda _: None,
        quiet_bytes: int = 1,
        pace: CommitPace | None = None,
    ) -> None:
        self._pace = pace or CommitPace()
        self._quiet_bytes, self._ended_at = quiet_bytes, 0.0
        self._address, self._scratch, self._follows, self._lost = address, scratch, follows, lost
        self._feeds, self._seconds = ExitStack(), FIRST_SECONDS
        connection, self.facts = open_slot(address)
        try:
            self.reached = self.facts.confirmed if begin is None else begin
            self._check(self.facts)
        except BaseException:
            connection.close()
            raise
        # What commits behind an end that was asked for is left to a later run; without one it comes as it came.
        self._stop = end
        self.end = None if follows else min(self.facts.flushed, self.facts.flushed if end is None else end)
        self._hurries = self.end is not None
        self._connection: ReplicationConnection | None = connection
        self._feed: SlotFeed | None = None
        self._partial: _Partial | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def confirm(self, lsn: int) -> None:
        """Let the server know that all up to an LSN is durable."""
        if self._feed is not None:
            self._feed.confirm(lsn)

    def confirm_reached(self, is_told: Callable[[], bool]) -> None:
        """Let the server know what was durable before this run, where no window has done so.

        It does not know where a run was killed between the reader's note and the confirmation. The server is waited for
        until it has come there: only then it lets go of the WAL before.

        Args:
            is_told: tells whether to end without that.

        Raises:
            ServerError: the server refuses.
            ConnectionLostError: the connection is lost.
        """
        connection, at = self._connection, self.facts.confirmed
        if connection is None or not at < self.reached <= self.facts.flushed:
            return
        feed = SlotFeed(self._start(connection), at, asks=True)
        self._connection = None
        with feed:
            feed.confirm(self.reached)
            while at < self.reached and not is_told():
                at = feed.take(WAIT_SECONDS).reached

    def window(self, most_bytes: int, is_told: Callable[[], bool], present: int | None = None) -> SlotWindow | None:
        """Wait for the next window.

        Args:
            most_bytes: it ends with the transaction that goes beyond; tells whether to end without one.
            present: LSN at which it ends at the latest, also without a transaction; None for none.

        Returns:
            the window; None at the end, or if it was told to end.

        Raises:
            ServerError: the server refuses, or what is needed is gone.
            ConnectionLostError: the connection is lost, and that is not tried again.
            LakeError: nothing can be written to the scratch directory.
        """
        return self._next(is_told, lambda partial: self._ends(partial, most_bytes, present), most_bytes, self._stop)

    def window_to(self, lsn: int, is_told: Callable[[], bool]) -> SlotWindow | None:
        """Wait for the window that ends at an LSN; as :meth:`window`."""
        self.hurry()
        return self._next(is_told, lambda partial: partial.reached >= lsn, MOST_BYTES, lsn)

    def hurry(self) -> None:
        """Ask the server again and again how far it has come, from here on."""
        self._hurries = True
        if self._feed is not None:
            self._feed.asks = True

    def _next(
        self, is_told: Callable[[], bool], ends: Callable[[_Partial], bool], most_bytes: int, stop: int | None = None
    ) -> SlotWindow | None:
        while not self._is_over(is_told):
            try:
                return self._filled(is_told, ends, most_bytes, stop)
            except ConnectionLostError as error:
                self._let_go()
                self._try_later(error, is_told)
        return None

    def _is_over(self, is_told: Callable[[], bool]) -> bool:
        return is_told() or (self.end is not None and self.reached >= self.end)

    def _filled(
        self, is_told: Callable[[], bool], ends: Callable[[_Partial], bool], most_bytes: int, stop: int | None
    ) -> SlotWindow | None:
        is_new = self._feed is None
        feed = self._connected()
        if self._partial is None:
            self._partial = _Partial(SpooledPieces(self._scratch), self.reached, is_new)
        partial = self._partial
        while not (partial.is_whole and ends(partial)):
            if is_told():
                return None
            partial.add(feed.take(WAIT_SECONDS, max(1, most_bytes - partial.pieces.bytes), stop))
        self._seconds, self.reached, self._partial = FIRST_SECONDS, partial.reached, None
        self._ended_at = time.monotonic()
        self._pace.begins()
        return SlotWindow(partial.pieces, partial.lo, self.reached, partial.transactions, partial.is_new_session)

    def _ends(self, partial: _Partial, most_bytes: int, present: int | None) -> bool:
        """Tell whether a window ends that is whole."""
        if partial.pieces.bytes >= most_bytes or (present is not None and partial.reached >= present):
            return True
        if self.end is not None:
            return partial.reached >= self.end
        if partial.pieces.bytes > 0:
            return self._pace.is_enough(partial.pieces.bytes)
        # Signs of life come often: each is not worth a note of how far the server is.
        is_due = time.monotonic() - self._ended_at >= QUIET_SECONDS
        return is_due and partial.reached - partial.lo >= self._quiet_bytes

    def _connected(self) -> SlotFeed:
        if self._feed is not None:
            return self._feed
        if self._connection is None:
            self._connection, self.facts = open_slot(self._address)
            self._check(self.facts)
        connection = self._connection
        self._feed = SlotFeed(self._start(connection), self.reached, asks=self._hurries)
        self._connection = None
        self._feeds.enter_context(self._feed)
        return self._feed

    def _start(self, connection: ReplicationConnection) -> FrameStream:
        """Begin the stream, once who has read the slot before is gone."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return start_slot(connection, self._address, self.reached)
            except ConnectionLostError as error:
                if error.sqlstate != _IN_USE or time.monotonic() >= until:
                    raise
            time.sleep(WAIT_SECONDS)

    def _check(self, facts: SlotFacts) -> None:
        """See that the slot has what the reader lacks.

        Raises:
            ServerError: it has not, or the server is another one.
        """
        if facts.source != self.facts.source:
            raise ServerError(f"the server is of {facts.source}, expected {self.facts.source} as before")
        # A slot that was just made may begin behind where the log ended a moment before.
        if max(facts.flushed, facts.confirmed) < self.reached:
            raise ServerError(
                f"the server's log ends at {Lsn(facts.flushed)}, and the slot was read up to {Lsn(self.reached)}: the "
                "server has lost what is between, and what it writes there now would be left out",
                hint="it was restored, or a standby took over that lagged behind; begin with another place and slot",
            )
        if facts.confirmed > self.reached:
            raise ServerError(
                f'replication slot "{self._address.slot}" was confirmed up to {Lsn(facts.confirmed)}, what was read '
                f"ends at {Lsn(self.reached)}: what is between is not to be had any more",
                hint="another reader has moved the slot, or it was made anew; begin with another place and slot",
            )

    def _let_go(self) -> None:
        """Let go of the connection, and of what is not whole, which is sent again."""
        if self._partial is not None:
            self._partial.pieces.close()
            self._partial = None
        self._feeds.close()
        self._feed = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try_later(self, error: ConnectionLostError, is_told: Callable[[], bool]) -> None:
        if not self._follows or is_told():
            raise error
        self._lost(f"{error.message}; trying again in {self._seconds:.0f} s")
        until = time.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, MOST_SECONDS)
        while not is_told() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_SECONDS))
