"""Catalogs of Spark's own configuration, and what its connectors do differently: Delta's and Iceberg's.

A table says how far it has come in the commit that made it so: in Delta by a transaction identifier (``txnAppId``,
``txnVersion``), in Iceberg by properties of the snapshot (``snapshot-property.*``). Delta has no SQL that tells the
first; its log is asked through the gateway to Java. Everything else is Spark's SQL and DataFrames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, DecimalType, StructType, VariantType

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.lake_table import Landed, TableSize, errors_at
from headwater.pg.lsn import Lsn
from headwater.rows.columns.column_types import VARIANT, list_of, spark_name
from headwater.rows.type_forms import ARROW_FORMS
from headwater.spark.task_run import reason

SOURCE, COMMIT_LSN = "headwater.source", "headwater.commit-lsn"
COLUMNS, COMING = "headwater.columns", "headwater.coming-columns"
"""Properties of a table: what its rows are of; which columns of the source its columns are, by their names; and LSNs
that it must have come to before these columns count."""

_ARROW = {form.spark: form.type for form in ARROW_FORMS.values()}
_CONFLICTS = ("Concurrent", "CommitFailedException")
"""In the names of the connectors' errors that tell of another commit."""
_FOUND = (
    "Found conflicting ",
    "Found new conflicting ",
    "Found concurrently ",
    "Cannot commit, ",
    "Missing required files",
)
"""In the texts of Iceberg's ``ValidationException``, where it is of another commit; it is of much else, too."""


def quoted(*parts: str) -> str:
    """Return a name of several parts, as SQL has it."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def literal(text: str) -> str:
    """Return a text as SQL has it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def columns_sql(schema: pa.Schema) -> str:
    """Return columns as SQL declares them."""
    return ", ".join(f"{quoted(field.name)} {spark_name(field.type)}" for field in schema)


def arrow_type(type: DataType) -> pa.DataType:
    """Return a type of Spark's as Arrow has it, back from :func:`~headwater.rows.columns.column_types.spark_name`.

    Raises:
        LakeError: it is none that lands.
    """
    if isinstance(type, DecimalType):
        return pa.decimal128(type.precision, type.scale)
    if isinstance(type, ArrayType):
        return list_of(arrow_type(type.elementType))
    if isinstance(type, StructType):
        return pa.struct([(field.name, arrow_type(field.dataType)) for field in type.fields])
    if isinstance(type, VariantType):
        return VARIANT
    name = type.simpleString().upper()
    if name not in _ARROW:
        raise LakeError(f"a column is {name}, which no column of the source is")
    return _ARROW[name]


class Connector(ABC):
    """The dealings of a format's tables with Spark.

    Attributes:
        spark: the session, whose configuration names catalogs.
        provider: the format as SQL has it.
    """

    provider: str

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @abstractmethod
    def positions(self, name: str, source: str) -> Iterator[int]:
        """Yield STARTs of the last commit records in a table, by its commits, the last one first, as far as it knows.

        Args:
            name: as SQL has it; source: what its rows are of.
        """

    @abstractmethod
    def version(self, name: str) -> int:
        """Return the name of the last commit; -1 for none."""

    @abstractmethod
    def options(self, landed: Landed) -> dict[str, str]:
        """Return options of a write, that say what the table has then."""

    @abstractmethod
    def settings(self, landed: Landed) -> dict[str, str]:
        """Return :meth:`options` as settings of the session, for a MERGE: it has no options."""

    @abstractmethod
    def size(self, name: str, version: int) -> TableSize:
        """Return the size of a version of a table."""

    def needed(self, schema: pa.Schema) -> dict[str, str]:  # noqa: ARG002
        """Return properties that a table with these columns must have."""
        return {}

    def widen(self, name: str, column: str, type: pa.DataType) -> None:
        """Let a column hold more."""
        self.spark.sql(f"ALTER TABLE {name} ALTER COLUMN {quoted(column)} TYPE {spark_name(type)}")


