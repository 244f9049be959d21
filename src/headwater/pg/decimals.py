"""Numbers in files and options, of which a hostile one may have more digits than Python converts."""

from __future__ import annotations

_MOST_DIGITS = 40


def decimal(text: str) -> int:
    """Read a whole number from decimal digits with an optional sign.

    A number of more than 40 digits becomes some other one as large. The caller has bounds that are smaller by far.

    Raises:
        ValueError: the text is no such number.
    """
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(text[:_MOST_DIGITS])
    digits = digits.lstrip("0")
    return int(f"{sign}{digits[:_MOST_DIGITS] or '0'}")
