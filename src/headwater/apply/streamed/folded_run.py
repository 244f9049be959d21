"""A run of changes of one transaction, folded as those of batches are: of a streamed one, or of a large one.

What the serial applier would pass over is left out before.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwater.apply.batches.batch import Messages, is_row_change
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.batches.folded_batch import fold_batch, send_folded
from headwater.apply.batches.left_out import is_applied
from headwater.apply.batches.net_changes import RepeatedError, Unfoldable
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.errors import DecodingError, TargetError


def apply_folded(applier: SerialApplier, bulk: BulkTables, messages: Messages) -> bool:
    """Apply a run to the transaction that has begun, and wait until that is done; false if it has to be one by one.

    Args:
        applier: of the transaction; bulk: tables of its session; messages: changes alone.

    Raises:
        TargetError: the target refuses something of what came before.
        ConnectionLostError: the target is lost.
    """
    if applier.comes_apart or applier.checks_changes:
        return False
    applier.flush()
    try:
        applier.open_tables(messages.relations)
    except TargetError:
        return False
    tables = bulk.of(messages)
    if len(tables) < len(messages.relations):
        return False
    try:
        folded = fold_batch(messages, tables)
    except RepeatedError as error:
        bulk.rest(error.table)
        return False
    except (Unfoldable, DecodingError):
        return False
    return applier.attempt(partial(send_folded, folded=folded))


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
        if plain is None or self._bulk is None or not apply_folded(self._serial, self._bulk, plain):
            self._one_by_one(run)
