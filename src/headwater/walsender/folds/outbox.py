"""The way from a thread that decodes to the event loop: items in their order, no more bytes of them than a budget.

The thread may wait for room. The loop never waits: it takes what is there, and is woken when there is something.

Invariant: of states that follow each other only the last is here, so that a client that takes nothing costs its budget.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from headwater.protocol.copy_frames import Piece
from headwater.walsender.folds.items import Item, Reached

BUDGET = 8 << 20
"""Bytes of pieces that wait to be taken, at most; or one piece that is larger."""


class Outbox:
    """The queue of one stream.

    Args:
        wake: called when there is something to take, from another thread.
        budget: bytes.

    Attributes:
        most: bytes that have waited at once, at most.
    """

    def __init__(self, wake: Callable[[], None], budget: int = BUDGET) -> None:
        self._wake, self._budget = wake, budget
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._bytes = self.most = 0
        self._is_at_end = self._is_closed = False
        self._is_looked_at = True
        self._taken = time.monotonic()

    def offer(self, item: Item, patience: float | None = None) -> bool:
        """Put an item behind the others, as soon as there is room; drop it if the queue is closed.

        Args:
            item: it; patience: seconds to wait at most, None for ever.

        Returns:
            False: there was no room all the time.
        """
        size = len(item.data) if isinstance(item, Piece) else 0
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(size), patience):
                return False
            if not self._is_closed:
                self._put(item, size)
        self._wake()
        return True

    def take(self) -> Item | None:
        """Return the next item, None if there is none yet."""
        with self._changed:
            if not self._items:
                return None
            item = self._items.popleft()
            self._taken = time.monotonic()
            if isinstance(item, Piece):
                self._bytes -= len(item.data)
                self._changed.notify_all()
        return item

    def note_end(self) -> None:
        """Note that all has been put here that was there when it was looked at."""
        with self._changed:
            self._is_at_end = self._is_looked_at
        self._wake()

    def begin_look(self) -> None:
        """Note that it is looked now at what there is."""
        with self._changed:
            self._is_looked_at = True

    def expect_more(self) -> None:
        """Forget that all there is has been put here, until it was looked at again."""
        with self._changed:
            self._is_at_end = self._is_looked_at = False

    def close(self) -> None:
        """Drop what is here, and what still comes."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._bytes = 0
            self._changed.notify_all()

    def wait_for_room(self, size: int) -> bool:
        """Wait until no more than half of the budget waits, and so many bytes more may; False: it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or (self.is_roomy and self._has_room(size)))
            return not self._is_closed

    @property
    def is_drained(self) -> bool:
        """Whether all there is has been put here and taken."""
        with self._changed:
            return self._is_at_end and not self._items

    @property
    def has_items(self) -> bool:
        """Whether something can be taken."""
        return bool(self._items)

    @property
    def is_roomy(self) -> bool:
        """Whether no more than half of the budget waits."""
        return self._bytes <= self._budget // 2

    @property
    def idle_seconds(self) -> float:
        """The time since something was taken last."""
        return time.monotonic() - self._taken

    def _has_room(self, size: int) -> bool:
        return self._is_closed or not size or not self._bytes or self._bytes + size <= self._budget

    def _put(self, item: Item, size: int) -> None:
        self._is_at_end = False
        if isinstance(item, Reached) and self._items and isinstance(self._items[-1], Reached):
            self._items.pop()
        if not self._items:
            self._taken = time.monotonic()
        self._items.append(item)
        self._bytes += size
        self.most = max(self.most, self._bytes)
