"""Kernel of debezium for values, from the text of any column's value to the JSON of Kafka Connect's converter.

Mirrors ``PostgresValueConverter``, ``AbstractColumnValue`` and ``HStoreConverter`` of Debezium's PostgreSQL connector
and ``JsonConverter`` of Kafka Connect. Floating-point numbers are the server's shortest text; a ``double`` that stands
for a numeric has all its digits: parsed, it is the connector's.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.plugins._json import NO_ROOM, put_string, put_text
from headwater.plugins.debezium._geometry import put_geometry, put_point, put_sparse_vector, put_vector
from headwater.plugins.debezium._numbers import (
    MINUS,
    NO_VALUE,
    POINT,
    QUOTE,
    UNTELLABLE,
    is_number,
    plain_money,
    put_bits,
    put_double,
    put_hex_as_base64,
    put_quoted,
    put_scaled,
    put_unscaled,
    room_for,
    shortest_scale,
)
from headwater.plugins.debezium._times import (
    AS_ISO,
    put_date,
    put_interval,
    put_signed,
    put_time,
    put_timestamp,
    put_timestamptz,
    put_timetz,
)
from headwater.rows._copy import copy
from headwater.rows._text_bytes import Bytes, Int

AS_IS, FLOAT, BOOLEAN, STRING, BYTES, HEX_BYTES, BITS, BIT = 0, 1, 2, 3, 4, 5, 6, 7
"""Styles: bare; a floating-point number or NaN and the like; a boolean; a string; bytea in Base64 (URL-safe if the
parameter is not 0), bytea in hexadecimal digits; bit strings, and one bit."""

DECIMAL, VARIABLE_DECIMAL, DOUBLE_DECIMAL, TEXT_DECIMAL = 8, 9, 10, 11
"""Styles of numerics: of the parameter's scale, of their own, as numbers, as strings of a scale (below 0: as is)."""

MONEY, DOUBLE_MONEY, TEXT_MONEY = 12, 13, 14
"""Styles of amounts of money: as a decimal of the parameter's scale, as a number, as a string."""

DATE, TIME, TIMETZ, TIMESTAMP, TIMESTAMPTZ, INTERVAL = 15, 16, 17, 18, 19, 20
"""Styles of dates and times.

The parameter is the form, of timestamptz the digits of a second's fraction, of intervals ISO or not.
"""

HSTORE_JSON, HSTORE_MAP, NOTHING = 21, 22, 23
"""Styles of hstore: as a string of JSON or as an object; and a style whose values are never shown."""

COORDINATES, GEOMETRY, VECTOR, SPARSE_VECTOR = 24, 25, 26, 27
"""Styles of a point, EWKB of PostGIS, vectors of pgvector."""

ARRAY, STRICT_ARRAY, _DELIMITER_BITS = 32, 64, 8
"""Flags that are added to the style of an array's elements; with STRICT_ARRAY no element may be NULL.

The bits from _DELIMITER_BITS on are the delimiter between elements.
"""

_OPEN, _CLOSE, _COMMA, _BACKSLASH, _LETTER_N = 0x7B, 0x7D, 0x2C, 0x5C, 0x4E


def array_style(element: int, is_strict: bool, delimiter: int) -> int:
    """Return the style of an array, below 2**16.

    Args:
        element: the style of its elements.
        is_strict: no element may be NULL.
        delimiter: the byte between two elements, ``typdelim``.
    """
    return element | ARRAY | (STRICT_ARRAY if is_strict else 0) | delimiter << _DELIMITER_BITS


NULL_TEXT = np.frombuffer(b"null", np.uint8).copy()
TRUE_TEXT = np.frombuffer(b"true", np.uint8).copy()
FALSE_TEXT = np.frombuffer(b"false", np.uint8).copy()
INFINITY_TEXT = np.frombuffer(b'"NEGATIVE_INFINITY"', np.uint8).copy()
POSITIVE_TEXT = np.frombuffer(b'"POSITIVE_INFINITY"', np.uint8).copy()
INFINITE_TEXT = np.frombuffer(b'"-Infinity"', np.uint8).copy()
LARGEST_TEXT = np.frombuffer(b"179769313486231580793728971405303", np.uint8).copy()
LARGEST_DIGITS = 309
NAN_TEXT = np.frombuffer(b'"NAN"', np.uint8).copy()
SCALE_TEXT = np.frombuffer(b'{"scale":', np.uint8).copy()
VALUE_TEXT = np.frombuffer(b',"value":', np.uint8).copy()


@inline_kernel
def _put_word(word: Bytes, out: Bytes, o: Int) -> Int:
    return copy(word, 0, out, o, len(word))


