"""A Delta table, written without a JVM: files of tasks, and a transaction of Add actions (``deltalake``).

How far the table has come is the version of a transaction identifier (``txn``, PROTOCOL.md) whose application is the
source of its rows: it is in the same commit, and stays when older commits are cleaned up. Delta does not refuse a
version that is recorded already, so it is looked at before each commit; of two that write at once, one is told by Delta
itself. Which columns are which of the source, the metadata of their fields say.

Files with columns that the table does not have would be taken, and the columns not be seen: the table's schema is
changed first, in a commit of its own that changes no row. Where no file stays, columns and files change in one commit.

A column that becomes wider is a new one: Delta has widened columns as a table feature, ``typeWidening``, and of a table
that has it ``deltalake`` (1.6.6) neither reads rows nor takes commits.

Where rows are deleted beside files (``--write-mode merge-on-read``), or a table has deletion vectors from before,
``deltalake`` cannot say so in its actions. Then the commit is written here
(:mod:`headwater.lakes.deletes.delta_log`): columns, files and vectors in one version.

In a store it is the same, but that the answer to a commit may be lost. The library finds its own commit in the log
then, and takes it for another writer's. The table is read again, and has the commit if it has the names of its files.

Known gaps: column mapping.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.overrides import override
from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.deletes.deleted_rows import Positions, united
from headwater.lakes.deletes.deletion_vectors import DeletionVector, write_vectors
from headwater.lakes.deletes.delta_log import (
    CHECKPOINT_EVERY,
    FEATURE,
    NO_TABLE,
    PROPERTY,
    Action,
    Protocol,
    logged_path,
    vectors_in_log,
    write_commit,
)
from headwater.lakes.deletes.unused_vectors import unused_vectors
from headwater.lakes.lake_schema import COLUMN_MARK
from headwater.lakes.lake_table import (
    DataFile,
    Expired,
    LakeFormat,
    LakeTable,
    Landed,
    TableSize,
    errors_at,
    require_no_others,
)
from headwater.lakes.layout.transforms import IDENTITY, PartitionField
from headwater.lakes.stores.delta_places import delta_address, delta_options, has_log, one_line
from headwater.lakes.stores.places import StorePath, Where, folder_at, remove_files_of, size_of, sync_folder
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Field, Schema
    from deltalake.transaction import AddAction, RemoveAction

_MARK = COLUMN_MARK.decode()


class DeltaLakeTable(LakeTable):
    """A table in a directory.

    Args:
        place: the directory, which is made with the first commit.
        source: what its rows must be of.
        name: of the table, in Delta's metadata.
        deletes_beside: commits delete rows beside files.

    Raises:
        LakeError: it cannot be read, or is another's.
    """

    def __init__(self, place: Where, source: str, name: str, *, deletes_beside: bool = False) -> None:
        self.place, self._name, self._source, self._deletes_beside = place, name, source, deletes_beside
        with _told(place):
            self._table = _opened(place)
            self._landed = self._read()
            self._files, self._seen = _files_of(self._table, place), self.version
            if self._table is not None and self._writes_log:
                _protocol(self._table).require_known(place, self._table.metadata().configuration)

    @property
    def version(self) -> int:
        """The version that Delta gives; see :class:`LakeTable`."""
        return -1 if self._table is None else self._table.version()

    @property
    def staging(self) -> str:
        """The table's directory; see :class:`LakeTable`: files that no commit names are none of the table's."""
        return folder_at(self.place)

    @property
    def files(self) -> Mapping[str, DataFile]:
        return self._files

    @property
    def deletes_beside(self) -> bool:
        return self._deletes_beside

    @property
    def _writes_log(self) -> bool:
        """Whether commits are written here: rows are deleted beside files, or may have been."""
        return self._deletes_beside or (
            self._table is not None
            and (_has_vectors(self._table) or self._table.metadata().partition_columns != self._partitioned_by)
        )

    def locate(self, path: str) -> str:
        return f"{self.staging}/{path}"

    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        self._commit(added, landed, removed, {}, has_same_rows=has_same_rows)

    @override
    def commit_deleting(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str], deleted: Mapping[str, Positions]
    ) -> None:
        self._commit(added, landed, removed, deleted, has_same_rows=False)

    def _commit(
        self,
        added: list[DataFile],
        landed: Landed,
        removed: Sequence[str],
        deleted: Mapping[str, Positions],
        *,
        has_same_rows: bool,
    ) -> None:
        from deltalake import Schema

        assert landed.schema is not None
        schema = Schema.from_arrow(landed.schema)
        with _told(self.place):
            sync_folder(self.place)
            files = self._vectored(deleted)
            if self._writes_log:
                self._log(schema, [*added, *files.values()], landed, [*removed, *files], has_same_rows=has_same_rows)
            else:
                with self._answered(added, landed):
                    if self._table is None:
                        self._make(schema, added, landed)
                    else:
                        self._change(self._table, schema, added, landed, removed, has_same_rows=has_same_rows)
            gone = set(removed)
            self._files = {path: file for path, file in self._files.items() if path not in gone}
            self._files |= {file.path: file for file in added} | files
            self._seen = self.version
            self._landed = landed

    @contextmanager
    def _answered(self, added: Sequence[DataFile], landed: Landed) -> Iterator[None]:
        """Let a commit be made whose answer a store has lost: the library finds it, and takes it for another one's."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except DeltaError:
            if isinstance(self.place, Path):
                raise
            self._table = _opened(self.place)
            known = None if self._table is None else self._table.transaction_version(_application(landed.source))
            # No other attempt has these names.
            there = _files_of(self._table, self.place)
            if known != landed.commit_lsn or any(file.path not in there for file in added):
                raise

    def _vectored(self, deleted: Mapping[str, Positions]) -> dict[str, DataFile]:
        """Return files of which rows are deleted, with vectors of all that are."""
        known = {path: self._files[path].deleted for path in deleted}
        rows = {
            path: positions if (before := known[path]) is None else united(before.positions(), positions)
            for path, positions in deleted.items()
        }
        vectors = write_vectors(self.place, rows) if rows else {}
        return {path: replace(self._files[path], deleted=vector) for path, vector in vectors.items()}

    def _log(
        self,
        schema: Schema,
        added: Sequence[DataFile],
        landed: Landed,
        removed: Sequence[str],
        *,
        has_same_rows: bool,
    ) -> None:
        """Write a commit: of columns and all files at once."""
        if self._table is not None:
            self._require_unchanged(self._table)
            self._require_files(self._table, removed)
            self._require_partitions(self._table, is_replaced=self._files.keys() <= set(removed))
        columns, before = self._partitioned_by, [] if self._table is None else self._table.metadata().partition_columns
        version = self.version + 1
        changes_rows = not has_same_rows
        actions = [
            _commit_info(landed),
            *self._defined(schema, is_replaced=self._files.keys() <= set(removed)),
            {"txn": {"appId": _application(landed.source), "version": landed.commit_lsn}},
            *(_remove_action(self._files[path], changes_rows, before) for path in removed),
            *(_add_action(file, changes_rows, columns) for file in added),
        ]
        write_commit(self.place / "_delta_log", version, actions)
        if self._table is None:
            self._table = _opened(self.place)
        else:
            self._table.update_incremental()
        if version and version % CHECKPOINT_EVERY == 0 and self._table is not None:
            self._table.create_checkpoint()
            self._table.cleanup_metadata()

    def _defined(self, schema: Schema, *, is_replaced: bool) -> Iterator[Action]:
        """Yield what a commit says of columns, properties and features, where that is not so yet.

        Args:
            schema: the columns; is_replaced: no file stays that has others.
        """
        table = self._table
        before = NO_TABLE if table is None else _protocol(table)
        wanted = schema if table is None or is_replaced else self._followed(table, schema)
        has_vectors = self._deletes_beside or table is None or _has_vectors(table)
        protocol = before.with_vectors(wanted.to_json()) if has_vectors else before
        if protocol != before:
            yield protocol.action
        metadata = None if table is None else table.metadata()
        configuration = {} if metadata is None else dict(metadata.configuration)
        configuration |= dict(self.properties) | ({PROPERTY: "true"} if self._deletes_beside else {})
        if table is not None and metadata is not None:
            is_same = wanted.to_json() == table.schema().to_json() and configuration == metadata.configuration
            if is_same and (not is_replaced or metadata.partition_columns == self._partitioned_by):
                return
        yield {
            "metaData": {
                "id": str(uuid.uuid4()) if metadata is None else metadata.id,
                "name": self._name if metadata is None else metadata.name,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": wanted.to_json(),
                "partitionColumns": self._partitioned_by
                if metadata is None or is_replaced
                else metadata.partition_columns,
                "configuration": configuration,
                "createdTime": _now() if metadata is None else metadata.created_time,
            }
        }

    def _followed(self, table: DeltaTable, schema: Schema) -> Schema:
        """Return the table's columns, with those that come."""
        from deltalake import Field
        from deltalake import Schema as Columns

        there = {field.name: field for field in table.schema().fields}
        for field in schema.fields:
            before = there.get(field.name, field)
            self._require_type(before, field)
            there[field.name] = Field(
                field.name, before.type, nullable=before.nullable, metadata={**before.metadata, **field.metadata}
            )
        return Columns(list(there.values()))

    def _make(self, schema: Schema, added: Sequence[DataFile], landed: Landed) -> None:
        from deltalake.transaction import create_table_with_add_actions

        columns = self._partitioned_by
        files, properties = [_add(file, columns=columns) for file in added], _properties(landed)
        create_table_with_add_actions(
            delta_address(self.place),
            schema,
            files,
            "error",
            columns,
            name=self._name,
            configuration=dict(self.properties) or None,
            commit_properties=properties,
            storage_options=delta_options(self.place),
        )
        self._table = _opened(self.place)

    def _change(
        self,
        table: DeltaTable,
        schema: Schema,
        added: Sequence[DataFile],
        landed: Landed,
        removed: Sequence[str],
        *,
        has_same_rows: bool,
    ) -> None:
        """Make a commit: of columns and all rows at once where no file stays, else of columns first."""
        self._require_unchanged(table)
        self._require_files(table, removed)
        if self.properties.items() - table.metadata().configuration.items():
            table.alter.set_table_properties(dict(self.properties), raise_if_not_exists=False)
            table.update_incremental()
        columns = self._partitioned_by
        actions: list[AddAction | RemoveAction] = [_add(file, not has_same_rows, columns) for file in added]
        if added and not has_same_rows and self._files.keys() == set(removed) == set(_files_of(table, self.place)):
            # Delta itself removes all files of before, and has the columns that it is given.
            mode = "overwrite"
        else:
            mode = "append"
            self._follow(table, schema)
            actions += [_remove(self._files[path], not has_same_rows, columns) for path in removed]
        table.create_write_transaction(actions, mode, schema, columns, commit_properties=_properties(landed))
        table.update_incremental()

    @property
    def _partitioned_by(self) -> list[str]:
        """Columns that partition the files that come."""
        return [field.column for field in self.layout.partition]

    def _require_partitions(self, table: DeltaTable, *, is_replaced: bool) -> None:
        """See that a table is partitioned as its files are to be.

        Args:
            table: it; is_replaced: no file stays, and commits are written here.

        Raises:
            LakeError: it is not.
        """
        known = table.metadata().partition_columns
        if known != self._partitioned_by and not (is_replaced and self.is_laid_out_anew):
            raise LakeError(
                f"the table is partitioned by {', '.join(known) or 'nothing'}, and its settings say "
                f"{', '.join(self._partitioned_by) or 'nothing'}",
                file=str(self.place),
                hint="partitions of Delta change where no row stays: headwater lake reload --table-settings FILE of a "
                "table of mode current; or land to another place",
            )

    def _require_unchanged(self, table: DeltaTable) -> None:
        """See that nobody has landed the same meanwhile."""
        table.update_incremental()
        known = table.transaction_version(_application(self._source))
        if known is None or known != self._landed.commit_lsn:
            raise LakeConflictError(
                f"the table has come to {Lsn(known or 0)} meanwhile, it was at {Lsn(self._landed.commit_lsn)}",
                file=str(self.place),
                hint="only one land may write to a table; end the other one, and begin again",
            )

    def _require_files(self, table: DeltaTable, removed: Sequence[str]) -> None:
        """See that nobody has rewritten files meanwhile that a commit takes away, or deletes rows of.

        Raises:
            LakeConflictError: somebody has.
        """
        if self.version == self._seen:
            return
        there = _files_of(table, self.place)
        for path in removed:
            if path not in there or there[path].deleted != self._files[path].deleted:
                raise LakeConflictError(
                    f"file {path} was rewritten meanwhile, or rows of it were deleted",
                    file=str(self.place),
                    hint="begin again: the run goes on where the table stands",
                )
        self._files = there

    def _follow(self, table: DeltaTable, schema: Schema) -> None:
        """Let the table's columns follow."""
        there = {field.name: field for field in table.schema().fields}
        for field in schema.fields:
            before = there.get(field.name, field)
            self._require_type(before, field)
            if before.metadata.get(_MARK) != field.metadata.get(_MARK):
                table.alter.set_column_metadata(field.name, {**before.metadata, **field.metadata})
        more = [field for field in schema.fields if field.name not in there]
        if more:
            table.alter.add_columns(more)

    def _require_type(self, before: Field, field: Field) -> None:
        if before.type != field.type:
            raise LakeError(
                f'column "{field.name}" is {before.type} in the table, and would be {field.type}',
                file=str(self.place),
                hint="somebody else has altered the table: land to another place",
            )

    def _read(self) -> Landed:
        if self._table is None:
            return Landed(-1, None, self._source)
        version = self._table.transaction_version(_application(self._source))
        if version is None:
            raise LakeError(
                f"the table has no rows of {self._source}",
                file=str(self.place),
                hint="land another server, or another database, to another place",
            )
        return Landed(version, _schema(self._table), self._source)


