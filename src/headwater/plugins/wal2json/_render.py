"""Kernel of wal2json: changes into JSON, in both of its formats.

Mirrors ``pg_decode_*_v1``, ``tuple_to_stringinfo``, ``pk_to_stringinfo`` (format 1) and ``pg_decode_*_v2``,
``pg_decode_write_change``, ``pg_decode_write_tuple`` (format 2) of wal2json.c 2.5. All that does not change from row to
row comes ready-made in :class:`Words`. So the two formats differ here in the order of a change's parts alone: format 1
has a list each of names, types and values, format 2 one list of objects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel, kernel
from headwater.plugins._borrow import borrow
from headwater.plugins._json import NO_ROOM, put_string, put_text
from headwater.plugins._messages import LONGEST_LSN, Out, put_decimal, put_lsn
from headwater.plugins._plan import BEGIN, COMMIT, READY, Int64s, Plan, Ready
from headwater.plugins._stamps import Stamps
from headwater.reorder.unit_flags import BARE, WROTE_BEFORE
from headwater.rows._text_bytes import Bytes, Int
from headwater.rows.items import DELETE, INSERT, NULL, TEXT, UNCHANGED, UPDATE, Cells, Items, Transactions

NUMBER, BOOL, HEX, QUOTED = 0, 1, 2, 3
"""How values are printed: bare, as true or false, without the ``\\x``, or as a string."""

IS_IDENTITY, IS_KEY = 1, 2
"""Bits of a column: it is among those of the replica identity, of the primary key."""

FINDS_IDENTITY, SHOWS_KEY = 1, 2
"""Bits of a layout: the new tuple has what the identity is; its changes tell the primary key."""

COLUMNS, IDENTITY, KEY = 0, 1, 2
"""Parts of a change."""

SAY_TEXT, SAY_XID, SAY_TIME, SAY_ORIGIN, SAY_LSN, SAY_COMMIT, SAY_END = 0, 1, 2, 3, 4, 5, 6
"""Steps of a preamble: a text, the xid, the commit time, the origin's id, and LSNs: of the message, of the commit
record, and of its end."""

OF_BEGIN, OF_COMMIT, OF_CHANGE, OF_BARE = 0, 1, 2, 3
"""Preambles: of BEGIN, of COMMIT, of what is inside a transaction, and of a message that is in none."""

# Indexes into the fixed texts. From FIRST_KIND on, INSERT, UPDATE and DELETE by their numbers as items, then messages
# and truncates; FIRST_END + 2 * part + 1 ends a part that another one follows, and FIRST_END + 2 * part the last one.
LEAD, COMMA, CHANGE_END, BARE_LEAD, BARE_END, SEPARATOR, FIRST_KIND, OF_MESSAGE, OF_TRUNCATE, FIRST_END, FIXED = (
    *(0, 1, 2, 3, 4, 5, 5, 9, 10, 11, 17),
)

# Indexes into the rules: 1 or 2; format 2 reports primary keys; digits after the slash of an LSN.
FORMAT, TELLS_KEYS, LSN_DIGITS = 0, 1, 2

UNTELLABLE = -2

LETTER_T, LETTER_N, LETTER_I, MINUS, LETTER_M = 0x74, 0x4E, 0x49, 0x2D, 0x4D

NULL_TEXT = np.frombuffer(b"null", np.uint8).copy()
TRUE_TEXT = np.frombuffer(b"true", np.uint8).copy()
FALSE_TEXT = np.frombuffer(b"false", np.uint8).copy()


class Words(NamedTuple):
    """The unchanging words of L layouts with c live columns in all, and of n lists that a change is made of.

    Attributes:
        fixed: int64[FIXED+1] offsets in text of texts that are the same for all layouts, by their indexes above.
        step_first: int64[5] preamble p is the steps ``[step_first[p], step_first[p+1])``.
        step: uint8[s] what is written.
        step_start: int64[s+1] offsets in text of what stands there for SAY_TEXT.
        list_first: int64[4] part p is the lists ``[list_first[p], list_first[p+1])``.
        list_start: int64[2n+1] offsets in text of what stands before list l (2l) and after it (2l+1); after the last
            one of a part stands what ends the part.
        list_kind: uint8[n] LIST_OF_WORDS, LIST_OF_VALUES, or LIST_OF_NOTHING.
        head_start: int64[L+1] offsets in text of a layout's schema and table.
        traits: uint8[L] FINDS_IDENTITY, SHOWS_KEY.
        first: int64[L+1] layout i's columns are ``[first[i], first[i+1])``.
        attribute: int32[c] index of the column's cell inside a tuple.
        members: uint8[c] IS_IDENTITY, IS_KEY.
        style: uint8[c] how values are printed.
        word_start: int64[2nc+1] offsets in text of what stands before, and after, the value of column k in list l:
            ``2 * (l * c + k)`` and the one after.
        text: uint8[].
    """

    fixed: Int64s
    step_first: Int64s
    step: NDArray[np.uint8]
    step_start: Int64s
    list_first: Int64s
    list_start: Int64s
    list_kind: NDArray[np.uint8]
    head_start: Int64s
    traits: NDArray[np.uint8]
    first: Int64s
    attribute: NDArray[np.int32]
    members: NDArray[np.uint8]
    style: NDArray[np.uint8]
    word_start: Int64s
    text: Bytes


LIST_OF_WORDS, LIST_OF_VALUES, LIST_OF_NOTHING = 0, 1, 2


@inline_kernel
def _put_fixed(words: Words, which: Int, out: Bytes, o: Int) -> Int:
    return put_text(words.text, words.fixed[which], words.fixed[which + 1], out, o)


@inline_kernel
def _is_no_number(src: Bytes, start: Int, length: Int) -> Int:
    """Tell whether a text is NaN, Infinity or -Infinity."""
    first = src[start] if length > 0 else 0
    if first == MINUS and length > 1:
        first = src[start + 1]
    return first in (LETTER_N, LETTER_I)


@inline_kernel
def _put_value(style: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value as pg_decode_write_value does."""
    if style == NUMBER:
        if _is_no_number(src, start, length):
            return put_text(NULL_TEXT, 0, 4, out, o)
        return put_text(src, start, start + length, out, o)
    if style == BOOL:
        if length == 1 and src[start] == LETTER_T:
            return put_text(TRUE_TEXT, 0, 4, out, o)
        return put_text(FALSE_TEXT, 0, 5, out, o)
    if style == HEX:
        # The plugin passes over two bytes whatever they are; it does not look whether there are so many.
        return put_string(src, start + 2, start + length, out, o) if length >= 2 else UNTELLABLE
    return put_string(src, start, start + length, out, o)