@inline_kernel
def _is_infinite(src: Bytes, start: Int, length: Int) -> Int:
    """Tell whether a number without an exponent is too large for a double: 1.797693134862315807937e308 or more."""
    at, end = start, start + length
    at += src[at] == MINUS
    digits = 0
    while at + digits < end and src[at + digits] != POINT:
        digits += 1
    if digits != LARGEST_DIGITS:
        return digits > LARGEST_DIGITS
    same = 0
    while same < len(LARGEST_TEXT) - 1 and src[at + same] == LARGEST_TEXT[same]:
        same += 1
    return src[at + same] > LARGEST_TEXT[same]


@borrowing_kernel
def _put_special(src: Bytes, start: Int, out: Bytes, o: Int) -> Int:
    """Write the connector's word for a numeric that is NaN or an infinity."""
    if src[start] == MINUS:
        return _put_word(INFINITY_TEXT, out, o)
    return _put_word(NAN_TEXT if src[start] == _LETTER_N else POSITIVE_TEXT, out, o)


@inline_kernel
def _put_infinite(src: Bytes, start: Int, out: Bytes, o: Int) -> Int:
    """Write the infinity that a number too large for a double becomes."""
    skipped = 0 if src[start] == MINUS else 1
    out[o] = QUOTE
    return copy(INFINITE_TEXT, 1 + skipped, out, o + 1, len(INFINITE_TEXT) - 1 - skipped)


