"""The session settings that change what is decoded and how values are printed, as the server's session would have them.

PostgreSQL: ``variable.c`` (check_timezone, check_datestyle), ``guc_tables.c``. Every value that the server has is
accepted; anything else is refused here, before any WAL is read, with the values that would do. Only whether there is a
locale of lc_monetary's name is asked where an amount of money is to be printed.

Known gap: the value ``DEFAULT`` as part of a DateStyle means ISO and MDY, not what the server was configured with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from headwater.catalog.search_path import DEFAULT_SEARCH_PATH, SearchPath
from headwater.errors import UsageError
from headwater.option_names import option, ways
from headwater.pg.encodings import (
    CLIENT_ENCODINGS,
    MULE_INTERNAL,
    SQL_ASCII,
    UTF8,
    can_send,
    encode_name,
    find_encoding,
)
from headwater.pg.version import VERSIONS, Version, version_named
from headwater.rows._text_codes import (
    DATES_GERMAN,
    DATES_ISO,
    DATES_POSTGRES,
    DATES_SQL,
    INTERVALS_ISO,
    INTERVALS_POSTGRES,
    INTERVALS_SQL,
    INTERVALS_VERBOSE,
)
from headwater.rows.decoding_settings import WORK_MEM, debug_streaming, work_mem
from headwater.rows.money_format import MoneyFormat, money_format
from headwater.rows.timezones import TimeZone, load_timezone

UNKNOWN_TYPES = ("error", "hex", "null")

SERVER_VERSION = "server_version"
"""The setting that names the server's release, its minor too."""

_FIELDS = {
    "timezone": "timezone",
    "datestyle": "datestyle",
    "intervalstyle": "intervalstyle",
    "extra_float_digits": "extra_float_digits",
    "bytea_output": "bytea_output",
    "lc_monetary": "lc_monetary",
    "client_encoding": "client_encoding",
    "search_path": "search_path",
    "logical_decoding_work_mem": "logical_decoding_work_mem",
    "debug_logical_replication_streaming": "debug_logical_replication_streaming",
    SERVER_VERSION: "server_version",
}
_IGNORED = frozenset({"application_name"})
DATE_STYLES = {"ISO": DATES_ISO, "SQL": DATES_SQL, "Postgres": DATES_POSTGRES, "German": DATES_GERMAN}
INTERVAL_STYLES = {
    "postgres": INTERVALS_POSTGRES,
    "postgres_verbose": INTERVALS_VERBOSE,
    "sql_standard": INTERVALS_SQL,
    "iso_8601": INTERVALS_ISO,
}
FLOAT_DIGITS = range(-15, 4)
"""Values that extra_float_digits may have."""

# Words of a DateStyle, those of the server's that it knows by their beginning as well.
_WORDS = re.compile(
    r"(?P<ISO>iso)|(?P<SQL>sql)|(?P<Postgres>postgres.*)|(?P<German>german)"
    r"|(?P<YMD>ymd)|(?P<DMY>dmy|euro.*)|(?P<MDY>mdy|us|noneuro.*)|(?P<DEFAULT>default)"
)


