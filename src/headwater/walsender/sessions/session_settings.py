"""The settings of one connection: what the client asked for, by the server's names and in its words.

Settings that change what is decoded go to the session that decodes. The others are kept so that they can be shown.

PostgreSQL: guc.c, guc_tables.c. Known gap: of settings that change nothing here, ranges of numbers are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.errors import SessionError, UsageError
from headwater.pg.encodings import SQL_ASCII, UTF8, conversion_error, encode_text
from headwater.pg.identifiers import cut_name
from headwater.pg.lsn import Lsn
from headwater.pg.sqlstates import (
    CANNOT_CHANGE_PARAMETER,
    FEATURE_NOT_SUPPORTED,
    INVALID_PARAMETER_VALUE,
    UNTRANSLATABLE_CHARACTER,
)
from headwater.pg.version import Version
from headwater.protocol.backend_messages import in_utf8
from headwater.rows.session import FLOAT_DIGITS, INTERVAL_STYLES, SessionSettings
from headwater.walsender.operating.timeouts import TIMEOUTS, parse_timeout, shown_timeout
from headwater.walsender.sessions.known_settings import check_without_effect, taken_value, unchangeable, unknown

_DECODING = {
    "timezone": "TimeZone",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "extra_float_digits": "extra_float_digits",
    "bytea_output": "bytea_output",
    "lc_monetary": "lc_monetary",
    "client_encoding": "client_encoding",
    "search_path": "search_path",
    "logical_decoding_work_mem": "logical_decoding_work_mem",
    "debug_logical_replication_streaming": "debug_logical_replication_streaming",
}
"""Settings that change what is decoded, and how they are spelled."""

_ALONE = {"role": ("none",), "standard_conforming_strings": ("on", "true", "yes", "1")}
"""Settings of which one value is heeded: another one would be set without effect."""

_OTHERS = {
    "application_name": "",
    "wal_sender_timeout": "1min",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "client_min_messages": "notice",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "transaction_deferrable": "off",
    "session_replication_role": "origin",
    "role": "none",
    "work_mem": "4MB",
    "row_security": "on",
    "standard_conforming_strings": "on",
    "synchronous_commit": "on",
    "jit": "off",
}
"""Settings that a client may change too, and their values; all but the timeouts have no effect: nothing is written."""

_OF_LOGS_AND_SOCKETS = {
    "log_statement": "none",
    "log_min_messages": "warning",
    "log_min_error_statement": "error",
    "log_min_duration_statement": "-1",
    "log_duration": "off",
    "log_error_verbosity": "default",
    "log_lock_waits": "off",
    "log_temp_files": "-1",
    "log_replication_commands": "off",
    "log_statement_stats": "off",
    "log_parser_stats": "off",
    "log_planner_stats": "off",
    "log_executor_stats": "off",
    "lc_messages": "C",
    "tcp_keepalives_idle": "0",
    "tcp_keepalives_interval": "0",
    "tcp_keepalives_count": "0",
    "tcp_user_timeout": "0",
    "client_connection_check_interval": "0",
}
"""Settings that connection strings have, too. Nothing of what is sent depends on them; they have no effect."""

_REPORTED = (
    *("in_hot_standby", "integer_datetimes", "TimeZone", "IntervalStyle", "search_path", "is_superuser"),
    *("application_name", "default_transaction_read_only", "scram_iterations", "DateStyle"),
    *("standard_conforming_strings", "session_authorization", "client_encoding", "server_version", "server_encoding"),
)
_SEARCH_PATH = '"$user", public'
_CUSTOM = re.compile(r"[a-z_][\w$]*(\.[a-z_][\w$]*)+")
"""Names of settings that an extension might have: any of them may be set."""

_SLOTS_AT = "headwater.slots_at"
"""The LSN at which this session's slots are made, with their snapshots; without it at the end of the log."""

_CHOICES = {"intervalstyle": tuple(INTERVAL_STYLES), "bytea_output": ("escape", "hex")}


SavedSettings = tuple[dict[str, str], dict[str, str]]


