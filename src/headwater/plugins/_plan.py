"""Kernel that says which messages a slice gives, in order, before any byte of them is written.

Mirrors when the server calls ``begin_cb``, ``change_cb``, ``commit_cb`` (reorderbuffer.c, logical.c). Mirrors also when
plugins put off BEGIN to the first message (``pgoutput_send_begin`` of pgoutput.c, ``skip_empty_xacts`` of
test_decoding.c). All output plugins share it; a plugin's own kernel then writes message after message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel
from headwater.plugins._borrow import borrow
from headwater.reorder.unit_flags import BARE, BEGINS_HERE, ENDS_HERE, MAY_HAVE_WRITTEN, STREAMED, WROTE_BEFORE
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import DELETE, LITERAL, SEND_SCHEMA, TOAST, Cells, Items, Transactions

BEGIN, COMMIT, CHANGE, READY, UNSENDABLE = 0, 1, 2, 3, 4
"""Kinds of messages; the last is one of which its plugin has found out since that it cannot be sent."""

# Indexes into the rules: BEGIN is put off; changes without their tuple give no message; there are messages BEGIN and
# COMMIT; an origin is reported in a message after BEGIN; what begins a streamed block is put off, too.
SKIPS_EMPTY, NEEDS_TUPLES, HAS_BOUNDARIES, SENDS_ORIGINS, PUTS_OFF_STREAMS = 0, 1, 2, 3, 4

Int64s = NDArray[np.int64]


class Plan(NamedTuple):
    """The messages of a slice, k at most.

    Attributes:
        op: uint8[k] BEGIN, COMMIT, CHANGE, READY or UNSENDABLE.
        arg: int64[k] index of the transaction, the item, or the ready-made message.
        txn: int32[k] index of the transaction.
        lsn: int64[k].
        xid: int64[k] of the transaction; in a streamed block that of the (sub)transaction that made the change.
    """

    op: NDArray[np.uint8]
    arg: Int64s
    txn: NDArray[np.int32]
    lsn: Int64s
    xid: Int64s


class Ready(NamedTuple):
    """Ready-made messages, of l literals and the schemas of L layouts.

    Attributes:
        literal_first: int64[l+1] literal i is the messages ``[literal_first[i], literal_first[i+1])``.
        counts: uint8[l] whether BEGIN goes before the literal.
        schema_first: int64[L+1] likewise for layouts.
        offsets: int64[] of the messages in data.
        data: uint8[].
    """

    literal_first: Int64s
    counts: NDArray[np.uint8]
    schema_first: Int64s
    offsets: Int64s
    data: Bytes


@inline_kernel
def _add(plan: Plan, k: Int, op: Int, first: Int, last: Int, t: Int, lsn: Int, xid: Int) -> Int:
    """Append messages of one kind, one for each argument in ``[first, last)``; returns how many there are now."""
    for arg in range(first, last):
        plan.op[k] = op
        plan.arg[k] = arg
        plan.txn[k] = t
        plan.lsn[k] = lsn
        plan.xid[k] = xid
        k += 1
    return k


@inline_kernel
def _add_begin(
    plan: Plan, k: Int, t: Int, origin: Int, begin: Int, ready: Ready, rules: Int64s, lsn: Int, xid: Int
) -> Int:
    """Append BEGIN, or what stands for it, and the transaction's origin; returns how many there are now."""
    if begin > 0:
        k = _add(plan, k, READY, ready.literal_first[begin - 1], ready.literal_first[begin], t, lsn, xid)
    elif rules[HAS_BOUNDARIES]:
        k = _add(plan, k, BEGIN, t, t + 1, t, lsn, xid)
    if origin > 0 and rules[SENDS_ORIGINS]:
        k = _add(plan, k, READY, ready.literal_first[origin - 1], ready.literal_first[origin], t, lsn, xid)
    return k