@inline_kernel
def _is_shown(cells: Cells, base: Int, words: Words, c: Int, members: Int, skips_nulls: Int) -> Int:
    """Tell whether a column is in a part of a change; without a tuple (base below 0) only membership counts."""
    if words.members[c] & members != members:
        return False
    if base < 0:
        return True
    kind = cells.kind[base + words.attribute[c]]
    return kind != UNCHANGED and not (skips_nulls and kind == NULL)


@inline_kernel
def _put_cell(cells: Cells, cell: Int, style: Int, out: Bytes, o: Int) -> Int:
    if cells.kind[cell] != TEXT:
        return put_text(NULL_TEXT, 0, 4, out, o)
    return _put_value(style, cells.text, cells.start[cell], np.int64(cells.length[cell]), out, o)


@borrowing_kernel
def put_part(
    part: Int,
    cells: Cells,
    base: Int,
    words: Words,
    layout: Int,
    members: Int,
    skips_nulls: Int,
    is_followed: Int,
    out: Bytes,
    o: Int,
) -> Int:
    """Write a part of a change: its columns, its identity or its primary key.

    Args:
        part: COLUMNS, IDENTITY or KEY.
        cells: the slice's.
        base: the tuple's first cell; below 0 if only the layout's columns are shown.
        words: the slice's.
        layout: index of the layout.
        members: bits that a column must have.
        skips_nulls: NULLs are left out.
        is_followed: another part follows.
        out: uint8[].
        o: where to write, or a status that is handed on.

    Returns:
        The end, or NO_ROOM, or UNTELLABLE.
    """
    columns = len(words.attribute)
    for number in range(words.list_first[part], words.list_first[part + 1]):
        o = put_text(words.text, words.list_start[2 * number], words.list_start[2 * number + 1], out, o)
        kind, count = words.list_kind[number], 0
        for c in range(words.first[layout], words.first[layout + 1]):
            if kind == LIST_OF_NOTHING or not _is_shown(cells, base, words, c, members, skips_nulls):
                continue
            if count > 0:
                o = _put_fixed(words, SEPARATOR, out, o)
            count += 1
            at = 2 * (number * columns + c)
            o = put_text(words.text, words.word_start[at], words.word_start[at + 1], out, o)
            if kind == LIST_OF_VALUES and o >= 0:
                o = _put_cell(cells, base + words.attribute[c], words.style[c], out, o)
            o = put_text(words.text, words.word_start[at + 1], words.word_start[at + 2], out, o)
            if o < 0:
                return o
        o = put_text(words.text, words.list_start[2 * number + 1], words.list_start[2 * number + 2], out, o)
    return _put_fixed(words, FIRST_END + 2 * part + is_followed, out, o)


