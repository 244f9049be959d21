"""Messages of pgoutput in one buffer, found and taken apart into flat arrays, for who makes something else of them.

In: messages one after the other, framed as a slot's feed gives them. Out: where they lie; cells of their tuples.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError
from headwater.remote_slots import _message_parts as _m

HEADER_BYTES = _m.HEADER_BYTES
BEGIN, COMMIT, RELATION, TYPE = _m.BEGIN, _m.COMMIT, _m.RELATION, _m.TYPE
"""First bytes of messages."""

Int64s = NDArray[np.int64]
Cells = tuple[NDArray[np.uint8], Int64s, NDArray[np.int32]]
"""Kinds, as of ``rows/items.py``; where values start in the buffer; their lengths."""


class Found(NamedTuple):
    """Messages in a buffer, k of them.

    Attributes:
        kind: uint8[k] the first byte of each; start, end: int64[k] where it lies; lsn: int64[k] that it was sent with.
    """

    kind: NDArray[np.uint8]
    start: Int64s
    end: Int64s
    lsn: Int64s


class Changes(NamedTuple):
    """Inserts, updates and deletes, n of them.

    Attributes:
        kind: uint8[n] as of ``rows/items.py``; version: int32[n] the relation's number.
        new, old: int64[n] the first cells of the new and the old tuple, -1 for none.
        cells: of all tuples.
    """

    kind: NDArray[np.uint8]
    version: NDArray[np.int32]
    new: Int64s
    old: Int64s
    cells: Cells


_HEADER = struct.Struct(">cIcQQq")


def frame(data: bytes, lsn: int) -> bytes:
    """Frame a message that was sent with an LSN."""
    return _HEADER.pack(b"d", HEADER_BYTES - 1 + len(data), b"w", lsn, lsn, 0) + data


def whole_bytes(data: NDArray[np.uint8]) -> int:
    """Return where the last whole message of a buffer ends, which a part of another may follow."""
    return int(_m.whole_bytes(data))


def find_messages(data: NDArray[np.uint8]) -> Found:
    """Find the messages in a buffer.

    Raises:
        DecodingError: they are not whole.
    """
    count = int(_m.count_messages(data))
    if count < 0:
        raise DecodingError("a piece of a slot's stream is not made of whole messages")
    messages = Found(np.empty(count, np.uint8), *(np.empty(count, np.int64) for _ in range(3)))
    _m.find_messages(data, messages.kind, messages.start, messages.end, messages.lsn)
    return messages


def take_changes(data: NDArray[np.uint8], messages: Found, oids: Int64s, natts: NDArray[np.int32]) -> Changes:
    """Take changes apart, among which no relation is announced.

    Args:
        data: uint8[]; messages: in it.
        oids: int64[v] the relations, ascending; natts: int32[v] how many columns of each are sent.

    Raises:
        DecodingError: a message is malformed, or of another relation.
    """
    versions = np.arange(len(oids), dtype=np.int32)
    none, places = np.full(len(messages.kind), -1, np.int32), [np.arange(count, dtype=np.int32) for count in natts]
    begins = np.cumsum(np.concatenate([[0], natts])).astype(np.int32)
    shapes = begins, natts, natts, np.concatenate([np.empty(0, np.int32), *places])
    lying = messages.kind, messages.start, messages.end
    used = np.zeros(len(oids), np.bool_)
    wrong, room = _m.count_cells(data, lying, none, (oids, versions.copy()), natts, used)
    if wrong != _m.DONE:
        raise DecodingError("a slot has a change that was not announced", lsn=int(messages.lsn[wrong]))
    cells = np.empty(room, np.uint8), np.empty(room, np.int64), np.empty(room, np.int32)
    count = len(messages.kind)
    items = (
        *(np.empty(count, np.uint8), np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.int32)),
        *(np.empty(count, np.uint8), np.empty(count, np.int64), np.empty(count, np.int64)),
    )
    wrong, made, _ = _m.take_changes(
        data, (*lying, messages.lsn), none, (oids, versions), shapes, none, none, items, cells, True
    )
    if wrong != _m.DONE:
        raise DecodingError("a slot's change is malformed", lsn=int(messages.lsn[wrong]))
    return Changes(items[0][:made], items[3][:made], items[5][:made], items[6][:made], cells)
