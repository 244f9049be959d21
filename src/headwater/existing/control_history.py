"""Control records after a copy's first LSN: how far ``pg_xact`` must reach for its rows, and wal_level.

In: the index of each stretch of a run of WAL. Out: a few values for each run, which the driver puts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.errors import CatalogError, WalError
from headwater.rmgr.index.wal_index import WalIndex
from headwater.rmgr.registry import XLOG
from headwater.rmgr.xlog import (
    CHECKPOINT_ONLINE,
    CHECKPOINT_SHUTDOWN,
    PARAMETER_CHANGE,
    parse_checkpoint,
    parse_parameter_change,
)
from headwater.wal.layout import INFO_AT, RMID_AT, XLR_RMGR_INFO_MASK
from headwater.wal.records.record import parse_record

_WANTED = CHECKPOINT_ONLINE, CHECKPOINT_SHUTDOWN, PARAMETER_CHANGE


@dataclass
class ControlHistory:
    """The control records of a run, stretch by stretch.

    Attributes:
        major: PostgreSQL's.
        checkpoints: (where replay begins, next xid) of each.
        levels: (LSN, wal_level from there on).
        busy: numbers of the stretches between these in which there are transactions; 0 is the one before the first.
    """

    major: int
    checkpoints: list[tuple[int, int]] = field(default_factory=list)
    levels: list[tuple[int, int]] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)

    def add(self, index: WalIndex) -> None:
        """Take the next stretch.

        Raises:
            RecordError: a record is malformed.
        """
        for record in index.kept:
            kind = record.data[INFO_AT] & XLR_RMGR_INFO_MASK
            if record.data[RMID_AT] == XLOG and kind in _WANTED:
                self._take(
                    kind, parse_record(record.data, record.lsn, record.end_lsn, self.major).main_data, record.lsn
                )
        begins = np.array([lsn for lsn, _ in self.levels], np.int64)
        self.busy.update(np.unique(np.searchsorted(begins, index.rows.xids.lsn, "right")).tolist())

    def _take(self, kind: int, main_data: bytes, lsn: int) -> None:
        if kind == PARAMETER_CHANGE:
            self.levels.append((lsn, parse_parameter_change(main_data, lsn).wal_level))
        else:
            checkpoint = parse_checkpoint(main_data, lsn, self.major)
            self.checkpoints.append((checkpoint.redo, checkpoint.next_xid))


def next_xid_at_start(copy: DataDirectory, runs: Sequence[ControlHistory]) -> int:
    """Return the next xid, 64 bits, of the checkpoint that replay of a copy begins with.

    All transactions before it are in the copy's ``pg_xact``. What ``pg_control`` of an online backup says may be of a
    later one.

    Args:
        copy: the data directory; runs: of the log from its first LSN on.

    Raises:
        CatalogError: the log does not have that checkpoint.
    """
    if copy.control.redo_lsn == copy.start_lsn:
        return copy.control.next_xid
    for run in runs:
        for redo, next_xid in run.checkpoints:
            if redo == copy.start_lsn:
                return next_xid
    raise CatalogError(
        "the log has no checkpoint that replay begins at here, as the backup says",
        lsn=copy.start_lsn,
        file=str(copy.path),
        hint="give the WAL that belongs to the backup",
    )


def check_levels(copy: DataDirectory, runs: Sequence[ControlHistory]) -> None:
    """Check that the log has all that became of a copy's rows (CheckRequiredParameterValues).

    Args:
        copy: the data directory; runs: of the log from its first LSN on.

    Raises:
        WalError: transactions ran with wal_level = minimal, which write files without the log.
    """
    level, begin = copy.control.wal_level, copy.start_lsn
    for run in runs:
        for number in range(len(run.levels) + 1):
            if number:
                begin, level = run.levels[number - 1]
            if level == 0 and number in run.busy:
                raise WalError(
                    "WAL was generated with wal_level = minimal, expected logical: rows may have come without it",
                    lsn=begin,
                    hint="take a base backup after wal_level was raised, and give that one",
                )
