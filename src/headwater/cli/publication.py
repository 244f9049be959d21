"""``headwater publication``: what publications would send of a window."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headwater.cli.option_pairs import settings_of_flags, source_of_flags
from headwater.pg.lsn import Lsn
from headwater.pipeline.dry_run import PublicationReport, TableReport, explain
from headwater.pipeline.requests.request import DecodeRequest


def run_explain(
    wal: Sequence[str],
    timeline: int | None,
    storage_options: Sequence[str],
    catalog: str,
    database: str | None,
    server_version: str | None,
    start: str | None,
    end: str | None,
    publications: Sequence[str],
    as_json: bool,
) -> None:
    """Print what publications would send of a window.

    Raises:
        HeadwaterError: it cannot be read.
    """
    request = DecodeRequest(
        wal=source_of_flags(wal, storage_options, timeline),
        catalog=catalog,
        database=database,
        start=None if start is None else Lsn.parse(start),
        end=None if end is None else Lsn.parse(end),
        settings=settings_of_flags(server_version=server_version),
    )
    reports = explain(request, publications)
    if as_json:
        print(json.dumps([_as_json(report) for report in reports], indent=2))
        return
    for report in reports:
        for line in _lines(report):
            print(line)


def _as_json(report: PublicationReport) -> dict[str, object]:
    return {
        "publication": report.name,
        "messages": report.messages,
        "bytes": report.bytes,
        "error": report.error,
        "tables": [
            {
                "table": table.name,
                "published_as": table.published_as,
                "changes": table.changes._asdict(),
                "sent": table.sent._asdict(),
                "bytes": table.bytes,
                "left_out": list(table.reasons),
            }
            for table in report.tables
        ],
    }


def _lines(report: PublicationReport) -> list[str]:
    if report.error is not None:
        return [f"publication {report.name}: {report.error}"]
    sent = [table for table in report.tables if table.sent.total]
    rows = sum(table.sent.total for table in sent)
    others = f"{report.other_messages} other messages of {report.other_bytes} bytes"
    size = report.bytes - report.other_bytes
    lines = [f"publication {report.name}: {len(sent)} tables, {rows} rows of {size} bytes, {others}"]
    for table in report.tables:
        lines += _table_lines(table)
    return lines


def _table_lines(table: TableReport) -> list[str]:
    inserts, updates, deletes = table.sent
    sent = f"{inserts} inserts, {updates} updates, {deletes} deletes, {table.bytes} bytes"
    name = table.name if table.published_as is None else f"{table.name} as {table.published_as}"
    head = f"  {name}: {sent if table.sent.total else 'nothing'}, of {table.changes.total} changes"
    return [head, *(f"    {reason}" for reason in table.reasons)]