@borrowing_kernel
def _put_variable_decimal(src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    scale = shortest_scale(src, start, length)
    o = put_signed(scale, out, _put_word(SCALE_TEXT, out, o))
    o = put_unscaled(src, start, length, scale, out, _put_word(VALUE_TEXT, out, o))
    out[o] = _CLOSE
    return o + 1


@borrowing_kernel
def _put_numeric(style: Int, scale: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    if style == DOUBLE_DECIMAL:
        if is_number(src, start, length) and _is_infinite(src, start, length):
            return _put_infinite(src, start, out, o)
        return put_double(src, start, length, out, o)
    if not is_number(src, start, length):
        return _put_special(src, start, out, o) if style == TEXT_DECIMAL else np.int64(NO_VALUE)
    if style == VARIABLE_DECIMAL:
        return _put_variable_decimal(src, start, length, out, o)
    if style == DECIMAL:
        return put_unscaled(src, start, length, scale, out, o)
    out[o] = QUOTE
    o = put_scaled(src, start, length, scale, out, o + 1)
    out[o] = QUOTE
    return o + 1


@borrowing_kernel
def _put_money(style: Int, scale: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    raw = o + 12 * (length + scale) + 256
    end = plain_money(src, start, length, out, raw)
    if end < 0:
        return end
    if style == MONEY:
        return put_unscaled(out, raw, end - raw, scale, out, o)
    if style == DOUBLE_MONEY:
        return put_double(out, raw, end - raw, out, o)
    return put_quoted(out, raw, end - raw, out, o)


@borrowing_kernel
def _put_hstore(style: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write pairs ``"a"=>"1", "b"=>NULL`` as an object, or as a string of that, which is first made further on."""
    at, end = start, start + length
    place = o + 8 * length + 64 if style == HSTORE_JSON else o
    at_end = _put_pairs(src, at, end, out, place)
    return put_string(out, place, at_end, out, o) if style == HSTORE_JSON else at_end


@borrowing_kernel
def _put_pairs(src: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    out[o] = _OPEN
    o += 1
    while at < end:
        if src[at] == QUOTE:
            after = _quoted_end(src, at, end)
            raw = o + 7 * (after - at) + 16
            o = put_string(out, raw, _unescape(src, at + 1, after - 1, out, raw), out, o)
            at = after
        elif src[at] == _LETTER_N:
            o = _put_word(NULL_TEXT, out, o)
            at += 4
        elif src[at] == 0x3D:
            out[o] = 0x3A
            o += 1
            at += 2
        else:
            if src[at] == _COMMA:
                out[o] = _COMMA
                o += 1
            at += 1
    out[o] = _CLOSE
    return o + 1


@inline_kernel
def _quoted_end(src: Bytes, at: Int, end: Int) -> Int:
    """Find where a quoted text ends that begins here, its quotes included."""
    at += 1
    while at < end and src[at] != QUOTE:
        at += 2 if src[at] == _BACKSLASH else 1
    return min(at + 1, end)


@inline_kernel
def _unescape(src: Bytes, at: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Write a text without the backslashes that escape other characters; return its end."""
    while at < end:
        if src[at] == _BACKSLASH and at + 1 < end:
            at += 1
        out[o] = src[at]
        at += 1
        o += 1
    return o


@borrowing_kernel
def _put_place(style: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a point, geometry or vector."""
    if style == COORDINATES:
        return put_point(src, start, length, out, o)
    if style == GEOMETRY:
        return put_geometry(src, start, length, out, o)
    if style == VECTOR:
        return put_vector(src, start, length, out, o)
    if style == SPARSE_VECTOR:
        return put_sparse_vector(src, start, length, out, o)
    return NO_VALUE


@borrowing_kernel
def put_scalar(style: Int, parameter: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write one value that is not an array.

    Args:
        style: AS_IS and so on.
        parameter: the parameter of the style.
        src: uint8[] the text is ``src[start:start+length]``.
        start: where the text begins.
        length: bytes of the text.
        out: uint8[] where the value is written; `src` may be the same array, if the text lies at its very end.
        o: where in `out` the value goes.

    Returns:
        The end, or NO_ROOM, UNTELLABLE, or NO_VALUE.
    """
    if o + room_for(length, parameter) > len(out):
        return NO_ROOM
    if style == AS_IS:
        return copy(src, start, out, o, length)
    if style == STRING:
        return put_string(src, start, start + length, out, o)
    if style == FLOAT:
        return put_double(src, start, length, out, o)
    if style in (BOOLEAN, BIT):
        return _put_word(TRUE_TEXT if length > 0 and src[start] in (0x74, 0x31) else FALSE_TEXT, out, o)
    if style == BYTES:
        return put_hex_as_base64(src, start + 2, start + length, parameter, out, o)
    if style == HEX_BYTES:
        return put_quoted(src, start + 2, length - 2, out, o)
    if style == BITS:
        return put_bits(src, start, length, out, o)
    if DECIMAL <= style <= TEXT_DECIMAL:
        return _put_numeric(style, parameter, src, start, length, out, o)
    if MONEY <= style <= TEXT_MONEY:
        return _put_money(style, parameter, src, start, length, out, o)
    if style == DATE:
        return put_date(src, start, length, parameter, out, o)
    if style == TIME:
        return put_time(src, start, length, parameter, out, o)
    if style == TIMETZ:
        return put_timetz(src, start, length, out, o)
    if style == TIMESTAMP:
        return put_timestamp(src, start, length, parameter, out, o)
    if style == TIMESTAMPTZ:
        return put_timestamptz(src, start, length, parameter, out, o)
    if style == INTERVAL:
        return put_interval(src, start, length, np.int64(parameter == AS_ISO), out, o)
    if style in (HSTORE_JSON, HSTORE_MAP):
        return _put_hstore(style, src, start, length, out, o)
    return _put_place(style, src, start, length, out, o)


@inline_kernel
def _element_end(delimiter: Int, src: Bytes, at: Int, end: Int) -> Int:
    """Find where an array's element ends that begins here: at the delimiter, or the closing brace."""
    if src[at] == QUOTE:
        return _quoted_end(src, at, end)
    depth = np.int64(0)
    while at < end and (depth > 0 or (src[at] != delimiter and src[at] != _CLOSE)):
        if src[at] == QUOTE:
            at = _quoted_end(src, at, end)
            continue
        depth += np.int64(src[at] == _OPEN) - np.int64(src[at] == _CLOSE)
        at += 1
    return at


@borrowing_kernel
def _put_element(style: Int, parameter: Int, src: Bytes, at: Int, after: Int, out: Bytes, o: Int) -> Int:
    """Write an array's element; a nested array gives NO_VALUE, as in the connector, or UNTELLABLE among strings."""
    is_quoted = src[at] == QUOTE
    if src[at] == _OPEN:
        return NO_VALUE if style != STRING else UNTELLABLE
    if not is_quoted and after - at == 4 and src[at] | 0x20 == 0x6E and src[at + 1] | 0x20 == 0x75:
        return NO_VALUE
    first, last = at + is_quoted, after - is_quoted
    raw = len(out) - (last - first)
    if o + room_for(last - first, parameter) > raw:
        return NO_ROOM
    end = _unescape(src, first, last, out, raw)
    return put_scalar(style, parameter, out, raw, end - raw, out, o)


@borrowing_kernel
def _put_array(style: Int, parameter: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    element, delimiter, at, end = style & (ARRAY - 1), style >> _DELIMITER_BITS, start, start + length
    while at < end and src[at] != _OPEN:
        at += 1
    if o + 2 > len(out):
        return NO_ROOM
    out[o] = 0x5B
    o += 1
    at += 1
    while at < end and src[at] != _CLOSE:
        after = _element_end(delimiter, src, at, end)
        done = _put_element(element, parameter, src, at, after, out, o)
        if done == NO_VALUE and not style & STRICT_ARRAY:
            done = put_text(NULL_TEXT, 0, 4, out, o)
        if done < 0:
            return done
        if done + 1 >= len(out):
            return NO_ROOM
        o, at = done, after
        if at < end and src[at] == delimiter:
            out[o] = _COMMA
            o += 1
            at += 1
    out[o] = 0x5D
    return o + 1


@inline_kernel
def put_value(style: Int, parameter: Int, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a value of a column; see :func:`put_scalar`."""
    if style & ARRAY:
        return _put_array(style, parameter, src, start, length, out, o)
    return put_scalar(style, parameter, src, start, length, out, o)
