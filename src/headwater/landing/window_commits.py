"""The commits of one window: each table's new files, with the LSN up to which they have its rows.

The same of whatever the window is: a stretch of WAL, or of a slot's stream. A mirror that rows come to is committed
before the one that they leave (:attr:`headwater.lakes.lake_table.TableCommit.turn`). A table without columns is left
out, as no format has such a one: a mirror begins when its table has a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from headwater.lakes.lake_table import Landed, TableCommit, TableSize
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_watch import CommittedTable
from headwater.landing.mirrors.landed_files import Settled


def commit_tables(lake: Lake, settled: Sequence[Settled], source: str) -> list[CommittedTable]:
    """Commit the tables of a window.

    Args:
        lake: that has them; settled: their files.
        source: the origin of the rows, as in :class:`~headwater.lakes.lake_table.Landed`.

    Raises:
        LakeError: a table cannot be committed.
    """
    settled = sorted((table for table in settled if len(table.landing.schema)), key=attrgetter("turn"))
    lake.tables.commit([_commit_of(table, source) for table in settled])
    return [_committed(table) for table in settled]


def _committed(settled: Settled) -> CommittedTable:
    added, size = TableSize.of(settled.added), settled.landing.table.size
    return CommittedTable(settled.landing.name, settled.rows, added.files, added.bytes, size.files, size.bytes)


def _commit_of(settled: Settled, source: str) -> TableCommit:
    landed = Landed(settled.last, settled.landing.schema, source)
    table, deleted = settled.landing.table, settled.deleted
    return TableCommit(table, settled.added, landed, settled.removed, deleted=deleted, turn=settled.turn)
