"""A table of a catalog that Spark knows, written by the connector's own writers (``--catalog-impl spark``).

::

    tasks   ->  files of rows in the target's directory, which driver and executors share  (_headwater/staged/NAME)
    commit  ->  Spark reads these and appends them to the table, wherever that is; with it, how far the table has come

So rows are written twice, the second time by Java. That buys any catalog and store that Spark is configured for. Of a
mirror, rows that changes concern are taken out first, and merged in again (:mod:`headwater.lakes.spark_merge`). Which
column of the source is which, a property of the table says; it is set before columns are added, with the LSN of the
rows that they are added for: a run that is killed in between finds them again, and no column that has no values yet.

Exactly once: a table's own word is asked before a commit and after it. Delta itself refuses one of two that commit at
once. Iceberg takes both; whoever was second finds that, and says so.

Known gaps: files of a version (compaction and expiry are the catalog's own).
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.base.overrides import override
from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.lake_schema import COLUMN_MARK
from headwater.lakes.lake_table import (
    DataFile,
    Expired,
    LakeFormat,
    LakeTable,
    Landed,
    Sought,
    TableSize,
    require_source,
)
from headwater.lakes.spark_catalog import (
    COLUMNS,
    COMING,
    CONNECTORS,
    SOURCE,
    Connector,
    arrow_type,
    columns_sql,
    literal,
    quoted,
    spark_errors,
)
from headwater.lakes.spark_merge import Taken, merge, replace, take
from headwater.pg.lsn import Lsn
from headwater.spark.session import spark_session

_NEVER = (1 << 63) - 1
"""Behind any LSN."""


class SparkFormat(LakeFormat[Path]):
    """Tables of one of Spark's catalogs.

    Args:
        place: the target's directory.
        format: ``delta`` or ``iceberg``.
        namespace: the catalog's name in Spark's configuration, and after it the namespace of all tables; that alone:
            the namespace of a table is its schema.

    Raises:
        LakeError: Spark has no such catalog, or not what it needs for it.
    """

    stages_ahead = False
    """Commits are Spark's own jobs, which would only take turns with those that stage."""

    def __init__(self, place: Path, format: str, namespace: str) -> None:
        self._place = place
        self._catalog, *self._namespace = namespace.split(".")
        with spark_errors(place):
            self._connector = CONNECTORS[format](spark_session())
        try:
            with spark_errors(place):
                self._connector.spark.sql(f"SHOW NAMESPACES IN {quoted(self._catalog)}").head()
        except LakeError as error:
            raise LakeError(
                f"catalog {self._catalog}: {error.message}",
                hint=f"Spark's configuration names catalogs (spark.sql.catalog.{self._catalog}), and a connector's jar",
            ) from None

    def table(self, place: Path, source: str, name: str) -> LakeTable:
        *namespace, _ = identifier = self.identifier(name)
        with spark_errors(place):
            self._connector.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(*namespace)}")
        own, directory = self._place / "_headwater", quote(name, safe=" ")
        return SparkTable(
            self._connector, quoted(*identifier), own / "staged" / directory, own / "taken" / directory, source
        )

    def identifier(self, name: str) -> tuple[str, ...]:
        """See :class:`LakeFormat`: in Spark."""
        schema, _, table = name.partition(".")
        if not self._namespace:
            return self._catalog, schema, table
        return self._catalog, *self._namespace, name.replace(".", "_")

    @override
    def expire(self, place: Path, name: str, kept_versions: Container[int], older_than: datetime) -> Expired:
        """See :class:`LakeFormat`: that is the catalog's own.

        Raises:
            LakeError: always.
        """
        raise files_are_sparks(place)

    def size(self, place: Path, name: str, version: int) -> TableSize:
        with spark_errors(place):
            return self._connector.size(quoted(*self.identifier(name)), version)


def files_are_sparks(place: Path) -> LakeError:
    """Return the error of who would rewrite or remove a table's files."""
    return LakeError(
        "the tables are of a catalog of Spark's, whose files are not kept here",
        file=str(place),
        hint="OPTIMIZE and VACUUM (Delta), rewrite_data_files and expire_snapshots (Iceberg) do it in Spark",
    )


