"""Expressions: typed, and evaluated over a row and the values of parameters.

What is asked for beyond what is known here raises :class:`NotHereError`: another layer may know it. What is known, and
wrong, is the server's error.

PostgreSQL: executor/execExpr.c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from headwater.errors import SessionError
from headwater.pg.sqlstates import (
    DATATYPE_MISMATCH,
    FEATURE_NOT_SUPPORTED,
    INDETERMINATE_DATATYPE,
    UNDEFINED_PARAMETER,
)
from headwater.walsender.queries.value_types import NAME, TEXT, TYPES, UNKNOWN, VARCHAR, ValueType


class NotHereError(Exception):
    """A query asks for what is not known here.

    Attributes:
        what: it is, for a hint.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@dataclass(slots=True)
class Evaluation:
    """The values that expressions are evaluated over.

    Attributes:
        parameters: their values; row: of the sources, one after the other.
        group: all rows, where an aggregate is evaluated.
    """

    parameters: Sequence[Any] = ()
    row: Sequence[Any] = ()
    group: Sequence[Sequence[Any]] = ()

    def over(self, row: Sequence[Any]) -> Evaluation:
        """Return the same over another row."""
        return Evaluation(self.parameters, row)


class NotConstantError(Exception):
    """An expression depends on more than constants."""


