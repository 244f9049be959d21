"""Changes of rows, sent to the target one by one; where conflicts are looked for, each is looked at.

Of a partitioned table whose partitions differ, each change is routed before it is sent. What is sent is kept, as it may
have to be sent again, with checks.

PostgreSQL: worker.c (apply_handle_insert, apply_handle_update, apply_handle_delete, apply_handle_truncate,
apply_handle_tuple_routing).
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

from headwater.apply.conflicts.checked_changes import CheckedChanges
from headwater.apply.conflicts.conflicts import Conflicts
from headwater.apply.conflicts.descriptions import AppliedChange, RowChange
from headwater.apply.incoming.messages import (
    Delete,
    Insert,
    SentTuple,
    Truncate,
    Update,
)
from headwater.apply.incoming.remote_transaction import RemoteTransaction
from headwater.apply.progress.installation import SCHEMA
from headwater.apply.refused.set_aside import AppliedAgainError
from headwater.apply.serial.sent_transactions import Place, Step
from headwater.apply.serial.target_transaction import TargetTransaction
from headwater.apply.target.connection import Bound, Outcome
from headwater.apply.target.refusals import SentChange
from headwater.apply.target.relations import MappedRelation, in_leaf
from headwater.apply.target.statements import checks, choice, delete, find, insert, truncate, update
from headwater.errors import TargetError


class RowApplier(TargetTransaction):
    """The applier of rows; see :class:`headwater.apply.serial.target_transaction.TargetTransaction`."""

    def _row(self, message: RowChange, kind: str) -> None:
        if (root := self._opened(message.oid, kind)) is None:
            return
        if not isinstance(message, Insert):
            self._check(root, _search_of(message), kind)
        mapped = self._routed(root, message, kind) if root.leaves else root
        self._change_row(root, mapped, message, kind)

    def _routed(self, root: MappedRelation, message: RowChange, kind: str) -> MappedRelation:
        """Return the table as a change is made in it: limited to the partition that the row that is looked up is in."""
        if isinstance(message, Insert):
            self._leaf(root, message.new, kind)
            return root
        mapped = self._leaf(root, _search_of(message), kind)
        if isinstance(message, Update):
            self._may_move(root, message.new)
        return mapped

    def _repeat(self, step: Step) -> None:
        if callable(step):
            step()
            return
        root, mapped, message, kind, self._number = step
        if not self._aside.is_idle:
            if self._relations.sent(message.oid) != root.sent:
                raise AppliedAgainError("a relation was announced anew in a transaction", sqlstate="40001")
            self._set_aside(message)
            return
        self._use(root, message.oid)
        if not isinstance(message, Insert):
            self._check(root, _search_of(message), kind)
        self._change_row(root, mapped, message, kind)

    def _change_row(self, root: MappedRelation, mapped: MappedRelation, message: RowChange, kind: str) -> None:
        """Send a change of a row.

        Args:
            root: the table; mapped: the same, limited to a partition where that is needed.
            message: the change; kind: of the message.
        """
        try:
            bound = _bound(mapped, message)
        except TargetError as error:
            # What was sent before may have failed: that came first.
            self.flush()
            error.context = self._about(kind, mapped)()
            raise
        remote, conflicts = self._required(), self._conflicts
        self._as(mapped.role)
        row = message.old if isinstance(message, Delete) else message.new
        sent = SentChange(mapped, bound, row)
        if conflicts is None:
            take = None if isinstance(message, Insert) else partial(self._note, mapped=mapped, message=message)
            place = self._keep((root, mapped, message, kind, self._number))
            self._send(bound, take, self._about(kind, mapped, sent, place))
        elif self.checks_changes:
            about = self._about(kind, mapped, sent, Place.lost(remote))
            self._check_row(conflicts, AppliedChange(mapped, message, remote, about))
        else:
            place = self._keep((root, mapped, message, kind, self._number))
            about = self._about(kind, mapped, sent, place)
            if isinstance(message, Insert):
                self._send(bound, None, about)
            else:
                self._send_looked_at(conflicts, AppliedChange(mapped, message, remote, about), bound, place)

    def _send_looked_at(self, conflicts: Conflicts, change: AppliedChange, bound: Bound, place: Place) -> None:
        """Send a change, and look at its result once that comes."""

        def look(outcome: Outcome) -> None:
            # Of most rows there is nothing to be seen.
            rows = outcome.rows
            if outcome.count and (not rows or rows[0][0] is None):
                return
            if conflicts.met(outcome, change) and self._to_check is None:
                self._to_check = place

        origins = change.mapped.origins
        if origins is not None and not origins.is_returned:
            assert change.search is not None
            before = find(change.mapped, change.search, has_times=True, differs=origins.differs)
            self._send(before, lambda outcome: look(outcome) if outcome.count else None, change.about)
        self._send(bound, look, change.about)

    def _check_row(self, conflicts: Conflicts, change: AppliedChange) -> None:
        """Apply a change with checks."""
        try:
            self._settle()
            if self._to_check is not None:
                raise conflicts.checked_anew(change.remote)
            CheckedChanges(conflicts).apply(change)
        except TargetError as error:
            raise self._refused_with(error) from None

    def _check(self, mapped: MappedRelation, search: SentTuple, kind: str) -> None:
        """Send what has to hold of the row that is looked up, whether it is there or not."""
        if mapped.lengths or mapped.routing is not None:
            for check in checks(mapped, search):
                self._as(mapped.role)
                self._send(check, about=self._about(kind, mapped, SentChange(mapped, check, search, is_check=True)))

    def _leaf(self, mapped: MappedRelation, row: SentTuple, kind: str) -> MappedRelation:
        """Return a table limited to the partition that a row belongs to; the table itself where it belongs to none."""
        number = self._number_of_leaf(mapped, row, kind)
        try:
            return mapped if number is None else in_leaf(mapped, number)
        except TargetError as error:
            error.context = self._about(kind, mapped)()
            raise

    def _may_move(self, mapped: MappedRelation, new: SentTuple) -> None:
        """See that a row does not come to a foreign table that would take it."""
        number = self._number_of_leaf(mapped, new, "UPDATE")
        if number is not None and mapped.leaves[number].leaf.takes_inserts:
            self._leaf(mapped, new, "UPDATE")

    def _number_of_leaf(self, mapped: MappedRelation, row: SentTuple, kind: str) -> int | None:
        if (bound := choice(mapped, row)) is None:
            return None
        numbers: list[str | None] = []
        self._as(mapped.role)
        about = self._about(kind, mapped, SentChange(mapped, bound, row, is_check=True))
        self._send(bound, lambda outcome: numbers.append(outcome.rows[0][0]), about)
        self.flush()
        return None if numbers[0] is None else int(numbers[0])

    def _note(self, outcome: Outcome, mapped: MappedRelation, message: Update | Delete) -> None:
        if not outcome.count:
            self._missing(mapped, message)

    def _truncate(self, message: Truncate) -> None:
        mapped = [(oid, table) for oid in message.oids if (table := self._opened(oid, "TRUNCATE"))]
        if mapped:
            self._keep(partial(self._truncate_again, message, self._number))
            self._empty(mapped, message.restart_seqs)

    def _truncate_again(self, message: Truncate, number: int) -> None:
        self._number = number
        if self._aside.is_idle:
            self._truncate(message)
        else:
            self._set_aside(message)

    @abstractmethod
    def _set_aside(self, message: Insert | Update | Delete | Truncate) -> None:
        """Apply a change, unless it is kept for a paused table, or refused and put aside."""

    def _empty(self, tables: list[tuple[int, MappedRelation]], restart_seqs: bool) -> None:
        # Of several owners' tables the session's role empties all, together.
        roles = {table.role for _, table in tables}
        self._as(roles.pop() if len(roles) == 1 else None)
        self._send(truncate([table for _, table in tables], restart_seqs), about=self._about("TRUNCATE"))

    def _opened(self, oid: int, kind: str) -> MappedRelation | None:
        """Return a relation's table, in a transaction; None if its changes are not applied.

        It is being copied, or it is one of the source's own schema ``headwater``, as each server has its own.
        """
        remote = self._required()
        if self._skipping.is_skipping:
            return None
        mapped = self._used.get(oid)
        if mapped is None:
            sent = self._relations.sent(oid)
            if (sent is not None and sent.namespace == SCHEMA) or self._is_passed_over(oid, remote):
                return None
            if not self._relations.is_mapped(oid):
                self.flush()
            try:
                mapped = self._relations.mapped(oid, self._about(kind))
            except TargetError as error:
                if self._passes_over(oid, remote):
                    return None
                raise self._misfit(oid, remote, error) from None
            if not self._is_applied(mapped, remote):
                return None
            self._use(mapped, oid)
        return mapped

    def _passes_over(self, oid: int, remote: RemoteTransaction) -> bool:
        """Tell whether another worker has yet to change a table before it fits what comes here."""
        sent = self._relations.sent(oid)
        if self._definitions is None or sent is None or remote.finish_lsn is None:
            return False
        own = self._definitions.passes_over((sent.namespace, sent.name), remote.finish_lsn)
        if own is not None:
            self._passed_over[oid] = own
        return own is not None

    def _is_passed_over(self, oid: int, remote: RemoteTransaction) -> bool:
        """Tell the same of a relation whose table did not fit before, without asking the target again."""
        own = self._passed_over.get(oid)
        if own is None or remote.finish_lsn is None:
            return False
        if self._tables.applies(own, remote.finish_lsn):
            del self._passed_over[oid]
            return False
        return True

    def _misfit(self, oid: int, remote: RemoteTransaction, error: TargetError) -> TargetError:
        """Return what is raised where a relation cannot be mapped."""
        if self._definitions is None or remote.finish_lsn is None or self._relations.sent(oid) is None:
            return error
        return self._definitions.misfit(self._name(oid), remote.finish_lsn, error)

    def _is_applied(self, mapped: MappedRelation, remote: RemoteTransaction) -> bool:
        if remote.finish_lsn is not None:
            return self._tables.applies(mapped.oid, remote.finish_lsn)
        if not self._tables.is_ready(mapped.oid):
            raise TargetError("a transaction that runs is applied only where all tables are ready", sqlstate="55000")
        return True


def _search_of(message: Update | Delete) -> SentTuple:
    """Return the tuple that the row is looked up by."""
    old = message.old
    return message.new if isinstance(message, Update) and old is None else _required_tuple(old)


def _required_tuple(row: SentTuple | None) -> SentTuple:
    assert row is not None
    return row


def _bound(mapped: MappedRelation, message: RowChange) -> Bound:
    if isinstance(message, Insert):
        return insert(mapped, message.new)
    if isinstance(message, Update):
        return update(mapped, message.old, message.new)
    return delete(mapped, message.old)
