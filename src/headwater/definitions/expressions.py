"""Expressions of the catalog in SQL, as ``pg_get_expr`` prints them in a session with an empty ``search_path``.

In: the text of a ``pg_node_tree``, the relation of its columns, names as of a view. Out: SQL that parses into the same
tree. Every operator stands in parentheses. Implicit casts are shown where they decide which operator or function is
meant.

PostgreSQL: ``utils/adt/ruleutils.c`` (get_rule_expr, get_func_expr, get_func_sql_syntax, get_coercion_expr).
CASE stands in one line unless the lines of pg_get_expr are asked for.

Known gaps, all of them errors: subqueries, aggregates and window functions, the XML and JSON constructs of SQL, whole
rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headwater.catalog.node_tree import Node, Value, parse_node_tree
from headwater.definitions.constants import Label, constant, literal
from headwater.definitions.naming import Naming
from headwater.errors import CatalogError, UnsupportedDefinitionError

_EXPLICIT_CALL, _EXPLICIT_CAST, _IMPLICIT_CAST, _SQL_SYNTAX = range(4)
_BOOL, _INT4, _RECORD = 16, 23, 2249
_DEPTH = 200

_STEP, _MOST_INDENT = 4, 40
_LINE = "\0"
"""The beginning of a line, until blanks before it are removed; no text has the character."""

_BLANKS_BEFORE_LINE = re.compile(f" *{_LINE}")

_RESULT_TYPES = {
    "VAR": "vartype",
    "CONST": "consttype",
    "FUNCEXPR": "funcresulttype",
    "OPEXPR": "opresulttype",
    "NULLIFEXPR": "opresulttype",
    "SUBSCRIPTINGREF": "refrestype",
    "FIELDSELECT": "resulttype",
    "RELABELTYPE": "resulttype",
    "COERCEVIAIO": "resulttype",
    "ARRAYCOERCEEXPR": "resulttype",
    "CONVERTROWTYPEEXPR": "resulttype",
    "COERCETODOMAIN": "resulttype",
    "COERCETODOMAINVALUE": "typeId",
    "CASEEXPR": "casetype",
    "ARRAYEXPR": "array_typeid",
    "ROWEXPR": "row_typeid",
    "COALESCEEXPR": "coalescetype",
    "MINMAXEXPR": "minmaxtype",
    "SQLVALUEFUNCTION": "type",
}
"""The field with the type of a node's value."""

_BOOLEANS = frozenset({"BOOLEXPR", "NULLTEST", "BOOLEANTEST", "DISTINCTEXPR", "SCALARARRAYOPEXPR", "ROWCOMPAREEXPR"})

_COLLATIONS = {
    "VAR": "varcollid",
    "CONST": "constcollid",
    "FUNCEXPR": "funccollid",
    "OPEXPR": "opcollid",
    "RELABELTYPE": "resultcollid",
    "COERCEVIAIO": "resultcollid",
    "ARRAYCOERCEEXPR": "resultcollid",
    "COLLATEEXPR": "collOid",
    "CASEEXPR": "casecollid",
    "COALESCEEXPR": "coalescecollid",
    "MINMAXEXPR": "minmaxcollid",
    "SUBSCRIPTINGREF": "refcollid",
}

_OLD_NAMES = {
    "ARRAY": "ARRAYEXPR",
    "CASE": "CASEEXPR",
    "COALESCE": "COALESCEEXPR",
    "COLLATE": "COLLATEEXPR",
    "MINMAX": "MINMAXEXPR",
    "ROW": "ROWEXPR",
    "ROWCOMPARE": "ROWCOMPAREEXPR",
}
"""The names of some nodes in 14."""

_LIKE_FUNCTIONS = frozenset({"NULLIFEXPR", "COALESCEEXPR", "MINMAXEXPR", "SQLVALUEFUNCTION", "XMLEXPR", "JSONEXPR"})

