"""Changes of tables that are not applied, left out of what has come before anything is made of it.

While a table is copied the stream has its changes, too. Those up to a place are its own worker's: the main one passes
over them. So does a table's worker over those of all other tables.

Invariants: what is left out is what the serial applier would pass over. Of a relation that is not mapped yet nothing
is: the serial applier has to map it. Transactions stay, also without changes, as the source has come to their
ends.

PostgreSQL: worker.c (should_apply_changes_for_rel).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headwater.apply.batches.batch import PLAIN, Messages, finish_lsns, numbers_in
from headwater.apply.progress.table_states import AppliedTables
from headwater.apply.target.relation_map import RelationMap
from headwater.remote_slots.framed_messages import COMMIT

Flags = NDArray[np.bool_]


def without_left_out(messages: Messages, relations: RelationMap, applied: AppliedTables) -> Messages:
    """Leave out changes of whole transactions; those that have anything but rows in them stay as they are.

    Args:
        messages: of the transactions; DDL is of kind 0.
        relations: the source's, and tables for them; applied: says of which tables changes are applied.

    Raises:
        DecodingError: a message of a commit is too short.
    """
    tables = {oid: relations.mapped(oid, str).oid for oid in sorted(relations.known)}
    waiting = {oid: table for oid, table in tables.items() if not applied.is_ready(table)}
    if not waiting:
        return messages
    ends, finish = messages.kind == COMMIT, finish_lsns(messages)
    # From here on no place is chosen that lies before these transactions' ends.
    applied.begins(int(finish.max()))
    places = np.array([applied.applied_from(table) for table in waiting.values()], np.int64)
    oids, changed = np.array(list(waiting), np.int64), _changed(messages)
    numbers = np.minimum(np.searchsorted(oids, changed), len(oids) - 1)
    transactions = np.cumsum(ends) - ends
    is_left = (oids[numbers] == changed) & (finish[transactions] < places[numbers])
    is_plain = np.bincount(transactions, ~np.isin(messages.kind, PLAIN)) == 0
    is_left &= is_plain[transactions]
    return messages.chosen(~is_left) if is_left.any() else messages


def are_empty(messages: Messages) -> bool:
    """Tell whether whole transactions have nothing in them that is applied."""
    return not messages.changes and bool(np.isin(messages.kind, PLAIN).all())


def is_applied(changes: Messages, passes_over: Callable[[int], bool], at: int = 1) -> Flags | None:
    """Tell of each change of the transaction that has begun whether it is applied; None if all are.

    Args:
        changes: inserts, updates and deletes of it; at: where in each its relation's OID stands.
        passes_over: tells of a relation whether the transaction's changes of it are passed over.
    """
    oids = numbers_in(changes, at)
    left = [oid for oid in np.unique(oids).tolist() if passes_over(oid)]
    return ~np.isin(oids, left) if left else None


def _changed(messages: Messages) -> NDArray[np.int64]:
    """Return int64[k] the relation of each change, also of updates with an old tuple; 0 for none."""
    changed = messages.oid.copy()
    with_old = np.flatnonzero(changed < 0)
    changed[with_old] = numbers_in(messages.chosen(with_old))
    return changed
