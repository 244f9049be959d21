"""Numbers that have no digits: NaN and the infinities, as the server compares, computes and sends them.

NaN is equal to itself and above all others, which Python's is not.

PostgreSQL: numeric.c (cmp_numerics, numeric_add_opt_error and its like, NUMERIC_NAN).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal, InvalidOperation, localcontext

from headwater.errors import SessionError
from headwater.pg.sqlstates import DIVISION_BY_ZERO


class _NotANumber(Decimal):
    """NaN; Python asks it first, on whichever side of a comparison it stands, as it is of a class of its own."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NotANumber)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, _NotANumber)

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return isinstance(other, _NotANumber)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, _NotANumber)

    def __ge__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("NaN")


NAN: Decimal = _NotANumber("NaN")

_WORDS = {
    "nan": NAN,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), Decimal("Infinity")),
    **dict.fromkeys(("-inf", "-infinity"), Decimal("-Infinity")),
}
_SIGNS = {"NaN": (0xC000, 0), "Infinity": (0xD000, 32), "-Infinity": (0xF000, 32)}
"""Signs and scales of the binary form: the server takes a bit of an infinity's header for a part of its scale."""


_OPERATORS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def read_special(text: str) -> Decimal | None:
    """Read a number that is a word; None for any other."""
    return _WORDS.get(text.strip(" \t\n\r\v\f").lower())


def special_sign(value: Decimal) -> tuple[int, int]:
    """Return the sign and the scale that the binary form of such a number has."""
    return _SIGNS[str(value)]


def special_of_sign(sign: int) -> Decimal | None:
    """Return the number that a sign of the binary form alone tells; None for that of a number with digits."""
    word = next((word for word, (special, _) in _SIGNS.items() if special == sign), None)
    return None if word is None else _WORDS[word.lower()]


def computed(name: str, left: Decimal, right: Decimal) -> Decimal:
    """Compute where an operand, at least, is such a number.

    Raises:
        SessionError: an infinity is divided by zero.
    """
    if left.is_nan() or right.is_nan():
        return NAN
    if name in ("/", "%") and right == 0:
        raise SessionError("division by zero", sqlstate=DIVISION_BY_ZERO)
    if name == "%":
        return NAN if left.is_infinite() else left
    if name == "/" and left.is_finite():
        return Decimal(0)
    with localcontext() as context:
        context.traps[InvalidOperation] = False
        value = _OPERATORS[name](left, right)
    return NAN if value.is_nan() else value
