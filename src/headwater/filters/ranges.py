"""Functions of ranges.

PostgreSQL: ``rangetypes.c`` (range_cmp_bounds, range_eq_internal and so on).

Known gaps: multiranges, unions and differences of ranges, whether they are adjacent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from headwater.filters.functions import Context, each, register
from headwater.filters.parts import inner_type, payloads, taken_apart
from headwater.filters.sort_keys import needs_keys, sort_key
from headwater.filters.values import FIXED, spans

_EMPTY, _LOWER_INCLUSIVE, _UPPER_INCLUSIVE, _LOWER_INFINITE, _UPPER_INFINITE = 1, 2, 4, 8, 16


class Bound(NamedTuple):
    """A bound of a range.

    Attributes:
        payload: its value as it is stored, None for an infinite bound.
        key: the key by which it is compared.
        inclusive: whether it belongs to the range.
        is_lower: whether it is the lower one.
    """

    payload: bytes | None
    key: Any
    inclusive: bool
    is_lower: bool


class Range(NamedTuple):
    """A range; the bounds of an empty one have no meaning."""

    is_empty: bool
    lower: Bound
    upper: Bound


@lru_cache(maxsize=1 << 12)
def range_of(type: int, major: int, payload: bytes) -> Range:
    """Read a stored range.

    Args:
        type: its type's OID.
        major: PostgreSQL's.
        payload: as it is stored.
    """
    flags = payload[-1]
    bound_payloads = payloads(taken_apart(type, major, spans([payload])).values)
    key = sort_key(inner_type(type, major))
    bounds = [
        Bound(value, None if value is None else key(value), bool(flags & inclusive), is_lower)
        for value, inclusive, is_lower in zip(
            bound_payloads or (None, None), (_LOWER_INCLUSIVE, _UPPER_INCLUSIVE), (True, False), strict=True
        )
    ]
    return Range(bool(flags & _EMPTY), *bounds)


def _compare(left: Bound, right: Bound) -> int:
    """Compare bounds to -1, 0 or 1 (range_cmp_bounds)."""
    if left.payload is None or right.payload is None:
        if left.payload is None and right.payload is None:
            return 0 if left.is_lower == right.is_lower else (-1 if left.is_lower else 1)
        if left.payload is None:
            return -1 if left.is_lower else 1
        return 1 if right.is_lower else -1
    if left.key != right.key:
        return -1 if left.key < right.key else 1
    if left.inclusive and right.inclusive:
        return 0
    if not left.inclusive and not right.inclusive:
        return 0 if left.is_lower == right.is_lower else (1 if left.is_lower else -1)
    if left.inclusive:
        return -1 if right.is_lower else 1
    return 1 if left.is_lower else -1


def _order(left: Range, right: Range) -> int:
    """Compare ranges to -1, 0 or 1; an empty range is less than all others (range_cmp)."""
    if left.is_empty or right.is_empty:
        return int(right.is_empty) - int(left.is_empty) if left.is_empty != right.is_empty else 0
    return _compare(left.lower, right.lower) or _compare(left.upper, right.upper)


def _contains(outer: Range, inner: Range) -> bool:
    if inner.is_empty or outer.is_empty:
        return inner.is_empty
    return _compare(outer.lower, inner.lower) <= 0 <= _compare(outer.upper, inner.upper)


def _overlaps(left: Range, right: Range) -> bool:
    if left.is_empty or right.is_empty:
        return False
    if _compare(left.lower, right.lower) >= 0:
        return _compare(left.lower, right.upper) <= 0
    return _compare(right.lower, left.upper) <= 0


def _of_both(decide: Callable[[Range, Range], bool]) -> Callable[[Range, Range], bool]:
    return lambda left, right: not left.is_empty and not right.is_empty and decide(left, right)


def _test(decide: Callable[[Range, Range], bool]) -> Callable[[Context, bytes, bytes], bool]:
    def test(context: Context, left: bytes, right: bytes) -> bool:
        major, (type, *_) = context.settings.major, context.types
        return decide(range_of(type, major, left), range_of(type, major, right))

    return test


def _ask(about: Callable[[Range], bool]) -> Callable[[Context, bytes], bool]:
    return lambda context, value: about(range_of(context.types[0], context.settings.major, value))


def _as_stored(type: int, value: Any) -> bytes:
    """Return the stored form of a value that a column's ``to_list`` has given."""
    return np.array([value], dtype=FIXED[type]).tobytes() if type in FIXED else bytes(value)


