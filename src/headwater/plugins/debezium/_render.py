"""Kernel of debezium that writes events as JSON, by templates in which bytes below a blank stand for what differs.

All that does not change from event to event, schemas included, comes ready-made in :class:`Words`. In JSON no byte
below a blank stands for itself. Therefore such a byte in a template is a mark, which is replaced by what it stands for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel, kernel
from headwater.plugins._borrow import borrow
from headwater.plugins._json import NO_ROOM, put_text
from headwater.plugins._messages import Out, put_decimal
from headwater.plugins._plan import Int64s, Plan, Ready
from headwater.plugins.debezium._events import (
    BEGUN,
    ENDED,
    KEY_CREATED,
    MADE,
    NO_TABLE,
    UPDATED,
    Events,
    Keys,
    Tallies,
    tallies_end,
)
from headwater.plugins.debezium._numbers import NO_VALUE, UNTELLABLE
from headwater.plugins.debezium._times import put_signed
from headwater.plugins.debezium._values import NOTHING, put_value
from headwater.reorder.unit_flags import BARE
from headwater.rows._copy import copy, load_64, store_64
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import TEXT, UNCHANGED, Cells, Items, Transactions

KEY, OTHER_KEY, BEFORE, AFTER, MILLIS, MICROS, NANOS, SEQUENCE, XID, LSN, ORIGIN, TRANSACTION, ID, COUNT, TABLES = (
    *range(1, 16),
)
"""The marks, in this order.

- the key, the key before or after it changed, the old and the new row;
- the commit time in three units;
- the LSNs of the last commit and of the event; the xid; the LSN; the replication origin;
- an event's place in its transaction; a transaction's id;
- the number of events of a transaction, and their numbers by table.
"""

ROW_TEMPLATES = 7
"""The number of templates of each layout, by kind of event."""

UNIX_EPOCH = 946_684_800_000_000
"""The microseconds from 1970 to 2000."""

LONGEST_MARK = 160
"""The most bytes that a mark may stand for, except rows, keys and tables."""

_BLANK = 0x20
_LOWS, _HIGHS = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_BLANKS = np.uint64(0x6060606060606060)

NULL_TEXT = np.frombuffer(b"null", np.uint8).copy()
ESCAPED_QUOTE = np.frombuffer(b'\\"', np.uint8).copy()
NO_ORIGIN = np.frombuffer(b'null,"origin_lsn":null', np.uint8).copy()
PLACE_TEXTS = np.frombuffer(b'{"id":,"total_order":,"data_collection_order":', np.uint8).copy()
TALLY_TEXTS = np.frombuffer(b'{"data_collection":"","event_count":', np.uint8).copy()
MESSAGE_TABLE = np.frombuffer(
    b"io.debezium.connector.postgresql.LogicalDecodingMessageMonitor$LogicalDecodingMessageId", np.uint8
).copy()


class Words(NamedTuple):
    """The unchanging words of L layouts with c columns in all, of k columns of keys, of m ready-made messages.

    Attributes:
        template: int64[7L+2+1] offsets in text of templates: of layout i and kind j at ``7 * i + j``, after them those
            of BEGUN and ENDED.
        first: int64[L+1] layout i's columns are ``[first[i], first[i+1])``.
        attribute: int32[c] index of the column's cell inside a tuple.
        style: uint16[c]; parameter: int32[c] see :func:`headwater.plugins.debezium._values.put_scalar`.
        optional: uint8[c] the column may be NULL.
        word: int64[3c+1] offsets in text of three words of each column: the one before its value, the one for NULL, and
            the placeholder for a value that was not written again. A word is empty where the connector stops.
        key_column: int32[k] the columns of keys, in the order of :class:`Keys`.
        table: int64[tables+1] offsets in text of tables' names.
        made: int64[m] where in a ready-made message its template begins.
        text: uint8[].
    """

    template: Int64s
    first: Int64s
    attribute: NDArray[np.int32]
    style: NDArray[np.uint16]
    parameter: NDArray[np.int32]
    optional: NDArray[np.uint8]
    word: Int64s
    key_column: NDArray[np.int32]
    table: Int64s
    made: Int64s
    text: Bytes


class Slice(NamedTuple):
    """The data of a slice.

    Attributes:
        items: its changes.
        cells: the text of the changes.
        transactions: its transactions.
        ready: its ready-made messages, origins among them.
        plan: its messages.
        words: the words of its layouts.
        keys: the keys of its layouts.
        events: the events of its messages.
        tallies: the tallies of its transactions.
    """

    items: Items
    cells: Cells
    transactions: Transactions
    ready: Ready
    plan: Plan
    words: Words
    keys: Keys
    events: Events
    tallies: Tallies


@borrowing_kernel
def _put_cell(words: Words, c: Int, cells: Cells, cell: Int, older: Int, out: Bytes, o: Int) -> Int:
    """Write a column's value; `older` is the cell that has it if it was not written again, below 0 for none."""
    if cells.kind[cell] == UNCHANGED and older >= 0 and cells.kind[older] == TEXT:
        cell = older
    which = 3 * c + (2 if cells.kind[cell] == UNCHANGED else 1)
    if cells.kind[cell] == TEXT and words.style[c] != NOTHING:
        style, parameter = np.int64(words.style[c]), np.int64(words.parameter[c])
        start, length = cells.start[cell], np.int64(cells.length[cell])
        done = put_value(style, parameter, cells.text, start, length, out, o)
        if done != NO_VALUE:
            return done
        return put_text(NULL_TEXT, 0, 4, out, o) if words.optional[c] else np.int64(UNTELLABLE)
    if words.word[which] == words.word[which + 1]:
        return UNTELLABLE
    return put_text(words.text, words.word[which], words.word[which + 1], out, o)


