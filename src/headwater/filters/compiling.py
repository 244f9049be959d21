"""The compilation of row filters: from the trees of ``pg_publication_rel.prqual`` to expressions that are computed.

A filter that cannot be computed exactly is refused here, before any row, with the name of the function, type or
collation. A server lets only built-in, immutable functions, operators, types and collations into row filters, and no
system columns (``check_simple_rowfilter_expr`` of ``commands/publicationcmds.c``).

PostgreSQL: ``nodes/primnodes.h``; fields of nodes are read by their names, the same in 15 to 19 except where noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.catalog.node_tree import Datum, Node, parse_node_tree
from headwater.catalog.relation import Column
from headwater.errors import CatalogError, UnsupportedFilterError
from headwater.filters import expressions as made
from headwater.filters.comparisons import ORDER_OF, ORDERS
from headwater.filters.expressions import Constant, Expression
from headwater.filters.functions import Context, FilterSettings
from headwater.filters.known import implementation
from headwater.filters.parts import elements_of, inner_type
from headwater.filters.values import FIXED
from headwater.pg.functions import BuiltInFunction, built_in_functions, built_in_types, operator_functions, type_name
from headwater.rows.missing_values import varlena_payload

_DEPTH = 200
_BOOL = 16


def compile_expression(text: str, columns: Sequence[Column], settings: FilterSettings) -> Expression:
    """Compile a node tree to the expression that it describes, not simplified.

    Args:
        text: a ``pg_node_tree``.
        columns: the columns of the relation, in attnum order.
        settings: the settings that results depend on.

    Raises:
        UnsupportedFilterError: the expression cannot be computed here.
        CatalogError: the tree is malformed, or does not fit the relation.
    """
    tree = parse_node_tree(text)
    if not isinstance(tree, Node):
        raise CatalogError("a row filter's node tree is no node")
    return _Compiler({column.number: column for column in columns}, settings).expression(tree)


@dataclass
class _Compiler:
    """A compiler of nodes, with a method for each kind of node."""

    columns: Mapping[int, Column]
    settings: FilterSettings
    depth: int = 0

    def expression(self, node: Node) -> Expression:
        compile_node = _NODES.get(node.name)
        if compile_node is None:
            raise UnsupportedFilterError(f"row filter with a node {node.name} is not supported")
        self.depth += 1
        if self.depth > _DEPTH:
            raise UnsupportedFilterError(
                f"row filter with more than {_DEPTH} nodes inside one another is not supported"
            )
        expression = compile_node(self, node)
        self.depth -= 1
        return expression

    def several(self, nodes: Sequence[Node]) -> tuple[Expression, ...]:
        return tuple(map(self.expression, nodes))

    def column(self, node: Node) -> Expression:
        """Compile a Var."""
        number, type = node.integer("varattno"), node.integer("vartype")
        column = self.columns.get(number)
        if number <= 0 or node.integer("varlevelsup") != 0:
            raise UnsupportedFilterError(f"row filter with a whole row or a system column ({number}) is not supported")
        if column is None or column.type is None:
            raise CatalogError(f"a row filter looks at column {number}, which the relation does not have")
        if column.type.oid != type:
            column_name = f'column "{column.name}" of type {column.type.display_name}'
            raise CatalogError(f"a row filter looks at {column_name}, expected {type_name(type)}")
        return made.ColumnValue(number, self.known_type(column.type.base.oid if column.type.base else type))

    def known_type(self, oid: int) -> int:
        """Check that a type is one of the server's own, whose values can be read."""
        if oid not in built_in_types(self.settings.major):
            raise UnsupportedFilterError(f"row filter with a value of the type with OID {oid} is not supported")
        return oid

    def constant(self, node: Node) -> Expression:
        """Compile a Const."""
        type = self.known_type(node.integer("consttype"))
        if node.boolean("constisnull"):
            return Constant(type, None)
        datum = node["constvalue"]
        if not isinstance(datum, Datum):
            raise CatalogError("a constant of a row filter has no datum")
        return Constant(type, _payload(datum, node.integer("constlen"), type))

    def call(self, node: Node) -> Expression:
        """Compile a FuncExpr or OpExpr."""
        is_function = node.name == "FUNCEXPR"
        if node.boolean("funcretset" if is_function else "opretset"):
            raise UnsupportedFilterError("row filter with a function that returns a set is not supported")
        if is_function and node.boolean("funcvariadic"):
            raise UnsupportedFilterError("row filter with VARIADIC is not supported")
        arguments = self.several(node.nodes("args"))
        result = node.integer("funcresulttype" if is_function else "opresulttype")
        function = self.function(node.integer("funcid")) if is_function else self.operator(node)
        return made.Call(self.context(node, function, arguments, result), arguments)

    def function(self, oid: int) -> BuiltInFunction:
        function = built_in_functions(self.settings.major).get(oid)
        if function is None:
            raise UnsupportedFilterError(f"row filter with the function with OID {oid} is not supported")
        return function

    def operator(self, node: Node) -> BuiltInFunction:
        """Return the function of an operator."""
        return self.function_of(node.integer("opno"))

    def function_of(self, operator: int) -> BuiltInFunction:
        function = operator_functions(self.settings.major).get(operator)
        if function is None:
            raise UnsupportedFilterError(f"row filter with the operator with OID {operator} is not supported")
        return self.function(function)

    def context(
        self, node: Node, function: BuiltInFunction, arguments: Sequence[Expression], result: int, collation: int = -1
    ) -> Context:
        """Return the context of a function's call, after the function's check.

        Raises:
            UnsupportedFilterError: the function is not known, or not in this way.
        """
        collation = node.integer("inputcollid") if collation < 0 else collation
        types = tuple(argument.type for argument in arguments)
        constants = tuple(expression.payload if isinstance(expression, Constant) else None for expression in arguments)
        context = Context(function, types, self.known_type(result), collation, self.settings, constants)
        known = implementation(function)
        if known is None:
            raise UnsupportedFilterError(
                f"row filter with function {function.signature} (OID {function.oid}) is not supported"
            )
        if known.check is not None:
            known.check(context)
        return context

    def pair(self, node: Node) -> tuple[Context, tuple[Expression, Expression]]:
        """Compile an operator of two sides that is true or false."""
        left, right = self.several(node.nodes("args"))
        return self.context(node, self.operator(node), (left, right), _BOOL), (left, right)

    def distinct(self, node: Node) -> Expression:
        """Compile a DistinctExpr."""
        return made.Distinct(*self.pair(node))

    def null_if(self, node: Node) -> Expression:
        """Compile a NullIfExpr."""
        return made.NullIf(*self.pair(node))

    def any_or_all(self, node: Node) -> Expression:
        """Compile a ScalarArrayOpExpr."""
        scalar_node, array_node = node.nodes("args")
        scalar, array = self.expression(scalar_node), self.expression(array_node)
        element = built_in_types(self.settings.major)[array.type].element
        function = self.operator(node)
        if isinstance(array, Constant) and array.payload is not None:
            array = constant_elements(array, array.payload, self.settings)
        context = self.context(node, function, (scalar, Constant(element, None)), _BOOL)
        return made.AnyOrAll(context, node.boolean("useOr"), scalar, array)

    def boolean(self, node: Node) -> Expression:
        """Compile a BoolExpr."""
        kind, arguments = node.word("boolop"), self.several(node.nodes("args"))
        if kind == "not":
            return made.Negation(arguments[0])
        return made.Connection(kind == "and", arguments)

    def null_test(self, node: Node) -> Expression:
        """Compile a NullTest."""
        is_null, argument = node.integer("nulltesttype") == 0, node.node("arg")
        if not node.boolean("argisrow"):
            return made.NullTest(self.expression(argument), is_null)
        if argument.name != "ROWEXPR":
            raise UnsupportedFilterError("row filter with IS NULL of a composite value is not supported")
        return made.RowNullTest(self.several(argument.nodes("args")), is_null)

    def boolean_test(self, node: Node) -> Expression:
        """Compile a BooleanTest."""
        return made.BooleanTest(self.expression(node.node("arg")), node.integer("booltesttype"))

    def case(self, node: Node) -> Expression:
        """Compile a CaseExpr."""
        argument = node.maybe_node("arg")
        compared = None if argument is None else self.expression(argument)
        whens = tuple(
            (self.expression(when.node("expr")), self.expression(when.node("result"))) for when in node.nodes("args")
        )
        type = self.known_type(node.integer("casetype"))
        default = node.maybe_node("defresult")
        return made.Case(compared, whens, Constant(type, None) if default is None else self.expression(default), type)

    def case_value(self, node: Node) -> Expression:
        """Compile a CaseTestExpr."""
        return made.CaseValue(self.known_type(node.integer("typeId")))

    def coalesce(self, node: Node) -> Expression:
        """Compile a CoalesceExpr."""
        return made.Coalesce(self.several(node.nodes("args")), self.known_type(node.integer("coalescetype")))

    def extreme(self, node: Node) -> Expression:
        """Compile a MinMaxExpr."""
        type = self.known_type(node.integer("minmaxtype"))
        if type not in ORDERS:
            raise UnsupportedFilterError(f"row filter with GREATEST or LEAST of {type_name(type)} is not supported")
        check = ORDERS[type][1]
        if check is not None:
            # The error names the comparison that the server calls.
            less = BuiltInFunction(0, "greatest or least", "", (type, type), _BOOL, True)
            check(Context(less, (type, type), _BOOL, node.integer("inputcollid"), self.settings))
        return made.Extreme(self.several(node.nodes("args")), node.integer("op") == 0, type)

    def relabelled(self, node: Node) -> Expression:
        """Compile a RelabelType: the values of both types are stored in the same way."""
        argument, type = self.expression(node.node("arg")), self.known_type(node.integer("resulttype"))
        sizes = [FIXED[type_oid].itemsize if type_oid in FIXED else 0 for type_oid in (argument.type, type)]
        if sizes[0] != sizes[1]:
            names = f"{type_name(argument.type)} as {type_name(type)}"
            raise UnsupportedFilterError(f"row filter with a value of {names} is not supported")
        return made.Relabelled(argument, type) if argument.type != type else argument

    def collated(self, node: Node) -> Expression:
        """Compile a CollateExpr; its collation stands also in the nodes that go by it."""
        return self.expression(node.node("arg"))

    def elements(self, node: Node) -> Expression:
        """Compile an ArrayExpr."""
        if node.boolean("multidims"):
            raise UnsupportedFilterError("row filter with an array of several dimensions is not supported")
        element = self.known_type(node.integer("element_typeid"))
        type = self.known_type(node.integer("array_typeid"))
        return made.Elements(self.several(node.nodes("elements")), element, type, self.settings.major)

    def row_order(self, node: Node) -> Expression:
        """Compile a RowCompareExpr; its kind is ``cmptype`` from 18 on."""
        kind = node.integer("cmptype" if node.has("cmptype") else "rctype")
        sides = self.several(node.nodes("largs")), self.several(node.nodes("rargs"))
        pairs = []
        for left, right, operator, collation in zip(
            *sides, node.numbers("opnos"), node.numbers("inputcollids"), strict=True
        ):
            function = self.function_of(operator)
            self.context(node, function, (left, right), _BOOL, collation)
            if function.source not in ORDER_OF:
                raise UnsupportedFilterError(f"row filter with rows compared by {function.signature} is not supported")
            pairs.append((left, right, function.source))
        return made.RowOrder(kind, tuple(pairs))


