"""A session of the target's that applies units, one at a time, in a thread of its own.

What waits for nothing is sent at once; the rest once the units that it waits for are committed. Counts and tables are
looked at before the commit, and nothing is committed before its turn.

Invariants: a unit is committed whole, or rolled back. While it is committed nothing is cancelled: what has become of it
would not be known.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from headwater.apply.batches.folded_batch import fold_batch, send_folded
from headwater.apply.batches.net_changes import RepeatedError, Unfoldable
from headwater.apply.incoming.limits import Lease
from headwater.apply.parallel.checked_tables import unchecked
from headwater.apply.parallel.turns import AbandonedError, Turns
from headwater.apply.parallel.units import Unit
from headwater.apply.progress.origin_progress import come_to
from headwater.apply.progress.origins import CHECK_DEFERRED, move
from headwater.apply.target.connection import Bound, Outcome, TargetConnection
from headwater.apply.target.transaction_commands import BEGIN, COMMIT, LOCAL_END, ROLLBACK, lsn_of
from headwater.errors import ConnectionLostError, DecodingError, ServerError, TargetError

Flown = tuple[Unit, Turns]
"""A unit, and the turns of its flight."""

Ending = Callable[[Unit], tuple[Bound, ...]]
"""What is sent in a unit's transaction at its end, to keep how far the source was."""


class _DiffersError(Exception):
    """A row was not there, or was there already."""


class UnitSession:
    """A session, and its thread, which is begun and ended by whom it belongs to.

    Args:
        connection: its own, whose origin is set; lease: of its place.
        units: gives it what to do, and None to end.
        ending: gives the statements that end a unit; is_told_to_end: tells whether the worker is.
        watch: is called now and then while the session waits for the target, with the session.

    Attributes:
        unit: that it applies now; turns: of the flight of that.
    """

    def __init__(
        self,
        connection: TargetConnection,
        lease: Lease,
        units: SimpleQueue[Flown | None],
        ending: Ending,
        is_told_to_end: Callable[[], bool],
        watch: Callable[[UnitSession], None],
    ) -> None:
        self.connection, self.lease = connection, lease
        self._units, self._ending, self._is_told_to_end = units, ending, is_told_to_end
        self.unit: Unit | None = None
        self.turns: Turns | None = None
        self.thread = threading.Thread(target=self._run, name="applying a unit")
        connection.while_waiting = lambda: watch(self)

    def _run(self) -> None:
        while (flown := self._units.get()) is not None:
            unit, turns = self.unit, self.turns = flown
            try:
                if not turns.is_given_up:
                    self._apply(unit, turns)
            except BaseException as error:
                turns.give_up(error, is_lost=True)
            finally:
                self.unit = None
                turns.end(unit.number)

    def _apply(self, unit: Unit, turns: Turns) -> None:
        try:
            self.connection.ends = lambda: turns.is_given_up or self._is_told_to_end()
            self._send(unit, turns)
            self._commit(unit, turns)
        except ConnectionLostError as error:
            turns.give_up(error, is_lost=True)
        except BaseException as error:
            turns.give_up(None if isinstance(error, AbandonedError) else error, is_lost=not isinstance(error, _OF_UNIT))
            self._roll_back(turns)

    def _send(self, unit: Unit, turns: Turns) -> None:
        """Make all changes of a unit."""
        awaited = turns.awaited(unit.needs)
        free, bound = unit.parted(awaited)
        folded = fold_batch(free, unit.tables) if len(free.kind) else None
        waiting = fold_batch(bound, unit.tables) if len(bound.kind) else None
        is_begun = False
        if folded is not None:
            self.connection.send(BEGIN)
            is_begun = True
            if not send_folded(self.connection, folded):
                raise _DiffersError
        turns.wait_for(awaited)
        if not is_begun:
            self.connection.send(BEGIN)
        if waiting is not None and not send_folded(self.connection, waiting):
            raise _DiffersError

    def _commit(self, unit: Unit, turns: Turns) -> None:
        turns.wait_for_turn(unit.number)
        self.connection.ends = self._is_told_to_end
        commits: list[Outcome] = []
        ends: list[int] = []
        for statement in (unchecked(unit.tables), CHECK_DEFERRED, *self._ending(unit)):
            self.connection.send(statement)
        self.connection.send(COMMIT, commits.append)
        self.connection.send(LOCAL_END, lambda outcome: ends.append(lsn_of(outcome)))
        try:
            self._drain()
        except TargetError as error:
            if not commits:
                raise
            # It is committed, but where is not known: the target is asked anew how far it is.
            turns.give_up(error, is_lost=True)
            return
        turns.commit(unit.number, ends[0])

    def _roll_back(self, turns: Turns) -> None:
        """Undo the unit; the session may have failed before it began one."""
        self.connection.ends = lambda: False
        try:
            with suppress(TargetError):
                self._drain()
            self.connection.send(ROLLBACK)
            self._drain()
        except ServerError as error:
            turns.give_up(error, is_lost=True)

    def _drain(self) -> None:
        if self.connection.pending:
            self.connection.sync()
        self.connection.drain()


def in_order(unit: Unit) -> tuple[Bound, ...]:
    """Return what keeps that all is applied up to the end of a unit."""
    return come_to(unit.end[0]), move(*unit.end)


_OF_UNIT = (AbandonedError, TargetError, Unfoldable, RepeatedError, DecodingError, _DiffersError)
"""Errors after which a unit is applied one by one."""
