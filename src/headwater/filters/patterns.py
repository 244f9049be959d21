"""``LIKE`` and ``ILIKE``.

A pattern is split at ``%``. What stands between is of fixed length, and is looked for from left to right: the first
place where it is found is as good as any later one. So the time is bounded by the lengths of value and pattern.

A pattern that ends with a backslash is an error, but only if the comparison reaches its end.

PostgreSQL: ``like.c``, ``like_match.c`` (MatchText, do_like_escape).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from headwater.errors import ExpressionError
from headwater.filters.functions import Context, each, needs_ascii_letters, register
from headwater.filters.texts import _LOWER, codec, needs_characters

_ESCAPE, _ANY, _ONE = "\\%_"
_OPEN_END = "LIKE pattern must not end with escape character"


def _ends_in_escape(pattern: str) -> bool:
    return (len(pattern) - len(pattern.rstrip(_ESCAPE))) % 2 == 1


@dataclass(frozen=True)
class _Stretch:
    """A stretch of a pattern without ``%``.

    Attributes:
        characters: that it is like; None for any.
    """

    characters: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.characters)

    def find(self, value: str, start: int, end: int) -> int:
        """Return the first place from one on where the stretch stands before another; -1 for none."""
        if None not in self.characters:
            return value.find("".join(filter(None, self.characters)), start, end)
        match = self._expression.search(value, start, end)
        return -1 if match is None else match.start()

    def stands_at(self, value: str, at: int) -> bool:
        """Tell whether the stretch stands at a place."""
        return at >= 0 and self.find(value, at, at + len(self)) == at

    @property
    def _expression(self) -> re.Pattern[str]:
        pieces = ("." if character is None else re.escape(character) for character in self.characters)
        return re.compile("".join(pieces), re.DOTALL)


@lru_cache(maxsize=256)
def _stretches(pattern: str) -> tuple[_Stretch, ...]:
    """Split a pattern at ``%``; an escape character at its end counts for nothing."""
    return tuple(map(_Stretch, _split(pattern)))


def _split(pattern: str) -> Iterator[tuple[str | None, ...]]:
    characters, at = list[str | None](), 0
    while at < len(pattern):
        character = pattern[at]
        if character == _ANY:
            yield tuple(characters)
            characters = []
        elif character == _ESCAPE:
            at += 1
            characters += pattern[at : at + 1]
        else:
            characters.append(None if character == _ONE else character)
        at += 1
    yield tuple(characters)


def is_like(value: str, pattern: str) -> bool:
    """Tell whether a value is like a pattern.

    Raises:
        ExpressionError: the pattern ends with an escape character, and the value has characters left there.
    """
    first, *others = _stretches(pattern)
    if _ends_in_escape(pattern):
        _check_end(value, first, others)
        return False
    if not others:
        return len(value) == len(first) and first.stands_at(value, 0)
    last = others.pop()
    end = len(value) - len(last)
    if not first.stands_at(value, 0) or end < len(first) or not last.stands_at(value, end):
        return False
    return _behind(value, len(first), end, others) is not None


def _behind(value: str, start: int, end: int, stretches: list[_Stretch]) -> int | None:
    """Return the place behind stretches that stand in their order between two places; None if they do not."""
    for stretch in stretches:
        at = stretch.find(value, start, end)
        if at < 0:
            return None
        start = at + len(stretch)
    return start


def _check_end(value: str, first: _Stretch, others: list[_Stretch]) -> None:
    """Check that the end of a pattern, which is an escape character, is not reached.

    Raises:
        ExpressionError: it is: characters are left there, or a ``%`` before it was reached with some.
    """
    if not others:
        if len(value) > len(first) and first.stands_at(value, 0):
            raise ExpressionError(_OPEN_END)
        return
    last = others.pop()
    if not first.stands_at(value, 0):
        return
    at, is_there = len(first), len(first) < len(value)
    for stretch in others:
        behind = _behind(value, at, len(value), [stretch])
        if behind is None or not is_there:
            return
        # What is any character is passed over together with the % beside it.
        at, is_there = behind, is_there if set(stretch.characters) <= {None} else behind < len(value)
    is_any = set(last.characters) <= {None}
    left = len(value) - at - len(last)
    if is_there and (left >= 0 if is_any else last.find(value, at, len(value) - 1) >= 0):
        raise ExpressionError(_OPEN_END)


def _escaped(pattern: str, escape: str) -> str:
    """Rewrite a pattern with another escape character to one with backslashes (like_escape)."""
    if not escape:
        return pattern.replace("\\", "\\\\")
    if len(escape) > 1:
        raise ExpressionError("invalid escape string")
    if escape == _ESCAPE:
        return pattern
    pieces, is_escaped = [], False
    for character in pattern:
        if character == escape and not is_escaped:
            pieces.append(_ESCAPE)
            is_escaped = True
            continue
        pieces.append("\\\\" if character == _ESCAPE and not is_escaped else character)
        is_escaped = False
    return "".join(pieces)


def _like(wanted: bool, *, ignores_case: bool = False, is_bytes: bool = False) -> Callable[..., bool]:
    def compare(context: Context, value: bytes, pattern: bytes) -> bool:
        if ignores_case:
            context.require_ascii(value, pattern)
            value, pattern = value.translate(_LOWER), pattern.translate(_LOWER)
        name = "latin-1" if is_bytes else codec(context)
        return is_like(value.decode(name), pattern.decode(name)) == wanted

    return compare


def _escape(is_bytes: bool) -> Callable[[Context, bytes, bytes], bytes]:
    def escaped(context: Context, pattern: bytes, escape: bytes) -> bytes:
        name = "latin-1" if is_bytes else codec(context)
        return _escaped(pattern.decode(name), escape.decode(name)).encode(name)

    return escaped


def _needs_both(context: Context) -> None:
    needs_characters(context)
    needs_ascii_letters(context)


register(["textlike", "namelike"], each(_like(True)), needs_characters)
register(["textnlike", "namenlike"], each(_like(False)), needs_characters)
register(["texticlike", "nameiclike"], each(_like(True, ignores_case=True)), _needs_both)
register(["texticnlike", "nameicnlike"], each(_like(False, ignores_case=True)), _needs_both)
register("bytealike", each(_like(True, is_bytes=True)))
register("byteanlike", each(_like(False, is_bytes=True)))
register("like_escape", each(_escape(False)), needs_characters)
register("like_escape_bytea", each(_escape(True)))
