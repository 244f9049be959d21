"""Shapes of queries: a text that differs from a template in blanks, case and quoting only, and in its values.

In: a template such as ``SELECT c.oid FROM pg_class c WHERE c.relname = {text name}``. Out: the values of a text of that
shape. A template is read once; a text is compared with it token by token, without going back.

Slots: ``{text x}`` is a string constant, ``{texts x}`` a list of them, ``{number x}`` digits. ``{leftouts x}`` stands
for any number of conditions ``AND NOT (N.nspname = 's' AND C.relname = 't')``. ``{triples x}`` is a list of rows such
as ``('s', 't', 0)``.

Known gap: a name is compared as it is written; ``pg_class`` and ``pg_catalog.pg_class`` differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from headwater.pg.version import Version
from headwater.walsender.sql.tokens import Kind, Token, tokens_of

Name = TypeVar("Name", bound=Enum)

_Taken = tuple[tuple[str, ...], int]
"""The values that a slot takes, and the number of the token after them."""

_LEFT_OUT = tokens_of("AND NOT (N.nspname = {text schema} AND C.relname = {text table})", with_slots=True) or ()
_TRIPLE = tokens_of("({text schema}, {text name}, {number n})", with_slots=True) or ()
_KEYWORDS = frozenset(
    {
        *("all", "and", "any", "array", "as", "by", "case", "distinct", "else", "end", "from", "in", "inner", "is"),
        *("join", "lateral", "left", "not", "null", "on", "or", "order", "select", "then", "true", "union"),
        *("values", "variadic", "when", "where"),
    }
)
"""Words that mean something else in quotes."""


@dataclass(frozen=True)
class Match:
    """The values of a text in the slots of its template, by name."""

    values: Mapping[str, tuple[str, ...]]

    def text(self, name: str) -> str:
        """Return the value of a slot of one text."""
        return self.values[name][0]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the values of a slot of several texts."""
        return self.values[name]

    def number(self, name: str) -> int:
        """Return the value of a slot of one number."""
        return int(self.values[name][0])


def _anywhere(_: Version) -> bool:
    return True


@dataclass(frozen=True)
class Shape(Generic[Name]):
    """A shape of queries.

    Attributes:
        name: what the query asks.
        template: its text, with slots.
        is_known: whether a server of a version would understand it.
    """

    name: Name
    template: str
    is_known: Callable[[Version], bool] = _anywhere
    tokens: tuple[Token, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tokens = tokens_of(self.template, with_slots=True)
        assert tokens is not None, self.template
        object.__setattr__(self, "tokens", tokens)

    def match(self, text: Sequence[Token]) -> Match | None:
        """Return the values of a query of this shape, given its tokens; None if it has another shape."""
        values = match_tokens(self.tokens, text, 0)
        return None if values is None or values[1] != len(text) else Match(values[0])


def without_end(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens of a query without the semicolons that end it."""
    end = len(tokens)
    while end and _is_sign(tokens[end - 1], ";"):
        end -= 1
    return tokens[:end]


def first_match(shapes: Iterable[Shape[Name]], tokens: Sequence[Token], version: Version) -> tuple[Name, Match] | None:
    """Return what a query asks and its values; None if no shape that the version knows is its own."""
    query = without_end(tokens)
    for shape in shapes:
        match = shape.match(query) if shape.is_known(version) else None
        if match is not None:
            return shape.name, match
    return None


def match_tokens(
    template: Sequence[Token], text: Sequence[Token], at: int
) -> tuple[dict[str, tuple[str, ...]], int] | None:
    """Compare a text, from a token on, with a template.

    Returns:
        the values, and the number of the token after the last one that was compared; None if the text differs.
    """
    values = {}
    for expected in template:
        if expected.kind is Kind.SLOT:
            kind, _, name = expected.text[1:-1].partition(" ")
            taken = _SLOTS[kind](text, at)
            if taken is None:
                return None
            values[name], at = taken
        elif at < len(text) and _is_same(expected, text[at]):
            at += 1
        else:
            return None
    return values, at


def _is_same(expected: Token, actual: Token) -> bool:
    if expected.text != actual.text:
        return False
    is_name = expected.kind is Kind.WORD and expected.text not in _KEYWORDS
    return expected.kind is actual.kind or (is_name and actual.kind is Kind.QUOTED)


def _is_sign(token: Token, sign: str) -> bool:
    return token.kind is Kind.SIGN and token.text == sign


def _of_kind(kind: Kind) -> Callable[[Sequence[Token], int], _Taken | None]:
    def take(text: Sequence[Token], at: int) -> _Taken | None:
        return ((text[at].text,), at + 1) if at < len(text) and text[at].kind is kind else None

    return take


def _texts(text: Sequence[Token], at: int) -> _Taken | None:
    """Take string constants with commas between them, at least one."""
    values = list[str]()
    while at < len(text) and text[at].kind is Kind.LITERAL:
        values.append(text[at].text)
        if at + 1 == len(text) or not _is_sign(text[at + 1], ","):
            return tuple(values), at + 1
        at += 2
    return None


def _left_outs(text: Sequence[Token], at: int) -> _Taken | None:
    """Take the conditions that leave tables out: schemas and tables in turn."""
    values = list[str]()
    while (pair := match_tokens(_LEFT_OUT, text, at)) is not None:
        values += [*pair[0]["schema"], *pair[0]["table"]]
        at = pair[1]
    return tuple(values), at


def _triples(text: Sequence[Token], at: int) -> _Taken | None:
    """Take rows of two string constants and a number, with commas between them, at least one."""
    values = list[str]()
    while (row := match_tokens(_TRIPLE, text, at)) is not None:
        values += [*row[0]["schema"], *row[0]["name"], *row[0]["n"]]
        at = row[1]
        if at == len(text) or not _is_sign(text[at], ","):
            return tuple(values), at
        at += 1
    return None


_SLOTS: dict[str, Callable[[Sequence[Token], int], _Taken | None]] = {
    "text": _of_kind(Kind.LITERAL),
    "number": _of_kind(Kind.NUMBER),
    "texts": _texts,
    "leftouts": _left_outs,
    "triples": _triples,
}
