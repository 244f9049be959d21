"""An Iceberg table (format 2 or 3), written without a JVM: files of tasks, and a snapshot for each commit.

::

    orders/data/part-….parquet     rows, written by tasks, with the ids of fields
    orders/metadata/…              Iceberg's: columns, snapshots, which files are theirs

What a commit does is one replacement of the table's metadata: new columns, wider ones, the files that come and go, and
how far the table has come. The last is in the properties of the snapshot, so that it goes back with a table that is
rolled back; and in a property of the table, for when the snapshots that had it were expired and what is left is another
program's. Before each commit Iceberg compares what was known of the table with what it is, and nothing is tried again
beside another writer: whoever was second is told.

Files are taken away, and rows of them deleted beside them, by a snapshot of ``overwrite`` that names the files and the
delete files (:mod:`headwater.lakes.deletes.iceberg_snapshots`). Statistics of files are those that tasks have found, so
that no footer is read again.

A table that is partitioned has its files side by side all the same: manifests say which partition a file is of.
Which format a new table has, the property ``format-version`` says; one of format 2 becomes one of format 3 by it, with
its next commit. What pyiceberg does not write of format 3 is written here (:mod:`headwater.lakes.iceberg`).

Known gaps: in format 3, rows of files that are rewritten have new numbers.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.types import BooleanType, IntegerType, LongType, PrimitiveType
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from headwater.base.overrides import override
from headwater.errors import LakeError, LakeNameError
from headwater.lakes.catalogs.commits import patiently
from headwater.lakes.catalogs.prepared_commit import PreparedCommit
from headwater.lakes.catalogs.table_places import place_of_table
from headwater.lakes.deletes.deleted_rows import Positions
from headwater.lakes.deletes.iceberg_snapshots import ChangedFiles, NumberedFiles
from headwater.lakes.deletes.placed_files import placed_files
from headwater.lakes.deletes.position_deletes import PlacedFile, local_path
from headwater.lakes.deletes.puffin_vectors import with_vectors
from headwater.lakes.iceberg.format_version import (
    FORMAT_VERSION,
    THIRD,
    begin_in_third,
    require_deletes,
    require_plain,
    upgrade,
    wanted_version,
)
from headwater.lakes.iceberg_catalog import CATALOG_FILE, commit_together, iceberg_errors, open_catalog
from headwater.lakes.iceberg_schema import COLUMNS, arrow_schema, marks_text, read_marks, without_marks
from headwater.lakes.lake_table import (
    DataFile,
    Expired,
    LakeFormat,
    LakeTable,
    Landed,
    TableCommit,
    TableSize,
    remove_files,
    require_source,
)
from headwater.lakes.layout.iceberg_layouts import lay_out, partition_of, partition_spec, placed, sort_order, with_ids
from headwater.lakes.stores.places import StorePath, Where, folder_at, make_folder, sync_folder
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update.snapshot import _SnapshotProducer

SOURCE = "headwater.source"
COMMIT_LSN = "headwater.commit-lsn"
FIRST_COMMIT_LSN = "headwater.first-commit-lsn"
_BOUND_CHARACTERS = 16
"""Of a text that is a bound in a manifest, as Iceberg's metrics mode truncate(16) has it."""

_PROPERTIES = {"commit.manifest-merge.enabled": "true"}


