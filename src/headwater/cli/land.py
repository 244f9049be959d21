"""``headwater land``: WAL into typed tables of Parquet, Delta or Iceberg, once or as the WAL grows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.config_file import config_flag, settings_in
from headwater.cli.flags import TARGET, Age, command, from_choice, from_flag, from_flags
from headwater.cli.process.setup import printing_aside
from headwater.cli.shared_flags import (
    EngineFlags,
    SourceFlags,
    exclude_flag,
    mask_secret,
    parsed_lsn,
    secret_flag,
    session_settings,
    storage_pairs,
    tables_flag,
    window_flag,
)
from headwater.errors import UsageError
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from headwater.jobs.engine import Engine
    from headwater.jobs.outcome import Progress
    from headwater.lakes.landing_target import LandingTarget
    from headwater.lakes.stores.places import Where
    from headwater.landing.landing_pass import LandingResult
    from headwater.landing.upkeep import UpkeepOptions
    from headwater.pipeline.windows.commit_pace import CommitPace
    from headwater.pipeline.windows.following import Following
    from headwater.wal.segments.place import WalSource

SOME_ARE_PAUSED = 3
"""Exit status of a run that has landed all but tables that are paused."""


@dataclass(frozen=True)
class RuleFlags:
    """The rules by which tables take what lands.

    ``on_table_error`` is as :func:`headwater.landing.landing.land` takes it.
    """

    client_encoding: str | None = from_flag(
        "--client-encoding",
        metavar="NAME",
        help="Encoding that text of a database in SQL_ASCII is in; default: UTF8. In the lake it is always UTF8.",
    )
    on_unrepresentable: str = from_choice(
        "--on-unrepresentable",
        "error",
        "null",
        "string",
        "bytes",
        help="What becomes of values that a column cannot hold; string: columns of such types are text, and text that "
        "is no UTF-8 is escaped; bytes: columns of text are bytes.",
    )
    jsonb: str = from_choice(
        "--jsonb",
        "string",
        "variant",
        help="What columns of jsonb are; variant: VARIANT, which Spark's own writers have.",
    )
    schema_evolution: str = from_choice(
        "--schema-evolution",
        "evolve",
        "fail",
        "split",
        help="When a table gets other columns: let those of the lake follow, stop, or begin another table.",
    )
    on_table_replaced: str = from_choice(
        "--on-table-replaced",
        "follow",
        "new",
        "error",
        help="When another table gets the name of one that lands: go on with its rows, let it land beside, or stop.",
    )
    on_table_error: str | None = from_flag(
        "--on-table-error",
        type=click.Choice(["stop", "pause"]),
        help="When a table cannot go on: stop, or pause it and let the others land (default with --follow). headwater "
        "lake resume and reload bring it back. The exit status is 3 when tables are paused at the end.",
    )
    follow_oid: bool = from_flag(
        "--follow-oid", is_flag=True, help="Mirrors stay with a table that is renamed; else with the name."
    )
    secret_file: str | None = secret_flag()

    def applied(self, target: LandingTarget) -> LandingTarget:
        """Return a target with these rules; jsonb is as it was."""
        return replace(
            target,
            on_unrepresentable=self.on_unrepresentable,
            schema_evolution=self.schema_evolution,
            on_table_replaced=self.on_table_replaced,
            follows_oid=self.follow_oid,
            mask_secret=mask_secret(self.secret_file),
        )


progress_flag = partial(
    from_choice,
    "--progress",
    *("auto", "json", "none"),
    help="On standard error: a bar on a terminal, else lines now and then; or an object of JSON a window, one a line.",
)
quiet_flag = partial(
    from_flag, "-q", "--quiet", is_flag=True, help="Do not show progress, nor what has landed at the end."
)
landing_window_flag = partial(window_flag, help="WAL that is committed at a time.")


@dataclass(frozen=True, kw_only=True)
class LandFlags:
    """The flags of ``headwater land``."""

    source: SourceFlags = from_flags(SourceFlags, without=("start",), optional=("catalog",))
    tables: Sequence[str] = tables_flag(help="Only these tables.")
    exclude: Sequence[str] = exclude_flag()
    to: str = from_flag(
        "--to",
        type=TARGET,
        required=True,
        metavar="DIR|ADDRESS",
        help="Where the tables are: a directory, or a folder in a store (s3://BUCKET/FOLDER).",
    )
    form: str = from_choice("--format", "parquet", "delta", "iceberg", "ducklake", help="Of the tables.")
    iceberg_catalog: str | None = from_flag(
        "--iceberg-catalog",
        metavar="NAME",
        help="Catalog in pyiceberg's configuration; default: a file of SQLite in the directory.",
    )
    table_location: str = from_choice(
        "--table-location",
        "target",
        "catalog",
        help="Where Iceberg's tables lie: in --to, or where the catalog of --iceberg-catalog lets them.",
    )
    ducklake_catalog: str | None = from_flag(
        "--ducklake-catalog",
        metavar="sqlite:PATH|duckdb:PATH|postgres:CONNINFO",
        help="Database of DuckLake's catalog; default: a file of SQLite in the directory.",
    )
    catalog_impl: str = from_choice(
        "--catalog-impl",
        "python",
        "spark",
        help="Who writes: libraries of Python, without a JVM; or the connector that Spark is configured with.",
    )
    namespace: str | None = from_flag(
        "--namespace",
        metavar="NAME",
        help="Of all tables in that catalog; default: the source's schemas. Of Spark's: CATALOG, or CATALOG.NAMESPACE.",
    )
    mode: str = from_choice(
        "--mode",
        "changelog",
        "current",
        "history",
        help="What the tables hold: every change as a row; the source's rows; these with all versions that they have "
        "had.",
    )
    snapshot: str = from_choice(
        "--snapshot",
        "initial",
        "never",
        help="Whether rows land that tables had when the base backup was taken, before their changes.",
    )
    write_mode: str = from_choice(
        "--write-mode",
        "copy-on-write",
        "merge-on-read",
        help="How rows leave a mirror's files: these are written anew, or the rows are deleted beside them (mirrors "
        "and histories), so that a window costs what it changes.",
    )
    rewrite_budget: int = from_flag(
        "--rewrite-budget",
        type=click.IntRange(0),
        default=64 << 20,
        show_default=True,
        metavar="BYTES",
        help="With merge-on-read: how much of a table a window may write anew, to fold away what was deleted and put "
        "small files together.",
    )
    rules: RuleFlags = from_flags(RuleFlags)
    window_bytes: int = landing_window_flag()
    follow: bool = from_flag(
        "--follow",
        is_flag=True,
        help="Go on as the WAL grows. SIGINT or SIGTERM ends it behind the present window, a second one at once.",
    )
    server: str | None = from_flag(
        "--from",
        metavar="CONNINFO",
        help="With --follow: receive the WAL of this server, as headwater receive does, into the first --wal, from the "
        "backup's start on.",
    )
    receive_slot: str | None = from_flag(
        "--receive-slot", metavar="NAME", help="With --from: physical slot, made if it is missing."
    )
    poll_seconds: float = from_flag(
        "--poll-seconds",
        type=click.FloatRange(0.01),
        default=1.0,
        show_default=True,
        metavar="SECONDS",
        help="With --follow: look for WAL so often where nothing tells that it comes (stores, shared directories).",
    )
    commit_every: float = from_flag(
        "--commit-every",
        type=click.FloatRange(0),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="With --follow: begin commits so far apart, and commit together what comes meanwhile; 0 for at once.",
    )
    commit_bytes: int = from_flag(
        "--commit-bytes",
        type=click.IntRange(1),
        default=64 << 20,
        show_default=True,
        metavar="BYTES",
        help="With --follow: do not wait with so much WAL, or of a slot's stream.",
    )
    maintain: timedelta | None = from_flag(
        "--maintain",
        type=Age(),
        metavar="AGE",
        help="With --follow: put small files of change tables together, and remove versions that are older, such as "
        "7d; a piece at a time, where nothing is to be landed. Default: left to headwater compact and expire.",
    )
    maintain_every: float = from_flag(
        "--maintain-every",
        type=click.FloatRange(0),
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="With --maintain: look at all tables so often.",
    )
    progress: str = progress_flag()
    metrics: str | None = from_flag(
        "--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there. Needs headwater[metrics]."
    )
    tasks: EngineFlags = from_flags(EngineFlags)
    config: str | None = config_flag()
    stats_json: bool = from_flag(
        "--stats-json", is_flag=True, help="Print what has landed, and how long each step took, as JSON."
    )
    quiet: bool = quiet_flag()

    @property
    def pace(self) -> CommitPace:
        """The pace of commits where the log is followed."""
        from headwater.pipeline.windows.commit_pace import CommitPace

        return CommitPace(self.commit_every, self.commit_bytes)

    @property
    def upkeep(self) -> UpkeepOptions | None:
        """The upkeep of tables where the log is followed."""
        from headwater.landing.upkeep import UpkeepOptions

        return None if self.maintain is None else UpkeepOptions(self.maintain, self.maintain_every)

    @property
    def where(self) -> Where:
        """The place where the changes land.

        Raises:
            UsageError: it is of no store that can be written to, or of none that all workers could write to.
        """
        from headwater.lakes.stores.places import place_of

        where = place_of(self.to, storage_pairs(self.source.storage_options))
        require_near(where, self.tasks)
        return where

    @property
    def target(self) -> LandingTarget:
        """The place where the changes land, and how."""
        from headwater.lakes.landing_target import LandingTarget

        return self.rules.applied(
            LandingTarget(
                self.where,
                self.form,
                mode=self.mode,
                iceberg_catalog=self.iceberg_catalog,
                namespace=self.namespace,
                snapshot=self.snapshot,
                catalog_impl=self.catalog_impl,
                jsonb=self.rules.jsonb,
                write_mode=self.write_mode,
                rewrite_budget=self.rewrite_budget,
                tables=settings_in(self.config),
                table_location=self.table_location,
                ducklake_catalog=self.ducklake_catalog,
            )
        )


@command("land", LandFlags)
def land_command(flags: LandFlags) -> int:
    """Land the changes of WAL in typed tables, each once, from where the last run has come to."""
    from headwater.remote_slots.slot_address import is_server_address

    if flags.follow and flags.source.end is not None:
        raise UsageError("--follow goes on for ever, --end ends", hint="leave one of them out")
    if flags.server is not None and not flags.follow:
        raise UsageError(
            "--from receives WAL as it is written", hint="use --follow, or headwater receive --end LSN first"
        )
    if flags.maintain is not None and not flags.follow:
        raise UsageError(
            "--maintain is of a run that goes on", hint="use --follow, or headwater compact and headwater expire"
        )
    if flags.receive_slot is not None and flags.server is None:
        raise UsageError("--receive-slot is of the server that --from names")
    if any(map(is_server_address, flags.source.wal)):
        return _land_slot(flags)
    if flags.source.catalog is None:
        raise UsageError("missing option --catalog", hint="only a slot's address (--wal postgresql://...) needs none")
    return _land_wal(flags)


def _land_wal(flags: LandFlags) -> int:
    """Land WAL, and return the exit status."""
    from headwater.cli.process.land_metrics import serve_metrics
    from headwater.cli.process.landing_progress import landing_progress
    from headwater.landing.landing import land
    from headwater.landing.landing_watch import SeveralWatch
    from headwater.pipeline.windows.run_index import WindowBounds
    from headwater.plugins.table_patterns import TablePatterns

    request = flags.source.beside(flags.where).request(
        session_settings((), flags.rules.client_encoding, flags.source.server_version),
        tables=TablePatterns.parse(flags.tables, flags.exclude),
    )
    _check_catalog(flags)
    target = flags.target
    with ExitStack() as stack:
        stack.enter_context(printing_aside())
        kind = "none" if flags.quiet else flags.progress
        progress, watch = stack.enter_context(landing_progress(kind, flags.follow))
        metrics = stack.enter_context(serve_metrics(flags.metrics))
        following = stack.enter_context(_following(request.source, flags))
        began = time.perf_counter()
        engine = landing_engine(flags.tasks, target.catalog_impl, progress)
        started = time.perf_counter()
        watches, bounds = SeveralWatch([watch, metrics]), WindowBounds(flags.window_bytes)
        pauses = flags.rules.on_table_error
        result = land(engine, request, target, progress, bounds, following, watches, pauses, flags.upkeep)
    startup = started - began + engine.startup_seconds
    return _told(flags, result, startup, time.perf_counter() - began - startup)


def _land_slot(flags: LandFlags) -> int:
    """Land the changes of a slot, and return the exit status."""
    from headwater.cli.process.land_metrics import serve_metrics
    from headwater.cli.process.landing_progress import landing_progress
    from headwater.cli.process.signals import heeding_first
    from headwater.landing.landing_watch import SeveralWatch
    from headwater.landing.slot_landing import MOST_BYTES, SlotRequest, land_slot
    from headwater.pipeline.windows.following import Stopping
    from headwater.plugins.table_patterns import TablePatterns
    from headwater.remote_slots.slot_address import SlotAddress

    _check_slot(flags)
    began = time.perf_counter()
    with ExitStack() as stack:
        stack.enter_context(printing_aside())
        _, watch = stack.enter_context(landing_progress("none" if flags.quiet else flags.progress, flags.follow))
        metrics = stack.enter_context(serve_metrics(flags.metrics))
        stopping = stack.enter_context(Stopping()) if flags.follow else None
        if stopping is not None:
            stack.enter_context(heeding_first(stopping.tell))
        request = SlotRequest(
            SlotAddress.parse(flags.source.wal[0]),
            TablePatterns.parse(flags.tables, flags.exclude),
            parsed_lsn(flags.source.end),
            min(flags.window_bytes, MOST_BYTES),
            stopping,
            flags.pace,
        )
        result = land_slot(request, flags.target, SeveralWatch([watch, metrics]))
    return _told(flags, result, 0.0, time.perf_counter() - began)


def _check_slot(flags: LandFlags) -> None:
    """See that no flag is given that a slot has no use for.

    Raises:
        UsageError: one is.
    """
    from headwater.landing.paused_tables import PAUSE

    if len(flags.source.wal) > 1:
        raise UsageError("a slot's address is the only --wal", hint="WAL and slots land to places of their own")
    refused = {
        "--catalog": flags.source.catalog,
        "--database": flags.source.database,
        "--timeline": flags.source.timeline,
        "--server-version": flags.source.server_version,
        "--storage-option": isinstance(flags.where, Path) and flags.source.storage_options,
        "--maintain": flags.maintain,
        "--from": flags.server,
        "--client-encoding": flags.rules.client_encoding,
        "--engine spark": flags.tasks.engine == "spark",
        "--master": flags.tasks.master,
        "--catalog-impl spark": flags.catalog_impl == "spark",
        "--on-table-error pause": flags.rules.on_table_error == PAUSE,
        "--on-table-replaced new": flags.rules.on_table_replaced == "new",
        "--follow-oid": flags.rules.follow_oid,
    }
    given = [name for name, value in refused.items() if value]
    if given:
        raise UsageError(f"{given[0]} is of landing from WAL, not from a slot", hint="leave it out")
    _check_catalog(flags)


def _told(flags: LandFlags, result: LandingResult, startup: float, seconds: float) -> int:
    """Say what has landed, and return the exit status."""
    if flags.stats_json:
        sys.stdout.write(f"{json.dumps(_figures(result, startup, seconds))}\n")
    elif not flags.quiet:
        sys.stderr.write(f"{summary(result)}\n")
    return exit_status(result)


def require_near(where: Where, tasks: EngineFlags) -> None:
    """See that workers share this machine's temporary files, where the tables are in a store.

    Raises:
        UsageError: they do not.
    """
    from headwater.lakes.stores.places import StorePath

    if isinstance(where, StorePath) and tasks.master is not None and not tasks.master.startswith("local"):
        raise UsageError(
            "workers of other machines cannot land to a store yet", hint="leave out --master, or --master local[*]"
        )


def exit_status(result: LandingResult) -> int:
    """Return the exit status of a run that has ended without an error."""
    return SOME_ARE_PAUSED if result.paused else 0


def landing_engine(tasks: EngineFlags, catalog_impl: str, progress: Progress) -> Engine:
    """Return the engine that flags ask for; Spark's own writers are Spark's.

    Raises:
        UsageError: these are not to use Spark.
    """
    from headwater.lakes.landing_target import SPARK_IMPL
    from headwater.landing import worker_daemon
    from headwater.pipeline.engines import LOCAL, SPARK

    if catalog_impl == SPARK_IMPL:
        if tasks.engine == LOCAL:
            raise UsageError("--catalog-impl spark writes with Spark, and --engine local does without")
        tasks = replace(tasks, engine=SPARK)
    return tasks.choose(progress, worker_daemon.MODULE, worker_daemon.preload_landing)


def _check_catalog(flags: LandFlags) -> None:
    """See that the flags of a catalog go together.

    Raises:
        UsageError: it does not.
    """
    from headwater.lakes.catalogs.table_places import OF_CATALOG
    from headwater.lakes.landing_target import MERGE_ON_READ, SPARK_IMPL, SPARK_TYPES
    from headwater.landing.landing_modes import CHANGELOG
    from headwater.rows.columns.column_types import AS_VARIANT

    if flags.rules.jsonb == AS_VARIANT and (flags.catalog_impl != SPARK_IMPL or flags.mode != CHANGELOG):
        raise UsageError("--jsonb variant is of change tables that --catalog-impl spark keeps")
    has_mirrors = any((entry.mode or flags.mode) != CHANGELOG for entry in settings_in(flags.config))
    if flags.write_mode == MERGE_ON_READ and flags.mode == CHANGELOG and not has_mirrors:
        raise UsageError("--write-mode merge-on-read is of --mode current or history")
    if flags.ducklake_catalog is not None and flags.form != "ducklake":
        raise UsageError("--ducklake-catalog is of tables of --format ducklake")
    if flags.catalog_impl == SPARK_IMPL:
        if flags.write_mode == MERGE_ON_READ:
            raise UsageError("--write-mode is of tables that are written without a JVM, not of --catalog-impl spark")
        if flags.maintain is not None:
            raise UsageError("--maintain is of tables that are written without a JVM; Spark has procedures of its own")
        if flags.form not in SPARK_TYPES:
            raise UsageError("--catalog-impl spark is of tables of --format delta or iceberg")
        if flags.iceberg_catalog is not None:
            raise UsageError("--iceberg-catalog is a catalog of pyiceberg's, not of --catalog-impl spark")
        if flags.namespace is None:
            raise UsageError(
                "--catalog-impl spark needs the catalog's name", hint="--namespace CATALOG, or CATALOG.NAMESPACE"
            )
    elif flags.form != "iceberg" and (flags.iceberg_catalog or flags.namespace):
        raise UsageError("--iceberg-catalog and --namespace are of tables of --format iceberg")
    if flags.table_location == OF_CATALOG and flags.iceberg_catalog is None:
        raise UsageError("--table-location catalog is of a catalog that --iceberg-catalog names")


@contextmanager
def _following(source: WalSource, flags: LandFlags) -> Iterator[Following | None]:
    """Follow the log until a signal comes, if it is to be followed."""
    from headwater.cli.process.signals import heeding_first
    from headwater.pipeline.requests.received_wal import receive_request
    from headwater.pipeline.windows.following import Following, Stopping
    from headwater.receiver.received_beside import received_beside

    if not flags.follow:
        yield None
        return
    stopping = Stopping()
    with ExitStack() as stack:
        stack.enter_context(heeding_first(stopping.tell))
        if flags.server is not None:
            request = receive_request(flags.server, source, flags.source.catalog, flags.receive_slot)
            stack.enter_context(received_beside(request, stopping.tell))
        yield stack.enter_context(Following(source, stopping, flags.poll_seconds, flags.pace))


def summary(result: LandingResult) -> str:
    """Say in words what has landed."""
    resolved = "nothing" if result.resolved_lsn is None else str(Lsn(result.resolved_lsn))
    rows = sum(result.rows.values())
    paused = "; paused: " + ", ".join(table.name for table in result.paused) if result.paused else ""
    return f"landed {rows} rows of {len(result.rows)} tables in {result.files} files; resolved up to {resolved}{paused}"


def _figures(result: LandingResult, startup: float, total: float) -> dict[str, object]:
    from headwater.cli.process.landing_progress import paused_object

    return {
        "rows": result.rows,
        "files": result.files,
        "bytes": result.bytes,
        "resolved_lsn": None if result.resolved_lsn is None else str(Lsn(result.resolved_lsn)),
        "paused": [paused_object(table) for table in result.paused],
        "startup_seconds": round(startup, 3),
        "land_seconds": round(total, 3),
        "seconds": {name: round(value, 3) for name, value in result.seconds.items()},
    }
