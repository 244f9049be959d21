"""Records of the SEQ resource manager described: a sequence's page (PostgreSQL: ``commands/sequence.h``)."""

from __future__ import annotations

from headwater.rmgr.description_parts import Style, locator_text
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record


def describe(record: Record, _style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (seq_desc).

    Raises:
        RecordError: malformed.
    """
    return f"rel {locator_text(Payload(record.main_data, 'sequence LOG', record.lsn).locator())}"
