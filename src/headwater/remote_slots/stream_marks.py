"""The places where transactions begin and end in a slot's stream, and the server's signs of life in it.

In: frames as they came. Out: flat arrays; nothing is made for each message.

PostgreSQL: proto.c (logicalrep_write_begin, logicalrep_write_commit and its kin), walsender.c (WalSndKeepalive).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headwater.remote_slots import _message_parts as _m

Int64s = NDArray[np.int64]

_END_AT = {
    _m.COMMIT: 1 + 1 + 8,
    _m.PREPARE: 1 + 1 + 8,
    _m.COMMIT_PREPARED: 1 + 1 + 8,
    _m.ROLLBACK_PREPARED: 1 + 1 + 8,
    _m.STREAM_PREPARE: 1 + 1 + 8,
    _m.STREAM_COMMIT: 1 + 4 + 1 + 8,
}
"""Messages that end a transaction, or what else moves the place of a slot; and where END is in each."""
_ENDS = np.array(list(_END_AT), np.uint8)
_BEGINS = np.array([_m.BEGIN, _m.BEGIN_PREPARE, _m.STREAM_START], np.uint8)
_WITHOUT_LSN = (_m.KEEPALIVE, _m.BEGIN_PREPARE, _m.STREAM_START, _m.STREAM_STOP)
_FIELDS = np.full(256, -1, np.int64)
_FIELDS[[*_END_AT, _m.BEGIN, *_WITHOUT_LSN]] = [*_END_AT.values(), 1, *(0 for _ in _WITHOUT_LSN)]
"""int64[256] where the LSN is in a message that is a mark, by its letter; see :func:`_message_parts.mark_frames`."""


@dataclass(frozen=True)
class Marks:
    """Beginnings and ends of transactions, k of them, in their order.

    Attributes:
        at: int64[k] bytes of the stream before a beginning, or up to an end.
        lsn: int64[k] START of the commit record at a beginning; at an end how far the stream has come with it.
        is_end: bool[k] which of both.
    """

    at: Int64s
    lsn: Int64s
    is_end: NDArray[np.bool_]

    @classmethod
    def none(cls) -> Self:
        """Return no marks."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))

    def joined(self, later: Marks) -> Marks:
        """Return these, and later ones."""
        if not len(later.at):
            return self
        at, lsn = np.concatenate((self.at, later.at)), np.concatenate((self.lsn, later.lsn))
        return Marks(at, lsn, np.concatenate((self.is_end, later.is_end)))

    def behind(self, number: int) -> Marks:
        """Return those from a number on."""
        return Marks(self.at[number:], self.lsn[number:], self.is_end[number:])


@dataclass(frozen=True)
class FrameMarks:
    """The marks of some frames, and signs of life among them, k together.

    Attributes:
        kind: uint8[k] letters; at, end: int64[k] where the frame of each lies; lsn: int64[k] that it has, 0 for none.
        last: where the last frame is that is no sign of life, -1 for none.
    """

    kind: NDArray[np.uint8]
    at: Int64s
    end: Int64s
    lsn: Int64s
    last: int

    @property
    def signs(self) -> list[tuple[int, int]]:
        """Where the signs of life lie."""
        chosen = self.kind == _m.KEEPALIVE
        return list(zip(self.at[chosen].tolist(), self.end[chosen].tolist(), strict=True))

    def is_inside(self, before: bool) -> bool:
        """Tell whether a transaction or a block runs behind the last frame, if one did or not before the first."""
        states = self._states(before)
        return bool(states[-1]) if len(states) else before

    def reached(self, ends: Sequence[int], is_inside: bool, reached: int) -> Int64s:
        """Return int64[k+1]: how far the stream has come, before the first mark, and behind each.

        Args:
            ends: how far the server was by each sign of life: that is how far the stream is, outside of transactions.
            is_inside, reached: as of before.
        """
        values = np.where(np.isin(self.kind, _ENDS), self.lsn, 0)
        signs = self.kind == _m.KEEPALIVE
        values[signs] = np.where(self._states(is_inside)[signs], 0, np.array(ends, np.int64))
        return np.maximum.accumulate(np.concatenate(([reached], values)))

    def kept(self, reached: Int64s, begin: int) -> Marks:
        """Return the beginnings and ends of transactions.

        Args:
            reached: see :meth:`reached`; begin: bytes of the stream before these frames, without signs of life.
        """
        signs = self.kind == _m.KEEPALIVE
        shift = begin - np.cumsum(np.where(signs, self.end - self.at, 0))
        is_end = np.isin(self.kind, _ENDS)
        chosen = is_end | (self.kind == _m.BEGIN)
        at = np.where(is_end, self.end, self.at) + shift
        return Marks(at[chosen], np.where(is_end, reached[1:], self.lsn)[chosen], is_end[chosen])

    def without_signs(self, frames: bytes) -> bytes:
        """Return the frames but for signs of life."""
        signs = self.signs
        if not signs:
            return frames
        cuts = [0, *(place for sign in signs for place in sign), len(frames)]
        view = memoryview(frames)
        return b"".join(view[start:end] for start, end in list(pairwise(cuts))[::2])

    def _states(self, before: bool) -> NDArray[np.bool_]:
        """Tell whether a transaction or a block runs behind each mark."""
        begins, signs = np.isin(self.kind, _BEGINS), self.kind == _m.KEEPALIVE
        # A sign of life changes nothing: the last mark before it holds.
        numbers = np.maximum.accumulate(np.where(signs, 0, np.arange(1, len(self.kind) + 1)))
        return np.concatenate(([before], begins))[numbers]


def marks_of(frames: bytes) -> FrameMarks:
    """Find the marks of frames, which are whole."""
    data = np.frombuffer(frames, np.uint8)
    room = len(data) // _m.LEAST_BYTES
    kind, places = np.empty(room, np.uint8), [np.empty(room, np.int64) for _ in range(3)]
    count, last = _m.mark_frames(data, _FIELDS, kind, *places)
    # What is kept is small beside the room.
    at, end, lsn = (place[:count].copy() for place in places)
    return FrameMarks(kind[:count].copy(), at, end, lsn, int(last))
