"""Conflicts of a session: noted while changes are applied, told of once the target has answered.

Changes that meet none cost no question more. A conflict that nothing is to be decided about is noted when its
statement's result comes, and described when all results have come. Where something is to be decided, or to be written
down with the transaction, that is applied again with checks: see
:mod:`headwater.apply.conflicts.checked_changes`.

PostgreSQL: replication/logical/conflict.c (ReportApplyConflict); 18 and 19. Older servers detect nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.apply.conflicts.conflict_log import ConflictLog
from headwater.apply.conflicts.decisions import Nodes
from headwater.apply.conflicts.deletions import Deletions, last_deletion
from headwater.apply.conflicts.descriptions import AppliedChange, Descriptions
from headwater.apply.conflicts.own_origins import OwnOrigins
from headwater.apply.conflicts.remote_rows import rows_of
from headwater.apply.conflicts.wording import Writer
from headwater.apply.incoming.conflict_kinds import Kind
from headwater.apply.incoming.conflict_rules import ConflictRules, Rule
from headwater.apply.incoming.messages import Delete
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.progress.deletion_tables import IS_TRIGGER
from headwater.apply.target.connection import Outcome, TargetConnection
from headwater.apply.target.relations import MappedRelation, OriginCheck
from headwater.apply.target.statements import find
from headwater.errors import TargetError

_TRIGGERS = f"""
SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgenabled IN ('R', 'A') AND NOT t.tgisinternal
               AND NOT t.{IS_TRIGGER}
               AND t.tgrelid IN (SELECT $1::oid
                                 UNION ALL SELECT p.relid FROM pg_catalog.pg_partition_tree($1::oid::regclass) p))
