"""Kernels: messages of pgoutput, as a walsender sends them, found in one buffer and taken apart into items and cells.

A buffer holds CopyData messages one after the other, with XLogData in each, as a socket has them.
PostgreSQL: proto.c (logicalrep_write_begin, _commit, _insert, _update, _delete, logicalrep_write_tuple), version 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import ABSENT, BINARY, DELETE, INSERT, LITERAL, NULL, OLD_IS_KEY, TEXT, UNCHANGED, UPDATE

HEADER_BYTES = 1 + 4 + 1 + 8 + 8 + 8
"""Bytes before a message of pgoutput: ``d``, a length; ``w``, two LSNs, a time."""

LEAST_BYTES = 1 + 4 + 1 + 8 + 8 + 1
"""Bytes of the shortest frame of a stream: a sign of life."""

COPY_DATA = 100
"""CopyData's letter."""

KEEPALIVE = 107
"""The letter of a walsender's sign of life, where XLogData has ``w``."""

BEGIN_BYTES = 1 + 8 + 8 + 4
BEGIN_PREPARE, STREAM_START, STREAM_STOP, STREAM_COMMIT = 98, 83, 69, 99
PREPARE, COMMIT_PREPARED, ROLLBACK_PREPARED, STREAM_PREPARE = 80, 75, 114, 112
BEGIN, COMMIT, ORIGIN, RELATION, TYPE, TRUNCATE = 66, 67, 79, 82, 89, 84
_INSERT, _UPDATE, _DELETE = 73, 85, 68
_KEY, _OLD, _NEW = 75, 79, 78
_NULL, _TEXT, _UNCHANGED, _BINARY = 110, 116, 117, 98

DONE = -1

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


@inline_kernel
def _load(data: Bytes, at: Int, size: Int) -> Int:
    """Load a number in big-endian order; the caller has checked the bounds."""
    value = np.int64(0)
    for number in range(size):
        value = value << 8 | np.int64(data[at + number])
    return value


@borrowing_kernel
def count_messages(data: Bytes) -> Int:
    """Count the messages in a buffer; -1 if they do not end where it does, or are none of a stream's."""
    at, count = 0, 0
    while at + HEADER_BYTES < len(data):
        size = _load(data, at + 1, 4)
        if data[at] != COPY_DATA or size < HEADER_BYTES:
            return -1
        at += 1 + size
        count += 1
    return count if at == len(data) else -1


@borrowing_kernel
def mark_frames(
    data: Bytes, fields: Int64s, kind: NDArray[np.uint8], at: Int64s, end: Int64s, lsn: Int64s
) -> tuple[Int, Int]:
    """Find where transactions and blocks begin and end in a stream, and signs of life.

    Args:
        data: uint8[] whole frames.
        fields: int64[256] where the LSN is in messages of a letter, 0 for messages without; -1 for what is no mark.
        kind: uint8[] gets the letter of each, of pgoutput's message or :data:`KEEPALIVE`; it has room for all frames.
        at, end: int64[] get where its frame lies.
        lsn: int64[] gets the LSN, 0 for none.

    Returns:
        how many there are; where the last frame is that is no sign of life, -1 for none.
    """
    place, count, last = 0, 0, -1
    while place < len(data):
        behind = place + 1 + _load(data, place + 1, 4)
        own, start = np.uint8(0), place + HEADER_BYTES
        if data[place + 5] == KEEPALIVE:
            own = np.uint8(KEEPALIVE)
        else:
            last = place
            if start < behind:
                own = data[start]
        field = fields[own]
        if field == 0 or (field > 0 and start + field + 8 <= behind):
            kind[count], at[count], end[count] = own, place, behind
            lsn[count] = _load(data, start + field, 8) if field > 0 else 0
            count += 1
        place = behind
    return count, last


@borrowing_kernel
def whole_bytes(data: Bytes) -> Int:
    """Return where the last whole message of a buffer ends, which a part of another may follow."""
    at = 0
    while at + HEADER_BYTES < len(data):
        end = at + 1 + _load(data, at + 1, 4)
        if end > len(data):
            break
        at = end
    return at


@borrowing_kernel
def find_messages(data: Bytes, kind: NDArray[np.uint8], start: Int64s, end: Int64s, lsn: Int64s) -> None:
    """Find the messages in a buffer, k of them.

    Args:
        data: uint8[].
        kind: uint8[k] gets the first byte of each.
        start, end: int64[k] get where each lies, its first byte included.
        lsn: int64[k] gets the LSN that it was sent with.
    """
    at = 0
    for number in range(len(kind)):
        size = _load(data, at + 1, 4)
        start[number], end[number] = at + HEADER_BYTES, at + 1 + size
        kind[number], lsn[number] = data[at + HEADER_BYTES], _load(data, at + 6, 8)
        at += 1 + size


