"""The messages of a slice that depend on what other slices give, where row filters decide what gives a message.

In: a slice's plan, its changes after the filters. Out: before which change a relation is announced, and the numbers of
the announcements that go out only if they did not in an earlier slice. A number is mostly that of the first change that
its announcement could go before (:func:`headwater.reorder.announcing.announcing.announcement_numbers`). A slice that
has this change has nothing before it, unless it has a commit after which another announcement counts as this one.

Invariant: in a slice, of the changes that share a number the first one that is sent is announced. That is once for
blocks of a streamed transaction and once for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError
from headwater.reorder.plan import Slice
from headwater.reorder.unit_flags import STREAMED
from headwater.rows.collect.collect import SliceChanges
from headwater.rows.items import DELETE, LITERAL, SEND_SCHEMA, Cells, Items

Index = NDArray[np.int64]


class Tentative(NamedTuple):
    """Items of a slice before which an announcement goes that others share, t of them.

    Attributes:
        item: int64[t] a change, whose schema goes before it, or a literal that is an announcement; ascending.
        number: int64[t] of the announcement.
        is_first: bool[t] nothing with this number is in an earlier slice.
        counted: int64[3, c] see :class:`headwater.reorder.plan.Slice`.
    """

    item: Index
    number: Index
    is_first: NDArray[np.bool_]
    counted: Index


NOTHING_TENTATIVE = Tentative(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty((3, 0), np.int64)
)


def may_depend(plan: Slice) -> bool:
    """Tell whether announcements of a slice go where row filters, or earlier slices, say."""
    return bool(plan.tentative.size or plan.events.tentative.any() or plan.counted.size)


def announce_sent(plan: Slice, changes: SliceChanges, cells: Cells) -> tuple[SliceChanges, Tentative]:
    """Flag the changes before which relations with row filters are announced.

    Args:
        plan: the slice.
        changes: the changes of it that the filters have let pass; cells: of its tuples.

    Raises:
        DecodingError: a change that was planned is not there.
    """
    items, flags, whose = changes.items, changes.items.flags.copy(), _whose(plan)
    literals = _literals(plan, items)
    announced = {item: (number, False) for item, number, _ in literals}
    before_truncates = {(number, whose[unit]): item for item, number, unit in reversed(literals)}
    sent, counted = _Sent(changes, cells, whose), set(plan.counted[2].tolist())
    for unit, lsn, relation, number, *last in plan.tentative.T.tolist():
        item = sent.first(plan.relations[relation].schema.oid, (unit, lsn), last)
        literal = before_truncates.get((number, whose[unit]), -1)
        begun = int(plan.units.lo_taken[unit]) if plan.units.lo[unit] == lsn else 0
        is_first = lsn + begun == number and number not in counted
        if literal >= 0 and (item < 0 or literal < item):
            announced[literal] = number, is_first
        elif item >= 0:
            flags[item] |= SEND_SCHEMA
            announced |= {item: (number, is_first)} if number else {}
        elif not number:
            raise DecodingError("a planned change is not in the WAL any more", lsn=lsn)
    columns = np.array([(item, *announced[item]) for item in sorted(announced)], np.int64).reshape(-1, 3).T
    tentative = Tentative(columns[0], columns[1], columns[2] != 0, plan.counted)
    return replace(changes, items=items._replace(flags=flags)), tentative


def _whose(plan: Slice) -> Index:
    """Return the xid of the streamed transaction that each unit is a block of, 0 for none: int64[u]."""
    return np.where(plan.units.flags & STREAMED != 0, plan.units.xid, 0)


def _literals(plan: Slice, items: Items) -> list[tuple[int, int, int]]:
    """List the announcements that go before truncates: their items, numbers and units; in order."""
    order = np.argsort(plan.events.order, kind="stable")
    numbers, units = plan.events.tentative[order], plan.events.unit[order]
    at = np.flatnonzero(items.kind == LITERAL) if numbers.any() else np.empty(0, np.int64)
    at = at[numbers[items.layout[at]] != 0]
    which = items.layout[at]
    return list(zip(at.tolist(), numbers[which].tolist(), units[which].tolist(), strict=True))


class _Sent:
    """The changes of a slice that are sent, by relation and by streamed transaction; whose: see :func:`_whose`."""

    def __init__(self, changes: SliceChanges, cells: Cells, whose: Index) -> None:
        self._transactions, self._place, self._whose_unit = changes.transactions, changes.place, whose
        items = changes.items
        is_sent = (items.kind < DELETE) | ((items.kind == DELETE) & (cells.old_first >= 0))
        oids = np.array([use.schema.oid for use in changes.relations] or [0], np.int64)
        self._oid = np.where(is_sent, oids[np.where(is_sent, items.layout, 0)], -1)
        counts = changes.transactions.item_end - changes.transactions.item_start
        self._whose = np.repeat(whose, counts)
        self._items: dict[tuple[int, int], Index] = {}

    def first(self, oid: int, place: Sequence[int], last: Sequence[int]) -> int:
        """Find the first change of a relation that is sent between two places (unit, LSN); -1 for none."""
        whose = int(self._whose_unit[place[0]])
        if (oid, whose) not in self._items:
            self._items[oid, whose] = np.flatnonzero((self._oid == oid) & (self._whose == whose))
        items = self._items[oid, whose]
        at = int(np.searchsorted(items, self._item(*place)))
        return int(items[at]) if at < len(items) and items[at] < self._item(last[0], last[1] + 1) else -1

    def _item(self, unit: int, lsn: int) -> int:
        """Find the first item at or after a place."""
        start, end = int(self._transactions.item_start[unit]), int(self._transactions.item_end[unit])
        return start + int(np.searchsorted(self._place[start:end], lsn))
