"""Records of the SPGIST resource manager described (PostgreSQL: ``access/spgxlog.h``, ``spgdesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style, catalog_flag
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

ADD_LEAF, MOVE_LEAFS, ADD_NODE, SPLIT_TUPLE, PICKSPLIT = range(0x10, 0x60, 0x10)
VACUUM_LEAF, VACUUM_ROOT, VACUUM_REDIRECT = range(0x60, 0x90, 0x10)


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (spg_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "SP-GiST", record.lsn)
    kind = record.kind
    if kind == ADD_LEAF:
        is_new, is_null = p.flag(), p.flag()
        text = f"off: {p.u16()}, headoff: {p.u16()}, parentoff: {p.u16()}, nodeI: {p.u16()}"
        return text + " (newpage)" * is_new + " (nulls)" * is_null
    if kind == MOVE_LEAFS:
        moves, is_new, replaces, is_null = p.u16(), p.flag(), p.flag(), p.flag()
        p.align(2)
        text = f"nmoves: {moves}, parentoff: {p.u16()}, nodeI: {p.u16()}"
        return text + " (newpage)" * is_new + " (replacedead)" * replaces + " (nulls)" * is_null
    if kind == ADD_NODE:
        old, new, is_new, parent = p.u16(), p.u16(), p.flag(), p.i8()
        text = f"off: {old}, newoff: {new}, parentBlk: {parent}, parentoff: {p.u16()}, nodeI: {p.u16()}"
        return text + " (newpage)" * is_new
    if kind == SPLIT_TUPLE:
        text = f"prefixoff: {p.u16()}, postfixoff: {p.u16()}"
        return text + " (newpage)" * p.flag() + " (same)" * p.flag()
    if kind == PICKSPLIT:
        return _picksplit(p)
    if kind == VACUUM_LEAF:
        return f"ndead: {p.u16()}, nplaceholder: {p.u16()}, nmove: {p.u16()}, nchain: {p.u16()}"
    if kind == VACUUM_ROOT:
        return f"ndelete: {p.u16()}"
    text = f"ntoplaceholder: {p.u16()}, firstplaceholder: {p.u16()}"
    if not style.version.logs_catalog_flags:
        return f"{text}, newestredirectxid: {p.u32()}"
    return f"{text}, snapshotConflictHorizon: {p.u32()}{catalog_flag(p.flag(), style)}"


def _picksplit(p: Payload) -> str:
    is_root = p.flag()
    p.align(2)
    deleted, inserted = p.u16(), p.u16()
    p.take(2)
    inner = p.u16()
    p.take(1)
    is_null, is_parent = p.flag(), p.flag()
    p.align(2)
    text = f"ndelete: {deleted}, ninsert: {inserted}, inneroff: {inner}, parentoff: {p.u16()}, nodeI: {p.u16()}"
    return text + " (innerIsParent)" * is_parent + " (nulls)" * is_null + " (isRootSplit)" * is_root
