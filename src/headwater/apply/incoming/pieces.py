"""Pieces of a slot's stream, taken apart into messages of pgoutput."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from headwater.remote_slots.slot_feed import Piece

_HEADER = struct.Struct(">IcQQQ")


def messages_of(piece: Piece) -> Iterator[tuple[bytes, int]]:
    """Give the messages of a piece, each with the LSN that it was sent with."""
    data, at = piece.data, 0
    while at < len(data):
        size, _kind, lsn, _end, _time = _HEADER.unpack_from(data, at)
        yield data[at + _HEADER.size : at + 4 + size], lsn
        at += 4 + size
