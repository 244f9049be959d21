"""The window that is decoded: which records the server would read, and whether all in it can be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import CatalogError, WalError, warn
from headwater.pg.lsn import Lsn
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns
from headwater.reorder.history import WAL_LEVELS, History, check_wal_level
from headwater.rmgr.index import WalIndex
from headwater.rmgr.registry import FIRST_CUSTOM
from headwater.wal.page_layout import LONG_HEADER, PAGE_SIZE, SHORT_HEADER

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """What part of the log is wanted, and of which tables.

    Attributes:
        segment_size: bytes of a segment of the log.
        start: transactions whose commit record starts before it are left out, 0 for none.
        end: stop as the server does with ``upto_lsn``, None for the end of the log.
        tables: those whose changes are wanted, if the plugin wants them too.
        commits: first and last start of a commit record that a transaction is wanted for, None for any.
    """

    segment_size: int
    start: int = 0
    end: int | None = None
    tables: TablePatterns = EVERY_TABLE
    commits: tuple[int, int] | None = None

    def reads(self, lsn: Int64s) -> NDArray[np.bool_]:
        """Which records the server still reads: those whose predecessor ended before ``upto_lsn``.

        Args:
            lsn: int64[n] starts of records.

        Returns:
            bool[n].
        """
        if self.end is None:
            return np.ones(len(lsn), np.bool_)
        read: NDArray[np.bool_] = self._predecessor_end(lsn) < self.end
        return read

    def end_before(self, lsn: int) -> int:
        """The last end with which the record that starts at ``lsn`` is not read."""
        return int(self._predecessor_end(np.array([lsn]))[0])

    def _predecessor_end(self, lsn: Int64s) -> Int64s:
        """A record's predecessor ends where it starts, or before the header of the page that it is the first on."""
        header = np.where(lsn % self.segment_size < PAGE_SIZE, LONG_HEADER, SHORT_HEADER)
        return np.where(lsn % PAGE_SIZE == header, lsn - header, lsn)


def check_database_stays(history: History, window: Window) -> None:
    """Refuse a window in which the database moves to another tablespace: its files are copied without any WAL.

    Raises:
        CatalogError: it does.
    """
    moved = history.store.moved_at()
    if moved is not None and window.reads(np.array([moved]))[0]:
        raise CatalogError(
            f'database "{history.store.database_name}" moves to another tablespace',
            lsn=moved,
            hint=f"decode up to there with --end {Lsn(moved)}, and take a new base backup for what follows",
        )


def check_window(index: WalIndex, history: History, window: Window) -> int:
    """Whether a window can be decoded; what is passed over is warned of.

    Args:
        index: of the window; history: its own.
        window: which part is wanted.

    Returns:
        LSN of the consistent point.

    Raises:
        CatalogError: the backup is incomplete.
        WalError: wal_level was too low, or no consistent point was reached.
    """
    history.store.check_files()
    check_wal_level(history, window.end)
    _check_minimal(index, history)
    for number in np.flatnonzero(index.custom).tolist():
        warn(
            f"{index.custom[number]} records of custom resource manager {FIRST_CUSTOM + number} are passed over",
            hint="what the extension that wrote them changed in its own storage is not decoded",
        )
    if history.builder.consistent_at is None:
        raise WalError(
            f"no consistent point between {Lsn(index.lo)} and {Lsn(index.hi)}: {_what_ran(history)} had not all ended",
            lsn=index.lo,
            hint="give more WAL, or a backup taken while no long transaction runs",
        )
    return history.builder.consistent_at


def _what_ran(history: History) -> str:
    open_ones = [str(one) for xid, one in history.old_prepared.items() if xid not in history.prepared_ends]
    names = f", among them {' and '.join(open_ones)}," if open_ones else ""
    return f"transactions that ran when the catalog was taken{names}"


def warn_of_late_start(history: History, commits: Int64s) -> None:
    """Warn that transactions are left out because decoding could not begin early enough for them.

    Args:
        history: the window's.
        commits: int64[n] where transactions committed that were wanted, in order.
    """
    if not len(commits):
        return
    first, last = Lsn(int(commits[0])), Lsn(int(commits[-1]))
    which = f"1 transaction that committed at {first} is"
    if len(commits) > 1:
        which = f"{len(commits)} transactions that committed from {first} to {last} are"
    point = Lsn(history.builder.consistent_at or 0)
    warn(
        f"{which} left out: the consistent point is {point}, as {' and '.join(_reasons(history))}",
        hint="to have them, use a backup from before them, taken while no long transaction ran",
    )


def _reasons(history: History) -> Iterator[str]:
    """Why the consistent point lies behind the catalog's LSN."""
    store, found = history.store, False
    for xid, one in history.old_prepared.items():
        if history.prepared_ends.get(xid, 0) > store.start_lsn:
            found = True
            yield f"{one} had begun before the catalog was taken and ended at {Lsn(history.prepared_ends[xid])}"
    if history.raised is not None:
        found = True
        yield f"wal_level was below logical until {Lsn(history.raised)}"
    if not found:
        yield "transactions that ran when the catalog was taken had to end first"


def _check_minimal(index: WalIndex, history: History) -> None:
    """With wal_level = minimal, files are written without WAL: no catalog can follow (CheckRequiredParameterValues)."""
    for (lo, level), hi in zip(history.levels, [*(lsn for lsn, _ in history.levels[1:]), index.hi], strict=True):
        xids = index.rows.xids
        if level == 0 and ((xids.lsn >= lo) & (xids.lsn < hi)).any():
            raise WalError(
                f"WAL was generated with wal_level = {WAL_LEVELS[0]}, expected logical",
                lsn=lo,
                hint="take a new base backup after wal_level was raised",
            )
