"""Paused tables brought to where the others stand: from where they stand themselves, or with rows of a backup.

::

    resume   the states that tables stand at  ->  passes over the WAL from the oldest one on, of these tables alone
                                              ->  the target's resolved LSN: from there on they land with the others
    reload   a base backup                    ->  the rows that tables have at that LSN, in place of what they had

Tables that are resumed together begin at the oldest of their states: each leaves out what it has landed. So rows that
go from one of them to another do so at their commit. A table that cannot go on stays paused, where it stands then.

Rows of a backup take the place of a mirror's in one commit; versions of a history end with it, and others begin; a
table of changes gets a row that says so (``_change_type`` ``replace``), and its rows after that (``read``).

Both leave the note that a table is paused until all is committed. What is killed is begun again: what a table has
landed, it says itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.catalog.relation import RelationSchema
from headwater.errors import AwaitedCatalogError, CatalogError, LakeError, SegmentError, UsageError
from headwater.jobs.engine import Engine
from headwater.jobs.outcome import Progress
from headwater.lakes.landing_target import SPARK_IMPL, LandingTarget
from headwater.lakes.paused import PausedTable
from headwater.lakes.settings.table_settings import require_secret
from headwater.lakes.target_directory import Lake
from headwater.landing.added_tables import catalog_of_backup, is_adding
from headwater.landing.existing_rows import ExistingRows, existing_rows
from headwater.landing.landing import LandingRun
from headwater.landing.landing_modes import HISTORY
from headwater.landing.landing_pass import LandingResult
from headwater.landing.landing_watch import NOBODY_WATCHES, LandingWatch
from headwater.landing.paused_tables import named
from headwater.landing.settings.column_settings import require_same_settings
from headwater.landing.settings.reloaded_settings import reloaded_settings
from headwater.pg.lsn import Lsn
from headwater.pipeline.engines import engine_of
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.request_checks import check_database
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.window_pipeline import StepProgress
from headwater.pipeline.windows.copy_completeness import complete_at
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.plugins.rows.plugin import RowChanges
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns, qualified_name
from headwater.slots.kept_state import KeptState
from headwater.wal.records.growing_directory import GrowingDirectory, unbroken
from headwater.wal.segments.directory import WalDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    Attributes:
        progress: called with (step, tasks done, tasks in all); None for nobody.
        bounds: of what is committed at a time; watch: hears of what has landed.
    """

    progress: Progress | None = None
    bounds: WindowBounds = DEFAULT_BOUNDS
    watch: LandingWatch = NOBODY_WATCHES


AS_USUAL = Settings()


def resume(
    spark: SparkSession | Engine,
    request: DecodeRequest,
    target: LandingTarget,
    names: Sequence[str] = (),
    settings: Settings = AS_USUAL,
) -> LandingResult:
    """Bring paused tables to where the others stand, from where they stand; then they land again.

    Args:
        spark: the session whose workers write, or another engine.
        request: where the WAL is; the backup, for a table that may lack rows that it had before its first changes.
        target: where they land.
        names: of the tables there; none for all that are paused.
        settings: how.

    Returns:
        what has landed, with those of the tables that stay paused.

    Raises:
        LakeError: a table is not paused, or stands where its state is not kept.
        HeadwaterError: any reason not to decode. What was committed stays.
    """
    with _held(target, request) as (lake, kept_state, chosen):
        tables = [table for table in named(lake, names) if _is_chosen(table, chosen, asked=bool(names))]
        run = _run(spark, request, lake, chosen, settings)
        with _hinted(lake, tables):
            directory = GrowingDirectory(request.source).look(None)
            end = Lsn(Scope(directory.segment_size).end_before(kept_state.state.lsn))
            run.request = replace(run.request, end=end)
            for begin, group in _groups(lake, tables):
                run.only = frozenset(table.oid for table in group)
                _catch_up(run, begin, group, kept_state, directory)
        run.result.paused = _left(lake, tables)
        return run.result


