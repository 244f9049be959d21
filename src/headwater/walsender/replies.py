"""The results of the commands of replication: their columns and rows, as each major has them.

PostgreSQL: IdentifySystem, CreateReplicationSlot, ReadReplicationSlot, SendTimeLineHistory (walsender.c), guc_funcs.c.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.pg.lsn import lsn_text
from headwater.pg.version import Version
from headwater.protocol.backend_messages import Column, Value, command_complete, data_row, row_description
from headwater.walsender.physical_wal import SentTimeline

INT4, INT8, TEXT = 23, 20, 25


def text_column(name: str) -> Column:
    """Return a column of type text."""
    return Column(name, TEXT, -1)


def result(columns: Sequence[Column], rows: Sequence[Sequence[Value]], tag: str) -> bytes:
    """Return a whole result: description, rows, the command's tag."""
    return row_description(columns) + b"".join(map(data_row, rows)) + command_complete(tag)


def text(value: str | None) -> Value:
    """Return a value of type text."""
    return None if value is None else value.encode("utf-8", "surrogateescape")


def identify_system(version: Version, system_identifier: int, timeline: int, lsn: str, database: str) -> bytes:
    """Return the result of IDENTIFY_SYSTEM; without a database there is none."""
    timeline_column = Column("timeline", INT8, 8) if version.wide_timelines else Column("timeline", INT4, 4)
    columns = [text_column("systemid"), timeline_column, text_column("xlogpos"), text_column("dbname")]
    row = [text(str(system_identifier)), text(str(timeline)), text(lsn), text(database or None)]
    return result(columns, [row], "IDENTIFY_SYSTEM")


def created_slot(name: str, lsn: str, snapshot: str | None, plugin: str | None) -> bytes:
    """Return the result of CREATE_REPLICATION_SLOT."""
    columns = [text_column(name) for name in ("slot_name", "consistent_point", "snapshot_name", "output_plugin")]
    return result(columns, [[text(name), text(lsn), text(snapshot), text(plugin)]], "CREATE_REPLICATION_SLOT")


def read_slot(row: Sequence[str | None]) -> bytes:
    """Return the result of READ_REPLICATION_SLOT; all NULL where there is no such slot."""
    columns = [text_column("slot_type"), text_column("restart_lsn"), Column("restart_tli", INT8, 8)]
    return result(columns, [list(map(text, row))], "READ_REPLICATION_SLOT")


def shown(name: str, value: str) -> bytes:
    """Return the result of SHOW."""
    return result([text_column(name)], [[text(value)]], "SHOW")


def history_columns(version: Version) -> bytes:
    """Return what the result of TIMELINE_HISTORY begins with, whether there is such a file or not."""
    modifier = -1 if version.sends_history_as_text else 0
    return row_description([Column(name, TEXT, -1, modifier) for name in ("filename", "content")])


def timeline_history(name: str, content: bytes) -> bytes:
    """Return the rest of the result of TIMELINE_HISTORY."""
    return data_row([text(name), content]) + command_complete("TIMELINE_HISTORY")


def next_timeline(version: Version, timeline: SentTimeline) -> bytes:
    """Return the rows that say where a timeline was left; CommandComplete is not among them."""
    assert timeline.left is not None
    columns = [Column("next_tli", INT8, 8), text_column("next_tli_startpos")]
    row = [text(str(timeline.next)), text(lsn_text(timeline.left, version))]
    return row_description(columns) + data_row(row)
