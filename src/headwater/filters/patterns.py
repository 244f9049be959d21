"""``LIKE`` and ``ILIKE``.

A pattern that ends with a backslash is an error, but only if the comparison reaches its end: such patterns are matched
step by step, all others by a regular expression with the same meaning.

PostgreSQL: ``like.c``, ``like_match.c`` (MatchText, do_like_escape).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from headwater.errors import ExpressionError
from headwater.filters.functions import Context, each, needs_ascii_letters, register
from headwater.filters.texts import _LOWER, codec, needs_characters

_ESCAPE, _ANY, _ONE = "\\%_"


def _ends_in_escape(pattern: str) -> bool:
    return (len(pattern) - len(pattern.rstrip(_ESCAPE))) % 2 == 1


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    """Translate a pattern that does not end with an escape character to a regular expression."""
    pieces, at = [], 0
    while at < len(pattern):
        character = pattern[at]
        if character == _ESCAPE:
            at += 1
            pieces.append(re.escape(pattern[at]))
        elif character == _ANY:
            if not pieces or pieces[-1] != ".*":
                pieces.append(".*")
        else:
            pieces.append("." if character == _ONE else re.escape(character))
        at += 1
    return re.compile("".join(pieces), re.DOTALL)


def is_like(value: str, pattern: str) -> bool:
    """Tell whether a value is like a pattern.

    Raises:
        ExpressionError: the pattern ends with an escape character, and the value has characters left there.
    """
    if _ends_in_escape(pattern):
        return bool(_step_by_step(value, pattern))
    return _expression(pattern).fullmatch(value) is not None


def _step_by_step(value: str, pattern: str) -> bool | None:
    """Tell whether a value is like a pattern; None for a mismatch that no later start in the value can mend."""
    while value and pattern:
        if pattern[0] == _ANY:
            return _anywhere(value, pattern)
        if pattern[0] == _ESCAPE:
            pattern = pattern[1:]
            if not pattern:
                raise ExpressionError("LIKE pattern must not end with escape character")
            if pattern[0] != value[0]:
                return False
        elif pattern[0] != _ONE and pattern[0] != value[0]:
            return False
        value, pattern = value[1:], pattern[1:]
    if value:
        return False
    return True if not pattern.strip(_ANY) else None


def _anywhere(value: str, pattern: str) -> bool | None:
    """Match a pattern that begins with ``%``."""
    rest = pattern.lstrip(_ANY + _ONE)
    skipped = pattern[: len(pattern) - len(rest)].count(_ONE)
    if skipped > len(value):
        return None
    value = value[skipped:]
    if not rest:
        return True
    if rest == _ESCAPE:
        raise ExpressionError("LIKE pattern must not end with escape character")
    first = rest[1] if rest[0] == _ESCAPE else rest[0]
    for at, character in enumerate(value):
        if character == first:
            matched = _step_by_step(value[at:], rest)
            if matched is not False:
                return matched
    return None


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
