"""The cluster that is served: what it is, which databases it has, where its WAL ends, a state there of each database.

Calls come from several threads; those that fold a database forward take turns.

A database that the WAL has created since the copy of the cluster is taken in when somebody connects to it.

Known gap: what becomes of databases later, such as another name, is not heeded.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from headwater.catalog.copy.server_settings import session_settings_of
from headwater.catalog.rows import DatabaseRow
from headwater.catalog.store.bootstrap import list_databases
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.store.image_io import store_of
from headwater.errors import AwaitedSegmentError, CatalogError, SegmentError, SessionError, UsageError
from headwater.existing.sequence_values import SequenceValue
from headwater.jobs.local_engine import LocalEngine
from headwater.pg.lsn import Lsn
from headwater.pg.sqlstates import (
    CANNOT_CONNECT_NOW,
    FEATURE_NOT_SUPPORTED,
    INVALID_CATALOG_NAME,
    OBJECT_NOT_IN_PREREQUISITE_STATE,
    UNDEFINED_FILE,
)
from headwater.pg.version import VERSIONS, Version, version_named
from headwater.pipeline.created_databases import created_state, databases_of
from headwater.pipeline.requests.named_catalog import state_in_file, taken_at
from headwater.pipeline.requests.open_request import server_settings
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.slot_request import request_of_slot
from headwater.pipeline.slot_moves import kept_at
from headwater.pipeline.windows.following import Stopping
from headwater.plugins.rows.plugin import RowChanges
from headwater.slots.history import Position, check_of_history, is_of_history, position_of_state
from headwater.slots.kept_state import KeptState
from headwater.slots.shelf_budget import ShelfBudget
from headwater.slots.shelf_directory import CopiedDatabase
from headwater.slots.slot import Pairs, Slot
from headwater.wal.records.growing_directory import GrowingDirectory, end_of_log
from headwater.wal.segments.arrivals import Arrivals
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from headwater.wal.segments.segment_listing import list_segments
from headwater.wal.segments.timelines import read_history
from headwater.walsender.copying.copied_rows import CopySource, check_for_primary, copied_rows
from headwater.walsender.copying.copy_stream import CopyStream, stream_of
from headwater.walsender.copying.sequence_reader import SequenceReader, values_of_primary
from headwater.walsender.copying.upstream import Settings, UpstreamSnapshot
from headwater.walsender.folds.lasting_states import LastingStates, StateWriter
from headwater.walsender.folds.shelf import Shelf
from headwater.walsender.folds.shelf_room import ShelfRoom
from headwater.walsender.sql.copy_shapes import CopyTable

log = logging.getLogger("headwater.walsender")


@dataclass(frozen=True)
class ClusterSource:
    """The place of what is served.

    Attributes:
        wal: where segments are, and come to.
        catalog: a data directory or base backup, for what no state is kept of.
        server_version: the release that is announced, such as ``16.9``; None for the newest that is known.
        upstream: connection string of the primary, which has the rows that are copied; None without it.
        slots: directory of slots, where states outlive the service; None for none that do.
        budget: room of these.
        databases: names of those that are served; none for all.
    """

    wal: WalSource
    catalog: str
    server_version: str | None = None
    upstream: str | None = None
    slots: Path | None = None
    budget: ShelfBudget = field(default_factory=ShelfBudget)
    databases: tuple[str, ...] = ()

    def serves(self, database: str) -> bool:
        """Tell whether a database is served, if there is one of the name."""
        return not self.databases or database in self.databases


MOST_BYTES_BEHIND = 64 << 20
"""Of a database's last state behind WAL that is to be removed."""

WHERE_WAL_IS_MISSING = "restore the WAL since the backup, or give --catalog a newer one: no kept state covers it"

WAIT_SECONDS = 30.0
"""For WAL that the primary has written."""

CONSISTENT_SECONDS = 120.0
"""For transactions to end that ran when the backup was taken."""


@dataclass(frozen=True)
class SessionSnapshot:
    """A snapshot that a session reads by.

    Attributes:
        kept: the state at its place in the log.
        rows: what rows are copied from; None for the copy of the cluster.
    """

    kept: KeptState
    rows: UpstreamSnapshot | None

    def close(self) -> None:
        """Let go of it."""
        if self.rows is not None:
            self.rows.close()


@dataclass(frozen=True, order=True)
class _End:
    """The end of the log as it was at a moment; the later of two is that of the newer history.

    Attributes:
        newest: the newest timeline of its history.
        lsn: where it is; timeline: of the record that ends there.
    """

    newest: int = 0
    lsn: int = 0
    timeline: int = 0


