"""Records of the WAL as the lines of ``pg_waldump``, and statistics of them (PostgreSQL: ``pg_waldump.c``).

Lines are those of the ``pg_waldump`` of the server's own major version, with differences. ``--wal`` names the
directory. The history of its newest timeline, or of ``--timeline``, is read, by default from its first record on. The
end of the log is no error: standard error says where it is and why. Damage is an error, as everywhere here.

Memory holds one stretch of the log, whatever its length.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from headwater.errors import WalError, warn
from headwater.pg.lsn import Lsn, lsn_text
from headwater.pg.version import VERSIONS, Version
from headwater.rmgr.description import (
    blocks_in_detail,
    blocks_in_short,
    description,
    image_bytes,
    kind_name,
    manager_name,
)
from headwater.rmgr.description_parts import Style, local_stamp
from headwater.rmgr.outline import Outline, RecordChoice, chosen_records, outline
from headwater.rmgr.record_stats import RecordStats, StatsRow
from headwater.wal.layout import PAGE_SIZE
from headwater.wal.records.frames import EndOfWal, Frames
from headwater.wal.records.record import Record
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory


@dataclass
class RecordScan:
    """The records of a directory, stretch by stretch.

    Attributes:
        directory: the WAL.
        choice: the records that are wanted.
        limit: how many of them, None for all.
        first: LSN of the first record that could be wanted by its place; set when it has been met.
        end: set when the log ended before the choice did.
    """

    directory: WalDirectory
    choice: RecordChoice
    limit: int | None
    first: int = field(default=0, init=False)
    end: EndOfWal | None = field(default=None, init=False)

    def pieces(self) -> Iterator[tuple[Frames, Outline]]:
        """Yield the records of each stretch, and their outline with the chosen ones marked, up to the limit.

        Raises:
            WalError: the log is damaged, or has no record there.
        """
        left = sys.maxsize if self.limit is None else self.limit
        lo = max(self.choice.start - self.choice.start % PAGE_SIZE, self.directory.start_lsn)
        hi = self.directory.stop_lsn if self.choice.end is None else self.choice.end
        for _, _, frames in read_stretches(self.directory, lo, hi):
            records = outline(frames, self.directory.segment_size, self.directory.major, self.choice)
            self._note_first(frames, records)
            chosen = np.flatnonzero(records.is_chosen)
            records.is_chosen[chosen[left:]] = False
            yield frames, records
            left -= len(chosen)
            if left <= 0:
                return
            self.end = frames.end
        if not self.first:
            raise WalError(f"could not find a valid record after {Lsn(max(self.choice.start, lo))}")

    def _note_first(self, frames: Frames, records: Outline) -> None:
        at = int(np.searchsorted(frames.lsns, self.choice.start))
        if self.first or at == len(frames.lsns):
            return
        if self.choice.end is not None and records.end[at] > self.choice.end:
            return  # It is not whole before the end: none is there (XLogFindNextRecord).
        self.first, start = int(frames.lsns[at]), self.choice.start
        if start % self.directory.segment_size and self.first != start:
            skipped = self.first - start
            asked, met = (lsn_text(lsn, VERSIONS[self.directory.major]) for lsn in (start, self.first))
            warn(f"first record is after {asked}, at {met}, skipping over {skipped} bytes")


def text_lines(scan: RecordScan, with_details: bool) -> Iterator[str]:
    """Yield the lines of each record that is chosen."""
    style = Style(VERSIONS[scan.directory.major], local_stamp)
    for frames, records in scan.pieces():
        lengths = records.length[records.is_chosen].tolist()
        for record, length in zip(chosen_records(frames, records, scan.directory.major), lengths, strict=True):
            yield _line(record, length, style, with_details)


def statistics(scan: RecordScan, by_kind: bool) -> Iterator[str]:
    """Yield the lines of a table of statistics, none where no record is chosen."""
    stats, reached, version = RecordStats(scan.directory.major), 0, VERSIONS[scan.directory.major]
    for frames, records in scan.pieces():
        stats.add(records)
        chosen = np.flatnonzero(records.is_chosen)
        reached = int(frames.end_lsns[chosen[-1]]) if len(chosen) else reached
    if not reached:
        return
    if version.shows_range_of_statistics:
        yield f"WAL statistics between {lsn_text(scan.first, version)} and {lsn_text(reached, version)}:\n"
    yield from _table(stats, by_kind)


def _line(record: Record, length: int, style: Style, with_details: bool) -> str:
    """Return a record as XLogDumpDisplayRecord prints it."""
    name = kind_name(style.version.major, record.rmid, record.info, record.lsn)
    blocks = _detailed_blocks(record, style.version) if with_details else f"{blocks_in_short(record)}\n"
    return (
        f"rmgr: {manager_name(record.rmid):<11} len (rec/tot): {length - image_bytes(record):6}/{length:6}, "
        f"tx: {record.xid:10}, lsn: {_padded(record.lsn)}, prev {_padded(record.prev)}, "
        f"desc: {name} {description(record, style)}{blocks}"
    )


def _padded(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:08X}"


def _detailed_blocks(record: Record, version: Version) -> str:
    return "\n" + "".join(f"\t{text}\n" for text in blocks_in_detail(record, version))


def _table(stats: RecordStats, by_kind: bool) -> Iterator[str]:
    """Yield statistics as XLogDumpDisplayStats prints them."""
    total = stats.total
    titles = ("Type", "N", "(%)", "Record size", "(%)", "FPI size", "(%)", "Combined size", "(%)")
    yield _row(titles)
    yield _row(["-" * len(title) for title in titles])
    for row in stats.by_kind() if by_kind else stats.by_manager():
        parts = zip(_figures(row), _figures(total), strict=True)
        yield f"{row.name:<27} {' '.join(f'{part:20} ({_percent(part, whole):6.02f})' for part, whole in parts)}\n"
    yield _row(["", *["-" * 8, ""] * 4]).rstrip() + "\n"
    yield _sum_row(total)


def _row(words: Iterable[str]) -> str:
    first, *rest = words
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return f"{first:<27} {' '.join(f'{figure:>20} {percent:>8}' for figure, percent in pairs)}\n"


def _figures(row: StatsRow) -> tuple[int, int, int, int]:
    return row.records, row.record_bytes, row.image_bytes, row.record_bytes + row.image_bytes


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _sum_row(total: StatsRow) -> str:
    """Return the last row, whose percentages are of the row."""
    records, record_bytes, images, whole = _figures(total)
    shares = [f"[{_percent(part, whole):.02f}%]" for part in (record_bytes, images)]
    return (
        f"{'Total':<27} {records:20} {'':<9}{record_bytes:20} {shares[0]:<9}{images:20} {shares[1]:<9}"
        f"{whole:20} {'[100%]':<6}\n"
    )
