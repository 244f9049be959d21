"""The session settings that change how values are printed, as the server's decoding session would have them.

PostgreSQL: ``variable.c`` (check_timezone, check_datestyle), ``guc_tables.c``. Only what the kernels can print is
accepted; anything else is refused here, before any WAL is read, with the values that would do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import UsageError
from headwater.pg.encodings import encode_name
from headwater.rows.timezones import TimeZone, load_timezone

UNKNOWN_TYPES = ("error", "hex", "null")

_FIELDS = {
    "timezone": "timezone",
    "datestyle": "datestyle",
    "intervalstyle": "intervalstyle",
    "extra_float_digits": "extra_float_digits",
    "bytea_output": "bytea_output",
}
_IGNORED = frozenset({"client_encoding", "application_name"})
_ORDERS = {"ymd": "YMD", "dmy": "DMY", "mdy": "MDY", "us": "MDY", "european": "DMY", "noneuropean": "MDY"}


@dataclass(frozen=True)
class SessionSettings:
    r"""Settings of the session that prints values; frozen, hashable, goes to Spark tasks.

    Attributes:
        timezone: an IANA name, a POSIX specification, or a number of hours east of Greenwich.
        datestyle: ISO, any field order (the order changes input only).
        intervalstyle: postgres.
        extra_float_digits: 1 to 3 (shortest exact form).
        bytea_output: hex or escape.
        major: the server's major version, as some output functions changed.
        encoding: the database's, in which names and labels are printed.
        unknown_types: what becomes of values whose type has no text form here: error, hex (the bytes of the value as
            they are stored, detoasted, as ``\x...``) or null (NULL, with a warning).

    Raises:
        UsageError: a value that is wrong, or right for the server but not supported here.
    """

    timezone: str = "UTC"
    datestyle: str = "ISO, MDY"
    intervalstyle: str = "postgres"
    extra_float_digits: int = 1
    bytea_output: str = "hex"
    major: int = 18
    encoding: str = "UTF8"
    unknown_types: str = "error"

    def __post_init__(self) -> None:
        load_timezone(self.timezone)
        object.__setattr__(self, "datestyle", _datestyle(self.datestyle))
        object.__setattr__(self, "intervalstyle", _choice("IntervalStyle", self.intervalstyle, ("postgres",)))
        object.__setattr__(self, "bytea_output", _choice("bytea_output", self.bytea_output, ("hex", "escape")))
        object.__setattr__(self, "unknown_types", _choice("unknownTypes", self.unknown_types, UNKNOWN_TYPES))
        if not 1 <= self.extra_float_digits <= 3:
            raise UsageError(
                f'unsupported value for parameter "extra_float_digits": {self.extra_float_digits}',
                hint="supported values are 1, 2 and 3",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, str], major: int = 18, encoding: str = "UTF8") -> SessionSettings:
        """Settings by the server's names, in any case; other settings that do not change output are ignored.

        Raises:
            UsageError: an unknown setting or an unsupported value.
        """
        values: dict[str, str | int] = {}
        for name, value in settings.items():
            key = name.strip().lower()
            if key in _IGNORED:
                continue
            if key not in _FIELDS:
                raise UsageError(
                    f'unsupported setting "{name}"', hint=f"supported settings are {', '.join(sorted(_FIELDS))}"
                )
            values[_FIELDS[key]] = _integer(name, value) if key == "extra_float_digits" else value
        return cls(**values, major=major, encoding=encoding)  # type: ignore[arg-type]

    @property
    def is_utf8(self) -> bool:
        """Text of the database is what Arrow, Parquet and Spark take for text."""
        return self.encoding == "UTF8"

    def encoded(self, name: str) -> bytes:
        """A name or label as the database holds it."""
        return encode_name(name, self.encoding)

    @property
    def zone(self) -> TimeZone:
        """The transitions of the session's time zone."""
        return load_timezone(self.timezone)


def _integer(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(f'invalid value for parameter "{name}": "{value}", expected an integer') from None


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value.strip().lower() in choices:
        return value.strip().lower()
    raise UsageError(f'unsupported value for parameter "{name}": "{value}"', hint=f"supported: {', '.join(choices)}")


def _datestyle(value: str) -> str:
    """The canonical spelling of an ISO DateStyle (check_datestyle)."""
    order = "MDY"
    for word in re.split(r"[,\s]+", value.strip().lower()):
        if word in _ORDERS:
            order = _ORDERS[word]
        elif word not in ("iso", "default", ""):
            raise UsageError(
                f'unsupported value for parameter "DateStyle": "{value}"',
                hint="supported: ISO, with MDY, DMY or YMD",
            )
    return f"ISO, {order}"
