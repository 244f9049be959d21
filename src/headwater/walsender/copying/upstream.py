"""The primary as the source of rows: a snapshot of it whose place in the log is known, and what is copied in it.

One connection has a transaction, a temporary slot that was made in it, and the slot's snapshot. A slot of ours that
begins at the same place has every later transaction, and none of those whose rows the snapshot shows.

PostgreSQL: CreateReplicationSlot (CRS_USE_SNAPSHOT; walsender.c), as table synchronization does (tablesync.c).
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable

from headwater.errors import ServerError, SessionError
from headwater.pg.lsn import Lsn
from headwater.pg.sqlstates import INTERNAL_ERROR
from headwater.protocol.backend_messages import copy_data
from headwater.protocol.copy_frames import PIECE_BYTES, Piece
from headwater.receiver.replication_connection import ReplicationConnection, quoted
from headwater.walsender.copying.copy_stream import CopyStream
from headwater.walsender.copying.row_form import BINARY_TRAILER

Settings = Iterable[tuple[str, str]]


class UpstreamSnapshot:
    """A snapshot of a database of the primary.

    Args:
        conninfo: of the primary; the role needs REPLICATION, and SELECT on what is copied.
        database: its name.
        system_identifier: of the cluster that it must be.
        settings: of the session that values are printed under.

    Attributes:
        lsn: the snapshot has what committed before it; timeline: that the primary is on.

    Raises:
        ServerError: the primary refuses; ConnectionLostError: it cannot be reached.
        SessionError: it is another cluster.
    """

    def __init__(self, conninfo: str, database: str, system_identifier: int, settings: Settings) -> None:
        self._connection = ReplicationConnection(conninfo, database)
        try:
            self.timeline = check_system(self._connection, system_identifier)
            for name, value in settings:
                self._connection.rows(f"SELECT pg_catalog.set_config({_literal(name)}, {_literal(value)}, false)")
            self._connection.rows("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
            self.lsn = self._make_slot()
        except BaseException:
            self._connection.close()
            raise

    def _make_slot(self) -> int:
        name = quoted(f"headwater_{secrets.token_hex(8)}")
        new_form = self._connection.postgres.options_in_parentheses
        snapshot = "(SNAPSHOT 'use')" if new_form else "USE_SNAPSHOT"
        ((_, place, *_),) = self._connection.rows(
            f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput {snapshot}"
        )
        return int(Lsn.parse(place or ""))

    def copy(self, statement: str) -> CopyStream:
        """Run a COPY to the client.

        Raises:
            SessionError: the primary refuses.
        """
        try:
            self._connection.begin(statement)
            column_count, is_binary = self._connection.begin_copy()
        except ServerError as error:
            raise SessionError(error.message, sqlstate=error.sqlstate or INTERNAL_ERROR, hint=error.hint) from None
        return CopyStream(column_count, is_binary, self._pieces(is_binary))

    def _pieces(self, is_binary: bool) -> Generator[Piece]:
        pending, size, count = list[bytes](), 0, 0
        for payload in self._connection.pieces():
            pending.append(copy_data(payload))
            count, size = count + int(not is_binary or payload != BINARY_TRAILER), size + len(payload)
            if size >= PIECE_BYTES:
                yield Piece(memoryview(b"".join(pending)), count, 0)
                pending, size, count = [], 0, 0
        self._connection.finish()
        yield Piece(memoryview(b"".join(pending)), count, 0)

    def close(self) -> None:
        """Let go of the snapshot, and of the slot with it."""
        self._connection.close()


def check_system(connection: ReplicationConnection, expected: int) -> int:
    """Check that a server is of a cluster, by the system identifier; return the timeline that it is on.

    Raises:
        SessionError: it is another cluster.
    """
    ((identifier, timeline, *_),) = connection.rows("IDENTIFY_SYSTEM")
    if identifier != str(expected):
        raise SessionError(
            f"the primary is another cluster, of system identifier {identifier}, where the WAL is of {expected}"
        )
    return int(timeline or 0)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
