"""Text of the database's encoding as a client of another one gets it.

PostgreSQL: ``mbutils.c`` (pg_server_to_any). Between two encodings it is the server's own conversion; text of a
database whose encoding is SQL_ASCII is only checked to be such of the client's encoding. A client that asks for
SQL_ASCII, or for the database's encoding, gets the stored bytes. :mod:`headwater.rows._conversion` has the tree that
this is made into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError
from headwater.option_names import option, ways
from headwater.pg.conversions import conversion as conversion_map
from headwater.pg.encodings import CHARACTERS, SINGLE_BYTES, SQL_ASCII, byte_ranges, conversion_error
from headwater.rows import _conversion
from headwater.rows._conversion import LENGTH_BITS, NODE, PAIR_FIELDS, PAIRS, Conversion
from headwater.rows._text_codes import NEED_SPACE
from headwater.rows.items import TEXT, Cells, Messages

Int64s = NDArray[np.int64]

_AS_IT_IS = ~0
"""The entry of a character that stays as it is."""

_MOST_BYTES, _MOST_IN_PAIR = 4, 6
"""Of a character, and of two that become one."""

ENCODING_HINT = ways(f"{option('client-encoding')} names another encoding; SQL_ASCII gives the bytes of the database")

NO_CONVERSION = Conversion(np.zeros(0, np.int32), np.zeros(1, np.uint8), np.zeros((0, PAIR_FIELDS), np.int64))


@lru_cache(maxsize=4)
def make_conversion(database: str, client: str) -> Conversion:
    """Make the conversion from a database's encoding to a client's, NO_CONVERSION where text stays as it is.

    Raises:
        KeyError: there is none; no session has such a client.
    """
    if client in (database, SQL_ASCII):
        return NO_CONVERSION
    if database == SQL_ASCII:
        return Conversion(_checking_nodes(client), *NO_CONVERSION[1:])
    return _tree(*conversion_map(database, client))


def _checking_nodes(encoding: str) -> NDArray[np.int32]:
    """Make a tree in which every character of an encoding stays as it is."""
    nodes = [_first_node()]
    for kind in CHARACTERS.get(encoding, SINGLE_BYTES).split("; "):
        *firsts, last = (byte_ranges(part) for part in kind.split())
        _add_kind(nodes, 0, firsts, last)
    return np.concatenate(nodes)


def _first_node() -> NDArray[np.int32]:
    node = np.zeros(NODE, np.int32)
    node[1:0x80] = _AS_IT_IS
    return node


def _add_kind(nodes: list[NDArray[np.int32]], at: int, firsts: Sequence[Sequence[int]], last: Sequence[int]) -> None:
    """Add characters of one kind below a node."""
    if not firsts:
        nodes[at][last] = _AS_IT_IS
        return
    known = {int(nodes[at][byte]) // NODE for byte in firsts[0]} - {0}
    if not known:
        known.add(len(nodes))
        nodes.append(np.zeros(NODE, np.int32))
    (below,) = known  # kinds that begin with the same bytes do so with all of them
    nodes[at][firsts[0]] = below * NODE
    _add_kind(nodes, below, firsts[1:], last)


def _byte_counts(numbers: Int64s) -> Int64s:
    """Count the bytes that make each number."""
    counts = np.zeros(len(numbers), np.int64)
    for place in range(_MOST_IN_PAIR):
        counts += numbers >> 8 * place != 0
    return counts


def _left_bytes(numbers: Int64s, counts: Int64s, place: int) -> Int64s:
    """Return the byte at a place, counted from the first one."""
    shift = np.maximum(8 * (counts - 1 - place), 0)
    return numbers >> shift & 0xFF


def _tree(keys: Int64s, values: Int64s) -> Conversion:
    """Make the tree of a conversion, whose pairs of characters are made of more bytes than any character."""
    is_pair = keys >= 1 << 8 * _MOST_BYTES
    lengths = _byte_counts(values)
    offsets = np.cumsum(lengths) - lengths
    texts = np.zeros(int(lengths.sum()) + 1, np.uint8)
    for place in range(int(lengths.max(initial=0))):
        there = lengths > place
        texts[offsets[there] + place] = _left_bytes(values, lengths, place)[there]
    flags = offsets << LENGTH_BITS | lengths
    pairs, firsts = _pairs(keys[is_pair], ~flags[is_pair])
    flags |= np.where(np.isin(keys, firsts), PAIRS, 0)
    nodes = _nodes(keys[~is_pair], ~flags[~is_pair])
    pairs[:, _conversion.FIRST] = [_entry_of(nodes, int(first)) for first in firsts]
    return Conversion(nodes, texts, pairs)


def _pairs(keys: Int64s, entries: Int64s) -> tuple[Int64s, Int64s]:
    """Return pairs of characters of UTF8, whose first ones have yet to get their entry, and these first ones."""
    pairs, firsts = np.zeros((len(keys), PAIR_FIELDS), np.int64), np.zeros(len(keys), np.int64)
    for i, (key, entry) in enumerate(zip(keys.tolist(), entries.tolist(), strict=True)):
        first, second = (char.encode() for char in key.to_bytes((key.bit_length() + 7) // 8, "big").decode())
        firsts[i] = int.from_bytes(first, "big")
        pairs[i, 1:] = int.from_bytes(second, "big"), len(second), entry
    return pairs, firsts


def _nodes(keys: Int64s, entries: Int64s) -> NDArray[np.int32]:
    """Make nodes, level by level."""
    counts = _byte_counts(keys)
    nodes = _first_node()
    at = np.zeros(len(keys), np.int64)
    for place in range(int(counts.max(initial=0))):
        slots = at * NODE + _left_bytes(keys, counts, place)
        ends, goes_on = counts == place + 1, counts > place + 1
        nodes[slots[ends]] = entries[ends]
        new_slots, below = np.unique(slots[goes_on], return_inverse=True)
        first = len(nodes) // NODE
        nodes[new_slots] = (first + np.arange(len(new_slots))) * NODE
        nodes = np.concatenate([nodes, np.zeros(len(new_slots) * NODE, np.int32)])
        at = at.copy()
        at[goes_on] = first + below
    return nodes


def _entry_of(nodes: NDArray[np.int32], char: int) -> int:
    """Return the entry that a character has."""
    entry = 0
    for byte in char.to_bytes((char.bit_length() + 7) // 8, "big"):
        entry = int(nodes[entry + byte])
    return entry


class ConversionFailure(Exception):
    """A failure to send text to a client.

    Attributes:
        place: number of the text.
        found: the bytes from the character on that cannot be.
    """

    def __init__(self, place: int, rest: bytes) -> None:
        super().__init__(place, rest)
        self.place, self.found = place, rest


def converted_texts(
    conversion: Conversion, offsets: Int64s, data: NDArray[np.uint8]
) -> tuple[Int64s, NDArray[np.uint8]]:
    """Convert texts of the database to the client's encoding.

    Args:
        conversion: from the one to the other.
        offsets: int64[k+1] text i is ``data[offsets[i]:offsets[i+1]]``.
        data: uint8[].

    Returns:
        offsets and data.

    Raises:
        ConversionFailure: a text has a character that cannot be sent.
    """
    if len(conversion.nodes) == 0 or _is_ascii(data):
        return offsets, data
    new_offsets, state = np.zeros_like(offsets), np.zeros(1, np.int64)
    out = np.empty(len(data) + len(data) // 2 + 64, np.uint8)
    while status := _conversion.convert_texts(conversion, offsets, data, new_offsets, out, state):
        at = int(state[0])
        if status != NEED_SPACE:
            start = int(offsets[at]) + _conversion.REFUSES - int(status)
            raise ConversionFailure(at, data[start : int(offsets[at + 1])].tobytes())
        out = _grown(out, int(new_offsets[at]))
    return new_offsets, out[: new_offsets[-1]]


def converted_messages(messages: Messages, database: str, client: str) -> Messages:
    """Convert messages of text to the client's encoding.

    Raises:
        DecodingError: one has a character that cannot be sent; with its LSN.
    """
    try:
        offsets, data = converted_texts(make_conversion(database, client), messages.offsets, messages.data)
    except ConversionFailure as failure:
        raise refusal(database, client, failure.found, int(messages.lsn[failure.place])) from None
    return replace(messages, offsets=offsets, data=data)


def converted_text(database: str, client: str, text: bytes, lsn: int) -> bytes:
    """Convert a single text of a change at an LSN to the client's encoding.

    Raises:
        DecodingError: it has a character that cannot be sent.
    """
    offsets, data = np.array([0, len(text)], np.int64), np.frombuffer(bytearray(text), np.uint8)
    try:
        return converted_texts(make_conversion(database, client), offsets, data)[1].tobytes()
    except ConversionFailure as failure:
        raise refusal(database, client, failure.found, lsn) from None


def converted_cells(cells: Cells, conversion: Conversion) -> Cells:
    """Convert cells of text to the client's encoding; REFUSED where a character cannot be sent.

    Args:
        cells: whose texts lie without gaps, in their order; their kinds, offsets and lengths are replaced.
        conversion: to it.
    """
    if len(conversion.nodes) == 0 or not (cells.kind == TEXT).any() or _is_ascii(cells.text):
        return cells
    state = np.zeros(2, np.int64)
    out = np.empty(len(cells.text) + len(cells.text) // 2 + 64, np.uint8)
    while _conversion.convert_cells(conversion, cells.kind, cells.start, cells.length, cells.text, out, state):
        out = _grown(out, int(state[1]))
    return cells._replace(text=out[: state[1]])


def refusal(
    database: str, client: str, rest: bytes, lsn: int, place: str = "", hint: str = ENCODING_HINT
) -> DecodingError:
    """Return the error that text cannot be sent, in the server's words.

    Args:
        database: its encoding.
        client: the client's.
        rest: bytes from the character on that cannot be.
        lsn: of the change.
        place: where it stands; empty for an error without that.
        hint: what can be done.
    """
    message = conversion_error(database, client, rest)
    return DecodingError(f"{message}, needed for {place}" if place else message, lsn=lsn, hint=hint)


def _is_ascii(data: NDArray[np.uint8]) -> bool:
    """Tell whether all bytes stay as they are in any encoding; a zero byte is no text."""
    return len(data) == 0 or (int(data.max()) < 0x80 and int(data.min()) > 0)


def _grown(out: NDArray[np.uint8], used: int) -> NDArray[np.uint8]:
    """Return the same bytes in twice the room."""
    larger = np.empty(2 * len(out), np.uint8)
    larger[:used] = out[:used]
    return larger
