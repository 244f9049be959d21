"""A table of DuckLake (format 1.0), written without DuckDB: files of tasks, and rows of the catalog's database.

::

    ducklake.sqlite              the catalog, unless it is elsewhere
    public.orders/part-….parquet rows, written by tasks, with the numbers of columns
    public.orders/…-deletes…     positions of rows of a file that are deleted

A window is one transaction of that database, and one snapshot: new tables, columns, files that come and go, and how far
each table has come. The last is in ``ducklake_metadata``, as settings of the table, with whose its columns are. So a
run that is killed has committed all of a window, or nothing of it.

The number of a snapshot is a primary key: of two that commit at a time one begins again. It goes on if nobody has
touched the tables, and is refused otherwise.

Known gaps: partitions; row ids are not kept when rows are written anew.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa

from headwater.base.overrides import override
from headwater.errors import LakeConflictError, LakeError, LakeNameError
from headwater.lakes.deletes.deleted_rows import Positions, united
from headwater.lakes.ducklake import expiry
from headwater.lakes.ducklake.bound_texts import read_bound
from headwater.lakes.ducklake.catalog_database import CATALOG_FILE, open_database
from headwater.lakes.ducklake.catalog_table import (
    COLUMNS,
    COMMIT_LSN,
    SNAPSHOT,
    SOURCE,
    FileRow,
    FoundTable,
    columns_at,
    current_files,
    files_at,
    find_table,
    next_column,
    require_no_inlined,
    require_own_names,
    settings_of,
    snapshot_is_there,
)
from headwater.lakes.ducklake.columns import Column, NumberedColumns, arrow_type
from headwater.lakes.ducklake.delete_files import PlacedDeletes, footer_size, write_deletes
from headwater.lakes.ducklake.merged_files import (
    can_merge,
    has_origins,
    merging_schema,
    origin_of,
    rows_until,
    with_origins,
)
from headwater.lakes.ducklake.snapshots import NextSnapshot, last_snapshot, require_catalog
from headwater.lakes.ducklake.table_changes import (
    ColumnSeen,
    NewDeletes,
    NewFile,
    add_deletes,
    add_files,
    change_columns,
    create_table,
    end_files,
    merge_files,
    note_settings,
)
from headwater.lakes.lake_schema import COLUMN_MARK
from headwater.lakes.lake_table import (
    DataFile,
    Expired,
    LakeFormat,
    LakeTable,
    Landed,
    TableCommit,
    TableSize,
    errors_at,
    require_source,
)
from headwater.lakes.stores.places import Where, folder_at, is_address, make_folder, sync_folder
from headwater.pg.lsn import Lsn

_ATTEMPTS = 5
T = TypeVar("T")


class DuckLakeFormat(LakeFormat[Where]):
    """Tables of DuckLake of a target, in one catalog.

    Args:
        place: the target's directory, or its place in a store.
        catalog: see :func:`~headwater.lakes.ducklake.catalog_database.open_database`.
        deletes_beside: commits delete rows beside files.

    Raises:
        LakeError: the catalog cannot be opened.
    """

    stages_ahead = False
    """The numbers of columns are those that the next commit gives."""

    def __init__(self, place: Where, catalog: str | None = None, *, deletes_beside: bool = False) -> None:
        self._place, self._has_own, self._deletes_beside = place.absolute(), catalog is None, deletes_beside
        with errors_at(place):
            self.database = open_database(self._place, catalog)
        try:
            self._data_path = require_catalog(self.database, self._place)
        except BaseException:
            self.database.close()
            raise

    def table(self, place: Where, source: str, name: str) -> DuckLakeTable:
        return DuckLakeTable(self, place.absolute(), source, self._names(name))

    @property
    def data_path(self) -> str:
        """The directory of files whose paths are relative."""
        return self._data_path

    @property
    def deletes_beside(self) -> bool:
        """Whether commits delete rows beside files."""
        return self._deletes_beside

    def _names(self, name: str) -> tuple[str, str]:
        schema, _, table = name.partition(".")
        return schema, table

    def identifier(self, name: str) -> tuple[str, ...]:
        """See :class:`LakeFormat`: DuckDB does not tell letters of two cases apart."""
        if self._has_own and (name == CATALOG_FILE or name.startswith(f"{CATALOG_FILE}-")):
            raise LakeNameError(
                f'the directory of table "{name}" would be called as a file of the catalog is',
                file=str(self._place),
                hint="leave it out (--exclude), or take another catalog (--ducklake-catalog)",
            )
        schema, table = self._names(name)
        return schema.lower(), table.lower()

    def entry(self, name: str) -> FoundTable | None:
        """Return a table of the catalog, by the source's name; None for none."""
        return find_table(self.database, self._data_path, *self._names(name))

    def commit(self, commits: Sequence[TableCommit]) -> None:
        """See :class:`LakeFormat`: in one snapshot."""
        prepared = []
        for commit in commits:
            assert isinstance(commit.table, DuckLakeTable)
            prepared.append(commit.table.prepared(commit))
        made = _tried_again(lambda: self._made(prepared))
        for own, after in zip(prepared, made, strict=True):
            own.table.follow(after)

    def _made(self, prepared: Sequence[_Prepared]) -> list[_Made]:
        """Make a snapshot of commits; gives what tables are then."""
        with self.database.transaction():
            snapshot = NextSnapshot.of(self.database)
            made = [own.table.write(snapshot, own) for own in prepared]
            if made:
                most = max(own.landed.commit_lsn for own in prepared)
                snapshot.finish(f"headwater land up to {Lsn(most)}", _extra(prepared))
        return made

    def forget_versions(self, kept_versions: Container[int], older_than: datetime) -> None:
        expiry.forget_snapshots(self.database, kept_versions, older_than)

    @override
    def expire(self, place: Where, name: str, kept_versions: Container[int], older_than: datetime) -> Expired:
        """See :class:`LakeFormat`: files that are in no snapshot, and those of no commit."""
        table = self.entry(name)
        if table is None:
            return Expired(0, 0)
        with errors_at(place):
            return Expired(*expiry.remove_files(self.database, table, place.absolute(), self._data_path, older_than))

    def size(self, place: Where, name: str, version: int) -> TableSize:
        table = self._at(place, name, version)
        files = files_at(self.database, table, version, bounds=False)
        return TableSize.of(_shown(_partial(row, table, version), [], version) for row in files)

    @override
    def schema(self, place: Where, name: str, version: int) -> pa.Schema | None:
        return _schema(self, self._at(place, name, version), version)

    def _at(self, place: Where, name: str, version: int) -> FoundTable:
        """Return a table of which a version is there.

        Raises:
            LakeError: it is not.
        """
        folder_at(place)  # delete files there may be read
        table = self.entry(name)
        if table is not None and not snapshot_is_there(self.database, version):
            latest = int(settings_of(self.database, table.number).get(SNAPSHOT, "-1"))
            table = table if version == latest else None  # another program has expired it: the rows are still the last
        if table is None:
            raise LakeError(f"snapshot {version} has expired", file=str(place))
        return table

    def close(self) -> None:
        self.database.close()


