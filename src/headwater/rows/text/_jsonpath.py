"""Kernel for jsonpath (PostgreSQL: ``jsonpath.c`` printJsonPathItem, ``jsonpath.h`` JsonPathItemType).

First comes a word of version and mode. An item is a byte of type, then at the next multiple of 4 where its next item
is, and what belongs to its type; all places count from the item itself. A stack of orders inside the output buffer, as
in ``_json.py``, holds what is still to print: an item, a word, or an array's subscripts from one on.

Item types from 43 on are of 17, from 54 on of 19.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._text_bytes import Bytes, Int, load_i32, load_u32, no_room, store_u32
from headwater.rows._text_codes import CORRUPT, NEED_SPACE
from headwater.rows.text._json import write_json_string, write_stored_numeric
from headwater.rows.text._number import MAX_INT_TEXT, write_int

_VERSION, _IS_LAX = 1, 0x80000000

_NULL, _STRING, _NUMERIC, _BOOL = 0, 1, 2, 3
_NOT, _IS_UNKNOWN, _PLUS, _MINUS, _INDEX_ARRAY, _ANY, _KEY = 6, 7, 19, 20, 23, 24, 25
_ANY_KEY, _VARIABLE, _FILTER, _EXISTS, _DATETIME = 22, 28, 29, 30, 37
_SUBSCRIPT, _LIKE_REGEX, _DECIMAL, _REPLACE, _SPLIT_PART, _LAST_TYPE = 39, 42, 46, 54, 61, 61
_PAIRED = (_DECIMAL, _REPLACE, _SPLIT_PART)
"""Methods with up to two arguments."""
_UNBOUNDED = 0xFFFFFFFF

# The text of an item, by its type: for operators the text between their arguments.
_WORDS = [
    *["null", "", "", "", " && ", " || ", "!(", "(", " == ", " != ", " < ", " > ", " <= ", " >= ", " + ", " - "],
    *[" * ", " / ", " % ", "+", "-", "[*]", "*", "[", "**", "", "@", "$", "$", "?(", "exists (", ".type()", ".size()"],
    *[".abs()", ".floor()", ".ceiling()", ".double()", ".datetime(", ".keyvalue()", "", "last", " starts with "],
    *[" like_regex ", ".bigint()", ".boolean()", ".date()", ".decimal(", ".integer()", ".number()", ".string()"],
    *[".time(", ".time_tz(", ".timestamp(", ".timestamp_tz(", ".replace(", ".lower()", ".upper()", ".ltrim("],
    *[".rtrim(", ".btrim(", ".initcap()", ".split_part("],
    *["(", ")", ",", " to ", ") is unknown", ' flag "', '"', "true", "false", "strict ", "{", "}", "{last}"],
    *["{last to ", " to last}", ".", "]"],
]
(_OPEN, _CLOSE, _COMMA, _TO, _UNKNOWN_WORD, _FLAG, _QUOTE, _TRUE, _FALSE, _STRICT, _BRACE, _UNBRACE, _LAST_ONE) = range(
    62, 75
)
_LAST_TO, _TO_LAST, _DOT, _UNBRACKET = 75, 76, 77, 78
_TEXT = np.frombuffer("".join(_WORDS).encode(), dtype=np.uint8).copy()
_TEXT_AT = np.cumsum([0] + [len(word) for word in _WORDS], dtype=np.int64)
_REGEX_FLAGS = np.frombuffer(b"ismxq", dtype=np.uint8).copy()


def _by_type(**groups: tuple[int, ...]) -> NDArray[np.int64]:
    """Make a number for each type: the place of its group's name among the names."""
    numbers = np.zeros(_LAST_TYPE + 1, dtype=np.int64)
    for number, types in enumerate(groups.values(), start=1):
        numbers[list(types)] = number
    return numbers