@borrowing_kernel
def put_preamble(
    which: Int,
    words: Words,
    transactions: Transactions,
    t: Int,
    lsn: Int,
    stamps: Stamps,
    ready: Ready,
    lsn_digits: Int,
    out: Bytes,
    o: Int,
) -> Int:
    """Write what messages say of their transaction.

    Args:
        which: OF_BEGIN, OF_COMMIT, OF_CHANGE or OF_BARE.
        words: the slice's.
        transactions: its transactions.
        t: index of the transaction.
        lsn: of the message.
        stamps: commit times.
        ready: the slice's ready-made messages, ids of origins among them.
        lsn_digits: digits after the slash of an LSN, at least.
        out: uint8[].
        o: where to write, or a status that is handed on.

    Returns:
        The end, or NO_ROOM.
    """
    for i in range(words.step_first[which], words.step_first[which + 1]):
        step = words.step[i]
        if o < 0 or o + 20 + LONGEST_LSN > len(out):
            return NO_ROOM
        if step == SAY_TEXT:
            o = put_text(words.text, words.step_start[i], words.step_start[i + 1], out, o)
        elif step == SAY_XID:
            o = put_decimal(np.int64(transactions.xid[t]), out, o)
        elif step == SAY_TIME:
            o = put_text(stamps.text, stamps.start[t], stamps.start[t + 1], out, o)
        elif step == SAY_ORIGIN:
            if transactions.origin[t] > 0:
                origin = ready.literal_first[transactions.origin[t] - 1]
                o = put_text(ready.data, ready.offsets[origin], ready.offsets[origin + 1], out, o)
            else:
                o = put_decimal(np.int64(0), out, o)
        elif step == SAY_LSN:
            o = put_lsn(lsn, lsn_digits, out, o)
        elif step == SAY_COMMIT:
            o = put_lsn(transactions.commit_lsn[t], lsn_digits, out, o)
        else:
            o = put_lsn(transactions.end_lsn[t], lsn_digits, out, o)
    return o


@inline_kernel
def _put_change_1(items: Items, item: Int, cells: Cells, words: Words, out: Bytes, o: Int) -> Int:
    """Write a change in format 1, after its kind: table, columns, primary key, identity."""
    kind, layout = items.kind[item], np.int64(items.layout[item])
    old, new = cells.old_first[item], cells.new_first[item]
    o = put_text(words.text, words.head_start[layout], words.head_start[layout + 1], out, o)
    shows_key = words.traits[layout] & SHOWS_KEY != 0
    if kind != DELETE:
        o = put_part(COLUMNS, cells, new, words, layout, 0, 0, np.int64(kind == UPDATE or shows_key), out, o)
    if shows_key:
        o = put_part(KEY, cells, np.int64(-1), words, layout, IS_KEY, 0, np.int64(kind != INSERT), out, o)
    if kind == UPDATE and old >= 0:
        o = put_part(IDENTITY, cells, old, words, layout, 0, 1, 0, out, o)
    elif kind != INSERT:
        o = put_part(IDENTITY, cells, new if kind == UPDATE else old, words, layout, IS_IDENTITY, 1, 0, out, o)
    return _put_fixed(words, CHANGE_END, out, o)


@inline_kernel
def _put_change_2(items: Items, item: Int, cells: Cells, words: Words, tells_keys: Int, out: Bytes, o: Int) -> Int:
    """Write a change in format 2, after its kind: table, columns, identity, primary key."""
    kind, layout = items.kind[item], np.int64(items.layout[item])
    old, new = cells.old_first[item], cells.new_first[item]
    o = put_text(words.text, words.head_start[layout], words.head_start[layout + 1], out, o)
    if kind != DELETE:
        o = put_part(COLUMNS, cells, new, words, layout, 0, 0, 0, out, o)
    if old >= 0:
        o = put_part(IDENTITY, cells, old, words, layout, IS_IDENTITY, 0, 0, out, o)
    elif kind == UPDATE and words.traits[layout] & FINDS_IDENTITY:
        o = put_part(IDENTITY, cells, new, words, layout, IS_IDENTITY, 0, 0, out, o)
    if tells_keys:
        o = put_part(KEY, cells, old if old >= 0 else new, words, layout, IS_KEY, 0, 0, out, o)
    return _put_fixed(words, CHANGE_END, out, o)