@dataclass
class _Tail:
    """A database's state at the end of the log, as far as it was looked at."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    reading: threading.Lock = field(default_factory=threading.Lock)
    kept: KeptState | None = None
    view: tuple[Position, HistoricCatalog] | None = None


class ServedCluster:
    """A cluster.

    Args:
        source: where it is.

    Attributes:
        major, version: of PostgreSQL; system_identifier: of the cluster; segment_size: bytes.
        shelves: of states that were passed by, by the database's name.

    Raises:
        HeadwaterError: its WAL or its catalog cannot be read.
    """

    def __init__(self, source: ClusterSource) -> None:
        self.source = source
        self._growing = GrowingDirectory(source.wal)
        self._look_lock = threading.Lock()
        directory = self._growing.look(None)
        self.major = directory.major
        self.system_identifier = directory.system_identifier
        self.segment_size = directory.segment_size
        named = source.server_version
        self.version: Version = VERSIONS[self.major] if named is None else version_named(named, self.major)
        self._end = _End()
        self._databases = {row.name: row for row in list_databases(source.catalog) if source.serves(row.name)}
        if not self._connectable():
            raise UsageError(f"the backup has no database {' or '.join(source.databases)} that accepts connections")
        self._settings: dict[str, Pairs] = {}
        self._writer: StateWriter | None = None
        self._room = ShelfRoom()
        self.shelves = {name: Shelf(self._room, self._lasting(row)) for name, row in self._databases.items()}
        self._taking_in = threading.Lock()
        self._sequences = SequenceReader()
        self._looked_for_databases = 0
        self._tails = {name: _Tail() for name in self._databases}

    def close(self) -> None:
        """Let states that outlive the service be written."""
        if self._writer is not None:
            self._writer.close()

    def needed_wal(self, lsn: int) -> int:
        """Return the LSN from which on WAL is needed, so that each database can be followed to an LSN and further.

        A database whose last state lies far before is followed to there now: it would hold the WAL of all.

        Raises:
            HeadwaterError: one cannot be followed.
        """
        if lsn > self._looked_for_databases:
            self._take_in_all()
            self._looked_for_databases = lsn
        return min((self._needed_by(row.name, lsn) for row in self._connectable()), default=lsn)

    def _take_in_all(self) -> None:
        """Take in all that were created, while the WAL is here that has them."""
        known = {row.oid for row in self._databases.values()}
        for row in databases_of(self.state_at_end(self._connectable()[0].name)):
            if row.allows_connections and row.oid not in known and self.source.serves(row.name):
                self.take_in(row.name)

    def _needed_by(self, database: str, lsn: int) -> int:
        states = self.shelves[database].lasting
        base = None if states is None else states.base(lsn)
        if states is None or base is None or base[0] < lsn - MOST_BYTES_BEHIND:
            reached = self._kept_at(database, None, lsn)
            if states is not None:
                states.write(_of_no_output(reached))
            base = reached.state.lsn, reached.state.restart_lsn
        return min(lsn, base[1])

    def _connectable(self) -> list[DatabaseRow]:
        return [row for row in self._databases.values() if row.allows_connections]

    def uncovered(self) -> list[str]:
        """Name the databases that can be followed neither from the copy of the cluster on, nor from a kept state.

        Raises:
            HeadwaterError: the WAL, or the copy, cannot be read.
        """
        directory, (_, start) = self.look(), taken_at(self.source.catalog)
        if directory.segment_at(start) is not None:
            return []
        shelves = {row.name: self.shelves[row.name].lasting for row in self._connectable()}
        return [name for name, states in shelves.items() if states is None or states.base(sys.maxsize) is None]

    def take_in(self, name: str) -> bool:
        """Take in a database that the WAL has created; False: there is none of this name, or it is here already.

        Raises:
            SessionError: there is one that cannot be followed.
            HeadwaterError: the WAL cannot be followed.
        """
        with self._taking_in:
            if name in self._databases or not self.source.serves(name):
                return False
            present = self.state_at_end(self._connectable()[0].name)
            known = {row.oid: row.name for row in self._databases.values()}
            row = next((row for row in databases_of(present) if row.name == name), None)
            if row is None:
                return False
            if row.oid in known:
                raise _not_served(name, f'It is served as "{known[row.oid]}", which was its name in the backup.')
            self._take_in(row, present.state.lsn)
            return True

    def _take_in(self, row: DatabaseRow, lsn: int) -> None:
        shelf = Shelf(self._room, self._lasting(row))
        kept_state = shelf.nearest(lsn, self.look())
        if kept_state is None:
            log.info('database "%s" was created after the backup', row.name)
            try:
                kept_state = created_state(self.request(row.name), row, lsn)
            except (CatalogError, SegmentError) as error:
                raise _not_served(row.name, f"It was created after the backup, and {error.one_line()}.") from None
            shelf.put(kept_state)
        # Others go through these meanwhile: they are not changed, but replaced.
        self._tails = {**self._tails, row.name: _Tail(kept=kept_state)}
        self.shelves = {**self.shelves, row.name: shelf}
        self._databases = {**self._databases, row.name: row}

    def _lasting(self, row: DatabaseRow) -> LastingStates | None:
        """Open the states of a database that outlive the service."""
        if self.source.slots is None:
            return None
        if self._writer is None:
            self._writer = StateWriter(self.source.slots, self.source.budget, self.lineage)
        copied = CopiedDatabase(self.system_identifier, *taken_at(self.source.catalog), row.oid)
        return LastingStates(row.name, copied, self._writer, partial(self._settings_of, row))

    def lineage(self) -> tuple[tuple[int, int | None], ...]:
        """Return the timelines of the WAL, oldest first, each with the LSN where it was left, None for the last.

        Raises:
            SegmentError: it cannot be read.
        """
        return self.look(self.end()[1]).lineage

    def database(self, name: str) -> DatabaseRow:
        """Return the row of a database.

        Raises:
            SessionError: there is none of this name.
        """
        row = self._databases.get(name)
        if row is None:
            raise SessionError(f'database "{name}" does not exist', sqlstate=INVALID_CATALOG_NAME)
        return row

    def database_oid(self, name: str) -> int | None:
        """Return the OID of a database; None if there is none of this name."""
        row = self._databases.get(name)
        return None if row is None else row.oid

    def look(self, needed: int | None = None) -> WalDirectory:
        """Return the WAL that is there now, from an LSN on.

        Raises:
            SegmentError: it cannot be read.
        """
        with self._look_lock:
            return self._growing.look(needed)

    def look_at(self, needed: int, timeline: int) -> WalDirectory:
        """Return the WAL of a timeline from an LSN on.

        Raises:
            SegmentError: it cannot be read.
        """
        directory = self.look(needed)
        if directory.lineage[-1][0] == timeline:
            return directory
        return WalDirectory.scan(self.source.wal, timeline, is_growing=True)

    def timeline_history(self, timeline: int) -> tuple[str, bytes]:
        """Return the name and the content of the history file of a timeline.

        Raises:
            SessionError: there is none.
        """
        name = f"{timeline:08X}.history"
        file = list_segments(self.source.wal).histories.get(timeline)
        if file is None:
            raise SessionError(
                f'could not open file "pg_wal/{name}": No such file or directory', sqlstate=UNDEFINED_FILE
            )
        return name, read_history(file)

    def end(self) -> tuple[int, int]:
        """Return the timeline and the LSN where the log ends now.

        Raises:
            WalError: the WAL cannot be read.
        """
        end = self._look_at_end()[1]
        return end.timeline, end.lsn

    def _look_at_end(self) -> tuple[WalDirectory, _End]:
        """Return the WAL at its end, and where that is: behind the last switch, where a timeline was left before."""
        known = self._end
        directory = self.look(known.lsn or None)
        lsn = known.lsn
        if not directory.has_been_at(known.timeline, lsn):
            lsn = dict(directory.lineage).get(known.timeline) or 0
        lsn = max(lsn, end_of_log(directory, lsn))
        end = _End(directory.lineage[-1][0], lsn, directory.timeline_at(lsn))
        with self._look_lock:
            self._end = end = max(self._end, end)
        return directory, end

    def decoded_to(self) -> dict[str, int]:
        """Return the LSN up to which each database has been followed that was asked for."""
        states = {name: tail.kept for name, tail in self._tails.items()}
        return {name: present.state.lsn for name, present in states.items() if present is not None}

    def request(self, database: str) -> DecodeRequest:
        """Return the request that a database is followed with, where nothing is decoded."""
        release = self.source.server_version
        settings = () if release is None else (("server_version", release),)
        return DecodeRequest(
            wal=self.source.wal,
            catalog=self.source.catalog,
            database=database,
            plugin=RowChanges.name,
            settings=settings,
            with_definitions=False,
        )

    def request_of(self, slot: Slot, settings: Settings = ()) -> DecodeRequest:
        """Return the request of a slot, over the WAL that is served.

        Args:
            slot: it; settings: of a session, that go before those the slot was made under.
        """
        request = request_of_slot(slot)
        given = {**dict(request.settings), **dict(settings)}
        if self.source.server_version is not None:
            given["server_version"] = self.source.server_version
        return replace(request, wal=self.source.wal, settings=tuple(given.items()), two_phase=slot.two_phase)

    def state_at_end(self, database: str) -> KeptState:
        """Return the state of a database at the end of the log: from there on a new slot decodes.

        What runs there is known, so that nothing is waited for.

        Raises:
            HeadwaterError: the WAL does not lead there from the catalog.
        """
        tail = self._tails[database]
        with tail.lock:
            directory, end = self._look_at_end()
            present = tail.kept
            if present is None or present.state.lsn < end.lsn or not is_of_history(present.state, directory):
                present = tail.kept = self._kept_at(database, present, end.lsn)
            return present

    def state_at(self, database: str, lsn: int) -> KeptState:
        """Return the state of a database at an LSN: behind the last record that starts before it.

        Raises:
            SessionError: nothing is known there: it lies before all that is, or behind the end of the log.
            HeadwaterError: the WAL cannot be followed.
        """
        _, end = self.end()
        if lsn > end:
            raise _not_at(lsn, f"The WAL that is here ends at {Lsn(end)}.")
        start = taken_at(self.source.catalog)[1]
        reached = self._kept_at(database, None, lsn) if lsn >= start else None
        if reached is None or not reached.state.control.builder.is_consistent:
            raise _not_at(lsn, f"The backup begins at {Lsn(start)}, and all that ran then must have ended before.")
        return reached

    def snapshot(self, database: str, settings: Settings) -> SessionSnapshot:
        """Return a snapshot at the present: of the primary's rows where there is a primary.

        Nobody else folds the database forward meanwhile: what the primary says lies after all that was looked at.

        Raises:
            HeadwaterError: the primary refuses, or its WAL does not come.
        """
        upstream = self.source.upstream
        if upstream is None:
            return SessionSnapshot(self.state_at_end(database), None)
        tail = self._tails[database]
        with tail.lock:
            rows = UpstreamSnapshot(upstream, database, self.system_identifier, settings)
            try:
                self._wait_for(rows.lsn)
                check_of_history(self.look(rows.lsn), Position(rows.timeline, rows.lsn))
                tail.kept = self._kept_at(database, tail.kept, rows.lsn)
                if tail.kept.state.lsn > rows.lsn:
                    raise SessionError(
                        f"the primary's snapshot is as of {Lsn(rows.lsn)}, the WAL that is served has been followed up "
                        f"to {Lsn(tail.kept.state.lsn)} already"
                    )
            except BaseException:
                rows.close()
                raise
            return SessionSnapshot(tail.kept, rows)

    def _kept_at(self, database: str, kept_state: KeptState | None, lsn: int) -> KeptState:
        """Return the state at an LSN, from the last one before it that is known."""
        directory = self.look()
        if kept_state is not None and not is_of_history(kept_state.state, directory):
            kept_state = None
        passed = self.shelves[database].nearest(lsn, directory)
        if passed is not None and (kept_state is None or not passed.state.lsn <= kept_state.state.lsn <= lsn):
            # Who passed by there had settings of its own.
            kept_state = replace(passed, server_settings=self._settings_of(self.database(database)))
        reached = (
            self._followed(database, lsn, directory)
            if kept_state is None
            else kept_at(self.request(database), kept_state, lsn, directory)
        )
        self.shelves[database].put(_of_no_output(reached))
        return reached

    def _followed(self, database: str, lsn: int, directory: WalDirectory) -> KeptState:
        """Return the state at an LSN, from the copy of the cluster on."""
        log.info('database "%s" is followed from the copy of the cluster on', database)
        try:
            return kept_at(self.request(database), None, lsn, directory)
        except AwaitedSegmentError:
            raise
        except SegmentError as error:
            raise SegmentError(error.message, lsn=error.lsn, file=error.file, hint=WHERE_WAL_IS_MISSING) from None

    def _settings_of(self, row: DatabaseRow) -> Pairs:
        """Return the settings that the catalog's server gives to sessions of a database."""
        database = row.name
        if database not in self._settings:
            request, in_file = self.request(database), state_in_file(self.source.catalog)
            of_sessions = session_settings_of(self.source.catalog, row.oid, None) if in_file is None else {}
            before = () if in_file is None else in_file.server_settings
            given = {**dict(before), **dict(server_settings(request, of_sessions, self.major))}
            self._settings[database] = tuple(sorted(given.items()))
        return self._settings[database]

    def wait_until_consistent(self, database: str) -> None:
        """Wait until a slot that is made at the end of the log misses nothing that commits later.

        The catalog is of a moment at which transactions ran: decoding begins when all of them have ended.

        Raises:
            SessionError: the log does not tell that they have.
        """
        if self._is_consistent(database):
            return
        log.info("waiting for transactions that ran when the backup was taken to end")
        text = "a slot cannot be made: transactions that ran when the backup was taken may not have ended"
        hint = "The primary logs which ones run every 15 seconds while it works, and at each CHECKPOINT."
        self._wait_while(lambda: not self._is_consistent(database), CONSISTENT_SECONDS, text, hint)

    def _is_consistent(self, database: str) -> bool:
        return self.state_at_end(database).state.control.builder.is_consistent

    def _wait_for(self, lsn: int) -> None:
        """Wait until the log has come to an LSN.

        Raises:
            SessionError: it does not.
        """
        text = f"WAL up to {Lsn(lsn)} has not come within {WAIT_SECONDS:.0f} s"
        hint = "Is the WAL that is served the primary's, and is it received?"
        self._wait_while(lambda: self.end()[1] < lsn, WAIT_SECONDS, text, hint)

    def _wait_while(self, is_open: Callable[[], bool], seconds: float, text: str, hint: str) -> None:
        """Wait for more of the log; an error of this text and hint if what it is to bring does not come in time."""
        limit = time.monotonic() + seconds
        with Stopping() as stopping, Arrivals(self.source.wal.places, stopping.fileno()) as arrivals:
            while is_open():
                if time.monotonic() > limit:
                    raise SessionError(text, sqlstate=CANNOT_CONNECT_NOW, hint=hint)
                arrivals.wait()

    def reading(self, database: str) -> threading.Lock:
        """Return the lock to be held while a catalog is asked: sessions share what its views remember."""
        return self._tails[database].reading

    def catalog(self, database: str, snapshot: SessionSnapshot | None = None) -> HistoricCatalog:
        """Return the catalog of a database as a session sees it.

        Args:
            database: its name.
            snapshot: of the session; None for the end of the log.

        Raises:
            HeadwaterError: as :meth:`state_at_end`.
        """
        if snapshot is not None:
            state = snapshot.kept.state
            return store_of(state.catalog).view(state.lsn)
        present, tail = self.state_at_end(database), self._tails[database]
        with tail.lock:
            place = position_of_state(present.state)
            if tail.view is None or tail.view[0] != place:
                tail.view = place, store_of(present.state.catalog).view(present.state.lsn)
            return tail.view[1]

    def copied(
        self, database: str, copy: CopyTable, snapshot: SessionSnapshot | None, settings: Settings
    ) -> CopyStream:
        """Open a COPY of rows as of a snapshot, or of the end of the log; they are read here, or of the primary.

        Raises:
            SessionError: as the server refuses it, or as only a server can do it.
            HeadwaterError: the WAL or the backup cannot be read.
        """
        if snapshot is not None and snapshot.rows is not None:
            check_for_primary(self._copy_source(), snapshot.kept, copy, dict(settings))
            return snapshot.rows.copy(copy.text)
        at = self.state_at_end(database) if snapshot is None else snapshot.kept
        return stream_of(copied_rows(self._copy_source(), at, copy, LocalEngine(), dict(settings)))

    def sequence_values(
        self, database: str, snapshot: SessionSnapshot | None, oids: Sequence[int]
    ) -> Mapping[int, SequenceValue]:
        """Read the values of sequences as of a snapshot, or of the end of the log; or ask the primary, if there is one.

        Raises:
            SessionError: they are not known.
            HeadwaterError: the WAL or the backup cannot be read, or the primary refuses.
        """
        if self.source.upstream is not None:
            return values_of_primary(self.source.upstream, database, self.system_identifier, oids)
        at = self.state_at_end(database) if snapshot is None else snapshot.kept
        return self._sequences.values(self._copy_source(), at, oids)

    def _copy_source(self) -> CopySource:
        return CopySource(self.source.catalog, self.look(), self.version)


def _not_at(lsn: int, why: str) -> SessionError:
    text = f"a slot cannot begin at {Lsn(lsn)}"
    return SessionError(text, sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE, detail=why)


def _not_served(database: str, why: str) -> SessionError:
    return SessionError(
        f'database "{database}" cannot be served',
        sqlstate=FEATURE_NOT_SUPPORTED,
        detail=why,
        hint="Give --catalog a backup that was taken later.",
    )


def _of_no_output(kept_state: KeptState) -> KeptState:
    return replace(kept_state, state=replace(kept_state.state, outputs=()))
