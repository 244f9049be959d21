"""The things that the parts of one session share: its connection, who the client is, what goes with it at its end.

Lives in the event loop. PostgreSQL: MyWalSnd, WalSndErrorCleanup (walsender.c), MyProcPort.
"""

from __future__ import annotations

import time
from asyncio import to_thread
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.sqlstates import OBJECT_NOT_IN_PREREQUISITE_STATE, QUERY_CANCELED
from headwater.protocol.backend_messages import parameter_status, ready_for_query, report_of
from headwater.protocol.replication_messages import present
from headwater.protocol.startup import SessionRequest
from headwater.walsender.connection import Connection
from headwater.walsender.operating.activity import SessionActivity
from headwater.walsender.operating.session_log import log_report
from headwater.walsender.operating.timeouts import IdleLimit, idle_limit
from headwater.walsender.served import Served
from headwater.walsender.statements import Statements


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
        deadline: when the statement that runs is to end with an error; None for never.
        text: what the client has sent last, for the log.
    """

    served: Served
    connection: Connection
    pid: int
    request: SessionRequest
    statements: Statements
    activity: SessionActivity
    exported: str | None = None
    is_canceled: bool = False
    reported: dict[str, str] = field(default_factory=dict)
    deadline: float | None = None
    text: str | None = None

    def begin(self, text: str) -> None:
        """Begin with what the client asks for: whatever came before is over."""
        self.is_canceled, self.text = False, text
        timeout = self.statements.settings.milliseconds["statement_timeout"]
        self.deadline = time.monotonic() + timeout / 1000 if timeout else None
        self.activity.begin(text)

    def check_canceled(self) -> None:
        """Check that nobody has cancelled the command that runs.

        Raises:
            SessionError: somebody has.
        """
        if self.is_canceled:
            raise SessionError("canceling statement due to user request", sqlstate=QUERY_CANCELED)

    def check_deadline(self) -> None:
        """Check that the statement that runs may go on, where it can be ended: between pieces of rows.

        Raises:
            SessionError: somebody has cancelled it, or it has taken too long.
        """
        self.check_canceled()
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise SessionError("canceling statement due to statement timeout", sqlstate=QUERY_CANCELED)

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
        self.connection.send(report.as_bytes())

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
