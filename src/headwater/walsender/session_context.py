"""The things that the parts of one session share: its connection, who the client is, what goes with it at its end.

Lives in the event loop. PostgreSQL: MyWalSnd, WalSndErrorCleanup (walsender.c), MyProcPort.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.sqlstates import OBJECT_NOT_IN_PREREQUISITE_STATE, QUERY_CANCELED
from headwater.protocol.backend_messages import Report, parameter_status, ready_for_query, report_of
from headwater.protocol.replication_messages import present
from headwater.protocol.startup import SessionRequest
from headwater.walsender.connection import Connection
from headwater.walsender.operating.activity import SessionActivity
from headwater.walsender.operating.session_log import log_report
from headwater.walsender.operating.timeouts import IdleLimit, idle_limit
from headwater.walsender.served import Served
from headwater.walsender.statements import Statements

_MOST_PENDING = 256 << 10
"""Bytes of answers that are sent together."""


@dataclass
class SessionContext:
    """A session that has begun.

    Attributes:
        served: what is served, to all sessions; connection: the client's.
        pid: the session's number, which its client is told; request: what the client asked for when it came.
        statements: SQL of this session, and its transaction.
        activity: what the session does, for whoever watches it.
        exported: name of the snapshot that the last command has exported; None without one.
        is_canceled: the command that runs is to end with an error.
        reported: settings that the client has been told of, as it was told.
        text: what the client has sent last, for the log. loop: that the session lives in.
    """

    served: Served
    connection: Connection
    pid: int
    request: SessionRequest
    statements: Statements
    activity: SessionActivity
    exported: str | None = None
    is_canceled: bool = False
    termination: SessionError | None = None
    reported: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def begin(self, text: str) -> None:
        """Begin with what the client asks for: whatever came before is over."""
        self.is_canceled, self.text = False, text
        self.statements.interruption.begin(self.statements.settings.milliseconds["statement_timeout"])
        self.activity.begin(text)

    def check_canceled(self) -> None:
        """Check that nobody has cancelled the command that runs.

        Raises:
            SessionError: somebody has, or the session is to end.
        """
        if self.termination is not None:
            raise self.termination
        if self.is_canceled:
            raise SessionError("canceling statement due to user request", sqlstate=QUERY_CANCELED)

    def check_deadline(self) -> None:
        """Check that the statement that runs may go on, where it can be ended: between pieces of rows.

        Raises:
            SessionError: somebody has cancelled it, or it has taken too long.
        """
        self.statements.interruption.check()

    def send_pieces(self, pieces: Iterator[bytes]) -> bytes:
        """Send an answer, but for its last piece, which is returned; runs in a thread, which waits for the client."""
        pending = b""
        try:
            for piece in pieces:
                if len(pending) > _MOST_PENDING:
                    self.send_from_thread(pending)
                    pending = b""
                pending += piece
        except BaseException:
            if pending:
                self.send_from_thread(pending)
            raise
        return pending

    def send_from_thread(self, data: bytes | memoryview) -> None:
        """Send bytes, and wait until the client has room for more; called in a thread."""

        async def send() -> None:
            self.connection.send(data)
            await self.connection.drained()

        asyncio.run_coroutine_threadsafe(send(), self.loop).result()

    def idle_limit(self) -> IdleLimit | None:
        """Return how long the client may say nothing now; None for ever."""
        began = self.activity.transaction_started()
        seconds = None if began is None else (present() - began) / 1e6
        return idle_limit(self.statements.settings.milliseconds, seconds)

    def check_database(self) -> None:
        """Check that the session is of a database.

        Raises:
            SessionError: it is one of physical replication.
        """
        if not self.request.database:
            raise SessionError(
                "logical decoding requires a database connection", sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE
            )

    def ready(self) -> None:
        """Tell the client that the next command may come, and before that of settings that have changed."""
        self.statements.ended()
        status = self.statements.transaction.status
        self.activity.end(status)
        self.activity.application_name = self.statements.settings.show("application_name")[1]
        self.connection.send(self.changed_settings() + ready_for_query(status))

    def changed_settings(self) -> bytes:
        """Return what the client is to be told of its settings (ReportChangedGUCOptions)."""
        settings = self.statements.settings.reported()
        changed = [(name, value) for name, value in settings if self.reported.get(name) != value]
        self.reported.update(changed)
        return b"".join(parameter_status(name, value) for name, value in changed)

    def failed(self, error: HeadwaterError, context: str | None = None) -> None:
        """Tell the client of an error; its transaction has failed, too."""
        self.statements.failed()
        report = report_of(error, context=context)
        self.served.counts.failed(report.sqlstate)
        log_report(report, self.text)
        self.connection.send(self._encoded(report))

    def _encoded(self, report: Report) -> bytes:
        """Return what the client is told; where its encoding lacks a character of that, that it does (elog.c)."""
        try:
            return report.as_bytes(self.statements.settings.encoded)
        except SessionError as error:
            return report_of(error).as_bytes()

    def drop_exported(self) -> None:
        """Take back the snapshot that was exported: the next command does, whatever it is."""
        if self.exported is not None:
            self.served.snapshots.pop(self.exported)
            self.exported = None

    async def drop_temporary(self) -> None:
        """Drop the temporary slots of this session, as the server does after any error of it."""
        if self.served.slots.owns(self.pid):
            await to_thread(self.served.slots.drop_owned, self.pid)

    async def leave(self) -> None:
        """Take back all that goes with the session."""
        self.drop_exported()
        await to_thread(self.statements.close)
        await self.drop_temporary()
