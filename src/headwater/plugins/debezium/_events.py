"""Kernel that makes debezium's events from a slice's messages: their kinds, numbers, and the last transaction's end.

A delete is followed by a tombstone, and a row whose key has changed is deleted and created again. Events are counted
inside their transaction, all and those of a table; each has the LSN where the transaction before it ended. Mirrors
``RelationalChangeRecordEmitter``, ``TransactionContext`` and ``SourceInfo`` of the connector.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel
from headwater.plugins._borrow import borrow
from headwater.plugins._plan import BEGIN, CHANGE, COMMIT, Int64s, Plan
from headwater.reorder.unit_flags import BARE
from headwater.rows._text_bytes import Int
from headwater.rows.items import INSERT, NULL, UPDATE, Cells, Items, Transactions

CREATED, UPDATED, DELETED, TOMBSTONE, KEY_DELETED, KEY_TOMBSTONE, KEY_CREATED = 0, 1, 2, 3, 4, 5, 6
"""The kinds of events of rows; the last three are of a row whose key has changed."""

BEGUN, ENDED, MADE = 7, 8, 9
"""The kinds of other events: of a transaction, and ready-made ones (truncates and logical messages)."""

EVENTS_AT_MOST = 3
"""The most events of one change."""

# Indexes into the rules: which operations give events, tombstones, transaction metadata.
SHOWS_CREATED, SHOWS_UPDATED, SHOWS_DELETED, TOMBSTONES, METADATA = 0, 1, 2, 3, 4

NO_TABLE, SILENT, UNCOUNTED = -1, -2, -3
"""The numbers that stand for the table of a message without a table.

NO_TABLE is for a logical message, which is counted alone, SILENT for a message that gives no event, UNCOUNTED for an
event that is not counted.
"""


class Keys(NamedTuple):
    """The keys of L layouts.

    Attributes:
        first: int64[L+1] the key of layout i is the columns ``[first[i], first[i+1])``.
        attribute: int32[k] index of each column's cell inside a tuple.
        table: int32[L] number of the layout's table; versions of one table share it.
        made_table: int32[] of each ready-made message: its table, NO_TABLE, SILENT or UNCOUNTED.
    """

    first: Int64s
    attribute: NDArray[np.int32]
    table: NDArray[np.int32]
    made_table: NDArray[np.int32]


class Events(NamedTuple):
    """The events of a slice, e of them.

    Attributes:
        kind: uint8[e].
        message: int64[e] index of the plan's message.
        order, table_order: int64[e] numbers inside the transaction, from 1 on; of ENDED, the number of events, and an
            index into the tallies, of the first table.
        last_end: int64[e] the LSN where the transaction before ended, -1 for none.
        time: int64[e] the last commit time.
    """

    kind: NDArray[np.uint8]
    message: Int64s
    order: Int64s
    table_order: Int64s
    last_end: Int64s
    time: Int64s


class Tallies(NamedTuple):
    """The numbers of events by table, of each ENDED, in the order of the tables' first events.

    Attributes:
        table: int32[] NO_TABLE for a logical message.
        events: int64[].
    """

    table: NDArray[np.int32]
    events: Int64s


@inline_kernel
def _is_same(cells: Cells, cell: Int, other_cell: Int) -> Int:
    """Tell whether two cells have the same value."""
    if cells.kind[cell] != cells.kind[other_cell]:
        return False
    if cells.kind[cell] == NULL:
        return True
    length = np.int64(cells.length[cell])
    if length != cells.length[other_cell]:
        return False
    a, b = cells.start[cell], cells.start[other_cell]
    same = 0
    while same < length and cells.text[a + same] == cells.text[b + same]:
        same += 1
    return same == length


@inline_kernel
def _changes_key(items: Items, item: Int, cells: Cells, keys: Keys) -> Int:
    """Tell whether an UPDATE changes the key; without its old tuple it does not."""
    old, new = cells.old_first[item], cells.new_first[item]
    layout = items.layout[item]
    if old < 0:
        return False
    for i in range(keys.first[layout], keys.first[layout + 1]):
        attribute = keys.attribute[i]
        if not _is_same(cells, old + attribute, new + attribute):
            return True
    return False


@inline_kernel
def _add(events: Events, e: Int, kind: Int, message: Int, last_end: Int, time: Int) -> Int:
    events.kind[e] = kind
    events.message[e] = message
    events.order[e] = 0
    events.table_order[e] = 0
    events.last_end[e] = last_end
    events.time[e] = time
    return e + 1


@inline_kernel
def _add_change(
    events: Events,
    e: Int,
    k: Int,
    items: Items,
    item: Int,
    cells: Cells,
    keys: Keys,
    rules: Int64s,
    end: Int,
    time: Int,
) -> Int:
    """Append the events of a row's change."""
    kind = items.kind[item]
    if kind == INSERT:
        return _add(events, e, CREATED, k, end, time) if rules[SHOWS_CREATED] else e
    has_key = keys.first[items.layout[item]] < keys.first[items.layout[item] + 1]
    if kind == UPDATE and has_key and _changes_key(items, item, cells, keys):
        if rules[SHOWS_DELETED]:
            e = _add(events, e, KEY_DELETED, k, end, time)
            if rules[TOMBSTONES]:
                e = _add(events, e, KEY_TOMBSTONE, k, end, time)
        return _add(events, e, KEY_CREATED, k, end, time) if rules[SHOWS_CREATED] else e
    if kind == UPDATE:
        return _add(events, e, UPDATED, k, end, time) if rules[SHOWS_UPDATED] else e
    if rules[SHOWS_DELETED]:
        e = _add(events, e, DELETED, k, end, time)
        if rules[TOMBSTONES]:
            e = _add(events, e, TOMBSTONE, k, end, time)
    return e


