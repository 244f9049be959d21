"""The way the locale lc_monetary writes an amount, as strings around and between its digits.

PostgreSQL: ``cash.c`` (cash_out), ``pg_locale.c`` (PGLC_localeconv). "C" and "POSIX" are known here; any other locale
is the machine's own, asked for in a process of its own, as a process has but one locale at a time. It may be of another
release than the server's: like time zones, this is a place where output can differ for no fault of the WAL.

Known gap: ``lc_monetary = ''``, the locale of the server's environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headwater.errors import UsageError
from headwater.option_names import option, ways
from headwater.pg.encodings import SQL_ASCII, encode_text

_UNSET = 127  # CHAR_MAX: the locale does not say
_SECONDS = 60
_ASK = """
import json, locale, sys
try:
    for category in (locale.LC_CTYPE, locale.LC_MONETARY):
        locale.setlocale(category, sys.argv[1])
except locale.Error:
    sys.exit(3)
print(json.dumps({**locale.localeconv(), "codeset": locale.nl_langinfo(locale.CODESET)}))
"""


@dataclass(frozen=True)
class MoneyFormat:
    """The way amounts are written.

    Attributes:
        decimals: digits after the decimal point, 0 to 10.
        group: digits between two separators, 1 to 6.
        pieces: bytes before and after an amount, before and after one below zero, the decimal point, the separator: in
            the order of ``MONEY_*`` of ``_text_codes``.
    """

    decimals: int
    group: int
    pieces: tuple[bytes, ...]


_OTHER_LOCALE = f"print by another one: {option('set', 'lc_monetary=C')}"


@lru_cache(maxsize=16)
def money_format(name: str, encoding: str) -> MoneyFormat:
    """Return the format that lc_monetary of this name means in a database of this encoding.

    Raises:
        UsageError: the machine does not have the locale, or its signs have no form in the encoding.
    """
    conventions = {} if name in ("C", "POSIX") else _ask(name)
    codeset = str(conventions.get("codeset", "ascii"))

    def encoded(text: str) -> bytes:
        try:
            return text.encode(codeset) if encoding == SQL_ASCII else encode_text(text, encoding)
        except (UnicodeEncodeError, LookupError):
            raise UsageError(
                f'the locale "{name}" of lc_monetary has signs that encoding {encoding} does not have',
                hint=ways(_OTHER_LOCALE),
            ) from None

    return format_of(conventions, encoded)


def _ask(name: str) -> dict[str, Any]:
    """Ask for the machine's conventions of a locale."""
    if name and "\0" not in name:
        command = [sys.executable, "-I", "-X", "utf8=0", "-c", _ASK, name]
        try:
            finished = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f'the locale "{name}" of lc_monetary could not be looked up: {error}') from None
        if finished.returncode == 0:
            return dict(json.loads(finished.stdout))
    raise UsageError(
        f'amounts of type money are printed by the locale "{name}" of lc_monetary, which this machine does not have',
        hint=ways("install it (locale -a lists those there are)", _OTHER_LOCALE),
    )


def format_of(conventions: Mapping[str, Any], encoded: Callable[[str], bytes]) -> MoneyFormat:
    """Make the choices that cash_out makes.

    Args:
        conventions: as ``locale.localeconv`` names them; missing ones are unset.
        encoded: gives text as it is in the database.
    """
    decimals = conventions.get("frac_digits", _UNSET)
    group = next(iter(conventions.get("mon_grouping", ())), 0)
    point = encoded(conventions.get("mon_decimal_point", ""))
    point = point if len(point) == 1 else b"."
    separator = encoded(conventions.get("mon_thousands_sep", "")) or (b"," if point != b"," else b".")
    symbol = encoded(conventions.get("currency_symbol", "")) or b"$"
    plus, minus = encoded(conventions.get("positive_sign", "")), encoded(conventions.get("negative_sign", "")) or b"-"
    around = [
        _around(symbol, sign, *(int(conventions.get(f"{which}_{part}", _UNSET)) for part in _PLACES))
        for which, sign in (("p", plus), ("n", minus))
    ]
    return MoneyFormat(
        decimals=decimals if 0 <= decimals <= 10 else 2,
        group=group if 0 < group <= 6 else 3,
        pieces=(*around[0], *around[1], point, separator),
    )


_PLACES = ("sign_posn", "cs_precedes", "sep_by_space")


def _around(symbol: bytes, sign: bytes, sign_place: int, symbol_first: int, space: int) -> tuple[bytes, bytes]:
    """Return the text before and after the digits, by the fields of struct lconv."""
    by_symbol, by_sign = b" " if space == 1 else b"", b" " if space == 2 else b""
    if sign_place == 0:
        return (b"(" + symbol + by_symbol, b")") if symbol_first else (b"(", by_symbol + symbol + b")")
    if sign_place == 2:
        end = by_sign + sign
        return (symbol + by_symbol, end) if symbol_first else (b"", by_symbol + symbol + end)
    if sign_place == 3:
        with_sign = sign + by_sign + symbol
    elif sign_place == 4:
        with_sign = symbol + by_sign + sign
    elif symbol_first:
        with_sign = sign + by_sign + symbol
    else:
        return sign + by_sign, by_symbol + symbol
    return (with_sign + by_symbol, b"") if symbol_first else (b"", by_symbol + with_sign)
