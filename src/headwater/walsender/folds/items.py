"""The things that a stream is made of, in the order in which they are sent or heeded."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.protocol.copy_frames import Piece
from headwater.slots.kept_state import KeptState


@dataclass(frozen=True)
class Reached:
    """The end of a window: all before its state has been given."""

    kept: KeptState


@dataclass(frozen=True)
class TimelineEnd:
    """The end of a timeline, all of which has been given."""


Item = Piece | Reached | TimelineEnd | HeadwaterError
