"""Records of the CLOG resource manager described (PostgreSQL: ``access/clog.h``, ``clogdesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

ZEROPAGE, TRUNCATE = 0x00, 0x10


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (clog_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "CLOG", record.lsn)
    page = p.i64() if style.version.has_wide_page_numbers else p.i32()
    return f"page {page}" if record.kind == ZEROPAGE else f"page {page}; oldestXact {p.u32()}"
