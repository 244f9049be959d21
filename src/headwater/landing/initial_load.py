"""Rows that were there before, from the heap files of a base backup into change tables (``_change_type`` ``read``).

::

    WAL up to the LSN  ->  a history of the wanted tables' pages               (tasks, existing/heap_history.py)
    TOAST tables       ->  where each value's chunks lie                       (tasks, existing/heap_toast.py)
    tables             ->  visible rows of some pages into a file each         (tasks)
                       ->  one commit a table, with the LSN                    (driver)

What a table has landed, it says itself: one that has come to the LSN, with or without rows, is left out when a run that
was killed is begun again. Nobody but tasks sees rows. A task holds a few megabytes of pages at a time, with as many
bytes of values out of line as fit beside them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.copy.heap_files import HeapFile
from headwater.catalog.pages import BLCKSZ
from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError, errors_of_table
from headwater.existing.heap_history import HeapHistory, heap_history
from headwater.existing.heap_pages import HeapPages
from headwater.existing.heap_toast import ToastPart, ToastTask, ToastValues
from headwater.existing.page_checksum import CHECKSUMS_ON
from headwater.existing.page_history import Locator, VisibleTuples
from headwater.existing.toast_values import values_in
from headwater.jobs.engine import Engine
from headwater.jobs.exchange import Exchange, Write
from headwater.jobs.outcome import Progress
from headwater.lakes.data_files import write_batches
from headwater.lakes.lake_table import DataFile, errors_at, file_name
from headwater.landing.existing_rows import ExistingRows, ExistingTable, Leaf
from headwater.landing.tables.change_rows import ChangeTable, named
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.rows.columns.arrow import NAMES
from headwater.rows.columns.table_columns import typed_columns
from headwater.rows.items import INSERT, TOAST, UNCHANGED, Items
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import SliceLayouts, compile_layouts
from headwater.rows.tuples.render import locate

Int64s = NDArray[np.int64]

READ = "read"
"""``_change_type`` of a row that was there before, as Debezium's ``r`` is."""

TASK_BLOCKS = 8192
"""Pages of a task: 64 MB."""

_BATCH_BYTES = 64 << 20


@dataclass(frozen=True)
class TableLoad:
    """A table whose rows are landed: it, and what tasks need to know of it in the lake."""

    table: ExistingTable
    form: ChangeTable


Commit = Callable[[int, list[DataFile]], None]
"""Commits the files of a table, by its number among those that are loaded."""


