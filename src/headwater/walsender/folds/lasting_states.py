"""States of folds that outlive the service: written into files by a thread of their own, read after a restart.

A state is written at once when nothing of its database was for a while, or when the log has gone on by a stretch; the
last one when the service ends. What cannot be written is logged, and tried again with the next state: nobody's stream
ends for it. States are of no output and of nobody's settings: these are the cluster's own, as they are read now.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwater.errors import HeadwaterError, SlotError
from headwater.pg.lsn import Lsn
from headwater.slots.kept_state import KeptState
from headwater.slots.shelf_budget import SPACING, ShelfBudget, unneeded
from headwater.slots.shelf_directory import (
    CopiedDatabase,
    Lineage,
    ShelfDirectory,
    ShelvedFile,
    all_files,
    remove_files,
    remove_unfinished,
    restart_lsn,
)

log = logging.getLogger("headwater.walsender")

WRITE_SECONDS = 15.0
"""Between two states of a database that goes on slowly."""

_MOST_WAITING = 8

Settings = tuple[tuple[str, str], ...]


@dataclass
class _Waiting:
    """The states of a database that are to be written.

    Attributes:
        passed: those that the log has gone beyond by a stretch; newest: one that may still be replaced.
        written: LSN of the last one that was; written_at: the time, by the monotonic clock.
    """

    passed: deque[KeptState] = field(default_factory=lambda: deque(maxlen=_MOST_WAITING))
    newest: KeptState | None = None
    written: int = 0
    written_at: float = float("-inf")

    def due(self, now: float) -> float | None:
        """Return the seconds until something is to be written; None for nothing."""
        if self.passed:
            return 0.0
        return None if self.newest is None else max(0.0, self.written_at + WRITE_SECONDS - now)

    def taken(self, now: float, is_last: bool) -> list[KeptState]:
        """Take what is to be written now; all that there is at the end."""
        states = list(self.passed)
        self.passed.clear()
        if self.newest is not None and (is_last or self.due(now) == 0.0):
            states.append(self.newest)
            self.newest = None
        return states


class StateWriter:
    """The writer of the states of all databases of a service.

    Args:
        slots: directory of slots, in which they lie; budget: their room.
        lineage: tells the history of the WAL as it is now.

    Raises:
        SlotError: what a killed service has left does not go.
    """

    def __init__(self, slots: Path, budget: ShelfBudget, lineage: Callable[[], Lineage]) -> None:
        self.slots, self._budget, self.lineage = slots, budget, lineage
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._waiting: dict[ShelfDirectory, _Waiting] = {}
        self._is_ending = False
        remove_unfinished(slots)
        self._thread = threading.Thread(target=self._run, name="walsender-shelf", daemon=True)
        self._thread.start()

    def add(self, directory: ShelfDirectory) -> None:
        """Take a database that is served."""
        with self._changed:
            self._waiting[directory] = _Waiting()

    def offer(self, directory: ShelfDirectory, kept_state: KeptState) -> None:
        """Let a state be written, or a later one close to it; nobody waits for that."""
        with self._changed:
            waiting, lsn = self._waiting[directory], kept_state.state.lsn
            newest = waiting.newest
            if newest is not None and newest.state.lsn // SPACING != lsn // SPACING:
                waiting.passed.append(newest)
            if lsn != waiting.written:
                waiting.newest = kept_state
            self._changed.notify()

    def write(self, directory: ShelfDirectory, kept_state: KeptState) -> None:
        """Write a state now.

        Raises:
            HeadwaterError: it cannot be written, or the history of the WAL cannot be read.
        """
        with self._writing:
            directory.write(kept_state, self.lineage())
            self._thin()
        with self._changed:
            waiting = self._waiting[directory]
            waiting.written, waiting.written_at = kept_state.state.lsn, time.monotonic()

    def close(self) -> None:
        """End, with all written."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                dues = [due for waiting in self._waiting.values() if (due := waiting.due(now)) is not None]
                seconds = min(dues, default=None)
                if not self._is_ending and (seconds is None or seconds > 0):
                    self._changed.wait(seconds)
                    continue
                is_last = self._is_ending
                taken = {directory: waiting.taken(now, is_last) for directory, waiting in self._waiting.items()}
            for directory, states in taken.items():
                for kept_state in states:
                    self._try_to_write(directory, kept_state)
            if is_last:
                return

    def _try_to_write(self, directory: ShelfDirectory, kept_state: KeptState) -> None:
        try:
            self.write(directory, kept_state)
        except HeadwaterError as error:
            log.warning("a state is not kept: %s", error.one_line())
            with self._changed:
                self._waiting[directory].written_at = time.monotonic()

    def _thin(self) -> None:
        with self._changed:  # Databases are added meanwhile.
            served: Collection[str] = {directory.directory.name for directory in self._waiting}
        remove_files(unneeded(all_files(self.slots), served, self._budget, time.time()))


class LastingStates:
    """The states of one database that outlive the service; any thread asks.

    Args:
        name: of the database; of: what the states are of.
        writer: writes them.
        settings: tells the settings that the cluster's sessions begin with.
    """

    def __init__(self, name: str, of: CopiedDatabase, writer: StateWriter, settings: Callable[[], Settings]) -> None:
        self._name, self._writer, self._settings = name, writer, settings
        self.directory = ShelfDirectory(writer.slots, of)
        writer.add(self.directory)

    def own(self, kept_state: KeptState) -> KeptState:
        """Return a state with the cluster's own settings.

        Raises:
            CatalogError: they cannot be read, or one is not supported.
        """
        return replace(kept_state, server_settings=self._settings())

    def offer(self, kept_state: KeptState) -> None:
        """Let a state be written soon."""
        self._writer.offer(self.directory, kept_state)

    def write(self, kept_state: KeptState) -> None:
        """Write a state now.

        Raises:
            HeadwaterError: it cannot be written.
        """
        self._writer.write(self.directory, kept_state)

    def files(self) -> list[ShelvedFile]:
        """List the files that the present history of the WAL has, by LSN.

        Raises:
            HeadwaterError: the history cannot be read.
        """
        return self.directory.files(self._writer.lineage())

    def base(self, lsn: int) -> tuple[int, int] | None:
        """Return the LSN of a state, and from where on it needs WAL; None for none.

        It is the last one at or before an LSN. Without one it is the first behind: earlier ones were thinned out.

        Raises:
            HeadwaterError: the history of the WAL cannot be read.
        """
        files = self.files()
        before = [file for file in files if file.lsn <= lsn]
        for file in (*reversed(before), *files[len(before) :]):
            with suppress(SlotError):
                return file.lsn, restart_lsn(file)
        return None

    def nearest(self, lsn: int, lineage: Lineage, above: int = 0) -> KeptState | None:
        """Return the last state at or before an LSN that a history has; None if there is none after ``above``.

        Raises:
            HeadwaterError: the cluster's settings cannot be read.
        """
        kept_state = self.directory.nearest(lsn, lineage, above)
        if kept_state is None:
            return None
        at, place = Lsn(kept_state.state.lsn), self.directory.directory
        log.info('database "%s" goes on from the state at %s in %s', self._name, at, place)
        return self.own(kept_state)