class Planning(Evaluation):
    """The evaluation of what the planner evaluates: parameters are constants, rows are not there yet."""

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute.

        Raises:
            NotConstantError: it is a row, or rows.
        """
        if name in ("row", "group"):
            raise NotConstantError
        return super().__getattribute__(name)


Value = Callable[[Evaluation], Any]


@dataclass(frozen=True)
class Expression:
    """An expression.

    Attributes:
        type: of its values; value: gives them.
        name: of a column or a function.
        table, number: of a view's column: OID of the view, number of the column.
        constant: the text of a constant whose type is open; None for anything else.
        parameter: number of a parameter; 0 for anything else.
        position: of it in the query; None if it is not known.
        rows: of a function that returns a set: its rows, each with the values of one column.
        is_aggregate: it is evaluated over a group of rows.
    """

    type: ValueType
    value: Value
    name: str = ""
    table: int = 0
    number: int = 0
    constant: str | None = None
    parameter: int = 0
    position: int | None = None
    rows: Callable[[Evaluation], Sequence[Any]] | None = None
    is_aggregate: bool = False


@dataclass
class ParameterTypes:
    """The types of parameters, as far as they are known.

    Attributes:
        given: by their numbers, from 1 on.
        highest: the number of the last one.
        is_open: there may be parameters; a simple query has none.
    """

    given: dict[int, ValueType] = field(default_factory=dict)
    highest: int = 0
    is_open: bool = True

    @classmethod
    def of(cls, oids: Sequence[int]) -> ParameterTypes:
        """Return those that a client gives; OID 0 leaves a type open.

        Raises:
            NotHereError: one is not known here.
        """
        for oid in oids:
            if oid and oid != UNKNOWN.oid and oid not in TYPES:
                raise NotHereError(f"parameters of type {oid}")
        given = {i: TYPES[oid] for i, oid in enumerate(oids, 1) if oid and oid != UNKNOWN.oid}
        return cls(given, len(oids))

    def mention(self, number: int, position: int | None) -> None:
        """Note that there is a parameter of this number, at a position of the query."""
        if not self.is_open or not 0 < number < 1 << 16:
            raise SessionError(f"there is no parameter ${number}", sqlstate=UNDEFINED_PARAMETER, position=position)
        self.highest = max(self.highest, number)

    def oids(self) -> list[int]:
        """Return the OIDs of the types, 0 for those that are not known."""
        return [self.given[number].oid if number in self.given else 0 for number in range(1, self.highest + 1)]

    def all(self) -> tuple[ValueType, ...]:
        """Return all types.

        Raises:
            SessionError: one is not known.
        """
        for number in range(1, self.highest + 1):
            if number not in self.given:
                raise SessionError(
                    f"could not determine data type of parameter ${number}", sqlstate=INDETERMINATE_DATATYPE
                )
        return tuple(self.given[number] for number in range(1, self.highest + 1))


def constant_of(type: ValueType, value: Any, name: str = "") -> Expression:
    """Return an expression that is always the same."""
    return Expression(type, lambda _: value, name)


IMPLICIT = {
    21: (21, 23, 20, 1700, 26),
    23: (23, 20, 1700, 26),
    20: (20, 1700, 26),
    19: (19, 25),
    25: (25, 1043, 19),
    1043: (1043, 25, 19),
}
"""OIDs of types to which values are converted without being asked, for each type."""


def coerced(expression: Expression, type: ValueType, parameters: ParameterTypes) -> Expression | None:
    """Return an expression as another type, as the server converts without being asked; None if it does not.

    Raises:
        SessionError: a constant is none of that type.
    """
    if expression.type is type:
        return expression
    if expression.parameter and expression.type is UNKNOWN:
        return typed_parameter(expression.parameter, type, parameters)
    if expression.type is UNKNOWN:
        if expression.constant is None:
            return Expression(type, expression.value, expression.name)
        return constant_of(type, _read(expression, type), expression.name)
    if type.oid not in IMPLICIT.get(expression.type.oid, ()):
        return None
    return _converted(expression, type)


def _read(expression: Expression, type: ValueType) -> Any:
    """Read a constant as one of a type."""
    try:
        return type.read(expression.constant or "")
    except SessionError as error:
        error.position = expression.position
        raise


def typed_parameter(number: int, type: ValueType, parameters: ParameterTypes) -> Expression:
    """Return a parameter with its type, which is known from here on."""
    known = parameters.given.setdefault(number, type)
    return Expression(known, lambda evaluation: evaluation.parameters[number - 1], parameter=number)


def _converted(expression: Expression, type: ValueType) -> Expression:
    """Return an expression whose values are converted to another type of numbers, or of texts."""
    convert: Callable[[Any], Any] = type.read if type.family == "number" else str
    inner, is_same = expression.value, type.family == expression.type.family == "text" and type is not NAME

    def value(evaluation: Evaluation) -> Any:
        given = inner(evaluation)
        if given is None or is_same:
            return given
        return convert(str(given))

    return Expression(type, value, expression.name, is_aggregate=expression.is_aggregate)


def cast(
    expression: Expression, type: ValueType, parameters: ParameterTypes, written: Callable[[ValueType, Any], str]
) -> Expression:
    """Return an expression that is explicitly cast.

    Args:
        expression: of any type; type: the one that is wanted; parameters: their types.
        written: prints a value of a type.

    Raises:
        NotHereError: such casts are not known here; SessionError: a constant is none of that type.
    """
    implicit = coerced(expression, type, parameters)
    if implicit is not None:
        return replace(implicit, table=0, number=0)
    source, inner = expression.type, expression.value
    if type in (TEXT, VARCHAR, NAME):
        return _through_text(expression, type, lambda value: _as_text(source, value, written))
    is_cast = source.family == type.family == "number" and (source.oid, type.oid) != (1700, 26)
    if source.family == "text" or is_cast:
        return _through_text(expression, type, lambda value: _number_text(value, type))
    if (source.family, type.family) == ("boolean", "number") and type.oid == 23:
        return Expression(type, lambda e: None if (v := inner(e)) is None else int(v))
    raise NotHereError(f"a cast from {source.name} to {type.name}")


def _through_text(expression: Expression, type: ValueType, text: Callable[[Any], str]) -> Expression:
    inner = expression.value

    def value(evaluation: Evaluation) -> Any:
        given = inner(evaluation)
        return None if given is None else type.read(text(given))

    return Expression(type, value, expression.name, is_aggregate=expression.is_aggregate)


def _as_text(source: ValueType, value: Any, written: Callable[[ValueType, Any], str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return written(source, value)


def _number_text(value: Any, type: ValueType) -> str:
    """Return a number as the input function of another type of numbers takes it: rounded, where that has no point."""
    if isinstance(value, Decimal) and type.oid != 1700:
        if not value.is_finite():
            word = "NaN" if value.is_nan() else "infinity"
            raise SessionError(f"cannot convert {word} to {type.name}", sqlstate=FEATURE_NOT_SUPPORTED)
        return format(value.to_integral_value(ROUND_HALF_UP), "f")
    return str(value)


def resolved(expression: Expression, parameters: ParameterTypes) -> Expression:
    """Return an expression of a known type: what is open is text."""
    if expression.type is not UNKNOWN:
        return expression
    return coerced(expression, TEXT, parameters) or expression


def refused_boolean(where: str, expression: Expression) -> SessionError:
    """Return the error for a condition that is no boolean."""
    return SessionError(
        f"argument of {where} must be type boolean, not type {expression.type.name}",
        sqlstate=DATATYPE_MISMATCH,
        position=expression.position,
    )
