"""Passwords prepared as the server prepares them before they are hashed (SASLprep, RFC 4013).

Bytes in, bytes out. What is no UTF-8, or holds what the profile prohibits, is hashed as it is: never an error.

PostgreSQL: saslprep.c (pg_saslprep). Its tables are those of Python's ``stringprep``, code point by code point. It
looks for what is prohibited before it normalizes, not after it as the RFC has it, and so does this.

Text is normalized by the Unicode version of this Python. It is the server's for all that is not prohibited, as that has
only the code points of Unicode 3.2.
"""

from __future__ import annotations

import stringprep
import unicodedata

_PROHIBITED = (
    *(stringprep.in_table_a1, stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3),
    *(stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7),
    *(stringprep.in_table_c8, stringprep.in_table_c9),
)
_is_right_to_left, _is_left_to_right = stringprep.in_table_d1, stringprep.in_table_d2


def prepared_password(password: bytes) -> bytes:
    """Return the bytes of a password that are hashed."""
    try:
        text = password.decode()
    except UnicodeDecodeError:
        return password
    mapped = "".join(map(_mapped, text))
    if not mapped or any(is_in(character) for character in mapped for is_in in _PROHIBITED) or not _is_bidi(mapped):
        return password
    return unicodedata.normalize("NFKC", mapped).encode()


def _mapped(character: str) -> str:
    """Map a character: spaces to the one of ASCII, what is not seen to nothing."""
    if stringprep.in_table_c12(character):
        return " "
    return "" if stringprep.in_table_b1(character) else character


def _is_bidi(text: str) -> bool:
    """Tell whether text from right to left, if there is any, is nothing else, and stands at both ends."""
    if not any(map(_is_right_to_left, text)):
        return True
    is_pure = not any(map(_is_left_to_right, text))
    return is_pure and _is_right_to_left(text[0]) and _is_right_to_left(text[-1])
