"""Look-ups over whole columns: values by key, distinct values, stable order.

Keys are mostly dense (xids of a window, numbers of files). So a table by key answers for a million rows in the time of
two passes; where they are not, sorting does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder import _keys as k

Int64s = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]
"""Of up to 32 bits, or int64."""

DENSE = 4
"""A table by key may have so many times more places than there are keys and questions."""


def _is_dense(low: int, high: int, count: int) -> bool:
    return high - low < DENSE * count + 1024


def lookup(keys: Int64s, values: Int64s, wanted: Integers) -> Int64s:
    """Return ``values`` at the (first) places of ``wanted`` in the sorted ``keys``, -1 where absent."""
    if not len(keys) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    low, high = int(keys[0]), int(keys[-1])
    if not _is_dense(low, high, len(keys) + len(wanted)):
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, values[at], -1)
    result = np.empty(len(wanted), np.int64)
    k.look_up(keys, values, wanted, np.full(high - low + 1, -1, np.int64), result)
    return result


def within_groups(counts: Int64s) -> Int64s:
    """Count from 0 in each of the groups that have so many places, one after the other: int64[n]."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


class Distinct(NamedTuple):
    """Distinct values, k of n.

    Attributes:
        values: int64[k] sorted.
        first: int64[k] where each is met first.
        number: int64[n] which of them each value is.
    """

    values: Int64s
    first: Int64s
    number: Int64s


def distinct(values: Integers) -> Distinct:
    """Find the distinct values of a column (``np.unique``, which sorts)."""
    if not len(values):
        return Distinct(*(np.empty(0, np.int64) for _ in range(3)))
    low, high = int(values.min()), int(values.max())
    if not _is_dense(low, high, len(values)):
        distinct_values, first, number = np.unique(values.astype(np.int64), return_index=True, return_inverse=True)
        return Distinct(distinct_values, first.astype(np.int64), number.astype(np.int64))
    table, number = np.full(high - low + 1, -1, np.int64), np.empty(len(values), np.int64)
    k.number_values(values, low, table, number)
    met = np.flatnonzero(table >= 0)
    return Distinct(met + low, table[met], number)


def distinct_rows(columns: Int64s) -> tuple[Int64s, Int64s]:
    """Find the distinct rows of a table.

    Args:
        columns: int64[c, n].

    Returns:
        int64[c, k] sorted by the first column, then the second and so on, and int64[n] which of them each row is.
    """
    order = np.lexsort(columns[::-1])
    ordered = columns[:, order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_first) - 1
    return ordered[:, is_first], number


def stable_order(values: Int64s) -> Int64s:
    """Return the places of a column by (value, place) (``np.argsort``, which compares)."""
    if not len(values):
        return np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if not _is_dense(low, high, len(values)):
        return np.argsort(values, kind="stable")
    order = np.empty(len(values), np.int64)
    k.sort_by_number(values - low if low else values, np.zeros(high - low + 2, np.int64), order)
    return order


def or_together(values: Integers, number: Int64s, count: int) -> Int64s:
    """Return the values of each number in ``[0, count)`` ORed."""
    together = np.zeros(count, np.int64)
    k.or_by_number(values, number, together)
    return together


def places_passed(major: Int64s, minor: Int64s, places: Int64s) -> Int64s:
    """Count the places that are at or before each pair.

    Args:
        major: int64[n]; minor: int64[n] in order of pairs.
        places: int64[m, 2] pairs in any order.
    """
    count = np.zeros(len(major), np.int64)
    if len(places):
        of_major, of_minor = places[np.lexsort((places[:, 1], places[:, 0]))].T.copy()
        k.count_before(major, minor, of_major, of_minor, count)
    return count


def lower(into: Int64s, place: Int64s, values: Int64s) -> None:
    """Set ``into[place] = min(into[place], value)``, place by place; leave places of -1 out (``np.minimum.at``)."""
    k.lower(into, place, values)


def reaches(place: Int64s, low: Int64s, high: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Find the lowest and the highest value at each place (``np.minimum.at`` and ``np.maximum.at``).

    Args:
        place: int64[n] in ``[0, count)``, each at least once.
        low: int64[n]; high: int64[n].
        count: number of places.
    """
    bounds = np.iinfo(np.int64)
    first, last = np.full(count, bounds.max), np.full(count, bounds.min)
    k.stretch(first, last, place, low, high)
    return first, last


def grouped_places(group: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Return the places of a column by (group, place), without those of group -1; and the group of each.

    Args:
        group: int64[n] in ``[-1, count)``.
        count: number of groups.
    """
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(group + 1, minlength=count + 1)[1:], out=starts[1:])
    places, groups = np.empty((2, int(starts[-1])), np.int64)
    k.group_places(group, starts, places, groups)
    return places, groups
