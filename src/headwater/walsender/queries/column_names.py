"""The names that columns of a result get where a query gives them none.

PostgreSQL: parser/parse_target.c (FigureColname).
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.walsender.queries.grammar import Node, kind_of, names_of

UNNAMED = "?column?"

_Named = tuple[str, int]
"""A name, and how good it is: 2 stands, 1 gives way to a better one, 0 is none."""

_NONE: _Named = ("", 0)


def column_name(node: Node, boolean_name: str = "") -> str:
    """Return the name of the column of an expression.

    Args:
        node: the expression; boolean_name: what a constant true or false is called, empty for nothing.
    """
    name, strength = _named(node)
    is_boolean = strength == 0 and "boolval" in node.get("A_Const", {})
    return name or (boolean_name if is_boolean else "") or UNNAMED


def _named(node: Node) -> _Named:
    kind, fields = kind_of(node)
    name = _NODES.get(kind)
    return _NONE if name is None else name(fields)


def _column(fields: Node) -> _Named:
    names = [part["String"]["sval"] for part in fields["fields"] if "String" in part]
    return (names[-1], 2) if names else _NONE


def _part(fields: Node) -> _Named:
    names = [part["String"]["sval"] for part in fields.get("indirection", []) if "String" in part]
    return (names[-1], 2) if names else _named(fields["arg"])


def _operator(fields: Node) -> _Named:
    return ("nullif", 2) if fields["kind"] == "AEXPR_NULLIF" else _NONE


def _cast(fields: Node) -> _Named:
    inner = _named(fields["arg"])
    return inner if inner[1] > 1 else (names_of(fields["typeName"]["names"])[-1], 1)


def _choice(fields: Node) -> _Named:
    last = _named(fields["defresult"]) if "defresult" in fields else _NONE
    return last if last[1] > 1 else ("case", 1)


def _session_value(fields: Node) -> _Named:
    return fields["op"].removeprefix("SVFOP_").removesuffix("_N").lower(), 2


_NODES: dict[str, Callable[[Node], _Named]] = {
    "ColumnRef": _column,
    "A_Indirection": _part,
    "FuncCall": lambda fields: (names_of(fields["funcname"])[-1], 2),
    "A_Expr": _operator,
    "TypeCast": _cast,
    "CollateClause": lambda fields: _named(fields["arg"]),
    "CaseExpr": _choice,
    "A_ArrayExpr": lambda _: ("array", 2),
    "CoalesceExpr": lambda _: ("coalesce", 2),
    "SQLValueFunction": _session_value,
    "SubLink": lambda fields: ("exists", 2) if fields["subLinkType"] == "EXISTS_SUBLINK" else _NONE,
}
