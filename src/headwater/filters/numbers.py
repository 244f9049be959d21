"""Arithmetic of integers, floats and amounts of money, and casts between them.

A result that does not fit, and a division by zero, are the server's errors.

PostgreSQL: ``int.c``, ``int8.c``, ``float.c``, ``utils/float.h``, ``cash.c``, ``char.c``, ``bool.c``, ``oid.c``.

Known gap: functions of the machine's library of mathematics (``exp``, ``ln``, ``sin``), whose last digit is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwater.errors import ExpressionError
from headwater.filters.functions import Context, each, register
from headwater.filters.values import FIXED, Plain, Values, booleans

Ints: TypeAlias = NDArray[np.int64]

BY_ZERO = "division by zero"
OVERFLOW, UNDERFLOW = "value out of range: overflow", "value out of range: underflow"
_RANGES = {21: "smallint", 23: "integer", 20: "bigint", 790: "money", 26: "OID"}
_BITS = {21: 16, 23: 32, 20: 64, 790: 64}
_INT64 = np.iinfo(np.int64)


def out_of_range(type: int) -> ExpressionError:
    """Return the error of an integer that does not fit a type."""
    return ExpressionError(f"{_RANGES[type]} out of range")


def _plain(data: NDArray[Any], type: int) -> Plain:
    return Plain(data.astype(FIXED[type], copy=False), np.zeros(len(data), bool))


def fitting(data: Ints, type: int) -> Plain:
    """Convert integers to values of a type.

    Raises:
        ExpressionError: an integer does not fit.
    """
    info = np.iinfo(FIXED[type])
    if len(data) and not (info.min <= int(data.min()) and int(data.max()) <= info.max):
        raise out_of_range(type)
    return _plain(data, type)


def _wide(value: Plain) -> Ints:
    return value.data.astype(np.int64)


def _sum(left: Ints, right: Ints, type: int) -> Ints:
    with np.errstate(over="ignore"):
        total = left + right
    if (((left ^ total) & (right ^ total)) < 0).any():
        raise out_of_range(type)
    return total


def _difference(left: Ints, right: Ints, type: int) -> Ints:
    with np.errstate(over="ignore"):
        difference = left - right
    if (((left ^ right) & (left ^ difference)) < 0).any():
        raise out_of_range(type)
    return difference


def _product(left: Ints, right: Ints, type: int) -> Ints:
    if not (_are_narrow(left) and _are_narrow(right)):
        exact = left.astype(object) * right.astype(object)
        if any(not _INT64.min <= value <= _INT64.max for value in exact):
            raise out_of_range(type)
        return np.array(exact, dtype=np.int64)
    return left * right


def _are_narrow(values: Ints) -> bool:
    return not len(values) or (int(values.min()) >= -(1 << 31) and int(values.max()) < 1 << 31)


def _quotient(left: Ints, right: Ints, type: int) -> Ints:
    """Divide, rounded towards zero."""
    if (right == 0).any():
        raise ExpressionError(BY_ZERO)
    if ((left == _INT64.min) & (right == -1)).any():
        raise out_of_range(type)
    quotient = left // right
    rounded: Ints = quotient + ((quotient < 0) & (quotient * right != left))
    return rounded


def _remainder(left: Ints, right: Ints, _: int) -> Ints:
    """Return the remainder, which has the sign of the dividend."""
    if (right == 0).any():
        raise ExpressionError(BY_ZERO)
    remainder: Ints = np.fmod(left, np.where(right == -1, 1, right))
    return remainder


_OPERATIONS = {"pl": _sum, "mi": _difference, "mul": _product, "div": _quotient}


def _integer_operation(operation: Callable[[Ints, Ints, int], Ints]) -> Callable[..., Values]:
    return lambda context, left, right: fitting(operation(_wide(left), _wide(right), context.result), context.result)


def _negated(context: Context, value: Plain) -> Values:
    return fitting(_difference(np.zeros(len(value), np.int64), _wide(value), context.result), context.result)


def _magnitude(context: Context, value: Plain) -> Values:
    data = _wide(value)
    if (data == _INT64.min).any():
        raise out_of_range(context.result)
    return fitting(np.abs(data), context.result)


def _as_integer(context: Context, value: Plain) -> Values:
    """Convert between types of integers."""
    return fitting(_wide(value), context.result)


def _as_oid(context: Context, value: Plain) -> Values:
    return fitting(_wide(value), context.result)


def _shift(is_left: bool) -> Callable[..., Values]:
    """Make a shift, which goes by the count's low bits, as the machine's does."""

    def shift(context: Context, value: Plain, count: Plain) -> Values:
        bits = _BITS[context.result]
        wide = max(bits, 32)
        places = _wide(count) & (wide - 1)
        data = _wide(value)
        if not is_left:
            return _plain(data >> places, context.result)
        shifted = data.view(np.uint64) << places.view(np.uint64)
        return _plain(shifted.view(np.int64).astype(FIXED[context.result]), context.result)

    return shift


def _bitwise(operation: Any) -> Callable[..., Values]:
    return lambda context, *values: _plain(operation(*(value.data for value in values)), context.result)


def _register_integers() -> None:
    for left, right, _ in (("2", "", 21), ("4", "", 23), ("8", "", 20), ("2", "4", 23), ("4", "2", 23), ("2", "8", 20)):
        for name, operation in _OPERATIONS.items():
            register(f"int{left}{right}{name}", _integer_operation(operation))
    for left, right in (("8", "2"), ("4", "8"), ("8", "4")):
        for name, operation in _OPERATIONS.items():
            register(f"int{left}{right}{name}", _integer_operation(operation))
    for size in "248":
        register(f"int{size}mod", _integer_operation(_remainder))
        register(f"int{size}um", _negated)
        register(f"int{size}abs", _magnitude)
        register(f"int{size}up", lambda _, value: value, total=True)
        register(f"int{size}larger", _bitwise(np.maximum))
        register(f"int{size}smaller", _bitwise(np.minimum))
        register(f"int{size}and", _bitwise(np.bitwise_and))
        register(f"int{size}or", _bitwise(np.bitwise_or))
        register(f"int{size}xor", _bitwise(np.bitwise_xor))
        register(f"int{size}not", _bitwise(np.bitwise_not))
        register(f"int{size}shl", _shift(True))
        register(f"int{size}shr", _shift(False))
    register(["i2toi4", "i4toi2", "int48", "int84", "int28", "int82"], _as_integer)
    register(["i8tooid", "oidtoi8"], _as_oid)
    register("int4_bool", lambda _, value: booleans(value.data != 0), total=True)
    register("bool_int4", lambda context, value: _plain(value.data, context.result), total=True)
    register("booltext", each(lambda _, value: b"true" if value else b"false"))
    register("cash_pl", _integer_operation(_sum))
    register("cash_mi", _integer_operation(_difference))


# Floats.


def _floats(context: Context, value: Plain) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):
        return value.data.astype(FIXED[context.result], copy=False)


def _checked(values: NDArray[Any], overflows: NDArray[np.bool_], underflows: NDArray[np.bool_], type: int) -> Plain:
    if (np.isinf(values) & overflows).any():
        raise ExpressionError(OVERFLOW)
    if ((values == 0) & underflows).any():
        raise ExpressionError(UNDERFLOW)
    return _plain(values, type)


def _float_operation(name: str) -> Callable[..., Values]:
    def operate(context: Context, left_column: Plain, right_column: Plain) -> Values:
        left, right = _floats(context, left_column), _floats(context, right_column)
        finite = ~np.isinf(left) & ~np.isinf(right)
        never = np.zeros(len(left), bool)
        with np.errstate(all="ignore"):
            if name == "pl":
                return _checked(left + right, finite, never, context.result)
            if name == "mi":
                return _checked(left - right, finite, never, context.result)
            if name == "mul":
                return _checked(left * right, finite, (left != 0) & (right != 0), context.result)
            if ((right == 0) & ~np.isnan(left)).any():
                raise ExpressionError(BY_ZERO)
            return _checked(left / right, ~np.isinf(left), (left != 0) & ~np.isinf(right), context.result)

    return operate


def _float_function(function: Any) -> Callable[..., Values]:
    def compute(context: Context, value: Plain) -> Values:
        with np.errstate(all="ignore"):
            return _plain(function(value.data), context.result)

    return compute


def _float_sign(values: NDArray[Any]) -> NDArray[Any]:
    """Return the signs of floats, zero for NaN."""
    return np.where(values > 0, 1.0, np.where(values < 0, -1.0, 0.0))


def _root(context: Context, value: Plain) -> Values:
    if (value.data < 0).any():
        raise ExpressionError("cannot take square root of a negative number")
    return _float_function(np.sqrt)(context, value)


def _rounded(context: Context, value: Plain) -> Values:
    """Round a float to an integer, halves to the even one."""
    with np.errstate(all="ignore"):
        whole = np.rint(value.data).astype(np.float64)
    bits = _BITS[context.result]
    if not ((whole >= -(2.0 ** (bits - 1))) & (whole < 2.0 ** (bits - 1))).all():
        raise out_of_range(context.result)
    return _plain(whole.astype(np.int64), context.result)


def _narrowed(context: Context, value: Plain) -> Values:
    """Convert float8 to float4."""
    with np.errstate(all="ignore"):
        narrowed = value.data.astype(np.float32)
    return _checked(narrowed, ~np.isinf(value.data), value.data != 0, context.result)


def _greater(context: Context, left: Plain, right: Plain) -> Values:
    nan = np.isnan(left.data)
    return _plain(np.where(nan | (left.data > right.data), left.data, right.data), context.result)


def _smaller(context: Context, left: Plain, right: Plain) -> Values:
    nan = np.isnan(right.data)
    return _plain(np.where(nan | (left.data < right.data), left.data, right.data), context.result)


def _register_floats() -> None:
    for sizes in ("4", "8", "48", "84"):
        for name in ("pl", "mi", "mul", "div"):
            register(f"float{sizes}{name}", _float_operation(name))
    for size in "48":
        register(f"float{size}um", _float_function(np.negative))
        register(f"float{size}up", lambda _, value: value, total=True)
        register(f"float{size}abs", _float_function(np.abs))
        register(f"float{size}larger", _greater)
        register(f"float{size}smaller", _smaller)
    register("dround", _float_function(np.rint))
    register("dtrunc", _float_function(np.trunc))
    register("dceil", _float_function(np.ceil))
    register("dfloor", _float_function(np.floor))
    register("dsign", _float_function(_float_sign))
    register("dsqrt", _root)
    register(["dtoi2", "dtoi4", "dtoi8", "ftoi2", "ftoi4", "ftoi8"], _rounded)
    as_float = _float_function(lambda values: values)
    register(["i2tod", "i4tod", "i8tod", "i2tof", "i4tof", "i8tof", "ftod"], as_float)
    register("dtof", _narrowed)


_register_integers()
_register_floats()
