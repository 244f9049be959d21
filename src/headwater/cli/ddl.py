"""``headwater ddl``: the DDL of a window of WAL, as SQL or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.cli.option_pairs import settings_of_flags, source_of_flags
from headwater.pg.lsn import Lsn
from headwater.pipeline.ddl import PlacedDdl, open_ddl, read_ddl
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DdlFlags:
    """The flags of ``headwater ddl``, as they were given.

    Attributes:
        wal: places, in the order in which a segment is looked for.
        timeline: the timeline to follow; storage_options: texts ``NAME=VALUE`` for stores.
        catalog, database: what is followed; server_version: the release of the server that wrote the WAL.
        start, end: LSNs.
        form: ``sql`` or ``json``.
        window_bytes: WAL that is planned at a time.
    """

    wal: Sequence[str]
    timeline: int | None
    storage_options: Sequence[str]
    catalog: str
    database: str | None
    server_version: str | None
    start: str | None
    end: str | None
    form: str
    window_bytes: int


def run_ddl(flags: DdlFlags) -> None:
    """Print the events.

    Raises:
        HeadwaterError: it cannot be done.
    """
    request = DecodeRequest(
        wal=source_of_flags(flags.wal, flags.storage_options, flags.timeline),
        catalog=flags.catalog,
        database=flags.database,
        start=None if flags.start is None else Lsn.parse(flags.start),
        end=None if flags.end is None else Lsn.parse(flags.end),
        settings=settings_of_flags(server_version=flags.server_version),
        with_ddl=True,
    )
    found = read_ddl(open_ddl(request), WindowBounds(flags.window_bytes))
    for line in _json_lines(found) if flags.form == "json" else _sql_lines(found):
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _json_lines(found: Iterator[PlacedDdl]) -> Iterator[str]:
    for one in found:
        place = {
            "lsn": str(Lsn(one.lsn)),
            "xid": one.xid,
            "commit_lsn": str(Lsn(one.commit_lsn)),
            "commit_time": (_EPOCH + timedelta(microseconds=one.commit_time)).isoformat(),
        }
        yield json.dumps(place | one.event.structure(), ensure_ascii=False)


def _sql_lines(found: Iterator[PlacedDdl]) -> Iterator[str]:
    """Statements; what cannot be told in SQL is a comment that names it."""
    for one in found:
        yield from (f"{statement};" for statement in one.event.sql)
        if one.event.unsupported:
            event = one.event
            yield f"-- {Lsn(one.commit_lsn)}: {event.action} {event.kind} {_in_line(event.name)}: {event.unsupported}"


def _in_line(name: str) -> str:
    return " ".join(name.splitlines())
