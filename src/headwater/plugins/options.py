"""Values of plugin options as the server reads them.

PostgreSQL: ``utils/adt/bool.c`` (parse_bool), ``commands/define.c`` (defGetBoolean),
``commands/subscriptioncmds.c`` (defGetStreamingMode), ``utils/adt/varlena.c`` (SplitIdentifierString),
``parser/scansup.c``. The two ways to write a boolean differ: parse_bool takes prefixes and 0 or 1, defGetBoolean only
whole words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from headwater.errors import PluginError
from headwater.pg.decimals import decimal
from headwater.pg.sqlstates import SYNTAX_ERROR
from headwater.pg.version import VERSIONS

_WORDS = (
    ("true", True, 1),
    ("false", False, 1),
    ("yes", True, 1),
    ("no", False, 1),
    ("on", True, 2),
    ("off", False, 2),
)
_NUMBER = re.compile(
    r"[ \t\n\v\f\r]*(?P<sign>[+-]?)"
    r"(?:(?P<whole>0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)"
    r"|(?P<hex>0[xX][0-9a-fA-F]+\.[0-9a-fA-F]*(?:[pP][+-]?[0-9]+)?)"
    r"|(?P<real>(?:(?:0[0-7]*|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|(?:0[0-7]*|[1-9][0-9]*)[eE][+-]?[0-9]+))[ \t\n\v\f\r]*"
)
_SWITCHES = {"true": True, "on": True, "false": False, "off": False}

LONGEST_NAME = 63
"""Bytes of an identifier (NAMEDATALEN - 1)."""


def lower_ascii(text: str) -> str:
    """Lower case for A to Z only (pg_strcasecmp, downcase_identifier)."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def parse_bool(text: str) -> bool | None:
    """Parse a boolean by a prefix of a word (``o`` alone is too short) or 0 or 1; None if it is none."""
    value = lower_ascii(text)
    if value in ("0", "1"):
        return value == "1"
    for word, meaning, shortest in _WORDS:
        if len(value) >= shortest and word.startswith(value):
            return meaning
    return None


def parse_int32(text: str) -> int | None:
    """Parse an integer as settings are read (parse_int without units).

    It may be octal, hexadecimal, or a fraction to be rounded.

    Returns:
        the number; None if it is none, or does not fit into 32 bits.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    if match["whole"] is not None:
        digits = match["whole"].lower()
        base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
        value = decimal(digits) if base == 10 else int(digits, base)
    elif match["hex"] is not None:
        value = _rounded(lambda: float.fromhex(match["hex"]))
    else:
        value = _rounded(lambda: float(match["real"]))
    value *= sign
    return value if -(1 << 31) <= value < 1 << 31 else None


def _rounded(value: Callable[[], float]) -> int:
    """Round to the nearest integer, of two the even one (rint).

    What overflows becomes a number that is too large for any integer here.
    """
    try:
        return round(value())
    except OverflowError:
        return 1 << 40


def get_boolean(name: str, value: str | None) -> bool:
    """Parse a boolean as defGetBoolean reads a string; without a value it is true.

    Raises:
        PluginError: the value is none of true, false, on and off.
    """
    if value is None:
        return True
    switch = _SWITCHES.get(lower_ascii(value))
    if switch is None:
        raise PluginError(f"{name} requires a Boolean value", sqlstate=SYNTAX_ERROR)
    return switch


def get_streaming_mode(name: str, value: str | None) -> str:
    """Return ``off``, ``on`` or ``parallel`` (16 and newer).

    Raises:
        PluginError: the value is none of these.
    """
    if value is not None and lower_ascii(value) == "parallel":
        return "parallel"
    try:
        return "on" if get_boolean(name, value) else "off"
    except PluginError:
        raise PluginError(f'{name} requires a Boolean value or "parallel"', sqlstate=SYNTAX_ERROR) from None


def get_string(name: str, value: str | None) -> str:
    """Return the value itself.

    Raises:
        PluginError: there is none.
    """
    if value is None:
        raise PluginError(f"{name} requires a parameter", sqlstate=SYNTAX_ERROR)
    return value


def split_identifiers(text: str, major: int) -> list[str] | None:
    """Split names at commas; unquoted ones are folded to lower case, long ones cut to 63 bytes.

    Args:
        text: the list.
        major: from 16 on a vertical tab is white space.

    Returns:
        The names, or None for a syntax error.
    """
    space = " \t\n\r\v\f" if VERSIONS[major].splits_at_vertical_tab else " \t\n\r\f"
    text = text.strip(space)
    name = re.compile(rf'(?:"((?:[^"]|"")*)"|([^",{space}][^,{space}]*))[{space}]*(,[{space}]*|\Z)')
    names: list[str] = []
    at, more = 0, bool(text)
    while more:
        match = name.match(text, at)
        if match is None:
            return None
        quoted, plain = match[1], match[2]
        names.append(_truncated(lower_ascii(plain) if plain is not None else quoted.replace('""', '"')))
        at, more = match.end(), bool(match[3])
    return names


def _truncated(name: str) -> str:
    """Return at most 63 bytes, whole characters (truncate_identifier)."""
    return name.encode()[:LONGEST_NAME].decode(errors="ignore")
