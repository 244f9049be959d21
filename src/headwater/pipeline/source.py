"""The ``headwater`` data source: ``spark.read.format("headwater")``.

Spark calls :meth:`HeadwaterDataSource.schema` and :meth:`HeadwaterReader.partitions` once each while it plans, in a
Python process of the driver that has no Spark context; so the index is made there, in threads (the kernels run without
the interpreter lock). :meth:`HeadwaterReader.read` runs once per partition in a worker and gives Arrow batches, which
cross into the JVM once. Reader and partitions pickle.

Known gap: reading as a stream.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError, UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.assemble import Assembly, assemble
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.index_job import index_in_threads, index_start, index_tasks
from headwater.pipeline.message_files import check_text, message_batches
from headwater.pipeline.reach import check_reach
from headwater.pipeline.request import DecodeRequest, OpenRequest, open_request
from headwater.pipeline.row_changes import COMMON_DDL, IMAGES_DDL, RowChanges, change_batch
from headwater.pipeline.window import Window
from headwater.reorder.plan import Slice
from headwater.rmgr.index import UNREFINED, Refinement
from headwater.rows.arrow import spark_schema

OPTIONS = frozenset(
    {"path", "catalog", "database", "startinglsn", "endinglsn", "tables", "publication", "plugin", "partitionbytes"}
)
"""Options, which Spark compares without regard to case; ``plugin.NAME`` and ``set.NAME`` come on top."""

PARTITION_BYTES = 32 << 20


@dataclass(frozen=True)
class SourceOptions:
    """The options of one read, checked.

    Attributes:
        request: what to decode; its plugin is empty for rows of changes.
        tables: patterns of ``schema.table``.
        publications: names.
        partition_bytes: bytes of WAL records per partition.
    """

    request: DecodeRequest
    tables: tuple[str, ...]
    publications: tuple[str, ...]
    partition_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read Spark's options.

        Raises:
            UsageError: an option is unknown, missing or malformed.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in given:
            if name not in OPTIONS and not name.startswith(("plugin.", "set.")):
                raise UsageError(f'unknown option "{name}" of the headwater data source', hint=f"known: {_known()}")
        for name in ("path", "catalog"):
            if not given.get(name):
                raise UsageError(f'the headwater data source needs the option "{name}"')
        publications = _list(given.get("publication", ""))
        request = DecodeRequest(
            wal=given["path"],
            catalog=given["catalog"],
            database=given.get("database"),
            plugin=given.get("plugin", ""),
            options=_plugin_options(given, publications),
            start=_lsn(given.get("startinglsn")),
            end=_lsn(given.get("endinglsn")),
            settings=tuple((name[4:], value) for name, value in given.items() if name.startswith("set.")),
        )
        size = _partition_bytes(given.get("partitionbytes", str(PARTITION_BYTES)))
        return cls(request, tuple(_list(given.get("tables", ""))), tuple(publications), size)

    @property
    def single_table(self) -> str | None:
        """The table, if there is just one and no pattern in its name."""
        if len(self.tables) == 1 and not set("*?[") & set(self.tables[0]):
            return self.tables[0]
        return None


def _known() -> str:
    return (
        "path, catalog, database, startingLsn, endingLsn, tables, publication, plugin, partitionBytes, plugin.*, set.*"
    )


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _lsn(text: str | None) -> int | None:
    return None if text is None else Lsn.parse(text)


def _partition_bytes(text: str) -> int:
    size = int(text) if text.isascii() and text.isdigit() else 0
    if size < 1:
        raise UsageError(f'invalid partitionBytes "{text}", expected a number of bytes')
    return size


def _plugin_options(given: Mapping[str, str], publications: list[str]) -> tuple[tuple[str, str], ...]:
    """``plugin.NAME`` options; pgoutput gets its publications and protocol from ``publication``."""
    named = {name[7:]: value for name, value in given.items() if name.startswith("plugin.")}
    if given.get("plugin") == "pgoutput" and publications:
        quoted = ",".join('"' + name.replace('"', '""') + '"' for name in publications)
        named = {"proto_version": "1", "publication_names": quoted, **named}
    return tuple(named.items())


class HeadwaterDataSource(DataSource):
    """Decoded changes of a directory of WAL.

    Options: ``path`` (WAL) and ``catalog`` are needed; see ``README.md`` for the rest.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "headwater"

    def schema(self) -> str:
        """Columns: of messages with ``plugin``, else of changes; with a single table that table's own."""
        options = SourceOptions.parse(self.options)
        if options.request.plugin:
            kind = "STRING" if open_request(options.request).is_text else "BINARY"
            return f"lsn BIGINT, xid BIGINT, data {kind}"
        if options.single_table is None:
            return f"{COMMON_DDL}, {IMAGES_DDL}"
        return f"{COMMON_DDL}, {spark_schema(_plan(options).single)}"

    def reader(self, schema: StructType) -> HeadwaterReader:
        """A reader of these options."""
        return HeadwaterReader(SourceOptions.parse(self.options))


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """One slice of the plan, and what decodes it."""

    plan: Slice
    decoder: SliceDecoder
    single: RelationSchema | None


