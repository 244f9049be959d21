"""Kernels: changes of a table folded by the rows' keys, and the text of what is left as arrays and for COPY.

Cells are as ``remote_slots/_message_parts.py`` makes them: kinds, starts and lengths of values in a buffer; those of a
tuple lie one after the other. Values are compared as bytes: one row's key is always sent in the same words, or in the
same binary form; who calls sees to it that a column has one of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import BINARY, DELETE, INSERT, NULL, TEXT, UNCHANGED

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Cells = tuple[NDArray[np.uint8], Int64s, Int32s]

EXISTED, ALIVE, REPLACED, SEVERAL = 1, 2, 4, 8
"""Flags of a row: it was there before, is there after, was deleted and inserted between, had several changes."""

_OFFSET, _PRIME = 1469598103934665603, 1099511628211
_QUOTE, _BACKSLASH = 34, 92


@borrowing_kernel
def relations_of(data: Bytes, kind: NDArray[np.uint8], start: Int64s, end: Int64s, oid: Int64s) -> None:
    """Read which relation each change is of.

    Args:
        data: uint8[]; kind: uint8[k]; start, end: int64[k] of messages, within the data.
        oid: int64[k] gets the relation's OID; 0 for what is no insert, update or delete; -1 for an update that has an
            old tuple, and for a change that ends before its relation, or before what follows that.
    """
    for number in range(len(kind)):
        oid[number] = 0
        if kind[number] == 73 or kind[number] == 85 or kind[number] == 68:
            at = start[number] + 1
            if end[number] < at + 5:
                oid[number] = -1
                continue
            for place in range(4):
                oid[number] = oid[number] << 8 | np.int64(data[at + place])
            if kind[number] == 85 and data[at + 4] != 78:
                oid[number] = -1


@borrowing_kernel
def _hash(data: Bytes, first: Int, keys: Int32s, cells: Cells) -> Int:
    """Hash a row's key."""
    _, starts, lengths = cells
    value = np.uint64(_OFFSET)
    for key in range(len(keys)):
        cell = first + keys[key]
        for at in range(starts[cell], starts[cell] + lengths[cell]):
            value = (value ^ np.uint64(data[at])) * np.uint64(_PRIME)
        value = (value ^ np.uint64(255)) * np.uint64(_PRIME)
    value ^= value >> np.uint64(29)
    return np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))


@borrowing_kernel
def _same(data: Bytes, left_row: Int, right_row: Int, keys: Int32s, cells: Cells) -> bool:
    """Tell whether two rows have the same key."""
    _, starts, lengths = cells
    for key in range(len(keys)):
        left, right = left_row + keys[key], right_row + keys[key]
        if lengths[left] != lengths[right]:
            return False
        for at in range(lengths[left]):
            if data[starts[left] + at] != data[starts[right] + at]:
                return False
    return True


@borrowing_kernel
def cut_at_repeats(data: Bytes, firsts: Int64s, keys: Int32s, cells: Cells, table: Int64s, cuts: Int64s) -> Int:
    """Cut changes of one table into runs in which no row has more than one.

    Args:
        data: uint8[]; firsts: int64[n] the first cell of each change's tuple, n > 0.
        keys: int32[] columns of the key; cells: of all tuples.
        table: int64[2 ** m], more than n, all -1.
        cuts: int64[n + 1] gets the first change of each run, and n.

    Returns:
        how many runs there are.
    """
    runs, begin, mask = 0, np.int64(0), np.int64(len(table) - 1)
    cuts[0] = 0
    for number in range(len(firsts)):
        home = place = _hash(data, firsts[number], keys, cells) & mask
        # What the table has of runs before is as good as empty.
        while table[place] >= begin and not _same(data, firsts[table[place]], firsts[number], keys, cells):
            place = (place + 1) & mask
        if table[place] >= begin:
            begin, runs, place = np.int64(number), runs + 1, home
            cuts[runs] = number
        table[place] = number
    cuts[runs + 1] = len(firsts)
    return runs + 1


@borrowing_kernel
def _is_sent(first: Int, keys: Int32s, cells: Cells) -> bool:
    """Tell whether a tuple has a row's key."""
    is_sent = True
    for key in range(len(keys)):
        kind = cells[0][first + keys[key]]
        is_sent &= kind in (TEXT, BINARY)
    return is_sent


