"""Where the WAL says enough to be decoded: stretches of wal_level that is high enough, and gaps between them.

A server has to be restarted for another wal_level, so nothing runs across a change but prepared transactions. What the
server does: on a primary it refuses to start below logical as long as there is a logical slot (RestoreSlotFromDisk,
slot.c), so that no slot's WAL ever has a gap; a slot that is made later begins behind the raise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.transactions import CommittedTransactions

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Decodable:
    """WAL in which transactions are decoded that are all in it.

    Attributes:
        first: LSN before which they must not have begun.
        start, stop: their commit records start at ``start`` or later, and before ``stop``.
    """

    first: int
    start: int
    stop: int


@dataclass(frozen=True)
class LevelGap:
    """WAL that cannot be decoded, though decoding had begun before it.

    Attributes:
        level: the lowest wal_level in it: 0 minimal, 1 replica.
        lo: LSN of the record that tells of it; hi: of the one that says that it is high enough again, None if none did.
    """

    level: int
    lo: int
    hi: int | None = None


def is_decodable(txns: CommittedTransactions, stretches: tuple[Decodable, ...], start: int) -> NDArray[np.bool_]:
    """bool[t]: which transactions lie in a stretch with all they did.

    Args:
        txns: them.
        stretches: in order.
        start: and whose commit records start here or later.
    """
    found = np.zeros(len(txns.xid), np.bool_)
    for one in stretches:
        inside = (txns.commit_lsn >= max(one.start, start)) & (txns.commit_lsn < one.stop)
        found |= inside & (txns.first_lsn >= one.first)
    return found


def lies_in(lsns: Int64s, stretches: tuple[Decodable, ...], start: int) -> NDArray[np.bool_]:
    """bool[n]: which records of their own, of no transaction, lie in a stretch; see :func:`is_decodable`."""
    found = np.zeros(len(lsns), np.bool_)
    for one in stretches:
        found |= (lsns >= max(one.start, start)) & (lsns < one.stop)
    return found
