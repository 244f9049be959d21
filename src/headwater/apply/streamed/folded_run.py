"""A run of changes of one transaction, folded as those of batches are: of a streamed one, or of a large one.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from functools import partial

from headwater.apply.batches.batch import Messages
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.batches.folded_batch import fold_batch, send_folded
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
