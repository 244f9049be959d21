"""Statements in which the service's own views are their rows, written out: so that somebody else can evaluate them.

In: a statement, as it was parsed, and the views. Out: its text, with a query of constants in the place of each view
that it reads. What it does with the rows is not looked at.

Known gaps: columns do not tell that they are the view's. Where a part of a WITH is called as a view, or a column is
named with a view's schema, the view is not found.

PostgreSQL: parse_relation.c (scanNameSpaceForRefname).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headwater.pg.version import Version
from headwater.rows.session import SessionSettings
from headwater.walsender.queries.functions import View
from headwater.walsender.queries.grammar import Node, ParsedStatement
from headwater.walsender.queries.value_types import Printing, ValueType

_WORDS = frozenset(("boolean", "bigint", "integer", "smallint", "real", "double precision", "interval"))
"""Types that are words of the language."""


@dataclass(frozen=True)
class ReadView:
    """A view where a statement reads it.

    Attributes:
        view: it; place: of its name, in bytes from the start of the query.
        has_alias: the statement calls it otherwise; is_qualified: its schema stands before it.
    """

    view: View
    place: int
    has_alias: bool
    is_qualified: bool


def views_read(parsed: ParsedStatement, view: Callable[[str], View | None]) -> list[ReadView]:
    """Find the views that a statement reads.

    Args:
        parsed: it; view: gives a view by its name, None if there is none.
    """
    nodes = list(_nodes({parsed.kind: parsed.node}))
    parts = {fields["ctename"] for kind, fields in nodes if kind == "CommonTableExpr"}
    reading = list[ReadView]()
    for kind, fields in nodes:
        name = fields["relname"] if kind == "RangeVar" else ""
        is_qualified = "schemaname" in fields
        known = view(name) if name and fields.get("schemaname", "pg_catalog") == "pg_catalog" else None
        if known is None or (name in parts and not is_qualified):
            continue
        reading.append(ReadView(known, int(fields.get("location", 0)), "alias" in fields, is_qualified))
    return reading


def with_rows(parsed: ParsedStatement, reading: list[ReadView], version: Version, *, has_rows: bool) -> str | None:
    """Return the text of a statement with the rows of the views that it reads; None if their places are not clear.

    Args:
        parsed: the statement; reading: its views; version: of the server that is stood for.
        has_rows: with the rows there are; else without any, for a look at its columns.
    """
    data = parsed.text.encode("utf-8", "surrogatepass")
    places = [read.place for read in reading]
    start = next((at for at in _found(parsed.query, data) if at <= min(places) and max(places) < at + len(data)), None)
    if start is None:
        return None
    for read in sorted(reading, key=lambda read: -read.place):
        at = read.place - start
        end = _end_of_name(data, at, read)
        if end is None:
            return None
        values = query_of(read.view, version, has_rows=has_rows)
        alias = "" if read.has_alias else f" AS {_quoted(read.view.name)}"
        data = data[:at] + f"({values}){alias}".encode("utf-8", "surrogatepass") + data[end:]
    return data.decode("utf-8", "surrogatepass")


def query_of(view: View, version: Version, *, has_rows: bool) -> str:
    """Return a query of constants that gives the rows of a view."""
    printing = Printing(version, SessionSettings())
    columns = [(column, _quoted(column.name)) for column in view.columns]
    nulls = ", ".join(f"{_constant(None, column.type, printing)} AS {name}" for column, name in columns)
    rows = list(view.rows()) if has_rows else []
    selects = [f"SELECT {nulls} WHERE false"]
    for row in rows:
        selects.append("SELECT " + ", ".join(_constant(row[c.name], c.type, printing) for c, _ in columns))
    return " UNION ALL ".join(selects)


def _constant(value: Any, type: ValueType, printing: Printing) -> str:
    name = type.name if type.name in _WORDS or " " in type.name else f"pg_catalog.{_type_name(type)}"
    if value is None:
        return f"NULL::{name}"
    text = type.write(value, printing).replace("\\", "\\\\").replace("'", "''")
    return f"E'{text}'::{name}"


def _type_name(type: ValueType) -> str:
    name = type.name.removesuffix("[]").strip('"')
    return _quoted(name) + type.name[len(type.name.removesuffix("[]")) :]


def _end_of_name(data: bytes, at: int, read: ReadView) -> int | None:
    """Return where a view's name ends; None if it is not written plainly."""
    name = read.view.name.encode()
    plain = (b"pg_catalog." if read.is_qualified else b"") + name
    return at + len(plain) if data[at : at + len(plain)].lower() == plain else None


def _found(query: bytes, part: bytes) -> Iterator[int]:
    at = query.find(part)
    while at >= 0:
        yield at
        at = query.find(part, at + 1)


def _nodes(value: Any) -> Iterator[tuple[str, Node]]:
    """Give all nodes of a tree, with their types."""
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        for kind, fields in value.items():
            if isinstance(fields, dict):
                yield kind, fields
            yield from _nodes(fields)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
