"""The standbys of a cluster: of each database one that goes along with the end of the log, and a few at past LSNs.

Job: give a standby that stands at the LSN that is asked for; start one on first need. A standby is made anew where the
fold has found out that a file whose records were passed over is a catalog's: its records are in WAL that was given.

A standby that has replayed what another history goes on with now, as the source was promoted below it, is made anew.

Calls come from several threads; those for one standby take turns.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.server_settings import read_configured
from headwater.catalog.store.image_io import store_of
from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_programs import ServerPrograms
from headwater.reorder.commits.state import State
from headwater.slots.history import Position, position_of_state
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.catalog_server.filtered_wal import SystemFiles
from headwater.walsender.catalog_server.origin_files import files_since
from headwater.walsender.catalog_server.standby import OF_ANSWERS, Standby
from headwater.walsender.catalog_server.system_files import name_of_superuser, system_files

MOST_PAST = 4
"""Standbys at past LSNs, of all databases: the one that was not asked for longest goes first, if nobody uses it."""

IDLE_SECONDS = 300.0
"""After which a standby at a past LSN is stopped that nobody uses."""


@dataclass(frozen=True)
class CatalogSource:
    """The parts that standbys are made of.

    Attributes:
        backup: path of the backup.
        wal: looks at the WAL that is there, from an LSN on.
        state_at_end: gives the state of a database at the end of the log.
        programs: finds the server's programs.
    """

    backup: str
    wal: Callable[[int], WalDirectory]
    state_at_end: Callable[[str], KeptState]
    programs: Callable[[], ServerPrograms]


@dataclass
class _Place:
    """A standby that may be there, and who may touch it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    standby: Standby | None = None
    at: Position | None = None
    users: int = 0
    since: float = 0.0

    def close(self) -> None:
        if self.standby is not None:
            self.standby.close()
        self.standby = self.at = None


@contextmanager
def _closed_on_failure(place: _Place) -> Iterator[None]:
    """Let a standby go that has failed: the next who asks gets a new one."""
    try:
        yield
    except BaseException:
        place.close()
        raise


def _stands_at(place: _Place, state: State) -> bool:
    standby, at = place.standby, place.at
    return standby is not None and standby.feed.end == state.lsn and at is not None and at.timeline == state.timeline


def _close_all(places: Iterable[_Place]) -> None:
    for place in places:
        with place.lock:
            place.close()


class CatalogServers:
    """The standbys.

    Args:
        source: what they are made of.
    """

    def __init__(self, source: CatalogSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._present: dict[str, _Place] = {}
        self._past: OrderedDict[tuple[str, Position], _Place] = OrderedDict()
        self._watch = threading.Event()
        self._watcher: threading.Thread | None = None

    @contextmanager
    def lent(self, database: str, snapshot: KeptState | None, *, is_apart: bool = False) -> Iterator[Standby]:
        """Lend a standby of a database that stands at a state, or at the end of the log.

        Args:
            database: its name; snapshot: the state; None for the end of the log.
            is_apart: a standby that does not go on; else one that does, if it stands there, may be lent.

        Raises:
            LocalServerError: there are no programs, the server does not start, or there are too many.
            HeadwaterError: the backup or the WAL cannot be read.
        """
        with self._taken(database, snapshot, is_apart) as place:
            yield self._standing(database, snapshot, place)

    def _standing(self, database: str, snapshot: KeptState | None, place: _Place) -> Standby:
        with place.lock, _closed_on_failure(place):
            if snapshot is not None and place.standby is not None:
                place.standby.check_runs()
                return place.standby
            state = self._source.state_at_end(database) if snapshot is None else snapshot
            if self._is_off(place, state.state):
                place.close()
            if place.standby is not None and place.standby.feed.end >= state.state.lsn:
                place.standby.check_runs()
                return place.standby
            files = system_files(store_of(state.state.catalog))
            if place.standby is not None and (place.standby.files | files).is_lacking(place.standby.feed.passed_over):
                place.close()
            if place.standby is None:
                place.standby = self._begin(database, state, files)
            else:
                place.standby.files |= files
                place.standby.go_on(self._source.wal(place.standby.feed.end), state.state.lsn)
            place.at = position_of_state(state.state)
            return place.standby

    def _is_off(self, place: _Place, state: State) -> bool:
        """Tell whether a standby has replayed what is not of the history that a state is of."""
        if place.standby is None or place.at is None or place.at.timeline == state.timeline:
            return False
        reached = Position(place.at.timeline, place.standby.feed.end)
        return not reached.is_of(self._source.wal(state.restart_lsn))

    def end_idle(self) -> None:
        """Stop the standbys at past LSNs that nobody has used for long."""
        with self._lock:
            before = time.monotonic() - IDLE_SECONDS
            keys = [key for key, place in self._past.items() if not place.users and place.since < before]
            leaving = [self._past.pop(key) for key in keys]
        _close_all(leaving)

    def close(self) -> None:
        """Stop all of them."""
        self._watch.set()
        with self._lock:
            places = [*self._present.values(), *self._past.values()]
            self._present.clear()
            self._past.clear()
        _close_all(places)

    @contextmanager
    def _taken(self, database: str, snapshot: KeptState | None, is_apart: bool) -> Iterator[_Place]:
        """Take the place of a standby, which stays as long as somebody uses it."""
        with self._lock:
            place, leaving = self._place(database, snapshot, is_apart)
            place.users += 1
        try:
            _close_all(leaving)
            yield place
        finally:
            with self._lock:
                place.users -= 1
                place.since = time.monotonic()

    def _place(self, database: str, snapshot: KeptState | None, is_apart: bool) -> tuple[_Place, list[_Place]]:
        """Return a place, and those that leave for it.

        Raises:
            LocalServerError: all are in use.
        """
        present = self._present.setdefault(database, _Place())
        if snapshot is None or (not is_apart and _stands_at(present, snapshot.state)):
            return present, []
        key = database, position_of_state(snapshot.state)
        leaving = []
        if key not in self._past and len(self._past) >= MOST_PAST:
            unused = next((key for key, place in self._past.items() if not place.users), None)
            if unused is None:
                raise LocalServerError(f"catalogs are read as of {MOST_PAST} past LSNs already")
            leaving = [self._past.pop(unused)]
        place = self._past.setdefault(key, _Place())
        self._past.move_to_end(key)
        self._begin_watch()
        return place, leaving

    def _begin_watch(self) -> None:
        """Look for idle standbys now and then, from the first one at a past LSN on."""
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._look_for_idle, daemon=True, name="idle standbys")
            self._watcher.start()

    def _look_for_idle(self) -> None:
        while not self._watch.wait(IDLE_SECONDS / 5):
            self.end_idle()

    def _begin(self, database: str, state: KeptState, files: SystemFiles) -> Standby:
        source, store = self._source, store_of(state.state.catalog)
        backup = DataDirectory(source.backup)
        wal = source.wal(backup.start_lsn)
        files = files_since(source.backup, backup, wal, files, state.state.lsn)
        defaults = {name: setting.value for name, setting in read_configured(source.backup, OF_ANSWERS).items()}
        standby = Standby(source.programs(), backup, files, database, name_of_superuser(store), defaults)
        try:
            standby.begin(wal, state.state.lsn)
        except BaseException:
            with suppress(OSError):
                standby.close()
            raise
        return standby
