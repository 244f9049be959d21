"""A subscriber of a real server: what its walsender sends while transactions are in progress.

What a slot says when it is asked afterwards leaves out transactions that have been rolled back since; a walsender that
keeps up with the log does not know yet that they will be.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.pq import ExecStatus

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from oracle.streams import Options, format_lsn

_DATA, _KEEPALIVE = b"w"[0], b"k"[0]
_HOW_FAR = struct.pack(">BQQQQB", b"r"[0], 0, 0, 0, 0, 1)
"""Nothing is confirmed, and an answer is asked for."""

_PATIENCE = 0.02
"""Seconds after which a server that says nothing is asked how far it is."""


class LiveStream:
    """A slot's stream from its confirmed position on.

    Args:
        server: which runs; slot: of it.
        options: of the slot's plugin.
        settings: of the walsender's session.

    Attributes:
        messages: (lsn, data) in order, as far as they have been read.
    """

    def __init__(
        self, server: EmbeddedPostgres, slot: str, options: Options, settings: Sequence[tuple[str, str]]
    ) -> None:
        words = " ".join(f"-c {name}={value}" for name, value in (("wal_sender_timeout", "0"), *settings))
        self._connection = server.connect(replication="database", options=words)
        given = ", ".join(f"\"{name}\" '{value}'" for name, value in options)
        command = f"START_REPLICATION SLOT {slot} LOGICAL 0/0" + (f" ({given})" if given else "")
        result = self._connection.pgconn.exec_(command.encode())
        if result.status != ExecStatus.COPY_BOTH:
            raise psycopg.DatabaseError(result.error_message.decode())
        self.messages: list[tuple[int, bytes]] = []
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def read_to(self, lsn: int) -> None:
        """Read until all before an LSN has been decoded.

        Raises:
            TimeoutError: that took more than a minute.
        """
        pgconn: Any = self._connection.pgconn
        deadline = time.monotonic() + 60
        while self._seen < lsn:
            length, data = pgconn.get_copy_data(1)
            if length > 0:
                self._take(bytes(data))
            elif length < 0:
                reason = pgconn.get_result().error_message.decode()
                raise psycopg.DatabaseError(f"the stream ended behind {format_lsn(self._seen)}: {reason}")
            elif select.select([pgconn.socket], [], [], _PATIENCE)[0]:
                pgconn.consume_input()
            elif time.monotonic() > deadline:
                raise TimeoutError(f"nothing came for {format_lsn(lsn)}, seen {format_lsn(self._seen)}")
            else:
                pgconn.put_copy_data(_HOW_FAR)
                pgconn.flush()

    def _take(self, data: bytes) -> None:
        if data[0] == _DATA:
            start = struct.unpack(">Q", data[1:9])[0]
            self.messages.append((start, data[25:]))
        elif data[0] == _KEEPALIVE:
            self._seen = struct.unpack(">Q", data[1:9])[0]
