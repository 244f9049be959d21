"""The analysis of a condition: the node tree that a server would make of it, for :mod:`.compiling`.

In: the parse tree of an expression, as libpg_query gives it, and the columns of a relation. Out: the text of the tree,
or an error: a condition that is not known here to mean exactly what the server makes of it is refused. Columns,
constants, operators, functions, casts, AND, OR, NOT, IS, IN, ANY, ALL, BETWEEN, LIKE, IS DISTINCT FROM, CASE,
COALESCE, NULLIF, GREATEST and LEAST are known.

Mirrors ``transformExpr`` of parser/parse_expr.c, ``make_op`` and ``make_scalar_array_op`` of parse_oper.c,
``ParseFuncOrColumn`` of parse_func.c, ``coerce_type`` of parse_coerce.c, and ``check_simple_rowfilter_expr`` of
commands/publicationcmds.c (15 to 19).

Known gaps: arrays except after ANY and ALL, functions and operators that take any type, rows, COLLATE; order of text
under collations that Headwater does not know, which :mod:`.compiling` refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.catalog.relation import Column
from headwater.errors import PluginError, UnsupportedFilterError
from headwater.filters.choosing import UNKNOWN, Chooser
from headwater.filters.literals import BOOL, INT4, INT8, NUMERIC, TEXT, literal
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.functions import built_in_functions, built_in_types, type_name
from headwater.pg.operators import BuiltInOperator

Tree = Mapping[str, Any]
"""A node of libpg_query: its name, and its fields."""

_DEFAULT_COLLATION = 100
_NAME, _NAME_COLLATION = 19, 950
_COLLATABLE = frozenset({_NAME, 25, 1042, 1043})
_PLAIN_ELEMENT = re.compile(r"\s*([^\s{}\",\\]+)\s*")
_CASTABLE = {
    "bool": 16, "int2": 21, "int4": 23, "int8": 20, "numeric": 1700, "float4": 700, "float8": 701, "text": 25,
    "varchar": 1043, "date": 1082, "timestamp": 1114, "timestamptz": 1184, "uuid": 2950,
}  # fmt: skip
"""The OIDs of types by the names that the grammar gives them."""

_PLAIN_CALL = frozenset({"funcname", "args", "funcformat", "location"})
"""The fields of a call without DISTINCT, ORDER BY, FILTER, OVER, VARIADIC or a star."""


@dataclass(frozen=True)
class _Typed:
    """An analyzed expression.

    Attributes:
        type: OID of its type; UNKNOWN for a constant between quotes.
        node: the text of its tree; of such a constant its own text.
        collation: OID of its collation, 0 for none; is_column: the collation is a column's.
        is_null: whether it is the constant NULL.
    """

    type: int
    node: str
    collation: int = 0
    is_column: bool = False
    is_null: bool = False


def analyzed(where: Tree, columns: Sequence[Column], major: int, encoding: str) -> str:
    """Return the node tree of a condition.

    Args:
        where: its parse tree.
        columns: the columns of the relation, in attnum order.
        major: PostgreSQL's.
        encoding: the database's.

    Raises:
        PluginError: the server would not take the condition; in the server's words.
        UnsupportedFilterError: the condition has something that is not known here.
        ExpressionError: a constant is wrong, in the server's words.
    """
    analysis = _Analysis({column.name: column for column in columns if not column.is_dropped}, Chooser(major), encoding)
    return analysis.condition(where, "argument of PUBLICATION WHERE")


@dataclass(frozen=True)
class _Analysis:
    """An analysis of expressions, with a method for each kind of node."""

    columns: Mapping[str, Column]
    chooser: Chooser
    encoding: str

    def condition(self, tree: Tree, what: str) -> str:
        """Return the node of an expression that must be boolean."""
        expression = self.expression(tree)
        if expression.type not in (BOOL, UNKNOWN):
            raise PluginError(f"{what} must be type boolean, not type {type_name(expression.type)}")
        return self.coerced(expression, BOOL).node

    def expression(self, tree: Tree) -> _Typed:
        ((name, fields),) = tree.items()
        analyze = _NODES.get(name)
        if analyze is None:
            raise UnsupportedFilterError(f"a condition with {name} is not supported")
        return analyze(self, fields)

    def column(self, fields: Tree) -> _Typed:
        """Analyze a ColumnRef."""
        column = self._column(fields)
        if column.type is not None and column.type.element is not None:
            raise self._unlike(column)
        return self._variable(column)

    def _variable(self, column: Column) -> _Typed:
        assert column.type is not None
        if column.type.oid >= FIRST_NORMAL_OBJECT_ID:
            raise self._unlike(column)
        node = f"{{VAR :varno 1 :varattno {column.number} :vartype {column.type.oid} :varlevelsup 0}}"
        return _Typed(column.type.oid, node, column.collation, is_column=True)

    @staticmethod
    def _unlike(column: Column) -> UnsupportedFilterError:
        name = column.type.display_name if column.type else ""
        return UnsupportedFilterError(f'a condition on column "{column.name}" of type {name} is not supported')

    def _column(self, fields: Tree) -> Column:
        names = [part["String"]["sval"] for part in fields["fields"] if "String" in part]
        if len(names) != 1 or len(fields["fields"]) != 1:
            raise UnsupportedFilterError("a condition with a qualified column, or a whole row, is not supported")
        column = self.columns.get(names[0])
        if column is None or column.type is None:
            raise PluginError(f'column "{names[0]}" does not exist')
        if column.generated == "v":
            raise UnsupportedFilterError(
                f'a condition on the virtual generated column "{column.name}" is not supported'
            )
        if column.collation >= FIRST_NORMAL_OBJECT_ID:
            raise PluginError("invalid publication WHERE expression: user-defined collations are not allowed")
        return column

    def constant(self, fields: Tree) -> _Typed:
        """Analyze an A_Const."""
        if fields.get("isnull"):
            return _Typed(UNKNOWN, "", is_null=True)
        if "sval" in fields:
            return _Typed(UNKNOWN, fields["sval"].get("sval", ""))
        if "boolval" in fields:
            return self.literal("t" if fields["boolval"].get("boolval") else "f", BOOL)
        if "ival" in fields:
            return self.literal(str(fields["ival"].get("ival", 0)), INT4)
        if "fval" in fields:
            return self.number(fields["fval"]["fval"])
        raise UnsupportedFilterError("a bit string in a condition is not supported")

    def number(self, text: str) -> _Typed:
        """Return the constant of a number that is not an int4 (make_const)."""
        digits = text.lstrip("+-")
        if not digits.isdigit():
            return self.literal(text, NUMERIC)
        return self.literal(text, INT8 if -(1 << 63) <= int(text) < 1 << 63 else NUMERIC)

    def literal(self, text: str, type: int) -> _Typed:
        """Return a constant of a type."""
        payload = literal(text, type, self.encoding)
        built_in = built_in_types(self.chooser.major)[type]
        if built_in.length == -1:
            data = ((len(payload) + 4) << 2).to_bytes(4, "little") + payload
        else:
            fill = b"\xff" if built_in.is_by_value and payload[-1] & 0x80 and type != BOOL else b"\0"
            data = payload.ljust(8, fill) if built_in.is_by_value else payload
        return self._const(
            type, f"{len(data) if built_in.length == -1 else built_in.length} [ {' '.join(map(str, data))} ]"
        )

    def _const(self, type: int, datum: str) -> _Typed:
        length = built_in_types(self.chooser.major)[type].length
        is_null = str(datum == "<>").lower()
        node = f"{{CONST :consttype {type} :constlen {length} :constisnull {is_null} :constvalue {datum}}}"
        return _Typed(type, node, _DEFAULT_COLLATION if type in _COLLATABLE else 0)

    def coerced(self, expression: _Typed, type: int, *, is_explicit: bool = False) -> _Typed:
        """Coerce an expression to another type (coerce_type)."""
        if expression.is_null:
            return self._const(type, "<>")
        if expression.type == UNKNOWN:
            return self.literal(expression.node, type)
        if expression.type == type:
            return expression
        cast = self.chooser.cast(expression.type, type)
        if cast is None or (cast.context != "i" and not is_explicit):
            raise UnsupportedFilterError(
                f"a condition that takes {type_name(expression.type)} for {type_name(type)} is not supported"
            )
        collation = (expression.collation or _DEFAULT_COLLATION) if type in _COLLATABLE else 0
        if cast.method == "b":
            node = (
                f"{{RELABELTYPE :arg {expression.node} :resulttype {type} :resulttypmod -1 :resultcollid {collation}}}"
            )
            return _Typed(type, node, collation, expression.is_column)
        function = built_in_functions(max(self.chooser.major, 15)).get(cast.function)
        if cast.method != "f" or function is None or len(function.arguments) != 1:
            raise UnsupportedFilterError(
                f"a condition that makes {type_name(type)} of {type_name(expression.type)} is not supported"
            )
        node = (
            f"{{FUNCEXPR :funcid {function.oid} :funcresulttype {type} :funcretset false :funcvariadic false "
            f":inputcollid {expression.collation} :args ({expression.node})}}"
        )
        return _Typed(type, node, collation, expression.is_column)

    def cast(self, fields: Tree) -> _Typed:
        """Analyze a TypeCast."""
        wanted = fields["typeName"]
        names = [part["String"]["sval"] for part in wanted["names"]]
        type = _CASTABLE.get(names[-1]) if names[:-1] in ([], ["pg_catalog"]) else None
        if type is None or wanted.get("typmods") or wanted.get("arrayBounds"):
            raise UnsupportedFilterError(f"a cast to {'.'.join(names)} in a condition is not supported")
        return self.coerced(self.expression(fields["arg"]), type, is_explicit=True)

    def connection(self, fields: Tree) -> _Typed:
        """Analyze a BoolExpr."""
        word = {"AND_EXPR": "and", "OR_EXPR": "or", "NOT_EXPR": "not"}[fields["boolop"]]
        return _connected(
            word, [self.condition(argument, f"argument of {word.upper()}") for argument in fields["args"]]
        )

    def null_test(self, fields: Tree) -> _Typed:
        """Analyze a NullTest."""
        argument = self.expression(fields["arg"])
        if argument.type == UNKNOWN:
            raise UnsupportedFilterError("IS NULL of a constant is not supported")
        number = 0 if fields["nulltesttype"] == "IS_NULL" else 1
        return _Typed(BOOL, f"{{NULLTEST :arg {argument.node} :nulltesttype {number} :argisrow false}}")

    def boolean_test(self, fields: Tree) -> _Typed:
        """Analyze a BooleanTest."""
        kinds = ("IS_TRUE", "IS_NOT_TRUE", "IS_FALSE", "IS_NOT_FALSE", "IS_UNKNOWN", "IS_NOT_UNKNOWN")
        node = self.condition(fields["arg"], "argument of IS TRUE")
        return _Typed(BOOL, f"{{BOOLEANTEST :arg {node} :booltesttype {kinds.index(fields['booltesttype'])}}}")

    def operation(self, fields: Tree) -> _Typed:
        """Analyze an A_Expr."""
        analyze = _OPERATIONS.get(fields["kind"])
        names = [part["String"]["sval"] for part in fields["name"]]
        if analyze is None or len(names) != 1:
            raise UnsupportedFilterError(f"{fields['kind'].removeprefix('AEXPR_')} in a condition is not supported")
        left = self.expression(fields["lexpr"]) if "lexpr" in fields else None
        return analyze(self, names[0], left, fields["rexpr"])

    def plain(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze an operator between two expressions, or before one."""
        return self.applied(name, left, self.expression(right))

    def distinct(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze IS DISTINCT FROM."""
        assert left is not None
        other = self.expression(right)
        if left.is_null or other.is_null:
            raise UnsupportedFilterError("IS DISTINCT FROM NULL is not supported", hint="write IS NOT NULL")
        return self.applied(name, left, other, "DISTINCTEXPR")

    def not_distinct(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze IS NOT DISTINCT FROM."""
        return _connected("not", [self.distinct(name, left, right).node])

    def among(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze IN and NOT IN: an array of the items without columns, and the others singly (transformAExprIn)."""
        assert left is not None
        items = [(self.expression(tree), _has_column(tree)) for tree in right["List"]["items"]]
        alone, each = [expression for expression, _ in items], list[str]()
        listed = [expression for expression, has_column in items if not has_column]
        type = (
            self.chooser.common_type([expression.type for expression in (left, *listed)]) if len(listed) > 1 else None
        )
        if type is not None and self.chooser.array_of(type):
            elements, type = self._as_compared(
                name, left, [self.coerced(expression, type) for expression in listed], type
            )
            each.append(self._with_array(name, name == "=", left, elements, type).node)
            alone = [expression for expression, has_column in items if has_column]
        each += [self.applied(name, left, expression).node for expression in alone]
        return _connected("or" if name == "=" else "and", each)

    def any_of(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze an operator and ANY of an array."""
        return self._quantified(name, True, left, right)

    def all_of(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze an operator and ALL of an array."""
        return self._quantified(name, False, left, right)

    def _quantified(self, name: str, use_or: bool, left: _Typed | None, right: Tree) -> _Typed:
        """Compare with an array: ARRAY[...], a constant between quotes, or a column."""
        assert left is not None
        ((kind, fields),) = right.items()
        if kind == "A_ArrayExpr":
            elements, type = self._elements(fields)
            return self._with_array(name, use_or, left, elements, type)
        if kind == "A_Const" and "sval" in fields:
            elements = [_Typed(UNKNOWN, text) for text in _plain_elements(fields["sval"].get("sval", ""))]
            return self._with_array(name, use_or, left, elements, UNKNOWN)
        if kind != "ColumnRef":
            raise UnsupportedFilterError(f"ANY or ALL of {kind} in a condition is not supported")
        column = self._column(fields)
        if column.type is None or column.type.element is None:
            raise PluginError("op ANY/ALL (array) requires array on right side")
        array = self._variable(column)
        operator = self._with_element(name, left, column.type.element.oid)
        return self._scalar_array(operator, use_or, left, array.node, column.collation, is_column=True)

    def _elements(self, fields: Tree) -> tuple[list[_Typed], int]:
        """Return the elements of ARRAY[...], and their type."""
        elements = [self.expression(tree) for tree in fields.get("elements", ())]
        type = self._common(elements, "ARRAY") if elements else UNKNOWN
        if not elements or not self.chooser.array_of(type):
            raise UnsupportedFilterError("an array of no elements, or of arrays, in a condition is not supported")
        return [self.coerced(element, type) for element in elements], type

    def _with_element(self, name: str, left: _Typed, element: int) -> BuiltInOperator:
        """Find the operator between a value and elements of a type; elements that are UNKNOWN become what it takes."""
        if left.is_null:
            raise UnsupportedFilterError(f"NULL beside the operator {name} is not supported", hint="write IS NULL")
        operator = self._operator(name, left, element)
        if operator.result != BOOL:
            raise PluginError("op ANY/ALL (array) requires operator to yield boolean")
        if element not in (UNKNOWN, operator.right):
            raise UnsupportedFilterError(
                f"an array of {type_name(element)} taken for one of {type_name(operator.right)} in a condition is not "
                "supported"
            )
        return operator

    def _as_compared(self, name: str, left: _Typed, elements: list[_Typed], type: int) -> tuple[list[_Typed], int]:
        """Coerce elements to the type that they are compared as, if it is stored in the same way: varchar to text."""
        wanted = self._operator(name, left, type).right
        if wanted == type or not self._is_same_stored(type, wanted):
            return elements, type
        return [self.coerced(element, wanted) for element in elements], wanted

    def _is_same_stored(self, source: int, target: int) -> bool:
        cast = self.chooser.cast(source, target)
        return cast is not None and (cast.context, cast.method) == ("i", "b")

    def _with_array(self, name: str, use_or: bool, left: _Typed, elements: Sequence[_Typed], element: int) -> _Typed:
        """Compare a value with elements of a type (make_scalar_array_op)."""
        operator = self._with_element(name, left, element)
        if element == UNKNOWN:
            element = operator.right
            elements = [self.coerced(item, element) for item in elements]
        array = (
            f"{{ARRAYEXPR :array_typeid {self.chooser.array_of(element)} :element_typeid {element} "
            f":elements ({' '.join(item.node for item in elements)}) :multidims false}}"
        )
        collation = _common_collation(elements)
        return self._scalar_array(operator, use_or, left, array, collation, any(item.is_column for item in elements))

    def _scalar_array(
        self, operator: BuiltInOperator, use_or: bool, left: _Typed, array: str, collation: int, is_column: bool
    ) -> _Typed:
        scalar = self.coerced(left, operator.left)
        collation = _common_collation([scalar, _Typed(0, "", collation, is_column)])
        node = (
            f"{{SCALARARRAYOPEXPR :opno {operator.oid} :useOr {str(use_or).lower()} :inputcollid {collation} "
            f":args ({scalar.node} {array})}}"
        )
        return _Typed(BOOL, node)

    def null_if(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze NULLIF; its type is that of the first argument, as the operator takes it."""
        assert left is not None
        other = self.expression(right)
        operator = self._operator(name, left, other.type)
        compared = self.applied(name, left, other, "NULLIFEXPR")
        return _Typed(
            operator.left, compared.node, self._result_collation(operator.left, [left, other]), left.is_column
        )

    def case(self, fields: Tree) -> _Typed:
        """Analyze a CaseExpr."""
        argument = self.expression(fields["arg"]) if "arg" in fields else None
        if argument is not None and argument.type == UNKNOWN:
            argument = self.coerced(argument, TEXT)
        whens = [
            (self._when(argument, clause["CaseWhen"]["expr"]), clause["CaseWhen"]["result"])
            for clause in fields["args"]
        ]
        default = self.expression(fields["defresult"]) if "defresult" in fields else _Typed(UNKNOWN, "", is_null=True)
        results = [default, *(self.expression(result) for _, result in whens)]
        type = self._common(results, "CASE")
        coerced = [self.coerced(expression, type) for expression in results]
        each = [
            f"{{CASEWHEN :expr {when} :result {expression.node}}}"
            for (when, _), expression in zip(whens, coerced[1:], strict=True)
        ]
        arg = "<>" if argument is None else argument.node
        node = f"{{CASEEXPR :casetype {type} :arg {arg} :args ({' '.join(each)}) :defresult {coerced[0].node}}}"
        return self._result(type, node, coerced)

    def _when(self, argument: _Typed | None, tree: Tree) -> str:
        if argument is None:
            return self.condition(tree, "argument of CASE/WHEN")
        node = f"{{CASETESTEXPR :typeId {argument.type}}}"
        compared = _Typed(argument.type, node, argument.collation, argument.is_column)
        equal = self.applied("=", compared, self.expression(tree))
        return self.coerced(equal, BOOL).node

    def coalesce(self, fields: Tree) -> _Typed:
        """Analyze a CoalesceExpr."""
        type, arguments = self._alike(fields["args"], "COALESCE")
        node = f"{{COALESCEEXPR :coalescetype {type} :args ({' '.join(argument.node for argument in arguments)})}}"
        return self._result(type, node, arguments)

    def extreme(self, fields: Tree) -> _Typed:
        """Analyze a MinMaxExpr."""
        is_greatest = fields["op"] == "IS_GREATEST"
        type, arguments = self._alike(fields["args"], "GREATEST" if is_greatest else "LEAST")
        node = (
            f"{{MINMAXEXPR :minmaxtype {type} :inputcollid {_common_collation(arguments)} :op {int(not is_greatest)} "
            f":args ({' '.join(argument.node for argument in arguments)})}}"
        )
        return self._result(type, node, arguments)

    def _alike(self, trees: Iterable[Tree], what: str) -> tuple[int, list[_Typed]]:
        """Coerce expressions to the type that they have in common."""
        expressions = [self.expression(tree) for tree in trees]
        type = self._common(expressions, what)
        return type, [self.coerced(expression, type) for expression in expressions]

    def _common(self, expressions: Sequence[_Typed], what: str) -> int:
        type = self.chooser.common_type([expression.type for expression in expressions])
        if type is None:
            names = " and ".join(
                dict.fromkeys(type_name(expression.type) for expression in expressions if expression.type != UNKNOWN)
            )
            raise PluginError(f"{what} types {names} cannot be matched")
        return type

    def _result(self, type: int, node: str, arguments: Sequence[_Typed]) -> _Typed:
        return _Typed(
            type, node, self._result_collation(type, arguments), any(argument.is_column for argument in arguments)
        )

    @staticmethod
    def _result_collation(type: int, arguments: Sequence[_Typed]) -> int:
        default = _NAME_COLLATION if type == _NAME else _DEFAULT_COLLATION
        return (_common_collation(arguments) or default) if type in _COLLATABLE else 0

    def called(self, fields: Tree) -> _Typed:
        """Analyze a FuncCall."""
        names = [part["String"]["sval"] for part in fields["funcname"]]
        if names[:-1] not in ([], ["pg_catalog"]) or not fields.keys() <= _PLAIN_CALL:
            raise UnsupportedFilterError(f'the call of function "{".".join(names)}" in a condition is not supported')
        arguments = [self.expression(tree) for tree in fields.get("args", ())]
        types = [type_name(argument.type) if argument.type != UNKNOWN else "unknown" for argument in arguments]
        signature = f"{names[-1]}({', '.join(types)})"
        function = self.chooser.function(names[-1], [argument.type for argument in arguments])
        if function is None and any(self._is_made_of_others(argument.type) for argument in arguments):
            raise UnsupportedFilterError(f"the function {signature} of arrays and ranges is not supported here")
        if function is None:
            raise PluginError(f"function does not exist, or is not unique: {signature}")
        if not function.oid:
            raise PluginError(f"invalid publication WHERE expression: function {signature} is not immutable")
        coerced = [self.coerced(argument, type) for argument, type in zip(arguments, function.arguments, strict=True)]
        node = (
            f"{{FUNCEXPR :funcid {function.oid} :funcresulttype {function.result} :funcretset false "
            f":funcvariadic false :inputcollid {_common_collation(coerced)} "
            f":args ({' '.join(argument.node for argument in coerced)})}}"
        )
        return self._result(function.result, node, coerced)

    def between(self, _name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze BETWEEN."""
        return self._bounded("and", (">=", "<="), left, right)

    def not_between(self, _name: str, left: _Typed | None, right: Tree) -> _Typed:
        """Analyze NOT BETWEEN."""
        return self._bounded("or", ("<", ">"), left, right)

    def _bounded(self, word: str, names: tuple[str, str], left: _Typed | None, right: Tree) -> _Typed:
        bounds = zip(names, right["List"]["items"], strict=True)
        return _connected(word, [self.applied(name, left, self.expression(bound)).node for name, bound in bounds])

    def applied(self, name: str, left: _Typed | None, right: _Typed, node: str = "OPEXPR") -> _Typed:
        """Apply an operator to its arguments (make_op)."""
        sides = [right] if left is None else [left, right]
        operator = self._operator(name, left, right.type)
        if any(side.is_null for side in sides):
            raise UnsupportedFilterError(f"NULL beside the operator {name} is not supported", hint="write IS NULL")
        wanted = (operator.right,) if left is None else (operator.left, operator.right)
        arguments = [self.coerced(side, type) for side, type in zip(sides, wanted, strict=True)]
        return self._call(node, operator, arguments)

    def _operator(self, name: str, left: _Typed | None, right: int) -> BuiltInOperator:
        """Find the operator that is meant between two types, or before one."""
        operator = self.chooser.operator(name, 0 if left is None else left.type, right)
        if operator is None and any(map(self._is_made_of_others, (right, UNKNOWN if left is None else left.type))):
            raise UnsupportedFilterError(f"the operator {name} of arrays and ranges is not supported here")
        if operator is None:
            types = " ".join(type_name(type) for type in ([right] if left is None else [left.type, right]))
            raise PluginError(f"operator does not exist, or is not unique: {name} of {types}")
        if not operator.function:
            raise PluginError(
                f"invalid publication WHERE expression: the function of operator {name}({type_name(operator.left)}, "
                f"{type_name(operator.right)}) is not immutable"
            )
        return operator

    def _is_made_of_others(self, type: int) -> bool:
        """Tell whether a type is an array, range or multirange, whose operators and functions take any of them."""
        built_in = built_in_types(self.chooser.major).get(type)
        return built_in is not None and bool(built_in.element or built_in.subtype)

    def _call(self, node: str, operator: BuiltInOperator, arguments: Sequence[_Typed]) -> _Typed:
        text = (
            f"{{{node} :opno {operator.oid} :opfuncid {operator.function} :opresulttype {operator.result} "
            f":opretset false :inputcollid {_common_collation(arguments)} "
            f":args ({' '.join(argument.node for argument in arguments)})}}"
        )
        return self._result(operator.result, text, arguments)


def _common_collation(arguments: Sequence[_Typed]) -> int:
    """Return the collation that arguments are compared under (assign_collations_walker).

    Raises:
        UnsupportedFilterError: columns have different collations.
    """
    of_columns = {argument.collation for argument in arguments if argument.is_column and argument.collation}
    if len(of_columns - {_DEFAULT_COLLATION}) > 1 or len(of_columns) > 1:
        raise UnsupportedFilterError("a condition that compares columns with different collations is not supported")
    return next(iter(of_columns), max((argument.collation for argument in arguments), default=0))


def _has_column(tree: Any) -> bool:
    """Tell whether a parse tree has a column in it."""
    if isinstance(tree, Mapping):
        return "ColumnRef" in tree or any(map(_has_column, tree.values()))
    return isinstance(tree, list) and any(map(_has_column, tree))


def _plain_elements(text: str) -> list[str]:
    """Split the constant of an array into its elements, if none is quoted, empty, NULL or an array."""
    stripped = text.strip()
    matches = [_PLAIN_ELEMENT.fullmatch(piece) for piece in stripped[1:-1].split(",")]
    elements = [match[1] for match in matches if match is not None and match[1].lower() != "null"]
    if (stripped[:1], stripped[-1:]) != ("{", "}") or len(elements) != len(matches):
        raise UnsupportedFilterError(f'the array "{text}" in a condition is not supported', hint="write ARRAY[...]")
    return elements


def _connected(word: str, conditions: Sequence[str]) -> _Typed:
    if word != "not" and len(conditions) == 1:
        return _Typed(BOOL, conditions[0])
    return _Typed(BOOL, f"{{BOOLEXPR :boolop {word} :args ({' '.join(conditions)})}}")


_NODES: dict[str, Callable[[_Analysis, Tree], _Typed]] = {
    "ColumnRef": _Analysis.column,
    "A_Const": _Analysis.constant,
    "TypeCast": _Analysis.cast,
    "BoolExpr": _Analysis.connection,
    "NullTest": _Analysis.null_test,
    "BooleanTest": _Analysis.boolean_test,
    "A_Expr": _Analysis.operation,
    "FuncCall": _Analysis.called,
    "CaseExpr": _Analysis.case,
    "CoalesceExpr": _Analysis.coalesce,
    "MinMaxExpr": _Analysis.extreme,
}
_OPERATIONS: dict[str, Callable[[_Analysis, str, _Typed | None, Tree], _Typed]] = {
    "AEXPR_OP": _Analysis.plain,
    "AEXPR_LIKE": _Analysis.plain,
    "AEXPR_ILIKE": _Analysis.plain,
    "AEXPR_DISTINCT": _Analysis.distinct,
    "AEXPR_NOT_DISTINCT": _Analysis.not_distinct,
    "AEXPR_IN": _Analysis.among,
    "AEXPR_OP_ANY": _Analysis.any_of,
    "AEXPR_OP_ALL": _Analysis.all_of,
    "AEXPR_NULLIF": _Analysis.null_if,
    "AEXPR_BETWEEN": _Analysis.between,
    "AEXPR_NOT_BETWEEN": _Analysis.not_between,
}