def reload(
    spark: SparkSession | Engine,
    request: DecodeRequest,
    target: LandingTarget,
    names: Sequence[str],
    settings: Settings = AS_USUAL,
) -> LandingResult:
    """Give tables the rows that they have where the target stands, from a base backup; then they land again.

    Args:
        spark: the session whose workers read and write, or another engine.
        request: where the WAL is, and the backup.
        target: where they land.
        names: of the tables there, paused or not; their key, partitions and order are those of the target's settings.
        settings: how.

    Raises:
        LakeError: there is no such table, or the backup was complete only later.
        HeadwaterError: the rows cannot be read or written; tables that were committed have theirs.
    """
    with _held(target, request, names) as (lake, kept_state, chosen):
        run = _run(spark, request, lake, chosen, settings)
        directory = unbroken(GrowingDirectory(request.source).look(None), kept_state.state.lsn)
        for name in dict.fromkeys(names):
            _reload(run, name, kept_state, directory)
        require_same_settings(lake)
        lake.registry.note_entries()
        return run.result


@contextmanager
def _held(
    target: LandingTarget, request: DecodeRequest, reloaded: Sequence[str] = ()
) -> Iterator[tuple[Lake, KeptState, TablePatterns]]:
    """Hold a target; gives the state where it stands, and which tables land there, too.

    Args:
        target, request: see :func:`reload`; reloaded: names of tables that may get other settings.
    """
    require_secret(target.tables, target.mask_secret)
    with Lake(target) as lake:
        require_same_settings(lake, besides=reloaded)
        kept_state = lake.progress.kept_state()
        if kept_state is None or not kept_state.state.control.builder.is_consistent:
            raise LakeError(
                "nothing has landed there yet that tables could catch up with",
                file=str(target.where),
                hint="headwater land",
            )
        check_database(kept_state.state, request, str(target.where))
        adding = lake.registry.adding
        if adding is not None:
            raise is_adding(adding)
        yield lake, kept_state, lake.registry.chosen or EVERY_TABLE


def _run(
    spark: SparkSession | Engine, request: DecodeRequest, lake: Lake, chosen: TablePatterns, settings: Settings
) -> LandingRun:
    return LandingRun(
        engine=engine_of(spark),
        request=replace(request, tables=chosen),
        lake=lake,
        bounds=settings.bounds,
        step_progress=None if settings.progress is None else StepProgress(settings.progress),
        watch=settings.watch,
        pauses=True,
        only=frozenset(),
        tables=chosen,
    )


def _is_chosen(table: PausedTable, chosen: TablePatterns, *, asked: bool) -> bool:
    """Tell whether a table is to land.

    Raises:
        UsageError: it is asked for, and excluded.
    """
    is_excluded = table.is_excluded and chosen.excludes_name(table.name)
    if is_excluded and asked:
        raise UsageError(
            f"table {table.name} is excluded", hint="run headwater land without that --exclude first, then this again"
        )
    return not is_excluded


def _groups(lake: Lake, tables: Iterable[PausedTable]) -> Iterator[tuple[KeptState | None, list[PausedTable]]]:
    """Yield tables that begin together: where rows may lack, at the backup, else at the oldest of the states."""
    known = list(tables)
    lacking = [table for table in known if table.stands_at is None]
    if lacking:
        yield None, lacking
    standing = sorted((table for table in known if table.stands_at is not None), key=lambda table: table.stands_at or 0)
    if standing:
        yield lake.paused.kept_state(standing[0]), standing


def _catch_up(
    run: LandingRun,
    begin: KeptState | None,
    group: Sequence[PausedTable],
    kept_state: KeptState,
    directory: WalDirectory,
) -> None:
    if begin is None and not run.request.catalog:
        raise UsageError(
            f"table {group[0].name} may lack rows that it had before its first changes: they are in a base backup only",
            hint="--catalog BACKUP, the one that it was begun with",
        )
    behind = begin
    if begin is None or begin.state.lsn < kept_state.state.lsn:
        behind = run.go(begin, directory)
    assert run.only is not None
    if not run.only:
        return
    if behind is None or behind.state.lsn < kept_state.state.lsn:
        where = "" if behind is None else f" at {Lsn(behind.state.lsn)}"
        raise SegmentError(
            f"the WAL ends{where} before the others stand, at {Lsn(kept_state.state.lsn)}",
            file=run.request.source.address,
        )
    run.lake.progress.note_resumed(kept_state.state.lsn, run.only)
    run.tell_watch()


@contextmanager
def _hinted(lake: Lake, tables: Sequence[PausedTable]) -> Iterator[None]:
    """Let errors of WAL that is gone say what helps."""
    try:
        yield
    except SegmentError as error:
        names = " ".join(dict.fromkeys(table.name for table in tables))
        other = f"headwater lake reload {lake.target.where} {names} takes their rows from a backup"
        error.hint = f"{error.hint}; or {other}" if error.hint else other
        raise


