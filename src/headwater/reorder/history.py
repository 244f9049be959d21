"""Logical messages of a window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.catalog.store import CatalogStore
from headwater.rmgr.index import KeptRecord
from headwater.rmgr.logicalmsg import parse_message
from headwater.rmgr.registry import LOGICALMSG
from headwater.wal.record import Record, parse_record


@dataclass(frozen=True)
class LogicalMessage:
    """A message of ``pg_logical_emit_message`` (xl_logical_message)."""

    lsn: int
    end_lsn: int
    xid: int
    origin: int
    transactional: bool
    prefix: bytes
    content: bytes


@dataclass
class History:
    """The store rolled forward, and messages."""

    store: CatalogStore
    messages: list[LogicalMessage] = field(default_factory=list)


def read_history(kept: Iterable[KeptRecord], store: CatalogStore) -> History:
    """The messages of kept records."""
    history = History(store)
    for one in kept:
        if one.data[17] == LOGICALMSG:
            _message(parse_record(one.data, one.lsn, one.end_lsn, store.major), history)
    return history


def _message(record: Record, history: History) -> None:
    message = parse_message(record.main_data, record.lsn)
    if message.database == history.store.database_oid:
        history.messages.append(
            LogicalMessage(
                record.lsn,
                record.end_lsn,
                record.xid,
                record.origin,
                message.transactional,
                message.prefix,
                message.content,
            )
        )
