"""``headwater lake``, ``compact``, ``expire``: the tables that land has made."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headwater.errors import UsageError
from headwater.lakes.as_of_view import TableView, read_as_of, tables_of
from headwater.lakes.compaction import compact
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.paused import LANDING, lsn_text
from headwater.lakes.resolved_log import Resolved
from headwater.lakes.target_directory import Lake
from headwater.pg.lsn import Lsn

_AGE = re.compile(r"(\d{1,5})([smhd])")
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_COLUMNS = ("table", "state", "version", "rows", "files", "bytes")


def run_tables(directory: Path, as_of: str | None, as_json: bool) -> None:
    """Print the tables of a target.

    Raises:
        HeadwaterError: they cannot be read.
    """
    lsn, time = moment(as_of)
    resolved = read_as_of(directory, lsn, time)
    views = list(tables_of(directory, resolved, is_now=as_of is None))
    tables = [_row(table) for table in views]
    if as_json:
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
        for name, source in view.renamed.items():
            sys.stdout.write(f"{view.name}: the source's column {source} is {name}\n")
        if view.state != LANDING:
            sys.stdout.write(f"{_lag(view)}\n")


def run_compact(directory: Path, target_file_bytes: int) -> None:
    """Compact the tables of a target, and print what was done.

    Raises:
        HeadwaterError: it cannot be done; what was committed stays.
    """
    for one in compact(directory, target_file_bytes):
        sys.stdout.write(f"{one.name}: {one.removed} files are {one.added}\n")


def run_expire(directory: Path, older_than: str) -> None:
    """Remove old versions of a target's tables, and print what was removed.

    Raises:
        HeadwaterError: it cannot be done.
    """
    since = _since(older_than)
    with Lake(LandingTarget.at(directory)) as lake:
        for name, expired in lake.expire(since).items():
            sys.stdout.write(f"{name}: removed {expired.files} files of {expired.bytes} bytes\n")


def _since(text: str) -> datetime:
    """A moment, or how long ago.

    Raises:
        UsageError: it is neither.
    """
    age = _AGE.fullmatch(text)
    if age is not None:
        return datetime.now(UTC) - int(age[1]) * _UNITS[age[2]]
    _, time = moment(text)
    if time is None:
        raise UsageError(f'"{text}" is no age such as 7d, 12h or 30m, and no time')
    return time


def moment(text: str | None) -> tuple[int | None, datetime | None]:
    """An LSN, or a time, which is UTC's unless it says another zone.

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
    size = table.size
    values = (table.name, table.state, table.version, size.rows, size.files, size.bytes)
    found = {**dict(zip(_COLUMNS, values, strict=True)), "oid": table.oid}
    if table.state == LANDING:
        return found
    note = table.paused
    return {
        **found,
        "stands_at": lsn_text(table.stands_at),
        "reason": None if note is None else note.reason,
        "lsn": None if note is None else lsn_text(note.lsn),
        "since": None if note is None else note.since.isoformat(),
    }


def _lag(table: TableView) -> str:
    where = f"it has everything before {Lsn(table.stands_at)}" if table.stands_at else "it may lack rows"
    note = table.paused
    if note is None:
        return f"{table.name} was behind: {where}"
    at = "" if note.lsn is None else f" (at {Lsn(note.lsn)})"
    return f"{table.name} is {table.state}, {where}: {note.reason}{at}"
