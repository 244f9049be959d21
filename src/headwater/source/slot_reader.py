"""The ``headwater`` data source over a server's slot: batch and stream.

The driver's process reads the slot, whole transactions at a time; partitions carry what was read to the workers, which
make rows of it. So a batch read has what the slot has when it begins, and confirms nothing: the next one has it again.

A stream's offsets are LSNs. The slot is confirmed when Spark commits a batch, not before. So a batch that is asked for
again, after a restart too, is read again from the slot and has the same transactions.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError, HeadwaterError, UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.slices.row_batches import RowForm
from headwater.plugins.table_patterns import qualified_name
from headwater.remote_slots.announced_relations import AnnouncedRelations
from headwater.remote_slots.printed_slices import PrintedSlice, SliceReader
from headwater.remote_slots.server_types import ServerTypes
from headwater.remote_slots.slot_connection import conninfo_of
from headwater.remote_slots.slot_stream import SlotStream, SlotWindow
from headwater.rows.session import SessionSettings
from headwater.source.pickled_by_value import PickledByValue
from headwater.source.slot_options import SlotOptions
from headwater.spark.kernel_travel import receive_kernels
from headwater.spark.plain_errors import plain_errors
from headwater.spark.worker_daemon import leave_if_alone

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

POLL_SECONDS = 0.05
"""How long Spark waits at most for an answer that nothing has come."""

QUIET_BYTES = 16 << 20
"""WAL without a transaction of the slot's after which a batch without rows lets the server remove it."""

Json = dict[str, Any]


@dataclass(frozen=True)
class SlotPartition(InputPartition):
    """A piece of a slot's stream, taken apart, and what rows of it look like; pickles."""

    piece: PrintedSlice
    form: RowForm


