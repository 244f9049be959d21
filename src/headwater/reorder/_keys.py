"""Kernels for columns of dense keys: tables by key instead of sorting. The twins in NumPy are in the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel

Int64s = NDArray[np.int64]
Integers = NDArray[np.integer[Any]]


@borrowing_kernel
def look_up(keys: Int64s, values: Int64s, wanted: Integers, table: Int64s, result: Int64s) -> None:
    """Fill ``result[i]`` with the value at the first place of ``wanted[i]`` in the sorted ``keys``, or -1.

    Args:
        keys: int64[k] sorted, at least one.
        values: int64[k].
        wanted: integers[n].
        table: int64[keys[-1] - keys[0] + 1] all -1; used up.
        result: int64[n] written.
    """
    low = keys[0]
    for i in range(len(keys) - 1, -1, -1):
        table[keys[i] - low] = values[i]
    for i in range(len(wanted)):
        place = wanted[i] - low
        result[i] = table[place] if 0 <= place < len(table) else -1


@borrowing_kernel
def number_values(values: Integers, low: int, table: Int64s, number: Int64s) -> Any:
    """Give distinct values numbers in ascending order.

    Args:
        values: integers[n], none below ``low``.
        low: the lowest value.
        table: int64[highest - low + 1] all -1; gets where each value is met first, -1 elsewhere.
        number: int64[n] written: which of the distinct values each one is.

    Returns:
        how many there are.
    """
    for i in range(len(values) - 1, -1, -1):
        table[values[i] - low] = i
    # Every value finds its number at its first place, which is written before the others are.
    count = np.int64(0)
    for place in range(len(table)):
        if table[place] >= 0:
            number[table[place]] = count
            count += 1
    for i in range(len(values)):
        number[i] = number[table[values[i] - low]]
    return count


@borrowing_kernel
def sort_by_number(number: Int64s, starts: Int64s, order: Int64s) -> None:
    """Sort stably by a small number, by counting.

    Args:
        number: int64[n] each in ``[0, g)``.
        starts: int64[g + 1] all 0; gets the place after the last of each group.
        order: int64[n] written: the places by (number, place).
    """
    for i in range(len(number)):
        starts[number[i] + 1] += 1
    for group in range(1, len(starts)):
        starts[group] += starts[group - 1]
    for i in range(len(number)):
        at = starts[number[i]]
        order[at] = i
        starts[number[i]] = at + 1


@borrowing_kernel
def or_by_number(values: Integers, number: Int64s, together: Int64s) -> None:
    """Combine the values of each number by OR.

    Args:
        values: integers[n]; number: int64[n] each in ``[0, g)``.
        together: int64[g] all 0; written.
    """
    for i in range(len(values)):
        together[number[i]] |= values[i]


@borrowing_kernel
def count_before(major: Int64s, minor: Int64s, of_major: Int64s, of_minor: Int64s, count: Int64s) -> None:
    """Count how many of the sorted pairs ``of`` are at or before each of some sorted pairs.

    Args:
        major: int64[n]; minor: int64[n] sorted pairs.
        of_major: int64[m]; of_minor: int64[m] sorted pairs.
        count: int64[n] written.
    """
    passed = 0
    for i in range(len(major)):
        while passed < len(of_major) and (
            of_major[passed] < major[i] or (of_major[passed] == major[i] and of_minor[passed] <= minor[i])
        ):
            passed += 1
        count[i] = passed


@borrowing_kernel
def lower(into: Int64s, place: Int64s, values: Int64s) -> None:
    """Set ``into[place] = min(into[place], value)`` for all values whose place is not -1.

    Args:
        into: int64[k]; place: int64[n] in ``[-1, k)``; values: int64[n].
    """
    for i in range(len(place)):
        at = place[i]
        if at >= 0 and values[i] < into[at]:
            into[at] = values[i]


@borrowing_kernel
def stretch(first: Int64s, last: Int64s, place: Int64s, low: Int64s, high: Int64s) -> None:
    """Make ``[first[place], last[place]]`` reach from low to high, for all of these.

    Args:
        first: int64[k]; last: int64[k].
        place: int64[n] in ``[0, k)``; low: int64[n]; high: int64[n].
    """
    for i in range(len(place)):
        at = place[i]
        if low[i] < first[at]:
            first[at] = low[i]
        if high[i] > last[at]:
            last[at] = high[i]


@borrowing_kernel
def group_places(group: Int64s, starts: Int64s, places: Int64s, groups: Int64s) -> None:
    """Sort the places of a column stably by group, without those of group -1.

    Args:
        group: int64[n] in ``[-1, g)``.
        starts: int64[g + 1] where each group's places begin; used up.
        places: int64[m] written; groups: int64[m] written, the group of each.
    """
    for i in range(len(group)):
        if group[i] >= 0:
            at = starts[group[i]]
            starts[group[i]] = at + 1
            places[at] = i
            groups[at] = group[i]