@borrowing_kernel
def _put_column(
    words: Words, c: Int, cells: Cells, base: Int, older_base: Int, is_first: Int, out: Bytes, o: Int
) -> Int:
    """Write a column's name and value; the first column has no comma before it."""
    o = put_text(words.text, words.word[3 * c] + is_first, words.word[3 * c + 1], out, o)
    if o < 0:
        return o
    attribute = words.attribute[c]
    return _put_cell(
        words, c, cells, base + attribute, older_base + attribute if older_base >= 0 else np.int64(-1), out, o
    )


@inline_kernel
def _put_byte(byte: Int, out: Bytes, o: Int) -> Int:
    if o < 0 or o >= len(out):
        return min(o, NO_ROOM)
    out[o] = byte
    return o + 1


@borrowing_kernel
def _put_row(part: Slice, layout: Int, base: Int, older_base: Int, out: Bytes, o: Int) -> Int:
    """Write a row, or null where there is none."""
    if base < 0:
        return put_text(NULL_TEXT, 0, 4, out, o)
    o = _put_byte(0x7B, out, o)
    first = part.words.first[layout]
    for c in range(first, part.words.first[layout + 1]):
        o = _put_column(part.words, c, part.cells, base, older_base, np.int64(c == first), out, o)
        if o < 0:
            return o
    return _put_byte(0x7D, out, o)


@borrowing_kernel
def _put_key(part: Slice, layout: Int, base: Int, out: Bytes, o: Int) -> Int:
    o = _put_byte(0x7B, out, o)
    first = part.keys.first[layout]
    for i in range(first, part.keys.first[layout + 1]):
        if o < 0:
            return o
        c = np.int64(part.words.key_column[i])
        o = _put_column(part.words, c, part.cells, base, np.int64(-1), np.int64(i == first), out, o)
    return _put_byte(0x7D, out, o)


@borrowing_kernel
def _put_row_mark(part: Slice, e: Int, mark: Int, out: Bytes, o: Int) -> Int:
    """Write a row or a key, of the old row or the new one."""
    item = part.plan.arg[part.events.message[e]]
    layout = np.int64(part.items.layout[item])
    old, new = part.cells.old_first[item], part.cells.new_first[item]
    if mark == BEFORE:
        return _put_row(part, layout, old, np.int64(-1), out, o)
    if mark == AFTER:
        return _put_row(part, layout, new, old, out, o)
    kind = part.events.kind[e]
    is_new = kind <= UPDATED or kind == KEY_CREATED
    return _put_key(part, layout, new if is_new == (mark == KEY) else old, out, o)


