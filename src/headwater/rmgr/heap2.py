"""Payloads of the HEAP2 resource manager (PostgreSQL: ``access/heapam_xlog.h``, ``heapam.c``, ``pruneheap.c``).

In: a record's main data and block data. Out: one dataclass per record. PostgreSQL 17 merged PRUNE, VACUUM and
FREEZE_PAGE into one format with three info codes; :func:`parse_prune` reads both generations.

Known gap: freeze plans are skipped, as they change no tuple's content and no transaction's fate.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS
from headwater.rmgr.heap import HEADER_SIZE, TupleBytes

REWRITE, PRUNE, VACUUM, FREEZE_PAGE, VISIBLE, MULTI_INSERT, LOCK_UPDATED, NEW_CID = range(0x00, 0x80, 0x10)
PRUNE_ON_ACCESS, PRUNE_VACUUM_SCAN, PRUNE_VACUUM_CLEANUP = 0x10, 0x20, 0x30
"""What 0x10 to 0x30 are called from 17 on."""

_MULTI_INSERT = struct.Struct("<BxH")
_MULTI_TUPLE = struct.Struct("<HHHB")
_NEW_CID = struct.Struct("<IIIIIIIHHH")
_PRUNE_OLD = struct.Struct("<IHH")
_REWRITE = struct.Struct("<IIIxxxxqIxxxxQ")
_MAPPING = struct.Struct("<IIIIIIHHHHHH")
_FREEZE_PLAN_SIZE = 12
_HAS_CONFLICT, _HAS_PLANS, _HAS_REDIRECTS, _HAS_DEAD, _HAS_UNUSED = 0x08, 0x10, 0x20, 0x40, 0x80

Tid = tuple[int, int]
"""A tuple's place: block number, offset number."""


@dataclass(frozen=True, slots=True)
class MultiInsert:
    """``xl_heap_multi_insert``: flags and the offset number of each tuple."""

    flags: int
    offnums: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NewCid:
    """``xl_heap_new_cid``: which command made or removed a catalog tuple.

    Attributes:
        top_xid: toplevel xid.
        cmin: command that inserted it, 0xFFFFFFFF if unknown here; cmax: command that deleted it, likewise.
        combo_cid: the combo command id, 0xFFFFFFFF if none.
        locator: (tablespace, database, file number).
        tid: the tuple's place.
    """

    top_xid: int
    cmin: int
    cmax: int
    combo_cid: int
    locator: tuple[int, int, int]
    tid: Tid


@dataclass(frozen=True, slots=True)
class Prune:
    """What pruning or vacuuming did to line pointers.

    Attributes:
        redirected: offset numbers that now redirect, and to which.
        dead: offset numbers now dead.
        unused: offset numbers now free.
    """

    redirected: tuple[tuple[int, int], ...] = ()
    dead: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """``xl_heap_rewrite_mapping``: where tuples of a rewritten catalog went: (old locator, new, old tid, new tid)."""

    mapped_xid: int
    database: int
    relation: int
    start_lsn: int
    mappings: tuple[tuple[tuple[int, int, int], tuple[int, int, int], Tid, Tid], ...]


def parse_multi_insert(main_data: bytes, is_init: bool, lsn: int) -> MultiInsert:
    """MULTI_INSERT's main data; with INIT_PAGE the offset numbers are 1 to n. Raises RecordError on a wrong size."""
    if len(main_data) < _MULTI_INSERT.size:
        raise _size("MULTI_INSERT", _MULTI_INSERT.size, main_data, lsn)
    flags, count = _MULTI_INSERT.unpack_from(main_data)
    if is_init:
        return MultiInsert(flags, tuple(range(1, count + 1)))
    return MultiInsert(flags, _u16s(main_data, _MULTI_INSERT.size, count, lsn))


def parse_multi_insert_tuples(block_data: bytes, count: int, lsn: int) -> list[TupleBytes]:
    """Block 0's data of a MULTI_INSERT: its tuples. Raises RecordError if they do not fit the data."""
    tuples, at = [], 0
    for _ in range(count):
        at += at & 1
        if at + _MULTI_TUPLE.size > len(block_data):
            raise _size("MULTI_INSERT data", at + _MULTI_TUPLE.size, block_data, lsn)
        length, infomask2, infomask, hoff = _MULTI_TUPLE.unpack_from(block_data, at)
        at += _MULTI_TUPLE.size
        tail = block_data[at : at + length]
        if len(tail) != length or not HEADER_SIZE <= hoff <= HEADER_SIZE + length:
            raise RecordError(f"MULTI_INSERT tuple of {length} bytes with t_hoff {hoff} does not fit", lsn=lsn)
        tuples.append(TupleBytes(infomask2, infomask, hoff, tail))
        at += length
    return tuples