def _as_value(type: int, payload: bytes | None) -> Any:
    if payload is None or type not in FIXED:
        return payload
    return np.frombuffer(payload, dtype=FIXED[type])[0].item()


def _has(place: int) -> Callable[[Context, Any, Any], bool]:
    """Make the test of a value in a range; the range is the argument at `place`."""

    def has(context: Context, *arguments: Any) -> bool:
        type, major = context.types[place], context.settings.major
        value = _as_stored(inner_type(type, major), arguments[1 - place])
        key = sort_key(inner_type(type, major))(value)
        whole = range_of(type, major, arguments[place])
        point = Bound(value, key, True, True)
        return not whole.is_empty and _compare(whole.lower, point) <= 0 <= _compare(
            whole.upper, point._replace(is_lower=False)
        )

    return has


def _bound(which: str) -> Callable[[Context, bytes], Any]:
    def bound(context: Context, payload: bytes) -> Any:
        whole = range_of(context.types[0], context.settings.major, payload)
        side: Bound = getattr(whole, which)
        return None if whole.is_empty else _as_value(context.result, side.payload)

    return bound


def _needs_bounds(place: int) -> Callable[[Context], None]:
    def check(context: Context) -> None:
        needs_keys(inner_type(context.types[place], context.settings.major), context, ordered=True)

    return check


_TESTS: dict[str, Callable[[Range, Range], bool]] = {
    "range_eq": lambda left, right: _order(left, right) == 0,
    "range_ne": lambda left, right: _order(left, right) != 0,
    "range_lt": lambda left, right: _order(left, right) < 0,
    "range_le": lambda left, right: _order(left, right) <= 0,
    "range_gt": lambda left, right: _order(left, right) > 0,
    "range_ge": lambda left, right: _order(left, right) >= 0,
    "range_contains": _contains,
    "range_contained_by": lambda inner, outer: _contains(outer, inner),
    "range_overlaps": _overlaps,
    "range_before": _of_both(lambda left, right: _compare(left.upper, right.lower) < 0),
    "range_after": _of_both(lambda left, right: _compare(left.lower, right.upper) > 0),
    "range_overleft": _of_both(lambda left, right: _compare(left.upper, right.upper) <= 0),
    "range_overright": _of_both(lambda left, right: _compare(left.lower, right.lower) >= 0),
}
_ASKED: dict[str, Callable[[Range], bool]] = {
    "range_empty": lambda whole: whole.is_empty,
    "range_lower_inc": lambda whole: whole.lower.inclusive,
    "range_upper_inc": lambda whole: whole.upper.inclusive,
    "range_lower_inf": lambda whole: not whole.is_empty and whole.lower.payload is None,
    "range_upper_inf": lambda whole: not whole.is_empty and whole.upper.payload is None,
}

for _name, _decide in _TESTS.items():
    register(_name, each(_test(_decide)), _needs_bounds(0))
for _name, _about in _ASKED.items():
    register(_name, each(_ask(_about)), _needs_bounds(0))
register("range_contains_elem", each(_has(0)), _needs_bounds(0))
register("elem_contained_by_range", each(_has(1)), _needs_bounds(1))
register("range_lower", each(_bound("lower")), _needs_bounds(0))
register("range_upper", each(_bound("upper")), _needs_bounds(0))
