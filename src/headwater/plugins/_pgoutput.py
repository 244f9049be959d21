"""Kernel of pgoutput: changes into messages of the logical replication protocol, text mode, no streaming.

Mirrors ``pgoutput_send_begin``, ``pgoutput_change``, ``pgoutput_commit_txn`` of replication/pgoutput/pgoutput.c and
``logicalrep_write_insert``, ``_update``, ``_delete``, ``_tuple`` of replication/logical/proto.c (15 to 18). BEGIN waits
for the first message of its transaction; a transaction that sent none gets no COMMIT. What a relation is sent as comes
in :class:`Wire`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.kernels import inline_kernel, kernel
from headwater.plugins._messages import (
    COUNT,
    DONE,
    ITEM,
    NEED_SPACE,
    SCHEMA,
    TXN,
    WROTE,
    Out,
    end_message,
    put_bytes,
    put_i32,
    put_i64,
    put_ready,
)
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import Cells, Items, Literals, Transactions

INSERT, UPDATE, DELETE, LITERAL, TOAST = 1, 2, 3, 4, 10
BEGINS_HERE, ENDS_HERE, WROTE_BEFORE, BARE = 1, 2, 4, 8
SEND_SCHEMA = 4
NULL, TEXT, UNCHANGED = 0, 1, 2

BEGIN_SIZE, COMMIT_SIZE, CHANGE_SIZE, TUPLE_SIZE, CELL_SIZE = 21, 26, 5, 3, 5


class Wire(NamedTuple):
    """How L layouts are sent, with c columns in all.

    Attributes:
        relation: int64[L] OID that the changes carry.
        old_mark: uint8[L] ``O`` (replica identity full) or ``K``.
        first: int64[L+1] layout i's columns are ``[first[i], first[i+1])``.
        attribute: int32[c] index of the column's cell inside a tuple.
        schema: layout i's Y and R messages as literal i.
    """

    relation: NDArray[np.int64]
    old_mark: NDArray[np.uint8]
    first: NDArray[np.int64]
    attribute: NDArray[np.int32]
    schema: Literals


@kernel
def put_tuple(cells: Cells, base: Int, mark: Int, wire: Wire, layout: Int, out: Bytes, o: Int) -> Int:
    """A tuple with the byte that says which one it is (logicalrep_write_tuple).

    Args:
        cells: the slice's.
        base: the tuple's first cell.
        mark: ``N``, ``O`` or ``K``.
        wire: the slice's.
        layout: index of its layout.
        out: uint8[].
        o: where to write, or -1.

    Returns:
        The end, or -1 when there is no room.
    """
    if o < 0 or o + TUPLE_SIZE > len(out):
        return -1
    first, last = wire.first[layout], wire.first[layout + 1]
    out[o] = mark
    out[o + 1] = ((last - first) >> 8) & 0xFF
    out[o + 2] = (last - first) & 0xFF
    o += TUPLE_SIZE
    for c in range(first, last):
        cell = base + wire.attribute[c]
        kind = cells.kind[cell]
        length = np.int64(cells.length[cell]) if kind == TEXT else 0
        if o + CELL_SIZE + length > len(out):
            return -1
        if kind == TEXT:
            out[o] = 0x74
            o = put_i32(length, out, o + 1)
            start = cells.start[cell]
            o = put_bytes(cells.text, start, start + length, out, o)
        else:
            out[o] = 0x75 if kind == UNCHANGED else 0x6E
            o += 1
    return o


@kernel
def put_change(items: Items, j: Int, cells: Cells, wire: Wire, out: Bytes, o: Int) -> Int:
    """One I, U or D message.

    Returns:
        The end, or -1 when there is no room.
    """
    if o + CHANGE_SIZE > len(out):
        return -1
    layout = np.int64(items.layout[j])
    kind = items.kind[j]
    old, new = cells.old_first[j], cells.new_first[j]
    out[o] = 0x49 if kind == INSERT else 0x55 if kind == UPDATE else 0x44
    o = put_i32(wire.relation[layout], out, o + 1)
    if kind != INSERT and old >= 0:
        o = put_tuple(cells, old, wire.old_mark[layout], wire, layout, out, o)
    if kind != DELETE:
        o = put_tuple(cells, new, 0x4E, wire, layout, out, o)
    return o


@kernel
def _put_begin(transactions: Transactions, t: Int, literals: Literals, lsn: Int, out: Out) -> bool:
    """B and, for a transaction from elsewhere, O; returns whether there was room."""
    o = out.offsets[out.state[COUNT]]
    origin = np.int64(transactions.origin[t]) - 1
    size = 0
    if origin >= 0:
        size = literals.offsets[literals.first[origin + 1]] - literals.offsets[literals.first[origin]]
    if o + BEGIN_SIZE + size > len(out.data):
        return False
    xid = np.int64(transactions.xid[t])
    out.data[o] = 0x42
    o = put_i64(transactions.commit_lsn[t], out.data, o + 1)
    o = put_i64(transactions.commit_time[t], out.data, o)
    o = put_i32(xid, out.data, o)
    end_message(out, o, lsn, xid)
    if origin >= 0:
        put_ready(literals.first[origin], literals.first[origin + 1], literals, out, lsn, xid)
    return True


@kernel
def _put_commit(transactions: Transactions, t: Int, out: Out) -> bool:
    """C; returns whether there was room."""
    o = out.offsets[out.state[COUNT]]
    if o + COMMIT_SIZE > len(out.data):
        return False
    out.data[o] = 0x43
    out.data[o + 1] = 0
    o = put_i64(transactions.commit_lsn[t], out.data, o + 2)
    o = put_i64(transactions.end_lsn[t], out.data, o)
    o = put_i64(transactions.commit_time[t], out.data, o)
    end_message(out, o, transactions.end_lsn[t], np.int64(transactions.xid[t]))
    return True


@inline_kernel
def _is_sent(items: Items, j: Int, cells: Cells, literals: Literals) -> Int:
    """Whether the item gives a message at all: not one whose tuple is missing."""
    kind = items.kind[j]
    if kind >= TOAST:
        return False
    if kind == LITERAL:
        return literals.first[items.layout[j]] < literals.first[items.layout[j] + 1]
    return cells.old_first[j] >= 0 if kind == DELETE else cells.new_first[j] >= 0


@kernel
def _put_item(items: Items, j: Int, cells: Cells, literals: Literals, wire: Wire, xid: Int, out: Out) -> bool:
    """One item's messages, its schema first if that is due; returns whether there was room."""
    lsn = items.lsn[j]
    index = items.layout[j]
    if items.kind[j] == LITERAL:
        return put_ready(literals.first[index], literals.first[index + 1], literals, out, lsn, xid)
    if items.flags[j] & SEND_SCHEMA and out.state[SCHEMA] == 0:
        if not put_ready(wire.schema.first[index], wire.schema.first[index + 1], wire.schema, out, lsn, xid):
            return False
        out.state[SCHEMA] = 1
    end = put_change(items, j, cells, wire, out.data, out.offsets[out.state[COUNT]])
    if end < 0:
        return False
    end_message(out, end, lsn, xid)
    out.state[SCHEMA] = 0
    return True


