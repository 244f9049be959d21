"""Records of the MULTIXACT resource manager described (PostgreSQL: ``access/multixact.h``, ``mxactdesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

ZERO_OFF_PAGE, ZERO_MEM_PAGE, CREATE_ID, TRUNCATE_ID = range(0x00, 0x40, 0x10)

_STATUS_WORDS = ("keysh", "sh", "fornokeyupd", "forupd", "nokeyupd", "upd")


def describe(record: Record, style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (multixact_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "MULTIXACT", record.lsn)
    kind = record.kind
    if kind == CREATE_ID:
        multi = p.u32()
        p.align(8 if style.version.has_wide_members else 4)
        offset, count = _offset(p, style), p.i32()
        numbers = p.u32s(2 * count)
        members = (f"{xid} ({_status(status)}) " for xid, status in zip(numbers[::2], numbers[1::2], strict=True))
        return f"{multi} offset {offset} nmembers {count}: {''.join(members)}"
    if kind == TRUNCATE_ID:
        p.take(4)
        if style.version.has_wide_members:
            return f"oldestMulti {p.u32()}, oldestOffset {_offset(p, style)}"
        return f"offsets [{p.u32()}, {p.u32()}), members [{p.u32()}, {p.u32()})"
    return str(p.i64() if style.version.has_wide_page_numbers else p.i32())


def _offset(p: Payload, style: Style) -> int:
    return p.u64() if style.version.has_wide_members else p.u32()


def _status(status: int) -> str:
    return _STATUS_WORDS[status] if status < len(_STATUS_WORDS) else "unk"