@inline_kernel
def _add_end(plan: Plan, k: Int, t: Int, end: Int, ready: Ready, rules: Int64s, lsn: Int, xid: Int) -> Int:
    """Append COMMIT, or what stands for it; returns how many there are now."""
    if end > 0:
        return _add(plan, k, READY, ready.literal_first[end - 1], ready.literal_first[end], t, lsn, xid)
    return _add(plan, k, COMMIT, t, t + 1, t, lsn, xid) if rules[HAS_BOUNDARIES] else k


@inline_kernel
def _is_shown(items: Items, j: Int, cells: Cells, ready: Ready, strict: bool) -> Int:
    """Tell whether an item gives any message."""
    kind, layout = items.kind[j], items.layout[j]
    if kind >= TOAST:
        return False
    if kind == LITERAL:
        return ready.literal_first[layout] < ready.literal_first[layout + 1]
    return not strict or (cells.old_first[j] if kind == DELETE else cells.new_first[j]) >= 0


@kernel
def plan_messages(
    items: Items, cells: Cells, transactions: Transactions, ready: Ready, rules: Int64s, plan: Plan
) -> Int:
    """Fill the plan.

    Args:
        items: the slice's changes.
        cells: their tuples.
        transactions: the slice's.
        ready: its literals and schemas.
        rules: int64[5] SKIPS_EMPTY, NEEDS_TUPLES, HAS_BOUNDARIES, SENDS_ORIGINS, PUTS_OFF_STREAMS.
        plan: receives the messages; long enough for all there can be.

    Returns:
        How many messages there are.
    """
    items, cells, transactions = borrow(items), borrow(cells), borrow(transactions)
    ready, plan = borrow(ready), borrow(plan)
    skips, strict = rules[SKIPS_EMPTY] != 0, rules[NEEDS_TUPLES] != 0
    k = 0
    for t in range(len(transactions.xid)):
        flags, xid, origin = transactions.flags[t], np.int64(transactions.xid[t]), transactions.origin[t]
        begin, bare = transactions.begin[t], flags & BARE != 0
        is_streamed = flags & STREAMED != 0
        puts_off = skips and (rules[PUTS_OFF_STREAMS] != 0 if is_streamed else begin == 0)
        begun = bare or (flags & WROTE_BEFORE != 0 if puts_off else flags & BEGINS_HERE == 0)
        if not begun and not puts_off:
            k = _add_begin(plan, k, t, origin, begin, ready, rules, transactions.first_lsn[t], xid)
            begun = True
        for j in range(transactions.item_start[t], transactions.item_end[t]):
            kind, layout, lsn = items.kind[j], items.layout[j], items.lsn[j]
            of = np.int64(items.xid[j]) if is_streamed else xid
            if not _is_shown(items, j, cells, ready, strict):
                if begun and kind == DELETE and items.flags[j] & SEND_SCHEMA:
                    first, last = ready.schema_first[layout], ready.schema_first[layout + 1]
                    k = _add(plan, k, READY, first, last, t, lsn, of)
                continue
            if not begun and (kind != LITERAL or ready.counts[layout] != 0):
                k = _add_begin(plan, k, t, origin, begin, ready, rules, lsn, xid)
                begun = True
            if kind == LITERAL:
                first, last = ready.literal_first[layout], ready.literal_first[layout + 1]
                k = _add(plan, k, READY, first, last, t, lsn, xid)
                continue
            if items.flags[j] & SEND_SCHEMA:
                first, last = ready.schema_first[layout], ready.schema_first[layout + 1]
                k = _add(plan, k, READY, first, last, t, lsn, of)
            k = _add(plan, k, CHANGE, j, j + 1, t, lsn, of)
        if flags & ENDS_HERE and (begun or (puts_off and flags & MAY_HAVE_WRITTEN)) and not bare:
            k = _add_end(plan, k, t, transactions.end[t], ready, rules, transactions.end_lsn[t], xid)
    return k