_SQL_VALUES = (
    *("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "LOCALTIME"),
    *("LOCALTIME", "LOCALTIMESTAMP", "LOCALTIMESTAMP", "CURRENT_ROLE", "CURRENT_USER", "USER", "SESSION_USER"),
    *("CURRENT_CATALOG", "CURRENT_SCHEMA"),
)
_WITH_PRECISION = frozenset({2, 4, 6, 8})

_BOOLEAN_TESTS = ("TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN")


def parse_one(text: str) -> Node:
    """Parse the tree of an expression into its node.

    Raises:
        CatalogError: the text is malformed, or not a single node.
    """
    return _only(parse_node_tree(text))


def parse_several(text: str | None) -> tuple[Node, ...]:
    """Parse a list of expressions into their nodes; none for None. Raises as :func:`parse_one`."""
    return () if text is None else Node("LIST", (("elements", parse_node_tree(text)),)).nodes("elements")


def _only(tree: Value) -> Node:
    if not isinstance(tree, Node):
        raise CatalogError("a node tree is no node")
    return tree


def kind_of(node: Node) -> str:
    """Return a node's name, the same in all major versions."""
    return _OLD_NAMES.get(node.name, node.name)


def result_type(node: Node) -> int:
    """Return the OID of the type of a node's value; 0 if the node does not have it."""
    if kind_of(node) == "COLLATEEXPR":
        return result_type(node.node("arg"))
    if kind_of(node) in _BOOLEANS:
        return _BOOL
    field = _RESULT_TYPES.get(kind_of(node))
    return node.integer(field) if field is not None else 0


def result_collation(node: Node) -> int:
    """Return the OID of the collation of a node's value; 0 if there is none, or the node does not have it."""
    field = _COLLATIONS.get(kind_of(node))
    return node.integer(field) if field is not None and node.has(field) else 0


def looks_like_function(node: Node) -> bool:
    """Tell whether an expression can stand without parentheses where a function call is expected."""
    if node.name == "FUNCEXPR":
        return node.integer("funcformat") in (_EXPLICIT_CALL, _SQL_SYNTAX)
    return kind_of(node) in _LIKE_FUNCTIONS


@dataclass
class Deparser:
    """A deparser of nodes into SQL, with a method for each kind.

    Attributes:
        naming: the names of objects.
        relation: OID of the relation whose columns are meant; 0 without one.
        breaks_lines: whether CASE has lines of its own, each after :data:`_LINE`; see :meth:`printed`.
    """

    naming: Naming
    relation: int = 0
    breaks_lines: bool = False
    _depth: int = 0
    _indent: int = 0

    def printed(self, node: Node) -> str:
        """Return an expression as ``pg_get_expr`` prints it, with its lines. Raises as :meth:`sql`."""
        return _BLANKS_BEFORE_LINE.sub("\n", replace(self, breaks_lines=True).sql(node))

    def sql(self, node: Node, *, shows_implicit: bool = False) -> str:
        """Return an expression in SQL.

        Args:
            node: the node of the expression.
            shows_implicit: whether an implicit cast at its top is shown.

        Raises:
            UnsupportedDefinitionError: the expression cannot be written exactly.
            CatalogError: the expression is malformed, or names an object that does not exist.
        """
        deparse = _NODES.get(kind_of(node))
        if deparse is None:
            raise UnsupportedDefinitionError(f"an expression with a node {node.name} is not told in SQL")
        self._depth += 1
        if self._depth > _DEPTH:
            raise UnsupportedDefinitionError(f"an expression of more than {_DEPTH} levels is not told in SQL")
        sql = deparse(self, node, shows_implicit)
        self._depth -= 1
        return sql

    def element(self, node: Node) -> str:
        """Return an element of a list that is not enclosed, as of an index: in parentheses unless it is a call."""
        sql = self.sql(node)
        return sql if looks_like_function(node) else f"({sql})"

    def several(self, nodes: Sequence[Node]) -> str:
        """Return expressions with commas between them and implicit casts shown."""
        return ", ".join(self.sql(node, shows_implicit=True) for node in nodes)

    def operands(self, node: Node, *counts: int) -> tuple[Node, ...]:
        """Return the arguments of a node, whose number must be one of `counts`.

        Raises:
            CatalogError: the node has more, or fewer.
        """
        arguments = node.nodes("args")
        if len(arguments) not in counts:
            raise CatalogError(
                f"node {node.name} has {len(arguments)} arguments, expected {' or '.join(map(str, counts))}"
            )
        return arguments

    def variable(self, node: Node, _: bool) -> str:
        number = node.integer("varattno")
        if not number or node.integer("varlevelsup") or not self.relation:
            raise UnsupportedDefinitionError("an expression with a whole row, or an outer column, is not told in SQL")
        return self.naming.column(self.relation, number)

    def constant(self, node: Node, _: bool) -> str:
        return constant(node, self.naming)

    def call(self, node: Node, shows_implicit: bool) -> str:
        form, arguments = node.integer("funcformat"), node.nodes("args")
        if form in (_EXPLICIT_CAST, _IMPLICIT_CAST):
            arguments = self.operands(node, 1, 2, 3)
        if form == _IMPLICIT_CAST and not shows_implicit:
            return self.sql(arguments[0])
        if form in (_EXPLICIT_CAST, _IMPLICIT_CAST):
            return self.cast(arguments[0], node.integer("funcresulttype"), _length_coercion(arguments))
        if form == _SQL_SYNTAX:
            name = self.naming.row("pg_proc", node.integer("funcid")).name("proname")
            counts, deparse = _SYNTAX.get(name, ((), None))
            sql = deparse(self, name, arguments) if deparse is not None and len(arguments) in counts else None
            if sql is not None:
                return sql
        written = [self.sql(argument, shows_implicit=True) for argument in arguments]
        if node.boolean("funcvariadic") and written:
            written[-1] = f"VARIADIC {written[-1]}"
        return f"{self.naming.function(node.integer('funcid'))}({', '.join(written)})"

    def named_argument(self, node: Node, _: bool) -> str:
        return f"{self.naming.quoted(node.word('name'))} => {self.sql(node.node('arg'), shows_implicit=True)}"

    def operation(self, node: Node, _: bool) -> str:
        written = [self.sql(operand, shows_implicit=True) for operand in self.operands(node, 1, 2)]
        name = self.naming.operator(node.integer("opno"))
        return f"({written[0]} {name} {written[1]})" if len(written) == 2 else f"({name} {written[0]})"

    def distinct(self, node: Node, _: bool) -> str:
        left, right = (self.sql(operand, shows_implicit=True) for operand in self.operands(node, 2))
        return f"({left} IS DISTINCT FROM {right})"

    def null_if(self, node: Node, _: bool) -> str:
        return f"NULLIF({self.several(node.nodes('args'))})"

    def any_or_all(self, node: Node, _: bool) -> str:
        left, right = (self.sql(operand, shows_implicit=True) for operand in self.operands(node, 2))
        word = "ANY" if node.boolean("useOr") else "ALL"
        return f"({left} {self.naming.operator(node.integer('opno'))} {word} ({right}))"

    def boolean(self, node: Node, _: bool) -> str:
        kind = node.word("boolop")
        written = [self.sql(operand) for operand in (self.operands(node, 1) if kind == "not" else node.nodes("args"))]
        return f"(NOT {written[0]})" if kind == "not" else f"({f' {kind.upper()} '.join(written)})"

    def cast(self, argument: Node, type: int, typmod: int) -> str:
        """Return a cast that is shown."""
        is_bare = argument.name == "CONST" and argument.integer("consttype") == type
        if is_bare and argument.integer("consttypmod") == -1:
            sql = constant(argument, self.naming, Label.NEVER)
        else:
            sql = f"({self.sql(argument)})"
        return f"{sql}::{self.naming.type(type, typmod)}"

    def coercion(self, node: Node, shows_implicit: bool) -> str:
        """Return a RelabelType, CoerceViaIO, ArrayCoerceExpr, ConvertRowtypeExpr or CoerceToDomain in SQL."""
        form = next((node.integer(name) for name, _ in node.fields if name.endswith("format")), _EXPLICIT_CAST)
        argument = node.node("arg")
        if form == _IMPLICIT_CAST and not shows_implicit:
            return self.sql(argument)
        typmod = node.integer("resulttypmod") if node.has("resulttypmod") else -1
        return self.cast(argument, node.integer("resulttype"), typmod)

    def collated(self, node: Node, shows_implicit: bool) -> str:
        sql = self.sql(node.node("arg"), shows_implicit=shows_implicit)
        return f"({sql} COLLATE {self.naming.collation(node.integer('collOid'))})"

    def case(self, node: Node, _: bool) -> str:
        argument, words = node.maybe_node("arg"), [self._line("CASE").removeprefix(" ")]
        self._indent += _STEP
        if argument is not None:
            words.append(f" {self.sql(argument, shows_implicit=True)}")
        for when in node.nodes("args"):
            condition = when.node("expr") if argument is None else _compared(when.node("expr"))
            result = self.sql(when.node("result"), shows_implicit=True)
            words.append(self._line(f"WHEN {self.sql(condition)} THEN {result}"))
        default = node.maybe_node("defresult")
        if default is not None:
            words.append(self._line(f"ELSE {self.sql(default, shows_implicit=True)}"))
        self._indent -= _STEP
        return "".join([*words, self._line("END")])

    def _line(self, words: str) -> str:
        """Write words of CASE after a blank, or in a line of their own (appendContextKeyword)."""
        if not self.breaks_lines:
            return f" {words}"
        blanks = self._indent
        if blanks >= _MOST_INDENT:
            blanks = (blanks - _MOST_INDENT) // _STEP % _MOST_INDENT
        return f"{_LINE}{' ' * blanks}{words}"

    def elements(self, node: Node, _: bool) -> str:
        elements = node.nodes("elements")
        label = "" if elements else f"::{self.naming.type(node.integer('array_typeid'))}"
        return f"ARRAY[{self.several(elements)}]{label}"

    def row(self, node: Node, _: bool) -> str:
        type, arguments = node.integer("row_typeid"), node.nodes("args")
        if type != _RECORD and any(attribute.is_dropped for attribute in self.naming.type_info(type).attributes):
            raise UnsupportedDefinitionError("an expression with a row that has dropped columns is not told in SQL")
        label = f"::{self.naming.type(type)}" if node.integer("row_format") == _EXPLICIT_CAST else ""
        return f"ROW({self.several(arguments)}){label}"

    def row_order(self, node: Node, _: bool) -> str:
        operators = node.numbers("opnos")
        if not operators:
            raise CatalogError(f"node {node.name} has no operators")
        operator = self.naming.operator(operators[0])
        return f"(ROW({self.several(node.nodes('largs'))}) {operator} ROW({self.several(node.nodes('rargs'))}))"

    def coalesce(self, node: Node, _: bool) -> str:
        return f"COALESCE({self.several(node.nodes('args'))})"

    def extreme(self, node: Node, _: bool) -> str:
        return f"{'LEAST' if node.integer('op') else 'GREATEST'}({self.several(node.nodes('args'))})"

    def sql_value(self, node: Node, _: bool) -> str:
        number = node.integer("op")
        if not 0 <= number < len(_SQL_VALUES):
            raise CatalogError(f"unknown value function {number}")
        precision = f"({node.integer('typmod')})" if number in _WITH_PRECISION else ""
        return f"{_SQL_VALUES[number]}{precision}"

    def null_test(self, node: Node, _: bool) -> str:
        argument, is_null = node.node("arg"), node.integer("nulltesttype") == 0
        sql = self.sql(argument, shows_implicit=True)
        type = result_type(argument)
        if node.boolean("argisrow") or not type or not self._is_row(type):
            return f"({sql} IS {'NULL' if is_null else 'NOT NULL'})"
        return f"({sql} IS {'NOT ' if is_null else ''}DISTINCT FROM NULL)"

    def _is_row(self, type: int) -> bool:
        info = self.naming.type_info(type)
        return type == _RECORD or (info.base or info).typtype == "c"

    def boolean_test(self, node: Node, _: bool) -> str:
        number = node.integer("booltesttype")
        if not 0 <= number < len(_BOOLEAN_TESTS):
            raise CatalogError(f"unknown test of a boolean {number}")
        return f"({self.sql(node.node('arg'))} IS {_BOOLEAN_TESTS[number]})"

    def domain_value(self, _node: Node, _: bool) -> str:
        return "VALUE"

    def next_value(self, node: Node, _: bool) -> str:
        return f"nextval({literal(self.naming.relation(node.integer('seqid')))})"

    def subscripts(self, node: Node, shows_implicit: bool) -> str:
        if node.maybe_node("refassgnexpr") is not None:
            raise UnsupportedDefinitionError("an assignment to an element is not told in SQL")
        container = node.node("refexpr")
        sql = self.sql(container, shows_implicit=shows_implicit)
        sql = sql if container.name in ("VAR", "FIELDSELECT") else f"({sql})"
        upper, lower = node["refupperindexpr"], node["reflowerindexpr"]
        lowers = lower if isinstance(lower, tuple) else ()
        for number, bound in enumerate(upper if isinstance(upper, tuple) else ()):
            first = f"{self._bound(lowers[number])}:" if number < len(lowers) else ""
            sql += f"[{first}{self._bound(bound)}]"
        return sql

    def _bound(self, bound: object) -> str:
        return self.sql(bound) if isinstance(bound, Node) else ""

    def field(self, node: Node, _: bool) -> str:
        argument, number = node.node("arg"), node.integer("fieldnum")
        info = self.naming.type_info(result_type(argument))
        names = {column.number: column.name for column in (info.base or info).attributes}
        if number not in names:
            raise UnsupportedDefinitionError("a field of a row whose type is not known is not told in SQL")
        sql = self.sql(argument, shows_implicit=True)
        sql = sql if argument.name in ("SUBSCRIPTINGREF", "FIELDSELECT") else f"({sql})"
        return f"{sql}.{self.naming.quoted(names[number])}"

    # -- functions with a syntax of their own in SQL

    def word(self, node: Node) -> str:
        """Return a constant that stands as a word."""
        return constant(node, self.naming, Label.NEVER)[1:-1]

    def at_time_zone(self, _name: str, arguments: Sequence[Node]) -> str:
        if len(arguments) == 1:
            return f"({self.sql(arguments[0])} AT LOCAL)"
        return f"({self.sql(arguments[1])} AT TIME ZONE {self.sql(arguments[0])})"

    def overlaps(self, _name: str, arguments: Sequence[Node]) -> str:
        a, b, c, d = map(self.sql, arguments)
        return f"(({a}, {b}) OVERLAPS ({c}, {d}))"

    def extract(self, _name: str, arguments: Sequence[Node]) -> str:
        return f"EXTRACT({self.naming.quoted(self.word(arguments[0]))} FROM {self.sql(arguments[1])})"

    def is_normalized(self, _name: str, arguments: Sequence[Node]) -> str:
        form = f" {self.word(arguments[1])}" if len(arguments) == 2 else ""
        return f"({self.sql(arguments[0])} IS{form} NORMALIZED)"

    def collation_for(self, _name: str, arguments: Sequence[Node]) -> str:
        return f"COLLATION FOR ({self.sql(arguments[0])})"

    def normalize(self, _name: str, arguments: Sequence[Node]) -> str:
        form = f", {self.word(arguments[1])}" if len(arguments) == 2 else ""
        return f"NORMALIZE({self.sql(arguments[0])}{form})"

    def overlay(self, _name: str, arguments: Sequence[Node]) -> str:
        written = [self.sql(argument) for argument in arguments]
        end = f" FOR {written[3]}" if len(written) == 4 else ""
        return f"OVERLAY({written[0]} PLACING {written[1]} FROM {written[2]}{end})"

    def position(self, _name: str, arguments: Sequence[Node]) -> str:
        return f"POSITION(({self.sql(arguments[1])}) IN ({self.sql(arguments[0])}))"

    def substring(self, _name: str, arguments: Sequence[Node]) -> str | None:
        written = [self.sql(argument) for argument in arguments]
        if result_type(arguments[1]) != _INT4:
            return None if len(written) == 2 else f"SUBSTRING({written[0]} SIMILAR {written[1]} ESCAPE {written[2]})"
        end = f" FOR {written[2]}" if len(written) == 3 else ""
        return f"SUBSTRING({written[0]} FROM {written[1]}{end})"

    def trim(self, name: str, arguments: Sequence[Node]) -> str:
        side = {"b": "BOTH", "l": "LEADING", "r": "TRAILING"}[name[0]]
        characters = f" {self.sql(arguments[1])}" if len(arguments) == 2 else ""
        return f"TRIM({side}{characters} FROM {self.sql(arguments[0])})"

    def xml_exists(self, _name: str, arguments: Sequence[Node]) -> str:
        return f"XMLEXISTS(({self.sql(arguments[0])}) PASSING ({self.sql(arguments[1])}))"

    def system_user(self, _name: str, _arguments: Sequence[Node]) -> str:
        return "SYSTEM_USER"


def _length_coercion(arguments: Sequence[Node]) -> int:
    """Return the typmod that is an argument of a cast function, -1 for none (exprIsLengthCoercion)."""
    if not 2 <= len(arguments) <= 3 or arguments[1].name != "CONST":
        return -1
    typmod = arguments[1]
    if typmod.integer("consttype") != _INT4 or typmod.boolean("constisnull"):
        return -1
    datum = typmod["constvalue"]
    data = getattr(datum, "data", b"")
    return int.from_bytes(data[:4], "little", signed=True)


def _compared(condition: Node) -> Node:
    """Return what the argument of CASE is compared with: the right side of the operator that the parser has made."""
    if condition.name != "OPEXPR":
        return condition
    arguments = condition.nodes("args")
    if len(arguments) == 2 and _bare(arguments[0]).name == "CASETESTEXPR":
        return arguments[1]
    return condition


def _bare(node: Node) -> Node:
    """Strip the implicit casts around a node (strip_implicit_coercions)."""
    if node.name == "FUNCEXPR" and node.integer("funcformat") == _IMPLICIT_CAST and node.nodes("args"):
        return _bare(node.nodes("args")[0])
    is_cast = node.name in ("RELABELTYPE", "COERCEVIAIO", "ARRAYCOERCEEXPR", "CONVERTROWTYPEEXPR", "COERCETODOMAIN")
    if is_cast and any(name.endswith("format") and value == str(_IMPLICIT_CAST) for name, value in node.fields):
        return _bare(node.node("arg"))
    return node


_NODES: dict[str, Callable[[Deparser, Node, bool], str]] = {
    "VAR": Deparser.variable,
    "CONST": Deparser.constant,
    "FUNCEXPR": Deparser.call,
    "NAMEDARGEXPR": Deparser.named_argument,
    "OPEXPR": Deparser.operation,
    "DISTINCTEXPR": Deparser.distinct,
    "NULLIFEXPR": Deparser.null_if,
    "SCALARARRAYOPEXPR": Deparser.any_or_all,
    "BOOLEXPR": Deparser.boolean,
    "RELABELTYPE": Deparser.coercion,
    "COERCEVIAIO": Deparser.coercion,
    "ARRAYCOERCEEXPR": Deparser.coercion,
    "CONVERTROWTYPEEXPR": Deparser.coercion,
    "COERCETODOMAIN": Deparser.coercion,
    "COERCETODOMAINVALUE": Deparser.domain_value,
    "COLLATEEXPR": Deparser.collated,
    "CASEEXPR": Deparser.case,
    "ARRAYEXPR": Deparser.elements,
    "ROWEXPR": Deparser.row,
    "ROWCOMPAREEXPR": Deparser.row_order,
    "COALESCEEXPR": Deparser.coalesce,
    "MINMAXEXPR": Deparser.extreme,
    "SQLVALUEFUNCTION": Deparser.sql_value,
    "NULLTEST": Deparser.null_test,
    "BOOLEANTEST": Deparser.boolean_test,
    "NEXTVALUEEXPR": Deparser.next_value,
    "SUBSCRIPTINGREF": Deparser.subscripts,
    "FIELDSELECT": Deparser.field,
}
"""The methods for nodes, by the names that ``outfuncs.c`` writes."""

_SYNTAX: dict[str, tuple[tuple[int, ...], Callable[[Deparser, str, Sequence[Node]], str | None]]] = {
    "timezone": ((1, 2), Deparser.at_time_zone),
    "overlaps": ((4,), Deparser.overlaps),
    "extract": ((2,), Deparser.extract),
    "is_normalized": ((1, 2), Deparser.is_normalized),
    "pg_collation_for": ((1,), Deparser.collation_for),
    "normalize": ((1, 2), Deparser.normalize),
    "overlay": ((3, 4), Deparser.overlay),
    "position": ((2,), Deparser.position),
    "substring": ((2, 3), Deparser.substring),
    "btrim": ((1, 2), Deparser.trim),
    "ltrim": ((1, 2), Deparser.trim),
    "rtrim": ((1, 2), Deparser.trim),
    "system_user": ((0,), Deparser.system_user),
    "xmlexists": ((2,), Deparser.xml_exists),
}
"""The methods for functions that the grammar calls, by name, with their possible numbers of arguments.

Where a method returns None, the function is written as any other call."""
