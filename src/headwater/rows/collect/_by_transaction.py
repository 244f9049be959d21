"""Kernel: the items picked out of a slice's records, grouped by transaction, with the schemas that go before.

PostgreSQL: maybe_send_schema of pgoutput.c, as far as the plan says which change is the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rmgr._record import Int
from headwater.rows.collect._collect_tables import (
    FLAGS,
    KIND,
    LAYOUT,
    LSN,
    NEW_AT,
    NEW_LEN,
    OLD_AT,
    OLD_LEN,
    PLACE,
    UNIT,
    XID,
    Bytes,
    Int32s,
    Int64s,
)
from headwater.rows.items import DELETE, LITERAL, SEND_SCHEMA


class Grouped(NamedTuple):
    """Items sorted by unit, n of them; see :class:`headwater.rows.items.Items`.

    Attributes:
        kind: uint8[n]; txn: int32[n]; xid: uint32[n]; lsn: int64[n]; layout: int32[n].
        new_at: int64[n]; new_len: int32[n]; old_at: int64[n]; old_len: int32[n].
        flags: uint8[n]; place: int64[n].
    """

    kind: Bytes
    txn: Int32s
    xid: NDArray[np.uint32]
    lsn: Int64s
    layout: Int32s
    new_at: Int64s
    new_len: Int32s
    old_at: Int64s
    old_len: Int32s
    flags: Bytes
    place: Int64s


@borrowing_kernel
def group_items(raw: Int64s, count: Int, item_start: Int64s, item_end: Int64s, to: Grouped) -> None:
    """Sort raw items by unit, keeping the order of the log inside each.

    Args:
        raw: int64[>= count, COLUMNS].
        count: items in it.
        item_start: int64[u] written here: where the items of each unit begin.
        item_end: int64[u] written here: where they end.
        to: written here.
    """
    item_end[:] = 0
    for i in range(count):
        item_end[raw[i, UNIT]] += 1
    total = np.int64(0)
    for unit in range(len(item_end)):
        item_start[unit] = total
        total += item_end[unit]
        item_end[unit] = item_start[unit]
    for i in range(count):
        unit = raw[i, UNIT]
        at = item_end[unit]
        item_end[unit] = at + 1
        to.kind[at] = raw[i, KIND]
        to.txn[at] = unit
        to.xid[at] = raw[i, XID]
        to.lsn[at] = raw[i, LSN]
        to.layout[at] = raw[i, LAYOUT]
        to.new_at[at] = raw[i, NEW_AT]
        to.new_len[at] = raw[i, NEW_LEN]
        to.old_at[at] = raw[i, OLD_AT]
        to.old_len[at] = raw[i, OLD_LEN]
        to.flags[at] = raw[i, FLAGS]
        to.place[at] = raw[i, PLACE]


@borrowing_kernel
def number_layouts(kind: Bytes, layout: Int32s, used: Int64s) -> None:
    """Give the relation versions whose rows are printed their numbers, in their order.

    Args:
        kind: uint8[n] kinds of items.
        layout: int32[n] relation versions by their old numbers; by the new ones afterwards, -1 for items that are not
            printed. Of literals it stays.
        used: int64[r] zeros; the new number of each version afterwards, -1 for one that is not printed.
    """
    for i in range(len(kind)):
        if kind[i] < LITERAL:
            used[layout[i]] = 1
    number = np.int64(0)
    for relation in range(len(used)):
        is_used = used[relation]
        used[relation] = number if is_used else -1
        number += is_used
    for i in range(len(kind)):
        if kind[i] != LITERAL:
            layout[i] = used[layout[i]] if kind[i] < LITERAL else -1


@borrowing_kernel
def announce(announcements: Int64s, item_start: Int64s, item_end: Int64s, items: Grouped) -> Int:
    """Flag the first change of the relation at or after each announcement.

    Args:
        announcements: int64[3, a] (unit, LSN, relation).
        item_start: int64[u] where the items of each unit begin.
        item_end: int64[u] where they end.
        items: their flags are written.

    Returns:
        -1, or the number of an announcement that found no change.
    """
    for a in range(announcements.shape[1]):
        unit = announcements[0, a]
        low, high = item_start[unit], item_end[unit]
        while low < high:
            middle = (low + high) >> 1
            if items.place[middle] < announcements[1, a]:
                low = middle + 1
            else:
                high = middle
        while low < item_end[unit] and (items.kind[low] > DELETE or items.layout[low] != announcements[2, a]):
            low += 1
        if low == item_end[unit]:
            return a
        items.flags[low] |= SEND_SCHEMA
    return -1