@kernel
def render_messages(
    items: Items, cells: Cells, transactions: Transactions, literals: Literals, wire: Wire, out: Out
) -> int:
    """All messages of a slice, from ``out.state`` on.

    Args:
        items: the slice's changes.
        cells: their text.
        transactions: the slice's.
        literals: the slice's.
        wire: how its layouts are sent.
        out: where messages go; ``state`` says where to begin and where it stopped.

    Returns:
        DONE or NEED_SPACE.
    """
    state = out.state
    while state[TXN] < len(transactions.xid):
        t = state[TXN]
        flags = transactions.flags[t]
        xid = np.int64(transactions.xid[t])
        bare = flags & BARE != 0
        if state[ITEM] < 0:
            state[WROTE] = 1 if flags & WROTE_BEFORE or bare else 0
            state[ITEM] = transactions.item_start[t]
        for j in range(state[ITEM], transactions.item_end[t]):
            state[ITEM] = j
            if not _is_sent(items, j, cells, literals):
                continue
            if state[WROTE] == 0:
                if not _put_begin(transactions, t, literals, items.lsn[j], out):
                    return NEED_SPACE
                state[WROTE] = 1
            if not _put_item(items, j, cells, literals, wire, xid, out):
                return NEED_SPACE
        state[ITEM] = transactions.item_end[t]
        if flags & ENDS_HERE and not bare and state[WROTE] and not _put_commit(transactions, t, out):
            return NEED_SPACE
        state[TXN] = t + 1
        state[ITEM] = -1
    return DONE
