"""When a relation's schema must be sent again (PostgreSQL: RelationSyncCache of pgoutput.c, invalidations of
reorderbuffer.c and inval.c).

A plugin that sends schemas forgets that it sent one when an invalidation names the relation. Invalidations run at
places of the output: a transaction's own ones where they were logged, all of them again after its commit; those of a
transaction that commits meanwhile where it committed (distributed invalidations, servers from May 2025 on); those
without an xid at once. A place is (unit, LSN inside the unit); changes have places too, so the schema goes before the
first wanted change at or after each place of invalidation.

Known gap: a transaction that receives more than 8 MB of distributed invalidations forgets everything on the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

AT_START = -1
"""Place inside a unit before its first change."""

AT_END = np.iinfo(np.int64).max
"""Place inside a unit after its last change."""


@dataclass(frozen=True)
class Forget:
    """At a place of the output, one relation (or all: 0) must be announced anew.

    Attributes:
        unit: number of the transaction in output order.
        lsn: place inside the unit, bytes, or AT_START, AT_END.
        relation: OID, or 0 for all.
    """

    unit: int
    lsn: int
    relation: int


def schema_places(
    relation: Int64s, unit: Int64s, lsn: Int64s, forgets: Iterable[Forget]
) -> NDArray[np.bool_]:
    """Before which touches the schema is sent.

    Args:
        relation: int64[n] OID touched by a row of wanted changes.
        unit: int64[n] its unit.
        lsn: int64[n] its first LSN.
        forgets: where schemas are forgotten.

    Returns:
        bool[n]: the schema goes before the row's first wanted change.
    """
    order = np.lexsort((lsn, unit, relation))
    sends = np.zeros(len(relation), np.bool_)
    rel, un, at = relation[order], unit[order], lsn[order]
    oids, firsts = np.unique(rel, return_index=True)
    lasts = np.append(firsts[1:], len(rel))
    sends[order[firsts]] = True
    spans = {int(o): (int(a), int(b)) for o, a, b in zip(oids, firsts, lasts, strict=True)}
    for forget in dict.fromkeys(forgets):
        targets = spans.values() if forget.relation == 0 else filter(None, [spans.get(forget.relation)])
        for low, high in targets:
            place = _place(un, at, low, high, forget)
            if place < high:
                sends[order[place]] = True
    return sends


def _place(unit: Int64s, lsn: Int64s, low: int, high: int, forget: Forget) -> int:
    """First row in ``[low, high)`` at or after the place."""
    left = low + int(np.searchsorted(unit[low:high], forget.unit, "left"))
    right = low + int(np.searchsorted(unit[low:high], forget.unit, "right"))
    return left + int(np.searchsorted(lsn[left:right], forget.lsn, "left"))
