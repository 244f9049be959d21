"""The part of conflicts that all sessions of a worker share, and how each begins with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headwater.apply.conflicts.conflict_log import ConflictLog
from headwater.apply.conflicts.conflicts import Conflicts
from headwater.apply.conflicts.counters import APPLY_ERRORS, SYNC_ERRORS, ConflictCounters
from headwater.apply.conflicts.decisions import Nodes
from headwater.apply.conflicts.deletions import Deletions
from headwater.apply.conflicts.own_origins import OwnOrigins
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.progress.deletion_tables import stop_watching
from headwater.apply.progress.installation import install
from headwater.apply.progress.origins import Origin, origin_name
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.session import TargetFacts, open_target
from headwater.errors import ConnectionLostError, HeadwaterError, ServerError, UsageError
from headwater.pg.version import VERSIONS

_SERVER = """
SELECT pg_catalog.current_setting('track_commit_timestamp'), EXISTS (
    SELECT FROM pg_catalog.pg_attribute
    WHERE attrelid = 'pg_catalog.pg_subscription'::regclass AND attname = 'subretaindeadtuples')
"""
_OWN_NODE = """
SELECT system_identifier || '/' || (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
FROM pg_catalog.pg_control_system()
"""
_NOTE_NODE = """
INSERT INTO headwater.subscription_node VALUES ($1, $2) ON CONFLICT (subname) DO UPDATE SET node = excluded.node
"""
_NODES = "SELECT subname, node FROM headwater.subscription_node"
_HAS_TABLE = "SELECT pg_catalog.to_regclass($1) IS NOT NULL"

Say = Callable[[str], None]


class ConflictSetup:
    """The setup.

    Args:
        subscription: its name; target: libpq's connection string; rules: what is done about conflicts.
        say: gets lines of the log.

    Attributes:
        counters: counts of the worker.
    """

    def __init__(self, subscription: str, target: str, rules: ConflictRules, say: Say) -> None:
        self._subscription, self._target, self._rules, self._say = subscription, target, rules, say
        self.counters = ConflictCounters(subscription)
        self._careful: set[int] = set()
        self._log: ConflictLog | None = None
        self._nodes = Nodes("", "", {})
        keeps = rules.keeps_deleted_seconds
        self._deletions = None if keeps is None else Deletions(subscription, keeps, say)

    def check(self, connection: TargetConnection, source: Callable[[], str]) -> None:
        """See that rules can be followed on the target; its schema is made.

        Args:
            connection: the target's; source: asks for the source's node.

        Raises:
            UsageError: they cannot.
            ServerError: a server refuses.
        """
        install(connection)
        ((tracks, is_inline),) = connection.rows(_SERVER)
        self._log = self._log or ConflictLog(
            self._subscription, self._rules, self.counters, self._say, is_inline=is_inline == "t"
        )
        if self._rules.needs_times and tracks != "on":
            hint = "set it there, and restart the server; or leave the rules out"
            raise UsageError("rules for conflicts need track_commit_timestamp = on on the target", hint=hint)
        for table in self._rules.tables:
            namespace, _, name = table.partition(".")
            quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (namespace, name))
            if connection.rows(_HAS_TABLE, (quoted,)) != [("t",)]:
                raise UsageError(f'a rule for conflicts is for table "{table}", which the target does not have')
        if self._rules.compares_times:
            self._read_nodes(connection, source)
        if self._deletions is None:
            stop_watching(connection, self._subscription)
        else:
            self._deletions.tend(connection, is_now=True)

    def begin(
        self, connection: TargetConnection, facts: TargetFacts, origin: Origin, relations: RelationMap
    ) -> Conflicts:
        """Return the conflicts of a session, whose relations look for them.

        Args:
            connection: the session's; facts: of the target; origin: the session's; relations: its own.
        """
        ((tracks, is_inline),) = connection.rows(_SERVER)
        if self._log is None:
            self._log = ConflictLog(
                self._subscription, self._rules, self.counters, self._say, is_inline=is_inline == "t"
            )
        conflicts = Conflicts(
            connection,
            OwnOrigins.read(connection, origin, self._subscription),
            self._rules,
            self._log,
            detects=VERSIONS[facts.major].logs_conflicts,
            tracks=tracks == "on",
            careful=self._careful,
            nodes=self._nodes,
            deletions=self._deletions,
        )
        relations.origins = conflicts.origin_check
        return conflicts

    def count_error(self, error: HeadwaterError, *, is_of_sync: bool = False) -> None:
        """Count an error, and write down what was counted, by a connection of its own."""
        self.counters.count(SYNC_ERRORS if is_of_sync else APPLY_ERRORS)
        if isinstance(error, ConnectionLostError):
            return
        # What cannot be written now is written with what comes next.
        with suppress(ServerError):
            connection, _ = open_target(self._target, f"headwater apply {self._subscription} counts")
            with connection:
                if self._log is None:
                    self.counters.write(connection)
                else:
                    self._log.write_down(connection)

    def _read_nodes(self, connection: TargetConnection, source: Callable[[], str]) -> None:
        ((own,),) = connection.rows(_OWN_NODE)
        node = source()
        connection.rows(_NOTE_NODE, (self._subscription, node))
        others = {origin_name(str(name)): str(other) for name, other in connection.rows(_NODES)}
        self._nodes = Nodes(str(own), node, others)