class DeltaFormat(LakeFormat[Where]):
    """Delta tables; there is nothing that they share.

    Args:
        deletes_beside: see :class:`DeltaLakeTable`.
    """

    def __init__(self, *, deletes_beside: bool = False) -> None:
        self._deletes_beside = deletes_beside

    def table(self, place: Where, source: str, name: str) -> LakeTable:
        return DeltaLakeTable(place, source, name, deletes_beside=self._deletes_beside)

    @override
    def expire(self, place: Where, name: str, kept_versions: Container[int], older_than: datetime) -> Expired:
        """See :class:`LakeFormat`: by Delta's own vacuum, and files of vectors; its log has rules of its own."""
        from deltalake import DeltaTable

        with _told(place):
            table = DeltaTable(delta_address(place), storage_options=delta_options(place))
            hours = max(math.ceil((datetime.now(UTC) - older_than) / timedelta(hours=1)), 0)
            versions = [at for at in range(table.version() + 1) if at in kept_versions]
            names = table.vacuum(hours, enforce_retention_duration=False, keep_versions=versions or None)
            sizes = [size for file in names if (size := size_of(place / file)) is not None]
            removed = table.vacuum(
                hours, dry_run=False, enforce_retention_duration=False, keep_versions=versions or None
            )
            unused = unused_vectors(place, [*versions, table.version()], older_than)
            vectors = [file for file in unused if file.time < older_than.timestamp()]
            remove_files_of(place, vectors)
            return Expired(len(removed) + len(vectors), sum(sizes) + sum(file.size for file in vectors))

    @override
    def size(self, place: Where, name: str, version: int) -> TableSize:
        from deltalake import DeltaTable

        with _told(place):
            table = DeltaTable(delta_address(place), version=version, storage_options=delta_options(place))
            return TableSize.of(_files_of(table, place).values())

    @override
    def schema(self, place: Where, name: str, version: int) -> pa.Schema | None:
        from deltalake import DeltaTable

        with _told(place):
            return _schema(DeltaTable(delta_address(place), version=version, storage_options=delta_options(place)))


