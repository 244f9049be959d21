"""``headwater subscription``: subscriptions listed, paused, enabled, set, refreshed, dropped, while they are applied.

What outlives processes is altered on the target, whoever applies the subscription; what a process does is asked of the
launcher, by its socket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.apply import apply_command, apply_file, parameter_value, request_with, values_of
from headwater.cli.config_file import FILE_IS_READ, Values
from headwater.cli.flags import PATH, CommandGroup, command, from_argument, from_flag, from_flags
from headwater.errors import ServerError, UsageError

if TYPE_CHECKING:
    from headwater.apply.incoming.requests import ApplyRequest

LISTED = ("subname", "state", "pid", "restarts", "received_lsn", "durable_lsn", "lag_bytes", "tables", "last_error")
"""What ``subscription list`` prints of each."""


@dataclass(frozen=True, kw_only=True)
class PlaceFlags:
    """The place of subscriptions: a file that says it, or the servers."""

    config: str | None = from_flag(
        "--config", type=PATH, metavar="FILE", help="File with [subscriptions.NAME], as of headwater apply."
    )
    directory: str | None = from_flag(
        "--directory", type=PATH, metavar="DIR", help="Directory of the launcher; default: as the file says."
    )
    target: str | None = from_flag(
        "--to", metavar="CONNINFO", help="Without --config: connection string or URI of the target."
    )
    source: str | None = from_flag(
        "--from", metavar="CONNINFO", help="Without --config: that of the publisher, to refresh or to drop."
    )


@dataclass(frozen=True, kw_only=True)
class ListFlags:
    """The flags of ``headwater subscription list``."""

    place: PlaceFlags = from_flags(PlaceFlags)
    as_json: bool = from_flag("--json", is_flag=True, help="As JSON.")


@dataclass(frozen=True, kw_only=True)
class NameFlags:
    """The argument and flags of a command about one subscription."""

    name: str = from_argument()
    place: PlaceFlags = from_flags(PlaceFlags)


@dataclass(frozen=True, kw_only=True)
class StatusFlags(NameFlags):
    """The argument and flags of ``headwater subscription status``."""

    as_json: bool = from_flag("--json", is_flag=True, help="As JSON.")


@dataclass(frozen=True, kw_only=True)
class RefreshFlags(NameFlags):
    """The argument and flags of ``headwater subscription refresh``."""

    copies_data: bool = from_flag(
        "--copy-data/--no-copy-data", is_flag=True, default=True, help="Copy the rows that new tables have already."
    )


@dataclass(frozen=True, kw_only=True)
class DropFlags(NameFlags):
    """The argument and flags of ``headwater subscription drop``."""

    keeps_slot: bool = from_flag("--keep-slot", is_flag=True, help="Leave the slot of the publisher.")
    if_exists: bool = from_flag("--if-exists", is_flag=True, help="Do nothing if there is no such subscription.")


@dataclass(frozen=True, kw_only=True)
class SetFlags(NameFlags):
    """The arguments and flags of ``headwater subscription set``."""

    parameters: Sequence[str] = from_argument(nargs=-1, metavar="[PARAMETER=VALUE]...", default=())
    resets: Sequence[str] = from_flag(
        "--reset", multiple=True, metavar="PARAMETER", help="Let the file, or the flag, say it again."
    )


@command("subscription list", ListFlags)
def list_command(flags: ListFlags) -> None:
    """List the subscriptions of a file, or of a target, with what their launcher says of them."""
    shown = [_with_table_counts(status) for status in _statuses(flags.place)]
    if flags.as_json:
        print(json.dumps(shown, indent=2))
        return
    texts = [LISTED, *([_plain(status.get(name)) for name in LISTED] for status in shown)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


@command("subscription status", StatusFlags)
def status_command(flags: StatusFlags) -> None:
    """Show all that is known of a subscription NAME: its workers, its tables, how far it is, its errors."""
    statuses = [status for status in _statuses(flags.place, flags.name) if status["subname"] == flags.name]
    if not statuses:
        raise _missing(flags.name)
    if flags.as_json:
        print(json.dumps(statuses[0], indent=2))
        return
    for name, value in statuses[0].items():
        print(f"{name}: {_plain(value)}")


@command("subscription pause", NameFlags)
def pause_command(flags: NameFlags) -> None:
    """End the process of a subscription NAME until it is resumed, or its launcher starts again."""
    _ask(flags, "pause")


@command("subscription resume", NameFlags)
def resume_command(flags: NameFlags) -> None:
    """Let a subscription NAME go on that was paused, has failed, or waits for its next start."""
    _ask(flags, "resume")


@command("subscription restart", NameFlags)
def restart_command(flags: NameFlags) -> None:
    """End the process of a subscription NAME, and start the next one at once."""
    _ask(flags, "restart")


@command("subscription enable", NameFlags)
def enable_command(flags: NameFlags) -> None:
    """Enable a subscription NAME, as ALTER SUBSCRIPTION does."""
    from headwater.apply.launcher.altering import enable

    enable(_request(flags), is_enabled=True)
    with suppress(ServerError):  # The launcher, if there is one, may have another file.
        _asked(flags, "wake")


@command("subscription disable", NameFlags)
def disable_command(flags: NameFlags) -> None:
    """Disable a subscription NAME: whoever applies it ends within a second or two, and nobody begins."""
    from headwater.apply.launcher.altering import enable

    enable(_request(flags), is_enabled=False)


@command("subscription refresh", RefreshFlags)
def refresh_command(flags: RefreshFlags) -> None:
    """Take the tables that the publications of a subscription NAME have now."""
    from headwater.apply.launcher.altering import refresh_enabled
    from headwater.cli.process.applying import saying

    refresh_enabled(_request(flags, needs_source=True, copies_data=flags.copies_data), saying())


@command("subscription set", SetFlags)
def set_command(flags: SetFlags) -> None:
    """Set parameters of a subscription NAME, such as streaming=off or publication=p, without losing its place.

    They are flags of headwater apply. What is set goes before the file and before flags, until it is reset.
    """
    from headwater.apply.launcher.altering import change

    values: dict[str, list[str]] = {}
    for text in flags.parameters:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f'"{text}" is no PARAMETER=VALUE')
        values.setdefault(name.replace("_", "-"), []).append(value)
    resets = [name.replace("_", "-") for name in flags.resets]
    if not values and not resets:
        raise UsageError("nothing is to be set", hint="give PARAMETER=VALUE, or --reset PARAMETER")
    parameters = tuple((name, tuple(texts)) for name, texts in values.items())
    for name, texts in parameters:
        parameter_value(name, texts)
    request = _request(flags, parameters=parameters)
    change(request, {name: list(texts) for name, texts in parameters}, resets)


@command("subscription drop", DropFlags)
def drop_command(flags: DropFlags) -> None:
    """Drop a subscription NAME: its slot on the publisher, its origins and states on the target; tables stay."""
    from headwater.apply.launcher.altering import drop
    from headwater.cli.process.applying import saying

    say = saying()
    try:
        request = _request(flags, needs_source=not flags.keeps_slot)
        with _held(flags):
            drop(request, say, keeps_slot=flags.keeps_slot)
    except ServerError as error:
        if not (flags.if_exists and error.sqlstate == "42704" and error.message == _missing(flags.name).message):
            raise
        say(f"{error.message}, skipping")


@contextmanager
def _held(flags: NameFlags) -> Iterator[None]:
    """Let a launcher, if there is one, not start a subscription that is dropped in the ``with`` block."""
    state = next((each["state"] for each in _asked(flags, "list") if each["subname"] == flags.name), None)
    if state is not None:
        _asked(flags, "pause")
    try:
        yield
    except BaseException:
        if state not in (None, "paused", "dropped"):
            _asked(flags, "resume")
        raise
    if state is not None:
        _asked(flags, "forget")


def _missing(name: str) -> ServerError:
    from headwater.apply.progress.standing import missing

    return missing(name)


def _request(flags: NameFlags, *, needs_source: bool = False, parameters: Any = (), **changes: object) -> ApplyRequest:
    """Return what is applied, as the file has it, or the target and the publisher have it.

    Args:
        flags: the command's; needs_source: the publisher is asked something.
        parameters: that are set; changes: of the values of flags.
    """
    place = flags.place
    if place.config is not None:
        context = click.Context(apply_command, info_name="apply")
        values: Values = values_of(context, apply_file(place.config), flags.name)
    else:
        values = _values_on_target(place, flags.name, needs_source=needs_source)
    return request_with({**values, **changes}, parameters)


def _values_on_target(place: PlaceFlags, name: str, *, needs_source: bool) -> Values:
    """Return values by which a subscription is altered that no file has."""
    from headwater.apply.launcher.standings import read_places

    if place.target is None:
        raise UsageError("the subscription's place is missing", hint="give --config, or --to")
    if needs_source and place.source is None:
        raise UsageError("the publisher is missing", hint="give --from, or --config")
    slot, publications = read_places(place.target, name)
    values = apply_command.make_context("apply", [], obj=FILE_IS_READ).params
    more = {"target": place.target, "source": place.source or "", "subscription": name}
    return {**values, **more, "slot": slot, "publications": publications}


def _directory(place: PlaceFlags) -> Path:
    """Return the directory of the launcher."""
    if place.directory is not None:
        return Path(place.directory)
    if place.config is None:
        raise UsageError("the launcher's place is missing", hint="give --config, or --directory")
    context = click.Context(apply_command, info_name="apply")
    named = values_of(context, apply_file(place.config), None)["directory"]
    return Path(named or f"{place.config}.run")


def _ask(flags: NameFlags, asked: str) -> None:
    from headwater.apply.launcher.control_socket import ask_launcher

    ask_launcher(_directory(flags.place), asked, flags.name)


def _asked(flags: NameFlags, command: str) -> list[dict[str, Any]]:
    """Ask the launcher, if there is one; else nothing comes back."""
    from headwater.apply.launcher.control_socket import LauncherMissingError, ask_launcher

    if flags.place.config is None and flags.place.directory is None:
        return []
    try:
        return ask_launcher(_directory(flags.place), command, flags.name)
    except LauncherMissingError:
        return []


def _statuses(place: PlaceFlags, name: str | None = None) -> list[dict[str, Any]]:
    """Return what the launcher says; of targets what they say, where none runs."""
    from headwater.apply.launcher.control_socket import LauncherMissingError, ask_launcher
    from headwater.apply.launcher.standings import standings_of

    if place.config is None and place.directory is None:
        if place.target is None:
            raise UsageError("the subscriptions' place is missing", hint="give --config, --directory, or --to")
        return standings_of(place.target, name)
    try:
        return ask_launcher(_directory(place), "list")
    except LauncherMissingError:
        if place.config is None:
            raise
    file, context = apply_file(place.config), click.Context(apply_command, info_name="apply")
    names = file.subscriptions if name is None else [name]
    return [status for each in names for status in _standings(request_with(values_of(context, file, each)))]


def _standings(request: ApplyRequest) -> list[dict[str, Any]]:
    """Return what the target of a subscription says of it; why not, if it does not say anything."""
    from headwater.apply.launcher.standings import standings_of

    try:
        return standings_of(request.target, request.subscription)
    except ServerError as error:
        return [{"subname": request.subscription, "state": "unknown", "last_error": error.one_line()}]


def _with_table_counts(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status with how many tables are ready, of how many, in place of them."""
    tables = status.get("tables", ())
    ready = sum(table["srsubstate"] == "r" for table in tables)
    return {**status, "tables": f"{ready}/{len(tables)}"}


def _plain(value: object) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value)
    return "" if value is None else "yes" if value is True else "no" if value is False else str(value)


subscription_command = CommandGroup(
    "subscription",
    [
        *(list_command, status_command, pause_command, resume_command, restart_command, enable_command),
        *(disable_command, refresh_command, set_command, drop_command),
    ],
    short_help="List, pause, enable, set, refresh and drop subscriptions.",
    help="Subscriptions of headwater apply: listed, and altered while they are applied.",
)
