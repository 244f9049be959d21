"""A walsender that is asked while transactions run: what it streams before it knows whether they will abort."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from select import select
from typing import Any

import psycopg
from psycopg import pq

from headwater.demo.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn

_OPENS = re.compile(rb"opening a streamed block for transaction TXN (\d+)")
_FEEDBACK = struct.Struct(">cQQQqB")
_ABORTS = re.compile(rb"aborting streamed \(sub\)transaction TXN (\d+)")
_STREAMS = re.compile(rb"streaming (change|truncate|message)")


@dataclass
class LiveDecoding:
    """A replication connection that streams with test_decoding.

    Args:
        server: where.
        slot: its name.
        work_mem: ``logical_decoding_work_mem``.
        immediate: ``debug_logical_replication_streaming``.

    Attributes:
        blocks: [xid, changes, truncates and messages] of each streamed block so far.
        aborted: transactions and subtransactions whose rollback was told.
    """

    server: EmbeddedPostgres
    slot: str
    work_mem: str = "64kB"
    immediate: bool = False
    blocks: list[list[int]] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    _connection: Any = None
    _reached: int = 0

    def __enter__(self) -> LiveDecoding:
        settings = f"-c wal_sender_timeout=0 -c logical_decoding_work_mem={self.work_mem}"
        if self.immediate:
            settings += " -c debug_logical_replication_streaming=immediate"
        self._connection = self.server.connect(replication="database", options=settings)
        options = "\"stream-changes\" '1', \"include-xids\" '1', \"skip-empty-xacts\" '0'"
        command = f'START_REPLICATION SLOT "{self.slot}" LOGICAL 0/0 ({options})'
        found = self._connection.pgconn.exec_(command.encode())
        if found.status != pq.ExecStatus.COPY_BOTH:
            raise psycopg.OperationalError(found.get_error_message())
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read_to(self, lsn: int) -> None:
        """Take what it says until it has gone as far as an LSN that was flushed; asked if there is nothing to take."""
        connection, is_asked = self._connection.pgconn, False
        while self._reached < lsn:
            length, data = connection.get_copy_data(1)
            if length < 0:
                raise psycopg.OperationalError(connection.get_result().get_error_message())
            message = bytes(data)
            if message[:1] == b"k":
                (self._reached,) = struct.unpack_from(">Q", message, 1)
                is_asked = False
            elif message:
                self._take(message[25:])
            else:
                if not is_asked:
                    connection.put_copy_data(_FEEDBACK.pack(b"r", 1, 1, 1, 0, 1))
                    is_asked = connection.flush() == 0
                select([connection.socket], [], [])
                connection.consume_input()

    def _take(self, data: bytes) -> None:
        if opened := _OPENS.match(data):
            self.blocks.append([int(opened[1]), 0])
        elif _STREAMS.match(data):
            self.blocks[-1][1] += 1
        elif told := _ABORTS.match(data):
            self.aborted.append(int(told[1]))


def flushed(connection: psycopg.Connection[Any]) -> int:
    """LSN of the end of the log, once all that was written is flushed: what a small transaction's commit does."""
    connection.execute("insert into ticks default values")
    (found,) = connection.execute("select pg_current_wal_flush_lsn()::text").fetchone() or ("0/0",)
    return int(Lsn.parse(found))
