"""Mutated files of tables: their rows are read as an initial load reads them, and what the log did to their pages."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from fuzz.corpus import Corpus
from fuzz.kinds import Kind
from fuzz.mutations import Field, change, changed, words_of
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.pages import BLCKSZ
from headwater.catalog.store.bootstrap import open_catalog
from headwater.errors import CatalogError
from headwater.existing.heap_history import HeapHistory, HistoryTask, RunHistory, gathered_history, history_tasks
from headwater.existing.heap_pages import HeapPages
from headwater.existing.heap_toast import ToastTask, ToastValues
from headwater.existing.leaves import Leaf
from headwater.existing.page_history import HistoryFile, HistoryScan, Locator
from headwater.landing.existing_rows import existing_rows
from headwater.landing.initial_load import HeapRows
from headwater.landing.tables.change_rows import CHANGE_FIELDS, ChangeTable
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.columns.column_types import NULL, PARQUET, STRING
from headwater.rows.columns.table_columns import TypedTable
from headwater.rows.session import SessionSettings
from headwater.wal.records.frames import Frames, read_frames

_TABLE = "public.held"
_SLRUS = ("pg_xact/0000", "pg_multixact/offsets/0000", "pg_multixact/members/0000")
_MOST_BLOCKS = 2000
"""Of a file: a page that is far away is read, too, with all zeros before it."""


@dataclass(frozen=True)
class Table:
    """A table of a corpus, in a copy of its own.

    Attributes:
        corpus: whose it is; path: of the copy.
        leaf: the table; files: its own and its TOAST table's.
        lo, hi: LSNs of the WAL that its history is of.
        runs: that history.
        data: the copy's files that are mutated, by their names.
    """

    corpus: Corpus
    path: Path
    leaf: Leaf
    files: tuple[Locator, ...]
    lo: int
    hi: int
    runs: tuple[RunHistory, ...]
    data: dict[str, bytes]

    @classmethod
    def of(cls, corpus: Corpus, path: Path) -> Table:
        """Copy what is needed of a corpus's backup."""
        store = open_catalog(corpus.backup, "postgres")
        plugin = RowChanges(TableChoice(TablePatterns((_TABLE,))), (), corpus.major)
        (table,) = existing_rows(store, plugin, store.start_lsn).tables
        (leaf,) = table.leaves
        assert leaf.toast is not None
        files = (leaf.locator, leaf.toast)
        for folder in ("global", "pg_xact", "pg_multixact"):
            shutil.copytree(corpus.backup / folder, path / folder)
        shutil.copy(corpus.backup / "PG_VERSION", path)
        copy = DataDirectory(path)
        names = [str(Path(copy.relation_place(file)).relative_to(path)) for file in files]
        for name in names:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(corpus.backup / name, path / name)
        data = {name: (path / name).read_bytes() for name in (*names, *_SLRUS)}
        hi = corpus.kept[3].state.lsn
        (path / "history").mkdir()
        tasks: list[HistoryTask] = history_tasks(corpus.directory, (copy.start_lsn, hi), files, path / "history", 1)
        return cls(corpus, path, leaf, files, copy.start_lsn, hi, tuple(task.run() for task in tasks), data)

    def read(self, rng: random.Random, runs: Sequence[RunHistory]) -> int:
        """Read the rows, and count them."""
        copy = DataDirectory(self.path)
        history = gathered_history(copy, runs, self.path / "history")
        toast = self._pages(copy, history, 1)
        part = ToastTask(toast, self.path / "history", 0).run()
        table = TypedTable(self.leaf.schema, rng.choice((NULL, STRING)), PARQUET)
        names = tuple(column.name for column in table.columns)
        schema = pa.schema([*CHANGE_FIELDS, *table.arrow_schema])
        form = ChangeTable(table, names, schema, -1, "")
        session = SessionSettings(major=self.corpus.major)
        rows = HeapRows(form, self.leaf.schema, ToastValues(toast.heap, (part,)), session, self.hi)
        pieces = self._pages(copy, history, 0).pieces()
        return sum(len(batch) for piece in pieces for batch in rows.batches(piece))

    def _pages(self, copy: DataDirectory, history: HeapHistory, file: int) -> HeapPages:
        heap = copy.heap_file(self.files[file])
        blocks = max(heap.blocks, history.blocks(file))
        if blocks > _MOST_BLOCKS:
            raise CatalogError("a page far away")
        return HeapPages(file, heap, 0, blocks, history, str(self.path), self.lo, False)


