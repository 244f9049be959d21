"""Names in an SQL text that are longer than names can be, which the server cuts and says so.

The time is linear in the text.

PostgreSQL: scan.l, truncate_identifier (scansup.c). Known gap: ``U&""`` names, of which nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from headwater.pg.identifiers import cut_name, folded_name
from headwater.pg.sqlstates import NAME_TOO_LONG
from headwater.protocol.backend_messages import EncodeText, Report

_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+"
_TOKEN = re.compile(
    rf"""
      --[^\n\r]*+
    | (?P<comment>/\*)
    | [eE]'(?:[^'\\]|\\.|'')*+'?
    | [uU]&"(?:[^"]|"")*+"?
    | '(?:[^']|'')*+'?
    | "(?P<quoted>(?:[^"]|"")*+)"
    | \$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+)?)\$
    | (?P<word>{_WORD})
    | [0-9]++[A-Za-z0-9_.]*+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_OF_COMMENT = re.compile(r"/\*|\*/")


class LongName(NamedTuple):
    """A name that is cut: as it stands, and the position of its first character, from 1 on."""

    name: str
    position: int


def long_names(text: str) -> Iterator[LongName]:
    """Give the names of a text that are too long, in their order."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        at = match.end()
        name = _name(match)
        if name is not None and cut_name(name) != name:
            yield LongName(name, match.start() + 1)
        elif match.lastgroup == "comment":
            at = _after_comment(text, at)
        elif match.lastgroup == "tag":
            close = text.find(match[0], at)
            at = len(text) if close < 0 else close + len(match[0])


def _name(match: re.Match[str]) -> str | None:
    if match.lastgroup == "word":
        return folded_name(match["word"])
    return match["quoted"].replace('""', '"') if match.lastgroup == "quoted" else None


def _after_comment(text: str, at: int) -> int:
    """Return the place behind a comment, in which others may be."""
    depth = 1
    while depth:
        match = _OF_COMMENT.search(text, at)
        if match is None:
            return len(text)
        depth, at = depth + (1 if match[0] == "/*" else -1), match.end()
    return at


def cut_notice(name: str, encode: EncodeText) -> bytes:
    """Return the notice that a name is cut."""
    text = f'identifier "{name}" will be truncated to "{cut_name(name)}"'
    return Report("NOTICE", NAME_TOO_LONG, text).as_bytes(encode)
