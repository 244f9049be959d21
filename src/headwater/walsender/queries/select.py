"""SELECT, compiled: sources, targets, conditions, order and limit; its rows when it is run.

In: a SelectStmt of the grammar, what is known. Out: the columns of the result, the types of parameters, rows.
Rows of sources are joined by nested loops: views here are small. However many there are, a query ends when it is to
end, and keeps no more than :data:`MOST_ROWS` of them.

PostgreSQL: parser/analyze.c (transformSelectStmt), parse_clause.c, executor. Known gaps, told apart as not known here:
GROUP BY, set operations, WITH, windows, queries in expressions but EXISTS of one that does not look out of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from typing import Any, TypeVar

from headwater.errors import SessionError
from headwater.pg.sqlstates import (
    GROUPING_ERROR,
    INVALID_COLUMN_REFERENCE,
    PROGRAM_LIMIT_EXCEEDED,
    UNDEFINED_COLUMN,
    UNDEFINED_TABLE,
)
from headwater.protocol.backend_messages import Column
from headwater.walsender.queries.analysis import (
    Analysis,
    SourceColumn,
    call_expression,
    column_expression,
    function_name,
)
from headwater.walsender.queries.column_names import column_name
from headwater.walsender.queries.expressions import (
    Evaluation,
    Expression,
    NotConstantError,
    NotHereError,
    ParameterTypes,
    Planning,
    coerced,
    resolved,
)
from headwater.walsender.queries.functions import Known
from headwater.walsender.queries.grammar import Node, constant, kind_of, position_of
from headwater.walsender.queries.value_types import INT8, RECORD, TypedValue, ValueType

_T = TypeVar("_T")
Rows = Callable[[Evaluation], Iterable[Sequence[Any]]]

MOST_ROWS = 1_000_000
"""Rows that are kept at a time, of a query or of one side of a join."""

_CHECKED_ROWS = 1000
"""After which it is looked whether the statement is to end."""

_REFUSED = {"groupClause", "havingClause", "windowClause", "withClause", "lockingClause", "valuesLists", "intoClause"}


@dataclass(frozen=True)
class Source:
    """A part of FROM.

    Attributes:
        columns: names, types, and of which view each is; rows: gives them.
    """

    columns: tuple[SourceColumn, ...]
    rows: Rows


@dataclass(frozen=True)
class _Key:
    """A key of ORDER BY."""

    expression: Expression
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Select:
    """A SELECT that can be run.

    Attributes:
        targets: what is selected; types: of parameters.
    """

    targets: tuple[Expression, ...]
    types: ParameterTypes
    _source: Source
    _condition: Expression | None = None
    _keys: tuple[_Key, ...] = ()
    _limit: Expression | None = None
    _offset: Expression | None = None
    _is_distinct: bool = False
    _is_aggregate: bool = False
    _check: Callable[[], None] = field(default=lambda: None)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result."""
        return tuple(target.type.column(target.name, target.table, target.number) for target in self.targets)

    def plan(self, parameters: Sequence[Any]) -> None:
        """Evaluate what depends on constants and parameters alone, as the server does before it runs a query.

        Raises:
            SessionError: as the server says.
        """
        planning = Planning(parameters)
        for expression in (*self.targets, *([] if self._condition is None else [self._condition])):
            with suppress(NotConstantError):
                expression.value(planning)

    def rows(self, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run it.

        Raises:
            SessionError: as the server says.
        """
        base = Evaluation(parameters)
        each = (base.over(row) for row in self._source.rows(base))
        chosen = _kept((it for it in each if self._condition is None or self._condition.value(it)), self._check)
        pairs = [(over, row) for over in self._grouped(base, chosen) for row in self._row(over)]
        if self._is_distinct:
            pairs = list({row: (over, row) for over, row in reversed(pairs)}.values())[::-1]
        ordered = self._ordered(pairs)
        return ordered[slice(*self._bounds(base))]

    def has_rows(self, evaluation: Evaluation) -> bool:
        """Tell whether it gives rows; what it selects is not evaluated."""
        return bool(replace(self, targets=(), _keys=()).rows(evaluation.parameters))

    def _grouped(self, base: Evaluation, chosen: list[Evaluation]) -> list[Evaluation]:
        if not self._is_aggregate:
            return chosen
        return [replace(base, group=[over.row for over in chosen])]

    def _row(self, evaluation: Evaluation) -> Iterator[tuple[Any, ...]]:
        """Give the row of a source's row; several where a target is a set."""
        sets: list[list[Any] | None] = [
            None if target.rows is None else list(target.rows(evaluation)) for target in self.targets
        ]
        if all(rows is None for rows in sets):
            yield tuple(target.value(evaluation) for target in self.targets)
            return
        single = [target.value(evaluation) if target.rows is None else None for target in self.targets]
        for at in range(max(len(rows) for rows in sets if rows is not None)):
            yield tuple(_at(rows, at, value) for value, rows in zip(single, sets, strict=True))

    def _ordered(self, pairs: list[tuple[Evaluation, tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        if not self._keys:
            return [row for _, row in pairs]
        keyed = [([key.expression.value(self._over(over, row)) for key in self._keys], row) for over, row in pairs]
        order = cmp_to_key(self._compared)
        keyed.sort(key=lambda pair: order(pair[0]))
        return [row for _, row in keyed]

    @staticmethod
    def _over(evaluation: Evaluation, row: Sequence[Any]) -> Evaluation:
        """Let keys see the result's columns behind those of the sources."""
        return Evaluation(evaluation.parameters, [*evaluation.row, *row], evaluation.group)

    def _compared(self, left: Sequence[Any], right: Sequence[Any]) -> int:
        for key, a, b in zip(self._keys, left, right, strict=True):
            if a == b:
                continue
            if a is None or b is None:
                return -1 if (a is None) == key.nulls_first else 1
            return -1 if (a < b) != key.is_descending else 1
        return 0

    def _bounds(self, base: Evaluation) -> tuple[int, int | None]:
        offset = (self._offset.value(base) or 0) if self._offset is not None else 0
        limit = self._limit.value(base) if self._limit is not None else None
        for name, value, code in (("LIMIT", limit, "2201W"), ("OFFSET", offset, "2201X")):
            if value is not None and value < 0:
                raise SessionError(f"{name} must not be negative", sqlstate=code)
        return offset, None if limit is None else offset + limit


_ONE_ROW = Source((), lambda _: [()])


def compile_select(node: Node, known: Known, types: ParameterTypes) -> Select:
    """Compile a SELECT.

    Args:
        node: the fields of its SelectStmt; known: functions and views; types: of parameters, to which it adds.

    Raises:
        NotHereError: it has something that is not known here.
        SessionError: it is wrong, as the server says.
    """
    if _REFUSED & set(node) or node.get("op", "SETOP_NONE") != "SETOP_NONE" or node.get("distinctClause", [{}]) != [{}]:
        raise NotHereError("such a SELECT")
    return _Compiler(known, types).select(node)


@dataclass
class _Compiler:
    known: Known
    types: ParameterTypes
    analysis: Analysis = field(init=False)

    def __post_init__(self) -> None:
        self.analysis = Analysis(self.known, self.types, exists=self._exists)

    def select(self, node: Node) -> Select:
        source = self._sources(node.get("fromClause", []))
        self.analysis.columns = list(source.columns)
        condition = self.analysis.condition(node["whereClause"], "WHERE") if "whereClause" in node else None
        targets = self._targets(node.get("targetList", []))
        is_aggregate = any(target.is_aggregate for target in targets)
        if is_aggregate:
            self._check_grouped(node, targets)
        return Select(
            *(tuple(targets), self.types, source, condition),
            *(
                self._keys(node, targets, is_aggregate),
                self._count(node, "limitCount"),
                self._count(node, "limitOffset"),
            ),
            _is_distinct="distinctClause" in node,
            _is_aggregate=is_aggregate,
            _check=self.known.check,
        )

    def _exists(self, node: Node) -> Callable[[Evaluation], bool]:
        try:
            inner = compile_select(node, self.known, self.types)
        except SessionError as error:
            if self.analysis.columns and error.sqlstate in (UNDEFINED_COLUMN, UNDEFINED_TABLE):
                raise NotHereError("a query that looks at the one around it") from None
            raise
        if any(target.rows is not None for target in inner.targets):
            raise NotHereError("EXISTS of functions that return sets")
        return inner.has_rows

    def _sources(self, nodes: list[Node]) -> Source:
        whole = _ONE_ROW
        for node in nodes:
            whole = self._joined(whole, self._source(node), None, is_left=False)
        return whole

    def _source(self, node: Node) -> Source:
        kind, fields = kind_of(node)
        read = {
            "RangeVar": self._view,
            "RangeFunction": self._function,
            "RangeSubselect": self._query,
            "JoinExpr": self._join,
        }.get(kind)
        if read is None:
            raise NotHereError(f"sources of the kind {kind}")
        return read(fields)

    def _view(self, fields: Node) -> Source:
        name = fields["relname"]
        view = self.known.view(name) if fields.get("schemaname", "pg_catalog") == "pg_catalog" else None
        if view is None:
            raise NotHereError(f"the relation {name}")
        names = [column.name for column in view.columns]
        alias, renamed = _alias(fields, name, names)
        columns = tuple(
            SourceColumn(alias, new, column.type, view.oid, column.number, place)
            for place, (column, new) in enumerate(zip(view.columns, renamed, strict=True))
        )
        return Source(columns, lambda _: [[row[name] for name in names] for row in view.rows()])

    def _function(self, fields: Node) -> Source:
        functions = fields["functions"]
        items = functions[0]["List"]["items"] if len(functions) == 1 else []
        if fields.get("ordinality") or fields.get("coldeflist") or not items or (len(items) > 1 and items[1] != {}):
            raise NotHereError("such functions in FROM")
        kind, call = kind_of(items[0])
        if kind != "FuncCall":
            return self._value_source(fields, self.analysis.expression(items[0]), column_name(items[0]))
        name = function_name(call)
        function, arguments = self.analysis.bound(name, call)
        expression = call_expression(function, arguments)
        if not function.columns:
            return self._value_source(fields, expression, name)
        names = [column for column, _ in function.columns]
        alias, renamed = _alias(fields, name, names)
        types = [type for _, type in function.columns]
        columns = tuple(SourceColumn(alias, n, t, 0, 0, i) for i, (n, t) in enumerate(zip(renamed, types, strict=True)))

        def rows(evaluation: Evaluation) -> list[Sequence[Any]]:
            records = [expression.value(evaluation)] if expression.rows is None else expression.rows(evaluation)
            return [_fields_of(record, len(types)) for record in records]

        return Source(columns, rows)

    def _value_source(self, fields: Node, expression: Expression, own_name: str) -> Source:
        """Return the source of a function that gives one value a row; the column is called as the source."""
        name = fields.get("alias", {}).get("aliasname", own_name)
        alias, (column,) = _alias(fields, own_name, [name])

        def rows(evaluation: Evaluation) -> list[Sequence[Any]]:
            values = [expression.value(evaluation)] if expression.rows is None else expression.rows(evaluation)
            return [[value] for value in values]

        return Source((SourceColumn(alias, column, expression.type, 0, 0, 0),), rows)

    def _query(self, fields: Node) -> Source:
        inner = compile_select(fields["subquery"]["SelectStmt"], self.known, self.types)
        alias, renamed = _alias(fields, "unnamed_subquery", [target.name for target in inner.targets])
        columns = tuple(
            SourceColumn(alias, name, target.type, target.table, target.number, place)
            for place, (target, name) in enumerate(zip(inner.targets, renamed, strict=True))
        )
        return Source(columns, lambda evaluation: inner.rows(evaluation.parameters))

    def _join(self, fields: Node) -> Source:
        kind = fields.get("jointype", "JOIN_INNER")
        if kind not in ("JOIN_INNER", "JOIN_LEFT") or fields.get("isNatural") or "alias" in fields:
            raise NotHereError("such joins")
        if fields.get("usingClause"):
            raise NotHereError("joins USING columns")
        left, right = self._source(fields["larg"]), self._source(fields["rarg"])
        pair = self._joined(left, right, None, is_left=False)
        condition = None
        if "quals" in fields:
            condition = Analysis(self.known, self.types, list(pair.columns)).condition(fields["quals"], "JOIN/ON")
        return self._joined(left, right, condition, is_left=kind == "JOIN_LEFT")

    def _joined(self, left: Source, right: Source, condition: Expression | None, *, is_left: bool) -> Source:
        return _joined(left, right, condition, self.known.check, is_left=is_left)

    def _targets(self, nodes: list[Node]) -> list[Expression]:
        targets = list[Expression]()
        for node in nodes:
            fields = node["ResTarget"]
            star = _star(fields["val"])
            if star is not None:
                targets += self._starred(star)
                continue
            expression = replace(self.analysis, may_aggregate=True).expression(fields["val"])
            expression = resolved(expression, self.types)
            targets.append(
                replace(expression, name=fields.get("name") or column_name(fields["val"], self.known.boolean_name))
            )
        return targets

    def _starred(self, source: str) -> list[Expression]:
        columns = [column for column in self.analysis.columns if source in ("", column.source)]
        if not columns:
            raise NotHereError("such a star")
        return [column_expression(column) for column in columns]

    def _check_grouped(self, node: Node, targets: Sequence[Expression]) -> None:
        """Check that nothing is selected beside aggregates; what is constant could be, and is left to others."""
        if any(target.rows is not None for target in targets):
            raise NotHereError("sets beside aggregates")
        plain = next((target for target in targets if target.table and not target.is_aggregate), None)
        if plain is not None:
            source = next(c.source for c in self.analysis.columns if (c.table, c.number) == (plain.table, plain.number))
            raise SessionError(
                f'column "{source}.{plain.name}" must appear in the GROUP BY clause '
                "or be used in an aggregate function",
                sqlstate=GROUPING_ERROR,
                position=plain.position,
            )
        if not all(target.is_aggregate for target in targets) and node.get("fromClause"):
            raise NotHereError("values beside aggregates")

    def _keys(self, node: Node, targets: Sequence[Expression], is_aggregate: bool) -> tuple[_Key, ...]:
        if is_aggregate and "sortClause" in node:
            raise NotHereError("ORDER BY of aggregates")
        return tuple(self._key(item["SortBy"], targets) for item in node.get("sortClause", []))

    def _key(self, fields: Node, targets: Sequence[Expression]) -> _Key:
        is_descending = fields.get("sortby_dir") == "SORTBY_DESC"
        nulls = fields.get("sortby_nulls", "SORTBY_NULLS_DEFAULT")
        nulls_first = is_descending if nulls == "SORTBY_NULLS_DEFAULT" else nulls == "SORTBY_NULLS_FIRST"
        expression = self._sorted_by(fields["node"], targets)
        if expression.type is RECORD or expression.type.element is not None:
            raise NotHereError("ORDER BY such values")
        return _Key(expression, is_descending, nulls_first)

    def _sorted_by(self, node: Node, targets: Sequence[Expression]) -> Expression:
        """Return what is sorted by: a column of the result by its number or its name, or any expression."""
        kind, fields = kind_of(node)
        width = len(self.analysis.columns)
        if kind == "A_Const":
            number = constant(fields)
            if not isinstance(number, int) or isinstance(number, bool):
                raise NotHereError("ORDER BY a constant")
            if not 0 < number <= len(targets):
                raise SessionError(
                    f"ORDER BY position {number} is not in select list",
                    sqlstate=INVALID_COLUMN_REFERENCE,
                    position=position_of(fields),
                )
            return _result_column(targets[number - 1].type, width + number - 1)
        if kind == "ColumnRef" and len(fields["fields"]) == 1 and "String" in fields["fields"][0]:
            name = fields["fields"][0]["String"]["sval"]
            places = [i for i, target in enumerate(targets) if target.name == name]
            if places:
                return _result_column(targets[places[0]].type, width + places[0])
        return self.analysis.expression(node)

    def _count(self, node: Node, name: str) -> Expression | None:
        if name not in node:
            return None
        expression = Analysis(self.known, self.types).expression(node[name])
        count = coerced(expression, INT8, self.types)
        if count is None:
            raise NotHereError("such a LIMIT")
        return count


def _at(rows: Sequence[Any] | None, place: int, value: Any) -> Any:
    """Return a row of a set, NULL behind its end; of what is no set the value."""
    if rows is None:
        return value
    return rows[place] if place < len(rows) else None


def _result_column(type: ValueType, place: int) -> Expression:
    return Expression(type, lambda evaluation: evaluation.row[place])


def _fields_of(record: Sequence[TypedValue] | None, count: int) -> list[Any]:
    return [None] * count if record is None else [field.value for field in record]


def _star(node: Node) -> str | None:
    """Return the source whose columns a star stands for, empty for all; None for no star."""
    parts = node.get("ColumnRef", {}).get("fields", [])
    if not parts or "A_Star" not in parts[-1]:
        return None
    return str(parts[-2]["String"]["sval"]) if len(parts) > 1 else ""


def _alias(fields: Node, name: str, columns: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of a source, and those of its columns, as an alias may change them."""
    alias = fields.get("alias", {})
    names = [node["String"]["sval"] for node in alias.get("colnames", [])]
    if len(names) > len(columns):
        raise SessionError(
            f'table "{alias["aliasname"]}" has {len(columns)} columns available but {len(names)} columns specified',
            sqlstate=INVALID_COLUMN_REFERENCE,
        )
    return alias.get("aliasname", name), [*names, *columns[len(names) :]]


def _kept(rows: Iterable[_T], check: Callable[[], None]) -> list[_T]:
    """Return rows as a list.

    Raises:
        SessionError: there are too many, or the statement is to end.
    """
    kept_rows = list[_T]()
    for row in rows:
        kept_rows.append(row)
        if len(kept_rows) % _CHECKED_ROWS == 0:
            check()
        if len(kept_rows) > MOST_ROWS:
            raise SessionError(
                f"a query reads more than {MOST_ROWS} rows",
                sqlstate=PROGRAM_LIMIT_EXCEEDED,
                hint="Headwater keeps rows of functions and views of slots in memory. Ask for fewer at a time.",
            )
    return kept_rows


def _joined(
    left: Source, right: Source, condition: Expression | None, check: Callable[[], None], *, is_left: bool
) -> Source:
    width = len(left.columns)
    columns = (*left.columns, *(replace(column, place=column.place + width) for column in right.columns))

    def rows(evaluation: Evaluation) -> Iterator[Sequence[Any]]:
        others = _kept(right.rows(evaluation), check)
        for row in left.rows(evaluation):
            check()
            pairs = [[*row, *other] for other in others]
            joined = [pair for pair in pairs if condition is None or condition.value(evaluation.over(pair))]
            yield from joined or ([[*row, *[None] * len(right.columns)]] if is_left else [])

    return Source(columns, rows)