class Heaps(Kind):
    """A table's pages, its TOAST table's, and what is known of transactions."""

    name, share = "tables", 4

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._tables = [Table.of(corpus, scratch / str(corpus.major)) for corpus in corpora]

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        table = rng.choice(self._tables)
        heap, toast, *others = table.data
        name = rng.choice((heap, heap, heap, heap, toast, toast, rng.choice(others)))
        whole = table.data[name]
        (table.path / name).write_bytes(_status_changed(rng, whole) if name in others else _page_changed(rng, whole))
        try:
            count = table.read(rng, table.runs if rng.random() < 0.7 else ())
            return "read" if count else "no rows"
        finally:
            (table.path / name).write_bytes(whole)


def _status_changed(rng: random.Random, whole: bytes) -> bytes:
    used = len(whole.rstrip(b"\0")) + 8
    return changed(rng, whole[:used], words_of(whole[:used])) + whole[used:]


def _page_changed(rng: random.Random, whole: bytes) -> bytes:
    """Change some bytes of a page, most of them where something depends on them."""
    page = rng.randrange(len(whole) // BLCKSZ) * BLCKSZ
    (lower,) = struct.unpack_from("<H", whole, page + 12)
    fields: list[Field] = [(0, 4), (4, 4), (10, 2), (12, 2), (14, 2), (16, 2), (18, 2)]
    pointers = list(range(24, min(lower, BLCKSZ), 4))
    for at in rng.sample(pointers, min(len(pointers), 8)):
        word = struct.unpack_from("<I", whole, page + at)[0]
        start, length = word & 0x7FFF, word >> 17
        fields += [(at, 4), (start, 4), (start + 4, 4), (start + 8, 4), (start + 12, 4), (start + 16, 2)]
        fields += [(start + 18, 2), (start + 20, 2), (start + 22, 1), (start + 23, 1)]
        fields += [(start + 24 + rng.randrange(max(length - 24, 1)), rng.choice((1, 2, 4))) for _ in range(12)]
    part = changed(rng, whole[page : page + BLCKSZ], fields)
    if rng.random() < 0.1:  # the pages after it lie elsewhere, or there are fewer
        return whole[:page] + part + whole[page + BLCKSZ :]
    return whole[:page] + part[:BLCKSZ].ljust(BLCKSZ, b"\0") + whole[page + BLCKSZ :]


class PageHistories(Kind):
    """Records of a table's pages: gone through, and its rows read as of after them."""

    name, share = "histories of pages", 3

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._tables = [Table.of(corpus, scratch / str(corpus.major)) for corpus in corpora]
        self._frames = [read_frames(table.corpus.directory, table.lo, table.hi) for table in self._tables]
        self._concerned = [_concerned(*pair) for pair in zip(self._tables, self._frames, strict=True)]

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        number = rng.randrange(len(self._tables))
        table, frames = self._tables[number], self._frames[number]
        data = frames.data.copy()
        for _ in range(rng.choice((1, 1, 2, 3))):
            self._change(rng, frames, data, rng.choice(self._concerned[number]))
        file = HistoryFile.named(table.path / "history", 1)
        with file.payload.open("wb") as payload:
            scan = HistoryScan(table.files, table.corpus.major, payload)
            scan.add(replace(frames, data=data))
        history = scan.finish()
        if not file.payload.stat().st_size:
            file.payload.write_bytes(b"\0")
        file.save(history)
        xids, is_commit = (np.concatenate([getattr(run, what) for run in table.runs]) for what in ("xids", "is_commit"))
        run = RunHistory(file, history.cuts, history.multis, xids, is_commit, table.runs[0].control)
        count = table.read(rng, (run,))
        return "read" if count else "no rows"

    def _change(self, rng: random.Random, frames: Frames, data: np.ndarray, record: int) -> None:
        at, length = int(frames.positions[record]), frames.length(record)
        # Length, previous record and checksum were looked at before.
        part = bytearray(data[at + 16 : at + length].tobytes())
        head = bytearray(part[:100])
        change(rng, head, [(0, 1), (1, 1), *words_of(bytes(head))])
        part[: len(head)] = head
        if rng.random() < 0.2:
            change(rng, part)
        data[at + 16 : at + length] = np.frombuffer(bytes(part), np.uint8)


def _concerned(table: Table, frames: Frames) -> list[int]:
    """List the numbers of the records that are of the table's pages."""
    locators = [struct.pack("<III", *file) for file in table.files]
    numbers = [
        number for number in range(len(frames.lsns)) if any(locator in frames.record(number) for locator in locators)
    ]
    assert len(numbers) > 20
    return numbers


KINDS: list[type[Kind]] = [Heaps, PageHistories]