@dataclass(frozen=True)
class InitialLoad:
    """A loader of tables.

    Attributes:
        opened: what is landed, and by which settings; rows: of the tables there are.
        loads: those that have not landed yet.
        place: a directory that tasks and driver share; it is made, and removed at the end.
    """

    opened: OpenRequest
    rows: ExistingRows
    loads: Sequence[TableLoad]
    place: Path

    def run(self, engine: Engine, commit: Commit, progress: Progress | None) -> None:
        """Load them, each committed as soon as its rows are there.

        Args:
            engine: runs the tasks; it may choose by the size of the tables.
            commit: called with a table's number and its files; progress: with tasks done.

        Raises:
            HeadwaterError: a file, a record or a value stands in the way.
        """
        shutil.rmtree(self.place, ignore_errors=True)
        if not self.loads:
            return
        with errors_at(self.place):
            self.place.mkdir(parents=True)
        try:
            copy = self._copy()
            engine = engine.for_bytes(self._size(copy))
            with engine.open_exchange() as exchange:
                reader = self._reader(engine, copy, progress)
                toasts = reader.toasts(engine, self._toast_files, progress)
                self._write(exchange, reader, toasts, commit, progress)
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    @property
    def _leaves(self) -> list[Leaf]:
        return [leaf for load in self.loads for leaf in load.table.leaves]

    @property
    def _toast_files(self) -> list[Locator]:
        return sorted({leaf.toast for leaf in self._leaves if leaf.toast is not None})

    @property
    def _files(self) -> list[Locator]:
        return sorted({leaf.locator for leaf in self._leaves}.union(self._toast_files))

    @property
    def _stretch(self) -> tuple[int, int]:
        """The WAL that may have written to the tables since the backup began."""
        return self.rows.start_lsn, self.rows.lsn + 1

    def _size(self, copy: DataDirectory) -> int:
        """Return bytes of the tables' files, and of the WAL that is gone through for them."""
        low, high = self._stretch
        return high - low + sum(copy.heap_file(file).blocks * BLCKSZ for file in self._files)

    def _copy(self) -> DataDirectory:
        """Open the backup that has the rows."""
        catalog = self.opened.request.catalog
        copy = DataDirectory(catalog)
        if copy.start_lsn != self.rows.start_lsn:
            raise CatalogError(
                f"rows are read from the backup that begins at {Lsn(self.rows.start_lsn)}, this one begins at "
                f"{Lsn(copy.start_lsn)}",
                file=catalog,
                hint="give that backup, or begin anew in another place",
            )
        _require_reached(copy, self.rows.lsn)
        copy.expect_heaps(self._files)
        return copy

    def _reader(self, engine: Engine, copy: DataDirectory, progress: Progress | None) -> _Reader:
        files = self._files
        history = heap_history(engine, self.opened.directory, copy, self._stretch, files, self.place, progress)
        _require_files(copy, self._leaves, {file for number, file in enumerate(files) if history.has_made(number)})
        heaps = {file: copy.heap_file(file) for file in files}
        has_checksums = copy.control.data_checksum_version == CHECKSUMS_ON
        numbers = {file: number for number, file in enumerate(files)}
        return _Reader(
            catalog=self.opened.request.catalog,
            start_lsn=self.rows.start_lsn,
            numbers=numbers,
            heaps=heaps,
            history=history,
            place=self.place,
            has_checksums=has_checksums,
        )

    def _write(
        self,
        exchange: Exchange,
        reader: _Reader,
        toasts: dict[Locator, ToastValues],
        commit: Commit,
        progress: Progress | None,
    ) -> None:
        tasks = list(self._tasks(reader))
        number_of = {file: number for number, file in enumerate(toasts)}
        numbered = [
            (load, pages, schema, -1 if toast is None else number_of[toast]) for load, pages, schema, toast in tasks
        ]
        waiting = Counter(load for load, *_ in tasks)
        written: list[list[DataFile]] = [[] for _ in self.loads]
        forms, values = [load.form for load in self.loads], list(toasts.values())
        lsn = self.rows.lsn if self.rows.commit_lsn is None else self.rows.commit_lsn
        write = partial(_write, forms, values, self.opened.session, lsn)
        for number in range(len(self.loads)):
            if not waiting[number]:
                commit(number, [])
        with exchange.run(
            "existing rows", write, [_RowsTask(*numbered_task) for numbered_task in numbered], progress
        ) as arriving:
            for (arrived,) in arriving:
                arrived.remove()
                number, file = arrived.summary
                written[number] += [] if file is None else [file]
                waiting[number] -= 1
                if not waiting[number]:
                    commit(number, written[number])

    def _tasks(self, reader: _Reader) -> Iterator[tuple[int, HeapPages, RelationSchema, Locator | None]]:
        for number, load in enumerate(self.loads):
            for leaf in load.table.leaves:
                for pages in reader.parts(leaf.locator):
                    yield number, pages, leaf.schema, leaf.toast


def _require_reached(copy: DataDirectory, lsn: int) -> None:
    """See that nothing in a copy is of after an LSN; what a crashed server had cut off or removed no page tells.

    Raises:
        CatalogError: it may be.
    """
    if copy.is_crashed and not copy.reach_lsn:
        raise CatalogError(
            "this is a copy of a server that had not stopped, without its WAL (pg_wal): how far its tables' files "
            "reach is not known",
            file=str(copy.path),
            hint="copy pg_wal of the same moment with it, take a base backup with pg_basebackup, or land changes only "
            "(--snapshot never)",
        )
    if copy.reach_lsn > lsn + 1:
        raise CatalogError(
            f"the copy has rows of up to {Lsn(copy.reach_lsn)}, they are asked for as of {Lsn(lsn)}",
            file=str(copy.path),
            hint="give a base backup that was complete by then",
        )


