"""Functions of arrays.

PostgreSQL: ``arrayfuncs.c`` (array_eq, array_cmp, array_contain_compare), ``array_userfuncs.c``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.filters.functions import Context, each, register
from headwater.filters.parts import elements_of, inner_type, shape_of
from headwater.filters.sort_keys import needs_keys, sort_key


def _element(context: Context) -> int:
    return inner_type(context.types[0], context.settings.major)


def _needs_equality(context: Context) -> None:
    needs_keys(_element(context), context, ordered=False)


def _needs_order(context: Context) -> None:
    needs_keys(_element(context), context, ordered=True)


def _keys(context: Context, payload: bytes) -> list[Any]:
    """Return the sort keys of the elements, None for NULL."""
    key = sort_key(_element(context))
    elements = elements_of(context.types[0], context.settings.major, payload)
    return [None if value is None else key(value) for value in elements]


def _is_equal(context: Context, left: bytes, right: bytes) -> bool:
    return shape_of(left) == shape_of(right) and _keys(context, left) == _keys(context, right)


def _order(context: Context, left: bytes, right: bytes) -> int:
    left_keys, right_keys = _keys(context, left), _keys(context, right)
    for ours, theirs in zip(left_keys, right_keys, strict=False):
        if ours != theirs:
            # NULL is greater than all values.
            is_less = ours is not None and (theirs is None or ours < theirs)
            return -1 if is_less else 1
    shapes = [
        (len(keys), len(shape_of(whole)[0]), *shape_of(whole))
        for keys, whole in ((left_keys, left), (right_keys, right))
    ]
    return (shapes[0] > shapes[1]) - (shapes[0] < shapes[1])


def _contains(context: Context, outer: bytes, inner: bytes) -> bool:
    present = set(_keys(context, outer)) - {None}
    return all(key in present for key in _keys(context, inner))


def _overlaps(context: Context, left: bytes, right: bytes) -> bool:
    return bool(set(_keys(context, left)) & set(_keys(context, right)) - {None})


def _length(_: Context, array: bytes, dimension: int) -> int | None:
    sizes, _bounds = shape_of(array)
    return sizes[dimension - 1] if 1 <= dimension <= len(sizes) else None


def _lower(_: Context, array: bytes, dimension: int) -> int | None:
    sizes, bounds = shape_of(array)
    return bounds[dimension - 1] if 1 <= dimension <= len(sizes) else None


def _upper(_: Context, array: bytes, dimension: int) -> int | None:
    sizes, bounds = shape_of(array)
    return bounds[dimension - 1] + sizes[dimension - 1] - 1 if 1 <= dimension <= len(sizes) else None


def _cardinality(_: Context, array: bytes) -> int:
    sizes, _bounds = shape_of(array)
    count = 1 if sizes else 0
    for size in sizes:
        count *= size
    return count


def _dimensions(_: Context, array: bytes) -> int | None:
    return len(shape_of(array)[0]) or None


def _compared(test: Callable[[int], bool]) -> Callable[[Context, bytes, bytes], bool]:
    return lambda context, left, right: test(_order(context, left, right))


register("array_eq", each(_is_equal), _needs_equality)
register("array_ne", each(lambda context, left, right: not _is_equal(context, left, right)), _needs_equality)
register("array_lt", each(_compared(lambda order: order < 0)), _needs_order)
register("array_le", each(_compared(lambda order: order <= 0)), _needs_order)
register("array_gt", each(_compared(lambda order: order > 0)), _needs_order)
register("array_ge", each(_compared(lambda order: order >= 0)), _needs_order)
register("arraycontains", each(_contains), _needs_equality)
register("arraycontained", each(lambda context, inner, outer: _contains(context, outer, inner)), _needs_equality)
register("arrayoverlap", each(_overlaps), _needs_equality)
register("array_length", each(_length))
register("array_lower", each(_lower))
register("array_upper", each(_upper))
register("array_cardinality", each(_cardinality))
register("array_ndims", each(_dimensions))