def _opened(place: Where) -> DeltaTable | None:
    from deltalake import DeltaTable

    address = delta_address(place)
    if isinstance(place, StorePath):
        is_there = DeltaTable.is_deltatable(address, storage_options=delta_options(place))
        return DeltaTable(address, storage_options=delta_options(place)) if is_there else None
    if not has_log(place):
        require_no_others(place)
        place.mkdir(parents=True, exist_ok=True)
        return None
    return DeltaTable(address)


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]  # any schema of Arrow's C interface


def _application(source: str) -> str:
    """Return the name in the transaction identifier."""
    return f"headwater {source}"


def _properties(landed: Landed) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={"headwater.commit_lsn": str(Lsn(landed.commit_lsn))},
        app_transactions=[Transaction(_application(landed.source), landed.commit_lsn)],
    )


def _values(file: DataFile, columns: Sequence[str]) -> dict[str, str | None]:
    """Return the values of a file's partition, as the log has them."""
    return dict(zip(columns, file.partition, strict=True))


def _add(file: DataFile, changes_rows: bool = True, columns: Sequence[str] = ()) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size, _values(file, columns), _now(), changes_rows, json.dumps(_statistics(file)))


def _statistics(file: DataFile) -> dict[str, Any]:
    """Return what the log says of a file's rows, those that are deleted beside it included."""
    lower = {name: bound for name, value in file.lower.items() if (bound := _bound(value, up=False)) is not None}
    upper = {name: bound for name, value in file.upper.items() if (bound := _bound(value, up=True)) is not None}
    return {"numRecords": file.rows, "minValues": lower, "maxValues": upper, "nullCount": file.nulls}


