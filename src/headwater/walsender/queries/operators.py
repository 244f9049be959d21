"""Operators of expressions: comparisons, arithmetic of numbers and of LSNs, concatenation, LIKE.

Comparisons are of types of one family. A constant or a parameter whose type is open takes that of the other side.

PostgreSQL: parser/parse_oper.c, utils/adt/pg_lsn.c, numeric.c. Known gap: texts are ordered by their characters' codes,
as under the collation C.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from typing import Any

from headwater.errors import ExpressionError, SessionError
from headwater.filters.patterns import is_like
from headwater.pg.sqlstates import (
    DIVISION_BY_ZERO,
    FEATURE_NOT_SUPPORTED,
    INVALID_ESCAPE_SEQUENCE,
    INVALID_PARAMETER_VALUE,
    NUMERIC_OUT_OF_RANGE,
)
from headwater.walsender.queries.expressions import (
    Evaluation,
    Expression,
    NotHereError,
    ParameterTypes,
    coerced,
)
from headwater.walsender.queries.special_numbers import computed
from headwater.walsender.queries.value_types import (
    BOOL,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    MOST_DIGITS,
    NUMERIC,
    PG_LSN,
    TEXT,
    TIMESTAMPTZ,
    UNKNOWN,
    XID,
    ValueType,
    checked_numeric,
)

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARED = {"boolean", "number", "text", "pg_lsn", "timestamptz", "interval", "xid", "bytea"}
_RANKS = (INT2, INT4, INT8, NUMERIC)


def operation(name: str, left: Expression, right: Expression, types: ParameterTypes) -> Expression:
    """Return the expression of an operator with two operands.

    Raises:
        NotHereError: there is no such operator here; SessionError: a constant is none of the type that is needed.
    """
    if name in ("~~", "!~~"):
        return _like(name, left, right, types)
    if name == "||":
        return _concatenation(left, right, types)
    special = _of_lsns(name, left, right, types) or _of_times(name, left, right)
    if special is not None:
        return special
    left, right = _matched(left, right, types)
    if name in _COMPARISONS:
        return _comparison(name, left, right)
    if left.type.family == right.type.family == "number" and name in _ARITHMETIC:
        return _arithmetic(name, left, right)
    raise _unknown(name, left, right)


def _unknown(name: str, left: Expression, right: Expression) -> NotHereError:
    return NotHereError(f"the operator {left.type.name} {name} {right.type.name}")


def _matched(left: Expression, right: Expression, types: ParameterTypes) -> tuple[Expression, Expression]:
    """Give an operand whose type is open that of the other one."""
    if left.type is UNKNOWN and right.type is UNKNOWN:
        return coerced(left, TEXT, types) or left, coerced(right, TEXT, types) or right
    if left.type is UNKNOWN:
        return coerced(left, right.type, types) or left, right
    if right.type is UNKNOWN:
        return left, coerced(right, left.type, types) or right
    return left, right


def _comparison(name: str, left: Expression, right: Expression) -> Expression:
    if left.type is XID and right.type is INT4 and name in ("=", "<>", "!="):
        return _strict(BOOL, lambda xid, number: _COMPARISONS[name](xid, number & 0xFFFFFFFF), left, right)
    is_known = left.type.family == right.type.family and left.type.family in _COMPARED
    if not is_known or (left.type.family == "xid" and name not in ("=", "<>", "!=")):
        raise _unknown(name, left, right)
    return _strict(BOOL, _COMPARISONS[name], left, right)


def _strict(type: ValueType, work: Callable[[Any, Any], Any], left: Expression, right: Expression) -> Expression:
    """Return an expression that is NULL where an operand is."""
    first, second = left.value, right.value

    def value(evaluation: Evaluation) -> Any:
        a, b = first(evaluation), second(evaluation)
        return None if a is None or b is None else work(a, b)

    return Expression(type, value, is_aggregate=left.is_aggregate or right.is_aggregate)


def _quotient(left: Any, right: Any) -> Any:
    if right == 0:
        raise SessionError("division by zero", sqlstate=DIVISION_BY_ZERO)
    if isinstance(left, Decimal):
        return _numeric_quotient(left, right)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


@contextmanager
def _exactly(*, is_rounded: bool) -> Iterator[Context]:
    """Let numbers be computed with all their digits, or be refused; a quotient is rounded.

    Raises:
        SessionError: there are too many digits.
    """
    try:
        with localcontext() as context:
            context.prec = 3 * MOST_DIGITS
            context.traps[Inexact] = not is_rounded
            yield context
    except (Inexact, InvalidOperation):
        raise SessionError("numbers of so many digits are not known here", sqlstate=FEATURE_NOT_SUPPORTED) from None


def _numeric_quotient(left: Decimal, right: Decimal) -> Decimal:
    """Divide with as many digits as the server gives: 16 that matter, at least (select_div_scale)."""
    weights = [_weight(left), _weight(right)]
    weight = weights[0][0] - weights[1][0] - int(weights[0][1] <= weights[1][1])
    scale = max(16 - weight * 4, _scale(left), _scale(right), 0)
    with _exactly(is_rounded=True) as context:
        context.rounding = "ROUND_HALF_UP"
        return (left / right).quantize(Decimal(1).scaleb(-min(scale, 1000)))


def _weight(value: Decimal) -> tuple[int, int]:
    """Return the weight of a number's first group of four digits, and that group."""
    if not value:
        return 0, 0
    weight = value.adjusted() // 4
    return weight, int(abs(value).scaleb(-4 * weight))


