"""Kernels: which rows the changes of transactions are about, and which transactions have a row in common.

A row is known by a token, a number made of its table and the text of its key. Two rows may have one token: they only
seem to depend on each other then. Token 0 is of changes that depend on nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Uint8s = NDArray[np.uint8]

_OFFSET, _PRIME = 1469598103934665603, 1099511628211
_INSERT, _DELETE, _NEW, _TEXT, _BINARY = 73, 68, 78, 116, 98


@borrowing_kernel
def _with_byte(value: Int, byte: Int) -> Int:
    return (value ^ np.uint64(byte)) * np.uint64(_PRIME)


@borrowing_kernel
def _begun(oid: Int) -> Int:
    """Begin the hash of a row of a relation."""
    value = np.uint64(_OFFSET)
    for place in range(4):
        value = _with_byte(value, (oid >> np.int64(8 * place)) & np.int64(255))
    return value


@borrowing_kernel
def _ended(value: Int) -> Int:
    """End a hash: it is positive, and its low bits depend on all of it."""
    value ^= value >> np.uint64(29)
    value *= np.uint64(_PRIME)
    value ^= value >> np.uint64(32)
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF)) | np.int64(1)


@borrowing_kernel
def _load(data: Bytes, at: Int, size: Int) -> Int:
    value = np.int64(0)
    for place in range(size):
        value = value << 8 | np.int64(data[at + place])
    return value


@borrowing_kernel
def _of_row(data: Bytes, at: Int, end: Int, keys: Int32s, value: Int) -> Int:
    """Hash the key of a tuple; -1 if it is malformed, or a part of the key is not sent as text.

    Args:
        data: uint8[]; at, end: where the tuple and its message lie.
        keys: int32[] columns of the key, ascending; value: of the relation.
    """
    if at + 2 > end:
        return np.int64(-1)
    columns = _load(data, at, 2)
    at, key = at + 2, 0
    for column in range(columns):
        if key == len(keys):
            break
        if at >= end:
            return np.int64(-1)
        kind, size = data[at], np.int64(0)
        at += 1
        if kind in (_TEXT, _BINARY):
            if at + 4 > end:
                return np.int64(-1)
            size = _load(data, at, 4)
            at += 4
            if size > end - at:
                return np.int64(-1)
        if column == keys[key]:
            if kind != _TEXT:
                return np.int64(-1)
            for place in range(at, at + size):
                value = _with_byte(value, data[place])
            value = _with_byte(_with_byte(value, 255), size & np.int64(255))
            key += 1
        at += size
    return _ended(value) if key == len(keys) else np.int64(-1)


@borrowing_kernel
def read_tokens(
    data: Bytes,
    messages: tuple[Uint8s, Int64s, Int64s, Int64s],
    tables: tuple[Int64s, Int32s, Int32s, Uint8s],
    tokens: Int64s,
) -> bool:
    """Read which row each change is about.

    Args:
        data: uint8[].
        messages: uint8[k] kinds, int64[k] where each begins and ends, int64[k] the relation of a change, 0 for none.
        tables: int64[v] the relations, ascending; int32[v + 1] where the columns of each one's key begin, and their
            end; int32[] these columns, ascending; uint8[v] whether all changes of the relation depend on each other.
        tokens: int64[k] gets the tokens, 0 for what is no change, and for inserts into a table without a key.

    Returns:
        False if that cannot be told: a message is malformed, of another relation, or has a key that is not sent as
        text; or a change of a table without a key is no insert.
    """
    kind, start, end, oid = messages
    oids, begins, keys, wholes = tables
    for number in range(len(kind)):
        tokens[number] = 0
        if oid[number] == 0:
            continue
        version = np.searchsorted(oids, oid[number])
        if version == len(oids) or oids[version] != oid[number]:
            return False
        own = keys[begins[version] : begins[version + 1]]
        if wholes[version]:
            tokens[number] = _ended(_begun(oid[number]))
        elif len(own):
            # A deleted row's tuple is K or O, of the others N.
            at = start[number] + 5
            if at >= end[number] or (kind[number] != _DELETE and data[at] != _NEW):
                return False
            tokens[number] = _of_row(data, at + 1, end[number], own, _begun(oid[number]))
            if tokens[number] < 0:
                return False
        elif kind[number] != _INSERT:
            return False
    return True


@borrowing_kernel
def _place(seen: Int64s, token: Int) -> Int:
    """Return where a token is in a table of 2 ** m, or where it belongs."""
    mask = np.int64(len(seen) - 1)
    place = (token >> np.int64(1)) & mask
    while seen[place] != 0 and seen[place] != token:
        place = (place + 1) & mask
    return place


@borrowing_kernel
def touch(tokens: Int64s, units: Int64s, table: tuple[Int64s, Int64s, Int64s], last: Int64s) -> None:
    """Note which unit changes each row, and tell which one did before.

    Args:
        tokens: int64[k]; units: int64[k] the unit of each change, ascending numbers or all of units that have no row in
            common.
        table: int64[2 ** m] tokens, more than there are, 0 at first; int64[2 ** m] the last unit of each; int64[2 ** m]
            the one before that.
        last: int64[k] gets the unit before the change's own that changed the row last, -1 for none.
    """
    seen, own, before = table
    for number in range(len(tokens)):
        last[number] = -1
        token = tokens[number]
        if token == 0:
            continue
        place = _place(seen, token)
        if seen[place] == 0:
            seen[place], own[place], before[place] = token, units[number], -1
        elif own[place] != units[number]:
            before[place], own[place] = own[place], units[number]
        last[number] = before[place]


@borrowing_kernel
def _root(parents: Int64s, member: Int) -> Int:
    while parents[member] != member:
        parents[member] = parents[parents[member]]
        member = parents[member]
    return member


@borrowing_kernel
def unite(tokens: Int64s, transactions: Int64s, table: tuple[Int64s, Int64s], parents: Int64s) -> None:
    """Find the transactions that depend on each other, however many are between them.

    Args:
        tokens: int64[k]; transactions: int64[k] the transaction of each change, ascending from 0 on.
        table: int64[2 ** m] tokens, more than there are, 0 at first; int64[2 ** m] of any content.
        parents: int64[t] gets the first transaction of those that each one depends on, or that depend on it.
    """
    seen, first = table
    for transaction in range(len(parents)):
        parents[transaction] = transaction
    for number in range(len(tokens)):
        token = tokens[number]
        if token == 0:
            continue
        place = _place(seen, token)
        if seen[place] == 0:
            seen[place], first[place] = token, transactions[number]
            continue
        left, right = _root(parents, first[place]), _root(parents, transactions[number])
        if left < right:
            parents[right] = left
        else:
            parents[left] = right
    for transaction in range(len(parents)):
        parents[transaction] = _root(parents, np.int64(transaction))
