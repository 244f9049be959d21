"""``headwater slot``: slots made, listed, shown, advanced, copied, dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from headwater.cli.flags import CommandGroup, command, from_argument, from_choice, from_flag, from_flags, path_argument
from headwater.cli.shared_flags import (
    SessionFlags,
    SourceFlags,
    option_flag,
    pairs,
    tables_flag,
    two_phase_flag,
    user_flag,
)
from headwater.errors import SlotError, UsageError
from headwater.pg.lsn import Lsn

LISTED = ("slot_name", "plugin", "database", "active", "restart_lsn", "confirmed_flush_lsn")
"""What ``slot list`` prints of each."""


@dataclass(frozen=True, kw_only=True)
class CreateFlags:
    """The arguments and flags of ``headwater slot create``."""

    path: Path = path_argument()
    source: SourceFlags = from_flags(SourceFlags, without=("start", "end"))
    plugin: str = from_flag(
        "--plugin",
        default="test_decoding",
        show_default=True,
        metavar="NAME",
        help="Output plugin; rows: for a stream of rows in Spark.",
    )
    user: str | None = user_flag()
    session: SessionFlags = from_flags(SessionFlags)
    tables: Sequence[str] = tables_flag(help="Only changes of these tables.")
    unknown_types: str = from_choice(
        "--unknown-types", "error", "hex", "null", help="What becomes of a value whose type has no text form here."
    )
    two_phase: bool = two_phase_flag()
    at: str | None = from_flag(
        "--at",
        metavar="LSN|TIME",
        help="Begin there, not at the first place where decoding can begin after the catalog; at a time such as "
        "2026-01-31 12:00:00+00 with the first transaction that committed then or later.",
    )
    failover: bool = from_flag("--failover", is_flag=True, help="Meant to go on from a standby; noted.")


@dataclass(frozen=True)
class ListFlags:
    """The argument of ``headwater slot list``."""

    directory: Path = path_argument(default=".")


@dataclass(frozen=True)
class SlotFlags:
    """The argument of a command about one slot."""

    path: Path = path_argument()


@dataclass(frozen=True)
class ShowFlags(SlotFlags):
    """The argument and flags of ``headwater slot show``."""

    as_json: bool = from_flag("--json", is_flag=True, help="As JSON.")


@dataclass(frozen=True)
class AdvanceFlags(SlotFlags):
    """The arguments of ``headwater slot advance``."""

    lsn: str = from_argument()


@dataclass(frozen=True)
class CopyFlags(SlotFlags):
    """The arguments and flags of ``headwater slot copy``."""

    target: Path = path_argument()
    plugin: str | None = from_flag("--plugin", metavar="NAME", help="Another output plugin.")
    options: Sequence[str] = option_flag(help="Its options.")


@command("slot create", CreateFlags)
def create_command(flags: CreateFlags) -> None:
    """Make a slot in a new directory PATH; print where it begins."""
    from headwater.pipeline.slot_moves import begin, begin_at, slot_at, without_output
    from headwater.plugins.table_patterns import TablePatterns
    from headwater.slots.slot_directory import check_is_free, create_slot

    path, source = flags.path, flags.source
    check_is_free(path)
    options = flags.session.plugin_options
    request = source.request(
        flags.session.all_settings(source.server_version),
        plugin=flags.plugin,
        options=options,
        unknown_types=flags.unknown_types,
        tables=TablePatterns.parse(flags.tables),
        user=flags.user,
        two_phase=flags.two_phase,
        slot=path.name,
        makes_slot=True,
    )
    # Who decodes by pgoutput over a connection brings the options: the server makes such slots without any.
    followed = without_output(request) if request.plugin == "pgoutput" and not options else request
    beginning = begin(followed) if flags.at is None else begin_at(followed, _place(flags.at), path.parent)
    create_slot(path, slot_at(request, beginning, failover=flags.failover))
    print(Lsn(beginning.lsn))


def _place(text: str) -> int | datetime:
    """Return the LSN, or the moment, that a flag gives."""
    from headwater.pipeline.commit_times import parse_moment

    return Lsn.parse(text) if re.fullmatch(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}", text) else parse_moment(text)


@command("slot list", ListFlags)
def list_command(flags: ListFlags) -> None:
    """List the slots in a directory, the current one by default."""
    from headwater.slots.slot_directory import is_slot

    if not flags.directory.is_dir():
        raise SlotError("no such directory", file=str(flags.directory))
    paths = sorted(path for path in flags.directory.iterdir() if is_slot(path))
    shown = [described(path) for path in paths]
    rows = [LISTED, *([_plain(slot[name]) for name in LISTED] for slot in shown)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


@command("slot show", ShowFlags)
def show_command(flags: ShowFlags) -> None:
    """Show what a slot is, where it stands, and what has been made of it."""
    shown = described(flags.path)
    if flags.as_json:
        print(json.dumps(shown, indent=2))
        return
    for name, value in shown.items():
        print(f"{name}: {_plain(value)}")


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    return "yes" if value is True else "no" if value is False else str(value)


def described(path: Path) -> dict[str, object]:
    """Return a slot's properties, by the names that PostgreSQL's views have for them."""
    from headwater.pipeline.requests.slot_request import version_of_slot
    from headwater.slots.invalidation import invalidation_of
    from headwater.slots.slot import SlotStatistics
    from headwater.slots.slot_directory import active_pid, read_slot

    slot, pid = read_slot(path), active_pid(path)
    request = slot.request
    two_phase_at = next((output.two_phase_at for output in slot.state.outputs), None) if slot.state else None
    return {
        "slot_name": path.name,
        "plugin": request.plugin,
        "options": dict(request.options),
        "database": request.database,
        "server_version": version_of_slot(slot) or "newest known",
        "wal": request.wal[0] if len(request.wal) == 1 else list(request.wal),
        "timeline": request.timeline or "newest",
        "catalog": request.catalog if slot.state is None else "not needed any more",
        "active": pid is not None,
        "active_pid": pid or 0,
        "restart_lsn": str(Lsn(slot.restart_lsn)),
        "confirmed_flush_lsn": str(Lsn(slot.confirmed_lsn)),
        "two_phase": slot.two_phase,
        "two_phase_at": "" if two_phase_at is None else str(Lsn(two_phase_at)),
        "failover": slot.failover,
        "invalidation_reason": invalidation_of(path) or "",
        **{name: getattr(slot.statistics, name) for name in SlotStatistics.__dataclass_fields__},
    }


@command("slot advance", AdvanceFlags)
def advance_command(flags: AdvanceFlags) -> None:
    """Let a slot advance to an LSN without output; print where it stands then."""
    from headwater.cli.decode_source import source_of_slot
    from headwater.pipeline.slot_moves import state_at
    from headwater.slots.slot import SlotStatistics
    from headwater.slots.slot_directory import open_slot

    lsn = Lsn.parse(flags.lsn)
    with open_slot(flags.path) as opened:
        if lsn < opened.slot.confirmed_lsn:
            raise UsageError(
                f"cannot advance replication slot to {Lsn(lsn)}, minimum is {Lsn(opened.slot.confirmed_lsn)}"
            )
        source = source_of_slot(opened.slot, None)
        opened.write(opened.slot.advanced(state_at(source.requests[0], source.kept, lsn), SlotStatistics()))
        print(Lsn(opened.slot.confirmed_lsn))


@command("slot copy", CopyFlags)
def copy_command(flags: CopyFlags) -> None:
    """Make a slot TARGET that stands where PATH does."""
    from headwater.pipeline.requests.slot_request import kept_in_slot, request_of_slot
    from headwater.pipeline.slot_moves import check_request
    from headwater.slots.slot import Slot
    from headwater.slots.slot_directory import create_slot, open_slot

    with open_slot(flags.path) as opened:
        slot = opened.slot
    request = slot.request
    if flags.plugin is not None or flags.options:
        request = replace(request, plugin=flags.plugin or request.plugin, options=pairs(flags.options, "-o"))
    copied = Slot(request, slot.confirmed_lsn, slot.state, slot.two_phase, slot.failover)
    check_request(request_of_slot(copied), kept_in_slot(copied))
    create_slot(flags.target, copied)


@command("slot drop", SlotFlags)
def drop_command(flags: SlotFlags) -> None:
    """Remove a slot."""
    from headwater.slots.slot_directory import open_slot

    with open_slot(flags.path, may_be_invalid=True) as opened:
        opened.drop()


slot_command = CommandGroup(
    "slot",
    [create_command, list_command, show_command, advance_command, copy_command, drop_command],
    short_help="Make, list, show, advance, copy and drop slots.",
    help="Slots: a request, and how far it has been served. headwater decode --slot PATH goes on where one stands.",
)
