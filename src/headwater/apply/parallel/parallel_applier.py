"""Batches applied in several sessions of the target at a time: the same as one after the other.

What comes in one piece of the stream is a flight of units (:mod:`headwater.apply.parallel.units`). In the source's
order each unit is a run of transactions, committed behind the one before it. Otherwise the transactions of a run are
parted into units that have no row in common. A unit waits only for those that it has rows in common with.

Whatever is unforeseen ends the flight: a count that differs, an error, sessions that wait for each other. What is not
committed then is applied again by the main session, in the source's order, as a batch or one by one. So is all that
cannot be folded, once the units before it are committed: TRUNCATE, DDL, tables with triggers, what is streamed or
prepared.

Progress: in the source's order each session moves an origin of its own, and all is applied up to the furthest.
Otherwise it notes the transactions in ``headwater.applied_ahead`` instead, and the main session moves its origin at the
end of the flight.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from typing import Any

from headwater.apply.batches.batch import Messages, last_commit
from headwater.apply.batches.batch_applier import MOST_CHANGES, BatchApplier
from headwater.apply.incoming.parallel_options import ParallelOptions
from headwater.apply.parallel.checked_tables import CheckedTables
from headwater.apply.parallel.turns import Turns
from headwater.apply.parallel.unit_session import Ending, in_order
from headwater.apply.parallel.unit_sessions import UnitSessions
from headwater.apply.parallel.units import Dependencies, Unit, apart, joined, tokens_of
from headwater.apply.progress.applied_ahead import forget_applied, note_applied
from headwater.apply.progress.origin_progress import come_to
from headwater.apply.progress.origins import move
from headwater.apply.target.connection import Bound, TargetConnection
from headwater.apply.target.transaction_commands import BEGIN, COMMIT, LOCAL_END, lsn_of
from headwater.errors import ServerError

FEWEST_CHANGES, MOST_UNIT_CHANGES = 1024, 8192
"""Changes that a unit has at least, if there are so many, and at most: the smaller it is, the less is folded."""


class ParallelApplier(BatchApplier):
    """The applier.

    Args:
        sessions: in which units are applied; connection: of the main session.
        subscription: its name; options: how.
        arguments, named: of :class:`headwater.apply.batches.batch_applier.BatchApplier`.
    """

    def __init__(
        self,
        sessions: UnitSessions,
        connection: TargetConnection,
        subscription: str,
        options: ParallelOptions,
        *arguments: Any,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._sessions, self._connection = sessions, connection
        self._subscription, self._options = subscription, options
        self._flying: list[Unit] = []
        self._changes = 0
        self._checked = CheckedTables(self._connection)
        self._turns = Turns(keeps_order=options.keeps_order)
        self._dependencies = Dependencies(0)

    def _apply_whole(self, messages: Messages) -> None:
        self._changes = messages.changes
        self._dependencies = Dependencies(self._changes)
        super()._apply_whole(messages)
        self._land()

    def _most_changes(self) -> int:
        """Return how many changes a run has at most; in an order of their own runs are parted anyway."""
        if not self._options.keeps_order:
            return MOST_CHANGES
        return self._unit_changes(self._changes)

    def _unit_changes(self, changes: int) -> int:
        return min(max(-(-changes // (2 * self._sessions.count)), FEWEST_CHANGES), MOST_UNIT_CHANGES)

    def _one_by_one(self, messages: Messages) -> None:
        self._land()
        super()._one_by_one(messages)

    def _pass_over(self, messages: Messages) -> None:
        self._land()
        super()._pass_over(messages)

    def _batch(self, messages: Messages) -> None:
        if self._turns.is_given_up:
            self._land()
        is_alone = not self._flying and messages.changes == self._changes
        if is_alone and (self._options.keeps_order or messages.changes < FEWEST_CHANGES):
            super()._batch(messages)
            return
        self._finish()
        self._serial.flush()
        tables = self._tables.of(messages)
        tokens = None if self._checked.are_among(tables) else tokens_of(messages, tables)
        if tokens is None or len(tables) < len(messages.relations):
            self._land()
            super()._batch(messages)
            return
        self._applied.begins(last_commit(messages)[0])
        if self._options.keeps_order:
            self._launch(self._dependencies.unit(messages, tokens, tables))
            return
        for group in apart(messages, tokens, self._unit_changes(messages.changes)):
            part = messages.chosen(group)
            self._launch(self._dependencies.unit(part, tokens[group], {oid: tables[oid] for oid in part.relations}))

    def _launch(self, unit: Unit) -> None:
        self._counts.tried += 1
        self._flying.append(unit)
        self._sessions.launch(unit, self._turns)

    def _land(self) -> None:
        """Wait until all units are committed; apply anew what is not.

        Raises:
            TargetError: the target refuses a change; its context says which.
            ConnectionLostError: the target is lost.
        """
        flying, turns = self._flying, self._turns
        if not flying:
            return
        turns.land(len(flying))
        self._flying, self._turns = [], Turns(keeps_order=self._options.keeps_order)
        self._dependencies = Dependencies(self._changes)
        committed = turns.committed
        if self._options.keeps_order:
            for unit in flying:
                if unit.number in committed:
                    self._positions.committed(unit.end[0], committed[unit.number])
        if turns.error is not None:
            raise turns.error
        left = [unit for unit in flying if unit.number not in committed]
        if left:
            self._counts.fallbacks += 1
            if isinstance(turns.reason, ServerError) and self._connection.ends():
                raise turns.reason
            self._again(joined([unit.messages for unit in left]))
        if not self._options.keeps_order and committed:
            self._forget_ahead(joined([unit.messages for unit in flying]))

    def _again(self, messages: Messages) -> None:
        """Apply what is left of a flight in the main session, in the source's order."""
        self._tables.forget()
        self._checked.forget()
        nothing_odd = messages.kind == 0
        # In runs as small as units, so that little is applied one by one.
        for run, _ in messages.runs(nothing_odd, self._unit_changes(messages.changes)):
            super()._batch(run)

    def _forget_ahead(self, messages: Messages) -> None:
        """Move the origin behind a flight, all of which is applied."""
        _, end_lsn, time = last_commit(messages)
        self.flush()
        positions, connection = self._positions, self._connection
        moved = come_to(end_lsn), move(end_lsn, time)
        for statement in (BEGIN, forget_applied(self._subscription), *moved, COMMIT):
            connection.send(statement)
        connection.send(LOCAL_END, lambda outcome: positions.committed(end_lsn, lsn_of(outcome)))
        connection.sync()
        connection.drain()


def ending_of(subscription: str, options: ParallelOptions, reached: int) -> Ending:
    """Return what gives the statements that end a unit.

    Args:
        subscription: its name; options: how units are applied.
        reached: LSN of the source before which all is applied now.
    """
    if options.keeps_order:
        return in_order

    def noted(unit: Unit) -> tuple[Bound, ...]:
        # The session's origin stays where it is, but rows have it, and the time.
        return note_applied(subscription, unit.finish_lsns), move(reached, unit.end[1])

    return noted
