"""WAL in which nothing happens but to the catalogs of one database, for a server to replay.

In: framed records and the files of the catalogs. Out: the same bytes, in which each record of another file is a NOOP of
the same length. So positions, ``xl_prev`` and transaction ids stay as they are; only ``xl_info``, ``xl_rmid`` and the
checksum change. A checksum is linear, and what changes lies at the same distance from its end in all records: the new
one follows from the old one, whatever the record holds.

What stays: records of catalogs' files; commits and aborts; what keeps ``pg_xact`` and ``pg_multixact``; checkpoints,
ends of backups and all that the log itself needs. What goes besides other files' records: locks, which stand for
nothing here; databases and tablespaces, which would be made; settings of the source's server, which are not this one's;
origins; records of resource managers that an extension brought.

PostgreSQL: xlogrecord.h, xlogreader.c (ValidXLogRecord), xlog.c (xlog_redo: XLOG_NOOP).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headwater.pg.catalogs import GLOBAL_TABLESPACE
from headwater.pg.version import VERSIONS
from headwater.rmgr import relmap, smgr, standby, xlog
from headwater.rmgr.registry import CLOG, MULTIXACT, RELMAP, SMGR, STANDBY, XACT, XLOG
from headwater.wal.checksum import crc32c
from headwater.wal.layout import (
    BKPBLOCK_HAS_IMAGE,
    BKPIMAGE_COMPRESSED,
    BKPIMAGE_HAS_HOLE,
    BKPIMAGE_IS_COMPRESSED_14,
    INFO_AT,
    LONG_HEADER,
    PAGE_SIZE,
    RECORD_HEADER_SIZE,
    RMID_AT,
    SHORT_HEADER,
    XLR_BLOCK_ID_DATA_LONG,
    XLR_BLOCK_ID_DATA_SHORT,
    XLR_BLOCK_ID_ORIGIN,
    XLR_BLOCK_ID_TOPLEVEL_XID,
    XLR_MAX_BLOCK_ID,
    XLR_RMGR_INFO_MASK,
)
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record
from headwater.walsender.catalog_server.stand_in import hides_row, record_letting_in

_CRC_AT, _CRC_SIZE = 20, 4
_SHORT_DATA, _LONG_DATA, _ORIGIN, _TOPLEVEL_XID = 2, 5, 3, 5
"""Bytes of what announces main data, and of what may stand before that."""

_IMAGE_HEADER, _BLOCK_HEADER = 5, 4
_NEEDED_MANAGERS = (XLOG, XACT, CLOG, MULTIXACT, STANDBY)

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SystemFiles:
    """The files that stay.

    Attributes:
        database: OID of the database; tablespace: where it lies.
        shared, local: file numbers of relations in ``global``, and in the database's directory.
        roles: file numbers of ``pg_authid``, which are among the shared ones.
    """

    database: int
    tablespace: int
    shared: frozenset[int]
    local: frozenset[int]
    roles: frozenset[int] = frozenset()

    def __or__(self, other: SystemFiles) -> SystemFiles:
        """Return the files of both."""
        return SystemFiles(
            self.database,
            self.tablespace,
            self.shared | other.shared,
            self.local | other.local,
            self.roles | other.roles,
        )

    def holds(self, tablespace: Int64s, database: Int64s, number: Int64s) -> Bools:
        """Tell of n files whether they stay, bool[n]."""
        shared = (tablespace == GLOBAL_TABLESPACE) & (database == 0) & np.isin(number, sorted(self.shared))
        is_local = (tablespace == self.tablespace) & (database == self.database)
        return np.asarray(shared | (is_local & np.isin(number, sorted(self.local))))

    def is_lacking(self, made: frozenset[tuple[int, int]]) -> bool:
        """Tell whether a file stays that is among some, as (database, number)."""
        mine = {(0, number) for number in self.shared} | {(self.database, number) for number in self.local}
        return not mine.isdisjoint(made)


@dataclass(frozen=True)
class Filtered:
    """Changes to a stretch of WAL.

    Attributes:
        at: int64[m] positions of bytes; value: uint8[m] what they become.
        passed_over: files that were made, and whose records are NOOPs, as (database, number).
        hides_role: whether a page image may hold the row of the role that stands in for others, and cannot be changed.
    """

    at: Int64s
    value: NDArray[np.uint8]
    passed_over: frozenset[tuple[int, int]]
    hides_role: bool


def filtered(frames: Frames, major: int, segment_size: int, files: SystemFiles) -> Filtered:
    """Find what is to be changed so that only records of catalogs do anything.

    Args:
        frames: the records, verified.
        major: PostgreSQL's major version.
        segment_size: bytes.
        files: that stay.
    """
    heads = _Heads(frames, major)
    is_needed = _needed(heads, files)
    is_made = (heads.rmid == SMGR) & (heads.kind == smgr.CREATE) & ~is_needed
    _, database, number = heads.main_locator(np.flatnonzero(is_made), 0)
    changed = np.flatnonzero(~is_needed)
    at, value = _as_noops(heads, changed, frames.lsns, segment_size)
    records = [
        parse_record(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), major)
        for i in _of_roles(heads, files).tolist()
    ]
    let_in = [place for i in _of_roles(heads, files).tolist() for place in _letting_in(frames, i, segment_size)]
    return Filtered(
        np.concatenate([at, np.array([place for place, _ in let_in], np.int64)]),
        np.concatenate([value, np.array([byte for _, byte in let_in], np.uint8)]),
        frozenset(zip(database.tolist(), number.tolist(), strict=True)),
        any(map(hides_row, records)),
    )


class _Heads:
    """The heads of n records.

    Args:
        frames: the records; major: PostgreSQL's major version.

    Attributes:
        data: uint8[] of all records; start: int64[n] where each begins in it.
        rmid, kind: int64[n]; has_block: bool[n] whether it refers to a block.
    """

    def __init__(self, frames: Frames, major: int) -> None:
        self.data, self.start = frames.data, frames.positions
        self._names_method = VERSIONS[major].names_image_compression
        self.rmid = self._byte(self.start + RMID_AT)
        self.kind = self._byte(self.start + INFO_AT) & XLR_RMGR_INFO_MASK
        is_long = frames.lengths_of(slice(None)) > RECORD_HEADER_SIZE
        self.has_block = is_long & (self._byte(self.start + RECORD_HEADER_SIZE * is_long) <= XLR_MAX_BLOCK_ID)

    def _byte(self, at: Int64s) -> Int64s:
        return self.data[at].astype(np.int64)

    def block_locator(self, which: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return the file of the first block of records: tablespace, database, number."""
        at = self.start[which] + RECORD_HEADER_SIZE
        has_image = self._byte(at + 1) & BKPBLOCK_HAS_IMAGE != 0
        after = at + _BLOCK_HEADER
        info = self._byte(after + _IMAGE_HEADER - 1)
        compressed = BKPIMAGE_COMPRESSED if self._names_method else BKPIMAGE_IS_COMPRESSED_14
        has_hole_length = (info & compressed != 0) & (info & BKPIMAGE_HAS_HOLE != 0)
        return self._locator(after + has_image * (_IMAGE_HEADER + 2 * has_hole_length))

    def main_locator(self, which: Int64s, offset: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the file that records without a block have in their main data."""
        return self._locator(self._main(which) + offset)

    def main_number(self, which: Int64s, offset: int) -> Int64s:
        """Return a number of four bytes of the main data of records without a block."""
        return self._numbers(self._main(which) + offset, 1)[:, 0]

    def _main(self, which: Int64s) -> Int64s:
        """Return where main data begins, in records that announce nothing else before it."""
        at = self.start[which] + RECORD_HEADER_SIZE
        first = self._byte(at)
        for code, size in ((XLR_BLOCK_ID_ORIGIN, _ORIGIN), (XLR_BLOCK_ID_TOPLEVEL_XID, _TOPLEVEL_XID)):
            at = at + size * (first == code)
            first = self._byte(at)
        return at + np.where(
            first == XLR_BLOCK_ID_DATA_LONG, _LONG_DATA, _SHORT_DATA * (first == XLR_BLOCK_ID_DATA_SHORT)
        )

    def _locator(self, at: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        numbers = self._numbers(at, 3)
        return numbers[:, 0], numbers[:, 1], numbers[:, 2]

    def _numbers(self, at: Int64s, count: int) -> Int64s:
        width = 4 * count
        taken = np.ascontiguousarray(self.data[at[:, None] + np.arange(width)])
        return taken.view("<u4").astype(np.int64).reshape(len(at), count)


def _needed(heads: _Heads, files: SystemFiles) -> Bools:
    """Tell of each record whether it stays as it is."""
    is_needed = np.isin(heads.rmid, _NEEDED_MANAGERS)
    is_needed &= (heads.rmid != STANDBY) | (heads.kind != standby.LOCK)
    ours = np.isin(heads.kind, (xlog.PARAMETER_CHANGE, xlog.LOGICAL_DECODING_STATUS_CHANGE))
    is_needed &= (heads.rmid != XLOG) | ~ours
    with_block = np.flatnonzero(heads.has_block)
    is_needed[with_block] = files.holds(*heads.block_locator(with_block))
    for kind, offset in ((smgr.CREATE, 0), (smgr.TRUNCATE, smgr.TRUNCATE_LOCATOR_AT)):
        which = np.flatnonzero((heads.rmid == SMGR) & (heads.kind == kind))
        is_needed[which] = files.holds(*heads.main_locator(which, offset))
    maps = np.flatnonzero((heads.rmid == RELMAP) & (heads.kind == relmap.UPDATE))
    is_needed[maps] = np.isin(heads.main_number(maps, 0), (0, files.database))
    return is_needed


def _of_roles(heads: _Heads, files: SystemFiles) -> Int64s:
    """Return the numbers of the records of ``pg_authid``."""
    with_block = np.flatnonzero(heads.has_block)
    tablespace, _, number = heads.block_locator(with_block)
    return np.asarray(with_block[(tablespace == GLOBAL_TABLESPACE) & np.isin(number, sorted(files.roles))])


def _letting_in(frames: Frames, index: int, segment_size: int) -> list[tuple[int, int]]:
    """Return positions of bytes, and what they become, so that the role that stands in may log in."""
    lsn, places = int(frames.lsns[index]), list[tuple[int, int]]()
    for offset, data in record_letting_in(frames.record(index)):
        places += [(_position(lsn, offset + i, segment_size), byte) for i, byte in enumerate(data)]
    return places


def _position(lsn: int, offset: int, segment_size: int) -> int:
    """Return the position of the byte at an offset of a record, past the headers of pages between."""
    while offset >= (room := PAGE_SIZE - lsn % PAGE_SIZE):
        lsn, offset = lsn + room, offset - room
        lsn += LONG_HEADER if lsn % segment_size == 0 else SHORT_HEADER
    return lsn + offset


def _as_noops(heads: _Heads, which: Int64s, lsns: Int64s, segment_size: int) -> tuple[Int64s, NDArray[np.uint8]]:
    """Return positions of bytes, and what they become, that make NOOPs of records."""
    start, lsn = heads.start[which], lsns[which]
    by_info, by_rmid = _checksum_changes()
    info, rmid = heads.data[start + INFO_AT], heads.data[start + RMID_AT]
    change = by_info[info ^ xlog.NOOP] ^ by_rmid[rmid ^ XLOG]
    checksum = heads.data[start[:, None] + np.arange(_CRC_AT, _CRC_AT + _CRC_SIZE)]
    values = np.empty((len(which), 2 + _CRC_SIZE), np.uint8)
    values[:, 0], values[:, 1] = xlog.NOOP, XLOG
    values[:, 2:] = checksum ^ change.astype("<u4")[:, None].view(np.uint8)
    offsets = (INFO_AT, RMID_AT, *range(_CRC_AT, _CRC_AT + _CRC_SIZE))
    places = np.stack([_inside(lsn, offset, segment_size) for offset in offsets], axis=1)
    return places.ravel(), values.ravel()


def _inside(lsn: Int64s, offset: int, segment_size: int) -> Int64s:
    """Return the positions of the bytes at an offset of records' headers, which a page's header may interrupt."""
    is_cut = lsn % PAGE_SIZE + offset >= PAGE_SIZE
    next_page = (lsn // PAGE_SIZE + 1) * PAGE_SIZE
    return lsn + offset + is_cut * np.where(next_page % segment_size == 0, LONG_HEADER, SHORT_HEADER)


@cache
def _checksum_changes() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what a record's checksum changes by, uint32[256], by the change of ``xl_info`` and that of ``xl_rmid``.

    Both lie among the last four bytes that the checksum is taken over; the two after them are padding.
    """
    nothing = crc32c(bytes(4))
    tables = [[crc32c(bytes([*bytes(at), change, *bytes(3 - at)])) ^ nothing for change in range(256)] for at in (0, 1)]
    return np.array(tables[0], np.uint32), np.array(tables[1], np.uint32)
