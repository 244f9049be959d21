"""The states of a subscription's tables as the threads of this process share them.

The main worker asks of each change whether it is to be applied (:meth:`TableStates.applies`). A table's copy and what
it has caught up with end at a place (``syncdone``); transactions whose commit record begins there or behind are the
main worker's, those before are not. The place is chosen where the copy is ahead: beyond all transactions that the main
worker has begun. So the main worker never waits for a copy, unlike the server's, which waits while one catches up. It
waits only for a place that is chosen and being written, and only when a change of that table is behind it.

Invariants: a place that is chosen is beyond each transaction that was begun before. It counts once it is committed on
the target. What is decided for a table holds for a whole transaction.

PostgreSQL: tablesync.c (process_syncing_tables_for_apply), worker.c (should_apply_changes_for_rel).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from headwater.apply.progress.subscriptions import State, SubscribedTable
from headwater.errors import ConnectionLostError

NEVER = (1 << 63) - 1
"""An LSN behind all."""


class AppliedTables(Protocol):
    """A rule which changes are applied."""

    def begins(self, finish_lsn: int) -> None:
        """Note that a transaction begins whose commit, or PREPARE, record begins at an LSN."""

    def applies(self, oid: int, finish_lsn: int) -> bool:
        """Tell whether a table's changes are applied, by its OID on the target, of such a transaction."""

    def is_ready(self, oid: int) -> bool:
        """Tell whether a table's changes are applied whatever transaction they are of."""

    def applied_from(self, oid: int) -> int:
        """Return the LSN from which on a transaction's commit record has to begin for a table's changes to be applied.

        That holds for transactions that have begun; of one behind them it may be another.
        """


class AllTables:
    """The rule that all changes are applied."""

    def begins(self, finish_lsn: int) -> None:
        """Do nothing."""

    def applies(self, oid: int, finish_lsn: int) -> bool:  # noqa: ARG002 (as the protocol has it)
        """Say yes."""
        return True

    def is_ready(self, oid: int) -> bool:  # noqa: ARG002
        """Say yes."""
        return True

    def applied_from(self, oid: int) -> int:  # noqa: ARG002
        """Return 0."""
        return 0


@dataclass(frozen=True)
class OnlyTable:
    """The rule of a table's own worker: its changes alone.

    Attributes:
        oid: the table's, on the target.
    """

    oid: int

    def begins(self, finish_lsn: int) -> None:
        """Do nothing."""

    def applies(self, oid: int, finish_lsn: int) -> bool:  # noqa: ARG002
        """Say yes for the table."""
        return oid == self.oid

    def is_ready(self, oid: int) -> bool:
        """Say yes for the table."""
        return oid == self.oid

    def applied_from(self, oid: int) -> int:
        """Return 0 for the table."""
        return 0 if oid == self.oid else NEVER


class TableStates:
    """The states, by the table's OID on the target; may be used by any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tables: dict[int, SubscribedTable] = {}
        self._chosen: dict[int, int] = {}
        self._begun = self._changes = 0
        self._is_ending = False

    @property
    def tables(self) -> list[SubscribedTable]:
        """All tables."""
        with self._changed:
            return list(self._tables.values())

    @property
    def are_ready(self) -> bool:
        """Whether all tables are ready."""
        return all(table.state == State.READY for table in self.tables)

    def end(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()

    @property
    def changes(self) -> int:
        """How many changes there were, for :meth:`load`."""
        return self._changes

    def load(self, tables: Iterable[SubscribedTable], changes: int) -> None:
        """Take the tables as the target has them; states that only this process knows stay.

        Args:
            tables: them; changes: how many there were before they were read: if there are more now, they are old.
        """
        with self._changed:
            if changes != self._changes:
                return
            before = self._tables
            self._tables = {table.oid: _newer(before.get(table.oid), table) for table in tables}
            self._changed.notify_all()

    def add(self, table: SubscribedTable) -> None:
        """Note a table that has come."""
        with self._changed:
            self._changes += 1
            self._tables[table.oid] = table
            self._changed.notify_all()

    def remove(self, oid: int) -> None:
        """Note that a table is gone."""
        with self._changed:
            self._changes += 1
            self._tables.pop(oid, None)
            self._changed.notify_all()

    def starts_at(self, lsn: int) -> None:
        """Note that transactions of which the commit record begins before an LSN do not come to the main worker."""
        self.begins(lsn - 1)

    def begins(self, finish_lsn: int) -> None:
        """Note that the main worker begins with a transaction."""
        with self._changed:
            self._begun = max(self._begun, finish_lsn)

    def applies(self, oid: int, finish_lsn: int) -> bool:
        """Tell whether the main worker applies a table's changes of a transaction.

        Raises:
            ConnectionLostError: it was told to end.
        """
        table = self._tables.get(oid)
        if table is None:
            return False
        if table.state == State.READY:
            return True
        with self._changed:
            if oid in self._chosen and self._chosen[oid] > finish_lsn:
                return False
            self._changed.wait_for(lambda: oid not in self._chosen or self._is_ending)
            if oid in self._chosen:
                raise ConnectionLostError("applying ends")
            table = self._tables.get(oid, table)
            return table.state == State.READY or (table.state == State.SYNCDONE and table.lsn <= finish_lsn)

    def is_ready(self, oid: int) -> bool:
        """Tell whether a table's copy is over, and all its changes are the main worker's."""
        table = self._tables.get(oid)
        return table is not None and table.state == State.READY

    def applied_from(self, oid: int) -> int:
        """Return from where on the main worker applies a table's changes: a place that is chosen counts already.

        What is before it is the table's own worker's, also if writing the place fails: the next one lies behind it.
        """
        with self._changed:
            if oid in self._chosen:
                return self._chosen[oid]
            table = self._tables.get(oid)
            if table is None or table.state not in (State.SYNCDONE, State.READY):
                return NEVER
            return 0 if table.state == State.READY else table.lsn

    def choose(self, oid: int, lsn: int) -> bool:
        """Choose an LSN at which a table's copy ends, if it is beyond all that the main worker has begun.

        Args:
            oid: the table's; lsn: before which the copy has all transactions.
        """
        with self._changed:
            if lsn <= self._begun:
                return False
            self._chosen[oid] = lsn
            return True

    def set(self, oid: int, state: State, lsn: int) -> None:
        """Note a table's state, which the target has if it is one that is written; a place that was chosen counts."""
        with self._changed:
            self._changes += 1
            if (table := self._tables.get(oid)) is not None:
                self._tables[oid] = replace(table, state=state, lsn=lsn)
            self._chosen.pop(oid, None)
            self._changed.notify_all()


def _newer(here: SubscribedTable | None, there: SubscribedTable) -> SubscribedTable:
    """Return what is known here of a table that is being copied, if that is finer than what the target has."""
    is_finer = here is not None and here.state in (State.SYNCWAIT, State.CATCHUP)
    return here if is_finer and here is not None and there.state == State.FINISHEDCOPY else there