class ClientSettings:
    """The settings of a connection.

    Args:
        version: of the server that is stood for.
        encoding: the database's.
        server: what the server's own sessions begin with, by names in lower case.
        fixed: what a client cannot change, by name.
    """

    def __init__(self, version: Version, encoding: str, server: Mapping[str, str], fixed: Mapping[str, str]) -> None:
        self._version, self._encoding = version, encoding
        self._fixed = {name.lower(): (name, value) for name, value in fixed.items()}
        shown = SessionSettings.from_settings({**server, "client_encoding": encoding}, version.major, encoding)
        self._asked: dict[str, str] = {}
        values = {name: str(getattr(shown, name)) for name in _DECODING} | _OTHERS | _OF_LOGS_AND_SOCKETS
        self._values = {**values, "search_path": server.get("search_path", _SEARCH_PATH)}
        self._initial, self._has_begun = (self._values, self._asked), False

    def set(self, name: str, value: str) -> bool:
        """Change a setting; return whether the client is told of it.

        Raises:
            SessionError: there is none of this name, the value is wrong, or it cannot be changed.
        """
        key = name.lower()
        if _CUSTOM.fullmatch(key) is not None:
            if key == _SLOTS_AT and value:
                _check_lsn(key, value)
            self._values[key] = value
            return False
        before = self._values.get(key)
        if key in self._fixed or key not in self._values or self._is_newer(key):
            self._check_other(name)
        if key in _DECODING:
            shown = self._checked(key, value)
            self._values[key] = value if key == "search_path" else shown
            self._asked[key] = value
        elif key in TIMEOUTS:
            self._values[key] = shown_timeout(parse_timeout(key, value, self._version))
        elif key in _ALONE and value.lower() not in _ALONE[key]:
            raise SessionError(f'"{key}" can be {_ALONE[key][0]} only', sqlstate=FEATURE_NOT_SUPPORTED)
        elif key == "application_name":
            self._values[key] = _in_ascii(cut_name(value), self._version.escapes_application_name)
        else:
            self._values[key] = taken_value(key, value, self._version.major)
        return self._values[key] != before and key in {shown.lower() for shown, _ in self.reported()}

    @property
    def milliseconds(self) -> dict[str, int]:
        """The timeouts, by name; 0 for none."""
        return {name: parse_timeout(name, self._values[name], self._version) for name in TIMEOUTS}

    def begin(self) -> None:
        """Let what is set by now be what the session began with, to which RESET goes back."""
        self._initial, self._has_begun = (dict(self._values), dict(self._asked)), True

    def reset(self, name: str) -> None:
        """Set a setting to what the session began with.

        Raises:
            SessionError: there is none of this name, or it cannot be changed.
        """
        key, (values, asked) = name.lower(), self._initial
        if key in values and key not in self._fixed:
            self._values[key] = values[key]
            if key in asked:
                self._asked[key] = asked[key]
            else:
                self._asked.pop(key, None)
        elif _CUSTOM.fullmatch(key) is not None:
            self._values.pop(key, None)
        else:
            self._check_other(name)
            self._values.pop(key, None)

    def saved(self) -> SavedSettings:
        """Return all settings as they are now."""
        return dict(self._values), dict(self._asked)

    def restore(self, saved: SavedSettings) -> None:
        """Set all settings to what they were."""
        self._values, self._asked = dict(saved[0]), dict(saved[1])

    @property
    def initial(self) -> SavedSettings:
        """All settings as the session began with them."""
        return self._initial

    def show(self, name: str) -> tuple[str, str]:
        """Return a setting's name as the server spells it, and its value.

        Raises:
            SessionError: there is none.
        """
        key = name.lower()
        if key in self._fixed:
            return self._fixed[key]
        if key not in self._values or self._is_newer(key):
            raise unknown(name)
        return _DECODING.get(key, key), self._values[key]

    def of_decoding(self) -> tuple[tuple[str, str], ...]:
        """Return the settings that a decoding session is given: names and values."""
        return tuple({**self._asked, "client_encoding": self._values["client_encoding"]}.items())

    def session(self) -> SessionSettings:
        """Return the settings that values are printed under."""
        return SessionSettings.from_settings(dict(self.of_decoding()), self._version.major, self._encoding)

    @property
    def client_encoding(self) -> str:
        """The encoding of texts on the connection."""
        return self._values["client_encoding"]

    def sent(self, value: bytes | None) -> bytes | None:
        """Convert a value of a result, which is UTF-8, to what the client gets.

        Raises:
            SessionError: the client's encoding lacks a character.
        """
        encoding = self._encoding if self.client_encoding == SQL_ASCII else self.client_encoding
        if value is None or encoding == UTF8 or value.isascii():
            return value
        try:
            return encode_text(value.decode("utf-8", "surrogateescape"), encoding)
        except UnicodeEncodeError as error:
            text = conversion_error(UTF8, encoding, in_utf8(error.object))
            raise SessionError(text, sqlstate=UNTRANSLATABLE_CHARACTER) from None

    def encoded(self, text: str) -> bytes:
        """Encode a name or a message as the client gets it.

        Raises:
            SessionError: the client's encoding lacks a character.
        """
        value = self.sent(in_utf8(text))
        assert value is not None
        return value

    @property
    def slots_at(self) -> int | None:
        """The LSN at which slots are to be made; None for the end of the log."""
        value = self._values.get(_SLOTS_AT)
        return int(Lsn.parse(value)) if value else None

    @property
    def sender_timeout(self) -> float:
        """Seconds after which a silent client is given up; 0 for never."""
        return self.milliseconds["wal_sender_timeout"] / 1000

    def reported(self) -> list[tuple[str, str]]:
        """Return the settings that a client is told of when it connects: names and values."""
        left_out = set() if self._version.reports_search_path else {"search_path"}
        left_out |= set() if self._version.reports_scram_iterations else {"scram_iterations"}
        return [self.show(name) for name in _REPORTED if name not in left_out]

    def _is_newer(self, key: str) -> bool:
        """Tell whether a setting came with a later major."""
        if key == "transaction_timeout":
            return not self._version.has_transaction_timeout
        return key.startswith("debug_") and not self._version.has_debug_streaming

    def _check_other(self, name: str) -> None:
        """Check that a setting that is not held here may be changed, which has no effect.

        Raises:
            SessionError: it may not.
        """
        fixed = self._fixed.get(name.lower())
        refusal = unchangeable(name if fixed is None else fixed[0], self._version.major, self._has_begun)
        if refusal is None and fixed is not None:
            refusal = SessionError(f'parameter "{fixed[0]}" cannot be changed', sqlstate=CANNOT_CHANGE_PARAMETER)
        if refusal is not None:
            raise refusal
        check_without_effect(name, self._version.major)

    def _checked(self, key: str, value: str) -> str:
        try:
            session = SessionSettings.from_settings({key: value}, self._version.major, self._encoding)
        except UsageError as error:
            raise _refused(key, value, error) from None
        return str(getattr(session, key))


