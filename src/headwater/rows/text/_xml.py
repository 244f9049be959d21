"""Kernel for xml (PostgreSQL: ``xml.c`` xml_out, xml_send, parse_xml_decl, print_xml_decl).

The text is the stored one, but for its declaration: that goes if it says nothing else than version 1.0 and an
encoding, together with one line feed, and is made again otherwise. A declaration that cannot be read stays as it is, as
on the server (which warns). xml_send makes one that names the encoding, where that is not UTF-8.
"""

from __future__ import annotations

import numpy as np

from headwater.base.kernels import borrowing_kernel
from headwater.rows._text_bytes import Bytes, Int, no_room, write_verbatim
from headwater.rows._text_codes import CORRUPT, NEED_SPACE


def _literal(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8).copy()


_BEGIN, _END = _literal(b"<?xml"), _literal(b"?>")
_VERSION, _ENCODING, _STANDALONE = _literal(b"version"), _literal(b"encoding"), _literal(b"standalone")
_DEFAULT_VERSION = _literal(b"1.0")
_YES, _NO = _literal(b"yes"), _literal(b"no")
_PUT_VERSION, _PUT_STANDALONE = _literal(b'<?xml version="'), _literal(b' standalone="')
_PUT_ENCODING = _literal(b' encoding="')


@borrowing_kernel
def _matches(src: Bytes, at: Int, end: Int, word: Bytes) -> bool:
    if at + len(word) > end:
        return False
    i = 0
    while i < len(word) and src[at + i] == word[i]:
        i += 1
    return i == len(word)


@borrowing_kernel
def _skip_space(src: Bytes, at: Int, end: Int) -> Int:
    while at < end and src[at] in (32, 9, 10, 13):
        at += 1
    return at


@borrowing_kernel
def _attribute(src: Bytes, at: Int, end: Int, name: Bytes) -> tuple[Int, Int, Int]:
    """Find ``name="value"`` after space: (its end, where the value begins and ends).

    The first is `at` itself if another name stands there, and CORRUPT if this one has no value.
    """
    begin = _skip_space(src, at, end)
    if not _matches(src, begin, end, name):
        return at, at, at
    if begin == at:
        return CORRUPT, at, at
    begin = _skip_space(src, begin + len(name), end)
    if begin >= end or src[begin] != 61:
        return CORRUPT, at, at
    begin = _skip_space(src, begin + 1, end)
    if begin >= end or src[begin] not in (34, 39):
        return CORRUPT, at, at
    close = begin + 1
    while close < end and src[close] != src[begin]:
        close += 1
    if close >= end:
        return CORRUPT, at, at
    return close + 1, begin + 1, close


@borrowing_kernel
def _equals(src: Bytes, begin: Int, end: Int, word: Bytes) -> bool:
    return end - begin == len(word) and _matches(src, begin, end, word)


@borrowing_kernel
def _is_name_byte(byte: Int) -> bool:
    """Tell whether a name may go on with a character that begins so."""
    return byte > 127 or 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122 or byte in (45, 46, 95, 58)


@borrowing_kernel
def _declaration(src: Bytes, start: Int, end: Int) -> tuple[Int, Int, Int, Int]:
    """Read the declaration.

    Returns (where what follows the declaration begins, or CORRUPT; where the version begins and ends; 1 yes, 0 no, -1).
    """
    at = start
    if not _matches(src, at, end, _BEGIN) or (at + 5 < end and _is_name_byte(np.int64(src[at + 5]))):
        return start, start, start, -1
    at, low, high = _attribute(src, at + len(_BEGIN), end, _VERSION)
    if low == high == at or at < 0:
        return CORRUPT, start, start, -1
    at, _, _ = _attribute(src, at, end, _ENCODING)
    standalone = -1
    if at >= 0:
        after, begin, close = _attribute(src, at, end, _STANDALONE)
        if after > at:
            standalone = 1 if _equals(src, begin, close, _YES) else 0
            if standalone == 0 and not _equals(src, begin, close, _NO):
                return CORRUPT, start, start, -1
        at = after
    if at < 0:
        return CORRUPT, start, start, -1
    at = _skip_space(src, at, end)
    if not _matches(src, at, end, _END):
        return CORRUPT, start, start, -1
    for i in range(start, at):
        if src[i] > 127:
            return CORRUPT, start, start, -1
    return at + len(_END), low, high, standalone


@borrowing_kernel
def _put(text: Bytes, begin: Int, end: Int, out: Bytes, o: Int) -> Int:
    return write_verbatim(text, begin, end - begin, out, o) if o >= 0 else o


@borrowing_kernel
def _put_attribute(name: Bytes, value: Bytes, out: Bytes, o: Int) -> Int:
    """Write an attribute after another one, whose closing quote it puts before; its own is left out."""
    if o < 0 or no_room(out, o, 1):
        return NEED_SPACE
    out[o] = 34
    o = _put(name, 0, len(name), out, o + 1)
    return _put(value, 0, len(value), out, o)


@borrowing_kernel
def write_xml(encoding: Bytes, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a document or a fragment (xml_out; xml_send with the name of an encoding to be stated, else empty)."""
    if start < 0:
        return CORRUPT
    end = start + length
    at, low, high, standalone = _declaration(src, start, end)
    if at < 0:
        return write_verbatim(src, start, length, out, o)
    has_version = high > low or at > start
    if len(encoding) > 0 or standalone >= 0 or (has_version and not _equals(src, low, high, _DEFAULT_VERSION)):
        o = _put(_PUT_VERSION, 0, len(_PUT_VERSION), out, o)
        if has_version:
            o = _put(src, low, high, out, o)
        else:
            o = _put(_DEFAULT_VERSION, 0, len(_DEFAULT_VERSION), out, o)
        if len(encoding) > 0:
            o = _put_attribute(_PUT_ENCODING, encoding, out, o)
        if standalone >= 0:
            o = _put_attribute(_PUT_STANDALONE, _YES if standalone == 1 else _NO, out, o)
        if o < 0 or no_room(out, o, 3):
            return NEED_SPACE
        out[o] = 34
        o = _put(_END, 0, len(_END), out, o + 1)
    elif at < end and src[at] == 10:
        at += 1
    return _put(src, at, end, out, o)
