"""``headwater apply``: changes of a source, applied to the tables of a PostgreSQL target."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from headwater.cli.config_file import FILE_IS_READ, SUBSCRIPTIONS, ConfigFile, Values, config_flag
from headwater.cli.flags import PATH, command, from_flag, from_flags, value_of
from headwater.cli.shared_flags import (
    ConflictFlags,
    DefinitionFlags,
    EngineFlags,
    MapFlags,
    ParallelFlags,
    RefusalFlags,
    SourceFlags,
)
from headwater.errors import UsageError

if TYPE_CHECKING:
    from headwater.apply.incoming.requests import ApplyRequest, WalSlot
    from headwater.apply.launcher.launch import Launch
    from headwater.apply.progress.standing import Parameters
    from headwater.remote_slots.slot_address import SlotAddress


OF_ALL = ("config", "directory", "max-connections", "http", "subscription", "refresh", "dry-run")
"""Flags that a table of one subscription does not have."""


@dataclass(frozen=True, kw_only=True)
class LaunchFlags:
    """The flags of many subscriptions in one process tree, and of its status."""

    config: str | None = config_flag()
    directory: str | None = from_flag(
        "--directory",
        type=PATH,
        metavar="DIR",
        help="With [subscriptions.NAME] in --config: directory of the launcher's socket and locks, which is made if it "
        "is missing; default: that of the file, with .run behind its name.",
    )
    max_connections: int | None = from_flag(
        "--max-connections",
        type=click.IntRange(1),
        metavar="N",
        help="Sessions at most that all subscriptions of --config have on a target, those of copies, and of what is "
        "applied ahead of its end, included; default: no limit.",
    )
    http: str | None = from_flag(
        "--http",
        metavar="HOST:PORT",
        help="Show the status there: /status as JSON, /healthz, and /metrics for Prometheus, with headwater[metrics].",
    )


@dataclass(frozen=True, kw_only=True)
class ApplyFlags:
    """The flags of ``headwater apply``."""

    source: str | None = from_flag(
        "--from",
        metavar="CONNINFO",
        help="Connection string or URI of the publisher, or of headwater serve; the role needs REPLICATION.",
    )
    log: SourceFlags = from_flags(SourceFlags, without=("start", "end"), optional=("wal", "catalog"))
    slots: str | None = from_flag(
        "--slots",
        type=PATH,
        metavar="DIR",
        help="With --wal: directory of slots, in which the subscription's is, and is made.",
    )
    target: str | None = from_flag(
        "--to", metavar="CONNINFO", help="Connection string or URI of the server to apply to."
    )
    publications: Sequence[str] = from_flag(
        "--publication", multiple=True, metavar="NAME", help="Publication whose tables are applied."
    )
    subscription: str = from_flag(
        "--subscription",
        default="headwater",
        show_default=True,
        metavar="NAME",
        help="Name of what is applied: of its origin headwater_NAME on the target, and of its slot. With "
        "[subscriptions.NAME] in --config: that one alone.",
    )
    slot: str | None = from_flag("--slot", metavar="NAME", help="Slot of the publisher; default: the subscription's.")
    creates_slot: bool = from_flag(
        "--create-slot/--no-create-slot",
        is_flag=True,
        default=True,
        help="Make the slot at the first start; one must not be there.",
    )
    copies_data: bool = from_flag(
        "--copy-data/--no-copy-data",
        is_flag=True,
        default=True,
        help="Copy rows that tables have already, at their first start.",
    )
    refreshes: bool = from_flag(
        "--refresh",
        is_flag=True,
        help="Take the tables that the publications have now, also beside a run, and end. Each start does it, too.",
    )
    max_sync_workers: int = from_flag(
        "--max-sync-workers",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        metavar="N",
        help="Tables that are copied at a time, each by a slot of its own; also of all subscriptions of --config "
        "together.",
    )
    copy_connections: int = from_flag(
        "--copy-connections",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        metavar="N",
        help="Connections in which a table is copied that has more blocks than a range; each has an origin.",
    )
    range_blocks: int = from_flag(
        "--range-blocks",
        type=click.IntRange(1),
        default=8192,
        show_default=True,
        metavar="N",
        help="Blocks of a table that are copied in one transaction, if it has more.",
    )
    binary: bool = from_flag("--binary", is_flag=True, help="Ask for values in binary form.")
    streaming: str | None = from_flag(
        "--streaming",
        type=click.Choice(("off", "on", "parallel")),
        help="Large transactions are sent before they end, and spooled (on) or applied ahead of their end (parallel); "
        "default: that of CREATE SUBSCRIPTION on the target.",
    )
    parallel_workers: int = from_flag(
        "--max-parallel-apply-workers",
        type=click.IntRange(0, 1024),
        default=2,
        show_default=True,
        metavar="COUNT",
        help="Most sessions on the target for transactions that are applied ahead of their end.",
    )
    scratch: str | None = from_flag(
        "--scratch", type=PATH, metavar="DIR", help="Directory for streamed transactions that do not fit into memory."
    )
    two_phase: bool = from_flag(
        "--two-phase", is_flag=True, help="Apply prepared transactions at PREPARE; the slot has to be made so, too."
    )
    fails_over: bool | None = from_flag(
        "--failover/--no-failover",
        is_flag=True,
        default=None,
        help="Let standbys of the publisher, from 17 on, synchronize the slot; default: not, or as it is.",
    )
    accepts_divergence: bool = from_flag(
        "--accept-divergence",
        is_flag=True,
        help="Go on where the publisher has failed over, and lacks what the target has: with a warning, from where "
        "that begins.",
    )
    origin: str = from_flag(
        "--origin",
        type=click.Choice(("any", "none")),
        default="any",
        show_default=True,
        help="none: only changes that were made on the publisher itself.",
    )
    synchronous_commit: str = from_flag(
        "--synchronous-commit",
        type=click.Choice(("off", "local", "on", "remote_write", "remote_apply")),
        default="off",
        show_default=True,
        help="Of the sessions on the target; what is confirmed to the publisher is durable in any case.",
    )
    end: str | None = from_flag("--end", metavar="LSN", help="Stop once all up to there is durable; default: go on.")
    retry_seconds: float = from_flag(
        "--retry-interval",
        type=click.FloatRange(0),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="An attempt begins no sooner after the last one.",
    )
    batches: bool = from_flag(
        "--batches/--no-batches",
        is_flag=True,
        default=True,
        show_default=True,
        help="Apply several transactions of the source as one, where that comes to the same.",
    )
    tasks: EngineFlags = from_flags(EngineFlags)
    parallel: ParallelFlags = from_flags(ParallelFlags)
    definitions: DefinitionFlags = from_flags(DefinitionFlags)
    refusals: RefusalFlags = from_flags(RefusalFlags)
    maps: MapFlags = from_flags(MapFlags)
    conflict_flags: ConflictFlags = from_flags(ConflictFlags)
    launch: LaunchFlags = from_flags(LaunchFlags)
    run_as_owner: str | None = from_flag(
        "--run-as-owner",
        type=click.Choice(("on", "off")),
        help="on: apply as the role of --to; off: as the owner of each table, by SET ROLE; default: as a subscription "
        "of the target's version does, off from 16 on.",
    )


@command("apply", ApplyFlags)
def apply_command(flags: ApplyFlags) -> int | None:
    """Apply what a publisher sends to the tables of a PostgreSQL server, as a subscription does.

    Goes on until it is interrupted; a lost connection is tried again. How far it is the target keeps, in a replication
    origin: nothing is lost and nothing applied twice, whatever is killed.

    With tables [subscriptions.NAME] in the file of --config each of them is applied, by a process of its own. SIGHUP
    reads the file anew.
    """
    from headwater.apply.table_sync.subscribing import refresh_now
    from headwater.cli.process.applying import launched_run, run_alone, run_launched, run_launcher, saying

    context = click.get_current_context()
    if (launched := launched_run()) is not None:
        gc.freeze()
        run_launched(launched, lambda parameters: request_with(launched.order["values"], parameters))
        return None
    values = {name: value for name, value in context.params.items() if name != "config"}
    if flags.launch.config is not None and (file := apply_file(flags.launch.config)).subscriptions:
        own = context.get_parameter_source("subscription")
        if own not in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
            if flags.refreshes:
                raise UsageError("--refresh is of one subscription", hint="--subscription names it")
            run_launcher(lambda: launch_of(context, apply_file(file.path)), launch_of(context, file))
            return None
        launch_of(context, file)
        values = values_of(context, file, flags.subscription)
    if flags.refusals.is_dry:
        return _run_dry(request_with(values))
    if flags.refreshes:
        refresh_now(request_with(values), saying())
    else:
        # What the program consists of stays: the collector need not look through it again and again.
        gc.freeze()
        run_alone(lambda parameters: request_with(values, parameters), flags.launch.http)
    return None


def apply_file(path: str) -> ConfigFile:
    """Read a file that has what is to be applied, or other commands' flags, too."""
    return ConfigFile(path, ("apply", "serve"))


