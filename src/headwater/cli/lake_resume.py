"""``headwater lake resume`` and ``reload``: paused tables that land again, from where they stand or from a backup."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.cli.land import exit_status, landing_engine, summary
from headwater.cli.landing_progress import NONE, landing_progress
from headwater.cli.option_pairs import settings_of_flags, source_of_flags
from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing_pass import LandingResult
from headwater.landing.resuming import Settings, reload, resume
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds


@dataclass(frozen=True)
class ResumeFlags:
    """The flags of ``headwater lake resume`` and ``reload``, as they were given; as those of ``headwater land``.

    Attributes:
        wal, storage_options, timeline: where the WAL is.
        catalog: a backup, None for none.
        client_encoding: what text of a database in SQL_ASCII is in; None for UTF8.
        on_unrepresentable, schema_evolution, on_table_replaced: see :class:`LandingTarget`.
        follow_oid: mirrors stay with a table that is renamed.
        window_bytes: WAL that is committed at a time.
        progress: one of :data:`headwater.cli.landing_progress.KINDS`.
        engine: one of :data:`headwater.pipeline.engines.ENGINES`; master: Spark's.
        quiet: no progress.
    """

    wal: Sequence[str]
    storage_options: Sequence[str]
    timeline: int | None
    catalog: str | None
    client_encoding: str | None
    on_unrepresentable: str
    schema_evolution: str
    on_table_replaced: str
    follow_oid: bool
    window_bytes: int
    progress: str
    engine: str
    master: str | None
    quiet: bool


def run_resume(directory: Path, tables: Sequence[str], flags: ResumeFlags) -> int:
    """Bring paused tables to where the others stand; gives the exit status.

    Raises:
        HeadwaterError: it cannot be done; what was committed stays.
    """
    return _run(resume, directory, tables, flags)


def run_reload(directory: Path, tables: Sequence[str], flags: ResumeFlags) -> int:
    """Give tables the rows of a backup; gives the exit status.

    Raises:
        HeadwaterError: it cannot be done; what was committed stays.
    """
    return _run(reload, directory, tables, flags)


def _run(
    bring: Callable[..., LandingResult],
    directory: Path,
    tables: Sequence[str],
    flags: ResumeFlags,
) -> int:
    target = replace(
        LandingTarget.at(directory),
        on_unrepresentable=flags.on_unrepresentable,
        schema_evolution=flags.schema_evolution,
        on_table_replaced=flags.on_table_replaced,
        follows_oid=flags.follow_oid,
    )
    request = DecodeRequest(
        wal=source_of_flags(flags.wal, flags.storage_options, flags.timeline),
        catalog=flags.catalog or "",
        settings=settings_of_flags((), flags.client_encoding),
    )
    with landing_progress(NONE if flags.quiet else flags.progress) as (progress, watch):
        engine = landing_engine(flags.engine, flags.master, target.catalog_impl, progress)
        settings = Settings(progress, WindowBounds(flags.window_bytes), watch)
        result = bring(engine, request, target, tables, settings)
    if not flags.quiet:
        sys.stderr.write(f"{summary(result)}\n")
    return exit_status(result)
