"""The replication origins that count as a subscription's own: rows of them do not conflict with what it sends.

These are its main one, those of sessions that apply streamed transactions ahead, and those of tables' copies. The last
are dropped when a copy is over, and their numbers are given to others. So how long each was used is kept in
``headwater.subscription_origin``.

PostgreSQL: origin.c. A subscription's rows that its tablesync worker has copied are of another origin there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headwater.apply.progress.origins import Origin, drop_origin
from headwater.apply.target.connection import TargetConnection

_NAMES = "SELECT roident, roname FROM pg_catalog.pg_replication_origin"
_PAST = """
SELECT roident, max(used_until)::text FROM headwater.subscription_origin WHERE subname = $1 GROUP BY roident
"""
_NUMBER = """
SELECT 'hw_' || d.oid || '_' || s.subid || '_sync_' FROM headwater.subscription s, pg_catalog.pg_database d
WHERE s.subname = $1 AND d.datname = pg_catalog.current_database()
"""
_BEFORE = "SELECT $1::timestamptz <= $2::timestamptz"


_NOTE = """
INSERT INTO headwater.subscription_origin SELECT $1, roident, pg_catalog.clock_timestamp()
FROM pg_catalog.pg_replication_origin WHERE roname = $2
"""


def drop_copys_origin(connection: TargetConnection, subscription: str, name: str) -> None:
    """Drop the origin of a table's copy; rows that have it stay the subscription's own.

    Args:
        connection: the target's; subscription: its name; name: the origin's.

    Raises:
        ServerError: it is in use, or the role may not.
    """
    connection.rows(_NOTE, (subscription, name))
    drop_origin(connection, name)


@dataclass
class OwnOrigins:
    """The origins, as of a session.

    Attributes:
        main: the session's; subscription: its name.
        numbers: those that are in use; past: until when others were, by number.
        names: of all origins that are known, by number.
    """

    main: Origin
    subscription: str
    numbers: set[int] = field(default_factory=set)
    past: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    _copies: str | None = None

    @classmethod
    def read(cls, connection: TargetConnection, main: Origin, subscription: str) -> OwnOrigins:
        """Read them."""
        own = cls(main, subscription)
        rows = connection.rows(_NUMBER, (subscription,))
        own._copies = str(rows[0][0]) if rows else None
        own.look(connection)
        return own

    def look(self, connection: TargetConnection) -> None:
        """Read the names of origins that there are now, and until when copies had others."""
        past = connection.rows(_PAST, (self.subscription,))
        self.past = {int(str(number)): str(until) for number, until in past}
        self.names = {int(str(number)): str(name) for number, name in connection.rows(_NAMES)}
        self.numbers = {number for number, name in self.names.items() if self._is_name(name)} | {self.main.number}

    def _is_name(self, name: str) -> bool:
        if self._copies is not None and name.startswith(self._copies):
            return True
        return re.fullmatch(rf"headwater_{self.subscription}(_P\d+)?", name) is not None

    def is_own(self, connection: TargetConnection, number: int, time: str | None) -> bool:
        """Tell whether a row is of one of them.

        Args:
            connection: the target's, in which nothing is waited for.
            number: ``roident`` of the row; time: of its commit.
        """
        if number and number not in self.names:
            self.look(connection)
        if number in self.numbers:
            return True
        until = self.past.get(number)
        if until is None or time is None:
            return False
        return connection.rows(_BEFORE, (time, until)) == [("t",)]

    def differs(self) -> str:
        """Return the condition that the commit ``s`` of a row is of none of them; it may hold for one that is new."""
        own = ", ".join(map(str, sorted(self.numbers)))
        past = [
            f"""NOT (s.roident = {number} AND s."timestamp" <= '{until}'::timestamptz)"""
            for number, until in sorted(self.past.items())
        ]
        return " AND ".join([f"s.roident NOT IN ({own})", *past])
