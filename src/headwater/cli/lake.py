"""``headwater lake``: the tables that land has made."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.errors import UsageError
from headwater.pg.lsn import Lsn
from headwater.sinks.lake_view import TableView, read_as_of, tables_of
from headwater.sinks.resolved import Resolved

_COLUMNS = ("table", "version", "rows", "files", "bytes")


def run_tables(directory: Path, as_of: str | None, as_json: bool) -> None:
    """Print the tables of a target.

    Raises:
        HeadwaterError: they cannot be read.
    """
    lsn, time = moment(as_of)
    resolved = read_as_of(directory, lsn, time)
    tables = [_row(table) for table in tables_of(directory, resolved)]
    if as_json:
        sys.stdout.write(f"{json.dumps({**_head(resolved), 'tables': tables})}\n")
        return
    sys.stdout.write(f"{' '.join(f'{name} {value}' for name, value in _head(resolved).items())}\n")
    lines = [_COLUMNS, *(tuple(str(row[name]) for name in _COLUMNS) for row in tables)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        sys.stdout.write(f"{'  '.join(cells)}\n")


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
    return dict(zip(_COLUMNS, (table.name, table.version, size.rows, size.files, size.bytes), strict=True))