@dataclass(frozen=True)
class HeadwaterReader(DataSourceReader):
    """Plans on the driver, reads in workers; pickles."""

    options: SourceOptions

    def partitions(self) -> list[SlicePartition]:
        """Index, assemble and plan the window; called once per query."""
        planned = _plan(self.options)
        slices = planned.assembly.plan.slices(self.options.partition_bytes)
        decoder = SliceDecoder(planned.opened.directory, planned.opened.plugin, planned.opened.session)
        single = planned.single if self.options.single_table is not None else None
        return [SlicePartition(one, decoder, single) for one in slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice; called once per partition, in a worker."""
        assert isinstance(partition, SlicePartition)
        if self.options.request.plugin:
            is_text = partition.decoder.is_text
            yield from map(check_text, message_batches(partition.decoder.messages(partition.plan), is_text))
        else:
            yield change_batch(partition.decoder.cells(partition.plan), partition.single)


@dataclass(frozen=True)
class _Planned:
    """A window, opened and assembled."""

    options: SourceOptions
    opened: OpenRequest
    assembly: Assembly
    end: int

    @property
    def single(self) -> RelationSchema:
        """The only table as of the window's end.

        Raises:
            CatalogError: there is no such table.
        """
        name = str(self.options.single_table)
        catalog = self.opened.store.view(self.end)
        for use in reversed(self.assembly.plan.relations):
            if f"{use.schema.namespace}.{use.schema.name}" == name:
                return catalog.relation(use.schema.oid) or use.schema
        raise CatalogError(
            f'no changes of a table "{name}" in the window',
            hint="name it as schema.table; without changes its columns are not known, read with a pattern instead",
        )


def _plan(options: SourceOptions) -> _Planned:
    """Steps 1 to 3 in this process."""
    refinement = UNREFINED
    threads = os.cpu_count() or 1
    while True:
        opened = _open(options, refinement)
        store, request = opened.store, options.request
        start = index_start(opened.directory, store)
        tasks = index_tasks(opened.directory, start, request.end, opened.index_request(), threads)
        index = index_in_threads(tasks, threads)
        check_reach(opened, index)
        window = Window(opened.directory.segment_size, request.start or 0, request.end)
        assembly = assemble(index, store, opened.plugin, window)
        if isinstance(assembly, Assembly):
            opened.plugin.validate(store.view(index.hi))
            return _Planned(options, opened, assembly, index.hi)
        refinement |= assembly


def _open(options: SourceOptions, refinement: Refinement) -> OpenRequest:
    if options.request.plugin:
        return open_request(options.request, refinement)
    opened = open_request(
        options.request, refinement, lambda store: RowChanges(options.tables, options.publications, store.major)
    )
    if opened.session.encoding not in ("UTF8", "SQL_ASCII"):
        raise CatalogError(
            f'database "{opened.store.database_name}" is in {opened.session.encoding}, rows need UTF8',
            hint="read a plugin's messages instead, with the option plugin",
        )
    return opened