class SparkTable(LakeTable):
    """A table of a catalog.

    Args:
        connector: of its format.
        name: as SQL has it.
        staging: a directory, which is made; taken: one for rows of a mirror meanwhile.
        source: what its rows must be of.

    Raises:
        LakeError: it cannot be read, or is another's.
    """

    def __init__(self, connector: Connector, name: str, staging: Path, taken: Path, source: str) -> None:
        self._connector, self._spark, self._name, self._source = connector, connector.spark, name, source
        self._staging, self._taken = staging, Taken(taken)
        self._hidden: set[str] = set()
        with spark_errors(staging):
            staging.mkdir(parents=True, exist_ok=True)
            self._is_there = self._spark.catalog.tableExists(name)
            self._landed = self._read()

    @property
    def version(self) -> int:
        """The version that the connector gives; see :class:`LakeTable`; a table without a commit of rows has none."""
        with spark_errors(self._staging):
            return self._connector.version(self._name) if self._landed.commit_lsn >= 0 else -1

    @property
    def staging(self) -> str:
        return str(self._staging)

    @property
    def files(self) -> Mapping[str, DataFile]:
        """No files: they are the catalog's; see :class:`LakeTable`."""
        return {}

    def locate(self, path: str) -> str:
        """See :class:`LakeTable`: of rows that were taken.

        Raises:
            LakeError: it is none of them.
        """
        self._require_taken([path])
        return str(self._taken.place / path)

    def concerned(self, sought: Sought) -> Mapping[str, DataFile]:
        """See :class:`LakeTable`: rows as they are now, in files for the next commit."""
        self._taken = Taken(self._taken.place)
        if self._landed.commit_lsn >= 0 and (sought.is_all or sought.key):
            assert self._landed.schema is not None
            with spark_errors(self._staging):
                self._spark.catalog.refreshTable(self._name)
                self._require([self._landed.commit_lsn])
                self._taken = take(self._spark, self._name, self._landed.schema, sought, self._taken.place)
        return self._taken.files

    def _require_taken(self, paths: Iterable[str]) -> None:
        if not set(paths) <= set(self._taken.files):
            raise files_are_sparks(self._staging)

    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        self._require_taken(removed)
        if has_same_rows:
            raise files_are_sparks(self._staging)
        assert landed.schema is not None
        with spark_errors(self._staging):
            if self._is_there:
                self._require([self._landed.commit_lsn])
                self._follow(landed.schema, landed.commit_lsn)
            else:
                self._make(landed.schema)
            self._write(added, landed, removed)
            self._require([landed.commit_lsn, self._landed.commit_lsn])
        self._taken.drop()
        self._landed, self._taken = landed, Taken(self._taken.place)
        self._hidden -= set(landed.schema.names)

    def _write(self, added: Sequence[DataFile], landed: Landed, removed: Sequence[str]) -> None:
        """Put files in the place of others, of rows that were taken, and say with that how far the table has come."""
        taken, options, staged = self._taken, self._connector.options(landed), [self._staged(file) for file in added]
        assert landed.schema is not None
        if not removed:
            self._rows(staged, landed.schema).writeTo(self._name).options(**options).append()
        elif taken.key:
            rows, ended = self._rows(staged, landed.schema), self._spark.read.parquet(*taken.paths(removed))
            merge(rows, ended, self._name, taken.key, self._connector.settings(landed))
        else:
            left = taken.paths(name for name in taken.files if name not in removed)
            replace(self._rows([*staged, *left], landed.schema), self._name, options)

    def _staged(self, file: DataFile) -> str:
        return f"file://{self.staging}/{file.path}"

    def _require(self, expected: Sequence[int]) -> None:
        """See that nobody has landed the same meanwhile; Delta passes over rows that it has, without a word."""
        known = islice(self._connector.positions(self._name, self._source), len(expected))
        positions = [*known, -1][: len(expected)]
        if positions[0] != expected[0] or positions[1:] not in ([], [-1], list(expected[1:])):
            raise LakeConflictError(
                f"table {self._name} has come to {_shown(positions)}, it should be at {_shown(expected)}",
                file=str(self._staging),
                hint="only one land may write to a table; end the other one, and begin again",
            )

    def _rows(self, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
        """Return rows of files."""
        columns = cast(StructType, StructType.fromDDL(columns_sql(schema)))
        return self._spark.read.schema(columns).parquet(*paths) if paths else self._spark.createDataFrame([], columns)

    def _make(self, schema: pa.Schema) -> None:
        properties = {SOURCE: self._source, COLUMNS: _marks(schema), **self._connector.needed(schema)}
        self._spark.sql(
            f"CREATE TABLE {self._name} ({columns_sql(schema)}) USING {self._connector.provider} "
            f"TBLPROPERTIES ({_listed(properties)})"
        )
        self._is_there = True

    def _follow(self, schema: pa.Schema, lsn: int) -> None:
        """Let the table's columns follow: wider ones, then what they are, then new ones, for rows of an LSN."""
        there = {field.name: arrow_type(field.dataType) for field in self._columns()}
        for field in schema:
            if there.get(field.name, field.type) != field.type:
                self._connector.widen(self._name, field.name, field.type)
        more = [field for field in schema if field.name not in there]
        assert self._landed.schema is not None
        if more or self._hidden or _marks(schema) != _marks(self._landed.schema):
            properties = {COLUMNS: _marks(schema), COMING: self._coming(schema, lsn), **self._connector.needed(schema)}
            self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({_listed(properties)})")
        if more:
            self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({columns_sql(pa.schema(more))})")

    def _coming(self, schema: pa.Schema, lsn: int) -> str:
        """Return columns that hold nothing before the rows of an LSN; those that an ended run has left never do."""
        assert self._landed.schema is not None
        left = dict.fromkeys(sorted(self._hidden - set(schema.names)), str(Lsn(_NEVER)))
        return json.dumps(
            left | {name: str(Lsn(lsn)) for name in schema.names if name not in self._landed.schema.names}
        )

    def _columns(self) -> StructType:
        self._spark.catalog.refreshTable(self._name)
        return self._spark.table(self._name).schema

    def _read(self) -> Landed:
        if not self._is_there:
            return Landed(-1, None, self._source)
        properties = {row[0]: row[1] for row in self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()}
        require_source(properties.get(SOURCE, ""), self._source, None, f"table {self._name}")
        marks = _read_marks(properties.get(COLUMNS, "{}"))
        last = next(self._connector.positions(self._name, self._source), -1)
        coming = _read_marks(properties.get(COMING, "{}"))
        self._hidden = {name for name, lsn in coming.items() if Lsn.parse(lsn) > last}
        own = [field for field in self._columns() if field.name not in self._hidden]
        fields = [_field(field.name, arrow_type(field.dataType), marks) for field in own]
        return Landed(last, pa.schema(fields), self._source)


def _shown(positions: Sequence[int]) -> str:
    return ", before that ".join(str(Lsn(position)) if position >= 0 else "nothing" for position in positions)


def _listed(properties: Mapping[str, str]) -> str:
    """Return properties as SQL has them."""
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


def _field(name: str, type: pa.DataType, marks: Mapping[str, str]) -> pa.Field[Any]:
    return pa.field(name, type, metadata={COLUMN_MARK: marks[name].encode()} if name in marks else None)


def _marks(schema: pa.Schema) -> str:
    """Tell which columns of the source a table's are, by their names."""
    marks = {field.name: (field.metadata or {}).get(COLUMN_MARK) for field in schema}
    return json.dumps({name: mark.decode() for name, mark in marks.items() if mark is not None})


def _read_marks(text: str) -> dict[str, str]:
    """Return names by names, as properties have them.

    Raises:
        LakeError: something else.
    """
    try:
        return {str(key): str(value) for key, value in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        raise LakeError(f"a property of the table, {COLUMNS} or {COMING}, is damaged: {error}") from None
