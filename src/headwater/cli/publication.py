"""``headwater publication``: what publications would send of a window."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.cli.flags import CommandGroup, command, from_flag, from_flags
from headwater.cli.shared_flags import SourceFlags

if TYPE_CHECKING:
    from headwater.pipeline.dry_run import PublicationReport, TableReport


@dataclass(frozen=True)
class ExplainFlags:
    """The flags of ``headwater publication explain``."""

    source: SourceFlags = from_flags(SourceFlags)
    publications: Sequence[str] = from_flag(
        "--publication", multiple=True, metavar="NAME", help="A publication; default: all that there are at the end."
    )
    as_json: bool = from_flag("--json", is_flag=True, help="Print JSON.")


@command("publication explain", ExplainFlags)
def explain_command(flags: ExplainFlags) -> None:
    """Print which tables, rows and bytes each publication would send, and why the rest is left out. Sends nothing."""
    from headwater.pipeline.dry_run import explain

    reports = explain(flags.source.request(), flags.publications)
    if flags.as_json:
        print(json.dumps([_as_json(report) for report in reports], indent=2))
        return
    for report in reports:
        for line in _lines(report):
            print(line)


publication_command = CommandGroup(
    "publication",
    [explain_command],
    short_help="What publications would send of a window.",
    help="What publications would send of a window of WAL.",
)


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
