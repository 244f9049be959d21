"""Kernels: which records stay in filtered WAL, and the bytes by which all others become NOOPs.

PostgreSQL: xlogrecord.h; rmgrlist.h; storage_xlog.h, relmapper.h (what lies in the main data of a record).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel
from headwater.pg.catalogs import GLOBAL_TABLESPACE
from headwater.rmgr import dbase, relmap, smgr, standby, xlog
from headwater.rmgr._locators import is_among
from headwater.rmgr._record import Int, parse_headers, u32
from headwater.rmgr.header_slots import BLOCKS, DB, MAIN_AT, MAIN_LENGTH, REL, SPC
from headwater.rmgr.registry import CLOG, DBASE, MULTIXACT, RELMAP, SMGR, STANDBY, XACT, XLOG
from headwater.wal.layout import INFO_AT, LONG_HEADER, PAGE_SIZE, RMID_AT, SHORT_HEADER, XLR_RMGR_INFO_MASK

DONE = -1
STAYS, GOES, MADE_AND_GOES, OF_ROLES = 0, 1, 2, 3
"""Marks of records: one that makes a file and goes has a mark of its own; so has one of roles, which stays."""

CRC_AT, CRC_SIZE = 20, 4

_LOCATOR_SIZE, _PLACE_SIZE, _NUMBER_SIZE = 12, 8, 4
_PARAMETER_CHANGE: Final = xlog.PARAMETER_CHANGE
_DECODING_CHANGE: Final = xlog.LOGICAL_DECODING_STATUS_CHANGE

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Uint32s = NDArray[np.uint32]


class WantedFiles(NamedTuple):
    """The files whose records stay.

    Attributes:
        databases: int64[n] OIDs of the database, and of those that it is a copy of; tablespaces: where each lies.
        shared, local: int64[] file numbers in ``global`` and in the databases' directories, sorted.
        roles: int64[] file numbers of ``pg_authid``, sorted.
    """

    databases: Int64s
    tablespaces: Int64s
    shared: Int64s
    local: Int64s
    roles: Int64s


@inline_kernel
def _is_place(spc: Int, db: Int, files: WantedFiles) -> bool:
    is_place = False
    for i in range(len(files.databases)):
        is_place |= files.databases[i] == db and files.tablespaces[i] == spc
    return bool(is_place)


@inline_kernel
def _is_database(db: Int, files: WantedFiles) -> bool:
    is_database = False
    for i in range(len(files.databases)):
        is_database |= files.databases[i] == db
    return bool(is_database)


@inline_kernel
def _holds(spc: Int, db: Int, rel: Int, files: WantedFiles) -> bool:
    if spc == GLOBAL_TABLESPACE:
        return bool(db == 0 and is_among(rel, files.shared))
    return bool(_is_place(spc, db, files) and is_among(rel, files.local))


@inline_kernel
def _main_holds(data: Bytes, at: Int, room: Int, files: WantedFiles) -> bool:
    """Tell whether a file stays that is named in main data, of which so many bytes are left."""
    if room < _LOCATOR_SIZE:
        return False
    return _holds(u32(data, at), u32(data, at + 4), u32(data, at + 8), files)


@inline_kernel
def _makes_place(data: Bytes, at: Int, room: Int, kind: Int, files: WantedFiles) -> bool:
    """Tell whether a record makes the directory of one of the databases."""
    # In 14 the second kind is that of a drop, which has a number of tablespaces where others have the first.
    if room < _PLACE_SIZE or not _is_place(u32(data, at + 4), u32(data, at), files):
        return False
    if kind == dbase.CREATE_FILE_COPY:
        return bool(room >= 2 * _PLACE_SIZE and _is_place(u32(data, at + 12), u32(data, at + 8), files))
    return bool(kind == dbase.CREATE_WAL_LOG)


@inline_kernel
def _without_block(data: Bytes, rmid: Int, kind: Int, headers: Int64s, files: WantedFiles) -> Int:
    main, length = headers[MAIN_AT], headers[MAIN_LENGTH]
    if rmid == SMGR:
        if kind == smgr.CREATE:
            return STAYS if _main_holds(data, main, length, files) else MADE_AND_GOES
        at = smgr.TRUNCATE_LOCATOR_AT
        return STAYS if _main_holds(data, main + at, length - at, files) else GOES
    if rmid == RELMAP and kind == relmap.UPDATE and length >= _NUMBER_SIZE:
        database = u32(data, main)
        return STAYS if database == 0 or _is_database(database, files) else GOES
    if rmid == DBASE:
        return STAYS if _makes_place(data, main, length, kind, files) else GOES
    if rmid == STANDBY:
        return GOES if kind == standby.LOCK else STAYS
    if rmid == XLOG:
        return GOES if kind in (_PARAMETER_CHANGE, _DECODING_CHANGE) else STAYS
    return STAYS if rmid in (XACT, CLOG, MULTIXACT) else GOES


@borrowing_kernel
def mark_records(data: Bytes, positions: Int64s, files: WantedFiles, headers: Int64s, marks: Bytes) -> Int:
    """Mark records.

    Args:
        data: uint8[] record bytes; positions: int64[n] offsets of the records.
        files: whose records stay.
        headers: int64[HEADERS_LENGTH] scratch.
        marks: uint8[n] receives the marks.

    Returns:
        DONE, or the number of a record that is malformed.
    """
    for i in range(len(positions)):
        at = positions[i]
        blocks = parse_headers(data, at, at + u32(data, at), headers)
        if blocks < 0:
            return i
        rmid, kind = np.int64(data[at + RMID_AT]), np.int64(data[at + INFO_AT]) & XLR_RMGR_INFO_MASK
        if blocks == 0:
            marks[i] = _without_block(data, rmid, kind, headers, files)
            continue
        spc, db, rel = headers[BLOCKS + SPC], headers[BLOCKS + DB], headers[BLOCKS + REL]
        if not _holds(spc, db, rel, files):
            marks[i] = GOES
        else:
            marks[i] = OF_ROLES if spc == GLOBAL_TABLESPACE and is_among(rel, files.roles) else STAYS
    return DONE


@inline_kernel
def _place(lsn: Int, offset: Int, segment_size: Int) -> Int:
    """Return the position of a byte of a record's header, which the header of one page may interrupt."""
    if lsn % PAGE_SIZE + offset < PAGE_SIZE:
        return lsn + offset
    next_page = (lsn // PAGE_SIZE + 1) * PAGE_SIZE
    return lsn + offset + (LONG_HEADER if next_page % segment_size == 0 else SHORT_HEADER)


@inline_kernel
def _put(raw: Bytes, at: Int, value: Int) -> None:
    if 0 <= at < len(raw):
        raw[at] = value


@borrowing_kernel
def make_noops(
    data: Bytes,
    positions: Int64s,
    lsns: Int64s,
    marks: Bytes,
    segment_size: Int,
    by_info: Uint32s,
    by_rmid: Uint32s,
    raw: Bytes,
    raw_lsn: Int,
) -> None:
    """Make NOOPs of the records that go.

    Args:
        data, positions, marks: as of :func:`mark_records`; lsns: int64[n] where the records start.
        segment_size: bytes.
        by_info, by_rmid: uint32[256] the change of a checksum by that of ``xl_info``, of ``xl_rmid``.
        raw: uint8[] the bytes of the WAL, which are changed; raw_lsn: where they begin.
    """
    for i in range(len(positions)):
        if marks[i] != GOES and marks[i] != MADE_AND_GOES:
            continue
        at = positions[i]
        info, rmid = np.int64(data[at + INFO_AT]), np.int64(data[at + RMID_AT])
        crc = u32(data, at + CRC_AT) ^ np.int64(by_info[info ^ xlog.NOOP]) ^ np.int64(by_rmid[rmid ^ XLOG])
        _put(raw, _place(lsns[i], INFO_AT, segment_size) - raw_lsn, xlog.NOOP)
        _put(raw, _place(lsns[i], RMID_AT, segment_size) - raw_lsn, XLOG)
        for byte in range(CRC_SIZE):
            _put(raw, _place(lsns[i], CRC_AT + byte, segment_size) - raw_lsn, crc >> 8 * byte & 0xFF)
