"""Comparison of the built-in scalar types: ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, and the orders behind them.

PostgreSQL: ``float.c`` (NaN is equal to itself and greater than all others).
Numbers and oids: ``int.c``, ``int8.c``, ``numeric.c``, ``cash.c``, ``pg_lsn.c``, ``oid.c``, ``xid.c``, ``bool.c``.
All else: ``varlena.c``, ``varchar.c``, ``char.c``, ``name.c``, ``date.c``, ``timestamp.c``, ``uuid.c``,
``network.c``, ``mac.c``, ``mac8.c``, ``varbit.c``.

Known gap: text is put in order only under collations that go by bytes; under all others only equality is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.filters.functions import Check, Compute, Context, needs_byte_order, register
from headwater.filters.values import Plain, Spans, Values, booleans
from headwater.rows._text_codes import CORRUPT
from headwater.rows.columns import _stored_columns

Order: TypeAlias = Callable[[Any, Any], NDArray[np.int8]]
"""The comparison of two columns of values to int8[n] of -1, 0 and 1; the columns have no NULLs, or it is total."""

_DAY = 86_400_000_000
_LAST = np.iinfo(np.int64).max - 1
_DATE_NOBEGIN, _DATE_NOEND = np.iinfo(np.int32).min, np.iinfo(np.int32).max
_NOBEGIN, _NOEND = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _sign(below: NDArray[np.bool_], above: NDArray[np.bool_]) -> NDArray[np.int8]:
    return above.astype(np.int8) - below.astype(np.int8)


def order_plain(left: Plain, right: Plain) -> NDArray[np.int8]:
    """Compare numbers that NumPy compares as the server does: of any width, signed or all unsigned."""
    return _sign(left.data < right.data, left.data > right.data)


def order_floats(left: Plain, right: Plain) -> NDArray[np.int8]:
    """Compare floats: NaN is the greatest, and equal to itself."""
    nan, other = np.isnan(left.data), np.isnan(right.data)
    return _sign((left.data < right.data) | (other & ~nan), (left.data > right.data) | (nan & ~other))


def _by_kernel(kernel: Callable[..., int]) -> Order:
    def order(left: Spans, right: Spans) -> NDArray[np.int8]:
        out = np.empty(len(left), dtype=np.int8)
        if kernel(left.for_kernels, right.for_kernels, out) == CORRUPT:
            raise RecordError("malformed value of a column of a row filter")
        return out

    return order


order_bytes = _by_kernel(_stored_columns.compare_bytes)
equal_bytes = _by_kernel(_stored_columns.equal_bytes)
order_numerics = _by_kernel(_stored_columns.compare_numerics)
order_networks = _by_kernel(_stored_columns.compare_networks)


def without_blanks(values: Spans) -> Spans:
    """Cut trailing blanks off values of character(n), as they are compared without them."""
    length = np.empty(len(values), dtype=np.int64)
    _stored_columns.without_trailing(values.for_kernels, 32, length)
    return replace(values, length=length)


def _unpadded(order: Order) -> Order:
    return lambda left, right: order(without_blanks(left), without_blanks(right))


def order_bits(left: Spans, right: Spans) -> NDArray[np.int8]:
    """Compare bit strings by their bits, then by their length; a stored value has the number of bits before them."""
    counts, bits = zip(*(_bits(values) for values in (left, right)), strict=True)
    order = order_bytes(*bits)
    return np.where(order == 0, _sign(counts[0] < counts[1], counts[0] > counts[1]), order)


def _bits(values: Spans) -> tuple[NDArray[np.int32], Spans]:
    if (values.length < 4).any():
        raise RecordError("malformed bit string in a column of a row filter")
    places = values.start[:, np.newaxis] + np.arange(4)
    counts = np.ascontiguousarray(values.data[places]).reshape(-1).view("<i4")
    return counts, replace(values, start=values.start + 4, length=values.length - 4)


def order_zoned_times(left: Plain, right: Plain) -> NDArray[np.int8]:
    """Compare times with zone by the moment, then by the zone."""
    moments = [side.data["time"] + side.data["zone"].astype(np.int64) * 1_000_000 for side in (left, right)]
    zones = left.data["zone"], right.data["zone"]
    order = _sign(moments[0] < moments[1], moments[0] > moments[1])
    return np.where(order == 0, _sign(zones[0] < zones[1], zones[0] > zones[1]), order)


def order_intervals(left: Plain, right: Plain) -> NDArray[np.int8]:
    """Compare intervals by their lengths, a month of 30 days, a day of 24 hours."""
    days, rests = zip(*(_span(side) for side in (left, right)), strict=True)
    order = _sign(days[0] < days[1], days[0] > days[1])
    return np.where(order == 0, _sign(rests[0] < rests[1], rests[0] > rests[1]), order)


def _span(values: Plain) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    whole, rest = np.divmod(values.data["time"], _DAY)
    days = values.data["month"].astype(np.int64) * 30 + values.data["day"] + whole
    return days, rest


def as_timestamps(values: Plain) -> Plain:
    """Convert dates to timestamps to compare with: those after the last timestamp stay above it, below infinity."""
    days = values.data.astype(np.int64)
    stamps = np.where(days > _LAST // _DAY, _LAST, np.clip(days, None, _LAST // _DAY) * _DAY)
    stamps = np.where(values.data == _DATE_NOBEGIN, _NOBEGIN, np.where(values.data == _DATE_NOEND, _NOEND, stamps))
    return Plain(stamps, values.null)


def _date_first(left: Plain, right: Plain) -> NDArray[np.int8]:
    return order_plain(as_timestamps(left), right)


def _date_last(left: Plain, right: Plain) -> NDArray[np.int8]:
    return order_plain(left, as_timestamps(right))


_TESTS: dict[str, Callable[[NDArray[np.int8]], NDArray[np.bool_]]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
}
_DIRECT: dict[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compute(order: Order, test: str) -> Compute:
    if order is order_plain:
        direct = _DIRECT[test]
        return lambda _, left, right: booleans(direct(left.data, right.data))
    return lambda _, left, right: booleans(_TESTS[test](order(left, right)))


def _compute_order(order: Order) -> Compute:
    def compute(_: Context, left: Values, right: Values) -> Values:
        signs = order(left, right).astype(np.int32)
        return Plain(signs, np.zeros(len(signs), dtype=bool))

    return compute


ORDERS: dict[int, tuple[Order, Check | None]] = {}
"""The order of a type's values (its btree operator class), and its check, by the type's OID."""


ORDER_OF: dict[str, Order] = {}
"""The order by which an operator's function compares, by its name in C."""