def is_cut(name: str, value: str) -> bool:
    """Tell whether a setting's value is a name that is too long (GUC_IS_NAME)."""
    return name.lower() == "application_name" and cut_name(value) != value


def _check_lsn(name: str, value: str) -> None:
    try:
        Lsn.parse(value)
    except UsageError:
        raise _invalid(name, value) from None


def _in_ascii(text: str, escapes: bool) -> str:
    """Replace bytes that are no printable ASCII (pg_clean_ascii)."""
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if 32 <= byte <= 126 else f"\\x{byte:02x}" if escapes else "?" for byte in data)


def _invalid(name: str, value: str) -> SessionError:
    return SessionError(f'invalid value for parameter "{name}": "{value}"', sqlstate=INVALID_PARAMETER_VALUE)


def _refused(key: str, value: str, error: UsageError) -> SessionError:
    """Return the server's error for a value of a setting that decoding has."""
    refusal = _invalid(_DECODING[key], value)
    if key == "datestyle":
        wrong = next((word for word in re.split(r"[\s,]+", value) if not _is_datestyle(word)), None)
        refusal.detail = 'Conflicting "datestyle" specifications.' if wrong is None else None
        refusal.detail = refusal.detail or f'Unrecognized key word: "{wrong.lower()}".'  # type: ignore[union-attr]
    elif key == "extra_float_digits" and re.fullmatch(r"[+-]?\d+", value.strip()):
        least, most = FLOAT_DIGITS[0], FLOAT_DIGITS[-1]
        refusal.message = f'{value} is outside the valid range for parameter "extra_float_digits" ({least} .. {most})'
    elif key in _CHOICES:
        refusal.hint = f"Available values: {', '.join(_CHOICES[key])}."
    else:
        refusal.hint = error.hint if key == "logical_decoding_work_mem" else None
    return refusal


def _is_datestyle(word: str) -> bool:
    try:
        SessionSettings(datestyle=word)
    except UsageError:
        return False
    return True
