"""Records in outline, and those of them that are chosen: for listings and statistics of all that is in the WAL.

In: framed records and a choice. Out: flat arrays of what their headers say; the chosen records parsed, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.rmgr import _outline as k
from headwater.rmgr._outline import Outline
from headwater.rmgr.header_slots import header_scratch
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import Record, parse_record

__all__ = ["EVERY_RECORD", "Outline", "RecordChoice", "chosen_records", "outline"]


@dataclass(frozen=True)
class RecordChoice:
    """The records that are wanted; each part narrows the choice.

    Attributes:
        start: wanted records start there or later; end: wanted records are whole before it, None for no end.
        managers: ids of resource managers, empty for all.
        xid: ``xl_xid``, None for all.
        relation: (tablespace, database, file number) that a block lies in; block: its number; fork: its fork's number;
            all of one and the same block. None for any.
        has_image: whether a record must have a page image.
    """

    start: int = 0
    end: int | None = None
    managers: frozenset[int] = frozenset()
    xid: int | None = None
    relation: tuple[int, int, int] | None = None
    block: int | None = None
    fork: int | None = None
    has_image: bool = False

    @property
    def _blocks(self) -> k.ChosenBlocks:
        tablespace, database, number = self.relation or (0, 0, 0)
        return k.ChosenBlocks(
            tablespace,
            database,
            number,
            -1 if self.block is None else self.block,
            -1 if self.fork is None else self.fork,
            is_any=self.relation is None and self.block is None and self.fork is None,
            has_image=self.has_image,
        )


EVERY_RECORD = RecordChoice()


def outline(frames: Frames, segment_size: int, major: int, choice: RecordChoice = EVERY_RECORD) -> Outline:
    """Read the headers of all records.

    Args:
        frames: the records, n of them.
        segment_size: bytes.
        major: PostgreSQL's major version.
        choice: decides ``is_chosen``.

    Raises:
        RecordError: a record is malformed.
    """
    n = len(frames.positions)
    records = Outline(
        xid=np.empty(n, np.int64),
        prev=np.empty(n, np.int64),
        rmid=np.empty(n, np.uint8),
        info=np.empty(n, np.uint8),
        length=np.empty(n, np.int64),
        image_bytes=np.empty(n, np.int64),
        end=np.empty(n, np.int64),
        is_chosen=np.empty(n, np.bool_),
    )
    headers = header_scratch(major)
    status = int(
        k.outline_records(frames.data, frames.positions, frames.lsns, segment_size, choice._blocks, headers, records)
    )
    if status != k.DONE:
        raise RecordError("malformed record: its lengths disagree", lsn=int(frames.lsns[status]))
    return records._replace(is_chosen=records.is_chosen & _passes(frames, records, choice))


def _passes(frames: Frames, records: Outline, choice: RecordChoice) -> NDArray[np.bool_]:
    passes: NDArray[np.bool_] = frames.lsns >= choice.start
    if choice.end is not None:
        passes &= records.end <= choice.end
    if choice.managers:
        passes &= np.isin(records.rmid, sorted(choice.managers))
    if choice.xid is not None:
        passes &= records.xid == choice.xid
    return passes


def chosen_records(frames: Frames, records: Outline, major: int) -> Iterator[Record]:
    """Give the chosen records, parsed, in LSN order.

    Args:
        frames: the records.
        records: their outline.
        major: PostgreSQL's major version.

    Raises:
        RecordError: a record is malformed.
    """
    for i in np.flatnonzero(records.is_chosen).tolist():
        yield parse_record(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), major)
