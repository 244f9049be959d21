"""SQL by PostgreSQL's own grammar: a text into statements, each with its tree of nodes.

In: the text of a query. Out: statements; a text that is none is refused in the words of the server's parser, with the
place. Trees are those of libpg_query: a node is a mapping with its type as its only key.

Invariant: a text is parsed in bounded depth. The library does not look at its stack when it writes trees down.
So longer texts than :data:`MOST_CHARACTERS`, which could nest deeper, are refused before it sees them.

PostgreSQL: raw_parser (parser.c), gram.y of 17. Known gap: what other majors' grammars have or lack beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pgparse

from headwater.errors import SessionError
from headwater.pg.encodings import UTF8, malformed_text
from headwater.pg.sqlstates import (
    CHARACTER_NOT_IN_REPERTOIRE,
    PROGRAM_LIMIT_EXCEEDED,
    STATEMENT_TOO_COMPLEX,
    SYNTAX_ERROR,
)

MOST_CHARACTERS = 16_000
"""Characters of a text that is parsed, at most."""

Node = dict[str, Any]


@dataclass(frozen=True)
class ParsedStatement:
    """A statement.

    Attributes:
        text: it, without a semicolon.
        kind: of its node, such as ``SelectStmt``; node: its fields. Locations in it are bytes of the whole query.
        query: the whole query that it is a part of, UTF-8.
    """

    text: str
    kind: str
    node: Node
    query: bytes = b""

    def character(self, position: int) -> int:
        """Return the number of a character, from 1 on, given that of its first byte."""
        return len(self.query[: position - 1].decode("utf-8", "replace")) + 1


def parse_statements(text: str) -> list[ParsedStatement]:
    """Split a text into statements and parse them; empty ones are left out.

    Raises:
        SessionError: the text is none of SQL, or too long or too deep to be parsed.
    """
    if len(text) > MOST_CHARACTERS:
        raise SessionError(
            f"a statement of {len(text)} characters is too long to be parsed",
            sqlstate=PROGRAM_LIMIT_EXCEEDED,
            detail=f"At most {MOST_CHARACTERS} characters are parsed.",
        )
    try:
        parsed = pgparse.parse(text)
    except pgparse.PGQueryError as error:
        raise _refused(error) from None
    except UnicodeEncodeError as error:
        shown = malformed_text(text[error.start :].encode("utf-8", "surrogateescape"), UTF8)
        raise SessionError(str(shown), sqlstate=CHARACTER_NOT_IN_REPERTOIRE) from None
    except RecursionError:
        raise SessionError("stack depth limit exceeded", sqlstate=STATEMENT_TOO_COMPLEX) from None
    data = text.encode("utf-8", "surrogatepass")
    return [_statement(data, raw) for raw in parsed]


def _refused(error: pgparse.PGQueryError) -> SessionError:
    message = str(error.message)
    is_deep = message.startswith("memory exhausted") or "stack depth" in message
    is_no_text = message.startswith("invalid byte sequence")
    state = STATEMENT_TOO_COMPLEX if is_deep else CHARACTER_NOT_IN_REPERTOIRE if is_no_text else SYNTAX_ERROR
    return SessionError(message, sqlstate=state, position=error.position)


def _statement(data: bytes, raw: Node) -> ParsedStatement:
    start, length = raw.get("stmt_location", 0), raw.get("stmt_len", 0)
    part = data[start : start + length] if length else data[start:]
    ((kind, node),) = raw["stmt"].items()
    return ParsedStatement(part.decode("utf-8", "surrogatepass").strip(), kind, node, data)


def kind_of(node: Node) -> tuple[str, Node]:
    """Return the type of a node and its fields."""
    ((kind, fields),) = node.items()
    return kind, fields


def position_of(fields: Node) -> int | None:
    """Return the position of a node: the number of its first byte in the query, from 1 on; None if it has none."""
    place = int(fields.get("location", -1))
    return None if place < 0 else place + 1


def names_of(nodes: list[Node]) -> list[str]:
    """Return the names in a list of String nodes."""
    return [str(node["String"]["sval"]) for node in nodes]


def constant(fields: Node) -> int | str | bool | None:
    """Return the value of an A_Const, a number with a point as its text; None for NULL."""
    for name, default in (("ival", 0), ("fval", ""), ("boolval", False), ("sval", "")):
        if name in fields:
            value: int | str | bool = fields[name].get(name, default)
            return value
    return None
