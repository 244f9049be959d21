"""Kernels that convert text between encodings, a character at a time.

The equivalents of characters lie in a tree. A node has an entry for each byte, which is the next node's number or,
where a character ends, what it becomes. Bytes that are no character, or one that has no equivalent, have no entry. A
run of ASCII is copied as it is. PostgreSQL: ``conv.c`` (UtfToLocal, LocalToUtf), ``wchar.c`` (pg_verify_mbstr).

Without a conversion the tree is empty, and nothing is looked at. Nothing is written past ``len(out)``, nothing read
outside the text, nothing raised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel, kernel
from headwater.rows._copy import copy, load_64
from headwater.rows._text_bytes import Bytes, Int, no_room
from headwater.rows._text_codes import NEED_SPACE
from headwater.rows.items import REFUSED, TEXT

NODE = 256
"""Entries of a node."""

REFUSES = -(1 << 40)
"""Statuses from here downwards: a character cannot be sent; ``REFUSES - status`` is its offset in the text."""

LENGTH_BITS, LENGTH, PAIRS = 4, 7, 8
"""An entry where a character ends is ``~(offset << LENGTH_BITS | flags)``: the offset in texts of what it becomes, that
one's length (0: it stays as it is), and PAIRS, if together with the next character it may become another thing."""

SHOWN = 8
"""Bytes of a text, from a character on that cannot be sent, that are enough to tell what is wrong."""

FIRST, SECOND, SECOND_SIZE, BECOMES, PAIR_FIELDS = 0, 1, 2, 3, 4
"""Fields of a pair: entry of the first character; the second one's bytes in a number, the first byte highest, and how
many they are; entry of what both become."""

_HIGHS, _LOWS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)


class Conversion(NamedTuple):
    """A conversion between two encodings.

    Attributes:
        nodes: int32[NODE * n] entries, node 0 first: a next node's number times NODE, 0 for none, or below 0 where a
            character ends. Empty: nothing is converted.
        texts: uint8[] the texts that characters become.
        pairs: int64[p, PAIR_FIELDS] characters that become another thing together.
    """

    nodes: NDArray[np.int32]
    texts: NDArray[np.uint8]
    pairs: NDArray[np.int64]


@inline_kernel
def _ascii_end(src: Bytes, at: Int, end: Int) -> Int:
    """Find the end of a run of bytes that stay as they are, eight at a time."""
    while at + 8 <= end:
        word = load_64(src, at)
        if word & _HIGHS != 0 or (word + _LOWS) & _HIGHS != _HIGHS:
            break
        at += 8
    return at


