"""Blocks that a walsender streams with test_decoding while transactions run, before it knows whether they abort."""

from __future__ import annotations

import re
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from oracle.live import LiveStream

_OPENS = re.compile(rb"opening a streamed block for transaction TXN (\d+)")
_ABORTS = re.compile(rb"aborting streamed \(sub\)transaction TXN (\d+)")
_STREAMS = re.compile(rb"streaming (change|truncate|message)")
_OPTIONS = (("stream-changes", "1"), ("include-xids", "1"), ("skip-empty-xacts", "0"))


class LiveDecoding(LiveStream):
    """A stream of test_decoding.

    Args:
        server: where; slot: of it.
        work_mem: ``logical_decoding_work_mem``.
        immediate: ``debug_logical_replication_streaming``.
    """

    def __init__(self, server: EmbeddedPostgres, slot: str, work_mem: str = "64kB", immediate: bool = False) -> None:
        at_once = (("debug_logical_replication_streaming", "immediate"),) if immediate else ()
        super().__init__(server, slot, _OPTIONS, (("logical_decoding_work_mem", work_mem), *at_once))

    @property
    def blocks(self) -> list[list[int]]:
        """[xid, changes, truncates and messages] of each streamed block so far."""
        blocks: list[list[int]] = []
        for _, data in self.messages:
            if opened := _OPENS.match(data):
                blocks.append([int(opened[1]), 0])
            elif _STREAMS.match(data):
                blocks[-1][1] += 1
        return blocks

    @property
    def aborted(self) -> list[int]:
        """The transactions and subtransactions whose rollback was told."""
        matches = (_ABORTS.match(data) for _, data in self.messages)
        return [int(match[1]) for match in matches if match]


def flushed(connection: psycopg.Connection[Any]) -> int:
    """Return the LSN of the end of the log, once all that was written is flushed, by a small transaction's commit."""
    connection.execute("insert into ticks default values")
    (lsn,) = connection.execute("select pg_current_wal_flush_lsn()::text").fetchone() or ("0/0",)
    return int(Lsn.parse(lsn))