class IcebergFormat(LakeFormat[Where]):
    """Iceberg tables of a target, in one catalog.

    Args:
        place: the target's directory.
        catalog: a name in pyiceberg's configuration; None for a catalog in the directory.
        namespace: of all tables; None for the schemas of the source's.
        deletes_beside, places_itself: see :class:`IcebergLakeTable`.

    Raises:
        LakeError: the catalog cannot be opened.
    """

    stages_ahead = False
    """The ids of columns are those of the transaction that the next commit is made of."""

    def __init__(
        self,
        place: Where,
        catalog: str | None = None,
        namespace: str | None = None,
        *,
        deletes_beside: bool = False,
        places_itself: bool = False,
    ) -> None:
        self._place, self._namespace, self._has_own = place.absolute(), namespace, catalog is None
        self._ways = {"deletes_beside": deletes_beside, "places_itself": places_itself}
        self.catalog = open_catalog(self._place, catalog)

    def table(self, place: Where, source: str, name: str) -> IcebergLakeTable:
        identifier = self.identifier(name)
        with iceberg_errors(place):
            patiently(lambda: self.catalog.create_namespace_if_not_exists(identifier[:-1]))
        return IcebergLakeTable(self.catalog, identifier, place.absolute(), source, **self._ways)

    def identifier(self, name: str) -> tuple[str, ...]:
        """See :class:`LakeFormat`: in the catalog."""
        if self._has_own and (name == CATALOG_FILE or name.startswith(f"{CATALOG_FILE}-")):
            raise _catalog_lies_there(name, self._place)
        namespace, _, table = name.partition(".")
        if self._namespace is None:
            return namespace, table
        return *self._namespace.split("."), name.replace(".", "_")

    def expire(self, place: Where, name: str, kept_versions: Container[int], older_than: datetime) -> Expired:
        """See :class:`LakeFormat`: snapshots, and then all files of the table that none of the others has."""
        with iceberg_errors(place):
            table, before = self.catalog.load_table(self.identifier(name)), older_than.timestamp()
            old = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.timestamp_ms < before * 1000]
            heads = {ref.snapshot_id for ref in table.refs().values()}
            gone = [number for number in old if number not in heads and number not in kept_versions]
            if gone:
                table.maintenance.expire_snapshots().by_ids(gone).commit()
            used, home = set(reachable(table.refresh(), before)), self._home(table, place)
            if isinstance(home, StorePath):
                return _removed(home, used, before)
            there = (path for part in ("data", "metadata") for path in (home.absolute() / part).glob("*"))
            return remove_files((path for path in there if str(path) not in used), before)

    def size(self, place: Where, name: str, version: int) -> TableSize:
        with iceberg_errors(place):
            table = self.catalog.load_table(self.identifier(name))
            snapshot = table.snapshot_by_id(version)
            if snapshot is None:
                raise LakeError(f"snapshot {version} has expired", file=str(place))
            if int(_properties(snapshot).get("total-delete-files", "0")):
                files = placed_files(table, str(self._home(table, place) / "data"), version)
                return TableSize.of(_shown(path, file, table.schema()) for path, file in files.items())
        return _size_of(snapshot)

    @override
    def schema(self, place: Where, name: str, version: int) -> pa.Schema | None:
        """See :class:`LakeFormat`: those that it has now."""
        with iceberg_errors(place):
            return _schema(self.catalog.load_table(self.identifier(name)))

    def commit(self, commits: Sequence[TableCommit]) -> None:
        """See :class:`LakeFormat`: together."""
        prepared = []
        for commit in commits:
            assert isinstance(commit.table, IcebergLakeTable)
            prepared.append(commit.table.prepared(commit.added, commit.landed, commit.removed, commit.deleted))
        commit_together(self.catalog, prepared, self._place)
        for commit in commits:
            assert isinstance(commit.table, IcebergLakeTable)
            commit.table.follow(commit.added, commit.landed, commit.removed)

    def close(self) -> None:
        self.catalog.close()

    def _home(self, table: Table, place: Where) -> Where:
        return _place_of(table, place) if self._ways["places_itself"] else place


def _place_of(table: Table, target: Where) -> Where:
    return place_of_table(table.location(), table.io.properties, target)


def _removed(place: StorePath, used: Container[str], older_than: float) -> Expired:
    """Remove files of a table in a store that it does not use, and that are older than a time."""
    removed = Expired(0, 0)
    place.store.guard()
    for part in ("data", "metadata"):
        for key, size, time in list(place.store.listed(f"{place.key}/{part}/")):
            if time < older_than and local_path(place.store.address(key)) not in used:
                place.store.remove(key)
                removed = Expired(removed.files + 1, removed.bytes + size)
    return removed