@kernel
def list_events(
    items: Items, cells: Cells, transactions: Transactions, plan: Plan, keys: Keys, rules: Int64s, events: Events
) -> Int:
    """Fill the events, except their numbers; return how many there are.

    Args:
        items: the slice's changes.
        cells: the text of the changes.
        transactions: the slice's transactions.
        plan: the slice's messages.
        keys: the keys of its layouts.
        rules: int64[5] SHOWS_CREATED and so on.
        events: long enough for EVENTS_AT_MOST of each message.
    """
    items, cells, transactions = borrow(items), borrow(cells), borrow(transactions)
    plan, keys, events = borrow(plan), borrow(keys), borrow(events)
    if len(plan.op) == 0:
        return 0
    e, last_end, time = 0, transactions.last_end[0], transactions.last_time[0]
    for k in range(len(plan.op)):
        op, t = plan.op[k], np.int64(plan.txn[k])
        is_bare = transactions.flags[t] & BARE != 0
        time = time if is_bare else transactions.commit_time[t]
        if op in (BEGIN, COMMIT):
            last_end = plan.lsn[k] if op == COMMIT else last_end
            if rules[METADATA]:
                e = _add(events, e, BEGUN if op == BEGIN else ENDED, k, last_end, time)
        elif op == CHANGE:
            e = _add_change(events, e, k, items, plan.arg[k], cells, keys, rules, last_end, time)
        else:
            last_end = plan.lsn[k] if is_bare else last_end
            if keys.made_table[plan.arg[k]] != SILENT:
                e = _add(events, e, MADE, k, last_end, time)
    return e


@inline_kernel
def _table_of(events: Events, e: Int, items: Items, plan: Plan, keys: Keys) -> Int:
    arg = plan.arg[events.message[e]]
    return np.int64(keys.made_table[arg]) if events.kind[e] == MADE else np.int64(keys.table[items.layout[arg]])


@kernel
def number_events(
    items: Items, transactions: Transactions, plan: Plan, keys: Keys, events: Events, seen: Int64s, tallies: Tallies
) -> None:
    """Give events their numbers inside their transactions.

    Args:
        items: the slice's changes.
        transactions: the slice's transactions.
        plan: the slice's messages.
        keys: the keys of its layouts.
        events: the events, without their numbers.
        seen: int64[tables] zeros.
        tallies: long enough for an event each.
    """
    items, transactions, plan = borrow(items), borrow(transactions), borrow(plan)
    keys, events, tallies = borrow(keys), borrow(events), borrow(tallies)
    first, tally, order = 0, 0, 0
    for e in range(len(events.kind)):
        kind, t = events.kind[e], np.int64(plan.txn[events.message[e]])
        if kind == ENDED:
            events.order[e], events.table_order[e] = order, first
            continue
        if kind == BEGUN:
            for i in range(first, tally):
                if tallies.table[i] != NO_TABLE:
                    seen[tallies.table[i]] = 0
            first, order = tally, 0
            continue
        if kind in (TOMBSTONE, KEY_TOMBSTONE) or transactions.flags[t] & BARE:
            continue
        table = _table_of(events, e, items, plan, keys)
        if table == UNCOUNTED:
            continue
        if table == NO_TABLE or seen[table] == 0:
            tallies.table[tally], tallies.events[tally] = table, 0
            tally += 1
            if table != NO_TABLE:
                seen[table] = tally
        at = seen[table] - 1 if table != NO_TABLE else tally - 1
        tallies.events[at] += 1
        order += 1
        events.order[e], events.table_order[e] = order, tallies.events[at]


@inline_kernel
def tallies_end(events: Events, e: Int, tallies: Tallies) -> Int:
    """Find where the tallies of a transaction end; event e is its ENDED."""
    at, left = events.table_order[e], events.order[e]
    while left > 0:
        left -= tallies.events[at]
        at += 1
    return at
