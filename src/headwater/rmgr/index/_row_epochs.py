"""Kernel: the open rows of changes that may still grow.

Some events end everybody's rows (commits with invalidations, grid lines). Others end only the rows of their own
transaction and its subtransactions: command ids, invalidations before the commit, truncates. Time is a clock that
counts events; a row remembers when it was begun.

A subtransaction is known by the records of the run that name its toplevel transaction. If it was named before the run,
or the table had no room for it, its rows may cross events of its own transaction. A caller that knows all names finds
them (:mod:`headwater.reorder.commits.row_cuts`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel
from headwater.rmgr._record import Int

CLOCK, COMMON, OWN = range(3)
"""Indexes into the clocks: now, the last event that ended all rows, the last that ended rows of one transaction."""

CLOCKS = 3

FAMILIES = 4096
"""Slots of the direct-mapped table of families, a power of two."""

# Rows of the table of families: an xid, its toplevel xid, and, of a toplevel xid, when its rows were ended last.
XID, TOPLEVEL, ENDED = range(3)

Int64s = NDArray[np.int64]


@inline_kernel
def end_all_rows(clocks: Int64s) -> None:
    """End all rows: none that was begun before this may grow."""
    clocks[CLOCK] += 1
    clocks[COMMON] = clocks[CLOCK]


@inline_kernel
def _toplevel(xid: Int, families: Int64s) -> Int:
    """Return the toplevel xid of an xid, as far as known; else the xid itself."""
    slot = xid & (FAMILIES - 1)
    return families[TOPLEVEL, slot] if families[XID, slot] == xid else xid


@inline_kernel
def _enter(xid: Int, toplevel: Int, families: Int64s, clocks: Int64s) -> Int:
    """Let a family begin or change; all rows are ended if the table forgets by that when a family's rows were ended."""
    slot = xid & (FAMILIES - 1)
    if families[XID, slot] != xid or families[TOPLEVEL, slot] != toplevel:
        if families[ENDED, slot] > clocks[COMMON]:
            end_all_rows(clocks)
        families[XID, slot] = xid
        families[TOPLEVEL, slot] = toplevel
        families[ENDED, slot] = 0
    return slot


@inline_kernel
def join_family(xid: Int, toplevel: Int, families: Int64s, clocks: Int64s) -> None:
    """Note that an xid is a subtransaction of another."""
    _enter(xid, toplevel, families, clocks)


@inline_kernel
def end_own_rows(xid: Int, families: Int64s, clocks: Int64s) -> None:
    """End the rows of this xid's family: none that was begun before this may grow."""
    toplevel = _toplevel(xid, families)
    slot = _enter(toplevel, toplevel, families, clocks)
    clocks[CLOCK] += 1
    clocks[OWN] = clocks[CLOCK]
    families[ENDED, slot] = clocks[CLOCK]


@inline_kernel
def may_grow(begun: Int, xid: Int, families: Int64s, clocks: Int64s) -> bool:
    """Tell whether a row of this xid that was begun then may grow."""
    if begun < clocks[COMMON] or begun >= clocks[OWN]:
        return bool(begun >= clocks[COMMON])
    toplevel = _toplevel(xid, families)
    slot = toplevel & (FAMILIES - 1)
    return bool(families[XID, slot] != toplevel or begun >= families[ENDED, slot])
