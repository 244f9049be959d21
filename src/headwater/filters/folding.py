"""The simplification of expressions before the first row, as in the server's planner: constant parts are computed once.

The simplification decides where errors arise. ``x > 1/0`` fails for every row, whatever the left side is; ``1/x = 1 AND
false`` fails for none. What ``expression_planner`` simplifies is simplified, in its order. What it only writes in
another way, or omits as it has no effect, stays as it is.

PostgreSQL: ``optimizer/util/clauses.c`` (eval_const_expressions).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from headwater.filters.columns import Frame
from headwater.filters.expressions import (
    FALSE,
    TRUE,
    UNKNOWN,
    AnyOrAll,
    BooleanTest,
    Call,
    Case,
    CaseValue,
    Coalesce,
    Connection,
    Constant,
    Distinct,
    Elements,
    Expression,
    Extreme,
    Negation,
    NullIf,
    NullTest,
    Relabelled,
    RowNullTest,
    RowOrder,
)
from headwater.filters.ranges import range_of
from headwater.filters.values import payload_of
from headwater.pg.version import VERSIONS

_Several: TypeAlias = tuple[Expression, ...]


def simplified(expression: Expression, case: Constant | None = None) -> Expression:
    """Compute the constant parts of an expression.

    Args:
        expression: the expression to simplify.
        case: the value that the ``CASE`` around it compares, where it is constant.

    Raises:
        ExpressionError: a constant part raises it; the server then raises it for every row.
    """
    if isinstance(expression, CaseValue):
        return case if case is not None else expression
    if isinstance(expression, Connection):
        return _connection(expression, case)
    if isinstance(expression, Case):
        return _case(expression, case)
    if isinstance(expression, Coalesce):
        return _coalesce(expression, case)
    if isinstance(expression, Call | Distinct | NullIf):
        return _call(expression, _all(expression.arguments, case))
    if isinstance(expression, AnyOrAll):
        return _any_or_all(replace(expression, scalar=simplified(expression.scalar, case)), case)
    if isinstance(expression, RowOrder):
        pairs = tuple((simplified(a, case), simplified(b, case), name) for a, b, name in expression.pairs)
        return replace(expression, pairs=pairs)
    if isinstance(expression, RowNullTest):
        return _row_test(replace(expression, arguments=_all(expression.arguments, case)))
    if isinstance(expression, Extreme | Elements):
        expression = replace(expression, arguments=_all(expression.arguments, case))
        return _computed(expression) if _are_constant(expression.arguments) else expression
    if isinstance(expression, Negation | NullTest | BooleanTest | Relabelled):
        expression = replace(expression, argument=simplified(expression.argument, case))
        return _computed(expression) if isinstance(expression.argument, Constant) else expression
    return expression


def _all(expressions: _Several, case: Constant | None) -> _Several:
    return tuple(simplified(expression, case) for expression in expressions)


def _are_constant(expressions: _Several) -> bool:
    return all(isinstance(expression, Constant) for expression in expressions)


def _computed(expression: Expression) -> Constant:
    """Compute an expression that has the same value in each row, by one row."""
    values = expression.evaluate(Frame({}, np.zeros(1, dtype=np.int64)))
    return Constant(expression.type, payload_of(values))


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Constant) and expression.payload is None


def _holds(condition: Constant) -> bool:
    return condition.payload is not None and condition.payload != b"\0"


def _connection(expression: Connection, case: Constant | None) -> Expression:
    """Simplify ``AND`` or ``OR``: drop constants that do not decide, put NULL last, return only one that decides."""
    deciding, other = (FALSE, TRUE) if expression.is_and else (TRUE, FALSE)
    waiting, remaining, has_null = list(expression.arguments), list[Expression](), False
    while waiting:
        argument = waiting.pop(0)
        if isinstance(argument, Connection) and argument.is_and == expression.is_and:
            waiting[:0] = argument.arguments
            continue
        argument = simplified(argument, case)
        if isinstance(argument, Connection) and argument.is_and == expression.is_and:
            waiting[:0] = argument.arguments
        elif not isinstance(argument, Constant):
            remaining.append(argument)
        elif argument.payload is None:
            has_null = True
        elif argument.payload == deciding.payload:
            return deciding
    if has_null:
        remaining.append(UNKNOWN)
    return (
        replace(expression, arguments=tuple(remaining)) if len(remaining) > 1 else remaining[0] if remaining else other
    )


def _call(expression: Call | Distinct | NullIf, arguments: _Several) -> Expression:
    is_constant = _are_constant(arguments)
    if isinstance(expression, Call):
        if expression.context.function.is_strict and any(map(_is_null, arguments)):
            return Constant(expression.type, None)
        call = replace(expression, arguments=arguments)
        return _computed(call) if is_constant else _without_range(call)
    left, right = arguments
    pair = replace(expression, arguments=(left, right))
    if isinstance(expression, NullIf) and (_is_null(left) or _is_null(right)):
        return left
    return _computed(pair) if is_constant else pair


def _without_range(call: Call) -> Expression:
    """Replace the test of a value, also NULL, against a constant range of none, or of all (find_simplified_clause)."""
    context = call.context
    if VERSIONS[context.settings.major].simplifies_elements_of_ranges:
        place = {"range_contains_elem": 0, "elem_contained_by_range": 1}.get(context.function.source, -1)
        whole = call.arguments[place] if place >= 0 else None
        if isinstance(whole, Constant) and whole.payload is not None:
            constant_range = range_of(whole.type, context.settings.major, whole.payload)
            if constant_range.is_empty:
                return FALSE
            if constant_range.lower.payload is None and constant_range.upper.payload is None:
                return TRUE
    return call


def _any_or_all(expression: AnyOrAll, case: Constant | None) -> Expression:
    array = expression.array
    if isinstance(array, Elements):
        array = replace(array, arguments=_all(array.arguments, case))
    else:
        array = simplified(array, case)
    expression = replace(expression, array=array)
    is_constant = isinstance(array, Constant) or (isinstance(array, Elements) and _are_constant(array.arguments))
    return _computed(expression) if is_constant and isinstance(expression.scalar, Constant) else expression


def _row_test(expression: RowNullTest) -> Expression:
    """Simplify ``ROW(...) IS NULL``: constant fields decide, or go; if all are constant it is computed for each row."""
    if _are_constant(expression.arguments):
        return expression
    fields = []
    for argument in expression.arguments:
        if not isinstance(argument, Constant):
            fields.append(argument)
        elif (argument.payload is None) != expression.is_null:
            return FALSE
    return replace(expression, arguments=tuple(fields))


def _case(expression: Case, case: Constant | None) -> Expression:
    argument, inner = expression.argument, None
    if argument is not None:
        argument = simplified(argument, case)
        if isinstance(argument, Constant):
            argument, inner = None, argument
    whens = []
    for condition, result in expression.whens:
        condition = simplified(condition, inner)
        if isinstance(condition, Constant) and not _holds(condition):
            continue
        result = simplified(result, inner)
        if isinstance(condition, Constant):
            default = result
            break
        whens.append((condition, result))
    else:
        default = simplified(expression.default, inner)
    return replace(expression, argument=argument, whens=tuple(whens), default=default) if whens else default


def _coalesce(expression: Coalesce, case: Constant | None) -> Expression:
    arguments = list[Expression]()
    for argument in expression.arguments:
        argument = simplified(argument, case)
        if _is_null(argument):
            continue
        arguments.append(argument)
        if isinstance(argument, Constant):
            break
    if not arguments:
        return Constant(expression.type, None)
    return arguments[0] if isinstance(arguments[0], Constant) else replace(expression, arguments=tuple(arguments))
