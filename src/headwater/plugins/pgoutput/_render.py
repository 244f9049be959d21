"""Kernel of pgoutput: changes into messages of the logical replication protocol.

Mirrors ``pgoutput_send_begin``, ``pgoutput_change``, ``pgoutput_commit_txn`` of replication/pgoutput/pgoutput.c and
``logicalrep_write_insert``, ``_update``, ``_delete``, ``_tuple`` of replication/logical/proto.c (14 to 19). What a
relation is sent as comes in :class:`Wire`. In a streamed block changes, and what announces relations, carry the xid of
their (sub)transaction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel
from headwater.plugins._borrow import borrow
from headwater.plugins._messages import Out, put_i32, put_i64, put_ready
from headwater.plugins._plan import BEGIN, CHANGE, READY, UNSENDABLE, Int64s, Plan, Ready
from headwater.reorder.unit_flags import STREAMED
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import BINARY, DELETE, INSERT, REFUSED, TEXT, UNCHANGED, UPDATE, Cells, Items, Transactions

FIXED_SIZE, TUPLE_SIZE, CELL_SIZE = 32, 3, 5
"""Room for BEGIN, COMMIT or the head of a change; for the head of a tuple; of a cell."""

NEW_MARK = 0x4E

RELATION, TYPE = 0x52, 0x59
"""R and Y, which announce relations and types."""


class Wire(NamedTuple):
    """The form in which L layouts are sent, with c columns in all.

    Attributes:
        relation: int64[L] OID that the changes carry.
        old_mark: uint8[L] ``O`` (replica identity full) or ``K``.
        first: int64[L+1] layout i's columns are ``[first[i], first[i+1])``.
        attribute: int32[c] index of the column's cell inside a tuple.
    """

    relation: NDArray[np.int64]
    old_mark: NDArray[np.uint8]
    first: NDArray[np.int64]
    attribute: NDArray[np.int32]


@inline_kernel
def put_tuple(cells: Cells, base: Int, wire: Wire, layout: Int, mark: Int, out: Bytes, o: Int) -> Int:
    """Write a tuple with the byte that says which one it is (logicalrep_write_tuple).

    Args:
        cells: the slice's.
        base: the tuple's first cell.
        wire: the slice's.
        layout: index of its layout.
        mark: ``N``, ``O`` or ``K``.
        out: uint8[].
        o: where to write.

    Returns:
        The end, -1 when there is no room, or -2 at a value that cannot be sent to the client.
    """
    first, last = wire.first[layout], wire.first[layout + 1]
    if o + TUPLE_SIZE > len(out):
        return -1
    out[o] = mark
    out[o + 1] = ((last - first) >> 8) & 0xFF
    out[o + 2] = (last - first) & 0xFF
    o += TUPLE_SIZE
    for c in range(first, last):
        cell = base + wire.attribute[c]
        kind = cells.kind[cell]
        if kind == REFUSED:
            return -2
        is_value = kind in (TEXT, BINARY)
        length = np.int64(cells.length[cell]) if is_value else np.int64(0)
        if o + CELL_SIZE + length > len(out):
            return -1
        if is_value:
            out[o] = 0x74 if kind == TEXT else 0x62
            o = put_i32(length, out, o + 1)
            start = cells.start[cell]
            o = copy(cells.text, start, out, o, length)
        else:
            out[o] = 0x75 if kind == UNCHANGED else 0x6E
            o += 1
    return o


@inline_kernel
def put_change(items: Items, item: Int, is_streamed: bool, cells: Cells, wire: Wire, out: Bytes, o: Int) -> Int:
    """Write I, U or D (logicalrep_write_insert, _update, _delete).

    Args:
        items: the slice's changes.
        item: index of an INSERT, UPDATE or DELETE.
        is_streamed: it is in a streamed block.
        cells: the slice's.
        wire: the slice's.
        out: uint8[].
        o: where to write.

    Returns:
        The end, -1 when there is no room, or -2 at a value that cannot be sent to the client.
    """
    if o + FIXED_SIZE > len(out):
        return -1
    kind, layout = items.kind[item], np.int64(items.layout[item])
    old, new = cells.old_first[item], cells.new_first[item]
    out[o] = 0x49 if kind == INSERT else 0x55 if kind == UPDATE else 0x44
    o += 1
    if is_streamed:
        o = put_i32(np.int64(items.xid[item]), out, o)
    o = put_i32(wire.relation[layout], out, o)
    for side in range(2):
        base, mark = (old, np.int64(wire.old_mark[layout])) if side == 0 else (new, np.int64(NEW_MARK))
        if base >= 0 and o >= 0 and kind != (INSERT if side == 0 else DELETE):
            o = put_tuple(cells, base, wire, layout, mark, out, o)
    return o


@inline_kernel
def _put_announcement(ready: Ready, message: Int, xid: Int, out: Bytes, o: Int) -> Int:
    """Write R or Y with the xid of a (sub)transaction; return the end, or -1 when there is no room."""
    start, end = ready.offsets[message], ready.offsets[message + 1]
    if o + end - start + FIXED_SIZE > len(out):
        return -1
    out[o] = ready.data[start]
    o = put_i32(xid, out, o + 1)
    return copy(ready.data, start + 1, out, o, end - start - 1)


@inline_kernel
def _put_begin(transactions: Transactions, t: Int, out: Bytes, o: Int) -> Int:
    """Write B (logicalrep_write_begin); the caller has checked the room."""
    out[o] = 0x42
    o = put_i64(transactions.commit_lsn[t], out, o + 1)
    o = put_i64(transactions.commit_time[t], out, o)
    return put_i32(np.int64(transactions.xid[t]), out, o)


@inline_kernel
def _put_commit(transactions: Transactions, t: Int, out: Bytes, o: Int) -> Int:
    """Write C (logicalrep_write_commit); the caller has checked the room."""
    out[o] = 0x43
    out[o + 1] = 0
    o = put_i64(transactions.commit_lsn[t], out, o + 2)
    o = put_i64(transactions.end_lsn[t], out, o)
    return put_i64(transactions.commit_time[t], out, o)


@kernel
def render_messages(
    items: Items, cells: Cells, transactions: Transactions, ready: Ready, plan: Plan, wire: Wire, span: Int64s, out: Out
) -> Int:
    """Write messages of a plan.

    Args:
        items: the slice's changes.
        cells: their text.
        transactions: the slice's.
        ready: its ready-made messages.
        plan: the slice's messages.
        wire: how its layouts are sent.
        span: int64[2] the first message to write, and one past the last.
        out: where messages go; ``offsets[span[0]]`` is where to begin.

    Returns:
        The message that did not fit, ``span[1]`` if all did, or ``~k`` at message k that cannot be sent.
    """
    items, cells, transactions, ready = borrow(items), borrow(cells), borrow(transactions), borrow(ready)
    plan, wire, out = borrow(plan), borrow(wire), borrow(out)
    for k in range(span[0], span[1]):
        o, op, arg = out.offsets[k], plan.op[k], plan.arg[k]
        is_streamed = transactions.flags[plan.txn[k]] & STREAMED != 0
        if op == CHANGE:
            o = put_change(items, arg, is_streamed, cells, wire, out.data, o)
        elif op == READY:
            is_announcement = arg >= ready.schema_first[0] and ready.data[ready.offsets[arg]] in (RELATION, TYPE)
            if is_streamed and is_announcement:
                o = _put_announcement(ready, arg, plan.xid[k], out.data, o)
            else:
                o = put_ready(ready, arg, out.data, o)
        elif op == UNSENDABLE:
            o = np.int64(-2)
        elif o + FIXED_SIZE > len(out.data):
            o = -1
        elif op == BEGIN:
            o = _put_begin(transactions, arg, out.data, o)
        else:
            o = _put_commit(transactions, arg, out.data, o)
        if o < 0:
            return k if o == -1 else ~k
        out.offsets[k + 1] = o
    return span[1]