class DeltaConnector(Connector):
    """Delta's own, of delta-spark."""

    provider = "delta"

    def _log(self, name: str) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.io.delta.tables.DeltaTable.forName(self.spark._jsparkSession, name).deltaLog()

    def _snapshot(self, name: str) -> Any:
        """Return the last snapshot, as of now."""
        log = self._log(name)
        return log.update(False, getattr(log, "update$default$2")(), getattr(log, "update$default$3")())

    def positions(self, name: str, source: str) -> Iterator[int]:
        """See :class:`Connector`: the version of a transaction identifier, of which there is the last one."""
        position = self._snapshot(name).transactions().get(_application(source))
        if position.isDefined():
            yield int(position.get())

    def version(self, name: str) -> int:
        """See :class:`Connector`: Delta's."""
        return int(self._snapshot(name).version())

    def options(self, landed: Landed) -> dict[str, str]:
        return {"txnAppId": _application(landed.source), "txnVersion": str(landed.commit_lsn)}

    def settings(self, landed: Landed) -> dict[str, str]:
        return {f"spark.databricks.delta.write.{key}": value for key, value in self.options(landed).items()}

    def size(self, name: str, version: int) -> TableSize:
        log = self._log(name)
        defaults = (getattr(log, f"getSnapshotAt$default${number}")() for number in (2, 3, 4))
        snapshot = log.getSnapshotAt(version, *defaults)
        rows = self.spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF {version}").head()
        assert rows is not None
        return TableSize(int(rows[0]), int(snapshot.numOfFiles()), int(snapshot.sizeInBytes()))

    def widen(self, name: str, column: str, type: pa.DataType) -> None:
        """See :class:`Connector`: by the table feature ``typeWidening``, which readers must know from then on."""
        self.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        super().widen(name, column, type)


class IcebergConnector(Connector):
    """Iceberg's own, of iceberg-spark-runtime."""

    provider = "iceberg"

    def positions(self, name: str, source: str) -> Iterator[int]:
        """See :class:`Connector`: of the snapshots that say so."""
        for summary in self._history(name):
            if summary.get(SOURCE) == source and COMMIT_LSN in summary:
                yield Lsn.parse(summary[COMMIT_LSN])

    def version(self, name: str) -> int:
        """See :class:`Connector`: the id of the snapshot."""
        self.spark.catalog.refreshTable(name)
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {name} ('current-snapshot-id')").head()
        return -1 if rows is None or not str(rows[1]).isdigit() else int(rows[1])

    def _history(self, name: str) -> Iterator[Mapping[str, str]]:
        """Give the summaries of the snapshots that have led to the table as it is, from the last one back."""
        at: int | None = self.version(name)
        rows = self.spark.sql(f"SELECT snapshot_id, parent_id, summary FROM {name}.snapshots").collect()
        known = {row[0]: row for row in rows}
        while at in known:
            yield known[at][2] or {}
            at = known[at][1]

    def options(self, landed: Landed) -> dict[str, str]:
        own = {SOURCE: landed.source, COMMIT_LSN: str(Lsn(landed.commit_lsn))}
        return {f"snapshot-property.{key}": value for key, value in own.items()}

    def needed(self, schema: pa.Schema) -> dict[str, str]:
        """See :class:`Connector`: VARIANT is of version 3 of the format."""
        return {"format-version": "3"} if any(map(_has_variant, schema.types)) else {}

    def settings(self, landed: Landed) -> dict[str, str]:
        return {f"spark.sql.iceberg.{key}": value for key, value in self.options(landed).items()}

    def size(self, name: str, version: int) -> TableSize:
        row = self.spark.sql(f"SELECT summary FROM {name}.snapshots WHERE snapshot_id = {version}").head()
        if row is None:
            raise LakeError(f"snapshot {version} of {name} has expired")
        return TableSize(*(int(row[0].get(f"total-{what}", 0)) for what in ("records", "data-files", "files-size")))


def _has_variant(type: pa.DataType) -> bool:
    inner = [type.field(at).type for at in range(type.num_fields)]
    return bool(type == VARIANT) or any(map(_has_variant, inner))


CONNECTORS: Mapping[str, type[Connector]] = {"delta": DeltaConnector, "iceberg": IcebergConnector}


def _application(source: str) -> str:
    """Return the name in the transaction identifier; the same as without a JVM, so that tables of either go on."""
    return f"headwater {source}"


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session meanwhile."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, known in before.items():
            if known is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, known)


@contextmanager
def spark_errors(place: Path) -> Iterator[None]:
    """Raise errors of Spark, of its connectors and of the system as ours."""
    try:
        with errors_at(place):
            yield
    except (PySparkException, Py4JError) as error:
        cause = reason(error)
        if _is_conflict(f"{error}".split("\n\tat", 1)[0]):
            raise LakeConflictError(
                f"the commit was refused: {cause}",
                file=str(place),
                hint="only one land may write to a table; end the other one, and begin again",
            ) from error
        raise LakeError(
            f"Spark: {cause}", file=str(place), hint="begin again: what was committed, the tables say themselves"
        ) from error


def _is_conflict(text: str) -> bool:
    """Tell whether an error, as Java tells it, is that another commit was in the way."""
    is_refused = "ValidationException" in text and any(sign in text for sign in _FOUND)
    return is_refused or any(name in text for name in _CONFLICTS)
