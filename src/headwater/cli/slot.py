"""``headwater slot``: slots made, listed, shown, advanced, copied, dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.cli.decode_source import source_of_slot
from headwater.cli.option_pairs import pairs, settings_of_flags, source_of_flags
from headwater.errors import SlotError, UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.slot_request import kept_in_slot, request_of_slot, version_of_slot
from headwater.pipeline.slot_moves import begin, check_request, state_at
from headwater.plugins.table_patterns import TablePatterns
from headwater.slots.slot import Slot, SlotRequest, SlotStatistics
from headwater.slots.slot_directory import active_pid, create_slot, is_slot, open_slot, read_slot

LISTED = ("slot_name", "plugin", "database", "active", "restart_lsn", "confirmed_flush_lsn")
"""What ``slot list`` prints of each."""


@dataclass(frozen=True)
class CreateFlags:
    """The flags of ``headwater slot create``; as those of ``headwater decode``."""

    wal: Sequence[str]
    catalog: str
    database: str | None
    plugin: str
    options: Sequence[str]
    settings: Sequence[str]
    tables: Sequence[str]
    unknown_types: str
    two_phase: bool
    failover: bool
    timeline: int | None = None
    storage_options: Sequence[str] = ()
    user: str | None = None
    client_encoding: str | None = None
    server_version: str | None = None


def run_create(path: Path, flags: CreateFlags) -> None:
    """Make a slot that stands at the consistent point, and print that.

    Raises:
        HeadwaterError: it cannot be done.
    """
    if path.exists():
        raise SlotError(f'replication slot "{path.name}" already exists', file=str(path))
    options = pairs(flags.options, "-o")
    settings = settings_of_flags(flags.settings, flags.client_encoding, flags.server_version)
    tables = TablePatterns.parse(flags.tables)
    request = DecodeRequest(
        wal=source_of_flags(flags.wal, flags.storage_options, flags.timeline),
        catalog=flags.catalog,
        database=flags.database,
        plugin=flags.plugin,
        options=options,
        settings=settings,
        unknown_types=flags.unknown_types,
        tables=tables,
        user=flags.user,
        two_phase=flags.two_phase,
        slot=path.name,
        makes_slot=True,
    )
    found = begin(request)
    kept = SlotRequest(
        wal=tuple(os.path.abspath(p.address) if p.is_local else p.address for p in request.source.places),
        catalog=str(Path(request.catalog).absolute()),
        database=found.database,
        plugin=flags.plugin,
        options=options,
        settings=request.settings,
        server_settings=found.server_settings,
        unknown_types=flags.unknown_types,
        tables=tables.patterns,
        timeline=flags.timeline,
        user=flags.user,
    )
    create_slot(path, Slot(kept, found.lsn, found.state, flags.two_phase, flags.failover))
    print(Lsn(found.lsn))


def run_list(directory: Path) -> None:
    """Print a line for each slot in a directory.

    Raises:
        SlotError: there is no such directory.
    """
    if not directory.is_dir():
        raise SlotError("no such directory", file=str(directory))
    paths = sorted(path for path in directory.iterdir() if is_slot(path))
    shown = [described(path) for path in paths]
    rows = [LISTED, *([_plain(slot[name]) for name in LISTED] for slot in shown)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def run_show(path: Path, as_json: bool) -> None:
    """Print what a slot is, a line for each property, or all as JSON.

    Raises:
        SlotError: there is none, or it is damaged.
    """
    shown = described(path)
    if as_json:
        print(json.dumps(shown, indent=2))
        return
    for name, value in shown.items():
        print(f"{name}: {_plain(value)}")


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    return "yes" if value is True else "no" if value is False else str(value)


def described(path: Path) -> dict[str, object]:
    """A slot's properties, by the names that PostgreSQL's views have for them."""
    slot, pid = read_slot(path), active_pid(path)
    asked = slot.request
    two_phase_at = next((output.two_phase_at for output in slot.state.outputs), None) if slot.state else None
    return {
        "slot_name": path.name,
        "plugin": asked.plugin,
        "options": dict(asked.options),
        "database": asked.database,
        "server_version": version_of_slot(slot) or "newest known",
        "wal": asked.wal[0] if len(asked.wal) == 1 else list(asked.wal),
        "timeline": asked.timeline or "newest",
        "catalog": asked.catalog if slot.state is None else "not needed any more",
        "active": pid is not None,
        "active_pid": pid or 0,
        "restart_lsn": str(Lsn(slot.restart_lsn)),
        "confirmed_flush_lsn": str(Lsn(slot.confirmed_lsn)),
        "two_phase": slot.two_phase,
        "two_phase_at": "" if two_phase_at is None else str(Lsn(two_phase_at)),
        "failover": slot.failover,
        **{name: getattr(slot.statistics, name) for name in SlotStatistics.__dataclass_fields__},
    }


def run_advance(path: Path, lsn: int) -> None:
    """Let a slot advance without output, and print where it stands then (pg_replication_slot_advance).

    Raises:
        HeadwaterError: the LSN lies behind, or the WAL cannot be followed up to it.
    """
    with open_slot(path) as opened:
        if lsn < opened.slot.confirmed_lsn:
            raise UsageError(
                f"cannot advance replication slot to {Lsn(lsn)}, minimum is {Lsn(opened.slot.confirmed_lsn)}"
            )
        source = source_of_slot(opened.slot, None)
        opened.write(opened.slot.advanced(state_at(source.requests[0], source.kept, lsn), SlotStatistics()))
        print(Lsn(opened.slot.confirmed_lsn))


def run_copy(source: Path, target: Path, plugin: str | None, options: Sequence[str]) -> None:
    """Make a slot that stands where another one does (pg_copy_logical_replication_slot).

    Raises:
        HeadwaterError: it cannot be done.
    """
    with open_slot(source) as opened:
        slot = opened.slot
    request = slot.request
    if plugin is not None or options:
        request = replace(request, plugin=plugin or request.plugin, options=pairs(options, "-o"))
    copied = Slot(request, slot.confirmed_lsn, slot.state, slot.two_phase, slot.failover)
    check_request(request_of_slot(copied), kept_in_slot(copied))
    create_slot(target, copied)


def run_drop(path: Path) -> None:
    """Remove a slot.

    Raises:
        SlotError: there is none, or a process uses it.
    """
    with open_slot(path) as opened:
        opened.drop()
