"""Constants of expressions in SQL (PostgreSQL: ``ruleutils.c``, get_const_expr)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from headwater.catalog.node_tree import Datum, Node
from headwater.definitions.naming import Naming
from headwater.errors import CatalogError, UnsupportedDefinitionError, UnsupportedTypeError
from headwater.pg.encodings import decode_name
from headwater.rows.tuples.print_value import value_text

_BOOL, _INT4, _UNKNOWN, _NUMERIC = 16, 23, 705, 1700

_NAMES: dict[int, Callable[[Naming, int], str]] = {
    24: Naming.function,
    2205: Naming.relation,
    2206: Naming.type,
    3734: Naming.configuration,
    3769: Naming.dictionary,
    4089: Naming.namespace,
    4191: Naming.collation,
}
"""The types whose values are OIDs that are printed as names: regproc, regclass, regtype and their kin."""

_UNNAMED = {2202: "regprocedure", 2203: "regoper", 2204: "regoperator", 4096: "regrole", 6490: "regdatabase"}


class Label(IntEnum):
    """A choice: does a constant have its type after it?"""

    NEVER = -1
    IF_NEEDED = 0


def literal(text: str) -> str:
    """Quote a string constant for a session with ``standard_conforming_strings`` on (simple_quote_literal)."""
    return "'" + text.replace("'", "''") + "'"


def constant(node: Node, naming: Naming, label: Label = Label.IF_NEEDED) -> str:
    """Return a CONST node in SQL.

    Args:
        node: the node.
        naming: the names of types and of objects that values refer to.
        label: whether the type is written.

    Raises:
        UnsupportedDefinitionError: the value cannot be printed.
        CatalogError: the node is malformed.
    """
    type, typmod = node.integer("consttype"), node.integer("consttypmod")
    if node.boolean("constisnull"):
        return "NULL" if label < 0 else f"NULL::{naming.type(type, typmod)}{_collation(node, naming)}"
    text = _text(node, naming)
    sql, needs_label = _quoted(type, text)
    if label < 0:
        return sql
    needs_label |= type == _NUMERIC and typmod >= 0
    return (f"{sql}::{naming.type(type, typmod)}" if needs_label else sql) + _collation(node, naming)


def _quoted(type: int, text: str) -> tuple[str, bool]:
    """Return a value as it is written in SQL, and whether its type must be written."""
    if type == _BOOL:
        return ("true" if text == "t" else "false"), False
    if type == _INT4:
        return (f"'{text}'", True) if text.startswith("-") else (text, False)
    if type == _NUMERIC:
        is_plain = text[:1].isdigit() and any(letter in text for letter in "eE.")
        return (text, False) if is_plain else (f"'{text}'", True)
    return literal(text), type != _UNKNOWN


def _text(node: Node, naming: Naming) -> str:
    type, datum = node.integer("consttype"), node["constvalue"]
    if not isinstance(datum, Datum):
        raise CatalogError("a constant has no datum")
    if type in _UNNAMED:
        raise UnsupportedDefinitionError(f"a constant of type {_UNNAMED[type]} is not told in SQL")
    if type in _NAMES:
        oid = int.from_bytes(datum.data[:4], "little")
        return _NAMES[type](naming, oid) if oid else "-"
    if type == _UNKNOWN:
        return decode_name(datum.data.partition(b"\0")[0], naming.view.encoding)
    try:
        return value_text(naming.type_info(type), datum.data, naming.session)
    except UnsupportedTypeError as error:
        raise UnsupportedDefinitionError(error.message) from None


def _collation(node: Node, naming: Naming) -> str:
    """Return COLLATE for a constant of another collation than its type's, else nothing."""
    collation = node.integer("constcollid")
    if not collation or collation == naming.row("pg_type", node.integer("consttype")).oid("typcollation"):
        return ""
    return f" COLLATE {naming.collation(collation)}"
