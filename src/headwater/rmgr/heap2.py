"""Payloads of the HEAP2 resource manager (PostgreSQL: ``access/heapam_xlog.h``, ``heapam.c``, ``pruneheap.c``).

In: a record's main data and block data. Out: one dataclass per record, and its description (``heapdesc.c``).
PostgreSQL 17 merged PRUNE, VACUUM and FREEZE_PAGE into one format with three info codes; :func:`parse_prune` reads both
generations. Freeze plans, which change no tuple's content and no transaction's fate, are read for descriptions only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import RecordError
from headwater.pg.version import VERSIONS, Version
from headwater.rmgr.description_parts import Style, joined, letter, locator_text
from headwater.rmgr.heap import HEADER_SIZE, INIT_PAGE, OPMASK, TupleBytes, hex_byte, lock_text
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

REWRITE, PRUNE, VACUUM, FREEZE_PAGE, VISIBLE, MULTI_INSERT, LOCK_UPDATED, NEW_CID = range(0x00, 0x80, 0x10)
PRUNE_ON_ACCESS, PRUNE_VACUUM_SCAN, PRUNE_VACUUM_CLEANUP = 0x10, 0x20, 0x30
"""The info codes 0x10 to 0x30 from 17 on."""

_MULTI_INSERT = struct.Struct("<BxH")
_MULTI_TUPLE = struct.Struct("<HHHB")
_NEW_CID = struct.Struct("<IIIIIIIHHH")
_PRUNE_OLD = struct.Struct("<IHH")
_FREEZE_PLAN = struct.Struct("<IHHBxH")
_IS_CATALOG = 0x02
_HAS_CONFLICT, _HAS_PLANS, _HAS_REDIRECTS, _HAS_DEAD, _HAS_UNUSED = 0x08, 0x10, 0x20, 0x40, 0x80
_ALL_VISIBLE, _ALL_FROZEN = 0x100, 0x200
_ALL_FROZEN_SET, _VM_BITS = 0x20, 3

Tid = tuple[int, int]
"""The place of a tuple: block number, offset number."""


class MultiInsert(NamedTuple):
    """``xl_heap_multi_insert``: flags and the offset number of each tuple."""

    flags: int
    offnums: tuple[int, ...]


class NewCid(NamedTuple):
    """``xl_heap_new_cid``: the command that made or removed a catalog tuple.

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
    """The changes that pruning or vacuuming made to line pointers.

    Attributes:
        redirected: offset numbers that now redirect, and the numbers that they redirect to.
        dead: offset numbers now dead.
        unused: offset numbers now free.
    """

    redirected: tuple[tuple[int, int], ...] = ()
    dead: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FreezePlan:
    """``xlhp_freeze_plan``: the new headers of the tuples at ``offnums``."""

    xmax: int
    infomask: int
    infomask2: int
    offnums: tuple[int, ...]


def parse_multi_insert(main_data: bytes, is_init: bool, lsn: int) -> MultiInsert:
    """Read MULTI_INSERT's main data.

    With INIT_PAGE the offset numbers are 1 to n. Raises RecordError on a wrong size.
    """
    if len(main_data) < _MULTI_INSERT.size:
        raise _size("MULTI_INSERT", _MULTI_INSERT.size, main_data, lsn)
    flags, count = _MULTI_INSERT.unpack_from(main_data)
    if is_init:
        return MultiInsert(flags, tuple(range(1, count + 1)))
    return MultiInsert(flags, _u16s(main_data, _MULTI_INSERT.size, count, lsn))


def parse_multi_insert_tuples(block_data: bytes, count: int, lsn: int) -> list[TupleBytes]:
    """Read the tuples from block 0's data of a MULTI_INSERT. Raises RecordError if they do not fit the data."""
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
    """Read NEW_CID's main data. Raises RecordError on a wrong size."""
    if len(main_data) != _NEW_CID.size:
        raise _size("NEW_CID", _NEW_CID.size, main_data, lsn)
    top, cmin, cmax, combo, spc, db, rel, high, low, offnum = _NEW_CID.unpack(main_data)
    return NewCid(top, cmin, cmax, combo, (spc, db, rel), (high << 16 | low, offnum))