@borrowing_kernel
def _has_all(first: Int, required: Int32s, cells: Cells) -> bool:
    """Tell whether no required column of a tuple is NULL."""
    has_all = True
    for column in range(len(required)):
        has_all &= cells[0][first + required[column]] != NULL
    return has_all


@borrowing_kernel
def fold(
    data: Bytes,
    changes: tuple[NDArray[np.uint8], Int64s],
    keys: Int32s,
    required: Int32s,
    natts: Int,
    cells: Cells,
    index: tuple[Int64s, Int64s],
    flags: NDArray[np.uint8],
    rows: Cells,
) -> Int:
    """Fold changes of one table by the keys of the rows.

    Args:
        data: uint8[].
        changes: uint8[n] kinds, int64[n] the first cell of each one's tuple, in the order in which they were made.
        keys: int32[] columns of the key; required: int32[] columns that may not be NULL.
        natts: cells of a tuple; cells: of all tuples.
        index: int64[2 ** m], more than n, all -1; int64[n] of any content.
        flags: uint8[n] gets what became of each row.
        rows: kinds, starts, lengths [n * natts] get the values that each row has last.

    Returns:
        how many rows there are; -1 if a change does not follow from the one before it, a key is not sent, or what is
        required is NULL.
    """
    kinds, firsts = changes
    table, representatives = index
    count, mask = 0, np.int64(len(table) - 1)
    for number in range(len(kinds)):
        first = firsts[number]
        if not _is_sent(first, keys, cells) or (kinds[number] != DELETE and not _has_all(first, required, cells)):
            return -1
        place = _hash(data, first, keys, cells) & mask
        while table[place] >= 0 and not _same(data, representatives[table[place]], first, keys, cells):
            place = (place + 1) & mask
        row = table[place]
        is_new = row < 0
        if is_new:
            row = table[place] = count
            representatives[row] = first
            flags[row] = 0 if kinds[number] == INSERT else EXISTED
            count += 1
        else:
            flags[row] |= SEVERAL
        was_there = kinds[number] != INSERT if is_new else (flags[row] & ALIVE) != 0
        if was_there == (kinds[number] == INSERT):
            return -1
        if kinds[number] == DELETE:
            flags[row] &= ~np.uint8(ALIVE)
            if is_new:
                _copy(first, row * natts, natts, cells, rows, True)
            continue
        if kinds[number] == INSERT and flags[row] & EXISTED:
            flags[row] |= REPLACED
        flags[row] |= ALIVE
        _copy(first, row * natts, natts, cells, rows, is_new or kinds[number] == INSERT)
    return count


@borrowing_kernel
def take_rows(firsts: Int64s, required: Int32s, natts: Int, cells: Cells, rows: Cells) -> bool:
    """Copy the cells of inserts' tuples; tell whether all that is required is there.

    Args:
        firsts: int64[n] the first cell of each tuple; required: int32[] columns that may not be NULL.
        natts: cells of a tuple; cells: of all tuples; rows: kinds, starts, lengths [n * natts] get the values.
    """
    for number in range(len(firsts)):
        if not _has_all(firsts[number], required, cells):
            return False
        _copy(firsts[number], np.int64(number) * natts, natts, cells, rows, True)
    return True


@borrowing_kernel
def _copy(first: Int, row: Int, natts: Int, cells: Cells, rows: Cells, is_whole: bool) -> None:
    """Copy a tuple's cells over a row's; what is unchanged stays, unless the row is given whole."""
    for column in range(natts):
        if is_whole or cells[0][first + column] != UNCHANGED:
            rows[0][row + column] = cells[0][first + column]
            rows[1][row + column] = cells[1][first + column]
            rows[2][row + column] = cells[2][first + column]


@borrowing_kernel
def unchanged_columns(kinds: NDArray[np.uint8], chosen: Int64s, natts: Int, masks: Int64s) -> None:
    """Note which columns of chosen rows have no value, a bit each."""
    for number in range(len(chosen)):
        masks[number] = 0
        for column in range(natts):
            if kinds[chosen[number] * natts + column] == UNCHANGED:
                masks[number] |= np.int64(1) << np.int64(column)