def _catalog_lies_there(name: str, place: Where) -> LakeError:
    """Return the error of a table whose directory would be called as the catalog's file, or what SQLite adds to it."""
    return LakeNameError(
        f'the directory of table "{name}" would be called as a file of the catalog is',
        file=str(place),
        hint="leave it out (--exclude), or take a catalog of pyiceberg's configuration (--iceberg-catalog)",
    )


class IcebergLakeTable(LakeTable):
    """A table of a catalog, whose files lie in a directory.

    Args:
        catalog: its catalog; identifier: its name there.
        place: the directory, which is made.
        source: what its rows must be of.
        deletes_beside: commits delete rows beside files.
        places_itself: the catalog says where the files lie. The table is made there without rows, before any is
            written: another question could have another answer.

    Raises:
        LakeError: it cannot be read, or is another's; or has a format that rows are not deleted in.
    """

    def __init__(
        self,
        catalog: Catalog,
        identifier: tuple[str, ...],
        place: Where,
        source: str,
        *,
        deletes_beside: bool = False,
        places_itself: bool = False,
    ) -> None:
        self.place, self._catalog, self._identifier, self._source = place, catalog, identifier, source
        self._deletes_beside, self._places_itself = deletes_beside, places_itself
        self._next: tuple[pa.Schema, Transaction] | None = None
        self._found: dict[str, PlacedFile] | None = None
        self._changed: dict[str, PlacedFile] = {}
        with iceberg_errors(place):
            self._table = catalog.load_table(identifier) if catalog.table_exists(identifier) else None
            self._landed = self._read()
            self._find_home()
        if self._table is not None:
            require_plain(self._table, place)
            if deletes_beside:
                require_deletes(self._table, place)

    @property
    def version(self) -> int:
        """The id of the snapshot; see :class:`LakeTable`."""
        snapshot = None if self._table is None else self._table.current_snapshot()
        return -1 if snapshot is None else snapshot.snapshot_id

    @property
    def staging(self) -> str:
        """The directory of data; see :class:`LakeTable`: files that no snapshot names are none of the table's."""
        return folder_at(self.place / "data")

    @property
    def files(self) -> Mapping[str, DataFile]:
        schema = None if self._table is None else self._table.schema()
        return {path: self._shown(path, file, schema) for path, file in self._files().items() if schema is not None}

    def _shown(self, path: str, placed: PlacedFile, fields: Schema) -> DataFile:
        """Return a file as others know it, with its partition if it has one."""
        file, own = _shown(path, placed, fields), placed.file
        if self._table is None or not len(own.partition):
            return file
        return replace(file, partition=partition_of(own.spec_id, own.partition, self._table.metadata))

    @property
    def size(self) -> TableSize:
        """The size that the snapshot tells; see :class:`LakeTable`: files are not listed for it."""
        snapshot = None if self._table is None else self._table.current_snapshot()
        return TableSize(0, 0, 0) if snapshot is None else _size_of(snapshot)

    @property
    def deletes_beside(self) -> bool:
        return self._deletes_beside

    def locate(self, path: str) -> str:
        return os.path.join(self.staging, path)

    def _find_home(self) -> None:
        """Find where the files lie, with the credentials that came with the table as it is known now."""
        if self._places_itself and self._table is not None:
            self.place = _place_of(self._table, self.place)
        if self._table is not None or not self._places_itself:
            make_folder(self.place / "data")

    def _files(self) -> dict[str, PlacedFile]:
        """Return the files of the table, by their paths below ``staging``, or their whole ones."""
        if self._found is None:
            with iceberg_errors(self.place):
                self._found = {} if self._table is None else placed_files(self._table, self.staging)
        return self._found

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """See :class:`LakeTable`: with the ids that fields will have when the next commit is made."""
        with iceberg_errors(self.place):
            if self._table is not None:
                self._require_unchanged(self._table.refresh())
                self._find_home()
            fields = self._transaction(schema, anew=True).table_metadata.schema()
            arrow = arrow_schema(fields, read_marks(marks_text(schema, fields)))
        return pa.schema([arrow.field(field.name) for field in schema])

    def _require_unchanged(self, table: Table) -> None:
        """See that nobody has landed the same meanwhile; other programs may have rewritten files."""
        self._found = None
        known, _ = _position(table)
        if known != self._landed.commit_lsn:
            raise CommitFailedException(
                f"the table has come to {Lsn(max(known, 0))} meanwhile, it was at {Lsn(self._landed.commit_lsn)}"
            )

    def _transaction(self, schema: pa.Schema, *, anew: bool = False) -> Transaction:
        """Return the next commit, begun with the columns that the table will have."""
        if self._next is None or anew or not self._next[0].equals(schema):
            self._next = schema, self._begun(without_marks(schema))
        return self._next[1]

    def _begun(self, schema: pa.Schema) -> Transaction:
        if self._table is None and self._places_itself:
            self._table = self._made(schema)
            self._find_home()
        if self._table is None:
            place, create, properties = str(self.place), self._catalog.create_table_transaction, self._made_with()
            form = self._form(schema)
            begun = patiently(lambda: create(self._identifier, **form, location=place, properties=properties))
            self._require_here(begun._table)
            begin_in_third(begun)
            return begun
        transaction = self._table.transaction()
        if wanted_version(self.properties, self._table.metadata) == THIRD:
            upgrade(transaction)
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        lay_out(transaction, self.layout, is_new=self.is_laid_out_anew)
        return transaction

    def _form(self, schema: pa.Schema) -> dict[str, Any]:
        """Return the arguments that say of what form a table is made."""
        if not self.layout:
            return {"schema": schema}
        version = cast("Literal[2, 3]", wanted_version(self.properties, None))
        columns = with_ids(self._catalog._convert_schema_if_needed(schema, version))
        return {
            "schema": columns,
            "partition_spec": partition_spec(self.layout, columns),
            "sort_order": sort_order(self.layout, columns),
        }

    def _made(self, schema: pa.Schema) -> Table:
        """Have the catalog make the table where it wants it to be, without rows; an answer may have been lost."""
        make, properties = self._catalog.create_table_if_not_exists, {**self._made_with(), SOURCE: self._source}
        form = self._form(schema)
        return patiently(lambda: make(self._identifier, **form, properties=properties))

    def _made_with(self) -> dict[str, str]:
        """Return the properties that a new table is made with."""
        return {**_PROPERTIES, FORMAT_VERSION: str(wanted_version(self.properties, None))}

    def _require_here(self, table: Table) -> None:
        if local_path(table.location()) != str(self.place) != table.location():
            raise LakeError(
                f"the table {'.'.join(self._identifier)} lies in {table.location()}",
                file=str(self.place),
                hint="land to where it lies, or to another namespace; or with --table-location catalog",
            )

    @override
    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        self.commit_deleting(added, landed, removed, {})

    @override
    def commit_deleting(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str], deleted: Mapping[str, Positions]
    ) -> None:
        commit_together(self._catalog, [self.prepared(added, landed, removed, deleted)], self.place)
        self.follow(added, landed, removed)

    def prepared(
        self, added: Sequence[DataFile], landed: Landed, removed: Sequence[str], deleted: Mapping[str, Positions]
    ) -> PreparedCommit:
        """Return a commit, but for making it.

        Args:
            added, landed, removed, deleted: see :meth:`commit_deleting`.

        Raises:
            LakeError: it cannot be prepared.
        """
        assert landed.schema is not None
        with iceberg_errors(self.place):
            gone = [self._files()[path] for path in [*removed, *deleted]]
            transaction = self._transaction(landed.schema)
            metadata = transaction.table_metadata
            fields, is_third = metadata.schema(), metadata.format_version == THIRD
            self._changed = self._deleting(deleted, landed, as_vectors=is_third)
            sync_folder(self.place / "data")
            transaction.set_properties(
                {
                    **{name: value for name, value in self.properties.items() if name != FORMAT_VERSION},
                    SOURCE: landed.source,
                    COMMIT_LSN: str(Lsn(landed.commit_lsn)),
                    COLUMNS: marks_text(landed.schema, fields),
                }
            )
            metadata = transaction.table_metadata
            coming = [_iceberg_file(f"{self.staging}/{file.path}", file, metadata) for file in added]
            coming += [deletes for file in self._changed.values() for deletes in file.own]
            going = [file.file for file in gone[: len(removed)]] + [deletes for file in gone for deletes in file.own]
            summary = _summary(added, landed)
            with _snapshot(transaction, summary, is_third=is_third, only_adds=not (going or self._changed)) as snapshot:
                for file in coming:
                    snapshot.append_data_file(file)
                for file in going:
                    snapshot.delete_data_file(file)
            return PreparedCommit.of(transaction)

    def _deleting(self, deleted: Mapping[str, Positions], landed: Landed, *, as_vectors: bool) -> dict[str, PlacedFile]:
        """Write the delete files of a commit; gives the files that they are of, as they are then."""
        name = f"part-{landed.commit_lsn:016X}"
        if as_vectors:
            return with_vectors(self.staging, name, self._files(), deleted)
        return {
            path: self._files()[path].deleting(self.staging, name, positions) for path, positions in deleted.items()
        }

    def follow(self, added: Sequence[DataFile], landed: Landed, removed: Sequence[str]) -> None:
        """Take the table as it is after a commit; see :meth:`commit`."""
        with iceberg_errors(self.place):
            table = self._catalog.load_table(self._identifier)
        if self._found is not None:
            gone = set(removed)
            self._found = {path: file for path, file in self._found.items() if path not in gone}
            coming = {file.path: _iceberg_file(f"{self.staging}/{file.path}", file, table.metadata) for file in added}
            self._found |= {path: PlacedFile(file) for path, file in coming.items()} | self._changed
        self._table, self._landed, self._next = table, landed, None
        self._find_home()

    def _read(self) -> Landed:
        table = self._table
        if table is None:
            return Landed(-1, None, self._source)
        if not self._places_itself:
            self._require_here(table)
        commit_lsn, source = _position(table)
        if self._places_itself and table.current_snapshot() is None:
            require_source(table.properties.get(SOURCE, ""), self._source, self.place)
            return Landed(-1, None, self._source)
        require_source(source, self._source, self.place)
        return Landed(commit_lsn, _schema(table), self._source)


