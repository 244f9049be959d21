"""``headwater land``: WAL into typed tables of Parquet, Delta or Iceberg, once or as the WAL grows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.cli.engine_choice import engine_of_flags
from headwater.cli.land_metrics import serve_metrics
from headwater.cli.landing_progress import NONE, landing_progress, paused_object
from headwater.cli.option_pairs import settings_of_flags, source_of_flags
from headwater.cli.signals import told_first
from headwater.errors import UsageError
from headwater.jobs.engine import Engine
from headwater.jobs.outcome import Progress
from headwater.lakes.landing_target import SPARK_IMPL, SPARK_TYPES, LandingTarget
from headwater.landing import worker_daemon as landing_worker_daemon
from headwater.landing.landing import land
from headwater.landing.landing_modes import CHANGELOG
from headwater.landing.landing_pass import LandingResult
from headwater.landing.landing_watch import SeveralWatch
from headwater.pg.lsn import Lsn
from headwater.pipeline.engines import LOCAL, SPARK
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.following import Following, Stopping
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.columns.column_types import AS_VARIANT
from headwater.wal.segments.place import WalSource


@dataclass(frozen=True)
class LandFlags:
    """The flags of ``headwater land``, as they were given.

    Attributes:
        wal: places, in the order in which a segment is looked for.
        timeline: the timeline to follow; storage_options: texts ``NAME=VALUE`` for stores.
        catalog, database: what is followed; server_version: the release of the server that wrote the WAL.
        end: LSN.
        tables: patterns; none for all; exclude: patterns of others.
        to: the directory; form: of its tables; mode: what they hold.
        client_encoding: what text of a database in SQL_ASCII is in; None for UTF8.
        iceberg_catalog, namespace, catalog_impl: see :class:`LandingTarget`.
        snapshot, on_unrepresentable, schema_evolution, jsonb, on_table_replaced: see :class:`LandingTarget`.
        follow_oid: mirrors stay with a table that is renamed.
        on_table_error: see :func:`headwater.landing.landing.land`.
        window_bytes: WAL that is committed at a time.
        follow: go on as the WAL grows; poll_seconds: see :data:`headwater.wal.segments.arrivals.POLL_SECONDS`.
        progress: one of :data:`headwater.cli.landing_progress.KINDS`.
        metrics: ``HOST:PORT``, None for none.
        engine: one of :data:`headwater.pipeline.engines.ENGINES`; master: Spark's.
        stats_json: figures go to standard output as JSON.
        quiet: no progress.
    """

    wal: Sequence[str]
    timeline: int | None
    storage_options: Sequence[str]
    catalog: str
    database: str | None
    server_version: str | None
    end: str | None
    tables: Sequence[str]
    exclude: Sequence[str]
    to: str
    form: str
    mode: str
    iceberg_catalog: str | None
    namespace: str | None
    catalog_impl: str
    snapshot: str
    client_encoding: str | None
    on_unrepresentable: str
    schema_evolution: str
    jsonb: str
    on_table_replaced: str
    follow_oid: bool
    on_table_error: str | None
    window_bytes: int
    follow: bool
    poll_seconds: float
    progress: str
    metrics: str | None
    engine: str
    master: str | None
    stats_json: bool
    quiet: bool


SOME_ARE_PAUSED = 3
"""Exit status of a run that has landed all but tables that are paused."""


def exit_status(result: LandingResult) -> int:
    """Return the exit status of a run that has ended without an error."""
    return SOME_ARE_PAUSED if result.paused else 0


def run_land(flags: LandFlags) -> int:
    """Land a window, or all that comes until a signal does; gives the exit status.

    Raises:
        HeadwaterError: it cannot be done; what was committed stays.
    """
    if flags.follow and flags.end is not None:
        raise UsageError("--follow goes on for ever, --end ends", hint="leave one of them out")
    request = DecodeRequest(
        wal=source_of_flags(flags.wal, flags.storage_options, flags.timeline),
        catalog=flags.catalog,
        database=flags.database,
        end=None if flags.end is None else Lsn.parse(flags.end),
        tables=TablePatterns.parse(flags.tables, flags.exclude),
        settings=settings_of_flags((), flags.client_encoding, flags.server_version),
    )
    _check_catalog(flags)
    target = LandingTarget(
        Path(flags.to),
        flags.form,
        flags.on_unrepresentable,
        flags.schema_evolution,
        flags.mode,
        flags.iceberg_catalog,
        flags.namespace,
        flags.snapshot,
        flags.catalog_impl,
        flags.jsonb,
        flags.on_table_replaced,
        flags.follow_oid,
    )
    with ExitStack() as stack:
        progress, watch = stack.enter_context(landing_progress(NONE if flags.quiet else flags.progress, flags.follow))
        metrics = stack.enter_context(serve_metrics(flags.metrics))
        following = stack.enter_context(_following(request.source, flags))
        began = time.perf_counter()
        engine = landing_engine(flags.engine, flags.master, target.catalog_impl, progress)
        started = time.perf_counter()
        watches = SeveralWatch([watch, metrics])
        bounds = WindowBounds(flags.window_bytes)
        result = land(engine, request, target, progress, bounds, following, watches, flags.on_table_error)
    if flags.stats_json:
        seconds = started - began, time.perf_counter() - started
        sys.stdout.write(f"{json.dumps(_figures(result, *seconds))}\n")
    elif not flags.quiet:
        sys.stderr.write(f"{summary(result)}\n")
    return exit_status(result)


def landing_engine(engine: str, master: str | None, catalog_impl: str, progress: Progress) -> Engine:
    """Return the engine that flags ask for; Spark's own writers are Spark's.

    Raises:
        UsageError: these are not to use Spark.
    """
    if catalog_impl == SPARK_IMPL:
        if engine == LOCAL:
            raise UsageError("--catalog-impl spark writes with Spark, and --engine local does without")
        engine = SPARK
    return engine_of_flags(
        engine, master, progress, landing_worker_daemon.MODULE, landing_worker_daemon.preload_landing
    )


def _check_catalog(flags: LandFlags) -> None:
    """See that what is said of a catalog goes together.

    Raises:
        UsageError: it does not.
    """
    if flags.jsonb == AS_VARIANT and (flags.catalog_impl != SPARK_IMPL or flags.mode != CHANGELOG):
        raise UsageError("--jsonb variant is of change tables that --catalog-impl spark keeps")
    if flags.catalog_impl == SPARK_IMPL:
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


@contextmanager
def _following(source: WalSource, flags: LandFlags) -> Iterator[Following | None]:
    """How the log is followed, and that a signal ends it."""
    if not flags.follow:
        yield None
        return
    stopping = Stopping()
    with told_first(stopping.tell), Following(source, stopping, flags.poll_seconds) as following:
        yield following


def summary(result: LandingResult) -> str:
    """Say in words what has landed."""
    resolved = "nothing" if result.resolved_lsn is None else str(Lsn(result.resolved_lsn))
    rows = sum(result.rows.values())
    paused = "; paused: " + ", ".join(one.name for one in result.paused) if result.paused else ""
    return f"landed {rows} rows of {len(result.rows)} tables in {result.files} files; resolved up to {resolved}{paused}"


def _figures(result: LandingResult, startup: float, total: float) -> dict[str, object]:
    return {
        "rows": result.rows,
        "files": result.files,
        "bytes": result.bytes,
        "resolved_lsn": None if result.resolved_lsn is None else str(Lsn(result.resolved_lsn)),
        "paused": [paused_object(one) for one in result.paused],
        "startup_seconds": round(startup, 3),
        "land_seconds": round(total, 3),
        "seconds": {name: round(value, 3) for name, value in result.seconds.items()},
    }
