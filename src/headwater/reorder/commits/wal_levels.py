"""The WAL that says enough to be decoded: stretches of wal_level that is high enough, and gaps between them.

A server has to be restarted for another wal_level, so nothing runs across a change but prepared transactions. What the
server does: on a primary it refuses to start below logical as long as there is a logical slot (RestoreSlotFromDisk,
slot.c). So no slot's WAL ever has a gap; a slot that is made later begins after the raise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Decodable:
    """WAL in which transactions are decoded that are all in it.

    Attributes:
        first: LSN before which they must not have begun.
        start, stop: they are replayed at records that start at ``start`` or later, and before ``stop``.
    """

    first: int
    start: int
    stop: int


@dataclass(frozen=True)
class LevelGap:
    """WAL that cannot be decoded, though decoding had begun before it.

    Attributes:
        level: the lowest wal_level in it: 0 minimal, 1 replica.
        lo: LSN of the record that reports it; hi: of the one that says that it is high enough again, None if none did.
    """

    level: int
    lo: int
    hi: int | None = None


def starting_at(stretches: tuple[Decodable, ...], start: int) -> tuple[Decodable, ...]:
    """Return the same stretches, of which what ends before an LSN is not wanted."""
    return tuple(replace(stretch, start=max(stretch.start, start)) for stretch in stretches)


def is_decodable(place: Int64s, first_lsn: Int64s, stretches: tuple[Decodable, ...]) -> NDArray[np.bool_]:
    """Tell which transactions lie in a stretch with all they did: bool[t].

    Args:
        place: int64[t] where their commit records, or what else they are replayed at, start.
        first_lsn: int64[t] where they first showed.
        stretches: in order.
    """
    lies_inside = np.zeros(len(place), np.bool_)
    for stretch in stretches:
        lies_inside |= (place >= stretch.start) & (place < stretch.stop) & (first_lsn >= stretch.first)
    return lies_inside


def lies_in(lsns: Int64s, stretches: tuple[Decodable, ...]) -> NDArray[np.bool_]:
    """Tell which records lie in a stretch, whatever their transaction did before it: bool[n]."""
    lies_inside = np.zeros(len(lsns), np.bool_)
    for stretch in stretches:
        lies_inside |= (lsns >= stretch.start) & (lsns < stretch.stop)
    return lies_inside
