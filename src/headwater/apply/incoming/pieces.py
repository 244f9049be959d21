"""Pieces of a slot's stream, taken apart into messages of pgoutput."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwater.remote_slots.framed_messages import find_messages
from headwater.remote_slots.slot_feed import Piece


def messages_of(piece: Piece) -> Iterator[tuple[bytes, int]]:
    """Give the messages of a piece, each with the LSN that it was sent with."""
    messages = find_messages(np.frombuffer(piece.data, np.uint8))
    for start, end, lsn in zip(messages.start.tolist(), messages.end.tolist(), messages.lsn.tolist(), strict=True):
        yield piece.data[start:end], lsn
