"""The reports of a run that lands, while it works: to a progress bar, to a scheduler, to metrics.

Called in the thread that commits, between one step and the next: a listener does not make it wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.lakes.paused import PausedTable


@dataclass(frozen=True)
class CommittedTable:
    """A commit to one table.

    Attributes:
        name: the table's.
        rows, files, bytes: what came to it.
        files_there, bytes_there: what it consists of now.
    """

    name: str
    rows: int
    files: int
    bytes: int
    files_there: int
    bytes_there: int


@dataclass(frozen=True)
class LandedWindow:
    """A window that all tables have.

    Attributes:
        lo, hi: LSNs between which its WAL lies: everything up to ``hi`` is resolved.
        end: LSN where the log ended when it was there; without following, where the run will end, or may.
        rows, files, bytes: what came to the tables; transactions: how many it had.
        last_commit: when the last of them committed, by the server's clock; None for none.
        landed_at: when it was there, by this machine's; both in seconds since 1970.
        seconds: that tasks and commits took.
    """

    lo: int
    hi: int
    end: int
    rows: int
    files: int
    bytes: int
    transactions: int
    last_commit: float | None
    landed_at: float
    seconds: float

    @property
    def lag_bytes(self) -> int:
        """WAL that is there and has not landed."""
        return self.end - self.hi

    @property
    def delay_seconds(self) -> float | None:
        """The time from the last commit on the server until it was there; None without a transaction."""
        return None if self.last_commit is None else max(0.0, self.landed_at - self.last_commit)


class LandingWatch:
    """A listener that does nothing."""

    def begins(self, lo: int, end: int) -> None:
        """Hear that a pass over WAL begins: a run is one, or many where the log is followed.

        Args:
            lo: LSN where it begins; end: see :attr:`LandedWindow.end`.
        """

    def committed(self, tables: Sequence[CommittedTable], seconds: float) -> None:
        """Hear that tables got their parts of a window.

        Args:
            tables: them; seconds: that their commits took, without the writing of files.
        """

    def passed(self, window: LandedWindow) -> None:
        """Hear that all tables have a window."""

    def paused(self, tables: Sequence[PausedTable]) -> None:
        """Hear that these tables are paused, and no others: as a run begins, and whenever that changes."""

    def compacted(self, table: str, files: int) -> None:
        """Hear that so many files of a table were made into one."""

    def expired(self, table: str, files: int, bytes: int) -> None:
        """Hear that old files of a table were removed."""


class SeveralWatch(LandingWatch):
    """A listener that passes on to others.

    Args:
        watches: them.
    """

    def __init__(self, watches: Sequence[LandingWatch]) -> None:
        self._watches = watches

    def begins(self, lo: int, end: int) -> None:
        for watch in self._watches:
            watch.begins(lo, end)

    def committed(self, tables: Sequence[CommittedTable], seconds: float) -> None:
        for watch in self._watches:
            watch.committed(tables, seconds)

    def passed(self, window: LandedWindow) -> None:
        for watch in self._watches:
            watch.passed(window)

    def paused(self, tables: Sequence[PausedTable]) -> None:
        for watch in self._watches:
            watch.paused(tables)

    def compacted(self, table: str, files: int) -> None:
        for watch in self._watches:
            watch.compacted(table, files)

    def expired(self, table: str, files: int, bytes: int) -> None:
        for watch in self._watches:
            watch.expired(table, files, bytes)


NOBODY_WATCHES = LandingWatch()
