"""A run of changes of a streamed transaction, folded as those of batches are.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from functools import partial

from headwater.apply.batches.batch import Messages
from headwater.apply.batches.bulk_tables import BulkTables
from headwater.apply.batches.folded_batch import fold_batch, send_folded
from headwater.apply.batches.net_changes import RepeatedError, Unfoldable
from headwater.apply.serial.serial_applier import SerialApplier
from headwater.errors import DecodingError


def apply_folded(applier: SerialApplier, bulk: BulkTables, messages: Messages) -> bool:
    """Apply a run to the transaction that has begun, and wait until that is done; false if it has to be one by one.

    Args:
        applier: of the transaction; bulk: tables of its session; messages: changes alone.

    Raises:
        SurpriseError: a row was not there, or was there already: what was done has to be rolled back.
        TargetError: the target refuses something, of this or of what came before.
        ConnectionLostError: the target is lost.
    """
    applier.open_tables(messages.relations)
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
    applier.bulk(partial(send_folded, folded=folded))
    return True