def launch_of(context: click.Context, file: ConfigFile) -> Launch:
    """Return what a launcher is to run; all of it is checked.

    Args:
        context: of the command that was given; file: with the subscriptions.

    Raises:
        UsageError: something is wrong; with its place in the file, if that is known.
    """
    from headwater.apply.launcher.control_socket import PLACES
    from headwater.apply.launcher.launch import Launch, Launched
    from headwater.apply.launcher.shared_limits import limited

    if not file.subscriptions:
        raise UsageError("there is no [subscriptions.NAME]", file=file.path)
    common = value_of(ApplyFlags, values_of(context, file, None))
    directory = Path(common.launch.directory or f"{file.path}.run")
    values = {name: values_of(context, file, name) for name in file.subscriptions}
    requests = {name: _request_in(file, name, own) for name, own in values.items()}
    _check_slots(file, requests)
    requests = limited(requests, directory / PLACES, common.launch.max_connections, common.max_sync_workers)
    subscriptions = {name: Launched(name, values[name], request) for name, request in requests.items()}
    return Launch(subscriptions, directory, common.launch.http)


def _check_slots(file: ConfigFile, requests: Mapping[str, ApplyRequest]) -> None:
    """See that no two subscriptions have one slot of one source."""
    taken: dict[tuple[str, str], str] = {}
    for name, request in requests.items():
        source = request.slot.conninfo if request.wal is None else str(request.wal.slots)
        other = taken.setdefault((source, request.slot.slot), name)
        if other != name:
            raise file.wrong(
                f'the slot "{request.slot.slot}" is that of subscription "{other}" already', (SUBSCRIPTIONS, name)
            )