def parse_new_cid(main_data: bytes, lsn: int) -> NewCid:
    """NEW_CID's main data. Raises RecordError on a wrong size."""
    if len(main_data) != _NEW_CID.size:
        raise _size("NEW_CID", _NEW_CID.size, main_data, lsn)
    top, cmin, cmax, combo, spc, db, rel, high, low, offnum = _NEW_CID.unpack(main_data)
    return NewCid(top, cmin, cmax, combo, (spc, db, rel), (high << 16 | low, offnum))


def parse_prune(main_data: bytes, block_data: bytes, op: int, major: int, lsn: int) -> Prune:
    """PRUNE, VACUUM or FREEZE_PAGE (before 17), PRUNE_* (from 17).

    Args:
        main_data: the record's.
        block_data: block 0's; empty when the record has a full page image.
        op: ``info & 0x70``, 0x10 to 0x30.
        major: PostgreSQL's.
        lsn: for errors.

    Raises:
        RecordError: the sizes do not fit.
    """
    if not block_data:
        return Prune()
    if VERSIONS[major].has_unified_prune:
        return _parse_prune_17(main_data, block_data, lsn)
    if op == FREEZE_PAGE:
        return Prune()
    if op == VACUUM:
        return Prune(unused=_rest(block_data, 0, lsn))
    if len(main_data) < _PRUNE_OLD.size:
        raise _size("PRUNE", _PRUNE_OLD.size, main_data, lsn)
    _, redirected, dead = _PRUNE_OLD.unpack_from(main_data)
    pairs = _u16s(block_data, 0, 2 * redirected, lsn)
    return Prune(
        _pairs(pairs), _u16s(block_data, 4 * redirected, dead, lsn), _rest(block_data, 4 * redirected + 2 * dead, lsn)
    )


def _parse_prune_17(main_data: bytes, block_data: bytes, lsn: int) -> Prune:
    """``xl_heap_prune`` and heap_xlog_deserialize_prune_and_freeze (17: pruneheap.c, heapdesc.c)."""
    if len(main_data) < 2:
        raise _size("PRUNE", 2, main_data, lsn)
    flags, at = main_data[1], 0
    if flags & _HAS_PLANS:
        at = 4 + _FREEZE_PLAN_SIZE * _u16s(block_data, 0, 1, lsn)[0]
    sections: list[tuple[int, ...]] = []
    for flag, width in ((_HAS_REDIRECTS, 2), (_HAS_DEAD, 1), (_HAS_UNUSED, 1)):
        if not flags & flag:
            sections.append(())
            continue
        count = width * _u16s(block_data, at, 1, lsn)[0]
        sections.append(_u16s(block_data, at + 2, count, lsn))
        at += 2 + 2 * count
    return Prune(_pairs(sections[0]), sections[1], sections[2])


def parse_rewrite(main_data: bytes, lsn: int) -> Rewrite:
    """REWRITE's main data. Raises RecordError on a wrong size."""
    if len(main_data) < _REWRITE.size:
        raise _size("REWRITE", _REWRITE.size, main_data, lsn)
    xid, database, relation, _, count, start = _REWRITE.unpack_from(main_data)
    if len(main_data) != _REWRITE.size + count * _MAPPING.size:
        raise _size("REWRITE", _REWRITE.size + count * _MAPPING.size, main_data, lsn)
    mappings = []
    for m in _MAPPING.iter_unpack(main_data[_REWRITE.size :]):
        mappings.append((m[0:3], m[3:6], (m[6] << 16 | m[7], m[8]), (m[9] << 16 | m[10], m[11])))
    return Rewrite(xid, database, relation, start, tuple(mappings))


def _u16s(data: bytes, at: int, count: int, lsn: int) -> tuple[int, ...]:
    if at + 2 * count > len(data):
        raise _size("offset array", at + 2 * count, data, lsn)
    return struct.unpack_from(f"<{count}H", data, at)


def _rest(data: bytes, at: int, lsn: int) -> tuple[int, ...]:
    return _u16s(data, at, max(len(data) - at, 0) // 2, lsn)


def _pairs(values: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(values[::2], values[1::2], strict=True))


def _size(what: str, expected: int, data: bytes, lsn: int) -> RecordError:
    return RecordError(f"{what} has {len(data)} bytes, expected {expected}", lsn=lsn)
