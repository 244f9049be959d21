"""Expressions as they are computed: one class for each kind of node, all of them values that pickle.

An expression is computed for all rows of a frame at once. For some rows the server would not compute a part of it, as
the parts before it have decided. Then that part is computed for the other rows only: it may raise an error.

PostgreSQL: ``executor/execExprInterp.c``, ``nodes/primnodes.h``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headwater.filters.columns import Frame
from headwater.filters.comparisons import ORDER_OF, ORDERS, TEST_OF, order_plain
from headwater.filters.functions import Context, Implementation, implementation
from headwater.filters.parts import made_array, payloads, taken_apart
from headwater.filters.values import (
    Bools,
    Index,
    Plain,
    Spans,
    Values,
    booleans,
    constant,
    no_nulls,
    nulls,
    retyped,
    scattered,
    spans,
)

BOOL = 16


class Expression(Protocol):
    """An expression, which has a value in each row.

    Attributes:
        type: OID of its type.
    """

    @property
    def type(self) -> int: ...

    def evaluate(self, frame: Frame) -> Values:
        """Compute the values in the rows of a frame.

        Raises:
            ExpressionError: the server would raise it for one of the rows.
            UnchangedValueError: see :meth:`Frame.column`.
        """
        ...


def truth(expression: Expression, frame: Frame) -> Plain:
    """Compute the values of an expression that is true or false."""
    values = expression.evaluate(frame)
    assert isinstance(values, Plain)
    return values


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column's value (Var)."""

    number: int
    type: int

    def evaluate(self, frame: Frame) -> Values:
        return frame.column(self.number, self.type)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same in each row (Const), with its payload as it is stored, None for NULL."""

    type: int
    payload: bytes | None

    def evaluate(self, frame: Frame) -> Values:
        return constant(self.type, self.payload, len(frame))


TRUE, FALSE, UNKNOWN = Constant(BOOL, b"\1"), Constant(BOOL, b"\0"), Constant(BOOL, None)


@dataclass(frozen=True, slots=True)
class CaseValue:
    """The value that ``CASE`` compares (CaseTestExpr)."""

    type: int

    def evaluate(self, frame: Frame) -> Values:
        assert frame.case is not None
        return frame.case


@dataclass(frozen=True, slots=True)
class Call:
    """The result of a function or operator (FuncExpr, OpExpr)."""

    context: Context
    arguments: tuple[Expression, ...]

    @property
    def type(self) -> int:
        """OID of its type."""
        return self.context.result

    def evaluate(self, frame: Frame) -> Values:
        if _known(self.context).is_turned:
            values = [argument.evaluate(frame) for argument in reversed(self.arguments)][::-1]
        else:
            values = [argument.evaluate(frame) for argument in self.arguments]
        return called(self.context, values, len(frame))


def _known(context: Context) -> Implementation:
    known = implementation(context.function)
    assert known is not None, context.function
    return known


def called(context: Context, values: Sequence[Values], n: int) -> Values:
    """Compute a function's result for n rows of arguments."""
    known = _known(context)
    if not context.function.is_strict or not values:
        return known.compute(context, *values)
    null = np.logical_or.reduce([value.null for value in values])
    if not null.any():
        return known.compute(context, *values)
    if known.is_total:
        return known.compute(context, *values).with_null(null)
    index = np.flatnonzero(~null)
    if not len(index):
        return nulls(context.result, n)
    return scattered(context.result, n, [(index, known.compute(context, *(value.take(index) for value in values)))])


@dataclass(frozen=True, slots=True)
class Connection:
    """``AND`` or ``OR`` (BoolExpr), from left to right."""

    is_and: bool
    arguments: tuple[Expression, ...]
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        return connected(self.is_and, frame, self.arguments)


def connected(is_and: bool, frame: Frame, arguments: Iterable[Expression]) -> Plain:
    """Connect expressions by ``AND`` or ``OR``; each is computed in the rows where those before have not decided."""
    n = len(frame)
    decided, unknown, live = np.zeros(n, bool), np.zeros(n, bool), np.arange(n)
    for argument in arguments:
        if not len(live):
            break
        value = truth(argument, frame.take(live))
        decides = (value.data != is_and) & ~value.null
        unknown[live] |= value.null
        decided[live[decides]] = True
        live = live[~decides]
    return Plain(decided != is_and, unknown & ~decided)


@dataclass(frozen=True, slots=True)
class Negation:
    """``NOT`` (BoolExpr)."""

    argument: Expression
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        value = truth(self.argument, frame)
        return Plain(~value.data, value.null)


@dataclass(frozen=True, slots=True)
class NullTest:
    """The test ``IS NULL`` or ``IS NOT NULL``."""

    argument: Expression
    is_null: bool
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        return booleans(self.argument.evaluate(frame).null == self.is_null)