@dataclass(frozen=True)
class SessionSettings:
    r"""Settings of the session that prints values; frozen, hashable, goes to Spark tasks.

    Attributes:
        timezone: an IANA name, a POSIX specification, a number of hours east of Greenwich, or ``INTERVAL '-08:30'``.
        datestyle: ISO, SQL, Postgres or German, and the order of fields: MDY, DMY or YMD. Parts that are left out are
            ISO and MDY, with German DMY.
        intervalstyle: postgres, postgres_verbose, sql_standard or iso_8601.
        extra_float_digits: 1 to 3 (shortest exact form), or -15 to 0 (so many digits less than 6 or 15).
        bytea_output: hex or escape.
        lc_monetary: the locale that amounts of money are printed by.
        major: the server's major version, as some output functions changed.
        server_version: the same with its minor release, such as ``15.20``; empty for the newest that is known.
        encoding: the database's, in which names and labels are printed.
        client_encoding: the one that the client asks for; by default UTF8, whatever the database has.
        text_encoding: the encoding that the text of a database in SQL_ASCII, which knows none, is taken to be in; empty
            for the client's.
        search_path: the schemas whose types and other objects are printed without them; ``$user`` in it is none.
        logical_decoding_work_mem: with more in memory, transactions in progress are streamed to a plugin that wants so;
            a number of kilobytes, or of another unit.
        debug_logical_replication_streaming: ``immediate``: with anything in memory (16 and newer).
        unknown_types: the treatment of values whose type has no text form here: error, hex (the bytes of the value as
            they are stored, detoasted, as ``\x...``) or null (NULL, with a warning).

    Raises:
        UsageError: a value that is wrong.
    """

    timezone: str = "UTC"
    datestyle: str = "ISO, MDY"
    intervalstyle: str = "postgres"
    extra_float_digits: int = 1
    bytea_output: str = "hex"
    lc_monetary: str = "C"
    major: int = 18
    encoding: str = UTF8
    client_encoding: str = UTF8
    text_encoding: str = ""
    search_path: str = str(DEFAULT_SEARCH_PATH)
    logical_decoding_work_mem: str = f"{WORK_MEM}kB"
    debug_logical_replication_streaming: str = "buffered"
    unknown_types: str = "error"
    server_version: str = ""

    def __post_init__(self) -> None:
        if self.server_version:
            object.__setattr__(self, "server_version", str(version_named(self.server_version, self.major)))
        load_timezone(self.timezone)
        object.__setattr__(self, "datestyle", _datestyle(self.datestyle))
        object.__setattr__(self, "intervalstyle", _choice("IntervalStyle", self.intervalstyle, INTERVAL_STYLES))
        object.__setattr__(self, "bytea_output", _choice("bytea_output", self.bytea_output, ("hex", "escape")))
        object.__setattr__(self, "client_encoding", _client_encoding(self.client_encoding, self.encoding, self.major))
        object.__setattr__(self, "search_path", str(SearchPath.parse(self.search_path)))
        object.__setattr__(self, "logical_decoding_work_mem", f"{work_mem(self.logical_decoding_work_mem)}kB")
        if self.debug_logical_replication_streaming != "buffered":
            mode = debug_streaming(self.debug_logical_replication_streaming, self.major)
            object.__setattr__(self, "debug_logical_replication_streaming", mode)
        object.__setattr__(self, "unknown_types", _choice(option("unknown-types"), self.unknown_types, UNKNOWN_TYPES))
        if self.extra_float_digits not in FLOAT_DIGITS:
            raise UsageError(
                f'unsupported value for parameter "extra_float_digits": {self.extra_float_digits}',
                hint=f"supported values are {FLOAT_DIGITS[0]} to {FLOAT_DIGITS[-1]}",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, str], major: int = 18, encoding: str = "UTF8") -> SessionSettings:
        """Read settings by the server's names, in any case; ignore other settings that do not change output.

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
    def version(self) -> Version:
        """The server's."""
        return version_named(self.server_version, self.major) if self.server_version else VERSIONS[self.major]

    @property
    def memory_limit(self) -> int:
        """Bytes of changes from which on something is streamed; 1 with ``immediate``."""
        is_immediate = self.debug_logical_replication_streaming == "immediate"
        return 1 if is_immediate else work_mem(self.logical_decoding_work_mem) * 1024

    @property
    def is_utf8(self) -> bool:
        """True if text that is sent is what Arrow, Parquet and Spark take for text."""
        return self.client_encoding == UTF8

    @property
    def of_database(self) -> SessionSettings:
        """The same for a client that asks for the database's own encoding."""
        return replace(self, client_encoding=self.encoding)

    @property
    def written_in(self) -> str:
        """The encoding that stored text is converted from."""
        return self.text_encoding or self.encoding

    def of_rows(self) -> SessionSettings:
        """Return the settings for rows, whose text is UTF8.

        The encoding that a client asks of a database in SQL_ASCII is the one that its text is in. A server sends such a
        client the bytes that are stored, if they are text of the client's encoding.

        Raises:
            UsageError: the client asks for something else.
        """
        if self.client_encoding == UTF8:
            return self
        if self.encoding != SQL_ASCII:
            raise UsageError(
                f"rows are in UTF8, not in {self.client_encoding}",
                hint=f"text of this database is {self.encoding}, and needs no other encoding: leave out "
                f"{option('client-encoding')}, or read a plugin's messages",
            )
        if self.client_encoding == SQL_ASCII:
            raise UsageError(
                "rows are in UTF8, not in SQL_ASCII",
                hint=ways(
                    "name the encoding that the database's text is in",
                    f"keep its bytes with {option('on-unrepresentable', 'bytes')}",
                ),
            )
        return replace(self, text_encoding=self.client_encoding, client_encoding=UTF8)

    def encoded(self, name: str) -> bytes:
        """Encode a name or label as the database holds it."""
        return encode_name(name, self.encoding)

    @property
    def zone(self) -> TimeZone:
        """The transitions of the session's time zone."""
        return load_timezone(self.timezone)

    @property
    def date_style(self) -> int:
        """One of DATES_* of ``_text_codes``."""
        return DATE_STYLES[self.datestyle.split(",")[0]]

    @property
    def is_day_first(self) -> bool:
        """True if the day stands before the month in the styles SQL and Postgres."""
        return self.datestyle.endswith("DMY")

    @property
    def interval_style(self) -> int:
        """One of INTERVALS_* of ``_text_codes``."""
        return INTERVAL_STYLES[self.intervalstyle]

    def float_digits(self, digits: int) -> int:
        """Return the digits of a float that is sure of so many (FLT_DIG, DBL_DIG); 0 for the shortest exact form."""
        return 0 if self.extra_float_digits > 0 else max(digits + self.extra_float_digits, 1)

    @property
    def money(self) -> MoneyFormat:
        """The way amounts of money are written.

        Raises:
            UsageError: this machine does not have the locale.
        """
        return money_format(self.lc_monetary, self.encoding)


