"""Identifiers as the server quotes them (PostgreSQL: ``utils/adt/ruleutils.c``, quote_all_identifiers off)."""

from __future__ import annotations

import re

from headwater.pg.keywords import KEYWORDS

_SAFE = re.compile(r"[a-z_][a-z0-9_]*")


def quote_identifier(name: str, major: int) -> str:
    """The name, in double quotes unless it is lower case, plain and no reserved word of that major version."""
    if _SAFE.fullmatch(name) and name not in KEYWORDS[major]:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_qualified_identifier(namespace: str, name: str, major: int) -> str:
    """``namespace.name``, each quoted where it must be."""
    return f"{quote_identifier(namespace, major)}.{quote_identifier(name, major)}"


def quote_literal(text: bytes) -> bytes:
    """A string constant (quote_literal_cstr, ``utils/adt/quote.c``), in the text's own encoding."""
    prefix = b"E" if b"\\" in text else b""
    return prefix + b"'" + text.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