@borrowing_kernel
def key_places(data: Bytes, rows: Cells, chosen: Int64s, natts: Int, column: Int, places: Int64s) -> None:
    """Give each row a number by a column of its key, so that rows in this order are near to each other in an index.

    Args:
        data: uint8[]; rows: cells of rows; chosen: int64[k] which of them; natts: their columns; column: of the key.
        places: int64[k] gets whole numbers as they are, anything else by its first bytes.
    """
    _, starts, lengths = rows
    for number in range(len(chosen)):
        cell = chosen[number] * natts + column
        start, end = starts[cell], starts[cell] + lengths[cell]
        is_negative = end > start and data[start] == 45
        at = start + 1 if is_negative else start
        is_number = at < end <= at + 18
        value: Int = 0
        for place in range(at, end if is_number else at):
            digit = np.int64(data[place]) - 48
            is_number = is_number and 0 <= digit <= 9
            value = value * 10 + digit
        if not is_number:
            value = 0
            for place in range(start, start + 7):
                value = value << 8 | (np.int64(data[place]) if place < end else 0)
        places[number] = -value if is_number and is_negative else value


@borrowing_kernel
def array_size(data: Bytes, rows: Cells, chosen: Int64s, natts: Int, column: Int) -> Int:
    """Return the size of :func:`write_array`'s text."""
    size = np.int64(2)
    for number in range(len(chosen)):
        cell = chosen[number] * natts + column
        if rows[0][cell] == NULL:
            size += 5
            continue
        size += rows[2][cell] + 3
        for at in range(rows[1][cell], rows[1][cell] + rows[2][cell]):
            if data[at] == _QUOTE or data[at] == _BACKSLASH:
                size += 1
    return size


@borrowing_kernel
def write_array(data: Bytes, rows: Cells, chosen: Int64s, natts: Int, column: Int, out: Bytes) -> Int:
    """Write a column of chosen rows as the text of an array; return the bytes written.

    PostgreSQL: arrayfuncs.c (array_in): elements in quotes, quotes and backslashes behind a backslash.
    """
    o = np.int64(0)
    out[o] = 123
    o += 1
    for number in range(len(chosen)):
        cell = chosen[number] * natts + column
        if number:
            out[o] = 44
            o += 1
        if rows[0][cell] == NULL:
            out[o], out[o + 1], out[o + 2], out[o + 3] = 78, 85, 76, 76
            o += 4
            continue
        out[o] = _QUOTE
        o += 1
        for at in range(rows[1][cell], rows[1][cell] + rows[2][cell]):
            if data[at] == _QUOTE or data[at] == _BACKSLASH:
                out[o] = _BACKSLASH
                o += 1
            out[o] = data[at]
            o += 1
        out[o] = _QUOTE
        o += 1
    out[o] = 125
    return o + 1


@borrowing_kernel
def copy_size(rows: Cells, chosen: Int64s, natts: Int) -> Int:
    """Return the size of :func:`write_copy`'s text at most."""
    size = np.int64(0)
    for number in range(len(chosen)):
        for cell in range(chosen[number] * natts, (chosen[number] + 1) * natts):
            size += 3 if rows[0][cell] == NULL else 2 * np.int64(rows[2][cell]) + 1
    return size


@borrowing_kernel
def write_copy(data: Bytes, rows: Cells, chosen: Int64s, natts: Int, out: Bytes) -> Int:
    r"""Write chosen rows as COPY takes them in its text format; return the bytes written.

    PostgreSQL: copyfromparse.c (CopyReadAttributesText): tabs between, ``\N`` for NULL, backslashes before what ends a
    value or a line.
    """
    o = np.int64(0)
    for number in range(len(chosen)):
        first = chosen[number] * natts
        for cell in range(first, first + natts):
            if cell > first:
                out[o] = 9
                o += 1
            if rows[0][cell] == NULL:
                out[o], out[o + 1] = _BACKSLASH, 78
                o += 2
                continue
            for at in range(rows[1][cell], rows[1][cell] + rows[2][cell]):
                value = data[at]
                if value == _BACKSLASH or value == 9 or value == 10 or value == 13:
                    out[o] = _BACKSLASH
                    o += 1
                    value = 116 if value == 9 else 110 if value == 10 else 114 if value == 13 else value
                out[o] = value
                o += 1
        out[o] = 10
        o += 1
    return o