def _integer(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(f'invalid value for parameter "{name}": "{value}", expected an integer') from None


def _choice(name: str, value: str, choices: Collection[str]) -> str:
    if value.strip().lower() in choices:
        return value.strip().lower()
    raise UsageError(f'unsupported value for parameter "{name}": "{value}"', hint=f"supported: {', '.join(choices)}")


def _client_encoding(value: str, database: str, major: int) -> str:
    """Return the name of an encoding that a client of this database can ask for (check_client_encoding)."""
    encoding = find_encoding(value)
    if encoding is None or (encoding == MULE_INTERNAL and not VERSIONS[major].has_mule_internal):
        raise UsageError(
            f'invalid value for parameter "client_encoding": "{value}"',
            hint=f"expected one of {', '.join(CLIENT_ENCODINGS)}",
        )
    if not can_send(database, encoding):
        raise UsageError(
            f"conversion between {encoding} and {database} is not supported",
            hint=f"ask for another encoding with {option('client-encoding')}: {database} or SQL_ASCII gives the bytes "
            "of the database",
        )
    return encoding


def datestyle_over(value: str, base: str) -> str:
    """Read a DateStyle as a server takes it that has another one already: what it does not name stays.

    Args:
        value: the DateStyle.
        base: the other one, empty for the server's own default.

    Raises:
        UsageError: one of them is none.
    """
    return _datestyle(value, _datestyle(base))


def _datestyle(value: str, base: str = "ISO, MDY") -> str:
    """Return the canonical spelling of a DateStyle: its style and its order (check_datestyle)."""
    styles, orders = set(), set()
    for word in value.lower().split(",") if value.strip() else ():
        match = _WORDS.fullmatch(_unquoted(word))
        if match is None:
            raise _bad_datestyle(value)
        name = str(match.lastgroup)
        if name in DATE_STYLES:
            styles.add(name)
        elif name != "DEFAULT":
            orders.add(name)
    if len(styles) > 1 or len(orders) > 1:
        raise _bad_datestyle(value)
    base_style, base_order = base.split(", ")
    style = next(iter(styles), base_style)
    return f"{style}, {next(iter(orders), 'DMY' if 'German' in styles else base_order)}"


def _unquoted(word: str) -> str:
    """Read an element of a list of identifiers (SplitIdentifierString)."""
    word = word.strip()
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def _bad_datestyle(value: str) -> UsageError:
    return UsageError(
        f'unsupported value for parameter "DateStyle": "{value}"',
        hint="supported: ISO, SQL, Postgres or German, with MDY, DMY or YMD",
    )