@borrowing_kernel
def _paired(conversion: Conversion, entry: Int, src: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Find the entry of a character and the one that follows at `at`, and the end of both; its own if none."""
    pairs = conversion.pairs
    for i in range(len(pairs)):
        size = pairs[i, SECOND_SIZE]
        if pairs[i, FIRST] != entry or at + size > end:
            continue
        number = np.int64(0)
        for k in range(size):
            number = number << 8 | np.int64(src[at + k])
        if number == pairs[i, SECOND]:
            return pairs[i, BECOMES], at + size
    return entry, at


@borrowing_kernel
def convert(conversion: Conversion, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a text in the other encoding.

    Args:
        conversion: which is one.
        src: uint8[] the text is ``src[start:start+length]``.
        start: where it begins.
        length: its bytes.
        out: uint8[] not where the text lies.
        o: where to write.

    Returns:
        The end in `out`, NEED_SPACE, or ``REFUSES - n`` for a character that cannot be sent, at the n-th byte.
    """
    at, end = start, start + length
    while at < end:
        if src[at] < 0x80:
            safe = _ascii_end(src, at, end)
            if no_room(out, o, safe - at + 1):
                return NEED_SPACE
            o = copy(src, at, out, o, safe - at)
            at = safe
            if at < end and 0 < src[at] < 0x80:
                out[o] = src[at]
                o += 1
                at += 1
                continue
            if at == end:
                break
        if no_room(out, o, 8):
            return NEED_SPACE
        entry, after = np.int64(0), at
        while after < end:
            entry = np.int64(conversion.nodes[entry + np.int64(src[after])])
            after += 1
            if entry <= 0:
                break
        if entry >= 0:
            return REFUSES - (at - start)
        if ~entry & PAIRS:
            entry, after = _paired(conversion, entry, src, after, end)
        size = ~entry & LENGTH
        if size == 0:
            o = copy(src, at, out, o, after - at)
        else:
            o = copy(conversion.texts, ~entry >> LENGTH_BITS, out, o, size)
        at = after
    return o


@borrowing_kernel
def show_refused(src: Bytes, start: Int, length: Int, status: Int, out: Bytes, o: Int) -> Int:
    """Write as many bytes as tell what is wrong with the text that a status is about; the end, or NEED_SPACE."""
    at = start + (REFUSES - status)
    size = min(np.int64(SHOWN), start + length - at)
    return NEED_SPACE if no_room(out, o, size) else copy(src, at, out, o, size)


@borrowing_kernel
def put_converted(conversion: Conversion, src: Bytes, start: Int, length: Int, out: Bytes, o: Int) -> Int:
    """Write a text in the other encoding, or as it is if there is no other.

    The same as :func:`convert`, but for a character that cannot be sent. Its length and its bytes are at ``out[o]``
    then, and the status is ``REFUSES - o``.
    """
    if len(conversion.nodes) == 0:
        return NEED_SPACE if no_room(out, o, length) else copy(src, start, out, o, length)
    end = convert(conversion, src, start, length, out, o)
    if end > REFUSES:
        return end
    if no_room(out, o, SHOWN + 1):
        return NEED_SPACE
    out[o] = show_refused(src, start, length, end, out, o + 1) - o - 1
    return REFUSES - o


@borrowing_kernel
def convert_printed(conversion: Conversion, out: Bytes, o: Int, end: Int) -> Int:
    """Convert the text printed at ``out[o:end]`` to the other encoding, in its place; as :func:`put_converted`."""
    if len(conversion.nodes) == 0 or _ascii_end(out, o, end) == end:
        return end
    tail = len(out) - (end - o)
    if o < 0 or tail < end:
        return NEED_SPACE
    copy(out, o, out, tail, end - o)
    return put_converted(conversion, out, tail, end - o, out[:tail], o)


@kernel
def convert_cells(
    conversion: Conversion,
    kinds: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    text: Bytes,
    out: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Convert cells of kind TEXT; others keep their bytes, at another place.

    Args:
        conversion: one that is not empty.
        kinds: uint8[m] of the cells; REFUSED where a character cannot be sent.
        starts: int64[m] offsets into text, made such into out.
        lengths: int32[m] likewise; of REFUSED as many bytes as tell what is wrong.
        text: uint8[] their bytes; without gaps, in the order of the cells.
        out: uint8[].
        state: int64[2] the next cell, the end in out; zeros for the first call.

    Returns:
        0, or NEED_SPACE: make out longer and call again.
    """
    o = state[1]
    for cell in range(state[0], len(kinds)):
        start, length = starts[cell], np.int64(lengths[cell])
        kind, end = kinds[cell], o
        if kind == TEXT:
            end = convert(conversion, text, start, length, out, o)
            if end <= REFUSES:
                kind, end = np.uint8(REFUSED), show_refused(text, start, length, end, out, o)
        elif length > 0:
            end = NEED_SPACE if no_room(out, o, length) else copy(text, start, out, o, length)
        if end < 0:
            state[0], state[1] = cell, o
            return NEED_SPACE
        kinds[cell], starts[cell], lengths[cell] = kind, o, end - o
        o = end
    state[0], state[1] = len(kinds), o
    return 0


@kernel
def convert_texts(
    conversion: Conversion,
    offsets: NDArray[np.int64],
    data: Bytes,
    new_offsets: NDArray[np.int64],
    out: Bytes,
    state: NDArray[np.int64],
) -> Int:
    """Convert texts that lie one after the other.

    Args:
        conversion: one that is not empty.
        offsets: int64[k+1] text i is ``data[offsets[i]:offsets[i+1]]``.
        data: uint8[].
        new_offsets: int64[k+1] where they are in out; its first element is 0.
        out: uint8[].
        state: int64[1] the next text, 0 for the first call.

    Returns:
        0; NEED_SPACE: make out longer and call again; or a status of :func:`convert` about text ``state[0]``.
    """
    for k in range(state[0], len(offsets) - 1):
        start = offsets[k]
        end = convert(conversion, data, start, offsets[k + 1] - start, out, new_offsets[k])
        if end < 0:
            state[0] = k
            return end
        new_offsets[k + 1] = end
    state[0] = len(offsets) - 1
    return 0