def _snapshot(
    transaction: Transaction, summary: dict[str, str], *, is_third: bool, only_adds: bool
) -> _SnapshotProducer[Any]:
    """Return the snapshot that a commit is to make.

    Args:
        transaction: whose it is; summary: its properties.
        is_third: the table is of format 3; only_adds: files of rows come, and nothing else happens.
    """
    if is_third:
        return NumberedFiles(transaction, summary)
    return transaction.update_snapshot(summary).merge_append() if only_adds else ChangedFiles(transaction, summary)


def _schema(table: Table) -> pa.Schema:
    return arrow_schema(table.schema(), read_marks(table.properties.get(COLUMNS, "{}")))


def _position(table: Table) -> tuple[int, str]:
    """Tell how far a table has come, and of what its rows are.

    Raises:
        LakeError: it does not say so.
    """
    marked = (snapshot for snapshot in history(table) if COMMIT_LSN in _properties(snapshot))
    properties: Mapping[str, str] = next((_properties(snapshot) for snapshot in marked), table.properties)
    if COMMIT_LSN not in properties:
        return -1, ""
    return Lsn.parse(properties[COMMIT_LSN]), properties.get(SOURCE, "")


def history(table: Table) -> Iterator[Snapshot]:
    """Yield the snapshots that have led to what a table is, from the last one back to where they were expired."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def reachable(table: Table, since: float) -> Iterator[str]:
    """Yield the paths of all files that a table's snapshots have, and of its metadata.

    Args:
        table: it.
        since: seconds since 1970; metadata files that were replaced before are left out.
    """
    yield local_path(table.metadata_location)
    log = table.metadata.metadata_log
    yield from (local_path(entry.metadata_file) for entry in log if entry.timestamp_ms >= since * 1000)
    manifests: dict[str, ManifestFile] = {}
    for snapshot in table.snapshots():
        yield local_path(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        yield local_path(path)
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        yield from (
            local_path(entry.data_file.file_path) for entry in entries if entry.status != ManifestEntryStatus.DELETED
        )


def _size_of(snapshot: Snapshot) -> TableSize:
    totals = _properties(snapshot)
    return TableSize(*(int(totals[f"total-{what}"]) for what in ("records", "data-files", "files-size")))


def _properties(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _summary(added: Sequence[DataFile], landed: Landed) -> dict[str, str]:
    """Return properties of a snapshot."""
    summary = {SOURCE: landed.source, COMMIT_LSN: str(Lsn(landed.commit_lsn))}
    first = [file.lower["_commit_lsn"] for file in added if "_commit_lsn" in file.lower]
    return summary | ({FIRST_COMMIT_LSN: str(Lsn(min(first)))} if first else {})


def _iceberg_file(place: str, file: DataFile, metadata: TableMetadata) -> IcebergFile:
    """Return a file as manifests have it."""
    fields = metadata.schema()
    spec_id, values = placed(file.partition, metadata)
    ids = {field.name: field.field_id for field in fields.fields if field.field_type.is_primitive}
    made = IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=place,
        file_format=FileFormat.PARQUET,
        partition=values,
        record_count=file.rows,
        file_size_in_bytes=file.size,
        value_counts={ids[name]: file.rows for name in file.nulls if name in ids},
        null_value_counts={ids[name]: nulls for name, nulls in file.nulls.items() if name in ids},
        lower_bounds=_bounds(file.lower, fields, up=False),
        upper_bounds=_bounds(file.upper, fields, up=True),
    )
    made.spec_id = spec_id
    return made


def _bounds(values: Mapping[str, Any], fields: Schema, *, up: bool) -> dict[int, bytes]:
    """Return bounds of columns as Iceberg has them, texts cut off, an upper one made greater by that."""
    types = {field.name: (field.field_id, field.field_type) for field in fields.fields}
    bounds = {}
    for name, value in values.items():
        id, type = types[name]
        bound = _cut(value, up=up)
        if bound is not None and isinstance(type, PrimitiveType):
            bounds[id] = to_bytes(type, bound)
    return bounds


def _cut(value: Any, *, up: bool) -> Any:
    if not isinstance(value, str) or len(value) <= _BOUND_CHARACTERS:
        return value
    return truncate_upper_bound_text_string(value, _BOUND_CHARACTERS) if up else value[:_BOUND_CHARACTERS]


def _shown(path: str, placed: PlacedFile, fields: Schema) -> DataFile:
    """Return a file as others know it."""
    file = placed.file
    names = {field.field_id: field.name for field in fields.fields}
    nulls = {names[id]: count for id, count in (file.null_value_counts or {}).items() if id in names}
    lower, upper = (_values(bounds or {}, fields) for bounds in (file.lower_bounds, file.upper_bounds))
    return DataFile(path, file.record_count, file.file_size_in_bytes, lower, upper, nulls, placed.deleted)


def _values(bounds: Mapping[int, bytes], fields: Schema) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields.fields:
        if field.field_id in bounds and isinstance(field.field_type, PrimitiveType):
            value = _value(from_bytes(field.field_type, bounds[field.field_id]), field.field_type)
            values |= {} if value is None else {field.name: value}
    return values


def _value(value: Any, type: PrimitiveType) -> Any:
    """Return a bound as Python has it; None for a day that it has not."""
    if not isinstance(value, int) or isinstance(type, IntegerType | LongType | BooleanType):
        return value
    arrow = cast("pa.DataType", schema_to_pyarrow(type))
    stored = pa.int32() if pa.types.is_date32(arrow) else pa.int64()
    try:
        return pa.scalar(value, stored).cast(arrow).as_py()
    except (ValueError, OverflowError):
        return None