def constant_elements(array: Constant, payload: bytes, settings: FilterSettings) -> made.Elements:
    """Return the elements of an array that is a constant."""
    element = inner_type(array.type, settings.major)
    values = elements_of(array.type, settings.major, payload)
    return made.Elements(tuple(Constant(element, value) for value in values), element, array.type, settings.major)


def _payload(datum: Datum, length: int, type: int) -> bytes:
    """Return a constant as heap tuples store it."""
    if length == -1:
        payload = varlena_payload(datum.data)
        if payload is None:
            raise CatalogError(f"a constant of type {type_name(type)} in a row filter is malformed")
        return payload
    if length <= 0 or len(datum.data) < length:
        raise UnsupportedFilterError(f"row filter with a constant of type {type_name(type)} is not supported")
    return datum.data[:length]


_NODES: dict[str, Callable[[_Compiler, Node], Expression]] = {
    "VAR": _Compiler.column,
    "CONST": _Compiler.constant,
    "FUNCEXPR": _Compiler.call,
    "OPEXPR": _Compiler.call,
    "DISTINCTEXPR": _Compiler.distinct,
    "NULLIFEXPR": _Compiler.null_if,
    "SCALARARRAYOPEXPR": _Compiler.any_or_all,
    "BOOLEXPR": _Compiler.boolean,
    "NULLTEST": _Compiler.null_test,
    "BOOLEANTEST": _Compiler.boolean_test,
    "CASEEXPR": _Compiler.case,
    "CASETESTEXPR": _Compiler.case_value,
    "COALESCEEXPR": _Compiler.coalesce,
    "MINMAXEXPR": _Compiler.extreme,
    "RELABELTYPE": _Compiler.relabelled,
    "COLLATEEXPR": _Compiler.collated,
    "ARRAYEXPR": _Compiler.elements,
    "ROWCOMPAREEXPR": _Compiler.row_order,
}
"""The methods for nodes, by the names that ``outfuncs.c`` writes."""
