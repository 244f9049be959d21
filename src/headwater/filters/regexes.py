"""Regular expressions: ``~``, ``~*``, ``!~``, ``!~*``, ``regexp_like``.

A pattern is translated to one of Python's that matches the same texts, as far as both mean the same: characters, ``.``,
brackets, alternatives, groups, quantifiers and anchors, escapes. A filter only asks if there is a match, so it does not
matter which one is found. All else is refused when the filter is compiled; so are patterns that are not constant.

PostgreSQL: ``regexp.c``, ``regex/regcomp.c``, ``regex/regc_lex.c`` (advanced regular expressions, without options).

Known gaps: back references, lookaround, embedded options, collating elements, letters beyond ASCII. Python matches by
backtracking: a pattern in which quantifiers nest can take it long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from headwater.errors import UnsupportedFilterError
from headwater.filters.functions import LIBC, Context, each, needs_ascii_letters, needs_plain_letters, register
from headwater.filters.texts import codec, needs_characters

_SPACE, _WORD = r" \t\n\v\f\r", "A-Za-z0-9_"
_SHORT = {"d": "0-9", "s": _SPACE, "w": _WORD}
_CLASSES = {
    "alpha": "A-Za-z",
    "digit": "0-9",
    "alnum": "A-Za-z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": _SPACE,
    "blank": r" \t",
    "xdigit": "0-9A-Fa-f",
    "punct": r"!-/:-@\[-`{-~",
    "word": _WORD,
}
_LITERAL = {"a": "\a", "b": "\b", "B": "\\", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CONSTRAINTS = {
    "A": r"\A",
    "Z": r"\Z",
    "m": f"(?<![{_WORD}])(?=[{_WORD}])",
    "M": f"(?<=[{_WORD}])(?![{_WORD}])",
    "y": rf"(?:(?<![{_WORD}])(?=[{_WORD}])|(?<=[{_WORD}])(?![{_WORD}]))",
}
_BOUND = re.compile(r"\{(\d{1,3})(,(\d{0,3}))?\}")
_MOST_REPEATS = 255


class _Refused(Exception):
    """An error of a pattern that is not translated; the text names the cause."""


class _Translator:
    """A translator that reads a pattern from left to right.

    `goes_by_letters` tells whether classes of characters occurred in it, `goes_by_signs` whether those of signs and
    blanks did: libc and ICU do not agree on these, not even in ASCII.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.goes_by_letters = False
        self.goes_by_signs = False
        self.can_repeat = False

    def translated(self) -> str:
        if self.pattern.startswith("***"):
            raise _Refused("a director")
        pieces = []
        while self.at < len(self.pattern):
            pieces.append(self._piece(self.pattern[self.at]))
        if self.depth:
            raise _Refused("parentheses that do not match")
        return "".join(pieces)

    def _piece(self, character: str) -> str:
        if character == "(":
            return self._open()
        if character == ")":
            return self._close()
        if character in "*+?" or (character == "{" and self._after(1).isdigit()):
            return self._quantifier(character)
        self.at += 1
        if character == "|":
            self.can_repeat = False
            return "|"
        if character in "^$":
            self.can_repeat = False
            return r"\A" if character == "^" else r"\Z"
        self.can_repeat = True
        if character == "[":
            return self._bracket()
        if character == "\\":
            return self._escape()
        return "." if character == "." else re.escape(character)

    def _after(self, count: int) -> str:
        return self.pattern[self.at + count : self.at + count + 1]

    def _open(self) -> str:
        is_plain = self._after(1) == "?"
        if is_plain and self._after(2) != ":":
            raise _Refused("lookaround or options")
        self.at += 3 if is_plain else 1
        self.depth += 1
        self.can_repeat = False
        return "(?:"

    def _close(self) -> str:
        if not self.depth:
            raise _Refused("parentheses that do not match")
        self.at += 1
        self.depth -= 1
        self.can_repeat = True
        return ")"

    def _quantifier(self, character: str) -> str:
        if not self.can_repeat:
            raise _Refused("a quantifier that follows nothing")
        quantifier = character
        if character == "{":
            match = _BOUND.match(self.pattern, self.at)
            if match is None:
                raise _Refused("malformed bounds")
            quantifier = match[0]
            low, high = int(match[1]), int(match[3] or match[1])
            if not low <= high <= _MOST_REPEATS:
                raise _Refused("bounds that are too large")
        self.at += len(quantifier)
        self.can_repeat = False
        if self._after(0) == "?":  # which of several matches is preferred does not matter
            self.at += 1
        return quantifier

    def _escape(self) -> str:
        character = self._after(0)
        self.at += 1
        if character and not character.isalnum() and character != "_":
            return re.escape(character)
        if character in _LITERAL and character:
            return re.escape(_LITERAL[character])
        if character.lower() in _SHORT and character:
            self._note(character.lower())
            return f"[{'^' if character.isupper() else ''}{_SHORT[character.lower()]}]"
        if character in _CONSTRAINTS and character:
            self.goes_by_letters |= character not in "AZ"
            self.can_repeat = False
            return _CONSTRAINTS[character]
        raise _Refused(f'the escape "\\{character}"')

    def _bracket(self) -> str:
        negates = self._after(0) == "^"
        self.at += negates
        pieces, is_first = [], True
        while is_first or self._after(0) != "]":
            is_first = False
            if self.pattern.startswith("[:", self.at):
                pieces.append(self._class())
            else:
                pieces.append(self._range())
        self.at += 1
        return f"[{'^' if negates else ''}{''.join(pieces)}]"

    def _class(self) -> str:
        end = self.pattern.find(":]", self.at)
        name = self.pattern[self.at + 2 : end]
        if end < 0 or name not in _CLASSES:
            raise _Refused("a class of characters that is not known")
        self.at = end + 2
        self._note(name)
        return _CLASSES[name]

    def _note(self, name: str) -> None:
        self.goes_by_letters = True
        self.goes_by_signs |= name in ("s", "space", "punct")

    def _range(self) -> str:
        low = self._member()
        if len(low) != 1 or self._after(0) != "-" or self._after(1) in ("]", ""):
            return _in_bracket(low) if len(low) == 1 else low
        self.at += 1
        high = self._member()
        if len(high) != 1 or high < low:
            raise _Refused("a range that is empty")
        return f"{_in_bracket(low)}-{_in_bracket(high)}"

    def _member(self) -> str:
        """Read a character of a bracket, or the translation of a class of characters."""
        character = self._after(0)
        if not character or self.pattern.startswith(("[.", "[=", "[:"), self.at):
            raise _Refused("a bracket that does not end, or a collating element")
        self.at += 1
        if character != "\\":
            return character
        escaped = self._after(0)
        self.at += 1
        if escaped and not escaped.isalnum() and escaped != "_":
            return escaped
        if escaped in _LITERAL and escaped:
            return _LITERAL[escaped]
        if escaped in _SHORT and escaped:
            self._note(escaped)
            return _SHORT[escaped]
        raise _Refused(f'the escape "\\{escaped}" in a bracket')