TEST_OF: dict[str, str] = {}
"""The test of that order, by the function's name in C: ``eq``, ``ne``, ``lt``, ``le``, ``gt`` or ``ge``."""


def _family(
    pattern: str,
    order: Order,
    types: tuple[int, ...] = (),
    compare: str = "",
    only: str = "eq ne lt le gt ge",
    **how: Any,
) -> None:
    """Register the functions of an order; `pattern` has ``*`` in the place of ``eq`` and so on."""
    check: Check | None = how.get("check")
    for test in only.split():
        is_total = order in (order_plain, order_floats, order_zoned_times, order_intervals, order_bytes)
        register(pattern.replace("*", test), _compute(order, test), check, total=is_total)
        ORDER_OF[pattern.replace("*", test)] = order
        TEST_OF[pattern.replace("*", test)] = test
    if compare:
        register(compare, _compute_order(order), check)
    ORDERS.update(dict.fromkeys(types, (order, check)))


def _register_plain() -> None:
    for pattern, compare, *types in (
        ("int2*", "btint2cmp", 21),
        ("int4*", "btint4cmp", 23),
        ("int8*", "btint8cmp", 20),
        ("int24*", "btint24cmp"),
        ("int42*", "btint42cmp"),
        ("int28*", "btint28cmp"),
        ("int82*", "btint82cmp"),
        ("int48*", "btint48cmp"),
        ("int84*", "btint84cmp"),
        ("oid*", "btoidcmp", 26),
        ("oid8*", "btoid8cmp", 6437),
        ("bool*", "btboolcmp", 16),
        ("char*", "btcharcmp", 18),
        ("cash_*", "cash_cmp", 790),
        ("date_*", "date_cmp", 1082),
        ("time_*", "time_cmp", 1083),
        ("timestamp_*", "timestamp_cmp", 1114, 1184),
        ("pg_lsn_*", "pg_lsn_cmp", 3220),
        ("xid8*", "xid8cmp", 5069),
    ):
        _family(str(pattern), order_plain, tuple(int(type) for type in types), str(compare))
    _family("xid*", order_plain, only="eq")
    _family("xidneq", order_plain, only="ne")
    _family("cideq", order_plain, only="eq")


def _register_others() -> None:
    _family("float4*", order_floats, (700,), "btfloat4cmp")
    _family("float8*", order_floats, (701,), "btfloat8cmp")
    _family("float48*", order_floats, (), "btfloat48cmp")
    _family("float84*", order_floats, (), "btfloat84cmp")
    _family("numeric_*", order_numerics, (1700,), "numeric_cmp")
    _family("bytea*", order_bytes, (17,), "byteacmp")
    _family("uuid_*", order_bytes, (2950,), "uuid_cmp")
    _family("macaddr_*", order_bytes, (829,), "macaddr_cmp")
    _family("macaddr8_*", order_bytes, (774,), "macaddr8_cmp")
    _family("network_*", order_networks, (869, 650), "network_cmp")
    _family("bit*", order_bits, (1560, 1562), "bitcmp")
    _family("timetz_*", order_zoned_times, (1266,), "timetz_cmp")
    _family("interval_*", order_intervals, (1186,), "interval_cmp")
    _family("date_*_timestamp", _date_first, (), "date_cmp_timestamp")
    _family("timestamp_*_date", _date_last, (), "timestamp_cmp_date")


def _register_texts() -> None:
    """Register comparisons of texts; under all collations equal texts have equal bytes, as these are deterministic."""
    sorts = {"check": needs_byte_order}
    _family("text*", equal_bytes, only="eq ne")
    _family("text_*", order_bytes, (25, 1043), "bttextcmp", "lt le gt ge", **sorts)
    _family("text_pattern_*", order_bytes, (), "bttext_pattern_cmp", "lt le gt ge")
    _family("bpchar*", _unpadded(equal_bytes), only="eq ne")
    _family("bpchar*", _unpadded(order_bytes), (1042,), "bpcharcmp", "lt le gt ge", **sorts)
    _family("bpchar_pattern_*", _unpadded(order_bytes), (), "btbpchar_pattern_cmp", "lt le gt ge")
    _family("name*", equal_bytes, only="eq ne")
    _family("name*", order_bytes, (19,), "btnamecmp", "lt le gt ge", **sorts)
    for both, compare in (("name*text", "btnametextcmp"), ("text*name", "bttextnamecmp")):
        _family(both, equal_bytes, only="eq ne")
        _family(both, order_bytes, (), compare, "lt le gt ge", **sorts)


_register_plain()
_register_others()
_register_texts()
