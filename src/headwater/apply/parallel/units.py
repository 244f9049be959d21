"""Units: transactions that one session applies as one, and what they have to wait for.

A unit's changes of rows that an earlier unit changes, too, are bound: they wait until that one is committed. All others
are free, and are made at once. Of a table with further unique indexes all changes depend on each other: which values a
deleted row had there is not sent.

Invariant: a row's changes are all free or all bound, so that each part can be folded by itself.

PostgreSQL: no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.apply.batches.batch import Messages, finish_lsns, last_commit
from headwater.apply.batches.bulk_table import BulkTable
from headwater.apply.batches.folded_batch import Tables
from headwater.apply.parallel import _dependencies as _d
from headwater.remote_slots.framed_messages import COMMIT

Int64s = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Unit:
    """A unit.

    Attributes:
        number: units of one flight are numbered from 0 on.
        messages: its transactions; tables: that they are about.
        last: int64[] of the messages: the number of the unit that changed the same row before, -1 for none.
        needs: all of these numbers.
    """

    number: int
    messages: Messages
    tables: Tables
    last: Int64s
    needs: frozenset[int]

    def parted(self, awaited: frozenset[int]) -> tuple[Messages, Messages]:
        """Part its changes into free ones, and those that are bound to one of the units that are awaited."""
        is_change = self.messages.oid != 0
        if not awaited:
            return self.messages.chosen(is_change), self.messages.part(0, 0)
        is_bound = np.isin(self.last, sorted(awaited))
        return self.messages.chosen(is_change & ~is_bound), self.messages.chosen(is_bound)

    @property
    def end(self) -> tuple[int, int]:
        """END of its last commit record, and that commit's time in microseconds since 2000."""
        return last_commit(self.messages)[1:]

    @property
    def finish_lsns(self) -> list[int]:
        """Where the commit records of its transactions begin."""
        return [int(number) for number in finish_lsns(self.messages).tolist()]


class Dependencies:
    """The rows that the units of one flight change.

    Args:
        changes: most that there are in the flight.
    """

    def __init__(self, changes: int) -> None:
        size = _slots(changes)
        self._table = np.zeros(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
        self._count = 0

    def unit(self, messages: Messages, tokens: Int64s, tables: Tables) -> Unit:
        """Make the next unit, of whole transactions, whose rows have these tokens."""
        number = self._count
        self._count += 1
        last = np.empty(len(tokens), np.int64)
        _d.touch(tokens, np.full(len(tokens), number, np.int64), self._table, last)
        needs = frozenset(np.unique(last[last >= 0]).tolist())
        return Unit(number, messages, tables, last, needs)


def tokens_of(messages: Messages, tables: Tables) -> Int64s | None:
    """Return int64[k] which row each message is about; None if that cannot be told.

    Args:
        messages: of whole transactions; tables: that they are about.
    """
    oids = sorted(tables)
    keys = [_keys(tables[oid]) for oid in oids]
    begins = np.cumsum([0, *map(len, keys)]).astype(np.int32)
    wholes = np.array([_depends_as_whole(tables[oid]) for oid in oids], np.uint8)
    columns = np.array([at for own in keys for at in own], np.int32)
    tokens = np.empty(len(messages.kind), np.int64)
    lying = messages.kind, messages.start, messages.end, messages.oid
    is_told = _d.read_tokens(messages.data, lying, (np.array(oids, np.int64), begins, columns, wholes), tokens)
    return tokens if is_told else None


def _keys(table: BulkTable) -> list[int]:
    return sorted(table.keys)


def _depends_as_whole(table: BulkTable) -> bool:
    return bool(table.uniques) or table.sees_order


def apart(messages: Messages, tokens: Int64s, most: int) -> Iterator[Flags]:
    """Part transactions into groups that have no row in common, each in the source's order.

    Args:
        messages: of whole transactions; tokens: see :func:`tokens_of`.
        most: changes after which a group ends, but for one that is a single cluster of transactions.

    Returns:
        bool[] of the messages, which are of the group.
    """
    ends = messages.kind == COMMIT
    transactions = np.cumsum(ends) - ends
    parents = np.empty(int(np.count_nonzero(ends)), np.int64)
    size = _slots(len(tokens))
    _d.unite(tokens, transactions, (np.zeros(size, np.int64), np.empty(size, np.int64)), parents)
    changes = np.bincount(transactions, messages.oid != 0, len(parents))
    # By the number of the first transaction of each cluster.
    sizes = np.bincount(parents, changes, len(parents))
    groups = np.zeros(len(parents), np.int64)
    group, filled = 0, 0.0
    for first in np.flatnonzero(parents == np.arange(len(parents))).tolist():
        if filled and filled + sizes[first] > most:
            group, filled = group + 1, 0.0
        groups[first] = group
        filled += sizes[first]
    of_messages = groups[parents][transactions]
    for number in range(group + 1):
        yield of_messages == number


def joined(parts: list[Messages]) -> Messages:
    """Join messages that lie in the same data, in the order in which they lie there."""
    arrays = [(part.kind, part.start, part.end, part.lsn, part.oid) for part in parts]
    kind, start, end, lsn, oid = (np.concatenate(column) for column in zip(*arrays, strict=True))
    return Messages(parts[0].data, kind, start, end, lsn, oid).chosen(np.argsort(start, kind="stable"))


def _slots(count: int) -> int:
    """Return the size of a hash table for so many rows."""
    return 1 << max(4, (2 * count).bit_length())
