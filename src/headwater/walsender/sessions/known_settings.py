"""Settings that a server has of its own: which a client may change, what their values can be, and the refusals.

PostgreSQL: guc.c (set_config_with_handle, parse_and_validate_value), guc_tables.c. Known gaps: ranges of numbers, and
values that only a server's modules check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from headwater.errors import SessionError
from headwater.pg.data_files import read_rows
from headwater.pg.sqlstates import (
    CANNOT_CHANGE_PARAMETER,
    FEATURE_NOT_SUPPORTED,
    INVALID_NAME,
    INVALID_PARAMETER_VALUE,
    UNDEFINED_OBJECT,
)
from headwater.protocol.startup import parsed_bool

_FIXED = {
    "internal": "cannot be changed",
    "postmaster": "cannot be changed without restarting the server",
    "sighup": "cannot be changed now",
}
_WITHOUT_EFFECT = frozenset(
    (
        *("Autovacuum", "Connections and Authentication", "Developer Options", "Error Handling", "Lock Management"),
        *("Query Tuning", "Replication", "Reporting and Logging", "Resource Usage", "Statistics", "Vacuuming"),
        "Write-Ahead Log",
    )
)
"""Groups of settings on which nothing of what is answered depends."""

_HIDDEN = frozenset(("debug", "info", "fatal", "panic"))
"""Levels of messages that are taken, and not named among those that there are."""

_CUSTOM_PART = re.compile(r"[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*", re.ASCII)
_NUMBER = re.compile(r"\s*[-+]?(0[xX][0-9a-fA-F]|\d|\.\d)")


@dataclass(frozen=True)
class KnownSetting:
    """A setting.

    Attributes:
        name: in lower case.
        context: when it can be changed; kind: of its values; choices: of an enum.
        group: of the server's settings that it is in.
    """

    name: str
    context: str
    kind: str
    choices: tuple[str, ...]
    group: str


@cache
def known_settings(major: int) -> dict[str, KnownSetting]:
    """Read the settings that a major version has, by name."""
    rows = (tuple(word.replace("+", " ") for word in row) for row in read_rows("settings.txt", major))
    return {
        name: KnownSetting(name, context, kind, () if choices == "-" else tuple(choices.split(",")), group)
        for name, context, kind, choices, group in rows
    }


def unchangeable(name: str, major: int, is_session: bool) -> SessionError | None:
    """Return the refusal of a setting that no client can change; None for any other.

    Args:
        name: in the client's words; major: of the server.
        is_session: the session has begun.
    """
    known = known_settings(major).get(name.lower())
    if known is None:
        return None
    words = _FIXED.get(known.context)
    if words is None and is_session and known.context.endswith("backend"):
        words = "cannot be set after connection start"
    if words is None:
        return None
    return SessionError(f'parameter "{name}" {words}', sqlstate=CANNOT_CHANGE_PARAMETER)


def taken_value(name: str, value: str, major: int) -> str:
    """Return a setting's value as the server keeps it.

    Raises:
        SessionError: it can be no value of this setting.
    """
    known = known_settings(major).get(name)
    if known is None:
        return value
    if known.kind == "bool":
        flag = parsed_bool(value)
        if flag is None:
            raise SessionError(f'parameter "{name}" requires a Boolean value', sqlstate=INVALID_PARAMETER_VALUE)
        return "on" if flag else "off"
    if known.kind == "enum" and known.choices:
        return _choice(known, value)
    if known.kind in ("integer", "real") and _NUMBER.match(value) is None:
        raise _invalid(name, value)
    return value


def _choice(known: KnownSetting, value: str) -> str:
    word = value.lower()
    is_flag = parsed_bool(word) is not None and ("on" in known.choices or "off" in known.choices)
    if word not in known.choices and word not in _HIDDEN and not is_flag:
        refusal = _invalid(known.name, value)
        refusal.hint = f"Available values: {', '.join(known.choices)}."
        raise refusal
    return word


def _invalid(name: str, value: str) -> SessionError:
    return SessionError(f'invalid value for parameter "{name}": "{value}"', sqlstate=INVALID_PARAMETER_VALUE)


def check_without_effect(name: str, major: int) -> None:
    """Check that a setting that is not heeded here changes nothing of what is answered.

    Raises:
        SessionError: it does, or there is none of this name.
    """
    known = known_settings(major).get(name.lower())
    if known is None:
        raise unknown(name)
    if known.group not in _WITHOUT_EFFECT:
        raise SessionError(
            f'"{name}" is not heeded here',
            sqlstate=FEATURE_NOT_SUPPORTED,
            hint="What is sent may depend on it: leave it out, or ask the primary.",
        )


def unknown(name: str) -> SessionError:
    """Return the refusal of a name that no setting has, or can have."""
    parts = name.split(".")
    if len(parts) > 1 and not all(map(_CUSTOM_PART.fullmatch, parts)):
        return SessionError(
            f'invalid configuration parameter name "{name}"',
            sqlstate=INVALID_NAME,
            detail="Custom parameter names must be two or more simple identifiers separated by dots.",
        )
    return SessionError(f'unrecognized configuration parameter "{name}"', sqlstate=UNDEFINED_OBJECT)