def _scale(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _remainder(left: Any, right: Any) -> Any:
    if right == 0:
        raise SessionError("division by zero", sqlstate=DIVISION_BY_ZERO)
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}


def _arithmetic(name: str, left: Expression, right: Expression) -> Expression:
    if left.type not in _RANKS or right.type not in _RANKS:
        raise _unknown(name, left, right)
    type = max(left.type, right.type, key=_RANKS.index)
    work = _ARITHMETIC[name]

    def checked(a: Any, b: Any) -> Any:
        if type is NUMERIC:
            first, second = Decimal(a), Decimal(b)
            if not (first.is_finite() and second.is_finite()):
                return computed(name, first, second)
            with _exactly(is_rounded=name == "/"):
                return checked_numeric(work(first, second))
        value = work(a, b)
        bits = 8 * type.size - 1
        if not -(1 << bits) <= value < 1 << bits:
            raise SessionError(f"{type.name} out of range", sqlstate=NUMERIC_OUT_OF_RANGE)
        return value

    return _strict(type, checked, left, right)


def _of_lsns(name: str, left: Expression, right: Expression, types: ParameterTypes) -> Expression | None:
    """Return what LSNs give with each other, or with numbers of bytes; None where no LSN is."""
    if PG_LSN not in (left.type, right.type) or name not in ("+", "-"):
        return None
    if name == "-" and (left.type is UNKNOWN or right.type is UNKNOWN or left.type is right.type):
        first, second = coerced(left, PG_LSN, types), coerced(right, PG_LSN, types)
        if first is not None and second is not None:
            return _strict(NUMERIC, lambda a, b: Decimal(a - b), first, second)
    lsn, other = (left, right) if left.type is PG_LSN else (right, left)
    number = coerced(other, NUMERIC, types)
    if number is None or (name == "-" and lsn is right):
        return None
    sign = 1 if name == "+" else -1
    return _strict(PG_LSN, lambda a, b: _moved(a, sign * b, name), lsn, number)


def _moved(lsn: int, distance: Decimal, name: str) -> int:
    if distance.is_nan():
        words = "add NaN to" if name == "+" else "subtract NaN from"
        raise SessionError(f"cannot {words} pg_lsn", sqlstate=FEATURE_NOT_SUPPORTED)
    if distance.is_infinite():
        raise SessionError("cannot convert infinity to pg_lsn", sqlstate=FEATURE_NOT_SUPPORTED)
    value = lsn + int(distance.to_integral_value("ROUND_HALF_UP"))
    if not 0 <= value < 1 << 64:
        raise SessionError("pg_lsn out of range", sqlstate=INVALID_PARAMETER_VALUE)
    return value


def _of_times(name: str, left: Expression, right: Expression) -> Expression | None:
    if name == "-" and left.type is right.type is TIMESTAMPTZ:
        return _strict(INTERVAL, operator.sub, left, right)
    return None


def _concatenation(left: Expression, right: Expression, types: ParameterTypes) -> Expression:
    first, second = (side if side.type is not UNKNOWN else coerced(side, TEXT, types) or side for side in (left, right))
    if first.type.family != "text" or second.type.family != "text":
        raise _unknown("||", left, right)
    return _strict(TEXT, operator.add, first, second)


def _like(name: str, left: Expression, right: Expression, types: ParameterTypes) -> Expression:
    left, right = _matched(left, right, types)
    if left.type.family != "text" or right.type.family != "text":
        raise _unknown(name, left, right)

    def matches(text: str, pattern: str) -> bool:
        try:
            return is_like(text, pattern) == (name == "~~")
        except ExpressionError as error:
            raise SessionError(error.message, sqlstate=INVALID_ESCAPE_SEQUENCE) from None

    return _strict(BOOL, matches, left, right)
