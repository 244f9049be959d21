"""Records of the GIST resource manager described (PostgreSQL: ``access/gistxlog.h``, ``gistdesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style, catalog_flag, full_xid, locator_text
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

PAGE_UPDATE, DELETE, PAGE_REUSE, PAGE_SPLIT, PAGE_DELETE, ASSIGN_LSN = 0x00, 0x10, 0x20, 0x30, 0x60, 0x70


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (gist_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "GiST", record.lsn)
    kind = record.kind
    has_flag = style.version.logs_catalog_flags
    horizon = "snapshotConflictHorizon" if has_flag else "latestRemovedXid"
    if kind == PAGE_REUSE:
        text = f"rel {locator_text(p.locator())}; blk {p.u32()}; {horizon} {full_xid(p.u64())}"
    elif kind == DELETE:
        text = f"delete: {horizon} {p.u32()}, nitems: {p.u16()}"
    elif kind == PAGE_SPLIT:
        p.take(18)
        return f"page_split: splits to {p.u16()} pages"
    elif kind == PAGE_DELETE:
        return f"deleteXid {full_xid(p.u64())}; downlink {p.u16()}"
    else:
        return ""
    return text + catalog_flag(p.flag(), style, " ") if has_flag else text
