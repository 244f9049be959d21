"""Arithmetic of numerics, exactly and with the server's display scales, and casts from and to them.

A :class:`Number` is a whole number and its number of decimals; for NaN and the infinities it is neither.
Values are read by way of their text (``_text_number``); :func:`stored_number` is the counterpart.

PostgreSQL: ``numeric.c``.

Known gap: roots, powers and logarithms.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from headwater.errors import ExpressionError, RecordError
from headwater.filters.functions import Context, each, register
from headwater.filters.numbers import BY_ZERO, out_of_range
from headwater.filters.values import FIXED
from headwater.rows.text._number import write_numeric

_NAN, _INFINITE, _NEGATIVE_INFINITE = 0xC000, 0xD000, 0xF000
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEADERS = {"nan": _NAN, "inf": _INFINITE, "-inf": _NEGATIVE_INFINITE}
_MOST_WEIGHT, _MOST_SCALE, _MOST_DIVISION_SCALE = 0x7FFF, 0x3FFF, 1000
_MIN_DIGITS = 16
_KEPT_BYTES = 64


class Number(NamedTuple):
    """A number, coefficient / 10 ** scale; or, with `special`, NaN or an infinity."""

    coefficient: int
    scale: int
    special: float = 0.0

    @property
    def is_special(self) -> bool:
        """True if it is NaN or an infinity."""
        return self.special != 0.0

    @property
    def is_nan(self) -> bool:
        """True if it is NaN."""
        return self.special != self.special

    @property
    def sign(self) -> int:
        """The sign, -1, 0 or 1; not of NaN."""
        value = self.special if self.is_special else self.coefficient
        return (value > 0) - (value < 0)

    def scaled(self, scale: int) -> int:
        """Return the coefficient for a scale that is not smaller."""
        return int(self.coefficient * 10 ** (scale - self.scale))

    @property
    def fraction(self) -> Fraction:
        """The value as a fraction."""
        return Fraction(self.coefficient, 10**self.scale)


NAN = Number(0, 0, math.nan)


def infinity(sign: int) -> Number:
    """Return an infinity, or NaN for the sign 0."""
    return NAN if sign == 0 else Number(0, 0, sign * math.inf)


def _integer(digits: str) -> int:
    """Read an integer of any length; int() takes strings only up to a limit."""
    return int(Decimal(digits)) if len(digits) > 4000 else int(digits)


def number(payload: bytes) -> Number:
    """Read a stored numeric.

    Raises:
        RecordError: the numeric is malformed.
    """
    return _kept(payload) if len(payload) <= _KEPT_BYTES else _read(payload)


@lru_cache(maxsize=1 << 12)
def _kept(payload: bytes) -> Number:
    return _read(payload)


def _read(payload: bytes) -> Number:
    text = numeric_text(payload)
    if text in _SPECIAL:
        return Number(0, 0, _SPECIAL[text])
    whole, _, decimals = text.partition(".")
    return Number(_integer(whole + decimals), len(decimals))


def numeric_text(payload: bytes) -> str:
    """Print a stored numeric as the server prints it."""
    source = np.frombuffer(bytearray(payload), dtype=np.uint8)
    out = np.empty(64, dtype=np.uint8)
    while (end := write_numeric(source, 0, len(payload), out, 0)) == -1 and len(out) < 1 << 20:
        out = np.empty(8 * len(out), dtype=np.uint8)
    if end < 0:
        raise RecordError("malformed numeric in a column of a row filter")
    return out[:end].tobytes().decode()


def stored_number(value: Number) -> bytes:
    """Return a numeric as it is stored (make_result).

    Raises:
        ExpressionError: the numeric is too large.
    """
    if value.is_special:
        return _HEADERS[str(value.special)].to_bytes(2, "little")
    digits, last = _base_digits(abs(value.coefficient), value.scale)
    weight = last + len(digits) - 1 if digits else 0
    if not -_MOST_WEIGHT - 1 <= weight <= _MOST_WEIGHT or value.scale > _MOST_SCALE:
        raise ExpressionError("value overflows numeric format")
    negative = bool(digits) and value.coefficient < 0
    return _header(negative, weight, value.scale) + b"".join(digit.to_bytes(2, "little") for digit in digits)


def _header(negative: bool, weight: int, scale: int) -> bytes:
    if scale <= 0x3F and -64 <= weight <= 63:
        short = 0x8000 | negative << 13 | scale << 7 | (weight < 0) << 6 | weight & 0x3F
        return short.to_bytes(2, "little")
    return (negative << 14 | scale).to_bytes(2, "little") + weight.to_bytes(2, "little", signed=True)


def _base_digits(coefficient: int, scale: int) -> tuple[list[int], int]:
    """Return the digits to the base 10000 without zeros at either end, and the weight of the last one."""
    if coefficient == 0:
        return [], 0
    text = str(Decimal(coefficient)) + "0" * (-scale % 4)
    text = text.rjust(-(-len(text) // 4) * 4, "0")
    digits = [int(text[at : at + 4]) for at in range(0, len(text), 4)]
    last = -((scale + 3) // 4)
    while digits[-1] == 0:
        digits.pop()
        last += 1
    while digits[0] == 0:
        digits.pop(0)
    return digits, last


def round_half_up(value: Number, scale: int) -> Number:
    """Round to `scale` decimals, below zero to tens and so on, halves away from zero (round_var)."""
    return _cut(value, scale, rounds=True)


def _cut(value: Number, scale: int, *, rounds: bool) -> Number:
    shown = max(scale, 0)
    if scale >= value.scale:
        return Number(value.scaled(scale), scale)
    divisor = 10 ** (value.scale - scale)
    quotient, rest = divmod(abs(value.coefficient), divisor)
    quotient += rounds and 2 * rest >= divisor
    quotient = quotient if value.coefficient >= 0 else -quotient
    return Number(quotient * 10 ** (shown - scale), shown)


def _add(left: Number, right: Number) -> Number:
    if left.is_special or right.is_special:
        if left.is_nan or right.is_nan or left.special == -right.special:
            return NAN
        return left if left.is_special else right
    scale = max(left.scale, right.scale)
    return Number(left.scaled(scale) + right.scaled(scale), scale)


def _negative(value: Number) -> Number:
    return Number(-value.coefficient, value.scale, -value.special if value.is_special else 0.0)


def _multiply(left: Number, right: Number) -> Number:
    if left.is_nan or right.is_nan:
        return NAN
    if left.is_special or right.is_special:
        return infinity(left.sign * right.sign)
    product = Number(left.coefficient * right.coefficient, left.scale + right.scale)
    return round_half_up(product, _MOST_SCALE) if product.scale > _MOST_SCALE else product


def _first_digit(value: Number) -> tuple[int, int]:
    """Return the first digit to the base 10000, and its weight."""
    digits, last = _base_digits(abs(value.coefficient), value.scale)
    return (digits[0], last + len(digits) - 1) if digits else (0, 0)


def _division_scale(left: Number, right: Number) -> int:
    (digit, weight), (other, other_weight) = _first_digit(left), _first_digit(right)
    quotient_weight = weight - other_weight - (digit <= other)
    return min(max(_MIN_DIGITS - 4 * quotient_weight, left.scale, right.scale, 0), _MOST_DIVISION_SCALE)


def _divide(left: Number, right: Number) -> Number:
    if left.is_nan or right.is_nan:
        return NAN
    if left.is_special and right.is_special:
        return NAN
    if right.is_special:
        return Number(0, 0)
    if right.coefficient == 0:
        raise ExpressionError(BY_ZERO)
    if left.is_special:
        return infinity(left.sign * right.sign)
    return _quotient(left, right, _division_scale(left, right))


def _quotient(left: Number, right: Number, scale: int) -> Number:
    top = abs(left.coefficient) * 10 ** (scale + right.scale)
    bottom = abs(right.coefficient) * 10**left.scale
    quotient, rest = divmod(top, bottom)
    quotient += 2 * rest >= bottom
    return Number(quotient * left.sign * right.sign, scale)


def _modulo(left: Number, right: Number) -> Number:
    if left.is_nan or right.is_nan:
        return NAN
    if right.sign == 0:
        raise ExpressionError(BY_ZERO)
    if left.is_special:
        return NAN
    if right.is_special:
        return left
    scale = max(left.scale, right.scale)
    rest = abs(left.scaled(scale)) % abs(right.scaled(scale))
    return Number(rest if left.coefficient >= 0 else -rest, scale)


def _div_trunc(left: Number, right: Number) -> Number:
    if left.is_special or right.is_special or right.coefficient == 0:
        return _divide(left, right)
    scale = max(left.scale, right.scale)
    quotient = abs(left.scaled(scale)) // abs(right.scaled(scale))
    return Number(quotient * left.sign * right.sign, 0)


def _round(value: Number, scale: int = 0) -> Number:
    scale = min(max(scale, -(_MOST_WEIGHT + 1) * 4 - 1), _MOST_SCALE)
    return value if value.is_special else round_half_up(value, scale)


def _trunc(value: Number, scale: int = 0) -> Number:
    """Cut decimals off; none are added."""
    if value.is_special:
        return value
    return _cut(value, min(max(scale, -(_MOST_WEIGHT + 1) * 4), _MOST_SCALE), rounds=False)


def _whole(direction: int) -> Callable[[Number], Number]:
    def whole(value: Number) -> Number:
        if value.is_special:
            return value
        divisor = 10**value.scale
        return Number(value.coefficient // divisor if direction < 0 else -(-value.coefficient // divisor), 0)

    return whole


def _magnitude(value: Number) -> Number:
    return Number(abs(value.coefficient), value.scale, abs(value.special) if value.is_special else 0.0)


def _sign(value: Number) -> Number:
    return NAN if value.is_nan else Number(value.sign, 0)


def _coerced(value: Number, typmod: int) -> Number:
    """Coerce a number to numeric(p, s), a precision and a scale (apply_typmod)."""
    if typmod < 4 or value.is_nan:
        return value
    precision, scale = (typmod - 4) >> 16 & 0xFFFF, ((typmod - 4 & 0x7FF) ^ 1024) - 1024
    if value.is_special:
        raise ExpressionError("numeric field overflow")
    rounded = round_half_up(value, scale)
    if abs(rounded.coefficient) >= 10 ** max(precision - scale + rounded.scale, 0) and rounded.coefficient:
        raise ExpressionError("numeric field overflow")
    return rounded


def as_integer(context: Context, value: Number) -> int:
    """Convert a number to an integer of the result's type.

    Raises:
        ExpressionError: the number does not fit.
    """
    names = {21: "smallint", 23: "integer", 20: "bigint"}
    if value.is_special:
        what = "NaN" if value.is_nan else "infinity"
        raise ExpressionError(f"cannot convert {what} to {names[context.result]}")
    rounded = round_half_up(value, 0).coefficient
    info = np.iinfo(FIXED[context.result])
    if not info.min <= rounded <= info.max:
        raise out_of_range(context.result)
    return rounded


def as_float(context: Context, value: Number) -> float:
    """Convert a number to a float of the result's type.

    Raises:
        ExpressionError: the number is too large, or too small.
    """
    if value.is_special:
        return value.special
    is_double = context.result == 701
    nearest = _nearest(value, is_double)
    if value.coefficient and (nearest == 0 or math.isinf(nearest)):
        name = "double precision" if is_double else "real"
        raise ExpressionError(f'"{numeric_text(stored_number(value))}" is out of range for type {name}')
    return nearest


def _integer_of(context: Context, payload: bytes) -> int:
    return as_integer(context, number(payload))


def _float_of(context: Context, payload: bytes) -> float:
    return as_float(context, number(payload))


def _nearest(value: Number, is_double: bool) -> float:
    """Return the nearest float, of double or single width."""
    double = float(Decimal((value.coefficient < 0, _digits(value.coefficient), -value.scale)))
    if is_double:
        return double
    with np.errstate(all="ignore"):
        single = np.float32(double)
        # Rounded twice: where the double lies in the middle of two singles, the number itself decides.
        for other in (np.nextafter(single, np.float32(-np.inf)), np.nextafter(single, np.float32(np.inf))):
            if np.isfinite(single) and np.isfinite(other) and (float(single) + float(other)) / 2 == double:
                middle = Fraction(double)
                if value.fraction != middle:
                    towards_other = (value.fraction > middle) == (other > single)
                    return float(other if towards_other else single)
    return float(single)


def _digits(value: int) -> tuple[int, ...]:
    return Decimal(abs(value)).as_tuple().digits


def _of_float(digits: int) -> Callable[[Context, float], bytes]:
    def convert(_: Context, value: float) -> bytes:
        if math.isnan(value) or math.isinf(value):
            return stored_number(Number(0, 0, value))
        return stored_number(number_of_text(f"{value:.{digits}g}"))

    return convert


def number_of_text(text: str) -> Number:
    """Read a number from its text, with or without an exponent."""
    with decimal.localcontext(decimal.Context(prec=decimal.MAX_PREC)):
        sign, digits, exponent = Decimal(text).as_tuple()
    coefficient = _integer("".join(map(str, digits))) * (-1 if sign else 1)
    assert isinstance(exponent, int)
    return Number(coefficient, -exponent) if exponent < 0 else Number(coefficient * 10**exponent, 0)


def _of_integer(_: Context, value: int) -> bytes:
    return stored_number(Number(value, 0))


def _numeric(names: str, function: Callable[..., Number]) -> None:
    """Register a function of numbers, some of whose arguments may be integers."""

    def of_row(_: Context, *values: Any) -> bytes:
        return stored_number(function(*(number(value) if isinstance(value, bytes) else value for value in values)))

    register(names.split(), each(of_row))


_numeric("numeric_add", _add)
_numeric("numeric_sub", lambda left, right: _add(left, _negative(right)))
_numeric("numeric_mul", _multiply)
_numeric("numeric_div", _divide)
_numeric("numeric_mod", _modulo)
_numeric("numeric_div_trunc", _div_trunc)
_numeric("numeric_uminus", _negative)
_numeric("numeric_abs", _magnitude)
_numeric("numeric_sign", _sign)
_numeric("numeric_ceil", _whole(1))
_numeric("numeric_floor", _whole(-1))
_numeric("numeric_round round(numeric)", _round)
_numeric("numeric_trunc trunc(numeric)", _trunc)
_numeric("numeric", _coerced)
_numeric("numeric_inc", lambda value: _add(value, Number(1, 0)))
register("numeric_uplus", lambda _, value: value, total=True)
register(["int2_numeric", "int4_numeric", "int8_numeric"], each(_of_integer))
register("float8_numeric", each(_of_float(15)))
register("float4_numeric", each(_of_float(6)))
register(["numeric_int2", "numeric_int4", "numeric_int8"], each(_integer_of))
register(["numeric_float4", "numeric_float8"], each(_float_of))