def _remove(file: DataFile, changes_rows: bool, columns: Sequence[str]) -> RemoveAction:
    from deltalake.transaction import RemoveAction

    return RemoveAction(file.path, changes_rows, _now(), size=file.size, partition_values=_values(file, columns))


def _now() -> int:
    """Return the time in milliseconds since 1970."""
    return int(time.time() * 1000)


def _commit_info(landed: Landed) -> Action:
    """Return what a commit that is written here says of itself."""
    operation = {"operation": "WRITE", "operationParameters": {"mode": "Append"}, "engineInfo": "headwater"}
    return {"commitInfo": {"timestamp": _now(), **operation, "headwater.commit_lsn": str(Lsn(landed.commit_lsn))}}


def _add_action(file: DataFile, changes_rows: bool, columns: Sequence[str]) -> Action:
    statistics = _statistics(file) | ({} if file.deleted is None else {"tightBounds": False})
    add = {
        "path": logged_path(file.path),
        "partitionValues": _values(file, columns),
        "size": file.size,
        "modificationTime": _now(),
        "dataChange": changes_rows,
        "stats": json.dumps(statistics, separators=(",", ":")),
    }
    return {"add": add | _vector(file)}


def _remove_action(file: DataFile, changes_rows: bool, columns: Sequence[str]) -> Action:
    remove = {
        "path": logged_path(file.path),
        "deletionTimestamp": _now(),
        "dataChange": changes_rows,
        "extendedFileMetadata": True,
        "partitionValues": _values(file, columns),
        "size": file.size,
    }
    return {"remove": remove | _vector(file)}