@borrowing_kernel
def _put_id(xid: Int, lsn: Int, out: Bytes, o: Int) -> Int:
    """Write ``734:22088872``, in quotes."""
    out[o] = 0x22
    o = put_decimal(xid, out, o + 1)
    out[o] = 0x3A
    o = put_decimal(lsn, out, o + 1)
    out[o] = 0x22
    return o + 1


@borrowing_kernel
def _put_sequence(last_end: Int, lsn: Int, out: Bytes, o: Int) -> Int:
    """Write the two LSNs of a sequence, inside its string."""
    if last_end < 0:
        o = copy(NULL_TEXT, 0, out, o, 4)
    else:
        o = copy(ESCAPED_QUOTE, 0, out, o, 2)
        o = copy(ESCAPED_QUOTE, 0, out, put_decimal(last_end, out, o), 2)
    out[o] = 0x2C
    o = copy(ESCAPED_QUOTE, 0, out, o + 1, 2)
    return copy(ESCAPED_QUOTE, 0, out, put_decimal(lsn, out, o), 2)


@borrowing_kernel
def _put_place(events: Events, e: Int, xid: Int, lsn: Int, out: Bytes, o: Int) -> Int:
    """Write an event's place in its transaction."""
    o = _put_id(xid, lsn, out, copy(PLACE_TEXTS, 0, out, o, 6))
    o = put_decimal(events.order[e], out, copy(PLACE_TEXTS, 6, out, o, 15))
    o = put_decimal(events.table_order[e], out, copy(PLACE_TEXTS, 21, out, o, 25))
    out[o] = 0x7D
    return o + 1


@borrowing_kernel
def _put_tallies(part: Slice, e: Int, out: Bytes, o: Int) -> Int:
    """Write the numbers of a transaction's events by table."""
    first, end = part.events.table_order[e], tallies_end(part.events, e, part.tallies)
    if first == end:
        o = _put_byte(0x5B, out, o)
    for i in range(first, end):
        o = _put_byte(0x5B if i == first else 0x2C, out, o)
        o = put_text(TALLY_TEXTS, 0, 20, out, o)
        table = np.int64(part.tallies.table[i])
        if table == NO_TABLE:
            o = put_text(MESSAGE_TABLE, 0, len(MESSAGE_TABLE), out, o)
        else:
            o = put_text(part.words.text, part.words.table[table], part.words.table[table + 1], out, o)
        o = put_text(TALLY_TEXTS, 20, len(TALLY_TEXTS), out, o)
        if o < 0 or o + LONGEST_MARK > len(out):
            return NO_ROOM
        o = put_decimal(part.tallies.events[i], out, o)
        out[o] = 0x7D
        o += 1
    return _put_byte(0x5D, out, o)


@inline_kernel
def _origin(part: Slice, t: Int) -> Int:
    """Return the ready-made message with a transaction's origin, -1 for none."""
    literal = np.int64(part.transactions.origin[t])
    if literal == 0 or part.ready.literal_first[literal - 1] == part.ready.literal_first[literal]:
        return np.int64(-1)
    return part.ready.literal_first[literal - 1]


@inline_kernel
def _has_origin(part: Slice, e: Int, t: Int) -> Int:
    """Tell whether an event is a BEGIN that an origin follows: the server sends such a BEGIN without its LSN."""
    return part.events.kind[e] == BEGUN and _origin(part, t) >= 0


@borrowing_kernel
def _put_origin(part: Slice, t: Int, is_bare: Int, out: Bytes, o: Int) -> Int:
    message = _origin(part, t)
    if message < 0 or is_bare:
        return put_text(NO_ORIGIN, 0, len(NO_ORIGIN), out, o)
    return put_text(part.ready.data, part.ready.offsets[message], part.ready.offsets[message + 1], out, o)


