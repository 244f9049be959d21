"""Timelines and the contents of their history files (PostgreSQL: ``timeline.c``, readTimeLineHistory).

A lineage is the timelines that led to a timeline, oldest first, each with the LSN where it was left, None for the last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.base.system_errors import errors_as
from headwater.errors import SegmentError
from headwater.pg.decimals import decimal
from headwater.pg.lsn import Lsn
from headwater.wal.segments.place import Place
from headwater.wal.segments.segment_forms import PLAIN, compression_of
from headwater.wal.segments.unpacking import Packed, open_stream, read_stream

_LINE = re.compile(r"\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)")
_MOST_BYTES = 16 << 20

Lineage = dict[int, "int | None"]


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A timeline's history file.

    Attributes:
        place: where it lies; path: its path or address.
        method: the method it is packed with, by its name.
    """

    place: Place
    path: str
    method: str = PLAIN


def read_lineage(histories: Mapping[int, HistoryFile], target: int) -> Lineage:
    """Read the timelines that led to a timeline.

    Args:
        histories: the files, by timeline.
        target: the timeline; without a file it is taken for the first.

    Raises:
        SegmentError: its file cannot be read, or is malformed.
    """
    file = histories.get(target)
    return {target: None} if file is None else parse_lineage(_text(file), target, file.path)


def parse_lineage(text: str, target: int, path: str) -> Lineage:
    """Read the timelines that led to a timeline out of its history.

    Args:
        text: of the history file; target: the timeline; path: names the file in errors.

    Raises:
        SegmentError: it is malformed.
    """
    lineage: Lineage = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            lineage.update([_entry(line, path)])
    if target != 1 and any(parent >= target for parent in lineage):
        raise SegmentError(f"timelines of the history are not below {target}", file=path)
    lineage[target] = None
    return lineage


def _text(file: HistoryFile) -> str:
    return read_history(file).decode("utf-8", "replace")


def read_history(file: HistoryFile) -> bytes:
    """Read a history file, unpacked.

    Raises:
        SegmentError: it cannot be read.
    """
    packed = Packed(file.place, file.path, file.method)
    with errors_as(SegmentError, "read history file", file.path):
        stream = open_stream(packed)
        data = read_stream(stream, _MOST_BYTES, packed)
        stream.close()
        method = compression_of(data) if file.method == PLAIN else None
    return read_history(HistoryFile(file.place, file.path, method)) if method else data


def _entry(line: str, path: str) -> tuple[int, int]:
    match = _LINE.match(line)
    if match is None:
        raise SegmentError("syntax error in timeline history file, expected a timeline and an LSN", file=path)
    return decimal(match[1]), int(Lsn.parse(match[2]))


def first_numbers(lineage: Mapping[int, int | None], segment_size: int) -> dict[int, int]:
    """Find the first segment of each timeline of a history: the one that its parent's switch point lies in."""
    begins: dict[int, int] = {}
    begin = 0
    for timeline, switch in lineage.items():
        begins[timeline] = begin // segment_size
        begin = begin if switch is None else switch
    return begins


def fork_point(lineage: Mapping[int, int | None], other: Mapping[int, int | None]) -> tuple[int, int] | None:
    """Find the timeline and LSN up to which two lineages are one.

    None if they never were, or one is all of the other.
    """
    shared = None
    for (timeline, left), (another, left_there) in zip(lineage.items(), other.items(), strict=False):
        if timeline != another:
            break
        ends = [lsn for lsn in (left, left_there) if lsn is not None]
        shared = (timeline, min(ends)) if ends else None
        if left != left_there:
            break
    return shared
