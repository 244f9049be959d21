"""The words of an SQL text, in one pass: blanks are left out, unquoted names folded, string constants decoded.

Invariants: the time is linear in the text. What is read otherwise than the server would is never given: such a text
has no tokens at all.

PostgreSQL: parser/scan.l, with standard_conforming_strings on. Known gaps, texts without tokens: comments, ``$$``
constants, ``E''`` constants with numbered characters, texts of more than :data:`MOST_CHARACTERS`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from headwater.pg.identifiers import cut_name

MOST_CHARACTERS = 1_000_000

_BLANK = r"[ \t\n\r\f\v]++"
_TOKEN = re.compile(
    r"""
      (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*+')
    | (?P<literal>'(?:[^']|'')*+')
    | (?P<quoted>"(?:[^"]|"")++")
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+)
    | (?P<number>[0-9]++)
    | (?P<sign>::|[-+*/<>=~!@\#%^&|`?]++|[][().,;:])
    | (?P<slot>\{\w+\ \w+\})
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(_BLANK)
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_FOLDED = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Kind(Enum):
    """The kinds of tokens; a slot stands in templates only."""

    WORD = "word"
    QUOTED = "quoted"
    LITERAL = "literal"
    NUMBER = "number"
    SIGN = "sign"
    SLOT = "slot"


class Token(NamedTuple):
    """A token.

    Attributes:
        kind: see :class:`Kind`.
        text: of a word the folded name, of a quoted name and of a string constant the content, else as it stands.
        start, end: where it stands in the text.
    """

    kind: Kind
    text: str
    start: int
    end: int


def tokens_of(text: str, *, with_slots: bool = False) -> tuple[Token, ...] | None:
    """Split an SQL text into tokens; None if it holds what is not read here.

    Args:
        text: the text.
        with_slots: whether it is a template, with ``{kind name}`` where values stand.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    tokens, at = [], _after_blanks(text, 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        token = None if match is None else _token(match)
        if token is None or (token.kind is Kind.SLOT and not with_slots):
            return None
        tokens.append(token)
        at = _after_blanks(text, token.end)
    return tuple(tokens)


def _after_blanks(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _token(match: re.Match[str]) -> Token | None:
    """Return the token of a match; None for a comment, or an escape that is not decoded."""
    kind, text = match.lastgroup or "", match[0]
    if kind == "escaped":
        content = _unescaped(text[2:-1])
        return None if content is None else Token(Kind.LITERAL, content, *match.span())
    if kind == "literal":
        text = text[1:-1].replace("''", "'")
    elif kind == "quoted":
        text = cut_name(text[1:-1].replace('""', '"'))
    elif kind == "word":
        text = cut_name(text.translate(_FOLDED))
    elif kind == "sign" and ("--" in text or "/*" in text):
        return None
    return Token(Kind(kind), text, *match.span())


def _unescaped(content: str) -> str | None:
    """Decode the content of an ``E''`` constant; None if it has characters by their numbers."""
    escapes = _ESCAPE.findall(content)
    if any(letter in "01234567xuU" for letter in escapes if letter):
        return None
    return _ESCAPE.sub(lambda match: "'" if match[1] is None else _CONTROLS.get(match[1], match[1]), content)