_BINARY, _UNARY, _CALL = 1, 2, 3
_SHAPE = _by_type(
    binary=(4, 5, *range(8, 19), 41),
    unary=(_PLUS, _MINUS),
    call=(_NOT, _IS_UNKNOWN, _FILTER, _EXISTS, _DATETIME, *range(50, 54), *range(57, 60)),
)
"""Types with two arguments and a word between them, with one argument after a sign, and in parentheses."""
_PRIORITY = np.full(_LAST_TYPE + 1, 6, dtype=np.int64)
for _types, _value in (
    ((5,), 0),
    ((4,), 1),
    ((*range(8, 14), 41), 2),
    ((14, 15), 3),
    ((16, 17, 18), 4),
    ((_PLUS, _MINUS), 5),
):
    _PRIORITY[list(_types)] = _value

# An order: what to print, a number that says which (a place in the payload, or a word), and how.
_KIND, _WHICH, _HOW, _ORDER = 0, 4, 8, 12
_MOST_ORDERS = 8
"""More than one order brings about."""
_AN_ITEM, _A_WORD, _SUBSCRIPTS = 0, 1, 2
_IN_KEY, _IN_BRACKETS = 1, 2


@borrowing_kernel
def _put_word(word: Int, out: Bytes, o: Int) -> Int:
    """Write one of _WORDS; hand back a status instead of a place."""
    low, high = _TEXT_AT[word], _TEXT_AT[word + 1]
    if o < 0:
        return o
    if no_room(out, o, high - low):
        return NEED_SPACE
    for i in range(low, high):
        out[o] = _TEXT[i]
        o += 1
    return o


@inline_kernel
def _push(kind: Int, which: Int, how: Int, out: Bytes, top: Int) -> Int:
    """Give an order that comes before those given so far; the new top."""
    top -= _ORDER
    store_u32(kind, out, top + _KIND)
    store_u32(which, out, top + _WHICH)
    store_u32(how, out, top + _HOW)
    return top


@inline_kernel
def _fields(origin: Int, item: Int) -> Int:
    """Find where the words of an item begin: where its next one is, and what follows."""
    return origin + (item - origin + 4 & -4)


@borrowing_kernel
def _write_any(first: Int, last: Int, out: Bytes, o: Int) -> Int:
    """Write the levels of ``**``, nothing for all."""
    if first == 0 and last == _UNBOUNDED:
        return o
    if first == last == _UNBOUNDED:
        return _put_word(np.int64(_LAST_ONE), out, o)
    o = _put_word(np.int64(_LAST_TO if first == _UNBOUNDED else _BRACE), out, o)
    if o < 0 or no_room(out, o, 2 * MAX_INT_TEXT + 16):
        return NEED_SPACE
    if first != _UNBOUNDED:
        o = write_int(first, out, o)
        if first != last:
            o = _put_word(np.int64(_TO_LAST if last == _UNBOUNDED else _TO), out, o)
    if last != _UNBOUNDED:
        if first != last:
            o = write_int(last, out, o)
        return _put_word(np.int64(_UNBRACE), out, o)
    return o


