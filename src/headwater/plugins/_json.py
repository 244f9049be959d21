"""Kernels that write JSON: ready-made text, and strings, eight bytes at a time where nothing is escaped.

Mirrors ``escape_json`` of json.c.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.rows._copy import copy, load_64, store_64
from headwater.rows._text_bytes import Bytes, Int

NO_ROOM = -1
"""What a kernel returns instead of the end of what it wrote when there might not be room."""

QUOTE, BACKSLASH = 0x22, 0x5C

_LOWS, _HIGHS = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (QUOTE, BACKSLASH, 0x60))
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8).copy()

ESCAPE_TEXT = np.frombuffer(b"\\u00", np.uint8).copy()

_ESCAPED = np.zeros(256, np.uint8)
_ESCAPED[:0x20] = 1
for _byte, _letter in ((8, b"b"), (12, b"f"), (10, b"n"), (13, b"r"), (9, b"t"), (QUOTE, b'"'), (BACKSLASH, b"\\")):
    _ESCAPED[_byte] = _letter[0]


@inline_kernel
def put_text(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Copy ``src[start:end]``; the end, or NO_ROOM, or an `o` that is one of these already."""
    if o < 0:
        return o
    return copy(src, start, out, o, end - start) if o + end - start <= len(out) else NO_ROOM


@inline_kernel
def _has_escapes(word: Int) -> Int:
    """Tell whether one of eight bytes is a quote, a backslash, or below a blank."""
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    plain = ((quotes & _LOWS) + _LOWS | quotes) & ((backslashes & _LOWS) + _LOWS | backslashes)
    plain &= (word & _LOWS) + _BLANKS | word
    return plain & _HIGHS != _HIGHS


@borrowing_kernel
def put_string(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Write ``src[start:end]`` as a JSON string (escape_json), eight bytes at a time where nothing is escaped.

    Returns:
        The end, or NO_ROOM when there might not be room.
    """
    if o + end - start + 2 > len(out):
        return NO_ROOM
    out[o] = QUOTE
    o += 1
    at = start
    while at < end:
        # What is left fits as it is, with a quote after it; only escapes must ask.
        while end - at >= 8 and not _has_escapes(load_64(src, at)):
            store_64(out, o, load_64(src, at))
            at += 8
            o += 8
        if at == end:
            break
        byte = src[at]
        at += 1
        letter = _ESCAPED[byte]
        if letter == 0:
            out[o] = byte
            o += 1
            continue
        if o + 6 + end - at + 1 > len(out):
            return NO_ROOM
        if letter > 1:
            out[o] = BACKSLASH
            out[o + 1] = letter
            o += 2
        else:
            o = copy(ESCAPE_TEXT, 0, out, o, 4)
            out[o] = _DIGITS[byte >> 4]
            out[o + 1] = _DIGITS[byte & 15]
            o += 2
    out[o] = QUOTE
    return o + 1