@borrowing_kernel
def _put_mark(part: Slice, e: Int, mark: Int, is_counted: Int, out: Bytes, o: Int) -> Int:
    """Write what a mark stands for."""
    if mark <= AFTER:
        return _put_row_mark(part, e, mark, out, o)
    if mark == TABLES:
        return _put_tallies(part, e, out, o)
    k = part.events.message[e]
    t, lsn, xid = np.int64(part.plan.txn[k]), part.plan.lsn[k], part.plan.xid[k]
    is_bare = np.int64(part.transactions.flags[t] & BARE != 0)
    if mark == ORIGIN:
        return _put_origin(part, t, is_bare, out, o)
    if o + LONGEST_MARK > len(out):
        return NO_ROOM
    micros = part.events.time[e] + UNIX_EPOCH
    if mark == MILLIS:
        return put_signed(micros // 1000, out, o)
    if mark == MICROS:
        return put_signed(micros, out, o)
    if mark == NANOS:
        return put_signed(micros * 1000, out, o)
    if mark == SEQUENCE:
        return _put_sequence(part.events.last_end[e], lsn, out, o)
    if mark == LSN:
        return put_decimal(lsn, out, o)
    if mark == ID:
        return _put_id(xid, np.int64(0) if _has_origin(part, e, t) else lsn, out, o)
    if mark == COUNT:
        return put_decimal(part.events.order[e], out, o)
    if is_bare or (mark == TRANSACTION and not is_counted):
        return copy(NULL_TEXT, 0, out, o, 4)
    return put_decimal(xid, out, o) if mark == XID else _put_place(part.events, e, xid, lsn, out, o)


@inline_kernel
def _has_mark(word: Int) -> Int:
    """Tell whether one of eight bytes is below a blank."""
    return ((word & _LOWS) + _BLANKS | word) & _HIGHS != _HIGHS


@borrowing_kernel
def _put_template(part: Slice, e: Int, src: Bytes, at: Int, end: Int, is_counted: Int, out: Bytes, o: Int) -> Int:
    """Write a template with its marks replaced, eight bytes at a time where there are none."""
    while at < end:
        if o + end - at > len(out):
            return NO_ROOM
        while end - at >= 8 and not _has_mark(load_64(src, at)):
            store_64(out, o, load_64(src, at))
            at += 8
            o += 8
        while at < end and src[at] >= _BLANK:
            out[o] = src[at]
            at += 1
            o += 1
        if at < end:
            o = _put_mark(part, e, np.int64(src[at]), is_counted, out, o)
            if o < 0:
                return o
            at += 1
    return o


@inline_kernel
def _borrowed(part: Slice) -> Slice:
    return Slice(
        borrow(part.items),
        borrow(part.cells),
        borrow(part.transactions),
        borrow(part.ready),
        borrow(part.plan),
        borrow(part.words),
        borrow(part.keys),
        borrow(part.events),
        borrow(part.tallies),
    )


@kernel
def render_events(part: Slice, is_counted: Int, span: Int64s, out: Out) -> Int:
    """Write events.

    Args:
        part: the slice.
        is_counted: whether events have their place in the transaction.
        span: int64[2] the first event to write, and one past the last.
        out: where the events go; ``offsets[span[0]]`` is where to begin.

    Returns:
        The event that did not fit, ``span[1]`` if all did, or ``~e`` if event e has a value that cannot be shown.
    """
    part, out = _borrowed(part), borrow(out)
    layouts = len(part.words.first) - 1
    for e in range(span[0], span[1]):
        kind, arg = np.int64(part.events.kind[e]), part.plan.arg[part.events.message[e]]
        o = out.offsets[e]
        if kind == MADE:
            start, end = part.ready.offsets[arg] + part.words.made[arg], part.ready.offsets[arg + 1]
            o = _put_template(part, e, part.ready.data, start, end, is_counted, out.data, o)
        else:
            which = ROW_TEMPLATES * layouts + kind - BEGUN
            if kind != BEGUN and kind != ENDED:
                which = ROW_TEMPLATES * part.items.layout[arg] + kind
            start, end = part.words.template[which], part.words.template[which + 1]
            o = _put_template(part, e, part.words.text, start, end, is_counted, out.data, o)
        if o < 0:
            return e if o == NO_ROOM else ~e
        out.offsets[e + 1] = o
    return span[1]
