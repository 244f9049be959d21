"""Records of the HASH resource manager described (PostgreSQL: ``access/hash_xlog.h``, ``hashdesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style, catalog_flag, letter
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

INIT_META_PAGE, INIT_BITMAP_PAGE, INSERT, ADD_OVFL_PAGE, SPLIT_ALLOCATE_PAGE, SPLIT_PAGE = range(0x00, 0x60, 0x10)
SPLIT_COMPLETE, MOVE_PAGE_CONTENTS, SQUEEZE_PAGE, DELETE, SPLIT_CLEANUP = range(0x60, 0xB0, 0x10)
UPDATE_META_PAGE, VACUUM_ONE_PAGE = 0xB0, 0xC0

_NEW_MASKS, _NEW_SPLITPOINT = 0x01, 0x02


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (hash_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "hash", record.lsn)
    kind = record.kind
    if kind == INIT_META_PAGE:
        tuples, function, fill = p.f64(), p.u32(), p.u16()
        named = f"procid {function}, " if style.version.describes_more_of_indexes else ""
        return f"num_tuples {tuples:g}, {named}fillfactor {fill}"
    if kind == INIT_BITMAP_PAGE:
        return f"bmsize {p.u16()}"
    if kind == INSERT:
        return f"off {p.u16()}"
    if kind == ADD_OVFL_PAGE:
        return f"bmsize {p.u16()}, bmpage_found {letter(p.flag())}"
    if kind == SPLIT_ALLOCATE_PAGE:
        bucket, old, new, flags = p.u32(), p.u16(), p.u16(), p.u8()
        masks, point = letter(flags & _NEW_MASKS), letter(flags & _NEW_SPLITPOINT)
        buckets = f"old_bucket_flag {old}, new_bucket_flag {new}, " if style.version.describes_more_of_indexes else ""
        return f"new_bucket {bucket}, {buckets}meta_page_masks_updated {masks}, issplitpoint_changed {point}"
    if kind == SPLIT_COMPLETE:
        return f"old_bucket_flag {p.u16()}, new_bucket_flag {p.u16()}"
    if kind == MOVE_PAGE_CONTENTS:
        return f"ntups {p.u16()}, is_primary {letter(p.flag())}"
    if kind == SQUEEZE_PAGE:
        text = f"prevblkno {p.u32()}, nextblkno {p.u32()}, ntups {p.u16()}, is_primary {letter(p.flag())}"
        return text + (f", is_previous {letter(p.flag())}" if style.version.describes_more_of_indexes else "")
    if kind == DELETE:
        return f"clear_dead_marking {letter(p.flag())}, is_primary {letter(p.flag())}"
    if kind == UPDATE_META_PAGE:
        return f"ntuples {p.f64():g}"
    return _vacuum(p, style) if kind == VACUUM_ONE_PAGE else ""


def _vacuum(p: Payload, style: Style) -> str:
    if not style.version.logs_catalog_flags:
        horizon, tuples = p.u32(), p.i32()
        return f"ntuples {tuples}, latestRemovedXid {horizon}"
    horizon, tuples, is_catalog = p.u32(), p.u16(), p.flag()
    return f"ntuples {tuples}, snapshotConflictHorizon {horizon}{catalog_flag(is_catalog, style, ' ')}"