"""


@dataclass(frozen=True)
class _Noted:
    """A conflict that is to be told of: the change, and the local row as a statement has returned it."""

    change: AppliedChange
    record: str | None


class CheckedAnewError(TargetError):
    """A transaction has met a conflict, and has to come again to be applied with checks.

    Args:
        message, sqlstate, detail, hint, context: see :class:`headwater.errors.TargetError`.
    """


class Conflicts:
    """The conflicts.

    Args:
        connection: the target's; origins: the subscription's own; rules: what is done.
        log: is told of conflicts.
        detects: the server's own worker would detect them; tracks: the target tracks commit times.
        careful: STARTs of commit records of transactions that are applied with checks from their beginning.
        nodes: of servers.
        deletions: that are kept; None for none.
    """

    def __init__(
        self,
        connection: TargetConnection,
        origins: OwnOrigins,
        rules: ConflictRules,
        log: ConflictLog,
        *,
        detects: bool,
        tracks: bool,
        careful: set[int],
        nodes: Nodes,
        deletions: Deletions | None = None,
    ) -> None:
        self.nodes, self._deletions = nodes, deletions
        self.connection, self.origins, self.rules, self.log = connection, origins, rules, log
        self.detects, self.tracks, self.careful = detects, tracks, careful
        self.descriptions = Descriptions(connection, origins)
        self._noted: list[_Noted] = []

    @property
    def resends(self) -> bool:
        """Whether transactions may have to be applied again."""
        return self.detects or bool(self.rules.rules)

    def origin_check(self, table: str) -> OriginCheck | None:
        """Return how rows of others are noticed in a table, as ``schema.table``; None if they are not."""
        is_ruled = any(kind.is_of_origins for kind in self.rules.kinds(table))
        if not self.tracks or not (self.detects or is_ruled):
            return None
        return OriginCheck(self.origins.differs(), is_returned=self.detects)

    def waits_before_end(self, tables: Iterable[MappedRelation]) -> bool:
        """Tell whether the end of a transaction waits until all changes of tables were looked at."""
        is_full = self.detects and self.rules.fills
        return is_full or any(kind.is_missing or kind.is_of_origins for table in tables for kind in self._kinds(table))

    def detects_kind(self, table: str, kind: Kind) -> bool:
        """Tell whether conflicts of a kind are detected in a table, as ``schema.table``."""
        return self.detects or kind in self.rules.kinds(table)

    def met(self, outcome: Outcome, change: AppliedChange) -> bool:
        """Look at the result of a change; tell whether the change has to be applied again with checks."""
        record = outcome.rows[0][0] if outcome.rows and outcome.rows[0] else None
        if outcome.count and (record is None or not record.startswith("(")):
            return False
        is_delete = isinstance(change.message, Delete)
        if outcome.count:
            kinds = [Kind.DELETE_ORIGIN_DIFFERS if is_delete else Kind.UPDATE_ORIGIN_DIFFERS]
        else:
            kinds = [Kind.DELETE_MISSING] if is_delete else [Kind.UPDATE_MISSING]
            kinds += [] if is_delete or self._deletions is None else [Kind.UPDATE_DELETED]
        if any(self._decides(self.rules.rule(change.table, kind), kind) for kind in kinds):
            return True
        if self.detects:
            self._noted.append(_Noted(change, record if outcome.count else None))
        return False

    def missing_kind(self, change: AppliedChange) -> tuple[Kind, Writer | None]:
        """Return which conflict it is that the row of a change is missing, and who has deleted it, if that is known.

        Nothing is waited for.

        Raises:
            TargetError: the target refuses a value of the row.
        """
        if isinstance(change.message, Delete):
            return Kind.DELETE_MISSING, None
        deleted = None
        if self._deletions is not None:
            deleted = last_deletion(self.connection, self.descriptions, change, self._deletions.seconds)
        return (Kind.UPDATE_MISSING if deleted is None else Kind.UPDATE_DELETED), deleted

    def write_down(self) -> None:
        """Write counts and the like, outside of a transaction.

        Raises:
            ServerError: the target refuses, or is lost.
        """
        self.log.write_down(self.connection)
        if self._deletions is not None:
            self._deletions.tend(self.connection)

    def checked_anew(self, remote: RemoteTransaction) -> CheckedAnewError:
        """Return the error that makes a transaction come again, which is applied with checks then."""
        if remote.finish_lsn is not None:
            self.careful.add(remote.finish_lsn)
        return CheckedAnewError("a conflict was met, and is looked at again", sqlstate="40001")

    def forget(self, remotes: list[RemoteTransaction]) -> None:
        """Forget what was noted of transactions that are applied again."""
        self._noted = [noted for noted in self._noted if noted.change.remote not in remotes]

    def report(self) -> None:
        """Tell of what was noted; nothing is waited for.

        Raises:
            TargetError: the target refuses a value of a row that is not there.
        """
        noted, self._noted = self._noted, []
        for conflict in noted:
            self._report(conflict)

    def _report(self, noted: _Noted) -> None:
        change, descriptions = noted.change, self.descriptions
        try:
            record = noted.record or self._passed_over(change)
            if record is None:
                described = descriptions.missing(change, *self.missing_kind(change))
            else:
                row = descriptions.local(change.mapped, record)
                if not descriptions.differs(row):
                    return
                described = descriptions.origin_differs(change, row)
        except TargetError as error:
            error.context = "\n".join(filter(None, [error.context, change.about()]))
            raise
        self.log.tell(described, change)

    def _passed_over(self, change: AppliedChange) -> str | None:
        """Return the row of a change that a trigger of the target's has passed over, though the row is there."""
        plans = change.mapped.plans
        if "conflicts, triggers" not in plans:
            rows = self.connection.rows(_TRIGGERS, (str(change.mapped.oid),))
            plans["conflicts, triggers"] = rows == [("t",)]
        if not plans["conflicts, triggers"]:
            return None
        assert change.search is not None
        there = rows_of(self.connection, find(change.mapped, change.search, has_times=self.tracks))
        return there[0][0] if there else None

    def _decides(self, rule: Rule, kind: Kind) -> bool:
        return rule.is_given or (self.detects and self.rules.fills and not kind.is_unique)

    def _kinds(self, mapped: MappedRelation) -> frozenset[Kind]:
        return self.rules.kinds(f"{mapped.namespace}.{mapped.name}")
