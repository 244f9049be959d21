"""Identifiers as the server quotes them (PostgreSQL: ``utils/adt/ruleutils.c``, quote_all_identifiers off)."""

from __future__ import annotations

import re
from functools import cache

from headwater.pg.data_files import read_rows

_SAFE = re.compile(r"[a-z_][a-z0-9_]*")


@cache
def keywords(major: int) -> frozenset[str]:
    """Read the words that are quoted although their letters are harmless.

    They are those of ``parser/kwlist.h`` whose category is not UNRESERVED_KEYWORD; ``tools/generate_keywords.py`` asks
    servers for them.
    """
    return frozenset(word for (word,) in read_rows("keywords.txt", major))


def quote_identifier(name: str, major: int) -> str:
    """Put the name in double quotes unless it is lower case, plain and no reserved word of that major version."""
    if _SAFE.fullmatch(name) and name not in keywords(major):
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_qualified_identifier(namespace: str, name: str, major: int) -> str:
    """Write ``namespace.name``, each part quoted where it must be."""
    return f"{quote_identifier(namespace, major)}.{quote_identifier(name, major)}"


def quote_literal(text: bytes) -> bytes:
    """Write a string constant (quote_literal_cstr, ``utils/adt/quote.c``), in the text's own encoding."""
    prefix = b"E" if b"\\" in text else b""
    return prefix + b"'" + text.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
