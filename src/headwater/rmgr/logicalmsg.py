"""Payload of the LOGICALMSG resource manager: ``pg_logical_emit_message`` (PostgreSQL: ``replication/message.h``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rmgr.description_parts import Style, shown_bytes
from headwater.rmgr.payload import Payload
from headwater.wal.records.record import Record

MESSAGE = 0x00

TRANSACTIONAL_AT, PREFIX_AT = 4, 24
"""The offsets of fields that kernels look at, after the database."""


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """``xl_logical_message``.

    Attributes:
        database: OID it was emitted in.
        transactional: whether the message belongs to its transaction; else it stands alone.
        prefix: as bytes in the server's encoding, without the NUL.
        content: any bytes.
    """

    database: int
    transactional: bool
    prefix: bytes
    content: bytes


def parse_message(main_data: bytes, lsn: int) -> LogicalMessage:
    """Read MESSAGE.

    Raises:
        RecordError: malformed.
    """
    p = Payload(main_data, "logical MESSAGE", lsn)
    database, transactional = p.u32(), p.flag()
    p.align(8)
    prefix_size, content_size = p.u64(), p.u64()
    prefix = p.take(prefix_size)
    if not prefix.endswith(b"\0"):
        raise p.error("its prefix has no end")
    return LogicalMessage(database, transactional, prefix.split(b"\0", 1)[0], p.take(content_size))


def describe(record: Record, _style: Style) -> str:
    """Describe a record as ``pg_waldump`` does (logicalmsg_desc): every byte of the content in hexadecimal.

    Raises:
        RecordError: malformed.
    """
    message = parse_message(record.main_data, record.lsn)
    kind = "transactional" if message.transactional else "non-transactional"
    content = message.content.hex(" ").upper()
    return f'{kind}, prefix "{shown_bytes(message.prefix)}"; payload ({len(message.content)} bytes): {content}'