def _vector(file: DataFile) -> dict[str, Any]:
    """Return the vector that an action says a file has."""
    return {"deletionVector": file.deleted.note} if isinstance(file.deleted, DeletionVector) else {}


def _has_vectors(table: DeltaTable) -> bool:
    """Tell whether files of a table may have deletion vectors."""
    return FEATURE in (table.protocol().reader_features or ())


def _protocol(table: DeltaTable) -> Protocol:
    known = table.protocol()
    return Protocol.of(known.min_reader_version, known.min_writer_version, known.writer_features, known.reader_features)


_LAST_ROUNDED_UP = datetime.max - timedelta(milliseconds=1)


def _bound(value: Any, *, up: bool) -> Any:
    """Return Delta's bound: times in milliseconds, the greatest one rounded up; None for what JSON cannot hold."""
    if isinstance(value, datetime):
        short = value.replace(microsecond=value.microsecond // 1000 * 1000)
        if up and short != value:
            if short > _LAST_ROUNDED_UP.replace(tzinfo=value.tzinfo):
                return None
            short += timedelta(milliseconds=1)
        return short.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str) else None


def _files_of(table: DeltaTable | None, place: Where) -> dict[str, DataFile]:
    """Return the files of a table as of its version, with what the log says of them."""
    if table is None:
        return {}
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    fields = [_schema(table).field(name) for name in table.metadata().partition_columns]
    files = {action["path"]: _file_of(action, pa.schema(fields)) for action in actions}
    if not _has_vectors(table):
        return files
    noted = vectors_in_log(place / "_delta_log", table.version())
    vectors = {path: DeletionVector.named(place, note) for path, note in noted.items() if path in files}
    return files | {path: replace(files[path], deleted=vector) for path, vector in vectors.items()}


def _file_of(action: Mapping[str, Any], partitioned_by: pa.Schema) -> DataFile:
    def having(prefix: str) -> dict[str, Any]:
        return {
            name.removeprefix(prefix): value
            for name, value in action.items()
            if name.startswith(prefix) and value is not None
        }

    rows = action["num_records"] or 0
    path, size = action["path"], action["size_bytes"]
    values = {field.name: action[f"partition.{field.name}"] for field in partitioned_by}
    there = {name: value for name, value in values.items() if value is not None}
    nulls = having("null_count.") | {name: rows if value is None else 0 for name, value in values.items()}
    partition = tuple(
        PartitionField(IDENTITY, field.name).texts(pa.array([values[field.name]], field.type))[0].as_py()
        for field in partitioned_by
    )
    return DataFile(path, rows, size, having("min.") | there, having("max.") | there, nulls, partition=partition)


@contextmanager
def _told(place: Where) -> Iterator[None]:
    """Raise errors of Delta and of the system as ours."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        with errors_at(place), one_line(place):
            yield
    except CommitFailedError as error:
        raise LakeConflictError(
            f"the commit was refused: {error}", file=str(place), hint="only one land may write to a table"
        ) from None
    except DeltaError as error:
        # The library's own calls may follow, line by line.
        raise LakeError(f"Delta: {str(error).partition(chr(10))[0]}", file=str(place)) from None