def _request_in(file: ConfigFile, name: str, values: Values) -> ApplyRequest:
    try:
        return request_with(values)
    except UsageError as error:
        wrong = file.wrong(error.message, (SUBSCRIPTIONS, name))
        raise UsageError(wrong.message, file=wrong.file, hint=error.hint) from None


def values_of(context: click.Context, file: ConfigFile, name: str | None) -> Values:
    """Return the values of all flags for a subscription of a file, or what all of them have in common.

    Flags that were given go before variables, these before the subscription's table, that before ``[apply]``.

    Raises:
        UsageError: there is no such subscription, or something is wrong in the file.
    """
    if name is not None and name not in file.subscriptions:
        raise UsageError(f'subscription "{name}" does not exist', file=file.path)
    defaults = file.values(("apply",), apply_command, ("config", "subscription"))
    if name is not None:
        defaults |= file.values((SUBSCRIPTIONS, name), apply_command, OF_ALL)
    values = apply_command.make_context("apply", [], default_map=defaults, obj=FILE_IS_READ).params
    for given, value in context.params.items():
        if given in values and context.get_parameter_source(given) == ParameterSource.COMMANDLINE:
            values[given] = value
    if name is not None:
        values["subscription"] = name
    return {given: value for given, value in values.items() if given != "config"}


NOT_SET = frozenset(
    ("from", "to", "subscription", "slot", "slots", "create-slot", "two-phase", "refresh", "end", "config", "directory")
    + ("max-connections", "http", "wal", "timeline", "storage-option", "catalog", "database", "server-version")
    + ("engine", "master", "scratch", "enable", "skip-lsn", "retry-dead-letters", "resume-tables", "dry-run")
)
"""Flags that are no parameters of a subscription's which can be set: places, and what holds for a process."""


def parameter_value(name: str, texts: Sequence[str]) -> tuple[str, object]:
    """Return a parameter that was set as the value of the command's: its name for click, and the value.

    Raises:
        UsageError: there is no such parameter, or it does not take that.
    """
    flags = {flag.opts[0][2:]: flag for flag in apply_command.params if isinstance(flag, click.Option)}
    flag = None if name in NOT_SET else flags.get(name)
    if flag is None:
        raise UsageError(f'unrecognized subscription parameter: "{name}"')
    if len(texts) != 1 and not flag.multiple:
        raise UsageError(f'parameter "{name}" has one value')
    context = click.Context(apply_command, info_name="apply")
    try:
        if flag.is_flag:
            return str(flag.name), click.BOOL.convert(texts[0], flag, context)
        return str(flag.name), flag.type_cast_value(context, list(texts) if flag.multiple else texts[0])
    except click.BadParameter as error:
        raise UsageError(f'parameter "{name}": {error.message}') from None


