"""WAL in which nothing happens but to the catalogs of one database, for a server to replay.

In: framed records and the files of the catalogs. Out: the same bytes, in which each record of another file is a NOOP of
the same length. So positions, ``xl_prev`` and transaction ids stay as they are; only ``xl_info``, ``xl_rmid`` and the
checksum change. A checksum is linear, and what changes lies at the same distance from its end in all records: the new
one follows from the old one, whatever the record holds.

What stays: records of catalogs' files; what makes the directory that they lie in; commits and aborts; what keeps
``pg_xact`` and ``pg_multixact``; checkpoints, ends of backups and all that the log itself needs. What goes besides
other files' records: locks, which stand for nothing here; other databases, and tablespaces, which would be made;
settings of the source's server, which are not this one's; origins; records of resource managers that an extension
brought.

PostgreSQL: xlogrecord.h, xlogreader.c (ValidXLogRecord), xlog.c (xlog_redo: XLOG_NOOP).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.rmgr import smgr
from headwater.rmgr.header_slots import header_scratch
from headwater.wal.checksum import crc32c
from headwater.wal.layout import LONG_HEADER, PAGE_SIZE, SHORT_HEADER
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record
from headwater.walsender.catalog_server import _filtered_wal as k
from headwater.walsender.catalog_server.stand_in import hides_row, record_letting_in


@dataclass(frozen=True)
class SystemFiles:
    """The files that stay.

    Attributes:
        database: OID of the database; tablespace: where it lies.
        shared, local: file numbers of relations in ``global``, and in the database's directory.
        roles: file numbers of ``pg_authid``, which are among the shared ones.
        earlier: tablespaces and OIDs of the directories that the database's is a copy of, one of the other: there the
            same numbers stay.
    """

    database: int
    tablespace: int
    shared: frozenset[int]
    local: frozenset[int]
    roles: frozenset[int] = frozenset()
    earlier: tuple[tuple[int, int], ...] = ()

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The tablespaces and OIDs of all directories."""
        return ((self.tablespace, self.database), *self.earlier)

    def __or__(self, other: SystemFiles) -> SystemFiles:
        """Return the files of both."""
        return SystemFiles(
            self.database,
            self.tablespace,
            self.shared | other.shared,
            self.local | other.local,
            self.roles | other.roles,
            self.earlier,
        )

    @property
    def wanted(self) -> k.WantedFiles:
        """The files, for kernels."""
        numbers = (np.array(sorted(part), np.int64) for part in (self.shared, self.local, self.roles))
        tablespaces, databases = np.array(self.places, np.int64).T
        return k.WantedFiles(databases.copy(), tablespaces.copy(), *numbers)

    def is_lacking(self, made: frozenset[tuple[int, int]]) -> bool:
        """Tell whether a file stays that is among some, as (database, number)."""
        places = {0: self.shared, **{database: self.local for _, database in self.places}}
        return any(number in places.get(database, ()) for database, number in made)


@dataclass(frozen=True)
class Passed:
    """The outcome of filtering a stretch of WAL.

    Attributes:
        made: files that were made, and whose records are NOOPs now, as (database, number).
        hides_role: whether a page image may hold the row of the role that stands in for others, and cannot be changed.
    """

    made: frozenset[tuple[int, int]]
    hides_role: bool


def filter_wal(
    frames: Frames, major: int, segment_size: int, files: SystemFiles, raw: NDArray[np.uint8], raw_lsn: int
) -> Passed:
    """Change WAL so that only records of catalogs do anything.

    Args:
        frames: the records, verified.
        major: PostgreSQL's major version.
        segment_size: bytes.
        files: that stay.
        raw: uint8[] the bytes of the WAL, which are changed; raw_lsn: where they begin.

    Raises:
        RecordError: a record is malformed.
    """
    marks = np.zeros(len(frames.positions), np.uint8)
    bad = int(k.mark_records(frames.data, frames.positions, files.wanted, header_scratch(major), marks))
    if bad != k.DONE:
        raise RecordError("malformed record: its lengths disagree", lsn=int(frames.lsns[bad]))
    k.make_noops(frames.data, frames.positions, frames.lsns, marks, segment_size, *_checksum_changes(), raw, raw_lsn)
    hides_role = False
    for i in np.flatnonzero(marks == k.OF_ROLES).tolist():
        lsn = int(frames.lsns[i])
        hides_role |= hides_row(parse_record(frames.record(i), lsn, int(frames.end_lsns[i]), major))
        for at, byte in _letting_in(frames.record(i), lsn, segment_size):
            raw[at - raw_lsn] = byte
    return Passed(frozenset(_made(frames, marks, major)), hides_role)


def _made(frames: Frames, marks: NDArray[np.uint8], major: int) -> Iterator[tuple[int, int]]:
    """Give the files that records make that go."""
    for i in np.flatnonzero(marks == k.MADE_AND_GOES).tolist():
        record = parse_record(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), major)
        _, database, number = smgr.parse_create(record.main_data, record.lsn).locator
        yield database, number


def _letting_in(record: bytes, lsn: int, segment_size: int) -> list[tuple[int, int]]:
    """Return positions of bytes, and what they become, so that the role that stands in may log in."""
    places = list[tuple[int, int]]()
    for offset, data in record_letting_in(record):
        places += [(_position(lsn, offset + i, segment_size), byte) for i, byte in enumerate(data)]
    return places


def _position(lsn: int, offset: int, segment_size: int) -> int:
    """Return the position of the byte at an offset of a record, past the headers of pages between."""
    while offset >= (room := PAGE_SIZE - lsn % PAGE_SIZE):
        lsn, offset = lsn + room, offset - room
        lsn += LONG_HEADER if lsn % segment_size == 0 else SHORT_HEADER
    return lsn + offset


@cache
def _checksum_changes() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what a record's checksum changes by, uint32[256], by the change of ``xl_info`` and that of ``xl_rmid``.

    Both lie among the last four bytes that the checksum is taken over; the two after them are padding.
    """
    nothing = crc32c(bytes(4))
    tables = [[crc32c(bytes([*bytes(at), change, *bytes(3 - at)])) ^ nothing for change in range(256)] for at in (0, 1)]
    return np.array(tables[0], np.uint32), np.array(tables[1], np.uint32)
