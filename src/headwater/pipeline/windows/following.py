"""Going on after the end of the log: when to look at it again, and what of it is there.

In: where WAL comes to, and whether the run was told to end. Out: the WAL as it is at a moment, once there is some after
a state. What a run does with it is the same as without following, pass by pass: a pass goes from a state to the end of
what is there (:mod:`headwater.pipeline.window_pipeline`).

WAL that has not come yet is waited for: after the end, at the beginning (an archive that is younger than the backup),
and where an archive gets a later segment first. WAL that is gone is an error.

A pass begins at the pace of commits: until then WAL is left where it is, and looked at now and then.

Known gap: WAL that the server has written and not yet flushed is read; a server that loses power writes other records
in its place.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from headwater.errors import AwaitedCatalogError, AwaitedSegmentError, warn
from headwater.pipeline.windows.commit_pace import CommitPace
from headwater.slots.kept_state import KeptState
from headwater.wal.records.growing_directory import GrowingDirectory, end_of_log, has_record, unbroken
from headwater.wal.segments.arrivals import POLL_SECONDS, Arrivals
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource

T = TypeVar("T")

HOLDING_SECONDS = 1.0
"""After which WAL that is held is looked at again, as it may be enough by now."""


class Stopping:
    """A request to end a run at the next place where nothing is left half done; made from any thread or signal."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.is_told = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the descriptors; nobody waits for the request any more."""
        os.close(self._reader)
        os.close(self._writer)

    def fileno(self) -> int:
        """Return a descriptor that can be read once the request was made."""
        return self._reader

    def wait(self, seconds: float) -> None:
        """Wait until the request is made, so long at most."""
        select.select([self], [], [], max(seconds, 0))

    def tell(self) -> None:
        """Let it end."""
        self.is_told = True
        os.write(self._writer, b".")


class Following:
    """A look at WAL that grows; a context manager.

    Args:
        source: where it comes to.
        stopping: tells the run to end.
        poll_seconds: see :data:`headwater.wal.segments.arrivals.POLL_SECONDS`.
        pace: of commits; None for as soon as there is anything.
    """

    def __init__(
        self,
        source: WalSource,
        stopping: Stopping,
        poll_seconds: float = POLL_SECONDS,
        pace: CommitPace | None = None,
    ) -> None:
        self.stopping = stopping
        self._pace = pace or CommitPace()
        self._arrivals = Arrivals(source.places, stopping.fileno(), poll_seconds)
        self._growing = GrowingDirectory(source)

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._arrivals.__exit__(kind, error, trace)

    def when_there(self, take: Callable[[], T]) -> T | None:
        """Take what can be taken once enough WAL is there; None if the run was told to end before.

        Args:
            take: takes that; an error that says that WAL has yet to come is waited out.

        Raises:
            HeadwaterError: any other.
        """
        while not self.stopping.is_told:
            try:
                return take()
            except (AwaitedSegmentError, AwaitedCatalogError) as error:
                warn(f"waiting for WAL: {error.message}", file=error.file)
                self._arrivals.wait()
        return None

    def look(self, stored: KeptState | None) -> WalDirectory:
        """Return the WAL that is there, from where a state needs it.

        Raises:
            SegmentError: there is none, or it cannot be read.
        """
        directory = self._growing.look(None if stored is None else stored.state.restart_lsn)
        return directory if stored is None else unbroken(directory, stored.state.lsn)

    def behind(self, stored: KeptState, idle: Callable[[], bool] = lambda: False) -> WalDirectory | None:
        """Return the WAL once there is a record after a state, and a commit may begin; None if told to end before.

        Args:
            stored: the state.
            idle: does some work meanwhile, for a few seconds at most; tells whether there was any.

        Raises:
            WalError: it cannot be read.
        """
        while not self.stopping.is_told:
            directory = self.look(stored)
            is_there = has_record(directory, stored.state.lsn)
            if is_there and self._is_enough(directory, stored.state.lsn):
                self._pace.begins()
                return directory
            if idle():
                continue
            if is_there:
                self.stopping.wait(min(self._pace.rest, HOLDING_SECONDS))
            else:
                self._arrivals.wait()
        return None

    def _is_enough(self, directory: WalDirectory, lsn: int) -> bool:
        """Tell whether the WAL after an LSN is not held."""
        return self._pace.rest <= 0 or self._pace.is_enough(end_of_log(directory, lsn) - lsn)

    def end(self, known: int) -> int:
        """Return the end of the log at this moment, given that a record is known to end at an LSN."""
        return max(known, end_of_log(self._growing.look(known), known))
