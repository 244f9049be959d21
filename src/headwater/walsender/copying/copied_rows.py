"""COPY of a table as of the LSN of a snapshot: from the statement to the payloads of CopyData.

::

    statement, catalog at the LSN   ->  the table, its columns, where its rows lie    (copied_table.py)
    backup, WAL up to the LSN       ->  visible rows of some pages, into a file each  (tasks, copy_task.py)
    files, in the order of tasks    ->  payloads, a megabyte or so at a time

Rows come in the order of the table's pages, one relation after the other. That is the server's order, with exceptions:
it may read a large table from its middle on (synchronize_seqscans), in parallel, or by an index for a condition.

PostgreSQL: copyto.c (DoCopyTo), replication/logical/tablesync.c (copy_table).

Known gap: every COPY goes through the WAL since the backup for itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headwater.base.temporary_directories import OwnDirectory
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.search_path import SearchPath
from headwater.catalog.store.catalog_image import CatalogImage
from headwater.catalog.store.image_io import store_of
from headwater.errors import HeadwaterError, SessionError
from headwater.existing.heap_reader import HeapReader, bytes_to_read, open_heaps
from headwater.existing.heap_toast import ToastValues
from headwater.existing.leaves import Leaf, files_of, toast_files_of
from headwater.existing.page_history import Locator
from headwater.jobs.engine import Engine
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.lsn import Lsn
from headwater.pg.sqlstates import CANNOT_CONNECT_NOW, UNDEFINED_FUNCTION
from headwater.pg.version import Version
from headwater.reorder.commits.state import State
from headwater.rows.session import SERVER_VERSION, SessionSettings
from headwater.rows.text_tables import base_type
from headwater.rows.type_forms import has_send_function
from headwater.slots.history import check_of_history, position_of_state
from headwater.slots.kept_state import KeptState
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.copying.copied_table import CopiedTable, copied_table
from headwater.walsender.copying.copy_task import CopyForm, CopyTask, run_copy_task
from headwater.walsender.copying.refusals import not_without_server
from headwater.walsender.copying.row_blocks import blocks_in
from headwater.walsender.copying.row_conditions import condition_trees
from headwater.walsender.copying.row_form import CopiedRows, in_binary
from headwater.walsender.sql.copy_shapes import CopyTable


@dataclass(frozen=True)
class CopySource:
    """The place of the rows.

    Attributes:
        catalog: path of the base backup.
        directory: the WAL, from the backup's first LSN on.
        version: the server's.
        scratch: a directory for files, which tasks see; None for where temporary ones go.
    """

    catalog: str
    directory: WalDirectory
    version: Version
    scratch: str | None = None


@dataclass(frozen=True)
class CopyOut:
    """A COPY to the client that is about to begin.

    Attributes:
        column_count, is_binary: what CopyOutResponse says.
        batches: the payloads of CopyData, in order; whoever does not come to their end closes them.
    """

    column_count: int
    is_binary: bool
    batches: Generator[CopiedRows]


def check_for_primary(source: CopySource, at: KeptState, copy: CopyTable, settings: Mapping[str, str]) -> None:
    """Check a COPY that the primary is to run, with the rights of the role that asks it: it reads one table of users.

    Args:
        source, at, copy, settings: as those of :func:`copied_rows`.

    Raises:
        SessionError: it reads a catalog, or has a condition that is not made of row filters.
    """
    store = store_of(at.state.catalog)
    session = _session(source, at, settings, store.encoding)
    store.name_by(SearchPath.parse(session.search_path))
    view = store.view(at.state.lsn)
    oid = view.relation_named(copy.schema, copy.table)
    if oid is not None and oid < FIRST_NORMAL_OBJECT_ID:
        raise not_without_server(f'"{copy.schema}.{copy.table}" is a catalog')
    relation = None if oid is None else view.relation(oid)
    if copy.where is not None and relation is not None:
        condition_trees(view, relation, copy.where, session)


def copied_rows(
    source: CopySource, at: KeptState, copy: CopyTable, engine: Engine, settings: Mapping[str, str]
) -> CopyOut:
    """Open a COPY.

    Args:
        source: where rows are read.
        at: the state at the LSN that they are wanted as of.
        copy: the statement.
        engine: runs the tasks; it may choose by the size of the table.
        settings: of the session, by their names; they go before those of the server's configuration.

    Returns:
        what is sent; nothing has been read of it. Taking batches raises HeadwaterError.

    Raises:
        SessionError: the server's, or that only a server can answer; the WAL's history does not have the state.
        HeadwaterError: the catalog is inconsistent.
    """
    check_of_history(source.directory, position_of_state(at.state))
    _check_there(source.directory, at.state)
    image = at.state.catalog
    store, lsn = store_of(image), at.state.lsn
    if store.origin.is_exported:
        raise not_without_server("rows are in no catalog that was exported by a server")
    session = _session(source, at, settings, store.encoding)
    store.name_by(SearchPath.parse(session.search_path))
    table = copied_table(store, store.view(lsn), copy, session)
    backup = backup_before(source.catalog, image, lsn)
    form = CopyForm(table.columns, table.filters, session, copy.is_binary, lsn)
    batches = _Copying(source, engine, backup, form, table.leaves).batches()
    return CopyOut(len(table.columns), copy.is_binary, _binary(table, batches) if copy.is_binary else batches)


def _check_there(directory: WalDirectory, state: State) -> None:
    """Check that the WAL reaches a state: the segment in which a timeline was left is received once more."""
    last = state.last_lsn
    if last and not len(read_frames(directory, last, last + 1).lsns):
        raise SessionError(f"WAL up to {Lsn(state.lsn)} is not there now", sqlstate=CANNOT_CONNECT_NOW)


def _session(source: CopySource, at: KeptState, settings: Mapping[str, str], encoding: str) -> SessionSettings:
    values = {**dict(at.server_settings), SERVER_VERSION: str(source.version), **settings}
    return SessionSettings.from_settings(values, source.version.major, encoding)


def _binary(table: CopiedTable, batches: Generator[CopiedRows]) -> Generator[CopiedRows]:
    """Give rows in binary form; that a type has none is an error behind CopyOutResponse, as with the server."""
    _check_sendable(table)
    yield from in_binary(batches)


def _check_sendable(table: CopiedTable) -> None:
    """Check that the types of all columns have a send function (getTypeBinaryOutputInfo)."""
    for column in table.columns:
        assert column.type is not None
        if not has_send_function(base_type(column.type)):
            text = f"no binary output function available for type {column.type.display_name}"
            raise SessionError(text, sqlstate=UNDEFINED_FUNCTION)


def backup_before(catalog: str, image: CatalogImage, lsn: int) -> DataDirectory:
    """Open the backup, and see that nothing in it is of after an LSN.

    Raises:
        SessionError: it is, or it is none that has rows, or another one than the catalog comes from.
    """
    try:
        backup = DataDirectory(catalog)
        reach = backup.reach_lsn
    except HeadwaterError as error:
        raise not_without_server(f'rows cannot be read from "{catalog}"', error.message) from None
    if backup.is_crashed and not reach:
        raise not_without_server(
            "how far the tables' files reach is not known",
            "The backup is a copy of a server that had not stopped, without its WAL.",
        )
    if not image.is_complete or reach > lsn or backup.start_lsn > lsn:
        raise not_without_server(f"rows are asked for as of {Lsn(lsn)}, before the end of the base backup")
    if backup.start_lsn != image.origin.start_lsn:
        raise not_without_server("the base backup is not the one that the snapshot's catalog comes from")
    return backup


@dataclass(frozen=True)
class _Copying:
    """The work of a COPY."""

    source: CopySource
    engine: Engine
    backup: DataDirectory
    form: CopyForm
    leaves: Sequence[Leaf]

    def batches(self) -> Generator[CopiedRows]:
        """Give the rows; at the end, or when this is closed, all files are gone."""
        if not self.leaves:
            return
        with ExitStack() as block:
            place = block.enter_context(OwnDirectory(self.source.scratch))
            stretch = self.backup.start_lsn, self.form.lsn
            self.backup.expect_heaps(files_of(self.leaves))
            engine = self.engine.for_bytes(bytes_to_read(self.backup, self.leaves, stretch))
            exchange = block.enter_context(engine.open_exchange(self.source.scratch))
            reader, toasts = self._opened(engine, stretch, place)
            work = partial(run_copy_task, self.form, list(toasts.values()))
            tasks = list(self._tasks(reader, {file: number for number, file in enumerate(toasts)}))
            arriving = block.enter_context(exchange.run("copied rows", work, tasks))
            for (arrived,) in arriving:
                yield from blocks_in(arrived.path)
                arrived.remove()

    def _opened(
        self, engine: Engine, stretch: tuple[int, int], place: Path
    ) -> tuple[HeapReader, dict[Locator, ToastValues]]:
        reader = open_heaps(engine, self.source.directory, self.backup, stretch, self.leaves, place, None)
        return reader, reader.toasts(engine, toast_files_of(self.leaves), None)

    def _tasks(self, reader: HeapReader, numbers: Mapping[Locator, int]) -> Iterator[CopyTask]:
        for leaf in self.leaves:
            for pages in reader.parts(leaf.locator):
                yield CopyTask(pages, leaf.schema, -1 if leaf.toast is None else numbers[leaf.toast])
