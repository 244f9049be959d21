"""Messages of a slice that depend on other slices, where row filters decide what gives a message.

Two kinds of messages go out once, before whatever comes first: the announcement of a relation, and BEGIN of a
transaction that is cut over several slices; and COMMIT goes out only if BEGIN did. What a streamed transaction has
announced counts for all from its commit on. PostgreSQL: ``schema_sent`` and ``streamed_txns`` of RelationSyncEntry and
``sent_begin_txn`` of PGOutputTxnData (pgoutput.c).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwater.plugins._plan import BEGIN, CHANGE, COMMIT, READY, UNSENDABLE, Plan, Ready
from headwater.plugins.api import SliceTables
from headwater.reorder.unit_flags import BARE, BEGINS_HERE, ENDS_HERE, MAY_HAVE_WRITTEN
from headwater.rows.items import COUNTED, DEPENDENT, GIVEN, HELD, LITERAL, NO_CONDITIONS, Conditions

_Group = tuple[int, int, int, int, int]
"""First message, how many, kind, number, and the other number."""


def find_conditions(
    tables: SliceTables, ready: Ready, plan: Plan, puts_begin_off: bool, sends_origins: bool
) -> Conditions:
    """Find the conditional messages of a slice.

    Args:
        tables: the slice.
        ready: its ready-made messages; plan: its messages.
        puts_begin_off: BEGIN goes out with the first message.
        sends_origins: a message of its own reports a transaction's origin, after BEGIN.
    """
    groups = [*_announcements(tables, ready, plan), *_counted(tables, plan)]
    if puts_begin_off:
        groups += _boundaries(tables, ready, plan, sends_origins)
    if not groups:
        return NO_CONDITIONS
    first, count, kind, number, counts_as = np.array(sorted(groups), np.int64).T
    return Conditions(kind.astype(np.uint8), number, counts_as, first, count)


def _counted(tables: SliceTables, plan: Plan) -> Iterator[_Group]:
    """Give the places where streamed transactions commit."""
    for unit, number, counts_as in tables.tentative.counted.T.tolist():
        yield int(np.searchsorted(plan.txn, unit)), 0, COUNTED, number, counts_as


def _announcements(tables: SliceTables, ready: Ready, plan: Plan) -> Iterator[_Group]:
    """Give the schemas that go before a change, and those that go before a truncate."""
    tentative, items = tables.tentative, tables.items
    if not len(tentative.item):
        return
    changes, literals = np.flatnonzero(plan.op == CHANGE), np.flatnonzero(np.isin(plan.op, (READY, UNSENDABLE)))
    columns = (column.tolist() for column in (tentative.item, tentative.number, tentative.is_first))
    for item, number, is_first in zip(*columns, strict=True):
        layout = int(items.layout[item])
        bounds = ready.literal_first if items.kind[item] == LITERAL else ready.schema_first
        count = int(bounds[layout + 1] - bounds[layout])
        if items.kind[item] == LITERAL:
            first = int(literals[np.flatnonzero(plan.arg[literals] == bounds[layout])[0]])
        else:
            first = int(changes[np.searchsorted(plan.arg[changes], item)]) - count
        yield first, count, GIVEN if is_first else HELD, number, 0


def _boundaries(tables: SliceTables, ready: Ready, plan: Plan, sends_origins: bool) -> Iterator[_Group]:
    """Give BEGIN and COMMIT of transactions that are cut over several slices; their number is negative."""
    flags = tables.transactions.flags.astype(np.int64)
    cut = (flags & (BEGINS_HERE | ENDS_HERE) != BEGINS_HERE | ENDS_HERE) & (flags & BARE == 0)
    for txn in np.flatnonzero(cut & (tables.transactions.begin == 0)).tolist():
        number = -int(tables.transactions.commit_lsn[txn])
        of_txn = np.flatnonzero(plan.txn == txn)
        begins, ends = of_txn[plan.op[of_txn] == BEGIN], of_txn[plan.op[of_txn] == COMMIT]
        may_have = bool(flags[txn] & MAY_HAVE_WRITTEN)
        if len(begins) and (may_have or flags[txn] & BEGINS_HERE):
            origin = int(tables.transactions.origin[txn]) if sends_origins else 0
            more = int(ready.literal_first[origin] - ready.literal_first[origin - 1]) if origin else 0
            yield int(begins[0]), 1 + more, HELD if may_have else GIVEN, number, 0
        if len(ends) and may_have and not len(begins):
            yield int(ends[0]), 1, DEPENDENT, number, 0