def read_piece(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Give the rows of a partition; nothing of Spark's stand-in where there are no partitions.

    Raises:
        HeadwaterError: a value does not fit its column.
    """
    if isinstance(partition, SlotPartition):
        receive_kernels()
        yield partition.form.batch(partition.piece)


class _Reading:
    """A slot that is read on the driver, from an LSN on."""

    def __init__(self, options: SlotOptions, form: RowForm, begin: int | None, *, follows: bool) -> None:
        self._options, self._form, self._stack = options, form, ExitStack()
        with ExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-slot-"))
            stream = SlotStream(options.address, Path(scratch), begin, follows=follows, quiet_bytes=QUIET_BYTES)
            self.stream = stack.enter_context(stream)
            self._stack = stack.pop_all()
        facts, self.begin = self.stream.facts, self.stream.reached
        relations = AnnouncedRelations(ServerTypes(conninfo_of(options.address)[0]).of, self._numbers)
        session = SessionSettings(major=facts.major, encoding=facts.encoding)
        self._reader = SliceReader(relations, self._wants, session)

    def close(self) -> None:
        self._stack.close()

    def partitions(self, window: SlotWindow) -> list[SlotPartition]:
        """Take a window apart, in the order of windows."""
        if window.is_new_session:
            self._reader.begin_session()
        return [SlotPartition(self._checked(self._reader.read(data)), self._form) for data in window.pieces]

    def _numbers(self, oid: int, _name: str) -> dict[str, int]:
        table = self._form.table
        if table is None or table.schema.oid != oid:
            return {}
        return {column.name: column.number for column in table.columns}

    def _wants(self, schema: RelationSchema) -> bool:
        return self._options.tables.matches(qualified_name(schema))

    def _checked(self, piece: PrintedSlice) -> PrintedSlice:
        """Check that no other relation has a single table's name.

        Raises:
            CatalogError: one has.
        """
        table = self._form.table
        layouts = set(piece.changes.items.layout[piece.changes.items.kind < _LITERAL].tolist())
        others = [piece.changes.relations[layout].schema for layout in layouts if table is not None]
        for schema in others:
            if table is not None and schema.oid != table.schema.oid:
                raise CatalogError(
                    f'"{qualified_name(schema)}" is the name of another table in the slot: of OID {schema.oid}, the '
                    f"one that has it now is of OID {table.schema.oid}",
                    hint="set images to true to read changes of both",
                )
        return piece


_LITERAL = 4


class SlotReader(PickledByValue, DataSourceReader):
    """A reader of what a slot has at present; it confirms nothing; pickles.

    Args:
        options: of the read; form: what rows look like.
    """

    def __init__(self, options: SlotOptions, form: RowForm) -> None:
        self._options, self._form = options, form

    @plain_errors()
    def partitions(self) -> list[SlotPartition]:
        """Read the slot; called once per query."""
        partitions: list[SlotPartition] = []
        reading = _Reading(self._options, self._form, None, follows=False)
        try:
            while (window := reading.stream.window(self._options.max_bytes, lambda: False)) is not None:
                partitions += reading.partitions(window)
                window.pieces.close()
        finally:
            reading.close()
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one piece; called once per partition, in a worker."""
        with plain_errors():
            yield from read_piece(partition)


@dataclass(frozen=True)
class SlotOffset:
    """A place of a slot's stream.

    Attributes:
        lsn: transactions whose commit record starts before it have been delivered.
        since: where the stream began; slot: its slot.
    """

    lsn: int
    since: int
    slot: str

    @classmethod
    def of_json(cls, offset: Json, slot: str) -> SlotOffset:
        """Read what Spark kept.

        Raises:
            UsageError: it is no offset of a stream of this slot.
        """
        try:
            made = cls(int(Lsn.parse(offset["lsn"])), int(Lsn.parse(offset["since"])), str(offset["slot"]))
        except (KeyError, TypeError, ValueError, AttributeError, UsageError):
            raise _other_checkpoint(f"no offset of a slot: {offset}") from None
        if made.slot != slot:
            raise _other_checkpoint(f'an offset of the slot "{made.slot}", not of "{slot}"')
        return made

    def as_json(self) -> Json:
        """Return the offset as Spark keeps it."""
        return {"lsn": str(Lsn(self.lsn)), "since": str(Lsn(self.since)), "slot": self.slot}


def _other_checkpoint(what: str) -> UsageError:
    return UsageError(f"the checkpoint holds {what}", hint="name another checkpointLocation")


class SlotStreamReader(PickledByValue, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of a slot that goes on; pickles.

    Args:
        options: of the stream; form: what rows look like.
    """

    def __init__(self, options: SlotOptions, form: RowForm) -> None:
        self._options, self._form = options, form
        self._held = _Held()
        self._target: int | None = None

    @plain_errors()
    def initialOffset(self) -> Json:
        """Return the offset at which a query without a checkpoint begins: where the slot is confirmed.

        Spark asks again once it has been told of an end.
        """
        lsn = self._session(None).begin
        return SlotOffset(lsn, lsn, self._options.address.slot).as_json()

    def getDefaultReadLimit(self) -> Any:
        """Return the limit of the option ``maxBytesPerTrigger``."""
        from pyspark.sql.streaming.datasource import ReadMaxBytes

        return ReadMaxBytes(self._options.max_bytes)

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """Let what the server has at this moment be the query's end."""
        self._held.asks = True

    @plain_errors()
    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """Return the end of the next batch, the start again if there is none yet.

        Args:
            start: where the last batch ended; limit: how much a batch may be.
        """
        if start is None:
            raise HeadwaterError("a slot as a stream needs Spark 4.2 or newer, which says where the stream stands")
        begin, held = self._offset(start), self._held
        if held.window is not None and held.window.lo <= begin.lsn < held.window.hi:
            return SlotOffset(held.window.hi, begin.since, begin.slot).as_json()
        session, until, end = self._session(begin.lsn), time.monotonic() + POLL_SECONDS, None
        if held.asks:
            session.stream.hurry()
            end = session.stream.facts.flushed
        if end is not None and begin.lsn >= end:
            return begin.as_json()
        window = session.stream.window(
            getattr(limit, "max_bytes", None) or self._options.max_bytes,
            lambda: end is None and time.monotonic() >= until,
            end,
        )
        if window is None:
            return begin.as_json()
        held.keep(window)
        return SlotOffset(window.hi, begin.since, begin.slot).as_json()

    @plain_errors()
    def partitions(self, start: Json, end: Json) -> list[SlotPartition]:
        """Return what the slot has between two offsets."""
        begin, last, held = self._offset(start), self._offset(end), self._held
        if begin.lsn == last.lsn:
            return []
        if held.planned is not None and held.planned[0] == (begin.lsn, last.lsn):
            return held.planned[1]  # Spark asks for each plan that a batch is in
        session = self._session(begin.lsn)
        window = held.window
        if window is None:
            _require_place(session.stream.reached, begin.lsn)
            window = session.stream.window_to(last.lsn, lambda: False)
        assert window is not None
        _require_place(window.lo, begin.lsn)
        _require_place(window.hi, last.lsn)
        held.keep(None)
        try:
            held.planned = (begin.lsn, last.lsn), session.partitions(window)
        finally:
            window.pieces.close()
        return held.planned[1]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one piece; called once per partition, in a worker."""
        with plain_errors():
            yield from read_piece(partition)

    @plain_errors()
    def commit(self, end: Json) -> None:
        """Let the server know that everything up to an offset has been delivered."""
        self._held.forget(self._offset(end).lsn)
        if self._held.reading is not None:
            self._held.reading.stream.confirm(self._offset(end).lsn)

    def stop(self) -> None:
        """Let go of the slot."""
        self._held.close()
        leave_if_alone()

    def _offset(self, offset: Json) -> SlotOffset:
        return SlotOffset.of_json(offset, self._options.address.slot)

    def _session(self, begin: int | None) -> _Reading:
        held = self._held
        if held.reading is None:
            held.reading = _Reading(self._options, self._form, begin, follows=True)
        return held.reading


def _require_place(stands: int, asked: int) -> None:
    """See that a batch is asked for where the stream stands.

    Raises:
        HeadwaterError: it is not: a slot does not go back.
    """
    if stands != asked:
        raise HeadwaterError(f"the stream of the slot stands at {Lsn(stands)}, a batch is asked for at {Lsn(asked)}")


class _Held:
    """The things that a stream's reader holds; of a pickled one nothing is."""

    def __init__(self) -> None:
        self.reading: _Reading | None = None
        self.window: SlotWindow | None = None
        self.planned: tuple[tuple[int, int], list[SlotPartition]] | None = None
        self.asks = False

    def forget(self, lsn: int) -> None:
        """Let go of a batch that has been delivered."""
        if self.planned is not None and self.planned[0][1] <= lsn:
            self.planned = None

    def keep(self, window: SlotWindow | None) -> None:
        """Hold a window until its partitions are asked for."""
        self.window = window

    def close(self) -> None:
        """Release all."""
        self.window = None
        if self.reading is not None:
            self.reading.close()
            self.reading = None

    def __reduce__(self) -> tuple[Callable[[], _Held], tuple[()]]:
        return _Held, ()
