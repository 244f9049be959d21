"""Rows that were there before, from the heap files of a base backup into change tables (``_change_type`` ``read``).

::

    WAL up to the LSN  ->  a history of the wanted tables' pages               (tasks, existing/heap_history.py)
    TOAST tables       ->  where each value's chunks lie                       (tasks, existing/heap_toast.py)
    tables             ->  visible rows of some pages into a file each         (tasks, each of many small tables)
                       ->  one commit a table, with the LSN                    (driver)

What a table has landed, it says itself: one that has come to the LSN, with or without rows, is left out when a run that
was killed is begun again. Nobody but tasks sees rows. A task holds a few megabytes of pages at a time, with as many
bytes of values out of line as fit beside them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.overlapped import overlapped
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError, errors_of_table
from headwater.existing.heap_pages import HeapPages
from headwater.existing.heap_reader import HeapReader, bytes_to_read, open_heaps
from headwater.existing.heap_toast import ToastValues
from headwater.existing.leaves import Leaf, files_of, toast_files_of
from headwater.existing.located_rows import TupleReader
from headwater.existing.page_history import Locator, VisibleTuples
from headwater.jobs.engine import Engine
from headwater.jobs.exchange import Exchange, Write
from headwater.jobs.outcome import Progress
from headwater.lakes.data_files import write_batches
from headwater.lakes.lake_table import DataFile, errors_at, file_name
from headwater.landing.existing_rows import ExistingRows, ExistingTable
from headwater.landing.tables.change_rows import ChangeTable, named
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.rows.columns.arrow import NAMES
from headwater.rows.columns.table_columns import typed_columns
from headwater.rows.session import SessionSettings

Int64s = NDArray[np.int64]

READ = "read"
"""``_change_type`` of a row that was there before, as Debezium's ``r`` is."""


@dataclass(frozen=True)
class TableLoad:
    """A table whose rows are landed: it, and what tasks need to know of it in the lake."""

    table: ExistingTable
    form: ChangeTable


Commit = Callable[[list[tuple[int, list[DataFile]]], Exchange], None]
"""Commits the files of tables, by their numbers among those loaded; the exchange runs what tasks do besides."""

MOST_TOGETHER, SMALL_BLOCKS = 64, 1024
"""Parts of tables in a task, which have so many pages together; and tables that are committed at a time."""


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
        """Load them, each committed soon after its rows are there.

        Args:
            engine: runs the tasks; it may choose by the size of the tables.
            commit: called with tables and their files; progress: with tasks done.

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
            engine = engine.for_bytes(bytes_to_read(copy, self._leaves, self._stretch))
            with engine.open_exchange() as exchange, engine.open_exchange() as besides:
                reader = open_heaps(
                    engine, self.opened.directory, copy, self._stretch, self._leaves, self.place, progress
                )
                toasts = reader.toasts(engine, toast_files_of(self._leaves), progress)
                self._write(exchange, reader, toasts, partial(_commit_each, commit, besides), progress)
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    @property
    def _leaves(self) -> list[Leaf]:
        return [leaf for load in self.loads for leaf in load.table.leaves]

    @property
    def _stretch(self) -> tuple[int, int]:
        """The WAL that may have written to the tables since the backup began."""
        return self.rows.start_lsn, self.rows.lsn + 1

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
        copy.expect_heaps(files_of(self._leaves))
        return copy

    def _write(
        self,
        exchange: Exchange,
        reader: HeapReader,
        toasts: dict[Locator, ToastValues],
        commit: Callable[[list[tuple[int, list[DataFile]]]], None],
        progress: Progress | None,
    ) -> None:
        parts = list(self._parts(reader, {file: number for number, file in enumerate(toasts)}))
        waiting = Counter(part.load for part in parts)
        written: list[list[DataFile]] = [[] for _ in self.loads]
        forms, values = [load.form for load in self.loads], list(toasts.values())
        lsn = self.rows.lsn if self.rows.commit_lsn is None else self.rows.commit_lsn
        write = partial(_write, forms, values, self.opened.session, lsn)
        ready = [number for number in range(len(self.loads)) if not waiting[number]]
        with exchange.run("existing rows", write, list(_together(parts)), progress) as arriving:
            for (arrived,) in arriving:
                arrived.remove()
                for number, file in arrived.summary:
                    written[number] += [] if file is None else [file]
                    waiting[number] -= 1
                    ready += [] if waiting[number] else [number]
                commit([(number, written[number]) for number in ready])
                ready = []
        commit([(number, []) for number in ready])

    def _parts(self, reader: HeapReader, numbers: Mapping[Locator, int]) -> Iterator[_Part]:
        for number, load in enumerate(self.loads):
            for leaf in load.table.leaves:
                toast = -1 if leaf.toast is None else numbers[leaf.toast]
                for pages in reader.parts(leaf.locator):
                    yield _Part(number, pages, leaf.schema, toast)


def _commit_each(commit: Commit, exchange: Exchange, tables: list[tuple[int, list[DataFile]]]) -> None:
    for first in range(0, len(tables), MOST_TOGETHER):
        commit(tables[first : first + MOST_TOGETHER], exchange)


def _together(parts: Iterable[_Part]) -> Iterator[tuple[_Part, ...]]:
    """Yield parts as tasks have them: a large one alone."""
    group: list[_Part] = []
    blocks = 0
    for part in parts:
        blocks += part.pages.blocks
        if group and (blocks > SMALL_BLOCKS or len(group) == MOST_TOGETHER):
            yield tuple(group)
            group, blocks = [], part.pages.blocks
        group.append(part)
    if group:
        yield tuple(group)


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


@dataclass(frozen=True)
class _Part:
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
    forms: Sequence[ChangeTable],
    toasts: Sequence[ToastValues],
    session: SessionSettings,
    lsn: int,
    parts: tuple[_Part, ...],
) -> Iterator[Write[list[tuple[int, DataFile | None]]]]:
    """Write rows, once a task: a file for each part, or none where no row is visible."""

    def write_part(part: _Part) -> tuple[int, DataFile | None]:
        toast, form = toasts[part.toast] if part.toast >= 0 else None, forms[part.load]
        rows = HeapRows(form, part.schema, toast, session, lsn)
        with errors_of_table(*form.source):
            batches = (batch for tuples in part.pages.pieces() for batch in rows.batches(tuples))
            return part.load, _file(form, lsn, batches)

    yield lambda _: overlapped(write_part, parts)


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
        self._form, self._schema, self._session, self._lsn = form, schema, session, lsn
        self._reader = TupleReader(schema, toast, session, lsn)

    def batches(self, tuples: VisibleTuples) -> Iterator[pa.Table]:
        """Yield rows of some pages, as many at a time as their values out of line allow.

        Raises:
            CatalogError: a tuple is malformed, or a value out of line is not there.
            HeadwaterError: a value does not fit its column.
        """
        for rows in self._reader.batches(tuples):
            typed = typed_columns(
                rows.located,
                rows.items,
                self._form.table,
                self._session,
                schemas=[self._schema],
                rows=rows.rows,
                ctids=rows.tid,
            )
            yield self._framed(list(typed.rows.columns), rows.tid)

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
