"""The room that the states of all databases of a service share, in memory.

As long as all fit, each shelf has what it wants. Else there is a level that no shelf may be above: those that need less
have all of theirs, and the others the same. So a busy database takes no room that another one needs. The newest state
of a shelf counts, but stays in any case: its database is followed from there.

Invariant: nobody holds the lock of a shelf while it waits for that of the room, nor the other way round.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Protocol

MOST_BYTES = 256 << 20


class Shrinking(Protocol):
    """A shelf, as others see it."""

    def shrink(self, most_bytes: int) -> tuple[int, int]:
        """Drop what is too much; return how many bytes are left, and how many of them stay in any case."""


class ShelfRoom:
    """The room of the shelves of a service; any thread asks.

    Args:
        most_bytes: of all together.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._sizes: dict[Shrinking, tuple[int, int]] = {}

    def note(self, shelf: Shrinking, size: int, least: int) -> None:
        """Note the size of a shelf; those that are above the level then are made smaller.

        Args:
            shelf: it; size: in bytes; least: bytes that stay in any case.
        """
        with self._lock:
            self._sizes[shelf] = size, least
            level = level_of(self._sizes.values(), self._most_bytes)
            above = [shelf for shelf, (size, least) in self._sizes.items() if size > max(level, least)]
        for large in above:
            sizes = large.shrink(level)
            with self._lock:
                self._sizes[large] = sizes


def level_of(sizes: Collection[tuple[int, int]], most_bytes: int) -> int:
    """Return the bytes that none may be above, so that all fit.

    Args:
        sizes: of each the bytes that it has, and how many of them stay in any case; most_bytes: of all.
    """
    if sum(size for size, _ in sizes) <= most_bytes:
        return most_bytes
    low, high = 0, most_bytes
    while low < high:
        level = (low + high + 1) // 2
        if sum(max(least, min(size, level)) for size, least in sizes) <= most_bytes:
            low = level
        else:
            high = level - 1
    return low