@borrowing_kernel
def _write_string(src: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Write a length and as many bytes, as a JSON string."""
    if at + 4 > end:
        return CORRUPT
    size = load_u32(src, at)
    return write_json_string(src, at + 4, size, out, o) if at + 4 + size <= end else CORRUPT


@borrowing_kernel
def _write_value(src: Bytes, type: Int, at: Int, end: Int, has_next: bool, out: Bytes, o: Int) -> Int:
    """Write a literal, a key or a variable, whose content lies at `at`."""
    if type == _NUMERIC:
        if has_next:
            o = _put_word(np.int64(_OPEN), out, o)
        o = write_stored_numeric(src, at, end, out, o) if o >= 0 else o
        return _put_word(np.int64(_CLOSE), out, o) if has_next else o
    if type == _BOOL:
        if at >= end:
            return CORRUPT
        return _put_word(np.int64(_TRUE if src[at] == 1 else _FALSE), out, o)
    return _write_string(src, at, end, out, o)


@borrowing_kernel
def _write_regex(src: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Write a pattern and its flags: words of flags, expression, the pattern's length, the pattern."""
    if at + 12 > end:
        return CORRUPT
    flags = load_u32(src, at)
    o = _write_string(src, at + 8, end, out, o)
    if flags == 0 or o < 0:
        return o
    o = _put_word(np.int64(_FLAG), out, o)
    if o < 0 or no_room(out, o, 8):
        return NEED_SPACE
    for bit in range(len(_REGEX_FLAGS)):
        if flags >> bit & 1:
            out[o] = _REGEX_FLAGS[bit]
            o += 1
    return _put_word(np.int64(_QUOTE), out, o)


@inline_kernel
def _brackets(src: Bytes, origin: Int, argument: Int, end: Int, type: Int) -> Int:
    """Tell how an operator's argument is printed: in brackets if it binds no closer."""
    if argument < origin or argument >= end or src[argument] > _LAST_TYPE:
        return 0
    return _IN_BRACKETS if _PRIORITY[src[argument]] <= _PRIORITY[type] else 0


@borrowing_kernel
def _order_arguments(
    src: Bytes, origin: Int, item: Int, at: Int, end: Int, how: Int, out: Bytes, top: Int
) -> tuple[Int, Int]:
    """Order the parts of an item with arguments; (the new top or CORRUPT, the word to print at once).

    Room: six orders.
    """
    type = np.int64(src[item])
    shape, word, closing = _SHAPE[type], type, np.int64(_CLOSE)
    if type == _INDEX_ARRAY:
        return (_push(np.int64(_SUBSCRIPTS), item - origin, np.int64(0), out, top) if at + 4 <= end else CORRUPT), word
    if at + (8 if shape == _BINARY or type in _PAIRED or type == _LIKE_REGEX else 4) > end:
        return CORRUPT, word
    if shape == _CALL:
        closing = np.int64(_UNKNOWN_WORD if type == _IS_UNKNOWN else _CLOSE)
        top = _push(np.int64(_A_WORD), closing, np.int64(0), out, top)
        if load_i32(src, at) != 0:
            top = _push(np.int64(_AN_ITEM), item - origin + load_i32(src, at), np.int64(0), out, top)
        return top, word
    if type in _PAIRED:
        top = _push(np.int64(_A_WORD), closing, np.int64(0), out, top)
        left, right = load_i32(src, at), load_i32(src, at + 4)
        if right != 0:
            top = _push(np.int64(_AN_ITEM), item - origin + right, np.int64(0), out, top)
            top = _push(np.int64(_A_WORD), np.int64(_COMMA), np.int64(0), out, top)
        if left != 0:
            top = _push(np.int64(_AN_ITEM), item - origin + left, np.int64(0), out, top)
        return top, word
    if how & _IN_BRACKETS:
        top = _push(np.int64(_A_WORD), closing, np.int64(0), out, top)
    last = item + load_i32(src, at + 4 if shape == _BINARY or type == _LIKE_REGEX else at)
    if type == _LIKE_REGEX:
        top = _push(np.int64(_A_WORD), type, item - origin, out, top)
    top = _push(np.int64(_AN_ITEM), last - origin, _brackets(src, origin, last, end, type), out, top)
    if shape == _UNARY:
        top = _push(np.int64(_A_WORD), type, np.int64(0), out, top)
    if shape == _BINARY:
        first = item + load_i32(src, at)
        top = _push(np.int64(_A_WORD), type, np.int64(0), out, top)
        top = _push(np.int64(_AN_ITEM), first - origin, _brackets(src, origin, first, end, type), out, top)
    return top, np.int64(_OPEN if how & _IN_BRACKETS else _STRING)


@borrowing_kernel
def _order_subscript(
    src: Bytes, origin: Int, item: Int, number: Int, end: Int, out: Bytes, top: Int
) -> tuple[Int, Int]:
    """Order one subscript of an array and what follows it; (the new top or CORRUPT, the word to print at once)."""
    at = _fields(origin, item) + 4
    count = load_u32(src, at)
    if at + 4 + 8 * count > end:
        return CORRUPT, np.int64(_STRING)
    if number >= count:
        return top, np.int64(_UNBRACKET)
    top = _push(np.int64(_SUBSCRIPTS), item - origin, number + 1, out, top)
    low, high = load_i32(src, at + 4 + 8 * number), load_i32(src, at + 8 + 8 * number)
    if high != 0:
        top = _push(np.int64(_AN_ITEM), item - origin + high, np.int64(0), out, top)
        top = _push(np.int64(_A_WORD), np.int64(_TO), np.int64(0), out, top)
    top = _push(np.int64(_AN_ITEM), item - origin + low, np.int64(0), out, top)
    return top, np.int64(_COMMA if number > 0 else _STRING)


@borrowing_kernel
def _write_item(
    is_bare: Int, src: Bytes, origin: Int, item: Int, end: Int, how: Int, out: Bytes, room: Bytes, top: Int, o: Int
) -> tuple[Int, Int]:
    """Print an item up to its first argument and order the rest; (the new top, the end of the text or a status)."""
    type = np.int64(src[item])
    at = _fields(origin, item)
    if type > _LAST_TYPE or type == _SUBSCRIPT or at + 4 > end:
        return top, np.int64(CORRUPT)
    following = load_i32(src, at)
    at += 4
    if following > 0:
        top = _push(np.int64(_AN_ITEM), item - origin + following, np.int64(_IN_KEY | _IN_BRACKETS), out, top)
    if how & _IN_KEY and type in (_KEY, _ANY_KEY, _ANY):
        o = _put_word(np.int64(_DOT), room, o)
    if _SHAPE[type] != 0 or type in (_INDEX_ARRAY, _LIKE_REGEX) or type in _PAIRED:
        top, word = _order_arguments(src, origin, item, at, end, how, out, top)
        return top, _put_word(word, room, o) if top >= 0 else np.int64(CORRUPT)
    o = _put_word(type, room, o)
    if o < 0:
        return top, o
    if type in (_STRING, _NUMERIC, _BOOL, _KEY, _VARIABLE):
        o = _write_value(src, type, at, end, following > 0 and is_bare == 0, room, o)
    elif type == _ANY:
        o = _write_any(load_u32(src, at), load_u32(src, at + 4), room, o) if at + 8 <= end else np.int64(CORRUPT)
    return top, o


@borrowing_kernel
def write_jsonpath(is_bare: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a path, with the word ``strict`` if it is not lax (jsonpath_out).

    With `is_bare`, numbers have no parentheses.
    """
    if start < 0 or length < 4:
        return CORRUPT
    header, origin, end = load_u32(src, start), start + 4, start + length
    if header & ~_IS_LAX != _VERSION:
        return CORRUPT
    if header & _IS_LAX == 0:
        o = _put_word(np.int64(_STRICT), out, o)
    top, orders = len(out) - _ORDER, 0
    if o < 0 or top < o:
        return NEED_SPACE
    top = _push(np.int64(_AN_ITEM), np.int64(0), np.int64(_IN_BRACKETS), out, top + _ORDER)
    while top < len(out):
        kind, which, how = load_u32(out, top + _KIND), load_u32(out, top + _WHICH), load_u32(out, top + _HOW)
        top, orders = top + _ORDER, orders + 1
        if top - _MOST_ORDERS * _ORDER < o:
            return NEED_SPACE
        if orders > 4 * length:  # items are eight bytes or more: these call each other in circles
            return CORRUPT
        room = out[: top - _MOST_ORDERS * _ORDER]
        if kind == _A_WORD:
            o = _put_word(which, room, o)
            if which == _LIKE_REGEX and o >= 0:
                o = _write_regex(src, _fields(origin, origin + how) + 4, end, room, o)
        elif kind == _SUBSCRIPTS:
            top, word = _order_subscript(src, origin, origin + which, how, end, out, top)
            o = _put_word(word, room, o) if top >= 0 else np.int64(CORRUPT)
        elif which >= end - origin:
            return CORRUPT
        else:
            top, o = _write_item(is_bare, src, origin, origin + which, end, how, out, room, top, o)
        if o < 0:
            return o
    return o
