"""The SQL functions on replication slots: their signatures and what they check; what they do is asked of a port.

PostgreSQL: pg_proc.dat, system_functions.sql, slotfuncs.c, logicalfuncs.c (pg_logical_slot_get_changes_guts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from headwater.errors import SessionError
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, INTERNAL_ERROR, INVALID_PARAMETER_VALUE, NULL_NOT_ALLOWED
from headwater.pg.version import Version
from headwater.walsender.queries.functions import Argument, Function
from headwater.walsender.queries.value_types import (
    BOOL,
    BYTEA,
    INT4,
    NAME,
    PG_LSN,
    RECORD,
    TEXT,
    TEXT_ARRAY,
    VOID,
    XID,
)

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NewLogicalSlot:
    """The arguments of pg_create_logical_replication_slot."""

    name: str
    plugin: str
    is_temporary: bool
    two_phase: bool
    failover: bool


@dataclass(frozen=True)
class SlotCopy:
    """The arguments of the functions that copy slots; None for what the source has."""

    source: str
    target: str
    is_logical: bool
    is_temporary: bool | None = None
    plugin: str | None = None


@dataclass(frozen=True)
class AskedChanges:
    """The arguments of the functions that read changes.

    Attributes:
        slot: its name; options: of the plugin.
        upto_lsn: 0 for the end of the log; upto_count: rows after which a transaction is the last; 0 for no limit.
        is_binary: bytes are taken, too; is_peek: the slot stays where it is.
        function: as an error names it.
    """

    slot: str
    upto_lsn: int
    upto_count: int
    options: Options
    is_binary: bool
    is_peek: bool
    function: str


class SlotPort(Protocol):
    """The slots, as functions use them; each method raises SessionError as the server says."""

    def check_rights(self) -> None:
        """Check that the user may use slots."""

    def create_logical(self, asked: NewLogicalSlot) -> int:
        """Make a logical slot; return where it stands."""

    def create_physical(self, name: str, reserves: bool, is_temporary: bool) -> int | None:
        """Make a physical slot; return where it stands, None for nowhere."""

    def drop(self, name: str) -> None:
        """Remove a slot."""

    def advance(self, name: str, lsn: int) -> int:
        """Move a slot; return where it stands then."""

    def copy(self, asked: SlotCopy) -> int | None:
        """Copy a slot; return where the copy stands."""

    def changes(self, asked: AskedChanges) -> Sequence[tuple[int, int, bytes]]:
        """Read changes: LSN, xid, message."""


_MADE = (("slot_name", NAME), ("lsn", PG_LSN))


def slot_functions(port: SlotPort, version: Version) -> list[Function]:
    """Return the functions of a session.

    Args:
        port: does what they do; version: of the server that is stood for.
    """
    return [
        _create_logical(port, version),
        _create_physical(port),
        Function("pg_drop_replication_slot", (Argument("slot_name", NAME),), VOID, partial(_drop, port)),
        Function(
            *("pg_replication_slot_advance", (Argument("slot_name", NAME), Argument("upto_lsn", PG_LSN)), RECORD),
            partial(_advance, port, version),
            (("slot_name", NAME), ("end_lsn", PG_LSN)),
        ),
        *_copies(port),
        *(_changes(port, word, form) for word in ("get", "peek") for form in ("", "binary_")),
    ]


def _create_logical(port: SlotPort, version: Version) -> Function:
    arguments = [Argument("slot_name", NAME), Argument("plugin", NAME)]
    names = ["temporary", "twophase", *(["failover"] if version.alters_replication_slots else [])]
    arguments += [Argument(name, BOOL, False) for name in names]

    def call(name: str, plugin: str, *flags: bool) -> tuple[str, int]:
        port.check_rights()
        is_temporary, two_phase, failover = (*flags, False)[:3]
        return name, port.create_logical(NewLogicalSlot(name, plugin, is_temporary, two_phase, failover))

    return Function("pg_create_logical_replication_slot", tuple(arguments), RECORD, call, _MADE)


def _create_physical(port: SlotPort) -> Function:
    flags = (Argument(name, BOOL, False) for name in ("immediately_reserve", "temporary"))

    def call(name: str, reserves: bool, is_temporary: bool) -> tuple[str, int | None]:
        port.check_rights()
        return name, port.create_physical(name, reserves, is_temporary)

    return Function("pg_create_physical_replication_slot", (Argument("slot_name", NAME), *flags), RECORD, call, _MADE)


def _drop(port: SlotPort, name: str) -> str:
    port.check_rights()
    port.drop(name)
    return ""


def _advance(port: SlotPort, version: Version, name: str, lsn: int) -> tuple[str, int]:
    port.check_rights()
    if not lsn:
        state = INVALID_PARAMETER_VALUE if version.refuses_target_lsns else INTERNAL_ERROR
        raise SessionError("invalid target WAL LSN", sqlstate=state)
    return name, port.advance(name, lsn)


def _copies(port: SlotPort) -> list[Function]:
    """Return the functions that copy: one for each number of arguments, as the server's are."""
    names = Argument("src_slot_name", NAME), Argument("dst_slot_name", NAME)
    temporary, plugin = Argument("temporary", BOOL), Argument("plugin", NAME)
    logical, physical = "pg_copy_logical_replication_slot", "pg_copy_physical_replication_slot"

    def copied(source: str, target: str, *rest: Any, is_logical: bool) -> tuple[str, int | None]:
        port.check_rights()
        return target, port.copy(SlotCopy(source, target, is_logical, *rest))

    forms = (
        *((logical, arguments, True) for arguments in (names, (*names, temporary), (*names, temporary, plugin))),
        *((physical, arguments, False) for arguments in (names, (*names, temporary))),
    )
    return [
        Function(name, arguments, RECORD, partial(copied, is_logical=is_logical), _MADE)
        for name, arguments, is_logical in forms
    ]


def _changes(port: SlotPort, word: str, form: str) -> Function:
    name, is_binary = f"pg_logical_slot_{word}_{form}changes", bool(form)
    arguments = (
        *(Argument("slot_name", NAME), Argument("upto_lsn", PG_LSN), Argument("upto_nchanges", INT4)),
        Argument("options", TEXT_ARRAY, (), is_variadic=True),
    )

    def call(slot: str | None, lsn: int | None, count: int | None, options: Sequence[str | None] | None) -> list[Any]:
        port.check_rights()
        if slot is None:
            raise SessionError("slot name must not be null", sqlstate=NULL_NOT_ALLOWED)
        if options is None:
            raise SessionError("options array must not be null", sqlstate=NULL_NOT_ALLOWED)
        shown = f"{name}(name,pg_lsn,integer,text[])"
        asked = AskedChanges(slot, lsn or 0, count or 0, _pairs(options), is_binary, word == "peek", shown)
        rows = port.changes(asked)
        return [(at, xid, data if is_binary else data.decode("utf-8", "surrogateescape")) for at, xid, data in rows]

    columns = (("lsn", PG_LSN), ("xid", XID), ("data", BYTEA if is_binary else TEXT))
    return Function(name, arguments, RECORD, call, columns, returns_set=True, is_strict=False)


def _pairs(options: Sequence[str | None]) -> Options:
    if None in options:
        raise SessionError("array must not contain nulls", sqlstate=FEATURE_NOT_SUPPORTED)
    if len(options) % 2:
        raise SessionError("array must have even number of elements", sqlstate=FEATURE_NOT_SUPPORTED)
    texts = [str(option) for option in options]
    return tuple(zip(texts[::2], texts[1::2], strict=True))
