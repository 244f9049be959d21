"""Identifiers as the server quotes them (PostgreSQL: ``utils/adt/ruleutils.c``, quote_all_identifiers off)."""

from __future__ import annotations

import re
from functools import cache

from headwater.pg.data_files import read_rows

MOST_NAME_BYTES = 63
"""NAMEDATALEN without its last byte."""

_SAFE = re.compile(r"[a-z_][a-z0-9_]*")


@cache
def keywords(major: int) -> frozenset[str]:
    """Read the words that are quoted although their letters are harmless.

    They are those of ``parser/kwlist.h`` whose category is not UNRESERVED_KEYWORD; ``tools/generate_keywords.py`` asks
    servers for them.
    """
    return frozenset(word for (word,) in read_rows("keywords.txt", major))


def cut_name(name: str) -> str:
    """Cut a name to the length that names can have, where a character ends (truncate_identifier)."""
    data = name.encode("utf-8", "surrogateescape")
    return name if len(data) <= MOST_NAME_BYTES else data[:MOST_NAME_BYTES].decode("utf-8", "ignore")


def folded_name(name: str) -> str:
    """Fold a name to lower case: of ASCII alone, as of encodings with several bytes (downcase_identifier)."""
    return "".join(char.lower() if char.isascii() else char for char in name)


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
