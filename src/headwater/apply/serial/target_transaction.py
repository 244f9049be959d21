"""The transaction of the target in which one of the source's is applied: what it has, and what is sent in it.

Invariants: it begins with the first change. The role is the session's at its beginning, and at its end.

PostgreSQL: worker.c (begin_replication_step, apply_error_callback).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from headwater.apply.conflicts.conflicts import Conflicts
from headwater.apply.incoming.messages import (
    Delete,
    Update,
)
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.progress.origins import Origin
from headwater.apply.progress.positions import FlushPositions
from headwater.apply.progress.table_states import AllTables, AppliedTables
from headwater.apply.refused.set_aside import SetAside
from headwater.apply.refused.skipping import Skipping
from headwater.apply.serial.context_words import words_of_context
from headwater.apply.serial.sent_transactions import Place, SentTransactions, Step
from headwater.apply.target.connection import Bound, Outcome, Statement, TargetConnection
from headwater.apply.target.refusals import SentChange
from headwater.apply.target.relation_map import RelationMap
from headwater.apply.target.relations import MappedRelation
from headwater.apply.target.rights import NO_ROLE, become
from headwater.errors import DecodingError, TargetError
from headwater.plugins.pgoutput.definitions import DefinitionChange

_BEGIN = Bound(Statement("BEGIN"))

Missing = Callable[[MappedRelation, Update | Delete], None]
"""A hearer of rows that were not there to be changed."""


class Definitions(Protocol):
    """A rule for DDL that comes."""

    def is_due(self, change: DefinitionChange, finish_lsn: int) -> bool:
        """Tell whether anything is to be done about a change, of a transaction that ends there."""

    def run(self, change: DefinitionChange, finish_lsn: int) -> None:
        """Do it, in the transaction that the connection is in."""

    def passes_over(self, name: tuple[str, str], finish_lsn: int) -> int | None:
        """Return the table of the subscription whose rows' changes are not applied here; None if they are."""

    def misfit(self, name: tuple[str, str], finish_lsn: int, error: TargetError) -> TargetError:
        """Return the error that is raised where a table does not take the columns that come."""


