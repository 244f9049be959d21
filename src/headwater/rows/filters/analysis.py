"""A condition as it is written into the node tree that a server would make of it, for :mod:`.compiling`.

In: the parse tree of an expression, as libpg_query gives it, and the columns of a relation. Out: the text of the tree,
or an error: what is not known here to mean exactly what the server makes of it is refused. Columns, constants,
operators, casts, AND, OR, NOT, IS, IN, BETWEEN, LIKE and IS DISTINCT FROM are known.

Mirrors ``transformExpr`` of parser/parse_expr.c, ``make_op`` of parse_oper.c, ``coerce_type`` of parse_coerce.c, and
``check_simple_rowfilter_expr`` of commands/publicationcmds.c (15 to 19).

Known gaps: functions, CASE, COALESCE and its kin, arrays, rows, COLLATE; order of text under collations that Headwater
does not know, which :mod:`.compiling` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.catalog.relation import Column
from headwater.errors import PluginError, UnsupportedFilterError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.functions import built_in_functions, built_in_types, type_name
from headwater.pg.operators import BuiltInOperator, type_categories
from headwater.rows.filters.choosing import UNKNOWN, Chooser
from headwater.rows.filters.literals import BOOL, INT4, INT8, NUMERIC, literal

Tree = Mapping[str, Any]
"""A node of libpg_query: its name, and its fields."""

_DEFAULT_COLLATION = 100
_COLLATABLE = frozenset({19, 25, 1042, 1043})
_CASTABLE = {
    "bool": 16, "int2": 21, "int4": 23, "int8": 20, "numeric": 1700, "float4": 700, "float8": 701, "text": 25,
    "varchar": 1043, "date": 1082, "timestamp": 1114, "timestamptz": 1184, "uuid": 2950,
}  # fmt: skip
"""Types by the names that the grammar gives them."""


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
        if column.type.oid >= FIRST_NORMAL_OBJECT_ID or column.type.element is not None:
            raise UnsupportedFilterError(
                f'a condition on column "{column.name}" of type {column.type.display_name} is not supported'
            )
        if column.collation >= FIRST_NORMAL_OBJECT_ID:
            raise PluginError("invalid publication WHERE expression: user-defined collations are not allowed")
        node = f"{{VAR :varno 1 :varattno {column.number} :vartype {column.type.oid} :varlevelsup 0}}"
        return _Typed(column.type.oid, node, column.collation, is_column=True)

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
        """IN and NOT IN: what the server compares one by one, each by the operator for it alone."""
        assert left is not None
        each = [self.applied(name, left, self.expression(one)).node for one in right["List"]["items"]]
        return _connected("or" if name == "=" else "and", each)

    def between(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """BETWEEN."""
        return self._bounded("and", (">=", "<="), left, right)

    def not_between(self, name: str, left: _Typed | None, right: Tree) -> _Typed:
        """NOT BETWEEN."""
        return self._bounded("or", ("<", ">"), left, right)

    def _bounded(self, word: str, names: tuple[str, str], left: _Typed | None, right: Tree) -> _Typed:
        bounds = zip(names, right["List"]["items"], strict=True)
        return _connected(word, [self.applied(name, left, self.expression(bound)).node for name, bound in bounds])

    def applied(self, name: str, left: _Typed | None, right: _Typed, node: str = "OPEXPR") -> _Typed:
        """An operator with its arguments (make_op)."""
        sides = [right] if left is None else [left, right]
        found = self.chooser.operator(name, 0 if left is None else left.type, right.type)
        if found is None:
            types = " ".join(type_name(one.type) for one in sides)
            raise PluginError(f"operator does not exist, or is not unique: {name} of {types}")
        if not found.function:
            raise PluginError(
                f"invalid publication WHERE expression: the function of operator {name}({type_name(found.left)}, "
                f"{type_name(found.right)}) is not immutable"
            )
        if any(one.is_null for one in sides):
            raise UnsupportedFilterError(f"NULL beside the operator {name} is not supported", hint="write IS NULL")
        wanted = (found.right,) if left is None else (found.left, found.right)
        arguments = [self.coerced(one, type) for one, type in zip(sides, wanted, strict=True)]
        return self._call(node, found, arguments)

    def _call(self, node: str, found: BuiltInOperator, arguments: Sequence[_Typed]) -> _Typed:
        collation = _common_collation(arguments)
        text = (
            f"{{{node} :opno {found.oid} :opfuncid {found.function} :opresulttype {found.result} :opretset false "
            f":inputcollid {collation} :args ({' '.join(one.node for one in arguments)})}}"
        )
        result = collation if type_categories(self.chooser.major)[found.result].category == "S" else 0
        return _Typed(found.result, text, result, any(one.is_column for one in arguments))


def _common_collation(arguments: Sequence[_Typed]) -> int:
    """The collation that arguments are compared under (assign_collations_walker).

    Raises:
        UnsupportedFilterError: columns have different ones.
    """
    of_columns = {one.collation for one in arguments if one.is_column and one.collation}
    if len(of_columns - {_DEFAULT_COLLATION}) > 1 or len(of_columns) > 1:
        raise UnsupportedFilterError("a condition that compares columns with different collations is not supported")
    return next(iter(of_columns), max((one.collation for one in arguments), default=0))


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
}
_OPERATIONS: dict[str, Callable[[_Analysis, str, _Typed | None, Tree], _Typed]] = {
    "AEXPR_OP": _Analysis.plain,
    "AEXPR_LIKE": _Analysis.plain,
    "AEXPR_ILIKE": _Analysis.plain,
    "AEXPR_DISTINCT": _Analysis.distinct,
    "AEXPR_NOT_DISTINCT": _Analysis.not_distinct,
    "AEXPR_IN": _Analysis.among,
    "AEXPR_BETWEEN": _Analysis.between,
    "AEXPR_NOT_BETWEEN": _Analysis.not_between,
}