def request_with(values: Values, parameters: Parameters = ()) -> ApplyRequest:
    """Return the request of values of the command's, and of parameters that were set, which go before.

    Raises:
        UsageError: they contradict each other, or something is missing.
    """
    changes = dict(parameter_value(name, texts) for name, texts in parameters)
    return request_of(value_of(ApplyFlags, {**values, **changes}))


def request_of(flags: ApplyFlags) -> ApplyRequest:
    """Return the request of flags.

    Raises:
        UsageError: they contradict each other, or something is missing.
    """
    from headwater.apply.incoming.requests import ApplyRequest
    from headwater.cli.output.message_output import check_scratch
    from headwater.pg.lsn import Lsn
    from headwater.remote_slots.slot_address import SlotAddress

    if flags.target is None:
        raise UsageError("the target is missing", hint="give --to")
    if not flags.publications:
        raise UsageError("the publications are missing", hint="give --publication")
    check_scratch(flags.scratch)
    slot = SlotAddress(
        conninfo=flags.source or "",
        slot=flags.slot or flags.subscription,
        publications=tuple(dict.fromkeys(flags.publications)),
        creates_slot=flags.creates_slot,
        two_phase=flags.two_phase,
    )
    return ApplyRequest(
        slot=slot,
        target=flags.target,
        subscription=flags.subscription,
        wal=_wal_slot(flags, slot),
        binary=flags.binary,
        streaming=flags.streaming,
        parallel_workers=flags.parallel_workers,
        scratch=None if flags.scratch is None else Path(flags.scratch),
        origin=flags.origin,
        synchronous_commit=flags.synchronous_commit,
        end=None if flags.end is None else int(Lsn.parse(flags.end)),
        retry_seconds=flags.retry_seconds,
        disables_on_error=flags.refusals.disables_on_error,
        refusals=flags.refusals.options(),
        batches=flags.batches,
        run_as_owner=None if flags.run_as_owner is None else flags.run_as_owner == "on",
        fails_over=flags.fails_over,
        accepts_divergence=flags.accepts_divergence,
        copies_data=flags.copies_data,
        max_sync_workers=flags.max_sync_workers,
        copy_connections=flags.copy_connections,
        range_blocks=flags.range_blocks,
        definitions=flags.definitions.request(),
        maps=flags.maps.rules(),
        delay_seconds=flags.maps.delay_seconds,
        conflicts=flags.conflict_flags.rules(two_phase=flags.two_phase),
        parallel=flags.parallel.options(),
    )


def _run_dry(request: ApplyRequest) -> int:
    """Print what would be refused, and return the exit status."""
    from headwater.apply.dry_run import dry_run
    from headwater.pg.lsn import Lsn

    findings = dry_run(request, click.echo)
    click.echo(
        f"{findings.transactions} transactions up to {Lsn(findings.reached)}: {findings.refusals} changes refused, "
        f"{findings.conflicts} of rows that are not there"
    )
    return 3 if findings.refusals or findings.conflicts else 0


def _wal_slot(flags: ApplyFlags, slot: SlotAddress) -> WalSlot | None:
    """Return the slot over WAL at hand; None where the source is a server.

    Raises:
        UsageError: flags contradict each other, or one is missing.
    """
    if not flags.log.wal:
        flags.definitions.check_of_server()
        if flags.source is None:
            raise UsageError("the source is missing", hint="give --from, or --wal with --catalog and --slots")
        return None
    if flags.source is not None:
        raise UsageError("--from and --wal are two sources", hint="give one of them")
    if flags.fails_over is not None:
        raise UsageError("--failover is of a server's slot", hint="leave it out with --wal")
    if flags.log.catalog is None or flags.slots is None:
        raise UsageError("--wal needs --catalog and --slots")
    from headwater.apply.incoming.requests import WalSlot
    from headwater.apply.incoming.wal_options import SETTINGS, wal_options
    from headwater.cli.shared_flags import session_settings

    options = wal_options(slot.publications, two_phase=slot.two_phase, binary=flags.binary, origin=flags.origin)
    settings = (*SETTINGS, *session_settings(server_version=flags.log.server_version))
    request = flags.log.request(
        settings,
        plugin="pgoutput",
        options=options,
        two_phase=slot.two_phase,
        slot=slot.slot,
        makes_slot=True,
        with_definitions=flags.definitions.request().are_followed,
        with_ddl=flags.definitions.ddl != "ignore",
    )
    engine = partial(flags.tasks.choose, lambda *_: None)
    return WalSlot(request, Path(flags.slots), slot.slot, engine, flags.tasks.bulk_bytes)
