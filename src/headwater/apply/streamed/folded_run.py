"""A run of changes of one transaction, folded as those of batches are: of a streamed one, or of a large one.

What the serial applier would pass over is left out before.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial

from headwater.apply.batches.batch import Messages, is_row_change
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.batches.folded_batch import fold_batch, send_folded
from headwater.apply.batches.left_out import is_applied
from headwater.apply.batches.net_changes import RepeatedError, Unfoldable
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.errors import DecodingError, TargetError

FEW_LEFT, PARTS = 32, 8
"""Changes that are applied one by one where a run is refused; a longer one is parted into so many."""

MOST_CLOSE = 16
"""How often a run is parted down to that: where more is refused, what is left comes one by one as soon."""


class Outcome(Enum):
    """The outcome of a run: it is applied, it was refused and undone, or it cannot be folded, and was not tried."""

    APPLIED, REFUSED, NOT_TRIED = range(3)


def apply_folded(applier: SerialApplier, bulk: BulkTables, messages: Messages) -> Outcome:
    """Apply a run to the transaction that has begun, and wait until that is done, if it can be.

    Args:
        applier: of the transaction; bulk: tables of its session; messages: changes alone.

    Raises:
        TargetError: the target refuses something of what came before.
        ConnectionLostError: the target is lost.
    """
    if not applier.may_fold:
        return Outcome.NOT_TRIED
    applier.flush()
    try:
        applier.open_tables(messages.relations)
    except TargetError:
        return Outcome.NOT_TRIED
    tables = bulk.of(messages)
    if len(tables) < len(messages.relations):
        return Outcome.NOT_TRIED
    try:
        folded = fold_batch(messages, tables)
    except RepeatedError as error:
        bulk.rest(error.table)
        return Outcome.NOT_TRIED
    except (Unfoldable, DecodingError):
        return Outcome.NOT_TRIED
    size = int((messages.end - messages.start).sum())
    is_done = applier.attempt(partial(send_folded, folded=folded), len(messages.kind), size)
    return Outcome.APPLIED if is_done else Outcome.REFUSED


class RunApplier:
    """An applier of runs of the transaction that has begun.

    Args:
        serial: of the transaction; bulk: tables of its session; None for all one by one.
        one_by_one: applies messages one by one.
        at: where in each change its relation's OID stands.
    """

    def __init__(
        self, serial: SerialApplier, bulk: BulkTables | None, one_by_one: Callable[[Messages], None], at: int = 1
    ) -> None:
        self._serial, self._bulk, self._one_by_one, self._at = serial, bulk, one_by_one, at
        self._close = 0

    def apply(self, run: Messages, plain: Messages | None) -> None:
        """Apply messages.

        Args:
            run: them; plain: the same as they stand outside of blocks, if they may be folded.

        Raises:
            TargetError, DecodingError, ConnectionLostError: see :meth:`SerialApplier.apply`.
        """
        which = None
        if self._bulk is not None and self._serial.leaves_out and is_row_change(run).all():
            which = is_applied(run, self._serial.passes_over, self._at)
        if which is not None:
            run, plain = run.chosen(which), None if plain is None else plain.chosen(which)
        if not len(run.kind):
            return
        if plain is None or self._bulk is None:
            self._one_by_one(run)
        else:
            self._fold(self._bulk, run, plain)

    def _fold(self, bulk: BulkTables, run: Messages, plain: Messages) -> None:
        """Apply changes together, as far as they can be; those around one that is refused, or in conflict, one by one.

        So neither what comes before them in the transaction is applied again, nor what follows one by one.
        """
        outcome, count = apply_folded(self._serial, bulk, plain), len(plain.kind)
        if outcome == Outcome.APPLIED:
            return
        if outcome == Outcome.NOT_TRIED or not self._serial.resends or self._close >= MOST_CLOSE:
            self._one_by_one(run)
        elif count <= FEW_LEFT:
            self._close += 1
            self._serial.look_closely()
            self._one_by_one(run)
        else:
            step = -(-count // PARTS)
            for first in range(0, count, step):
                self._fold(bulk, run.part(first, first + step), plain.part(first, first + step))
