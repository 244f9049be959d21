"""The things that the parts of one session share: its connection, who the client is, what goes with it at its end.

Lives in the event loop. PostgreSQL: MyWalSnd, WalSndErrorCleanup (walsender.c), MyProcPort.
"""

from __future__ import annotations

from asyncio import to_thread
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError, SessionError
from headwater.pg.sqlstates import OBJECT_NOT_IN_PREREQUISITE_STATE, QUERY_CANCELED
from headwater.protocol.backend_messages import parameter_status, ready_for_query, report_of
from headwater.protocol.startup import SessionRequest
from headwater.walsender.activity import Activity
from headwater.walsender.connection import Connection
from headwater.walsender.served import Served
from headwater.walsender.statements import Statements


@dataclass
class SessionContext:
    """A session that has begun.

    Attributes:
        served: what is served, to all sessions; connection: the client's.
        pid: the session's number, which its client is told; request: what the client asked for when it came.
        statements: SQL of this session, and its transaction; activity: what views tell of it.
        own_slots: names of temporary slots that go with the session.
        exported: name of the snapshot that the last command has exported; None without one.
        is_canceled: the command that runs is to end with an error.
        reported: settings that the client has been told of, as it was told.
    """

    served: Served
    connection: Connection
    pid: int
    request: SessionRequest
    statements: Statements
    activity: Activity
    own_slots: list[str]
    exported: str | None = None
    is_canceled: bool = False
    reported: dict[str, str] = field(default_factory=dict)

    def check_canceled(self) -> None:
        """Check that nobody has cancelled the command that runs.

        Raises:
            SessionError: somebody has.
        """
        if self.is_canceled:
            raise SessionError("canceling statement due to user request", sqlstate=QUERY_CANCELED)

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
        self.connection.send(report_of(error, context=context).as_bytes())

    def drop_exported(self) -> None:
        """Take back the snapshot that was exported: the next command does, whatever it is."""
        if self.exported is not None:
            self.served.snapshots.pop(self.exported)
            self.exported = None

    async def drop_temporary(self) -> None:
        """Drop the temporary slots of this session, as the server does after any error of it."""
        while self.own_slots:
            name = self.own_slots.pop()
            if name in self.served.slots.names():
                await to_thread(self.served.slots.drop, name, self.pid, False)

    async def leave(self) -> None:
        """Take back all that goes with the session."""
        self.drop_exported()
        await to_thread(self.statements.close)
        await self.drop_temporary()
