"""Work on many small things, several at a time: most of it is waiting for the disk.

Invariants: results are in the order of what was worked on. An error comes once all that was begun has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 8
"""More do not help: file systems put what is synced at a time into one write of their journal."""


def overlapped(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Call a function for each item, in several threads.

    Args:
        function: of different items, it may run at a time; items: them.

    Raises:
        Exception: the first that the function has raised, in the order of the items.
    """
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(len(items), THREADS), "overlapped") as threads:
        return list(threads.map(function, items))
