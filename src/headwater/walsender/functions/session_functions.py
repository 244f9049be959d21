"""Functions about the session, the service and its log.

PostgreSQL: misc.c, xlogfuncs.c, guc_funcs.c, version.c, pg_lsn.c, dbsize.c (pg_size_pretty).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from headwater.errors import SessionError
from headwater.pg.sqlstates import READ_ONLY_SQL_TRANSACTION
from headwater.pg.version import Version
from headwater.walsender.queries.functions import Argument, Function
from headwater.walsender.queries.value_types import (
    BOOL,
    INT4,
    INT8,
    NAME,
    NUMERIC,
    PG_LSN,
    TEXT,
    TIMESTAMPTZ,
    XID,
    ValueType,
)


class SessionPort(Protocol):
    """The session, as functions ask about it."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def user(self) -> str:
        """The user's name."""

    @property
    def database(self) -> str:
        """The database's name."""

    def end_lsn(self) -> int:
        """Return where the log ends."""

    def shown(self, name: str, is_missing_ok: bool) -> str | None:
        """Return a setting; None if there is none and that is no error."""

    def change(self, name: str, value: str, is_local: bool) -> str:
        """Change a setting; return its value then."""

    def transaction_time(self) -> int:
        """Return when the transaction began: microseconds since 2000-01-01."""

    def time(self) -> int:
        """Return what time it is."""

    def started(self) -> int:
        """Return when the service began."""


@dataclass(frozen=True)
class _Maker:
    """A maker of functions without arguments."""

    port: SessionPort

    def of(self, name: str, type: ValueType, value: object) -> Function:
        """Return a function that gives what a callable gives, or a value."""
        return Function(name, (), type, value if callable(value) else lambda: value)


def session_functions(port: SessionPort, version: Version) -> list[Function]:
    """Return the functions of a session.

    Args:
        port: answers them; version: of the server that is stood for.
    """
    make = _Maker(port).of
    return [
        make("version", TEXT, f"PostgreSQL {version} (Headwater)"),
        *(make(name, NAME, port.database) for name in ("current_database", "current_catalog")),
        make("getpgusername", NAME, port.user),
        make("pg_backend_pid", INT4, port.pid),
        make("pg_is_in_recovery", BOOL, False),
        *(make(f"pg_current_wal_{word}lsn", PG_LSN, port.end_lsn) for word in ("", "flush_", "insert_")),
        *(make(f"pg_last_wal_{word}_lsn", PG_LSN, lambda: None) for word in ("receive", "replay")),
        make("pg_last_xact_replay_timestamp", TIMESTAMPTZ, lambda: None),
        make("pg_postmaster_start_time", TIMESTAMPTZ, port.started),
        *(make(name, TIMESTAMPTZ, port.transaction_time) for name in ("now", "transaction_timestamp")),
        *(make(name, TIMESTAMPTZ, port.time) for name in ("clock_timestamp", "statement_timestamp")),
        *(make(name, type, _no_xid(name)) for name, type in _OF_XIDS),
        Function("pg_current_xact_id_if_assigned", (), XID, lambda: None),
        *_of_lsns(),
        *_of_settings(port),
        *_of_texts(),
    ]


_OF_XIDS = (("txid_current", INT8),)


def _no_xid(name: str) -> object:
    """Return a function that refuses: no transaction here has a number."""

    def call() -> None:
        raise SessionError(
            f"cannot execute {name}() in a read-only transaction",
            sqlstate=READ_ONLY_SQL_TRANSACTION,
            hint="Headwater makes no transactions; ask the primary.",
        )

    return call


def _of_lsns() -> list[Function]:
    arguments = Argument("lsn1", PG_LSN), Argument("lsn2", PG_LSN)
    return [
        Function("pg_wal_lsn_diff", arguments, NUMERIC, lambda left, right: Decimal(left - right), is_immutable=True)
    ]


def _of_settings(port: SessionPort) -> list[Function]:
    name, is_missing_ok = Argument("setting_name", TEXT), Argument("missing_ok", BOOL)
    arguments = (name, Argument("new_value", TEXT), Argument("is_local", BOOL))

    def change(setting: str | None, value: str | None, is_local: bool | None) -> str:
        if setting is None:
            raise SessionError("SET requires parameter name", sqlstate="22004")
        return port.change(setting, value or "", bool(is_local))

    return [
        Function("current_setting", (name,), TEXT, lambda setting: port.shown(setting, False)),
        Function("current_setting", (name, is_missing_ok), TEXT, port.shown),
        Function("set_config", arguments, TEXT, change, is_strict=False),
    ]


_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def _of_texts() -> list[Function]:
    return [
        Function("pg_size_pretty", (Argument("", INT8),), TEXT, size_text, is_immutable=True),
        Function(
            "pg_size_pretty", (Argument("", NUMERIC),), TEXT, lambda size: numeric_size_text(size), is_immutable=True
        ),
    ]


def size_text(size: int) -> str:
    """Print a number of bytes with a unit."""
    limit, place = 10 * 1024, 0
    if abs(size) < limit:
        return f"{size} bytes"
    # As the server: one bit more than the unit has is kept, to round by.
    value = _shifted(size, 9)
    place, limit = 1, 20 * 1024 - 1
    while abs(value) >= limit and place < len(_UNITS) - 1:
        value, place = _shifted(value, 10), place + 1
    return f"{_half(value)} {_UNITS[place]}"


def numeric_size_text(size: Decimal) -> str:
    """Print a number of bytes with a unit; one below ten kilobytes as it is."""
    if not size.is_finite():
        return f"{size} {_UNITS[-1]}"
    if abs(size) < 10 * 1024:
        return f"{format(size, 'f')} bytes"
    return size_text(int(size))


def _shifted(value: int, bits: int) -> int:
    """Divide by a power of two, towards zero."""
    return -(-value >> bits) if value < 0 else value >> bits


def _half(value: int) -> int:
    """Halve, away from zero where it is halfway."""
    rounded = abs(value) + 1 >> 1
    return -rounded if value < 0 else rounded