def _tried_again(make: Callable[[], T]) -> T:
    """Make a commit; begin again where another one got the number of the snapshot."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return make()
        except _TableConflictError:
            raise
        except LakeConflictError:
            continue
    return make()


class _TableConflictError(LakeConflictError):
    """A table is not as it was known."""


def _extra(prepared: Sequence[_Prepared]) -> dict[str, object]:
    lsns = {".".join(own.table.names): str(Lsn(own.landed.commit_lsn)) for own in prepared}
    return {"headwater": {"source": prepared[0].landed.source, "commit_lsn": lsns}}


@dataclass(frozen=True)
class _Prepared:
    """A commit to a table, with its files on the disk.

    Attributes:
        table: it; landed, removed: see :meth:`LakeTable.commit`.
        added: files that come; files: the same, as others know them; deletes: delete files that come.
        columns: of the table then.
        has_same_rows: see :meth:`LakeTable.commit`.
    """

    table: DuckLakeTable
    landed: Landed
    removed: Sequence[str]
    added: Sequence[NewFile]
    files: Sequence[DataFile]
    deletes: Mapping[str, NewDeletes]
    columns: Sequence[Column]
    has_same_rows: bool

    @property
    def merges(self) -> bool:
        """It puts a file in the place of several, whose rows say where they come from."""
        return self.has_same_rows and len(self.files) == 1 and bool(self.removed) and has_origins(self.files[0].nulls)


@dataclass(frozen=True)
class _Placed:
    """A file of the table.

    Attributes:
        number: ``data_file_id``; deletes: ``delete_file_id``, None for none; file: as others know it.
    """

    number: int
    deletes: int | None
    file: DataFile


@dataclass(frozen=True)
class _Made:
    """A table after a commit.

    Attributes:
        entry: it; snapshot: its number; landed: see :class:`Landed`.
        files: by their paths; None for not known.
    """

    entry: FoundTable
    snapshot: int
    landed: Landed
    files: dict[str, _Placed] | None


class DuckLakeTable(LakeTable):
    """A table of a catalog, whose files lie in a directory.

    Args:
        form: with the catalog, open.
        place: the directory, which is made.
        source: what its rows must be of.
        names: of the schema, and of the table in it.

    Raises:
        LakeError: it cannot be read, or is another's.
    """

    def __init__(self, form: DuckLakeFormat, place: Where, source: str, names: tuple[str, str]) -> None:
        self.place, self.names, self._form, self._source = place, names, form, source
        self._database = form.database
        self._files: dict[str, _Placed] | None = None
        with errors_at(place):
            make_folder(place)
        self._snapshot = last_snapshot(self._database)
        self._found = find_table(self._database, form.data_path, *names)
        self._version, self._landed = self._read()

    def _read(self) -> tuple[int, Landed]:
        if self._found is None:
            return -1, Landed(-1, None, self._source)
        number = self._found.number
        settings = settings_of(self._database, number)
        require_source(settings.get(SOURCE, ""), self._source, self.place)
        if self._found.directory != f"{self.place}/":
            raise LakeError(
                f"the table {'.'.join(self.names)} lies in {self._found.directory}",
                file=str(self.place),
                hint="land to where it lies, or to another catalog (--ducklake-catalog)",
            )
        require_own_names(self._database, number, str(self.place))
        require_no_inlined(self._database, number, str(self.place))
        landed = Landed(Lsn.parse(settings[COMMIT_LSN]), _schema(self._form, self._found, self._snapshot), self._source)
        return int(settings[SNAPSHOT]), landed

    @property
    def version(self) -> int:
        """The number of the snapshot; see :class:`LakeTable`."""
        return self._version

    @property
    def staging(self) -> str:
        """The table's directory; see :class:`LakeTable`: files that no snapshot has are none of the table's."""
        return folder_at(self.place)

    @property
    def files(self) -> Mapping[str, DataFile]:
        return {path: placed.file for path, placed in self._placed().items()}

    @property
    def deletes_beside(self) -> bool:
        return self._form.deletes_beside

    def locate(self, path: str) -> str:
        return path if is_address(path) else os.path.join(self.staging, path)

    def _placed(self) -> dict[str, _Placed]:
        """Return the files of the table, as the catalog has them."""
        if self._found is None:
            return {}
        if self._files is None:
            self._snapshot = last_snapshot(self._database)
            columns = columns_at(self._database, self._found.number, self._snapshot)
            rows = files_at(self._database, self._found, self._snapshot)
            self._files = {
                row.path: _Placed(
                    row.number,
                    None if row.deletes is None else row.deletes.number,
                    _shown(row, columns, self._snapshot),
                )
                for row in rows
            }
        return self._files

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """See :class:`LakeTable`: with the numbers that columns will have when the next commit is made."""
        if last_snapshot(self._database) != self._snapshot:
            self._files = None  # others may have merged files
        return self._numbered(schema)[1]

    @override
    def merging_schema(self, schema: pa.Schema) -> pa.Schema:
        """See :class:`LakeTable`: with where each row comes from, unless others have deleted some beside files."""
        fields = self.file_schema(schema)
        has_deletes = any(placed.deletes is not None for placed in self._placed().values())
        return fields if has_deletes or not can_merge(fields) else merging_schema(fields)

    @override
    def merging_rows(self, path: str, rows: pa.Table) -> pa.Table:
        return with_origins(rows, origin_of(self._database, self._placed()[path].number))

    def _numbered(self, schema: pa.Schema) -> tuple[list[Column], pa.Schema]:
        known, begin = [], 1
        if self._found is not None:
            known = columns_at(self._database, self._found.number, last_snapshot(self._database))
            begin = next_column(self._database, self._found.number)
        numbered = NumberedColumns(known, begin)
        fields = numbered.add(schema)
        return numbered.columns, fields

    @override
    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        self._form.commit([TableCommit(self, added, landed, removed, has_same_rows)])

    @override
    def commit_deleting(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str], deleted: Mapping[str, Positions]
    ) -> None:
        self._form.commit([TableCommit(self, added, landed, removed, deleted=deleted)])

    def prepared(self, commit: TableCommit) -> _Prepared:
        """Return a commit, but for making it: its delete files are written, and all is on the disk.

        Raises:
            LakeError: it cannot be prepared.
        """
        assert commit.landed.schema is not None
        columns, _ = self._numbered(commit.landed.schema)
        numbers = {column.name: column.number for column in columns if column.parent is None and not column.is_nested}
        with errors_at(self.place):
            added = [_new_file(file, numbers, self.locate(file.path)) for file in commit.added]
            deletes = {path: self._deleting(path, gone, commit.landed) for path, gone in commit.deleted.items()}
            sync_folder(self.place)
        return _Prepared(
            self, commit.landed, commit.removed, added, commit.added, deletes, columns, commit.has_same_rows
        )

    def _deleting(self, path: str, positions: Positions, landed: Landed) -> NewDeletes:
        """Write the delete file of a file's rows, those that were deleted before included."""
        placed = self._placed().get(path)
        if placed is None:
            raise self._conflict("files of the table were rewritten meanwhile")
        before = placed.file.deleted
        every = positions if before is None else united(before.positions(), positions)
        name = f"part-{landed.commit_lsn:016X}-{uuid.uuid4().hex}-deletes.parquet"
        size = write_deletes(self.locate(name), self.locate(path), every)
        footer = footer_size(self.locate(name), size)
        return NewDeletes(placed.number, placed.deletes, name, len(every), size, footer)

    def write(self, snapshot: NextSnapshot, own: _Prepared) -> _Made:
        """Write a commit into a snapshot; gives what the table is then.

        Raises:
            LakeConflictError: somebody else has written to the table.
        """
        assert own.landed.schema is not None
        placed = self._placed() if own.removed or own.deletes else self._files
        self._require_unchanged(own, placed or {})
        entry = self._found or create_table(snapshot, self._form.data_path, *self.names, f"{self.place}/")
        change_columns(snapshot, entry, own.columns)
        gone = [(placed or {})[path].number for path in own.removed]
        if own.merges:
            numbers = [merge_files(snapshot, entry, own.columns, own.added[0], gone)]
        else:
            end_files(snapshot, entry, gone)
            numbers = add_files(snapshot, entry, own.columns, own.added)
        deletes = dict(zip(own.deletes, add_deletes(snapshot, entry, list(own.deletes.values())), strict=True))
        _note_changes(snapshot, entry.number, own)
        marks = _marks(own.landed.schema, own.columns)
        settings = {SOURCE: own.landed.source, COMMIT_LSN: str(Lsn(own.landed.commit_lsn))}
        note_settings(snapshot, entry, {**settings, COLUMNS: marks, SNAPSHOT: str(snapshot.number)})
        after = None if placed is None and self._found is not None else self._after(placed or {}, own, numbers, deletes)
        return _Made(entry, snapshot.number, own.landed, after)

    def _after(
        self, placed: Mapping[str, _Placed], own: _Prepared, numbers: Sequence[int], deletes: Mapping[str, int]
    ) -> dict[str, _Placed]:
        """Return the table's files after a commit."""
        after = {path: file for path, file in placed.items() if path not in own.removed}
        after |= {file.path: _Placed(number, None, file) for file, number in zip(own.files, numbers, strict=True)}
        for path, coming in own.deletes.items():
            gone = PlacedDeletes(self.locate(coming.path), coming.rows)
            after[path] = _Placed(placed[path].number, deletes[path], replace(placed[path].file, deleted=gone))
        return after

    def _require_unchanged(self, own: _Prepared, placed: Mapping[str, _Placed]) -> None:
        """See that the table is as it is known, as far as the commit needs that.

        Raises:
            LakeConflictError: it is not.
        """
        assert own.landed.schema is not None
        database = self._database
        there = find_table(database, self._form.data_path, *self.names)
        if there != self._found:
            raise self._conflict("the table was made, or dropped, meanwhile")
        if there is None:
            return
        known = settings_of(database, there.number).get(COMMIT_LSN)
        if known != str(Lsn(self._landed.commit_lsn)):
            raise self._conflict(f"the table has come to {known} meanwhile")
        if self._numbered(own.landed.schema)[0] != own.columns:
            raise self._conflict("the table has got other columns meanwhile")
        current = current_files(database, there.number) if own.removed or own.deletes else {}
        for path in [*own.removed, *own.deletes]:
            if path not in placed or current.get(placed[path].number, -1) != placed[path].deletes:
                raise self._conflict("files of the table were rewritten meanwhile")

    def _conflict(self, reason: str) -> LakeConflictError:
        return _TableConflictError(
            f"the commit was refused: {reason}",
            file=str(self.place),
            hint="only one land may write to a table; end the other one, and begin again",
        )

    def follow(self, made: _Made) -> None:
        """Take the table as it is after a commit."""
        self._found, self._landed, self._files = made.entry, made.landed, made.files
        self._version = self._snapshot = made.snapshot


