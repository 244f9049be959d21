"""Messages made in Python, and the arrays that kernels write messages into.

A kernel is called until it is DONE; between calls its data array grows. The arrays that have one element a message are
as long from the start as there can be messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from headwater.plugins._messages import COUNT, DONE, ITEM, Out
from headwater.rows.items import LITERAL, SEND_SCHEMA, Cells, Items, Literals, Messages, Transactions

Int64s = NDArray[np.int64]

Table = TypeVar("Table", Items, Cells, Transactions, Literals)

SMALLEST = 64
"""Bytes a data array has at least, so that doubling makes it grow."""


def pack(parts: Iterable[bytes]) -> tuple[Int64s, NDArray[np.uint8]]:
    """Byte strings one after the other.

    Returns:
        Offsets int64[n+1] and data uint8[].
    """
    parts = list(parts)
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return offsets, np.frombuffer(bytearray(b"".join(parts)), np.uint8)


def pack_literals(literals: Sequence[Sequence[bytes]]) -> Literals:
    """Ready-made messages as kernels take them; literal i is the messages ``literals[i]``."""
    first = np.zeros(len(literals) + 1, np.int64)
    np.cumsum([len(literal) for literal in literals], out=first[1:])
    offsets, data = pack(message for literal in literals for message in literal)
    return Literals(first, offsets, data)


def pack_messages(messages: Iterable[tuple[int, int, bytes]]) -> Messages:
    """Messages from (LSN, xid, data) triples."""
    rows = list(messages)
    offsets, data = pack(row[2] for row in rows)
    lsn = np.array([row[0] for row in rows], np.int64)
    return Messages(lsn, np.array([row[1] for row in rows], np.int64), offsets, data)


def settled(table: Table) -> Table:
    """The table with arrays that can be written, as kernels are compiled for these only (others are copied)."""
    arrays = (array if array.flags.writeable and array.flags.c_contiguous else array.copy() for array in table)
    return type(table)(*arrays)


def most_messages(items: Items, transactions: Transactions, literals: Literals, schema_counts: Int64s) -> int:
    """No slice gives more messages than this.

    Args:
        items: the slice's changes.
        transactions: the slice's.
        literals: the slice's.
        schema_counts: int64[L] messages that announce each layout.
    """
    is_literal = items.kind == LITERAL
    counts = np.diff(literals.first)
    origins = transactions.origin[transactions.origin > 0] - 1
    total = 2 * len(transactions.xid) + int(counts[origins].sum())
    total += int(counts[items.layout[is_literal]].sum()) + int(np.count_nonzero(~is_literal))
    announced = ~is_literal & (items.flags & SEND_SCHEMA != 0)
    return total + int(schema_counts[items.layout[announced]].sum())


def render_all(step: Callable[[Out], int], most: int, size: int) -> Messages:
    """Call a kernel until it is done.

    Args:
        step: the kernel with everything but its last argument.
        most: how many messages there can be.
        size: bytes to begin with.
    """
    state = np.zeros(5, np.int64)
    state[ITEM] = -1
    data = np.empty(max(size, SMALLEST), np.uint8)
    out = Out(np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(most + 1, np.int64), data, state)
    while step(out) != DONE:
        out = out._replace(data=_grown(out.data, int(out.offsets[state[COUNT]])))
    count = int(state[COUNT])
    return Messages(out.lsn[:count], out.xid[:count], out.offsets[: count + 1], out.data[: out.offsets[count]])


def _grown(data: NDArray[np.uint8], used: int) -> NDArray[np.uint8]:
    """The same bytes in twice the room."""
    larger = np.empty(2 * len(data), np.uint8)
    larger[:used] = data[:used]
    return larger
