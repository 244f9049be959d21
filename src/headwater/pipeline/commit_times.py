"""The place in the log of a moment: the first commit at or after it.

Times are those of commit records, by the server's clock, which may be set back: then a later commit can have an earlier
time. Commits of all databases count.

PostgreSQL: xl_xact_commit (xact.h); recovery_target_time takes the same times.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from headwater.errors import SlotError, UsageError
from headwater.pg.lsn import Lsn
from headwater.rmgr.xact import COMMIT, COMMIT_PREPARED, OPMASK, parse_end
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory

PIECE = 64 << 20
"""Bytes of WAL that are looked at at once."""

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_INFO, _RMID, _XACT = 16, 17, 1
"""Offsets of a record's info and resource manager in its header, and the manager's number."""


def parse_moment(text: str) -> datetime:
    """Parse a moment such as ``2026-01-31 12:00:00.5+01``, as timestamptz is printed, or ISO 8601 has it.

    Raises:
        UsageError: it is none, or has no offset from UTC.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f'"{text}" is neither an LSN nor a time', hint="such as 2026-01-31 12:00:00+00") from None
    if moment.tzinfo is None:
        raise UsageError(f'the time "{text}" has no offset from UTC', hint="such as 2026-01-31 12:00:00+00")
    return moment


def first_commit_at(directory: WalDirectory, start: int, moment: datetime) -> int:
    """Find the LSN of the first commit record at or after a moment.

    Args:
        directory: the WAL; start: LSN of the first record that is looked at; moment: with its offset.

    Raises:
        SlotError: there is none, or the first one is, so that it is not known what committed before it.
        WalError: the WAL cannot be read.
    """
    wanted = (moment - _EPOCH).total_seconds() * 1e6
    is_first = True
    for lsn, time in _commits(directory, start):
        if time >= wanted:
            if is_first:
                raise SlotError(
                    f"the first commit behind {Lsn(start)} is not before {moment}: earlier ones may not be, too",
                    hint="begin with an older backup, or name the LSN",
                )
            return lsn
        is_first = False
    raise SlotError(f"no transaction has committed at or after {moment} in the WAL that is here")


def _commits(directory: WalDirectory, start: int) -> Iterator[tuple[int, int]]:
    """Give LSNs and times of commit records: microseconds since 2000-01-01."""
    while True:
        end = start - start % PIECE + PIECE
        frames = read_frames(directory, start, end)
        yield from _commits_of(frames, directory.major)
        if frames.end is not None:
            return
        start = end


def _commits_of(frames: Frames, major: int) -> Iterator[tuple[int, int]]:
    info, rmid = (frames.data[frames.positions + offset] for offset in (_INFO, _RMID))
    operation = info & OPMASK
    is_commit = (rmid == _XACT) & ((operation == COMMIT) | (operation == COMMIT_PREPARED))
    for number in np.flatnonzero(is_commit).tolist():
        at, lsn = int(frames.positions[number]), int(frames.lsns[number])
        data = frames.data[at : at + frames.length(number)].tobytes()
        yield lsn, parse_end(parse_record(data, lsn, int(frames.end_lsns[number]), major), major).time
