"""A feed that gives each transaction no sooner than a while after it was committed at the source.

By the clocks of the source and of this machine, as ``recovery_min_apply_delay`` has it. What is held is one piece; all
else stays with the feed behind it, which has a bound, and at last with the source. PREPARE waits as a commit does, and
so does what ends the prepared transaction: the target is what the source was a while ago, with all that is locked.

Blocks of transactions that have not ended pass at once, where nothing before them is held: they are spooled.

PostgreSQL: xlogrecovery.c (recoveryApplyDelay), which delays commits alone.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from headwater.apply.incoming.feeds import Feed, FeedOfFeed
from headwater.errors import UsageError
from headwater.remote_slots.framed_messages import HEADER_BYTES, find_messages
from headwater.remote_slots.slot_feed import Piece

MICROSECONDS = 1_000_000
EPOCH_SECONDS = 946_684_800
"""2000-01-01 in seconds since 1970."""

_TIMES = {b"B"[0]: 9, b"b"[0]: 17, b"c"[0]: 22, b"K"[0]: 18, b"p"[0]: 18, b"r"[0]: 26}
"""Messages that wait, and where the time of the commit lies in each."""
_ENDS = {b"C"[0]: 10, b"P"[0]: 10, b"K"[0]: 10, b"r"[0]: 10, b"p"[0]: 10, b"c"[0]: 14}
"""Messages that end a transaction, and where its END lies in each."""
_LOOKED_AT = np.array([*_TIMES, *_ENDS], np.uint8)

_UNITS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_DELAY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)\s*")
MOST_SECONDS = (2**31 - 1) / 1000
"""As of recovery_min_apply_delay."""

Waits = Callable[[float | None], None]
"""Is told until when is waited, in seconds since 1970; None: nothing waits any more."""


def read_delay(text: str) -> float:
    """Read a delay, such as ``1h`` or ``30min``, into seconds.

    Raises:
        UsageError: it is none.
    """
    match = _DELAY.fullmatch(text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else MOST_SECONDS + 1
    if seconds > MOST_SECONDS:
        hint = "write a number and one of ms, s, min, h, d, such as 30min; 24 days at most"
        raise UsageError(f'"{text}" is no delay', hint=hint)
    return seconds


class DelayedFeed(FeedOfFeed):
    """The feed; a context manager.

    Args:
        feed: what is delayed; seconds: by how much.
        reached: LSN from which it begins; waits: see above.
    """

    def __init__(self, feed: Feed, seconds: float, reached: int, waits: Waits = lambda _: None) -> None:
        super().__init__(feed)
        self._seconds, self._waits = seconds, waits
        self._held: Piece | None = None
        self._marks = deque[tuple[int, float, int]]()
        self._given, self._reached = 0, reached

    def take(self, seconds: float, most_bytes: int) -> Piece:
        """Take what is due; see :meth:`headwater.apply.incoming.feeds.Feed.take`.

        While a transaction waits, what comes is empty, and whole up to where it begins.
        """
        if self._held is None:
            piece = self._feed.take(seconds, most_bytes)
            if not piece.data:
                self._reached = max(self._reached, piece.reached)
                return piece
            self._hold(piece)
        return self._due(seconds)

    def _hold(self, piece: Piece) -> None:
        data = np.frombuffer(piece.data, np.uint8)
        messages = find_messages(data)
        self._held, self._given = piece, 0
        for number in np.flatnonzero(np.isin(messages.kind, _LOOKED_AT)).tolist():
            kind, start = int(messages.kind[number]), int(messages.start[number])
            due = self._time(piece.data, start + _TIMES[kind]) if kind in _TIMES else 0.0
            at = start + _ENDS.get(kind, 0)
            end = int.from_bytes(piece.data[at : at + 8], "big") if kind in _ENDS else 0
            self._marks.append((start - HEADER_BYTES, due, end))

    def _time(self, data: bytes, at: int) -> float:
        committed = int.from_bytes(data[at : at + 8], "big", signed=True)
        return EPOCH_SECONDS + committed / MICROSECONDS + self._seconds

    def _due(self, seconds: float) -> Piece:
        held, now = self._held, time.time()
        assert held is not None
        begin = self._given
        while self._marks and self._marks[0][1] <= now:
            _, _, end = self._marks.popleft()
            self._reached = max(self._reached, end)
        if not self._marks:
            self._held = None
            self._reached = max(self._reached, held.reached)
            self._waits(None)
            return Piece(held.data[begin:], held.is_whole, held.reached, held.transactions)
        self._given, until, _ = self._marks[0]
        if self._given == begin:
            self._waits(until)
            time.sleep(min(seconds, until - now))
        return Piece(held.data[begin : self._given], True, self._reached, 0)