def _require_files(copy: DataDirectory, leaves: Sequence[Leaf], made: Collection[Locator]) -> None:
    """See that the copy has the files of relations, but for those that were made since it began.

    Raises:
        CatalogError: one is missing, with all its rows.
    """
    for leaf in leaves:
        name = f'table "{leaf.schema.namespace}.{leaf.schema.name}"'
        for file, what in ((leaf.locator, name), (leaf.toast, f"the TOAST table of {name}")):
            if file is not None and file not in made:
                copy.require_heap(file, what)


@dataclass(frozen=True)
class _Reader:
    """The places of tables, and what the log has done to them."""

    catalog: str
    start_lsn: int
    numbers: dict[Locator, int]
    heaps: dict[Locator, HeapFile]
    history: HeapHistory
    place: Path
    has_checksums: bool

    def parts(self, locator: Locator) -> Iterator[HeapPages]:
        """Yield a file's pages, in parts for tasks."""
        file, heap = self.numbers[locator], self.heaps[locator]
        blocks = max(heap.blocks, self.history.blocks(file))
        for first in range(0, blocks, TASK_BLOCKS):
            last = min(first + TASK_BLOCKS, blocks)
            yield HeapPages(file, heap, first, last, self.history, self.catalog, self.start_lsn, self.has_checksums)

    def toasts(
        self, engine: Engine, locators: Sequence[Locator], progress: Progress | None
    ) -> dict[Locator, ToastValues]:
        """Return the values out of line of some TOAST tables."""
        pieces = [(locator, pages) for locator in locators for pages in self.parts(locator)]
        tasks = [ToastTask(pages, self.place, number) for number, (_, pages) in enumerate(pieces)]
        parts: dict[Locator, list[ToastPart]] = {locator: [] for locator in locators}
        for (locator, _), part in zip(pieces, engine.run_tasks("TOAST", ToastTask.run, tasks, progress), strict=True):
            parts[locator].append(part)
        return {locator: ToastValues(self.heaps[locator], tuple(own)) for locator, own in parts.items()}


@dataclass(frozen=True)
class _RowsTask:
    """Some pages of a table; pickles.

    Attributes:
        load: number of the table; pages: them; schema: the relation's.
        toast: number of its TOAST table, -1 without one.
    """

    load: int
    pages: HeapPages
    schema: RelationSchema
    toast: int


def _write(
    forms: Sequence[ChangeTable], toasts: Sequence[ToastValues], session: SessionSettings, lsn: int, task: _RowsTask
) -> Iterator[Write[tuple[int, DataFile | None]]]:
    """Write rows, once a task: one file, or none where no row is visible."""

    def write(_: BinaryIO) -> tuple[int, DataFile | None]:
        toast, form = toasts[task.toast] if task.toast >= 0 else None, forms[task.load]
        rows = HeapRows(form, task.schema, toast, session, lsn)
        with errors_of_table(*form.source):
            batches = (batch for tuples in task.pages.pieces() for batch in rows.batches(tuples))
            return task.load, _file(form, lsn, batches)

    yield write


def _file(form: ChangeTable, lsn: int, batches: Iterator[pa.Table]) -> DataFile | None:
    """Write rows, batch by batch, into a file of a name that no other attempt has; it is on the disk then."""
    first = next(batches, None)
    if first is None:
        return None
    return write_batches(chain([first], batches), form.schema, form.staging, file_name(lsn))