@borrowing_kernel
def take_begins(data: Bytes, start: Int64s, lsn: Int64s, time: Int64s, xid: NDArray[np.uint32]) -> None:
    """Take the beginnings of transactions apart, t of them.

    Args:
        data: uint8[]; start: int64[t] where their messages lie, of :data:`BEGIN_BYTES`.
        lsn, time, xid: [t] get START of the commit record, microseconds since 2000, the transaction's own.
    """
    for number in range(len(start)):
        at = start[number] + 1
        lsn[number], time[number] = _load(data, at, 8), _load(data, at + 8, 8)
        xid[number] = _load(data, at + 16, 4)


@borrowing_kernel
def _version_of(oid: Int, oids: Int64s, versions: Int32s) -> Int:
    """Return the version that a relation has at present; -1 for none."""
    low, high = 0, len(oids)
    while low < high:
        middle = (low + high) >> 1
        if oids[middle] < oid:
            low = middle + 1
        else:
            high = middle
    return versions[low] if low < len(oids) and oids[low] == oid else -1


@borrowing_kernel
def _tuple(
    data: Bytes,
    span: tuple[Int, Int],
    places: Int32s,
    layout: tuple[Int, Int, Int],
    first: Int,
    cells: tuple[NDArray[np.uint8], Int64s, Int32s],
    takes_binary: bool,
) -> Int:
    """Take a tuple apart; where it ends, -1 if it is malformed.

    Args:
        data: uint8[]; span: where the tuple begins, and the message ends.
        places: of all versions' columns among the cells of a tuple.
        layout: where the version's begin, how many columns it has, and how many cells a tuple has.
        first: its first cell; cells: kinds, starts, lengths.
        takes_binary: values may be in binary form.
    """
    at, end = span
    begin, columns, natts = layout
    kinds, starts, lengths = cells
    if at + 2 > end or _load(data, at, 2) != columns:
        return -1
    at += 2
    for cell in range(first, first + natts):
        kinds[cell], starts[cell], lengths[cell] = ABSENT, 0, 0
    for column in range(columns):
        if at >= end:
            return -1
        form, cell = data[at], first + places[begin + column]
        at += 1
        if form in (_NULL, _UNCHANGED):
            kinds[cell] = NULL if form == _NULL else UNCHANGED
            continue
        if (form != _TEXT and not (takes_binary and form == _BINARY)) or at + 4 > end:
            return -1
        size = _load(data, at, 4)
        at += 4
        if at + size > end:
            return -1
        kinds[cell], starts[cell], lengths[cell] = TEXT if form == _TEXT else BINARY, at, size
        at += size
    return at


@borrowing_kernel
def _change(
    data: Bytes,
    span: tuple[Int, Int],
    kind: Int,
    places: Int32s,
    layout: tuple[Int, Int, Int],
    cell: Int,
    cells: tuple[NDArray[np.uint8], Int64s, Int32s],
    takes_binary: bool,
) -> tuple[Int, Int, Int, Int, Int]:
    """Take a change apart; (1 if it is one, its flags, the first cells of the new and the old tuple, the next cell)."""
    at, end = span
    flags, new_first, old_first = 0, -1, -1
    while at < end:
        mark = data[at]
        if mark == _NEW and kind != _DELETE and new_first < 0:
            new_first = cell
        elif mark in (_KEY, _OLD) and kind != _INSERT and old_first < 0 and new_first < 0:
            old_first = cell
            flags = OLD_IS_KEY if mark == _KEY else 0
        else:
            return 0, 0, -1, -1, cell
        at = _tuple(data, (at + 1, end), places, layout, cell, cells, takes_binary)
        if at < 0:
            return 0, 0, -1, -1, cell
        cell += layout[2]
    is_whole = (new_first >= 0) if kind != _DELETE else (old_first >= 0)
    return (1 if is_whole else 0), flags, new_first, old_first, cell


