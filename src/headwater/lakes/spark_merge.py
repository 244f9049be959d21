"""Rows of a mirror in one of Spark's catalogs: those that changes may be of, and the statement that puts others there.

::

    taken   <-  Spark: rows of the table whose keys are in a window's changes, as files         (_headwater/taken/NAME)
    staged  <-  tasks: what the changes make of them (landing/mirrors/merge_task.py)            (_headwater/staged/NAME)
    commit  ->  Spark: MERGE INTO the table, of one row for each key                 taken, and staged no more: deleted

So whatever a mirror must know is decided where it is for all formats: what folds into one row, what an update left
unwritten, what does not fit. The MERGE has full rows, and does what it is told.

Keys may not tell which rows are concerned, or not as Spark compares: TRUNCATE, rows that are identified as wholes, a
column with a default, a key of floats. Then all rows are taken, and what is left of them replaces the table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from headwater.errors import LakeError
from headwater.lakes.data_files import read_data_file
from headwater.lakes.file_bounds import has_place
from headwater.lakes.history_rows import FROM_LSN, TO_LSN
from headwater.lakes.lake_table import DataFile, Sought
from headwater.lakes.spark_catalog import quoted, session_settings

_ENDED = "_ended_in_a_column_of_a_name_that_is_longer_than_those_that_postgresql_gives"
"""Of rows that a MERGE is given, whether they go; no column of the source is called so."""

_TIMES = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Those of 96 bits have no bounds."""


@dataclass(frozen=True)
class Taken:
    """Rows that were taken from a mirror; none of a table that only gets more.

    Attributes:
        place: where their files are.
        files: they, by their names.
        key: columns by which a MERGE tells rows; none where what is left replaces the table.
    """

    place: Path
    files: dict[str, DataFile] = field(default_factory=dict)
    key: tuple[str, ...] = ()

    def paths(self, names: Iterable[str]) -> list[str]:
        """Return the paths of files, as Spark has them."""
        return [f"file://{self.place}/{name}" for name in names]

    def drop(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.place, ignore_errors=True)


def take(spark: SparkSession, name: str, schema: pa.Schema, sought: Sought, place: Path) -> Taken:
    """Take rows that changes may be of.

    Args:
        spark: the session; name: of the table, as SQL has it; schema: its columns.
        sought: the rows to take; place: a directory for their files, which is made again.

    Raises:
        LakeError: no MERGE can distinguish the versions of a history.
    """
    has_history, is_keyed = sought.has_history, _are_alike(sought.key, schema)
    if has_history and not is_keyed:
        raise LakeError(
            f"table {name}: versions of rows that no key tells cannot be merged by Spark, or its columns are new",
            hint="land changes (--mode changelog), or without --catalog-impl spark, or leave the table out (--exclude)",
        )
    is_all = sought.is_all or not is_keyed
    rows = spark.table(name)
    if has_history:
        rows = rows.filter(sql.col(TO_LSN).isNull())
    rows = _in_order(rows, schema, sought.key) if is_all else _with_keys(rows, sought)
    files = _written(rows, schema, place)
    is_replaced = is_all and not has_history
    return Taken(place, files, () if is_replaced else (*sought.key, *([FROM_LSN] if has_history else [])))


def _with_keys(rows: DataFrame, sought: Sought) -> DataFrame:
    """Return the rows whose keys are in the changes."""
    keys = rows.sparkSession.read.parquet(*(f"file://{path}" for path in sought.changes))
    return rows.join(keys.select([quoted(name) for name in sought.key]), list(sought.key), "left_semi")


def _in_order(rows: DataFrame, schema: pa.Schema, key: Sequence[str]) -> DataFrame:
    """Sort rows by the key's first column, where that has an order: files then have bounds that do not overlap."""
    return rows.sort(quoted(key[0])) if _are_alike(key[:1], schema) else rows


def _written(rows: DataFrame, schema: pa.Schema, place: Path) -> dict[str, DataFile]:
    """Write rows into files; those that have any, by their names."""
    with session_settings(rows.sparkSession, _TIMES):
        rows.select([quoted(name) for name in schema.names]).write.mode("overwrite").parquet(f"file://{place}")
    files = (read_data_file(str(place), path.name, schema) for path in sorted(place.glob("part-*.parquet")))
    return {file.path: file for file in files if file.rows}


def _are_alike(key: Sequence[str], schema: pa.Schema) -> bool:
    """Tell whether values of these columns are equal in Spark if, and only if, they are the same bits."""
    types = [schema.field(name).type for name in key if name in schema.names]
    return bool(key) and len(types) == len(key) and not any(map(_is_apart, types))


def _is_apart(type: pa.DataType) -> bool:
    return pa.types.is_floating(type) or not has_place(type)


def replace(rows: DataFrame, name: str, options: dict[str, str]) -> None:
    """Let a table have these rows, and no others.

    Args:
        rows: they, which are not read from it; name: of the table; options: of the write.
    """
    rows.writeTo(name).options(**options).overwrite(sql.lit(True))


def merge(rows: DataFrame, ended: DataFrame, name: str, key: Sequence[str], settings: dict[str, str]) -> None:
    """Put rows into a table, in the place of those that have their key, and let others go.

    Args:
        rows: one of each key, with all columns of the table; ended: those that go unless they are among ``rows``.
        name: of the table; key: its columns.
        settings: of the session meanwhile.
    """
    spark = rows.sparkSession
    gone = ended.select([quoted(name) for name in key]).join(rows, list(key), "left_anti")
    given = rows.withColumn(_ENDED, sql.lit(False))
    source = given.unionByName(gone.withColumn(_ENDED, sql.lit(True)), allowMissingColumns=True)
    view = "headwater_merged"
    source.createOrReplaceTempView(view)
    try:
        with session_settings(spark, settings):
            spark.sql(_statement(name, view, rows.columns, key)).collect()
    finally:
        spark.catalog.dropTempView(view)


def _statement(name: str, view: str, columns: Sequence[str], key: Sequence[str]) -> str:
    matched = " AND ".join(f"{_of('t', name)} = {_of('s', name)}" for name in key)
    assigned = ", ".join(f"{_of('t', column)} = {_of('s', column)}" for column in columns)
    names, values = ", ".join(map(quoted, columns)), ", ".join(_of("s", column) for column in columns)
    return (
        f"MERGE INTO {name} AS t USING {view} AS s ON {matched} "
        f"WHEN MATCHED AND s.{_ENDED} THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED AND NOT s.{_ENDED} THEN INSERT ({names}) VALUES ({values})"
    )


def _of(row: str, column: str) -> str:
    return f"{row}.{quoted(column)}"