def _note_changes(snapshot: NextSnapshot, table: int, own: _Prepared) -> None:
    """Say in a snapshot what is done to a table."""
    if own.has_same_rows:
        snapshot.changes.append(f"{'merge_adjacent' if own.merges else 'compacted_table'}:{table}")
        return
    if own.added or not (own.removed or own.deletes):
        snapshot.changes.append(f"inserted_into_table:{table}")
    if own.removed or own.deletes:
        snapshot.changes.append(f"deleted_from_table:{table}")


def _new_file(file: DataFile, numbers: Mapping[str, int], place: str) -> NewFile:
    """Return a file that tasks have written, for the catalog."""
    seen = {
        numbers[name]: ColumnSeen(nulls, file.lower.get(name), file.upper.get(name))
        for name, nulls in file.nulls.items()
        if name in numbers
    }
    return NewFile(file.path, file.rows, file.size, footer_size(place, file.size), seen)


def _marks(schema: pa.Schema, columns: Sequence[Column]) -> str:
    """Return what says whose columns are, by their numbers, as JSON."""
    numbers = {column.name: column.number for column in columns if column.parent is None}
    marks = {own.name: (own.metadata or {}).get(COLUMN_MARK) for own in schema}
    return json.dumps({str(numbers[name]): mark.decode() for name, mark in marks.items() if mark is not None})


