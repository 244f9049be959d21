"""The log at hand as a publisher: its catalog is asked, and rows come from the base backup and the WAL.

It is asked as a server is, by :class:`ReplicationConnection`'s methods, so that copies of tables are the same thing
whatever their source. Slots are those of a directory. It looks at the catalog as of a place: where the subscription's
slot stands, or where the log ends.

Invariant: a table is copied as of a place at or behind that at which it was listed. So the publications have it from
there on, and each change is in the copy or in the stream from its place.

Known gap: each table's copy goes through the WAL since the backup for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from headwater.apply.incoming.requests import WalSlot
from headwater.apply.incoming.wal_options import SETTINGS
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.store.image_io import store_of
from headwater.errors import CatalogError, ServerError, SessionError, SlotError
from headwater.existing.leaves import leaf_of
from headwater.existing.page_history import Locator
from headwater.existing.sequence_values import SequenceValue, sequence_values
from headwater.jobs.local_engine import LocalEngine
from headwater.pg.version import Version
from headwater.pipeline.slot_moves import Beginning, begin_with_rows, slot_at
from headwater.receiver.replication_connection import BLOCK_BYTES, ReplicationConnection, Row, Wait
from headwater.slots.kept_state import KeptState
from headwater.slots.slot import SlotStatistics
from headwater.slots.slot_directory import create_slot, is_slot, open_slot, read_slot
from headwater.walsender.copying.copied_rows import CopyOut, CopySource, copied_rows
from headwater.walsender.copying.inheritors import all_inheritors
from headwater.walsender.sql.copy_shapes import parse_copy
from headwater.walsender.sql.publisher_answers import PublisherAnswers

MISSING, DUPLICATE = "42704", "42710"


class WalPublisher:
    """A publisher; a context manager.

    Args:
        wal: the log, with the subscription's slot.

    Raises:
        HeadwaterError: the WAL or the catalog cannot be read.
    """

    def __init__(self, wal: WalSlot) -> None:
        self._wal = wal
        self._cluster = wal.cluster.open(wal.request, wal.slots)
        self._kept: KeptState | None = None
        self._store: CatalogStore | None = None
        self._view: HistoricCatalog | None = None
        self._copied: CopyOut | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    @property
    def postgres(self) -> Version:
        """The facts of the cluster's major."""
        return self._cluster.version

    @property
    def lsn(self) -> int:
        """Where it looks at the catalog."""
        return self.kept.state.lsn

    @property
    def kept(self) -> KeptState:
        """The state where it looks at the catalog."""
        if self._kept is None:
            self.look_at_slot(0)
        assert self._kept is not None
        return self._kept

    @property
    def view(self) -> HistoricCatalog:
        """The catalog there."""
        if self._view is None:
            state = self.kept.state
            self._store = store_of(state.catalog)
            self._view = self._store.view(state.lsn)
        return self._view

    def has_table(self, namespace: str, name: str) -> bool:
        """Tell whether there is a relation of a name there."""
        return self.view.relation_named(namespace, name) is not None

    def sequence_values(self, sequences: Iterable[int]) -> dict[int, SequenceValue]:
        """Read the values of sequences there, by their OIDs.

        Raises:
            HeadwaterError: WAL or a file of the backup is missing.
        """
        view, places = self.view, dict[Locator, int]()
        assert self._store is not None
        for oid in sequences:
            relation = view.relation(oid)
            leaf = None if relation is None else leaf_of(self._store, view, relation)
            if leaf is None:
                raise CatalogError(f"sequence {oid} has no file", lsn=self.lsn)
            places[leaf.locator] = oid
        directory = self._cluster.look()
        return sequence_values(directory, DataDirectory(self._wal.request.catalog), places, self.lsn)

    def look_at_slot(self, lsn: int) -> bool:
        """Look at the catalog where the slot stands, or where it will be made; at the end if that is before an LSN.

        Returns:
            False: it is before, and only slots have definitions, which are asked for: look again later.
        """
        if not is_slot(self._wal.path):
            self._look(self._beginning())
            return True
        slot = read_slot(self._wal.path)
        if slot.state is not None and slot.state.lsn >= lsn:
            self._look(KeptState(slot.state, slot.request.server_settings))
        elif self._wal.request.with_definitions:
            if slot.state is None:
                text = f'the slot "{self._wal.name}" has not followed the definitions of objects'
                raise SlotError(text, hint="drop it, and let it be made")
            return False
        else:
            self.look_at_end()
        return True

    def look_at_copy(self, name: str) -> int | None:
        """Look at the catalog where the slot of a table's copy stands; return its LSN, None without such a slot."""
        slot = read_slot(self._wal.slots / name) if self.has_slot(name) else None
        if slot is None or slot.state is None:
            return None
        self._look(KeptState(slot.state, slot.request.server_settings))
        return slot.state.lsn

    def copy_slot(self, name: str) -> None:
        """Make a slot that stands where the subscription's does; nothing else uses that now.

        Raises:
            SlotError: it cannot be made.
        """
        slot = read_slot(self._wal.path)
        state = None if slot.state is None else replace(slot.state, outputs=())
        if self.has_slot(name):
            self.drop_slot(name)
        own = replace(slot, state=state, two_phase=False, statistics=SlotStatistics(), pending=None)
        create_slot(self._wal.slots / name, own)

    def look_at_end(self) -> None:
        """Look at the catalog where the log ends."""
        self._look(self._cluster.state_at_end(self._database))

    def _look(self, kept_state: KeptState) -> None:
        self._kept, self._view = kept_state, None

    def _beginning(self) -> KeptState:
        first = begin_with_rows(self._wal.request)
        assert first.state is not None
        return KeptState(first.state, first.server_settings)

    @property
    def _database(self) -> str:
        database = self._wal.request.database
        if database is not None:
            return database
        return self.kept.state.catalog.origin.database_name

    def rows(self, command: str) -> list[Row]:
        """Answer a query of a subscriber.

        Raises:
            ServerError: it is not known, or cannot be answered exactly.
        """
        answers = PublisherAnswers(self.view, self.postgres, self._database)
        try:
            result = answers.answer(command)
        except SessionError as error:
            raise ServerError(error.message, hint=error.hint, sqlstate=error.sqlstate) from None
        if result is None:
            raise ServerError("WAL at hand does not answer this query", sqlstate="0A000")
        return [tuple(None if value is None else value.decode() for value in row) for row in result.rows]

    def begin(self, command: str) -> None:
        """Begin a COPY of a table as of the place that is looked at.

        Raises:
            ServerError: it is refused.
        """
        copy = parse_copy(command)
        assert copy is not None
        source = CopySource(self._wal.request.catalog, self._cluster.look(), self.postgres)
        try:
            self._copied = copied_rows(source, self.kept, copy, LocalEngine(), dict(SETTINGS))
        except SessionError as error:
            raise ServerError(error.message, hint=error.hint, sqlstate=error.sqlstate) from None

    def begin_copy(self) -> tuple[int, bool]:
        """Return how many columns the COPY has, and whether it is binary."""
        assert self._copied is not None
        return self._copied.column_count, self._copied.is_binary

    def blocks(self, wait: Wait) -> Iterator[bytes]:  # noqa: ARG002 (as a server's)
        """Give its data, some rows at a time.

        Raises:
            HeadwaterError: the WAL or the backup cannot be read.
        """
        assert self._copied is not None
        for batch in self._copied.batches:
            for at in range(0, int(batch.offsets[-1]), BLOCK_BYTES):
                yield batch.data[at : min(at + BLOCK_BYTES, int(batch.offsets[-1]))].tobytes()

    def batches(self) -> Iterator[bytes]:
        """Give its data in text form, whole rows at a time.

        Raises:
            HeadwaterError: the WAL or the backup cannot be read.
        """
        assert self._copied is not None
        for batch in self._copied.batches:
            yield batch.data[: batch.offsets[-1]].tobytes()

    def count_blocks(self, oid: int) -> int:
        """Count the blocks that the backup has of a table and what is below it, by its OID."""
        view, backup, places = self.view, DataDirectory(self._wal.request.catalog), list[Locator]()
        assert self._store is not None
        for member in all_inheritors(view, oid):
            relation = view.relation(member)
            leaf = None if relation is None else leaf_of(self._store, view, relation)
            places += [] if leaf is None else [leaf.locator]
        backup.expect_heaps(places)
        return sum(backup.heap_file(place).blocks for place in places)

    def finish(self) -> None:
        """Let go of a COPY."""
        if self._copied is not None:
            self._copied.batches.close()
        self._copied = None

    def has_slot(self, name: str) -> bool:
        """Tell whether there is a slot of a name."""
        return is_slot(self._wal.slots / name)

    def list_slots(self) -> list[str]:
        """List the names of all slots."""
        return sorted(path.name for path in self._wal.slots.iterdir() if is_slot(path)) if self._has_slots else []

    @property
    def _has_slots(self) -> bool:
        return self._wal.slots.is_dir()

    def drop_slot(self, name: str) -> None:
        """Drop a slot, once nobody reads it any more.

        Raises:
            ServerError: there is none.
            SlotError: it is in use.
        """
        if not self.has_slot(name):
            raise ServerError(f'replication slot "{name}" does not exist', sqlstate=MISSING)
        with open_slot(self._wal.slots / name, may_be_invalid=True) as opened:
            opened.drop()

    def make_slot(self, name: str) -> int:
        """Make a slot at the place that is looked at; return its LSN.

        Raises:
            ServerError: there is one of that name.
        """
        if self.has_slot(name):
            raise ServerError(f'replication slot "{name}" already exists', sqlstate=DUPLICATE)
        kept_state = self.kept
        state = replace(kept_state.state, outputs=())
        beginning = Beginning(state.lsn, state, self._database, kept_state.server_settings)
        request = replace(self._wal.request, two_phase=self._is_two_phase(name))
        create_slot(self._wal.slots / name, slot_at(request, beginning))
        return state.lsn

    def _is_two_phase(self, name: str) -> bool:
        """Tell whether a slot's transactions come at PREPARE: those of the subscription's own may."""
        return self._wal.request.two_phase and name == self._wal.name


Publisher = ReplicationConnection | WalPublisher
"""What is asked for tables, and gives their rows."""
