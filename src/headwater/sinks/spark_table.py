"""A table of a catalog that Spark knows, written by the connector's own writers (``--catalog-impl spark``).

::

    tasks   ->  files of rows in the target's directory, which driver and executors share  (_headwater/staged/NAME)
    commit  ->  Spark reads these and appends them to the table, wherever that is; with it, how far the table has come

So rows are written twice, the second time by Java. That buys any catalog and store that Spark is configured for.
Which column of the source is which, a property of the table says; it is set before columns are added, so that a run
that is killed in between finds it again.

Exactly once: a table's own word is asked before a commit and behind it. Delta itself refuses one of two that commit at
once. Iceberg takes both; whoever was second finds that, and says so.

Known gaps: mirrors, which would be a MERGE; files of a version (compaction and expiry are the catalog's own).
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.errors import LakeConflictError, LakeError
from headwater.pg.lsn import Lsn
from headwater.pipeline.spark import spark_session
from headwater.sinks.lake_schema import COLUMN_MARK
from headwater.sinks.lake_table import DataFile, Expired, LakeFormat, LakeTable, Landed, TableSize
from headwater.sinks.spark_catalog import (
    COLUMNS,
    CONNECTORS,
    SOURCE,
    Connector,
    arrow_type,
    columns_sql,
    literal,
    quoted,
    spark_errors,
)


class SparkFormat(LakeFormat):
    """Tables of one of Spark's catalogs.

    Args:
        place: the target's directory.
        format: ``delta`` or ``iceberg``.
        namespace: the catalog's name in Spark's configuration, and the namespace of all tables behind it; that alone:
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
        """See :class:`LakeFormat`."""
        *namespace, _ = identifier = self.identifier(name)
        with spark_errors(place):
            self._connector.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(*namespace)}")
        staging = self._place / "_headwater" / "staged" / quote(name, safe=" ")
        return SparkTable(self._connector, quoted(*identifier), staging, source)

    def identifier(self, name: str) -> tuple[str, ...]:
        """What a table is called in Spark."""
        schema, _, table = name.partition(".")
        if not self._namespace:
            return self._catalog, schema, table
        return self._catalog, *self._namespace, name.replace(".", "_")

    def expire(self, place: Path, name: str, kept: Container[int], older_than: datetime) -> Expired:
        """See :class:`LakeFormat`: that is the catalog's own.

        Raises:
            LakeError: always.
        """
        raise files_are_sparks(place)

    def size(self, place: Path, name: str, version: int) -> TableSize:
        """See :class:`LakeFormat`."""
        with spark_errors(place):
            return self._connector.size(quoted(*self.identifier(name)), version)