def parse_prune(main_data: bytes, block_data: bytes, op: int, major: int, lsn: int) -> Prune:
    """Read PRUNE, VACUUM or FREEZE_PAGE (before 17), PRUNE_* (from 17).

    Args:
        main_data: the record's main data.
        block_data: block 0's data; empty when the record has a full page image.
        op: ``info & 0x70``, 0x10 to 0x30.
        major: PostgreSQL's major version.
        lsn: the record's LSN, for errors.

    Raises:
        RecordError: the sizes do not fit.
    """
    if not block_data:
        return Prune()
    if VERSIONS[major].has_unified_prune:
        return _parse_prune_17(main_data, block_data, major, lsn)
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


def _parse_prune_17(main_data: bytes, block_data: bytes, major: int, lsn: int) -> Prune:
    """Read ``xl_heap_prune`` as heap_xlog_deserialize_prune_and_freeze does (17: pruneheap.c, heapdesc.c)."""
    sections, _ = _sections(_prune_flags(Payload(main_data, "PRUNE", lsn), major), block_data, lsn)
    return Prune(_pairs(sections[0]), sections[1], sections[2])


def _prune_flags(p: Payload, major: int) -> int:
    """Read the flags that a record begins with.

    Before 19 they come after a byte that gives the reason, as the info code also does.
    """
    if VERSIONS[major].sets_visibility_with_pruning:
        return p.u16()
    p.take(1)
    return p.u8()


def _sections(flags: int, block_data: bytes, lsn: int) -> tuple[list[tuple[int, ...]], int]:
    """Read the offset numbers redirected (in pairs), dead and unused; and return the offset after them."""
    at = 4 + _FREEZE_PLAN.size * _u16s(block_data, 0, 1, lsn)[0] if flags & _HAS_PLANS else 0
    sections: list[tuple[int, ...]] = []
    for flag, width in ((_HAS_REDIRECTS, 2), (_HAS_DEAD, 1), (_HAS_UNUSED, 1)):
        if not flags & flag:
            sections.append(())
            continue
        count = width * _u16s(block_data, at, 1, lsn)[0]
        sections.append(_u16s(block_data, at + 2, count, lsn))
        at += 2 + 2 * count
    return sections, at


