"""Records of the BRIN resource manager described (PostgreSQL: ``access/brin_xlog.h``, ``brindesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

CREATE_INDEX, INSERT, UPDATE, SAMEPAGE_UPDATE, REVMAP_EXTEND, DESUMMARIZE = range(0x00, 0x60, 0x10)
OPMASK = 0x70


def describe(record: Record, _style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (brin_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "BRIN", record.lsn)
    kind = record.info & OPMASK
    if kind == CREATE_INDEX:
        pages, version = p.u32(), p.u16()
        return f"v{version} pagesPerRange {pages}"
    if kind == INSERT:
        return f"heapBlk {p.u32()} pagesPerRange {p.u32()} offnum {p.u16()}"
    if kind == UPDATE:
        old = p.u16()
        p.align(4)
        return f"heapBlk {p.u32()} pagesPerRange {p.u32()} old offnum {old}, new offnum {p.u16()}"
    if kind == SAMEPAGE_UPDATE:
        return f"offnum {p.u16()}"
    if kind == REVMAP_EXTEND:
        return f"targetBlk {p.u32()}"
    return f"pagesPerRange {p.u32()}, heapBlk {p.u32()}, page offset {p.u16()}"
