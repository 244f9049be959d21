"""The standbys of a cluster: of each database one that goes along with the end of the log, and a few at past LSNs.

Job: give a standby that stands at the LSN that is asked for; start one on first need. A standby is made anew where the
fold has found out that a file whose records were passed over is a catalog's: its records are in WAL that was given.

Calls come from several threads; those for one standby take turns.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.image_io import store_of
from headwater.local_servers.server_programs import ServerPrograms
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.catalog_server.filtered_wal import SystemFiles
from headwater.walsender.catalog_server.standby import Standby
from headwater.walsender.catalog_server.system_files import name_of_superuser, system_files

MOST_PAST = 4
"""Standbys at past LSNs, of all databases: the one that was not asked for longest goes first."""


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

    def close(self) -> None:
        if self.standby is not None:
            self.standby.close()
        self.standby = None


@contextmanager
def _closed_on_failure(place: _Place) -> Iterator[None]:
    """Let a standby go that has failed: the next who asks gets a new one."""
    try:
        yield
    except BaseException:
        place.close()
        raise


class CatalogServers:
    """The standbys.

    Args:
        source: what they are made of.
    """

    def __init__(self, source: CatalogSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._present: dict[str, _Place] = {}
        self._past: OrderedDict[tuple[str, int], _Place] = OrderedDict()

    def standby(self, database: str, snapshot: KeptState | None) -> Standby:
        """Return a standby of a database that stands at a state, or at the end of the log.

        Raises:
            LocalServerError: there are no programs, or the server does not start.
            HeadwaterError: the backup or the WAL cannot be read.
        """
        place = self._place(database, snapshot)
        with place.lock, _closed_on_failure(place):
            state = self._source.state_at_end(database) if snapshot is None else snapshot
            if place.standby is not None and place.standby.feed.end >= state.state.lsn:
                place.standby.check_runs()
                return place.standby
            files = system_files(store_of(state.state.catalog))
            if place.standby is not None and files.is_lacking(place.standby.feed.passed_over):
                place.close()
            if place.standby is None:
                place.standby = self._begin(database, state, files)
            else:
                place.standby.files |= files
                place.standby.go_on(self._source.wal(place.standby.feed.end), state.state.lsn)
            return place.standby

    def close(self) -> None:
        """Stop all of them."""
        with self._lock:
            places = [*self._present.values(), *self._past.values()]
            self._present.clear()
            self._past.clear()
        for place in places:
            with place.lock:
                place.close()

    def _place(self, database: str, snapshot: KeptState | None) -> _Place:
        with self._lock:
            if snapshot is None:
                return self._present.setdefault(database, _Place())
            key = database, snapshot.state.lsn
            place = self._past.setdefault(key, _Place())
            self._past.move_to_end(key)
            leaving = [self._past.popitem(last=False)[1] for _ in range(len(self._past) - MOST_PAST)]
        for old in leaving:
            with old.lock:
                old.close()
        return place

    def _begin(self, database: str, state: KeptState, files: SystemFiles) -> Standby:
        source, store = self._source, store_of(state.state.catalog)
        backup = DataDirectory(source.backup)
        files |= system_files(open_catalog(source.backup, database))
        standby = Standby(source.programs(), backup, files, database, name_of_superuser(store), state.server_settings)
        try:
            standby.begin(source.wal(backup.start_lsn), state.state.lsn)
        except BaseException:
            with suppress(OSError):
                standby.close()
            raise
        return standby
