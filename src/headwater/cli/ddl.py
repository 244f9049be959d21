"""``headwater ddl``: the DDL of a window of WAL, as SQL or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headwater.cli.flags import command, from_choice, from_flags
from headwater.cli.shared_flags import SourceFlags, window_flag
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from headwater.pipeline.ddl import PlacedDdl

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DdlFlags:
    """The flags of ``headwater ddl``."""

    source: SourceFlags = from_flags(SourceFlags)
    form: str = from_choice(
        "--format",
        "sql",
        "json",
        help="Statements that repeat it, or an object a line with the definitions before and behind.",
    )
    window_bytes: int = window_flag(help="WAL that is planned at a time.")


@command("ddl", DdlFlags)
def ddl_command(flags: DdlFlags) -> None:
    """Print what a window of WAL has changed of tables, types, indexes and other objects, in commit order."""
    from headwater.pipeline.ddl import open_ddl, read_ddl
    from headwater.pipeline.windows.run_index import WindowBounds

    changes = read_ddl(open_ddl(flags.source.request(with_ddl=True)), WindowBounds(flags.window_bytes))
    for line in _json_lines(changes) if flags.form == "json" else _sql_lines(changes):
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _json_lines(changes: Iterator[PlacedDdl]) -> Iterator[str]:
    for change in changes:
        place = {
            "lsn": str(Lsn(change.lsn)),
            "xid": change.xid,
            "commit_lsn": str(Lsn(change.commit_lsn)),
            "commit_time": (_EPOCH + timedelta(microseconds=change.commit_time)).isoformat(),
        }
        yield json.dumps(place | change.event.structure(), ensure_ascii=False)


def _sql_lines(changes: Iterator[PlacedDdl]) -> Iterator[str]:
    """Yield statements; what SQL cannot say is a comment that names it."""
    for change in changes:
        event = change.event
        yield from (f"{statement};" for statement in event.sql)
        if event.unsupported:
            what = f"{event.action} {event.kind} {' '.join(event.name.splitlines())}"
            yield f"-- {Lsn(change.commit_lsn)}: {what}: {event.unsupported}"
