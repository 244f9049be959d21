"""``headwater lake``, ``compact``, ``expire``: the tables that land has made, and paused ones that land again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.config_file import settings_in
from headwater.cli.flags import CommandGroup, age_of, command, from_argument, from_flag, from_flags, target_argument
from headwater.cli.land import (
    RuleFlags,
    exit_status,
    landing_engine,
    landing_window_flag,
    progress_flag,
    quiet_flag,
    require_near,
    summary,
)
from headwater.cli.shared_flags import EngineFlags, SourceFlags, session_settings, storage_flag, storage_pairs
from headwater.errors import UsageError
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from headwater.lakes.as_of_view import TableView
    from headwater.lakes.resolved_log import Resolved
    from headwater.lakes.stores.places import Where
    from headwater.landing.landing_pass import LandingResult

_COLUMNS = ("table", "state", "version", "rows", "files", "bytes")
_NO_RULES = ("jsonb", "on_table_error")
"""Rules of ``headwater land`` that tables which land again have no flags for."""
_OF_LAND = ("database", "server_version", "start", "end")


@dataclass(frozen=True)
class TablesFlags:
    """The argument and flags of ``headwater lake tables``."""

    directory: str | Path = target_argument()
    as_of: str | None = from_flag(
        "--as-of", metavar="LSN|TIME", help="Versions that belonged together then; a time is UTC's, or has a zone."
    )
    as_json: bool = from_flag("--json", is_flag=True, help="As JSON.")
    storage_options: Sequence[str] = storage_flag()

    @property
    def where(self) -> Where:
        """The place of the tables."""
        return _place(self.directory, self.storage_options)


@dataclass(frozen=True, kw_only=True)
class ResumeFlags:
    """The flags of ``headwater lake resume``."""

    directory: str | Path = target_argument()
    tables: Sequence[str] = from_argument(nargs=-1, metavar="[TABLE]...")
    source: SourceFlags = from_flags(SourceFlags, without=_OF_LAND, optional=("catalog",))
    rules: RuleFlags = from_flags(RuleFlags, without=_NO_RULES)
    window_bytes: int = landing_window_flag()
    progress: str = progress_flag()
    tasks: EngineFlags = from_flags(EngineFlags)
    quiet: bool = quiet_flag()

    @property
    def where(self) -> Where:
        """The place of the tables."""
        return _place(self.directory, self.source.storage_options)


@dataclass(frozen=True, kw_only=True)
class ReloadFlags(ResumeFlags):
    """The flags of ``headwater lake reload``, which needs tables and a backup."""

    tables: Sequence[str] = from_argument(nargs=-1, required=True, metavar="TABLE...")
    source: SourceFlags = from_flags(SourceFlags, without=_OF_LAND)
    table_settings: str | None = from_flag(
        "--table-settings",
        metavar="FILE",
        help="Configuration file whose [[land.table]] say how tables are partitioned, sorted and identified from here "
        "on; default: as they were.",
    )


@dataclass(frozen=True)
class CompactFlags:
    """The argument and flags of ``headwater compact``."""

    directory: str | Path = target_argument()
    target_file_bytes: int = from_flag(
        "--target-file-size",
        type=click.IntRange(1),
        default=128 << 20,
        show_default=True,
        metavar="BYTES",
        help="Of the files that are made; those of at least half of it stay as they are.",
    )
    storage_options: Sequence[str] = storage_flag()

    @property
    def where(self) -> Where:
        """The place of the tables."""
        return _place(self.directory, self.storage_options)


@dataclass(frozen=True)
class ExpireFlags:
    """The argument and flags of ``headwater expire``."""

    directory: str | Path = target_argument()
    older_than: str = from_flag(
        "--older-than",
        required=True,
        metavar="AGE|TIME",
        help="Such as 7d, 12h or 30m, or a time: what was so since then can still be read.",
    )
    storage_options: Sequence[str] = storage_flag()

    @property
    def where(self) -> Where:
        """The place of the tables."""
        return _place(self.directory, self.storage_options)


@command("lake tables", TablesFlags)
def tables_command(flags: TablesFlags) -> None:
    """List the tables in DIRECTORY, in the versions in which they belong together, and up to which LSN they do."""
    from headwater.lakes.as_of_view import read_as_of, tables_of

    resolved = read_as_of(flags.where, *moment(flags.as_of))
    views = list(tables_of(flags.where, resolved, is_now=flags.as_of is None))
    tables = [_row(view) for view in views]
    if flags.as_json:
        shown = [{**row, "renamed": dict(view.renamed)} for row, view in zip(tables, views, strict=True)]
        sys.stdout.write(f"{json.dumps({**_head(resolved), 'tables': shown})}\n")
        return
    sys.stdout.write(f"{' '.join(f'{name} {value}' for name, value in _head(resolved).items())}\n")
    lines = [_COLUMNS, *(tuple(str(row[name]) for name in _COLUMNS) for row in tables)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        sys.stdout.write(f"{'  '.join(cells)}\n")
    for view in views:
        sys.stdout.writelines(f"{note}\n" for note in _notes(view))


@command("lake resume", ResumeFlags)
def resume_command(flags: ResumeFlags) -> int:
    """Land what paused tables lack, from where each stands to where the others do; headwater land goes on with them.

    All paused tables, unless some are named as they are called in DIRECTORY. Needs WAL from where they stand, and
    --catalog only for tables that were paused before they had their first rows. The exit status is 3 when some of them
    stay paused.
    """
    from headwater.landing.resuming import resume

    return _land_again(resume, flags)


@command("lake reload", ReloadFlags)
def reload_command(flags: ReloadFlags) -> int:
    """Replace what tables hold by the rows that they have where the target stands, from the base backup --catalog.

    Tables may be paused or not; headwater land goes on with them. Needs WAL from the backup's beginning on.
    """
    from headwater.landing.resuming import reload

    return _land_again(reload, flags, flags.table_settings)


lake_command = CommandGroup(
    "lake",
    [tables_command, resume_command, reload_command],
    short_help="Show the tables that land has made.",
    help="The tables that headwater land has made.",
)


@command("compact", CompactFlags)
def compact_command(flags: CompactFlags) -> None:
    """Make larger files of the small ones of the change tables in DIRECTORY."""
    from headwater.lakes.compaction import compact

    for table in compact(flags.where, flags.target_file_bytes):
        sys.stdout.write(f"{table.name}: {table.removed} files are {table.added}\n")


@command("expire", ExpireFlags)
def expire_command(flags: ExpireFlags) -> None:
    """Remove old versions of the tables in DIRECTORY, and files that belong to none."""
    from headwater.lakes.landing_target import LandingTarget
    from headwater.lakes.target_directory import Lake

    since = _since(flags.older_than)
    with Lake(LandingTarget.at(flags.where)) as lake:
        for name, expired in lake.expire(since).items():
            sys.stdout.write(f"{name}: removed {expired.files} files of {expired.bytes} bytes\n")


def _land_again(bring: Callable[..., LandingResult], flags: ResumeFlags, table_settings: str | None = None) -> int:
    """Bring tables to where the others stand; return the exit status."""
    from headwater.cli.process.landing_progress import landing_progress
    from headwater.lakes.landing_target import LandingTarget
    from headwater.landing.resuming import Settings
    from headwater.pipeline.windows.run_index import WindowBounds

    require_near(flags.where, flags.tasks)
    target = flags.rules.applied(LandingTarget.at(flags.where))
    if table_settings is not None:
        target = replace(target, tables=settings_in(table_settings))
    request = flags.source.beside(target.where).request(session_settings((), flags.rules.client_encoding))
    with landing_progress("none" if flags.quiet else flags.progress) as (progress, watch):
        engine = landing_engine(flags.tasks, target.catalog_impl, progress)
        settings = Settings(progress, WindowBounds(flags.window_bytes), watch)
        result = bring(engine, request, target, flags.tables, settings)
    if not flags.quiet:
        sys.stderr.write(f"{summary(result)}\n")
    return exit_status(result)


def _place(directory: str | Path, options: Sequence[str]) -> Where:
    from headwater.lakes.stores.places import place_of

    return place_of(directory, storage_pairs(options))


def _since(text: str) -> datetime:
    """Read a moment, or how long ago it was.

    Raises:
        UsageError: it is neither.
    """
    age = age_of(text)
    if age is not None:
        return datetime.now(UTC) - age
    _, time = moment(text)
    if time is None:
        raise UsageError(f'"{text}" is no age such as 7d, 12h or 30m, and no time')
    return time


def moment(text: str | None) -> tuple[int | None, datetime | None]:
    """Read an LSN, or a time, which is UTC's unless it says another zone.

    Raises:
        UsageError: it is neither.
    """
    if text is None:
        return None, None
    if "/" in text:
        return Lsn.parse(text), None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f'"{text}" is no LSN such as 0/1552C90, and no time such as 2026-02-03T04:05:06Z') from None
    return None, time if time.tzinfo else time.replace(tzinfo=UTC)


def _head(resolved: Resolved) -> dict[str, Any]:
    time = None if resolved.commit_time is None else resolved.commit_time.isoformat()
    return {"resolved_lsn": str(Lsn(resolved.lsn)), "commit_time": time}


def _row(table: TableView) -> dict[str, Any]:
    from headwater.lakes.paused import LANDING, lsn_text

    size = table.size
    values = (table.name, table.state, table.version, size.rows, size.files, size.bytes)
    row = {**dict(zip(_COLUMNS, values, strict=True)), "oid": table.oid}
    if table.state == LANDING:
        return row
    note = table.paused
    return {
        **row,
        "stands_at": lsn_text(table.stands_at),
        "reason": None if note is None else note.reason,
        "lsn": None if note is None else lsn_text(note.lsn),
        "since": None if note is None else note.since.isoformat(),
    }


def _notes(table: TableView) -> Iterator[str]:
    """Yield what is to be said of a table: columns under other names, and that it does not land."""
    from headwater.lakes.paused import LANDING

    for name, column in table.renamed.items():
        yield f"{table.name}: the source's column {column} is {name}"
    if table.state != LANDING:
        yield _lag(table)


def _lag(table: TableView) -> str:
    where = f"it has everything before {Lsn(table.stands_at)}" if table.stands_at else "it may lack rows"
    note = table.paused
    if note is None:
        return f"{table.name} was behind: {where}"
    at = "" if note.lsn is None else f" (at {Lsn(note.lsn)})"
    return f"{table.name} is {table.state}, {where}: {note.reason}{at}"