@borrowing_kernel
def count_cells(
    data: Bytes,
    messages: tuple[NDArray[np.uint8], Int64s, Int64s],
    announced: Int32s,
    current: tuple[Int64s, Int32s],
    natts: Int32s,
    used: NDArray[np.bool_],
) -> tuple[Int, Int]:
    """Count the cells that tuples of changes have at most; (a message of a relation that is not known or DONE, cells).

    Args:
        data: uint8[]; messages: kinds, starts, ends of messages.
        announced: int32[k] the version that a message announces.
        current: int64[r] OIDs, ascending, and int32[r] the version that each has, -1 for none; it is brought up to
            date.
        natts: int32[v] cells of a tuple of each version; -1 for one that nobody wants.
        used: bool[v] gets which versions have changes.
    """
    kind, start, end = messages
    oids, versions = current
    cells = np.int64(0)
    for number in range(len(kind)):
        if kind[number] == RELATION:
            _announce(announced[number], _load(data, start[number] + 1, 4), oids, versions)
        elif kind[number] == _INSERT or kind[number] == _UPDATE or kind[number] == _DELETE:
            if start[number] + 6 > end[number]:
                return number, cells
            version = _version_of(_load(data, start[number] + 1, 4), oids, versions)
            if version < 0:
                return number, cells
            used[version] = True
            if natts[version] > 0:
                cells += np.int64(natts[version]) * (2 if kind[number] == _UPDATE else 1)
    return DONE, cells


@borrowing_kernel
def _announce(version: Int, oid: Int, oids: Int64s, versions: Int32s) -> None:
    """Note the version that a relation has from here on."""
    for at in range(len(oids)):
        if oids[at] == oid:
            versions[at] = version


@borrowing_kernel
def take_changes(
    data: Bytes,
    messages: tuple[NDArray[np.uint8], Int64s, Int64s, Int64s],
    announced: Int32s,
    current: tuple[Int64s, Int32s],
    versions: tuple[Int32s, Int32s, Int32s, Int32s],
    transaction: Int32s,
    literal: Int32s,
    items: tuple[NDArray[np.uint8], Int32s, Int64s, Int32s, NDArray[np.uint8], Int64s, Int64s],
    cells: tuple[NDArray[np.uint8], Int64s, Int32s],
    takes_binary: bool,
) -> tuple[Int, Int, Int]:
    """Take the changes of messages apart.

    Args:
        data: uint8[]; messages: kinds, starts, ends, LSNs of messages.
        announced, current: see :func:`count_cells`.
        versions: int32[v] where the columns of each begin among all places, how many they are, how many cells a tuple
            has. That is -1 for one that nobody wants. Then int32[] all places.
        transaction: int32[k] the one that each message is of.
        literal: int32[k] the literal that a message gives, -1 for none.
        items: gets kind, transaction, LSN, layout, flags, first cells of the new and the old tuple.
        cells: gets kinds, starts, lengths.
        takes_binary: values may be in binary form; otherwise a message that has some is malformed.

    Returns:
        DONE or the message that is malformed, how many items there are, how many cells.
    """
    kind, start, end, lsn = messages
    oids, present = current
    begins, columns, natts, places = versions
    item, cell = 0, 0
    for number in range(len(kind)):
        first = start[number]
        if kind[number] == RELATION:
            _announce(announced[number], _load(data, first + 1, 4), oids, present)
            continue
        if literal[number] >= 0:
            _put(items, item, LITERAL, transaction[number], lsn[number], literal[number], 0, -1, -1)
            item += 1
            continue
        if kind[number] != _INSERT and kind[number] != _UPDATE and kind[number] != _DELETE:
            continue
        version = _version_of(_load(data, first + 1, 4), oids, present)
        if natts[version] < 0:
            continue
        layout = (begins[version], columns[version], natts[version])
        is_one, flags, new, old, cell = _change(
            data, (first + 5, end[number]), kind[number], places, layout, cell, cells, takes_binary
        )
        if not is_one:
            return number, item, cell
        change = INSERT if kind[number] == _INSERT else UPDATE if kind[number] == _UPDATE else DELETE
        _put(items, item, change, transaction[number], lsn[number], version, flags, new, old)
        item += 1
    return DONE, item, cell


@inline_kernel
def _put(
    items: tuple[NDArray[np.uint8], Int32s, Int64s, Int32s, NDArray[np.uint8], Int64s, Int64s],
    at: Int,
    kind: Int,
    transaction: Int,
    lsn: Int,
    layout: Int,
    flags: Int,
    new: Int,
    old: Int,
) -> None:
    """Write an item."""
    kinds, transactions, lsns, layouts, all_flags, news, olds = items
    kinds[at], transactions[at], lsns[at], layouts[at] = kind, transaction, lsn, layout
    all_flags[at], news[at], olds[at] = flags, new, old
