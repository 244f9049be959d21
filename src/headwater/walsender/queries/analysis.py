"""Nodes of the grammar into expressions, as far as they are known here: names are looked up, types are resolved.

PostgreSQL: parser/parse_expr.c, parse_func.c, parse_target.c (FigureColname), parse_relation.c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from headwater.errors import SessionError
from headwater.pg.sqlstates import AMBIGUOUS_COLUMN, UNDEFINED_COLUMN, UNDEFINED_TABLE
from headwater.walsender.queries.expressions import (
    Evaluation,
    Expression,
    NotConstantError,
    NotHereError,
    ParameterTypes,
    Planning,
    cast,
    coerced,
    constant_of,
    refused_boolean,
    resolved,
    typed_parameter,
)
from headwater.walsender.queries.functions import REQUIRED, Argument, Function, Known
from headwater.walsender.queries.grammar import Node, constant, kind_of, names_of, position_of
from headwater.walsender.queries.operators import operation
from headwater.walsender.queries.value_types import (
    ARRAYS,
    BOOL,
    INT4,
    INT8,
    NAME,
    NUMERIC,
    RECORD,
    TEXT,
    TIMESTAMPTZ,
    TYPE_NAMES,
    UNKNOWN,
    TypedValue,
    ValueType,
    checked_numeric,
)


@dataclass(frozen=True)
class SourceColumn:
    """A column of what is selected from.

    Attributes:
        source: the name of the source; name: the column's; type: of its values.
        table, number: of a view's column; place: in a row.
    """

    source: str
    name: str
    type: ValueType
    table: int
    number: int
    place: int


@dataclass
class Analysis:
    """The analysis of one statement.

    Attributes:
        known: functions and views; types: of the parameters.
        columns: of the sources, in the order of a row.
        may_aggregate: aggregates are allowed here.
        exists: compiles a query inside an expression; gives whether it has rows.
    """

    known: Known
    types: ParameterTypes
    columns: list[SourceColumn] = field(default_factory=list)
    may_aggregate: bool = False
    exists: Callable[[Node], Callable[[Evaluation], bool]] | None = None

    def expression(self, node: Node) -> Expression:
        """Analyse an expression.

        Raises:
            NotHereError: it has something that is not known here.
            SessionError: it is wrong, as the server says.
        """
        kind, fields = kind_of(node)
        analyse = _NODES.get(kind)
        if analyse is None:
            raise NotHereError(f"expressions of the kind {kind}")
        return replace(analyse(self, fields), position=position_of(fields))

    def condition(self, node: Node, where: str) -> Expression:
        """Analyse a condition.

        Raises:
            SessionError: it is no boolean; see also :meth:`expression`.
        """
        expression = self.expression(node)
        boolean = coerced(expression, BOOL, self.types)
        if boolean is None:
            raise refused_boolean(where, expression)
        return boolean

    def column(self, fields: Node) -> Expression:
        parts = fields["fields"]
        if any("A_Star" in part for part in parts):
            raise NotHereError("a star in an expression")
        names = names_of(parts)
        source, name = (names[-2], names[-1]) if len(names) > 1 else (None, names[-1])
        matching = [c for c in self.columns if c.name == name and source in (None, c.source)]
        if len(matching) == 1:
            return column_expression(matching[0])
        place = position_of(fields)
        if matching:
            raise SessionError(f'column reference "{name}" is ambiguous', sqlstate=AMBIGUOUS_COLUMN, position=place)
        if source is not None and all(column.source != source for column in self.columns):
            raise SessionError(
                f'missing FROM-clause entry for table "{source}"', sqlstate=UNDEFINED_TABLE, position=place
            )
        text = f"column {source}.{name} does not exist" if source is not None else f'column "{name}" does not exist'
        raise SessionError(text, sqlstate=UNDEFINED_COLUMN, position=place)

    def literal(self, fields: Node) -> Expression:
        value = constant(fields)
        if isinstance(value, bool):
            return constant_of(BOOL, value)
        if isinstance(value, int):
            return constant_of(INT4, value)
        if "fval" in fields:
            number = _number(str(value))
            is_whole = str(value).lstrip("-").isdigit() and -(1 << 63) <= number < 1 << 63
            return constant_of(INT8, int(number)) if is_whole else constant_of(NUMERIC, number)
        if "bsval" in fields:
            raise NotHereError("constants of bits")
        text = None if value is None else str(value)
        null = Expression(UNKNOWN, lambda _: None)
        return null if text is None else Expression(UNKNOWN, lambda _: text, constant=text)

    def parameter(self, fields: Node) -> Expression:
        number = fields.get("number", 0)
        self.types.mention(number, position_of(fields))
        known = self.types.given.get(number)
        if known is not None:
            return typed_parameter(number, known, self.types)
        return Expression(UNKNOWN, lambda evaluation: evaluation.parameters[number - 1], parameter=number)

    def type_cast(self, fields: Node) -> Expression:
        type = type_of(fields["typeName"])
        kind, inner = kind_of(fields["arg"])
        if kind == "A_ArrayExpr" and type.element is not None and not inner.get("elements"):
            return constant_of(type, ())
        return cast(self.expression(fields["arg"]), type, self.types, self.known.written)

    def operator(self, fields: Node) -> Expression:
        kind, name = fields["kind"], names_of(fields["name"])[-1]
        if kind == "AEXPR_IN":
            return self._in(fields, name)
        if kind in ("AEXPR_BETWEEN", "AEXPR_NOT_BETWEEN"):
            return self._between(fields, kind)
        if kind == "AEXPR_OP_ANY":
            return self._any(fields, name)
        if kind == "AEXPR_NULLIF":
            return self._null_if(fields)
        if kind not in ("AEXPR_OP", "AEXPR_LIKE"):
            raise NotHereError(f"operators of the kind {kind}")
        right = self.expression(fields["rexpr"])
        if "lexpr" not in fields:
            if name not in ("+", "-"):
                raise NotHereError(f"the operator {name} without a left side")
            return operation(name, constant_of(INT4, 0), right, self.types)
        return operation(name, self.expression(fields["lexpr"]), right, self.types)

    def _in(self, fields: Node, name: str) -> Expression:
        left = self.expression(fields["lexpr"])
        items = fields["rexpr"].get("List", {}).get("items")
        if items is None:
            raise NotHereError("IN of a query")
        equal = [operation("=", left, self.expression(item), self.types) for item in items]
        is_in = _disjunction(equal)
        return is_in if name == "=" else _negated(is_in)

    def _between(self, fields: Node, kind: str) -> Expression:
        subject = self.expression(fields["lexpr"])
        low, high = (self.expression(item) for item in fields["rexpr"]["List"]["items"])
        parts = [operation(">=", subject, low, self.types), operation("<=", subject, high, self.types)]
        between = _conjunction(parts)
        return between if kind == "AEXPR_BETWEEN" else _negated(between)

    def _any(self, fields: Node, name: str) -> Expression:
        left, right = self.expression(fields["lexpr"]), self.expression(fields["rexpr"])
        array = ARRAYS.get(25 if left.type is UNKNOWN else left.type.oid)
        values = None if array is None else coerced(right, array, self.types)
        if values is None and left.type is NAME:
            values = coerced(right, ARRAYS[TEXT.oid], self.types)
        if values is None or values.type.element is None:
            raise NotHereError("ANY of such an array")
        element, given = values.type.element, values.value
        compared = operation(name, left, Expression(element, lambda evaluation: evaluation.row[-1]), self.types)

        def value(evaluation: Evaluation) -> Any:
            elements = given(evaluation)
            if elements is None:
                return None
            each = [compared.value(evaluation.over([*evaluation.row, element])) for element in elements]
            return True if True in each else None if None in each else False

        return Expression(BOOL, value)

    def _null_if(self, fields: Node) -> Expression:
        left, right = self.expression(fields["lexpr"]), self.expression(fields["rexpr"])
        equal, left = operation("=", left, right, self.types), resolved(left, self.types)
        return Expression(left.type, lambda e: None if equal.value(e) else left.value(e))

    def boolean(self, fields: Node) -> Expression:
        words = {"AND_EXPR": "AND", "OR_EXPR": "OR", "NOT_EXPR": "NOT"}[fields["boolop"]]
        parts = [self.condition(node, words) for node in fields["args"]]
        if words == "NOT":
            return _negated(parts[0])
        return _conjunction(parts) if words == "AND" else _disjunction(parts)

    def query(self, fields: Node) -> Expression:
        if fields["subLinkType"] != "EXISTS_SUBLINK" or self.exists is None:
            raise NotHereError("queries in expressions, but EXISTS")
        return Expression(BOOL, self.exists(fields["subselect"]["SelectStmt"]))

    def null_test(self, fields: Node) -> Expression:
        inner, wants = self.expression(fields["arg"]), fields["nulltesttype"] == "IS_NULL"
        return Expression(BOOL, lambda e: (inner.value(e) is None) == wants, is_aggregate=inner.is_aggregate)

    def boolean_test(self, fields: Node) -> Expression:
        inner, test = self.condition(fields["arg"], "IS"), fields["booltesttype"]
        is_negated, wanted = "NOT" in test, {"E": True, "A": False, "U": None}
        word = test.removeprefix("IS_").removeprefix("NOT_")
        value = wanted["E" if word == "TRUE" else "A" if word == "FALSE" else "U"]
        return Expression(BOOL, lambda e: (inner.value(e) is value) != is_negated)

    def choice(self, fields: Node) -> Expression:
        conditions = [self._when(fields, node["CaseWhen"]) for node in fields["args"]]
        results = [self.expression(node["CaseWhen"]["result"]) for node in fields["args"]]
        null = Expression(UNKNOWN, lambda _: None)
        results.append(self.expression(fields["defresult"]) if "defresult" in fields else null)
        results = self._together(results)

        def value(evaluation: Evaluation) -> Any:
            for condition, result in zip(conditions, results[:-1], strict=True):
                if condition.value(evaluation):
                    return result.value(evaluation)
            return results[-1].value(evaluation)

        return Expression(results[0].type, value)

    def _when(self, fields: Node, when: Node) -> Expression:
        if "arg" not in fields:
            return self.condition(when["expr"], "CASE/WHEN")
        return operation("=", self.expression(fields["arg"]), self.expression(when["expr"]), self.types)

    def coalesce(self, fields: Node) -> Expression:
        parts = self._together([self.expression(node) for node in fields["args"]])

        def value(evaluation: Evaluation) -> Any:
            return next((v for part in parts if (v := part.value(evaluation)) is not None), None)

        return Expression(parts[0].type, value, is_aggregate=any(part.is_aggregate for part in parts))

    def _together(self, parts: Sequence[Expression]) -> list[Expression]:
        """Return expressions as of one type (select_common_type)."""
        types = [part.type for part in parts if part.type is not UNKNOWN]
        candidates = [*types, TEXT] if types else [TEXT]
        for type in candidates:
            converted = [coerced(part, type, self.types) for part in parts]
            if all(part is not None for part in converted):
                return [part for part in converted if part is not None]
        raise NotHereError("values of types that differ in one expression")

    def array(self, fields: Node) -> Expression:
        parts = self._together([self.expression(node) for node in fields.get("elements", [])] or [_no_element()])
        array = ARRAYS.get(parts[0].type.oid)
        if array is None:
            raise NotHereError(f"arrays of {parts[0].type.name}")
        return Expression(array, lambda e: tuple(part.value(e) for part in parts))

    def session_value(self, fields: Node) -> Expression:
        word = fields["op"].removeprefix("SVFOP_").lower()
        if word in ("current_role", "current_user", "user", "session_user"):
            return constant_of(NAME, self.known.user)
        if word == "current_catalog":
            return constant_of(NAME, self.known.database)
        if word == "current_timestamp":
            return Expression(TIMESTAMPTZ, lambda _: self.known.now())
        raise NotHereError(word)

    def field(self, fields: Node) -> Expression:
        """Analyse a field of what a function returns: ``(f()).name``."""
        inner = self.expression(fields["arg"])
        names = [node for node in fields["indirection"] if "String" in node]
        if inner.type is not RECORD or len(names) != len(fields["indirection"]) or len(names) != 1:
            raise NotHereError("parts of values")
        raise NotHereError("a field of what a function returns")

    def call(self, fields: Node) -> Expression:
        name = function_name(fields)
        unusual = {"agg_filter", "over", "agg_order", "agg_within_group", "agg_distinct"} & set(fields)
        if unusual:
            raise NotHereError("such calls of functions")
        if name in _AGGREGATES and self.may_aggregate:
            return self._aggregate(name, fields)
        function, arguments = self.bound(name, fields)
        return call_expression(function, arguments)

    def bound(self, name: str, fields: Node) -> tuple[Function, list[Expression]]:
        """Return the function that is called, and its arguments in their order, defaults with them.

        Raises:
            NotHereError: there is none that these arguments fit.
        """
        given = [_argument(self, node) for node in fields.get("args", [])]
        for function in self.known.functions.get(name, ()):
            arguments = _fitting(function, given, bool(fields.get("func_variadic")), self.types)
            if arguments is not None:
                return function, arguments
        raise NotHereError(f"the function {name}")

    def _aggregate(self, name: str, fields: Node) -> Expression:
        if fields.get("agg_star"):
            return Expression(INT8, lambda e: len(e.group), name, is_aggregate=True)
        if len(fields.get("args", [])) != 1:
            raise NotHereError(f"the function {name}")
        inner = replace(self, may_aggregate=False).expression(fields["args"][0])
        inner = resolved(inner, self.types)
        type = INT8 if name == "count" else inner.type

        def value(evaluation: Evaluation) -> Any:
            values = [inner.value(evaluation.over(row)) for row in evaluation.group]
            return _AGGREGATES[name]([v for v in values if v is not None])

        return Expression(type, value, name, is_aggregate=True)


def _no_element() -> Expression:
    raise NotHereError("an array without elements and without a type")


_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "max": lambda values: max(values, default=None),
    "min": lambda values: min(values, default=None),
}


def column_expression(column: SourceColumn) -> Expression:
    """Return the expression of a column of a source."""
    place = column.place
    return Expression(column.type, lambda e: e.row[place], column.name, column.table, column.number)


def function_name(fields: Node) -> str:
    """Return the name of the function that is called.

    Raises:
        NotHereError: it is in another schema.
    """
    names = names_of(fields["funcname"])
    if len(names) > 2 or (len(names) == 2 and names[0] != "pg_catalog"):
        raise NotHereError(f"the function {'.'.join(names)}")
    return names[-1]


def call_expression(function: Function, arguments: Sequence[Expression]) -> Expression:
    """Return the expression of a call."""

    def called(evaluation: Evaluation) -> Any:
        if not function.is_immutable and isinstance(evaluation, Planning):
            raise NotConstantError
        values = [argument.value(evaluation) for argument in arguments]
        if function.is_strict and None in values:
            return () if function.returns_set else None
        return function.call(*values)

    def record(row: Any) -> Any:
        if row is None or not function.columns:
            return row
        return tuple(TypedValue(type, v) for (_, type), v in zip(function.columns, row, strict=True))

    if function.returns_set:
        return Expression(function.type, lambda _: None, function.name, rows=lambda e: [record(r) for r in called(e)])
    return Expression(function.type, lambda e: record(called(e)), function.name)


def _argument(analysis: Analysis, node: Node) -> tuple[str | None, Expression]:
    kind, fields = kind_of(node)
    if kind == "NamedArgExpr":
        return fields["name"], analysis.expression(fields["arg"])
    return None, analysis.expression(node)


def _fitting(
    function: Function, given: Sequence[tuple[str | None, Expression]], is_array: bool, types: ParameterTypes
) -> list[Expression] | None:
    """Return the arguments of a call in their order; None if they do not fit the function."""
    places = {argument.name: place for place, argument in enumerate(function.arguments)}
    last = function.arguments[-1] if function.arguments else None
    is_spread = last is not None and last.is_variadic and not is_array
    slots: dict[int, Expression] = {}
    spread = list[Expression]()
    for at, (name, expression) in enumerate(given):
        place = places.get(name, -1) if name is not None else at
        if is_spread and name is None and place >= len(function.arguments) - 1:
            spread.append(expression)
        elif not 0 <= place < len(function.arguments) or place in slots:
            return None
        else:
            slots[place] = expression
    if is_array and last is not None and not last.is_variadic:
        return None
    return _converted(function, slots, spread if is_spread else None, types)


def _converted(
    function: Function, slots: dict[int, Expression], spread: list[Expression] | None, types: ParameterTypes
) -> list[Expression] | None:
    arguments = list[Expression]()
    for place, argument in enumerate(function.arguments):
        if argument.is_variadic and spread:
            converted = _gathered(argument, spread, types)
        elif place in slots:
            converted = coerced(slots[place], argument.type, types)
        elif argument.default is REQUIRED:
            return None
        else:
            converted = constant_of(argument.type, argument.default)
        if converted is None:
            return None
        arguments.append(converted)
    return arguments


def _gathered(argument: Argument, given: Sequence[Expression], types: ParameterTypes) -> Expression | None:
    element = argument.type.element
    assert element is not None
    parts = [coerced(expression, element, types) for expression in given]
    if any(part is None for part in parts):
        return None
    return Expression(argument.type, lambda e: tuple(part.value(e) for part in parts if part is not None))


def type_of(node: Node) -> ValueType:
    """Return the type that a TypeName node names.

    Raises:
        NotHereError: it is not known here.
    """
    names = names_of(node["names"])
    if len(names) > 2 or (len(names) == 2 and names[0] != "pg_catalog") or node.get("typmods"):
        raise NotHereError(f"the type {'.'.join(names)}")
    type = TYPE_NAMES.get(names[-1])
    if type is None:
        raise NotHereError(f"the type {names[-1]}")
    if not node.get("arrayBounds"):
        return type
    array = ARRAYS.get(type.oid)
    if array is None:
        raise NotHereError(f"arrays of {type.name}")
    return array


def _number(text: str) -> Decimal:
    """Return the number that a constant is.

    Raises:
        NotHereError: it has more digits than are computed with here.
    """
    try:
        return checked_numeric(Decimal(text))
    except (SessionError, InvalidOperation):
        raise NotHereError("such numbers") from None


def _negated(expression: Expression) -> Expression:
    inner = expression.value
    return Expression(BOOL, lambda e: None if (v := inner(e)) is None else not v)


def _conjunction(parts: Sequence[Expression]) -> Expression:
    def value(evaluation: Evaluation) -> Any:
        is_open = False
        for part in parts:
            given = part.value(evaluation)
            if given is False:
                return False
            is_open |= given is None
        return None if is_open else True

    return Expression(BOOL, value)


def _disjunction(parts: Sequence[Expression]) -> Expression:
    return _negated(_conjunction([_negated(part) for part in parts]))


_NODES: dict[str, Callable[[Analysis, Node], Expression]] = {
    "ColumnRef": Analysis.column,
    "A_Const": Analysis.literal,
    "ParamRef": Analysis.parameter,
    "TypeCast": Analysis.type_cast,
    "A_Expr": Analysis.operator,
    "BoolExpr": Analysis.boolean,
    "NullTest": Analysis.null_test,
    "BooleanTest": Analysis.boolean_test,
    "CaseExpr": Analysis.choice,
    "CoalesceExpr": Analysis.coalesce,
    "A_ArrayExpr": Analysis.array,
    "SQLValueFunction": Analysis.session_value,
    "A_Indirection": Analysis.field,
    "FuncCall": Analysis.call,
    "SubLink": Analysis.query,
}