def files_are_sparks(place: Path) -> LakeError:
    """The error of who would rewrite or remove a table's files."""
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
        staging: a directory, which is made.
        source: what its rows must be of.

    Raises:
        LakeError: it cannot be read, or is another's.
    """

    def __init__(self, connector: Connector, name: str, staging: Path, source: str) -> None:
        self._connector, self._spark, self._name, self._source = connector, connector.spark, name, source
        self._staging = staging
        with spark_errors(staging):
            staging.mkdir(parents=True, exist_ok=True)
            self._is_there = self._spark.catalog.tableExists(name)
            self._landed = self._read()

    def close(self) -> None:
        """See :class:`LakeTable`; the catalog itself tells of others."""

    @property
    def landed(self) -> Landed:
        """See :class:`LakeTable`."""
        return self._landed

    @property
    def version(self) -> int:
        """See :class:`LakeTable`; a table without a commit of rows has none."""
        with spark_errors(self._staging):
            return self._connector.version(self._name) if self._landed.commit_lsn >= 0 else -1

    @property
    def staging(self) -> str:
        """See :class:`LakeTable`."""
        return str(self._staging)

    @property
    def files(self) -> Mapping[str, DataFile]:
        """See :class:`LakeTable`: they are the catalog's."""
        return {}

    def locate(self, path: str) -> str:
        """See :class:`LakeTable`.

        Raises:
            LakeError: always.
        """
        raise files_are_sparks(self._staging)

    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        """See :class:`LakeTable`."""
        if removed or has_same_rows:
            raise files_are_sparks(self._staging)
        assert landed.schema is not None
        with spark_errors(self._staging):
            if self._is_there:
                self._require([self._landed.commit_lsn])
                self._follow(landed.schema)
            else:
                self._make(landed.schema)
            rows = self._rows(added, landed.schema)
            rows.writeTo(self._name).options(**self._connector.options(landed)).append()
            self._require([landed.commit_lsn, self._landed.commit_lsn])
        self._landed = landed

    def _require(self, expected: Sequence[int]) -> None:
        """See that nobody has landed the same meanwhile; Delta passes over rows that it has, without a word."""
        known = islice(self._connector.positions(self._name, self._source), len(expected))
        found = [*known, -1][: len(expected)]
        if found[0] != expected[0] or found[1:] not in ([], [-1], list(expected[1:])):
            raise LakeConflictError(
                f"table {self._name} has come to {_shown(found)}, it should be at {_shown(expected)}",
                file=str(self._staging),
                hint="only one land may write to a table; end the other one, and begin again",
            )

    def _rows(self, added: Sequence[DataFile], schema: pa.Schema) -> DataFrame:
        """Rows that tasks have written."""
        columns = StructType.fromDDL(columns_sql(schema))
        if not added:
            return self._spark.createDataFrame([], columns)
        return self._spark.read.schema(columns).parquet(*(f"file://{self.staging}/{one.path}" for one in added))

    def _make(self, schema: pa.Schema) -> None:
        properties = f"{literal(SOURCE)} = {literal(self._source)}, {literal(COLUMNS)} = {literal(_marks(schema))}"
        self._spark.sql(
            f"CREATE TABLE {self._name} ({columns_sql(schema)}) USING {self._connector.provider} "
            f"TBLPROPERTIES ({properties})"
        )
        self._is_there = True

    def _follow(self, schema: pa.Schema) -> None:
        """Let the table's columns follow: wider ones, then what they are, then new ones."""
        there = {field.name: arrow_type(field.dataType) for field in self._columns()}
        for field in schema:
            if there.get(field.name, field.type) != field.type:
                self._connector.widen(self._name, field.name, field.type)
        more = [field for field in schema if field.name not in there]
        if more:
            marks = f"{literal(COLUMNS)} = {literal(_marks(schema))}"
            self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({marks})")
            self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({columns_sql(pa.schema(more))})")

    def _columns(self) -> StructType:
        self._spark.catalog.refreshTable(self._name)
        return self._spark.table(self._name).schema

    def _read(self) -> Landed:
        if not self._is_there:
            return Landed(-1, None, self._source)
        properties = {row[0]: row[1] for row in self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()}
        if properties.get(SOURCE) != self._source:
            raise LakeError(
                f"table {self._name} has rows of {properties.get(SOURCE, 'something else')}, not of {self._source}",
                hint="land another server, or another database, to another namespace",
            )
        marks = _read_marks(properties.get(COLUMNS, "{}"))
        fields = [_field(field.name, arrow_type(field.dataType), marks) for field in self._columns()]
        last = next(self._connector.positions(self._name, self._source), -1)
        return Landed(last, pa.schema(fields), self._source)


def _shown(positions: Sequence[int]) -> str:
    return ", before that ".join(str(Lsn(one)) if one >= 0 else "nothing" for one in positions)


def _field(name: str, type: pa.DataType, marks: Mapping[str, str]) -> pa.Field:
    return pa.field(name, type, metadata={COLUMN_MARK: marks[name].encode()} if name in marks else None)


def _marks(schema: pa.Schema) -> str:
    """Which columns of the source a table's are, by their names."""
    found = {field.name: (field.metadata or {}).get(COLUMN_MARK) for field in schema}
    return json.dumps({name: mark.decode() for name, mark in found.items() if mark is not None})


def _read_marks(text: str) -> dict[str, str]:
    """What :func:`_marks` has written.

    Raises:
        LakeError: something else.
    """
    try:
        return {str(key): str(value) for key, value in json.loads(text).items()}
    except (ValueError, AttributeError) as error:
        raise LakeError(f"the property {COLUMNS} of the table is damaged: {error}") from None