def _left(lake: Lake, tables: Iterable[PausedTable]) -> tuple[PausedTable, ...]:
    """Return the tables that are paused still, as they are now."""
    return tuple(lake.paused.tables[table.oid] for table in tables if table.oid in lake.paused.oids)


def _reload(run: LandingRun, name: str, kept_state: KeptState, directory: WalDirectory) -> None:
    lake, lsn = run.lake, kept_state.state.lsn
    if lake.target.catalog_impl == SPARK_IMPL and lake.target.mode == HISTORY:
        raise LakeError(
            f"table {name} is a history of Spark's own writers, whose versions cannot be ended all at once",
            file=str(lake.target.where),
            hint="headwater lake resume, from where it stands",
        )
    former = lake.names.holder(name)
    run.only = frozenset()
    table = _table_of(run, run.opened(kept_state, directory), name, lsn)
    run.only = frozenset({table.oid})
    opened = run.opened(kept_state, directory)
    rows = _rows(opened, table, kept_state, directory)
    note = reloaded_settings(table, lake)
    if table.oid not in lake.paused.oids:
        lake.paused.add(
            PausedTable(table.oid, name, "it was to get its rows from a backup, and that has not ended"), kept_state
        )
    if former not in (None, table.oid):
        lake.tables.bind({name: table.oid})
    with run.passing(opened, wants_existing=False, is_followed=False) as landing_pass:
        waiting = landing_pass.lacking(rows)
        if note is not None:
            if not waiting:
                raise LakeError(
                    f"table {name} has its rows of a backup at {Lsn(lsn)} already, by its former settings",
                    hint="let headwater land bring the target further first",
                )
            lake.registry.note_table(table.oid, note)
        landing_pass.load(rows, waiting, replaces=True)
    lake.registry.forget_detached(table.oid)
    lake.progress.note_resumed(lsn, {table.oid, former or table.oid})
    run.tell_watch()


def _table_of(run: LandingRun, opened: OpenRequest, name: str, lsn: int) -> RelationSchema:
    """Return the table of the source that a name in the lake is of, as of an LSN.

    Raises:
        LakeError: there is none, or it is not to land.
    """
    view, lake = opened.store.view(lsn), run.lake
    own = view.relation(lake.names.holder(name) or 0)
    follows_name = run.mode.mirrors and not lake.target.follows_oid
    if own is None or (follows_name and qualified_name(own) != name):
        own = next(
            (schema for schema in map(view.relation, view.tables()) if schema and qualified_name(schema) == name), own
        )
    if own is None or own.topmost != own.oid:
        raise LakeError(
            f'there is no table "{name}" of the source at {Lsn(lsn)}, or it is a partition of another one',
            file=str(lake.target.where),
            hint="headwater lake tables shows the names; what was dropped stays as it is",
        )
    assert isinstance(opened.plugin, RowChanges)
    if not opened.request.tables.chooses(own, view):
        raise UsageError(
            f'table "{name}" is not chosen (--tables, --exclude)', hint="let headwater land choose it first"
        )
    return own


def _rows(opened: OpenRequest, table: RelationSchema, kept_state: KeptState, directory: WalDirectory) -> ExistingRows:
    """Return a table's rows where the target stands, in a backup.

    Raises:
        HeadwaterError: the backup does not have them.
    """
    lsn = kept_state.state.lsn
    copy = catalog_of_backup(opened.request, opened.store.database_oid, directory)
    try:
        complete = complete_at(copy, directory)
    except AwaitedCatalogError:
        complete = None
    if complete is None or complete > lsn:
        where = "behind the end of the WAL" if complete is None else f"at {Lsn(complete)}"
        raise CatalogError(
            f"the backup was complete {where}, and the target stands at {Lsn(lsn)}",
            file=opened.request.catalog,
            hint="let headwater land bring the other tables there first, or give an older backup",
        )
    rows = existing_rows(opened.store, opened.plugin, lsn - 1)
    if not rows.tables:
        raise LakeError(f"table {qualified_name(table)} has no rows that land, at {Lsn(lsn)}")
    return replace(rows, start_lsn=copy.start_lsn)
