"""A condition as it is written into the node tree that a server would make of it, for :mod:`.compiling`.

In: the parse tree of an expression, as libpg_query gives it, and the columns of a relation. Out: the text of the tree,
or an error: what is not known here to mean exactly what the server makes of it is refused. Columns, constants,
operators, functions, casts, AND, OR, NOT, IS, IN, ANY, ALL, BETWEEN, LIKE, IS DISTINCT FROM, CASE, COALESCE, NULLIF,
GREATEST and LEAST are known.

Mirrors ``transformExpr`` of parser/parse_expr.c, ``make_op`` and ``make_scalar_array_op`` of parse_oper.c,
``ParseFuncOrColumn`` of parse_func.c, ``coerce_type`` of parse_coerce.c, and ``check_simple_rowfilter_expr`` of
commands/publicationcmds.c (15 to 19).

Known gaps: arrays but beside ANY and ALL, functions and operators that take any type, rows, COLLATE; order of text
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
"""Types by the names that the grammar gives them."""

_PLAIN_CALL = frozenset({"funcname", "args", "funcformat", "location"})
"""Fields of a call without DISTINCT, ORDER BY, FILTER, OVER, VARIADIC or a star."""


@dataclass(frozen=True)
class _Typed:
    """An expression.

    Attributes:
        type: OID of its type; UNKNOWN for a constant between quotes.
        node: the text of its tree; of such a constant its own text.
        collation: OID of the collation that it has, 0 for none; is_column: the collation is a column's.
        is_null: it is the constant NULL.
    """

    type: int
    node: str
    collation: int = 0
    is_column: bool = False
    is_null: bool = False


def analyzed(where: Tree, columns: Sequence[Column], major: int, encoding: str) -> str:
    """The node tree of a condition.

    Args:
        where: its parse tree.
        columns: those of the relation, in attnum order.
        major: PostgreSQL's.
        encoding: the database's.

    Raises:
        PluginError: the server would not take it; in its words.
        UnsupportedFilterError: it has something that is not known here.
        ExpressionError: a constant is wrong, in the server's words.
    """
    analysis = _Analysis({one.name: one for one in columns if not one.is_dropped}, Chooser(major), encoding)
    return analysis.condition(where, "argument of PUBLICATION WHERE")


@dataclass(frozen=True)
class _Analysis:
    """What expressions are analyzed with; a method for each kind of node."""

    columns: Mapping[str, Column]
    chooser: Chooser
    encoding: str

    def condition(self, tree: Tree, what: str) -> str:
        """A tree that must be boolean."""
        found = self.expression(tree)
        if found.type not in (BOOL, UNKNOWN):
            raise PluginError(f"{what} must be type boolean, not type {type_name(found.type)}")
        return self.coerced(found, BOOL).node

    def expression(self, tree: Tree) -> _Typed:
        ((name, fields),) = tree.items()
        analyze = _NODES.get(name)
        if analyze is None:
            raise UnsupportedFilterError(f"a condition with {name} is not supported")
        return analyze(self, fields)

    def column(self, fields: Tree) -> _Typed:
        """ColumnRef."""
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
        names = [one["String"]["sval"] for one in fields["fields"] if "String" in one]
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
        """A_Const."""
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
        """A number that is not an int4 (make_const)."""
        digits = text.lstrip("+-")
        if not digits.isdigit():
            return self.literal(text, NUMERIC)
        return self.literal(text, INT8 if -(1 << 63) <= int(text) < 1 << 63 else NUMERIC)

    def literal(self, text: str, type: int) -> _Typed:
        """A constant of a type."""
        payload = literal(text, type, self.encoding)
        own = built_in_types(self.chooser.major)[type]
        if own.length == -1:
            data = ((len(payload) + 4) << 2).to_bytes(4, "little") + payload
        else:
            fill = b"\xff" if own.is_by_value and payload[-1] & 0x80 and type != BOOL else b"\0"
            data = payload.ljust(8, fill) if own.is_by_value else payload
        return self._const(type, f"{len(data) if own.length == -1 else own.length} [ {' '.join(map(str, data))} ]")

    def _const(self, type: int, datum: str) -> _Typed:
        length = built_in_types(self.chooser.major)[type].length
        is_null = str(datum == "<>").lower()
        node = f"{{CONST :consttype {type} :constlen {length} :constisnull {is_null} :constvalue {datum}}}"
        return _Typed(type, node, _DEFAULT_COLLATION if type in _COLLATABLE else 0)

    def coerced(self, one: _Typed, type: int, *, is_explicit: bool = False) -> _Typed:
        """An expression as one of another type (coerce_type)."""
        if one.is_null:
            return self._const(type, "<>")
        if one.type == UNKNOWN:
            return self.literal(one.node, type)
        if one.type == type:
            return one
        cast = self.chooser.cast(one.type, type)
        if cast is None or (cast.context != "i" and not is_explicit):
            raise UnsupportedFilterError(
                f"a condition that takes {type_name(one.type)} for {type_name(type)} is not supported"
            )
        collation = (one.collation or _DEFAULT_COLLATION) if type in _COLLATABLE else 0
        if cast.method == "b":
            node = f"{{RELABELTYPE :arg {one.node} :resulttype {type} :resulttypmod -1 :resultcollid {collation}}}"
            return _Typed(type, node, collation, one.is_column)
        function = built_in_functions(max(self.chooser.major, 15)).get(cast.function)
        if cast.method != "f" or function is None or len(function.arguments) != 1:
            raise UnsupportedFilterError(
                f"a condition that makes {type_name(type)} of {type_name(one.type)} is not supported"
            )
        node = (
            f"{{FUNCEXPR :funcid {function.oid} :funcresulttype {type} :funcretset false :funcvariadic false "
            f":inputcollid {one.collation} :args ({one.node})}}"
        )
        return _Typed(type, node, collation, one.is_column)

    def cast(self, fields: Tree) -> _Typed:
        """TypeCast."""
        wanted = fields["typeName"]
        names = [one["String"]["sval"] for one in wanted["names"]]
        type = _CASTABLE.get(names[-1]) if names[:-1] in ([], ["pg_catalog"]) else None
        if type is None or wanted.get("typmods") or wanted.get("arrayBounds"):
            raise UnsupportedFilterError(f"a cast to {'.'.join(names)} in a condition is not supported")
        return self.coerced(self.expression(fields["arg"]), type, is_explicit=True)

    def connection(self, fields: Tree) -> _Typed:
        """BoolExpr."""
        word = {"AND_EXPR": "and", "OR_EXPR": "or", "NOT_EXPR": "not"}[fields["boolop"]]
        return _connected(word, [self.condition(one, f"argument of {word.upper()}") for one in fields["args"]])

    def null_test(self, fields: Tree) -> _Typed:
        """NullTest."""
        one = self.expression(fields["arg"])
        if one.type == UNKNOWN:
            raise UnsupportedFilterError("IS NULL of a constant is not supported")
        number = 0 if fields["nulltesttype"] == "IS_NULL" else 1
        return _Typed(BOOL, f"{{NULLTEST :arg {one.node} :nulltesttype {number} :argisrow false}}")

    def boolean_test(self, fields: Tree) -> _Typed:
        """BooleanTest."""
        kinds = ("IS_TRUE", "IS_NOT_TRUE", "IS_FALSE", "IS_NOT_FALSE", "IS_UNKNOWN", "IS_NOT_UNKNOWN")
        node = self.condition(fields["arg"], "argument of IS TRUE")
        return _Typed(BOOL, f"{{BOOLEANTEST :arg {node} :booltesttype {kinds.index(fields['booltesttype'])}}}")

    def operation(self, fields: Tree) -> _Typed:
        """A_Expr."""
        analyze = _OPERATIONS.get(fields["kind"])
        names = [one["String"]["sval"] for one in fields["name"]]
        if analyze is None or len(names) != 1:
            raise UnsupportedFilterError(f"{fields['kind'].removeprefix('AEXPR_')} in a condition is not supported")
        left = self.expression(fields["lexpr"]) if "lexpr" in fields else None
        return analyze(self, names[0], left, fields["rexpr"])

    def plain(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """An operator between, or before, expressions."""
        return self.applied(name, left, self.expression(right))

    def distinct(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """IS DISTINCT FROM."""
        assert left is not None
        other = self.expression(right)
        if left.is_null or other.is_null:
            raise UnsupportedFilterError("IS DISTINCT FROM NULL is not supported", hint="write IS NOT NULL")
        return self.applied(name, left, other, "DISTINCTEXPR")

    def not_distinct(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """IS NOT DISTINCT FROM."""
        return _connected("not", [self.distinct(name, left, right).node])

    def among(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """IN and NOT IN: with an array of what is no column (transformAExprIn), and with columns one by one."""
        assert left is not None
        items = [(self.expression(one), _has_column(one)) for one in right["List"]["items"]]
        alone, each = [one for one, _ in items], list[str]()
        listed = [one for one, has_column in items if not has_column]
        type = self.chooser.common_type([one.type for one in (left, *listed)]) if len(listed) > 1 else None
        if type is not None and self.chooser.array_of(type):
            elements, type = self._as_compared(name, left, [self.coerced(one, type) for one in listed], type)
            each.append(self._with_array(name, name == "=", left, elements, type).node)
            alone = [one for one, has_column in items if has_column]
        each += [self.applied(name, left, one).node for one in alone]
        return _connected("or" if name == "=" else "and", each)

    def any_of(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """An operator and ANY of an array."""
        return self._quantified(name, True, left, right)

    def all_of(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """An operator and ALL of an array."""
        return self._quantified(name, False, left, right)

    def _quantified(self, name: str, use_or: bool, left: _Typed | None, right: Tree) -> _Typed:
        """The array is one in brackets, a constant between quotes, or a column."""
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
        """Those of ARRAY[...], and their type."""
        found = [self.expression(one) for one in fields.get("elements", ())]
        type = self._common(found, "ARRAY") if found else UNKNOWN
        if not found or not self.chooser.array_of(type):
            raise UnsupportedFilterError("an array of no elements, or of arrays, in a condition is not supported")
        return [self.coerced(one, type) for one in found], type

    def _with_element(self, name: str, left: _Typed, element: int) -> BuiltInOperator:
        """The operator between a value and elements of a type; UNKNOWN is what the operator takes."""
        if left.is_null:
            raise UnsupportedFilterError(f"NULL beside the operator {name} is not supported", hint="write IS NULL")
        found = self._operator(name, left, element)
        if found.result != BOOL:
            raise PluginError("op ANY/ALL (array) requires operator to yield boolean")
        if element not in (UNKNOWN, found.right):
            raise UnsupportedFilterError(
                f"an array of {type_name(element)} taken for one of {type_name(found.right)} in a condition is not "
                "supported"
            )
        return found

    def _as_compared(self, name: str, left: _Typed, elements: list[_Typed], type: int) -> tuple[list[_Typed], int]:
        """Elements as what they are compared as, if that is stored in the same way: varchar as text."""
        wanted = self._operator(name, left, type).right
        if wanted == type or not self._is_same_stored(type, wanted):
            return elements, type
        return [self.coerced(one, wanted) for one in elements], wanted

    def _is_same_stored(self, source: int, target: int) -> bool:
        cast = self.chooser.cast(source, target)
        return cast is not None and (cast.context, cast.method) == ("i", "b")

    def _with_array(self, name: str, use_or: bool, left: _Typed, elements: Sequence[_Typed], element: int) -> _Typed:
        """A value compared with elements of a type (make_scalar_array_op)."""
        operator = self._with_element(name, left, element)
        if element == UNKNOWN:
            element = operator.right
            elements = [self.coerced(one, element) for one in elements]
        array = (
            f"{{ARRAYEXPR :array_typeid {self.chooser.array_of(element)} :element_typeid {element} "
            f":elements ({' '.join(one.node for one in elements)}) :multidims false}}"
        )
        collation = _common_collation(elements)
        return self._scalar_array(operator, use_or, left, array, collation, any(one.is_column for one in elements))

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
        """NULLIF: of the type of its first argument, as the operator takes it."""
        assert left is not None
        other = self.expression(right)
        found = self._operator(name, left, other.type)
        made = self.applied(name, left, other, "NULLIFEXPR")
        return _Typed(found.left, made.node, self._result_collation(found.left, [left, other]), left.is_column)

    def case(self, fields: Tree) -> _Typed:
        """CaseExpr."""
        argument = self.expression(fields["arg"]) if "arg" in fields else None
        if argument is not None and argument.type == UNKNOWN:
            argument = self.coerced(argument, TEXT)
        whens = [(self._when(argument, one["CaseWhen"]["expr"]), one["CaseWhen"]["result"]) for one in fields["args"]]
        default = self.expression(fields["defresult"]) if "defresult" in fields else _Typed(UNKNOWN, "", is_null=True)
        results = [default, *(self.expression(result) for _, result in whens)]
        type = self._common(results, "CASE")
        made = [self.coerced(one, type) for one in results]
        each = [f"{{CASEWHEN :expr {when} :result {one.node}}}" for (when, _), one in zip(whens, made[1:], strict=True)]
        arg = "<>" if argument is None else argument.node
        node = f"{{CASEEXPR :casetype {type} :arg {arg} :args ({' '.join(each)}) :defresult {made[0].node}}}"
        return self._result(type, node, made)

    def _when(self, argument: _Typed | None, tree: Tree) -> str:
        if argument is None:
            return self.condition(tree, "argument of CASE/WHEN")
        node = f"{{CASETESTEXPR :typeId {argument.type}}}"
        compared = _Typed(argument.type, node, argument.collation, argument.is_column)
        found = self.applied("=", compared, self.expression(tree))
        return self.coerced(found, BOOL).node

    def coalesce(self, fields: Tree) -> _Typed:
        """CoalesceExpr."""
        type, made = self._alike(fields["args"], "COALESCE")
        node = f"{{COALESCEEXPR :coalescetype {type} :args ({' '.join(one.node for one in made)})}}"
        return self._result(type, node, made)

    def extreme(self, fields: Tree) -> _Typed:
        """MinMaxExpr."""
        is_greatest = fields["op"] == "IS_GREATEST"
        type, made = self._alike(fields["args"], "GREATEST" if is_greatest else "LEAST")
        node = (
            f"{{MINMAXEXPR :minmaxtype {type} :inputcollid {_common_collation(made)} :op {int(not is_greatest)} "
            f":args ({' '.join(one.node for one in made)})}}"
        )
        return self._result(type, node, made)

    def _alike(self, trees: Iterable[Tree], what: str) -> tuple[int, list[_Typed]]:
        """Expressions as ones of the type that they have in common."""
        found = [self.expression(one) for one in trees]
        type = self._common(found, what)
        return type, [self.coerced(one, type) for one in found]

    def _common(self, found: Sequence[_Typed], what: str) -> int:
        type = self.chooser.common_type([one.type for one in found])
        if type is None:
            names = " and ".join(dict.fromkeys(type_name(one.type) for one in found if one.type != UNKNOWN))
            raise PluginError(f"{what} types {names} cannot be matched")
        return type

    def _result(self, type: int, node: str, made: Sequence[_Typed]) -> _Typed:
        return _Typed(type, node, self._result_collation(type, made), any(one.is_column for one in made))

    @staticmethod
    def _result_collation(type: int, arguments: Sequence[_Typed]) -> int:
        own = _NAME_COLLATION if type == _NAME else _DEFAULT_COLLATION
        return (_common_collation(arguments) or own) if type in _COLLATABLE else 0

    def called(self, fields: Tree) -> _Typed:
        """FuncCall."""
        names = [one["String"]["sval"] for one in fields["funcname"]]
        if names[:-1] not in ([], ["pg_catalog"]) or not fields.keys() <= _PLAIN_CALL:
            raise UnsupportedFilterError(f'the call of function "{".".join(names)}" in a condition is not supported')
        arguments = [self.expression(one) for one in fields.get("args", ())]
        types = [type_name(one.type) if one.type != UNKNOWN else "unknown" for one in arguments]
        signature = f"{names[-1]}({', '.join(types)})"
        found = self.chooser.function(names[-1], [one.type for one in arguments])
        if found is None and any(self._is_made_of_others(one.type) for one in arguments):
            raise UnsupportedFilterError(f"the function {signature} of arrays and ranges is not supported here")
        if found is None:
            raise PluginError(f"function does not exist, or is not unique: {signature}")
        if not found.oid:
            raise PluginError(f"invalid publication WHERE expression: function {signature} is not immutable")
        made = [self.coerced(one, type) for one, type in zip(arguments, found.arguments, strict=True)]
        node = (
            f"{{FUNCEXPR :funcid {found.oid} :funcresulttype {found.result} :funcretset false :funcvariadic false "
            f":inputcollid {_common_collation(made)} :args ({' '.join(one.node for one in made)})}}"
        )
        return self._result(found.result, node, made)

    def between(self, _name: str, left: _Typed | None, right: Tree) -> _Typed:
        """BETWEEN."""
        return self._bounded("and", (">=", "<="), left, right)

    def not_between(self, _name: str, left: _Typed | None, right: Tree) -> _Typed:
        """NOT BETWEEN."""
        return self._bounded("or", ("<", ">"), left, right)

    def _bounded(self, word: str, names: tuple[str, str], left: _Typed | None, right: Tree) -> _Typed:
        bounds = zip(names, right["List"]["items"], strict=True)
        return _connected(word, [self.applied(name, left, self.expression(bound)).node for name, bound in bounds])

    def applied(self, name: str, left: _Typed | None, right: _Typed, node: str = "OPEXPR") -> _Typed:
        """An operator with its arguments (make_op)."""
        sides = [right] if left is None else [left, right]
        found = self._operator(name, left, right.type)
        if any(one.is_null for one in sides):
            raise UnsupportedFilterError(f"NULL beside the operator {name} is not supported", hint="write IS NULL")
        wanted = (found.right,) if left is None else (found.left, found.right)
        arguments = [self.coerced(one, type) for one, type in zip(sides, wanted, strict=True)]
        return self._call(node, found, arguments)

    def _operator(self, name: str, left: _Typed | None, right: int) -> BuiltInOperator:
        """The operator that is meant between, or before, types."""
        found = self.chooser.operator(name, 0 if left is None else left.type, right)
        if found is None and any(map(self._is_made_of_others, (right, UNKNOWN if left is None else left.type))):
            raise UnsupportedFilterError(f"the operator {name} of arrays and ranges is not supported here")
        if found is None:
            types = " ".join(type_name(one) for one in ([right] if left is None else [left.type, right]))
            raise PluginError(f"operator does not exist, or is not unique: {name} of {types}")
        if not found.function:
            raise PluginError(
                f"invalid publication WHERE expression: the function of operator {name}({type_name(found.left)}, "
                f"{type_name(found.right)}) is not immutable"
            )
        return found

    def _is_made_of_others(self, type: int) -> bool:
        """An array, range or multirange, whose operators and functions take any of them."""
        own = built_in_types(self.chooser.major).get(type)
        return own is not None and bool(own.element or own.subtype)

    def _call(self, node: str, found: BuiltInOperator, arguments: Sequence[_Typed]) -> _Typed:
        text = (
            f"{{{node} :opno {found.oid} :opfuncid {found.function} :opresulttype {found.result} :opretset false "
            f":inputcollid {_common_collation(arguments)} :args ({' '.join(one.node for one in arguments)})}}"
        )
        return self._result(found.result, text, arguments)


def _common_collation(arguments: Sequence[_Typed]) -> int:
    """The collation that arguments are compared under (assign_collations_walker).

    Raises:
        UnsupportedFilterError: columns have different ones.
    """
    of_columns = {one.collation for one in arguments if one.is_column and one.collation}
    if len(of_columns - {_DEFAULT_COLLATION}) > 1 or len(of_columns) > 1:
        raise UnsupportedFilterError("a condition that compares columns with different collations is not supported")
    return next(iter(of_columns), max((one.collation for one in arguments), default=0))


def _has_column(tree: Any) -> bool:
    """Whether a parse tree has a column in it."""
    if isinstance(tree, Mapping):
        return "ColumnRef" in tree or any(map(_has_column, tree.values()))
    return isinstance(tree, list) and any(map(_has_column, tree))


def _plain_elements(text: str) -> list[str]:
    """The elements of an array's constant, if none is quoted, empty, NULL or an array."""
    stripped = text.strip()
    found = [_PLAIN_ELEMENT.fullmatch(one) for one in stripped[1:-1].split(",")]
    elements = [one[1] for one in found if one is not None and one[1].lower() != "null"]
    if (stripped[:1], stripped[-1:]) != ("{", "}") or len(elements) != len(found):
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
