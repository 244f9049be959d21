"""``headwater waldump``: the records of the WAL as lines, or statistics of them (PostgreSQL: ``pg_waldump.c``).

Lines are those of the ``pg_waldump`` of the server's own major version. What differs: ``--wal`` names the directory,
the history of its newest timeline, or of ``--timeline``, is read, by default from its first record on, and the end of
the log is no error: standard error says where it is and why. Damage is an error, as everywhere here.

Memory holds one stretch of the log, whatever its length.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from headwater.cli.option_pairs import source_of_flags
from headwater.cli.process_setup import say
from headwater.cli.waldump_flags import WaldumpFlags
from headwater.errors import UsageError, WalError, warn
from headwater.pg.decimals import decimal
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
from headwater.rmgr.description_parts import FORK_NAMES, Style, local_stamp
from headwater.rmgr.outline import Outline, RecordChoice, chosen_records, outline
from headwater.rmgr.record_stats import RecordStats, StatsRow
from headwater.rmgr.registry import FIRST_CUSTOM, RMGR_NAMES
from headwater.wal.layout import PAGE_SIZE
from headwater.wal.records.frames import EndOfWal, Frames
from headwater.wal.records.record import Record
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory

_RELATION = re.compile(r"(\d{1,10})/(\d{1,10})/(\d{1,10})")
_CUSTOM = re.compile(r"custom(\d{3})")
_CHUNK_BYTES = 1 << 20


def run_waldump(flags: WaldumpFlags) -> None:
    """Show records or statistics.

    Args:
        flags: as given.

    Raises:
        HeadwaterError: it cannot be done.
    """
    if any(name.lower() == "list" for name in flags.managers):
        _write(f"{name}\n" for name in RMGR_NAMES)
        return
    choice = _choice(flags)
    directory = WalDirectory.scan(source_of_flags(flags.wal, flags.storage_options, flags.timeline))
    scan = _Scan(directory, choice, flags.limit)
    if flags.stats is not None:
        stats, reached = RecordStats(directory.major), 0
        for frames, found in scan.pieces():
            stats.add(found)
            reached = _reached(frames, found, reached)
        if not flags.quiet and reached:
            version = VERSIONS[directory.major]
            if version.shows_range_of_statistics:
                _write([f"WAL statistics between {lsn_text(scan.first, version)} and {lsn_text(reached, version)}:\n"])
            _write(_table(stats, flags.stats == "record"))
    else:
        _write(_lines(scan, flags))
    if scan.end is not None and not flags.quiet:
        say(f"headwater: the WAL ends at {lsn_text(scan.end.lsn, VERSIONS[directory.major])}: {scan.end.reason}")


def _choice(flags: WaldumpFlags) -> RecordChoice:
    if flags.block is not None and flags.relation is None:
        raise UsageError("--block is a block of --relation, which is not given")
    start = 0 if flags.start is None else Lsn.parse(flags.start)
    end = None if flags.end is None else Lsn.parse(flags.end)
    if end is not None and end <= start:
        raise UsageError(f"--end {Lsn(end)} lies not behind --start {Lsn(start)}")
    return RecordChoice(
        start,
        end,
        frozenset(map(_manager_id, flags.managers)),
        flags.xid,
        None if flags.relation is None else _relation(flags.relation),
        flags.block,
        None if flags.fork is None else FORK_NAMES.index(flags.fork),
        flags.fullpage,
    )


def _manager_id(name: str) -> int:
    with suppress(ValueError):
        return [known.lower() for known in RMGR_NAMES].index(name.lower())
    custom = _CUSTOM.fullmatch(name)
    if custom is not None and FIRST_CUSTOM <= decimal(custom[1]) < 256:
        return decimal(custom[1])
    raise UsageError(f'resource manager "{name}" does not exist', hint="--rmgr=list shows their names")


def _relation(text: str) -> tuple[int, int, int]:
    match = _RELATION.fullmatch(text)
    found = (0, 0, 0) if match is None else (decimal(match[1]), decimal(match[2]), decimal(match[3]))
    if not found[0] or not found[2] or max(found) >= 1 << 32:
        raise UsageError(f'invalid --relation "{text}", expected tablespace OID/database OID/file number')
    return found


@dataclass
class _Scan:
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
        """The records of each stretch, and their outline with the chosen ones marked, up to the limit.

        Raises:
            WalError: the log is damaged, or has no record there.
        """
        left = sys.maxsize if self.limit is None else self.limit
        lo = max(self.choice.start - self.choice.start % PAGE_SIZE, self.directory.start_lsn)
        hi = self.directory.stop_lsn if self.choice.end is None else self.choice.end
        for _, _, frames in read_stretches(self.directory, lo, hi):
            found = outline(frames, self.directory.segment_size, self.directory.major, self.choice)
            self._note_first(frames, found)
            chosen = np.flatnonzero(found.is_chosen)
            found.is_chosen[chosen[left:]] = False
            yield frames, found
            left -= len(chosen)
            if left <= 0:
                return
            self.end = frames.end
        if not self.first:
            raise WalError(f"could not find a valid record after {Lsn(max(self.choice.start, lo))}")

    def _note_first(self, frames: Frames, found: Outline) -> None:
        at = int(np.searchsorted(frames.lsns, self.choice.start))
        if self.first or at == len(frames.lsns):
            return
        if self.choice.end is not None and found.end[at] > self.choice.end:
            return  # It is not whole before the end: nothing was found (XLogFindNextRecord).
        self.first, start = int(frames.lsns[at]), self.choice.start
        if start % self.directory.segment_size and self.first != start:
            skipped = self.first - start
            asked, met = (lsn_text(lsn, VERSIONS[self.directory.major]) for lsn in (start, self.first))
            warn(f"first record is after {asked}, at {met}, skipping over {skipped} bytes")


def _reached(frames: Frames, found: Outline, before: int) -> int:
    """Where the last chosen record so far ends."""
    chosen = np.flatnonzero(found.is_chosen)
    return int(frames.end_lsns[chosen[-1]]) if len(chosen) else before


def _lines(scan: _Scan, flags: WaldumpFlags) -> Iterator[str]:
    style = Style(VERSIONS[scan.directory.major], local_stamp)
    for frames, found in scan.pieces():
        if not flags.quiet:
            for record, length in zip(
                chosen_records(frames, found, scan.directory.major), found.length[found.is_chosen].tolist(), strict=True
            ):
                yield _line(record, length, style, flags.bkp_details)


def _line(record: Record, length: int, style: Style, with_details: bool) -> str:
    """A record as XLogDumpDisplayRecord prints it."""
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
    """Statistics as XLogDumpDisplayStats prints them."""
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
    """The last row, whose percentages are of the row."""
    records, record_bytes, images, whole = _figures(total)
    shares = [f"[{_percent(part, whole):.02f}%]" for part in (record_bytes, images)]
    return (
        f"{'Total':<27} {records:20} {'':<9}{record_bytes:20} {shares[0]:<9}{images:20} {shares[1]:<9}"
        f"{whole:20} {'[100%]':<6}\n"
    )


def _write(lines: Iterable[str]) -> None:
    """Text to standard output, in chunks; what was no UTF-8 in the log is written as it was there."""
    held: list[str] = []
    size = 0
    try:
        for line in lines:
            held.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                _write_chunk(held)
                held, size = [], 0
    finally:
        _write_chunk(held)


def _write_chunk(lines: list[str]) -> None:
    sys.stdout.buffer.write("".join(lines).encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