class TargetTransaction(ABC):
    """The transaction, with all that is applied by it.

    Args:
        connection: the target's, in a session for applying whose origin is set.
        relations: the source's relations, and the target's tables for them.
        origin: the session's.
        positions: gets what is durable.
        conflicts: of the session; None if none are looked for.
        tables: says of which tables changes are applied.
        definitions: takes the DDL that comes among the changes; None to pass over it.
        skipping: says which transaction is skipped.
        aside: says which changes are set aside.
        missing: is told of rows that are not there, where no conflicts are looked for.
    """

    def __init__(
        self,
        connection: TargetConnection,
        relations: RelationMap,
        origin: Origin,
        positions: FlushPositions,
        conflicts: Conflicts | None = None,
        tables: AppliedTables | None = None,
        definitions: Definitions | None = None,
        skipping: Skipping | None = None,
        aside: SetAside | None = None,
        missing: Missing = lambda *_: None,
    ) -> None:
        self._aside = aside or SetAside("", RefusalOptions())
        self._is_guarded, self._number = False, 0
        self._refused_in: RemoteTransaction | None = None
        self._skipping = skipping or Skipping("", 0)
        self._connection, self._relations, self._origin = connection, relations, origin
        self._positions, self._conflicts, self._missing = positions, conflicts, missing
        self._tables, self._definitions = tables or AllTables(), definitions
        self._remote: RemoteTransaction | None = None
        self._is_open = False
        self._used: dict[int, MappedRelation] = {}
        self._passed_over: dict[int, int] = {}
        self._role: str | None = None
        self._refused: SentChange | None = None
        self._statements = 0
        self._sent = SentTransactions()
        self._failed: Place | None = None
        self._to_check: Place | None = None
        self._is_careful = self._is_close = False
        self._is_taking = self._is_resending = self._has_resent = False
        self._size = self._ended_at = 0
        self._server = relations.server

    @property
    def checks_changes(self) -> bool:
        """Whether each change of the transaction is looked at before the next one, as it may meet a conflict."""
        remote, conflicts = self._remote, self._conflicts
        if conflicts is None:
            return False
        is_known = remote is not None and remote.finish_lsn in conflicts.careful
        is_close = self._is_close and conflicts.resends
        return is_known or self._is_careful or is_close or self._is_guarded or self.comes_apart

    @property
    def may_fold(self) -> bool:
        """Whether changes of the transaction may be applied together, behind a savepoint."""
        return not self.comes_apart and (self._is_close or not self.checks_changes)

    @property
    def resends(self) -> bool:
        """Whether transactions may have to be applied again: after a conflict, or without a row that is refused."""
        conflicts = self._conflicts
        return (conflicts is not None and conflicts.resends) or self._aside.is_asked_for

    @property
    def comes_apart(self) -> bool:
        """Whether transactions have to come one by one, as one of them may be skipped."""
        return self._skipping.is_set or self._aside.comes_apart

    @property
    def leaves_out(self) -> bool:
        """Whether changes that are not applied may be left out: there may be any, and nothing looks at numbers."""
        if self.comes_apart or self._aside.is_asked_for or not self._aside.is_idle:
            return False
        relations = self._relations
        return any(not self._tables.is_ready(relations.mapped(oid, str).oid) for oid in relations.known)

    def passes_over(self, oid: int) -> bool:
        """Tell whether changes of a relation are passed over in the transaction that has begun; false if it is open.

        Raises:
            ConnectionLostError: it was told to end.
        """
        remote = self._remote
        if remote is None or remote.finish_lsn is None or oid in self._used or not self._relations.is_mapped(oid):
            return False
        return not self._tables.applies(self._relations.mapped(oid, str).oid, remote.finish_lsn)

    def is_set_aside(self, mapped: MappedRelation) -> bool:
        """Tell whether a table's changes are kept for later, as it is paused."""
        return self._aside.is_paused((mapped.namespace, mapped.name))

    @property
    def is_inside(self) -> bool:
        """Whether a transaction has begun that has not ended."""
        return self._remote is not None

    def _settle(self) -> None:
        """Wait for the results of what was sent, whatever they are."""
        if self._connection.pending:
            self._connection.sync()
        self._connection.drain()

    def _name(self, oid: int) -> tuple[str, str]:
        sent = self._relations.sent(oid)
        return ("", "") if sent is None else (sent.namespace, sent.name)

    def _keep(self, step: Step) -> Place:
        """Keep a step, so that it can be sent again."""
        remote = self._required()
        if remote.finish_lsn is None or not self.resends or self._skipping.is_set:
            return Place.lost(remote)
        return self._sent.add(remote, step, self._size)

    def _lose(self) -> None:
        """Note that the transaction cannot be sent again from here: what was done now is not kept."""
        remote = self._required()
        if remote.finish_lsn is not None:
            self._sent.lose(remote)

    def _use(self, mapped: MappedRelation, oid: int) -> None:
        self._ensure_open()
        self._used[oid] = mapped

    def _as(self, role: str | None) -> None:
        """Make a role that of what is sent from here on in the transaction."""
        if role != self._role:
            self._send(NO_ROLE if role is None else become(role))
            self._role = role

    def _required(self) -> RemoteTransaction:
        if self._remote is None:
            raise DecodingError("a change is sent outside of a transaction")
        return self._remote

    def _ensure_open(self) -> None:
        if not self._is_open:
            self._send(_BEGIN)
            self._is_open = True

    def _send(
        self, bound: Bound, take: Callable[[Outcome], None] | None = None, about: Callable[[], str] | None = None
    ) -> None:
        self._statements += 1
        self._connection.send(bound, take, about)

    def _about(
        self,
        kind: str,
        mapped: MappedRelation | None = None,
        sent: SentChange | None = None,
        place: Place | None = None,
    ) -> Callable[[], str]:
        remote, origin, server = self._remote, self._origin, self._server

        def text() -> str:
            self._failed, self._refused, self._refused_in = place, sent, remote
            return words_of_context(origin.name, kind, mapped, remote, server)

        return text

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was sent is applied."""

    @abstractmethod
    def _refused_with(self, error: TargetError) -> TargetError:
        """Return an error in the apply worker's words."""

    @abstractmethod
    def _begins(self, remote: RemoteTransaction) -> None:
        """Begin a transaction of the source's."""