class HeapRows:
    """A maker of a change table's rows from a relation's tuples."""

    def __init__(
        self, form: ChangeTable, schema: RelationSchema, toast: ToastValues | None, session: SessionSettings, lsn: int
    ) -> None:
        self._form, self._schema, self._toast, self._session, self._lsn = form, schema, toast, session, lsn
        self._layouts: SliceLayouts = compile_layouts([schema], session)

    def batches(self, tuples: VisibleTuples) -> Iterator[pa.Table]:
        """Yield rows of some pages, as many at a time as their values out of line allow.

        Raises:
            CatalogError: a tuple is malformed, or a value out of line is not there.
            HeadwaterError: a value does not fit its column.
        """
        if not len(tuples.at):
            return
        values, sizes, wrong = values_in(tuples, self._layouts)
        if wrong is not None:
            raise self._error(f"page {tuples.block_of(wrong)} has a malformed tuple")
        number = np.cumsum(sizes) // _BATCH_BYTES
        cuts = np.append(np.flatnonzero(np.append(True, np.diff(number) > 0)), len(number)).tolist()
        for lo, hi in pairwise(cuts):
            own = values[lo:hi]
            yield self._batch(tuples, slice(lo, hi), np.unique(own[own >= 0]))

    def _batch(self, tuples: VisibleTuples, which: slice, values: Int64s) -> pa.Table:
        data, chunk_at, chunk_length = tuples.data, np.empty(0, np.int64), np.empty(0, np.int64)
        if len(values):
            if self._toast is None:
                raise self._error("a row has a value out of line, and the table has no TOAST table")
            chunks, chunk_at, chunk_length = self._toast.chunks(values)
            chunk_at, data = chunk_at + len(data), np.concatenate([data, chunks])
        at, length = np.append(chunk_at, tuples.at[which]), np.append(chunk_length, tuples.length[which])
        items = _items(len(chunk_at), at, length, self._lsn)
        located = locate(data, items, self._layouts)
        if (located.cells.kinds == UNCHANGED).any():
            raise self._error("the TOAST table lacks a value that a row refers to")
        rows = np.arange(len(chunk_at), len(at))
        tid = tuples.tid[which]
        typed = typed_columns(
            located, items, self._form.table, self._session, schemas=[self._schema], rows=rows, ctids=tid
        )
        return self._framed(list(typed.rows.columns), tid)

    def _framed(self, columns: list[pa.Array[Any]], tid: Int64s) -> pa.Table:
        """Return rows with the columns of changes."""
        count, same = len(tid), np.zeros(len(tid), np.int32)
        lsn = pa.array(np.full(count, self._lsn, np.int64))
        described = {"_change_type": named([READ], same), "_commit_lsn": lsn, "_lsn": lsn, "_seq": pa.array(tid)}
        described |= {"_schema": named([self._schema.namespace], same), "_table": named([self._schema.name], same)}
        offsets = pa.array(np.zeros(count + 1, np.int32), pa.int32())
        described["_unchanged"] = pa.ListArray.from_arrays(offsets, pa.array([], pa.string()), type=NAMES)
        described["_is_key"] = pa.array(np.zeros(count, np.bool_))
        oids = pa.array(np.full(count, self._schema.oid, np.int64))
        described |= {"_relation": oids, "_relation_oid": oids, "_heap": pa.array(np.zeros(count, np.int64))}
        return self._form.framed(columns, described, count)

    def _error(self, reason: str) -> CatalogError:
        return CatalogError(
            f'table "{self._schema.namespace}.{self._schema.name}": {reason}',
            hint="the backup is damaged; take it again",
        )


def _items(chunks: int, at: Int64s, length: Int64s, lsn: int) -> Items:
    """Return chunks first, and the rows that need them: as if one transaction had written all of them."""
    count = len(at)
    nothing = np.zeros(count, np.int32)
    return Items(
        kind=np.where(np.arange(count) < chunks, TOAST, INSERT).astype(np.uint8),
        txn=nothing,
        xid=np.zeros(count, np.uint32),
        lsn=np.full(count, lsn, np.int64),
        layout=nothing,
        new_at=at.astype(np.int64),
        new_len=length.astype(np.int32),
        old_at=np.full(count, -1, np.int64),
        old_len=nothing,
        flags=np.zeros(count, np.uint8),
    )
