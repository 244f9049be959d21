"""The functions and views that one session has, over the service that it is a session of.

PostgreSQL: pg_proc, system_views.sql.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from headwater.errors import SessionError
from headwater.protocol.startup import SessionRequest
from headwater.walsender.functions.byte_functions import byte_functions
from headwater.walsender.functions.session_functions import session_functions
from headwater.walsender.functions.slot_functions import slot_functions
from headwater.walsender.functions.views import (
    Row,
    SessionFacts,
    StreamFacts,
    activity_row,
    hidden,
    slot_row,
    slot_statistics_row,
    stream_row,
    view_of,
)
from headwater.walsender.operating.activity import SessionActivity, SessionState
from headwater.walsender.queries.functions import Function, Known, View
from headwater.walsender.queries.value_types import ValueType
from headwater.walsender.served import Served
from headwater.walsender.sessions.clock import now
from headwater.walsender.slot_operations import SlotOperations
from headwater.walsender.statements import Statements


@dataclass(frozen=True)
class SessionKnowledge:
    """The functions and views of one session.

    Attributes:
        served: the service; statements: of the session; request: what the client is.
        pid: the session's number.
    """

    served: Served
    statements: Statements
    request: SessionRequest
    pid: int

    @property
    def user(self) -> str:
        """The user's name."""
        return self.statements.user.name

    @property
    def database(self) -> str:
        """The database's name."""
        return self.request.database

    def known(self) -> Known:
        """Return the functions and the views."""
        version = self.served.cluster.version
        functions = defaultdict[str, list[Function]](list)
        groups = session_functions(self, version), slot_functions(self._slots, version), byte_functions(version)
        for function in chain.from_iterable(groups):
            functions[function.name].append(function)
        boolean_name = "bool" if version.casts_boolean_constants else ""
        names = self.user, self.database
        check = self.statements.interruption.check
        return Known(functions, self._view, self._written, *names, self.transaction_time, boolean_name, check)

    @property
    def _slots(self) -> SlotOperations:
        return SlotOperations(self.served, self.statements, self.request, self.pid)

    def _written(self, type: ValueType, value: Any) -> str:
        return type.write(value, self.statements.printing())

    def _view(self, name: str) -> View | None:
        rows = self._rows_of(name)
        if rows is None or not self.database:
            return None
        cluster = self.served.cluster
        with cluster.reading(self.database):
            return view_of(name, cluster.catalog(self.database, None), rows)

    def _rows_of(self, name: str) -> Callable[[], Iterable[Row]] | None:
        slots, names_reasons = self._slots, self.served.cluster.version.names_invalidation_reasons
        views: dict[str, Callable[[], Iterable[Row]]] = {
            "pg_replication_slots": lambda: (slot_row(slot, names_reasons=names_reasons) for slot in slots.facts()),
            "pg_stat_replication_slots": lambda: (
                slot_statistics_row(slot) for slot in slots.facts() if slot.plugin is not None
            ),
            "pg_stat_replication": lambda: (stream_row(s) for s in self._sessions() if s.stream is not None),
            "pg_stat_activity": lambda: map(activity_row, self._sessions()),
        }
        return views.get(name)

    def _sessions(self) -> list[SessionFacts]:
        activities = list(self.served.activities.values())
        facts = [self._facts(activity) for activity in activities if activity.state is not SessionState.STARTING]
        if self.statements.user.publications is None:
            return facts
        return [session if session.user == self.user else hidden(session) for session in facts]

    def _facts(self, activity: SessionActivity) -> SessionFacts:
        streamed, stream = activity.stream, None
        if streamed is not None:
            reached = streamed.sent, streamed.written, streamed.flushed, streamed.applied
            stream = StreamFacts(*reached, streamed.state.value, streamed.replied)
        return SessionFacts(
            pid=activity.pid,
            user=activity.user,
            application=activity.application_name,
            database=activity.database or None,
            database_oid=self.served.cluster.database_oid(activity.database),
            address=activity.host,
            port=activity.port,
            is_replication=activity.is_replication,
            started=activity.started,
            query_started=activity.query_started,
            state_changed=activity.state_changed,
            transaction_started=activity.transaction_started(),
            state=activity.state.value,
            query=activity.query,
            stream=stream,
        )

    def end_lsn(self) -> int:
        """Return where the log ends."""
        return self.served.cluster.end()[1]

    def shown(self, name: str, is_missing_ok: bool = False) -> str | None:
        """Return a setting; None if there is none and that is no error."""
        try:
            return self.statements.transaction.shown(name) or self.statements.settings.show(name)[1]
        except SessionError:
            if is_missing_ok:
                return None
            raise

    def change(self, name: str, value: str, is_local: bool) -> str:
        """Change a setting; return its value then."""
        self.statements.transaction.set(name, value, is_local)
        return self.statements.settings.show(name)[1]

    def transaction_time(self) -> int:
        """Return when the transaction began: microseconds since 2000-01-01."""
        return self.statements.transaction.started

    def time(self) -> int:
        """Return what time it is."""
        return now()

    def started(self) -> int:
        """Return when the service began."""
        return self.served.started
