"""The changes that are set aside: as dead letters, or for a table that is paused.

A refusal ends the transaction first, as without any of this. Then that one is applied again with a savepoint before
each change of a row that may be set aside: only there single refusals are known, and the rest can stay.

Many changes of a large transaction are sent together, behind a savepoint. Refused ones are parted, until only
a few are left around what is refused. Those are taken by themselves, and so is what follows in the transaction.

Invariants: what is set aside is committed with the rest of its transaction. Of a paused table every change is kept, in
order. While a transaction is to be applied again, none comes as a batch or runs ahead.

Known gap: what a table's own worker catches up with is not set aside.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.apply.incoming.messages import Delete, Insert, Truncate, Update
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.refused.dead_letters import Change, Place, add_letter, pause_table, paused_tables
from headwater.apply.target.connection import Bound, TargetConnection
from headwater.errors import TargetError
from headwater.plugins.table_patterns import TablePatterns
from headwater.remote_slots.announced_relations import SentRelation

OF_ROWS = ("22", "23")
"""Classes of SQLSTATE that are about the row: data exceptions, and violations of constraints."""
RAISED = "P0001"
"""That of RAISE EXCEPTION in a trigger, unless another is given."""

Say = Callable[[str], None]


class AppliedAgainError(TargetError):
    """A row is refused that can be set aside: its transaction is applied again.

    Args:
        message, sqlstate, detail, hint, context: of what was refused; see :class:`headwater.errors.TargetError`.
    """


def is_of_row(error: TargetError) -> bool:
    """Tell whether an error is about the row, rather than about rights, resources, locks or definitions."""
    sqlstate = error.sqlstate or ""
    return sqlstate.startswith(OF_ROWS) or sqlstate == RAISED


class SetAside:
    """The changes that are set aside in a run.

    Args:
        subscription: its name; options: what is asked for; say: is warned of each change that is refused.
    """

    def __init__(self, subscription: str, options: RefusalOptions, say: Say = lambda _: None) -> None:
        self._subscription, self._options, self._say = subscription, options, say
        self._patterns = TablePatterns.parse(options.dead_letters) if options.dead_letters else None
        self._paused: set[tuple[str, str]] = set()
        self._again = 0
        self._is_again = self._is_close = False

    @property
    def is_asked_for(self) -> bool:
        """Whether anything may be set aside, so that the target needs tables for it."""
        return self._options.sets_aside

    def begin(self, connection: TargetConnection) -> None:
        """Read which tables are paused, as a session begins; the schema ``headwater`` is there."""
        self._paused = set(paused_tables(connection, self._subscription))

    @property
    def comes_apart(self) -> bool:
        """Whether transactions have to come one by one, as one of them is applied again."""
        return bool(self._again)

    @property
    def may_run_ahead(self) -> bool:
        """Whether transactions may be applied ahead of their end, where nothing is set aside."""
        return not self._paused and not self._again

    @property
    def is_idle(self) -> bool:
        """Whether changes are simply applied."""
        return not self._paused and not self._is_again and not self._is_close

    def look_closely(self) -> None:
        """Have each change of a row by itself from here on, in the transaction that has begun."""
        self._is_close = self.is_asked_for

    def begins(self, finish_lsn: int) -> None:
        """Note that a transaction begins."""
        self._is_again, self._is_close = finish_lsn == self._again, False
        if self._again and finish_lsn > self._again:
            self._again = 0

    def ends(self) -> None:
        """Note that a transaction ends that was applied."""
        self._is_close = False
        if self._is_again:
            self._again, self._is_again = 0, False

    def applies_again(self, name: tuple[str, str], finish_lsn: int | None, error: TargetError) -> bool:
        """Tell whether a refusal leads to another attempt at its transaction, in which the row is set aside.

        Args:
            name: schema and name of the table; finish_lsn: of the transaction; error: the refusal.
        """
        if self._is_again or finish_lsn is None or not is_of_row(error) or not self._takes(name):
            return False
        self._again = finish_lsn
        return True

    def is_paused(self, name: tuple[str, str]) -> bool:
        """Tell whether a table is paused, by its schema and name."""
        return name in self._paused

    def is_careful(self, name: tuple[str, str]) -> bool:
        """Tell whether each change of a table is to have a savepoint."""
        return (self._is_again or self._is_close) and self._takes(name)

    def keep(self, relation: SentRelation, change: Change, place: Place) -> list[Bound]:
        """Return what keeps a change of a paused table."""
        return [add_letter(self._subscription, relation, change, place, None, is_of_pause=True)]

    def put(
        self, relation: SentRelation, change: Insert | Update | Delete, place: Place, error: TargetError
    ) -> list[Bound]:
        """Return what puts a change aside that was refused; it is warned of.

        Where tables are paused, this one is from here on.
        """
        pauses = self._options.pauses
        kind, table = type(change).__name__.upper(), f'"{relation.namespace}.{relation.name}"'
        what = (
            f"table {table} is paused" if pauses else f"{kind} of a row of {table} is put into headwater.dead_letters"
        )
        lines = [f"warning: {what}: {error.message} (SQLSTATE {error.sqlstate})", *error.details()]
        self._say("\n".join(lines))
        letter = add_letter(self._subscription, relation, change, place, error, is_of_pause=pauses)
        if not pauses:
            return [letter]
        self._paused.add((relation.namespace, relation.name))
        return [pause_table(self._subscription, relation, error, place), letter]

    def _takes(self, name: tuple[str, str]) -> bool:
        return self._options.pauses or (self._patterns is not None and self._patterns.matches(".".join(name)))


def parted(truncate: Truncate, oids: set[int]) -> Truncate | None:
    """Return a TRUNCATE without some relations, None if none is left."""
    left = tuple(oid for oid in truncate.oids if oid not in oids)
    return Truncate(truncate.xid, left, truncate.cascade, truncate.restart_seqs) if left else None
