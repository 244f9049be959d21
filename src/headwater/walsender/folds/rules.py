"""The rules by which folds of one database come together: where a fold goes next, and for whom it waits. Pure.

Folds meet where one stands, or will stand: a fold goes to the next such place if it is near. One that has much left to
do waits for those closely behind it, as long as they decode; at the end of the log it waits less, as what it has is
awaited. Nobody waits for one that is held up by its own client. All waiting is bounded. The first that comes goes at
once; those that come while it is in its first window gather, go through that window together, and meet it at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

WINDOW_BYTES = 64 << 20
"""WAL of a window, at most; windows end at multiples of it."""

MUCH_BYTES = WINDOW_BYTES
"""WAL that is left to a fold that has much to do."""

WINDOW_BEHIND = WINDOW_BYTES * 5 // 4
"""A fold so close behind is waited for by one that has much left to do: a window, which ends where a record does."""

NEAR_BYTES = 4 << 20
"""A fold so close behind is waited for by one that does not have much left to do."""

GATHER_SECONDS, MOST_GATHER_SECONDS = 0.25, 3.0
"""Who comes where others are near, and has much to do, begins when nobody has come for so long, or after so long."""

PATIENCE_SECONDS, MUCH_PATIENCE_SECONDS = 0.25, 15.0
"""For folds behind: of one that has little left to do, and of one that has much."""


@dataclass(frozen=True)
class Whereabouts:
    """A fold's place.

    Attributes:
        position: LSN where it stands, or where its present window begins; 0 if it has no state yet.
        target: LSN where its window ends at the latest; None: it stands.
        is_slow: its clients do not take what they are given, or it is to be alone: nobody waits for it.
    """

    position: int
    target: int | None = None
    is_slow: bool = False


@dataclass(frozen=True)
class Standing:
    """A fold that stands, and may go.

    Attributes:
        position: LSN; end: LSN where the log ends.
        waited: seconds since it came here.
        is_new: it has not gone anywhere; quiet: seconds since the last one has come that is new.
    """

    position: int
    end: int
    waited: float
    is_new: bool = False
    quiet: float = 0.0


def next_line(position: int) -> int:
    """Return the LSN where a window ends at the latest that begins at an LSN."""
    return (position // WINDOW_BYTES + 1) * WINDOW_BYTES


def aim(position: int, end: int, others: Iterable[Whereabouts]) -> int:
    """Return the LSN where a fold's next window ends at the latest: where it may meet another one.

    Args:
        position: LSN where it begins; end: LSN where the log ends.
        others: the other folds of the database.
    """
    limit = min(end, next_line(position))
    places = (other.position if other.target is None else other.target for other in others)
    return min((place for place in places if position < place < limit), default=limit)


def patience(me: Standing, others: Iterable[Whereabouts]) -> float:
    """Return the seconds that a fold still waits before it goes on; 0: it goes."""
    has_much, others = me.end - me.position >= MUCH_BYTES, list(others)
    if me.is_new and has_much and any(abs(other.position - me.position) <= WINDOW_BYTES for other in others):
        left = min(GATHER_SECONDS - me.quiet, MOST_GATHER_SECONDS - me.waited)
        if left > 0:
            return left
    near = WINDOW_BEHIND if has_much else NEAR_BYTES
    if not any(_comes(other, me.position, near) for other in others):
        return 0.0
    return max(0.0, (MUCH_PATIENCE_SECONDS if has_much else PATIENCE_SECONDS) - me.waited)


def _comes(other: Whereabouts, position: int, near: int) -> bool:
    """Tell whether a fold is close behind a position, and will stand there."""
    if other.is_slow or not position - near <= other.position < position:
        return False
    return other.target is None or other.target <= position