@dataclass(frozen=True, slots=True)
class RowNullTest:
    """The test ``ROW(...) IS NULL``: each of the fields is NULL, or each is not."""

    arguments: tuple[Expression, ...]
    is_null: bool
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        verdicts = [argument.evaluate(frame).null == self.is_null for argument in self.arguments]
        return booleans(np.logical_and.reduce([np.ones(len(frame), bool), *verdicts]))


IS_TRUE, IS_NOT_TRUE, IS_FALSE, IS_NOT_FALSE, IS_UNKNOWN, IS_NOT_UNKNOWN = range(6)


@dataclass(frozen=True, slots=True)
class BooleanTest:
    """The tests ``IS TRUE`` and so on; kind as in ``BoolTestType``."""

    argument: Expression
    kind: int
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        value = truth(self.argument, frame)
        tested = (value.data & ~value.null, ~value.data & ~value.null, value.null)[self.kind // 2]
        return booleans(~tested if self.kind % 2 else tested)


@dataclass(frozen=True, slots=True)
class Distinct:
    """The test ``IS DISTINCT FROM``, by an operator ``=``."""

    context: Context
    arguments: tuple[Expression, Expression]
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        left, right = (argument.evaluate(frame) for argument in self.arguments)
        equal = called(self.context, [left, right], len(frame))
        assert isinstance(equal, Plain)
        same = np.where(left.null | right.null, left.null & right.null, equal.data)
        return booleans(~same)


@dataclass(frozen=True, slots=True)
class NullIf:
    """``NULLIF``: the first argument, or NULL where the operator says that both are equal."""

    context: Context
    arguments: tuple[Expression, Expression]

    @property
    def type(self) -> int:
        """OID of its type."""
        return self.arguments[0].type

    def evaluate(self, frame: Frame) -> Values:
        left, right = (argument.evaluate(frame) for argument in self.arguments)
        equal = called(self.context, [left, right], len(frame))
        assert isinstance(equal, Plain)
        return left.with_null(left.null | (equal.data & ~equal.null))


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE``; ``whens`` are conditions and results."""

    argument: Expression | None
    whens: tuple[tuple[Expression, Expression], ...]
    default: Expression
    type: int

    def evaluate(self, frame: Frame) -> Values:
        outer = frame
        inner = frame if self.argument is None else frame.with_case(self.argument.evaluate(frame))
        live, parts = np.arange(len(frame)), []
        for condition, result in self.whens:
            if not len(live):
                break
            value = truth(condition, inner.take(live))
            holds = value.data & ~value.null
            if holds.any():
                chosen = live[holds]
                parts.append((chosen, result.evaluate(outer.take(chosen))))
                live = live[~holds]
        if len(live):
            parts.append((live, self.default.evaluate(outer.take(live))))
        return scattered(self.type, len(frame), parts)


@dataclass(frozen=True, slots=True)
class Coalesce:
    """``COALESCE``: each argument is computed where all before it are NULL."""

    arguments: tuple[Expression, ...]
    type: int

    def evaluate(self, frame: Frame) -> Values:
        live, parts = np.arange(len(frame)), []
        for argument in self.arguments:
            if not len(live):
                break
            value = argument.evaluate(frame.take(live))
            has_value = np.flatnonzero(~value.null)
            parts.append((live[has_value], value.take(has_value)))
            live = live[value.null]
        return scattered(self.type, len(frame), parts)


@dataclass(frozen=True, slots=True)
class Extreme:
    """``GREATEST``, ``LEAST`` (MinMaxExpr): NULLs are skipped; of equal values the first one is taken."""

    arguments: tuple[Expression, ...]
    is_greatest: bool
    type: int

    def evaluate(self, frame: Frame) -> Values:
        order, _ = ORDERS[self.type]
        columns = [argument.evaluate(frame) for argument in self.arguments]
        best, n = columns[0], len(frame)
        for other in columns[1:]:
            index = np.flatnonzero(~best.null & ~other.null)
            sign = np.zeros(n, np.int8)
            sign[index] = order(best.take(index), other.take(index))
            is_other = np.where(best.null, ~other.null, (sign < 0) if self.is_greatest else (sign > 0))
            staying, replaced = np.flatnonzero(~is_other), np.flatnonzero(is_other)
            best = scattered(self.type, n, [(staying, best.take(staying)), (replaced, other.take(replaced))])
        return best


@dataclass(frozen=True, slots=True)
class Relabelled:
    """A value that is taken for a value of another type (RelabelType)."""

    argument: Expression
    type: int

    def evaluate(self, frame: Frame) -> Values:
        return retyped(self.argument.evaluate(frame), self.type)


@dataclass(frozen=True, slots=True)
class Elements:
    """``ARRAY[...]`` of single values (ArrayExpr)."""

    arguments: tuple[Expression, ...]
    element: int
    type: int
    major: int

    def evaluate(self, frame: Frame) -> Values:
        columns = [payloads(argument.evaluate(frame)) for argument in self.arguments]
        rows = zip(*columns, strict=True) if columns else [()] * len(frame)
        return spans([made_array(self.element, self.major, row) for row in rows])


@dataclass(frozen=True, slots=True)
class AnyOrAll:
    """A scalar compared with the elements of an array, ``= ANY(...)``, ``IN`` (ScalarArrayOpExpr)."""

    context: Context
    is_any: bool
    scalar: Expression
    array: Expression
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        n = len(frame)
        scalar = self.scalar.evaluate(frame)
        if not isinstance(self.array, Elements):
            return self._by_array(scalar, self.array.evaluate(frame))
        arrays = [element.evaluate(frame) for element in self.array.arguments]
        if self._is_plain():
            return self._is_among(scalar)
        whole = np.arange(n)
        return self._one_by_one(scalar, [(whole, element) for element in arrays], no_nulls(n))

    def _by_array(self, scalar: Values, arrays: Values) -> Plain:
        """Compare with arrays that are values: an element of each, then the next one of those that have one."""
        assert isinstance(arrays, Spans)
        has_array = np.flatnonzero(~arrays.null)
        parts = taken_apart(self.array.type, self.context.settings.major, arrays.take(has_array))
        counts, steps = np.diff(parts.first), []
        for number in range(int(counts.max()) if len(counts) else 0):
            longer = np.flatnonzero(counts > number)
            steps.append((has_array[longer], parts.values.take(parts.first[longer] + number)))
        return self._one_by_one(scalar, steps, arrays.null)

    def _one_by_one(self, scalar: Values, steps: Sequence[tuple[Index, Values]], null: Bools) -> Plain:
        """Compare with elements in their order until they decide; a step has the rows whose arrays are long enough."""
        n = len(scalar)
        decided, unknown = np.zeros(n, bool), null.copy()
        for index, element in steps:
            undecided = np.flatnonzero(~decided[index])
            live = index[undecided]
            if not len(live):
                continue
            value = called(self.context, [scalar.take(live), element.take(undecided)], len(live))
            assert isinstance(value, Plain)
            unknown[live] |= value.null
            decided[live[(value.data == self.is_any) & ~value.null]] = True
        return Plain(decided == self.is_any, unknown & ~decided)

    def _is_plain(self) -> bool:
        """Tell whether this is ``= ANY`` or ``<> ALL`` of numbers that are constants."""
        assert isinstance(self.array, Elements)
        name = self.context.function.source
        if ORDER_OF.get(name) is not order_plain or TEST_OF[name] != ("eq" if self.is_any else "ne"):
            return False
        is_same = {self.scalar.type} == {element.type for element in self.array.arguments}
        return is_same and all(isinstance(element, Constant) for element in self.array.arguments)

    def _is_among(self, scalar: Values) -> Plain:
        assert isinstance(scalar, Plain)
        assert isinstance(self.array, Elements)
        listed = [element.payload for element in self.array.arguments if isinstance(element, Constant)]
        payloads_listed = [payload for payload in listed if payload is not None]
        wanted = np.frombuffer(b"".join(payloads_listed), scalar.data.dtype)
        is_listed = np.isin(scalar.data, wanted)
        null = scalar.null | (~is_listed & (len(payloads_listed) < len(listed)))
        return Plain(is_listed == self.is_any, null if listed else no_nulls(len(scalar)))


LESS, LESS_EQUAL, EQUAL, GREATER_EQUAL, GREATER = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class RowOrder:
    """``(a, b) < (c, d)`` (RowCompareExpr), by the first pair that is not equal.

    Attributes:
        kind: LESS and so on (RowCompareType).
        pairs: left and right sides, and the operator's function by its name in C.
    """

    kind: int
    pairs: tuple[tuple[Expression, Expression, str], ...]
    type: int = BOOL

    def evaluate(self, frame: Frame) -> Values:
        n = len(frame)
        order, null, live = np.zeros(n, np.int64), np.zeros(n, bool), np.arange(n)
        for pair in self.pairs:
            if not len(live):
                break
            signs, unknown = self._step(pair, frame.take(live))
            order[live], null[live] = signs, unknown
            live = live[(signs == 0) & ~unknown]
        return Plain(self._holds(order), null)

    def _step(self, pair: tuple[Expression, Expression, str], frame: Frame) -> tuple[Index, Bools]:
        left, right = (side.evaluate(frame) for side in pair[:2])
        unknown = left.null | right.null
        index = np.flatnonzero(~unknown)
        order = np.zeros(len(frame), np.int64)
        order[index] = ORDER_OF[pair[2]](left.take(index), right.take(index))
        return order, unknown

    def _holds(self, order: Index) -> Bools:
        if self.kind == LESS:
            return order < 0
        if self.kind == LESS_EQUAL:
            return order <= 0
        return order >= 0 if self.kind == GREATER_EQUAL else order > 0