def parse_freeze_plans(main_data: bytes, block_data: bytes, major: int, lsn: int) -> tuple[FreezePlan, ...]:
    """Read the plans of a FREEZE_PAGE (16) or PRUNE_* record (from 17 on).

    In 14 and 15 each plan has a tuple's place.

    Args:
        main_data: the record's main data.
        block_data: block 0's data; empty when the record has a full page image.
        major: 16 or newer.
        lsn: the record's LSN, for errors.

    Raises:
        RecordError: the sizes do not fit.
    """
    if not block_data:
        return ()
    if VERSIONS[major].has_unified_prune:
        flags = _prune_flags(Payload(main_data, "PRUNE", lsn), major)
        if not flags & _HAS_PLANS:
            return ()
        count, at = _u16s(block_data, 0, 1, lsn)[0], 4
        offsets_at = _sections(flags, block_data, lsn)[1]
    else:
        count, at = Payload(main_data[4:], "FREEZE_PAGE", lsn).u16(), 0
        offsets_at = count * _FREEZE_PLAN.size
    plans = []
    for number in range(count):
        start = at + number * _FREEZE_PLAN.size
        if start + _FREEZE_PLAN.size > len(block_data):
            raise _size("freeze plan", start + _FREEZE_PLAN.size, block_data, lsn)
        xmax, infomask2, infomask, _, tuples = _FREEZE_PLAN.unpack_from(block_data, start)
        plans.append(FreezePlan(xmax, infomask, infomask2, _u16s(block_data, offsets_at, tuples, lsn)))
        offsets_at += 2 * tuples
    return tuple(plans)


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (heap2_desc).

    Raises:
        RecordError: malformed.
    """
    op, version = record.info & OPMASK, style.version
    if op in (PRUNE, VACUUM, FREEZE_PAGE):
        if version.has_unified_prune:
            return _unified_prune(record, version.major)
        return _old_prune(record, op, version) if version.describes_with_colons else _oldest_prune(record, op)
    p = Payload(record.main_data, "HEAP2", record.lsn)
    named = version.describes_with_colons
    if op == VISIBLE:
        horizon, flags = p.u32(), hex_byte(p.u8())
        if named:
            return f"snapshotConflictHorizon: {horizon}, flags: {flags}"
        return f"cutoff xid {horizon} flags {flags}"
    if op == MULTI_INSERT:
        return _insertion(record, version)
    if op == LOCK_UPDATED:
        return lock_text(record.main_data, named, "xmax", record.lsn)
    return _command(parse_new_cid(record.main_data, record.lsn), named) if op == NEW_CID else ""


def _insertion(record: Record, version: Version) -> str:
    is_init = bool(record.info & INIT_PAGE)
    insert = parse_multi_insert(record.main_data, is_init, record.lsn)
    count, flags = len(insert.offnums), hex_byte(insert.flags)
    if not version.describes_with_colons:
        return f"{count} tuples flags {flags}"
    if version.sets_visibility_with_pruning and insert.flags & _ALL_FROZEN_SET:
        flags += f", vm_flags: {hex_byte(_VM_BITS)}"
    offsets = "" if is_init or not _block_data(record) else f", offsets: {joined(insert.offnums)}"
    return f"ntuples: {count}, flags: {flags}{offsets}"


def _command(cid: NewCid, named: bool) -> str:
    place = f"{cid.tid[0]}/{cid.tid[1]}"
    ids = f"cmin: {cid.cmin}, cmax: {cid.cmax}, combo: {cid.combo_cid}"
    if named:
        return f"rel: {locator_text(cid.locator)}, tid: {place}, {ids}"
    return f"rel {locator_text(cid.locator)}; tid {place}; {ids}"


def _unified_prune(record: Record, major: int) -> str:
    p = Payload(record.main_data, "PRUNE", record.lsn)
    flags = _prune_flags(p, major)
    horizon = f"snapshotConflictHorizon: {p.u32()}" if flags & _HAS_CONFLICT else ""
    text = f"{horizon}, isCatalogRel: {letter(flags & _IS_CATALOG)}"
    if flags & (_ALL_VISIBLE | _ALL_FROZEN):
        text += f", vm_flags: {hex_byte(flags >> 8 & 3)}"
    data = _block_data(record)
    if not data:
        return text
    prune = _parse_prune_17(record.main_data, data, major, record.lsn)
    plans = parse_freeze_plans(record.main_data, data, major, record.lsn)
    counts = f"nredirected: {len(prune.redirected)}, ndead: {len(prune.dead)}, nunused: {len(prune.unused)}"
    lists = (
        ("plans", [_plan_text(plan) for plan in plans]),
        ("redirected", [f"{old}->{new}" for old, new in prune.redirected]),
        ("dead", prune.dead),
        ("unused", prune.unused),
    )
    shown = "".join(f", {name}: {joined(values)}" for name, values in lists if values)
    return f"{text}, nplans: {len(plans)}, {counts}{shown}"


def _plan_text(plan: FreezePlan) -> str:
    masks = f"infomask: {plan.infomask}, infomask2: {plan.infomask2}"
    count = f"ntuples: {len(plan.offnums)}, offsets: {joined(plan.offnums)}"
    return f"{{ xmax: {plan.xmax}, {masks}, {count} }}"


def _old_prune(record: Record, op: int, version: Version) -> str:
    """Describe PRUNE, VACUUM and FREEZE_PAGE of 16."""
    p, data = Payload(record.main_data, "PRUNE", record.lsn), _block_data(record)
    if op == VACUUM:
        text = f"nunused: {p.u16()}"
        return f"{text}, unused: {joined(_rest(data, 0, record.lsn))}" if data else text
    text = f"snapshotConflictHorizon: {p.u32()}"
    if op == FREEZE_PAGE:
        text += f", nplans: {p.u16()}"
        plans = parse_freeze_plans(record.main_data, data, version.major, record.lsn)
        return f"{text}, plans: {joined(map(_plan_text, plans))}" if data else text
    text += f", nredirected: {p.u16()}, ndead: {p.u16()}"
    if not data:
        return text
    prune = parse_prune(record.main_data, data, op, version.major, record.lsn)
    redirected = joined(f"{old}->{new}" for old, new in prune.redirected)
    lists = f"redirected: {redirected}, dead: {joined(prune.dead)}, unused: {joined(prune.unused)}"
    return f"{text}, nunused: {len(prune.unused)}, {lists}"


def _oldest_prune(record: Record, op: int) -> str:
    """Describe PRUNE, VACUUM and FREEZE_PAGE of 14 and 15."""
    p = Payload(record.main_data, "PRUNE", record.lsn)
    if op == VACUUM:
        return f"nunused {p.u16()}"
    if op == FREEZE_PAGE:
        return f"cutoff xid {p.u32()} ntuples {p.u16()}"
    return f"latestRemovedXid {p.u32()} nredirected {p.u16()} ndead {p.u16()}"


def _block_data(record: Record) -> bytes:
    block = record.block(0)
    return block.data if block is not None else b""


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
