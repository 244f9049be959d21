"""Records of the GENERIC resource manager described: parts of pages that extensions wrote (``genericdesc.c``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record


def describe(record: Record, _style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (generic_desc).

    Raises:
        RecordError: malformed.
    """
    p = Payload(record.main_data, "GENERIC", record.lsn)
    regions = []
    while p.at < len(p.data):
        offset, length = p.u16(), p.u16()
        p.take(length)
        regions.append(f"offset {offset}, length {length}")
    return "; ".join(regions)