def _in_bracket(character: str) -> str:
    return f"\\{character}" if character in "\\]^-[&~|" else character


@lru_cache(maxsize=256)
def _translation(pattern: str) -> tuple[str, bool, bool]:
    """Translate a pattern to Python's; tell if it goes by classes of characters, and by those of signs and blanks."""
    translator = _Translator(pattern)
    return translator.translated(), translator.goes_by_letters, translator.goes_by_signs


@lru_cache(maxsize=256)
def _compiled(pattern: str, ignores_case: bool) -> re.Pattern[str]:
    flags = re.DOTALL | re.ASCII | (re.IGNORECASE if ignores_case else 0)
    return re.compile(_translation(pattern)[0], flags)


def _needs_known_pattern(ignores_case: bool) -> Callable[[Context], None]:
    def check(context: Context) -> None:
        needs_characters(context)
        payload = context.constants[1]
        what = f"{context.function.signature} (OID {context.function.oid})"
        if payload is None:
            raise UnsupportedFilterError(f"{what} with a pattern that is no constant is not supported")
        pattern = payload.decode(codec(context))
        try:
            _, goes_by_letters, goes_by_signs = _translation(pattern)
            _compiled(pattern, ignores_case)
        except _Refused as reason:
            raise UnsupportedFilterError(f'{what} with the pattern "{pattern}" is not supported: {reason}') from None
        except (re.error, OverflowError) as error:
            raise UnsupportedFilterError(f'{what} with the pattern "{pattern}" is not supported: {error}') from None
        if goes_by_letters or ignores_case:
            needs_ascii_letters(context)
        if goes_by_signs and context.settings.provider != LIBC:
            needs_plain_letters(context)

    return check


def _matches(wanted: bool, ignores_case: bool) -> Callable[[Context, bytes, bytes], bool]:
    def matches(context: Context, value: bytes, pattern: bytes) -> bool:
        name = codec(context)
        if ignores_case:
            context.require_ascii(pattern, value)
        elif _translation(pattern.decode(name))[1]:
            context.require_ascii(value)
        return (_compiled(pattern.decode(name), ignores_case).search(value.decode(name)) is not None) == wanted

    return matches


for _names, _wanted, _ignores_case in (
    (("textregexeq", "nameregexeq", "regexp_like_no_flags"), True, False),
    (("textregexne", "nameregexne"), False, False),
    (("texticregexeq", "nameicregexeq"), True, True),
    (("texticregexne", "nameicregexne"), False, True),
):
    register(_names, each(_matches(_wanted, _ignores_case)), _needs_known_pattern(_ignores_case))