def _schema(form: DuckLakeFormat, table: FoundTable, snapshot: int) -> pa.Schema:
    """Return the columns of a table, which say whose they are."""
    columns = columns_at(form.database, table.number, snapshot)
    try:
        marks = json.loads(settings_of(form.database, table.number).get(COLUMNS, "{}"))
    except ValueError as error:
        raise LakeError(f"what is noted of the table's columns is damaged: {error}", file=table.directory) from None
    fields = []
    for column in (own for own in columns if own.parent is None):
        mark: Any = {COLUMN_MARK: marks[str(column.number)].encode()} if str(column.number) in marks else None
        fields.append(pa.field(column.name, arrow_type(column, columns), metadata=mark))
    return pa.schema(fields)


def _partial(row: FileRow, table: FoundTable, snapshot: int) -> FileRow:
    """Return a file with the rows that it has in a snapshot."""
    if row.partial_max is None or row.partial_max <= snapshot:
        return row
    return replace(row, rows=rows_until(os.path.join(table.directory, row.path), snapshot))


def _shown(row: FileRow, columns: Sequence[Column], snapshot: int) -> DataFile:
    """Return a file as others know it, as of a snapshot."""
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in columns:
        if column.number in row.bounds and column.parent is None:
            count, least, most = row.bounds[column.number]
            type = arrow_type(column, columns)
            bounds = read_bound(least, type), read_bound(most, type)
            if None not in bounds:
                lower[column.name], upper[column.name] = bounds
            nulls |= {} if count is None else {column.name: count}
    deleted = None
    if row.deletes is not None:
        is_partial = row.deletes.partial_max is not None and row.deletes.partial_max > snapshot
        deleted = PlacedDeletes(row.deletes.path, row.deletes.count, snapshot if is_partial else None)
        if is_partial:
            deleted = replace(deleted, count=len(deleted.positions()))
    return DataFile(row.path, row.rows, row.size, lower, upper, nulls, deleted)