@inline_kernel
def _is_later(plan: Plan, k: Int, flags: Int) -> Int:
    """Tell whether a change of format 1 has others before it: in its transaction, or in the last if it is in none."""
    if flags & BARE == 0:
        return plan.op[k - 1] != BEGIN if k > 0 else flags & WROTE_BEFORE != 0
    # The plugin counts on from the transaction before, of which it has forgotten that it has ended.
    end = k - 1
    while end >= 0 and plan.op[end] != COMMIT:
        end -= 1
    if end < 0:
        return flags & WROTE_BEFORE != 0
    # Of a transaction that was cut, what is not here has changes too.
    if end == 0:
        return True
    return plan.op[end - 1] != BEGIN and (end < 2 or plan.op[end - 2] != BEGIN)


@inline_kernel
def _put_ready(ready: Ready, message: Int, skipped: Int, out: Bytes, o: Int) -> Int:
    return put_text(ready.data, ready.offsets[message] + skipped, ready.offsets[message + 1], out, o)


@inline_kernel
def _put_piece(
    items: Items, cells: Cells, ready: Ready, plan: Plan, words: Words, k: Int, flags: Int, out: Bytes, o: Int
) -> Int:
    """Write a piece of format 1 that is neither BEGIN nor COMMIT: a ready-made message, or a change."""
    op, arg = plan.op[k], plan.arg[k]
    o = _put_fixed(words, BARE_LEAD if flags & BARE else LEAD, out, o)
    if _is_later(plan, k, flags):
        o = _put_fixed(words, COMMA, out, o)
    if op == READY:
        o = _put_ready(ready, arg, 0, out, o)
        return _put_fixed(words, BARE_END, out, o) if flags & BARE else o
    o = _put_fixed(words, FIRST_KIND + items.kind[arg], out, o)
    return _put_change_1(items, arg, cells, words, out, o)


@kernel
def render_json(
    items: Items,
    cells: Cells,
    transactions: Transactions,
    ready: Ready,
    plan: Plan,
    words: Words,
    stamps: Stamps,
    rules: Int64s,
    span: Int64s,
    out: Out,
) -> Int:
    """Write messages of a plan; of format 1 in one piece, the pieces that one message is made of.

    Args:
        items: the slice's changes.
        cells: their text.
        transactions: its transactions.
        ready: its ready-made messages: of format 2, M or T before what follows the preamble.
        plan: the slice's messages.
        words: of the slice's layouts.
        stamps: commit times of its transactions.
        rules: int64[3] FORMAT, TELLS_KEYS, LSN_DIGITS.
        span: int64[2] the first message to write, and one past the last.
        out: where messages go; ``offsets[span[0]]`` is where to begin.

    Returns:
        The message that did not fit, or ``span[1]`` if all did. ``~k`` if message k has a value that the plugin reads
        past the end of.
    """
    items, cells, transactions, ready = borrow(items), borrow(cells), borrow(transactions), borrow(ready)
    plan, words, stamps, out = borrow(plan), borrow(words), borrow(stamps), borrow(out)
    is_first_format, digits = rules[FORMAT] == 1, rules[LSN_DIGITS]
    for k in range(span[0], span[1]):
        o, op, arg, t, lsn = out.offsets[k], plan.op[k], plan.arg[k], np.int64(plan.txn[k]), plan.lsn[k]
        flags = transactions.flags[t]
        if op in (BEGIN, COMMIT):
            which = OF_BEGIN if op == BEGIN else OF_COMMIT
            o = put_preamble(which, words, transactions, t, lsn, stamps, ready, digits, out.data, o)
        elif is_first_format:
            o = _put_piece(items, cells, ready, plan, words, k, flags, out.data, o)
        else:
            if op == READY:
                lead = OF_MESSAGE if ready.data[ready.offsets[arg]] == LETTER_M else OF_TRUNCATE
            else:
                lead = FIRST_KIND + items.kind[arg]
            which = OF_BARE if flags & BARE else OF_CHANGE
            o = _put_fixed(words, lead, out.data, o)
            o = put_preamble(which, words, transactions, t, lsn, stamps, ready, digits, out.data, o)
            if op == READY:
                o = _put_ready(ready, arg, 1, out.data, o)
            else:
                o = _put_change_2(items, arg, cells, words, rules[TELLS_KEYS], out.data, o)
        if o < 0:
            return k if o == NO_ROOM else ~k
        out.offsets[k + 1] = o
    return span[1]
