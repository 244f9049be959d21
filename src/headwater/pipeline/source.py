"""The ``headwater`` data source: ``spark.read.format("headwater")``.

Spark calls :meth:`HeadwaterDataSource.schema` and :meth:`HeadwaterReader.partitions` once each while it plans, in a
Python process of the driver that has no Spark context; so the index is made there, in threads (the kernels run without
the interpreter lock). :meth:`HeadwaterReader.read` runs once per partition in a worker and gives Arrow batches, which
cross into the JVM once. Reader and partitions pickle.

Known gap: reading as a stream.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError
from headwater.pipeline.assemble import Assembly, assemble
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.index_job import index_in_threads, index_start, index_tasks
from headwater.pipeline.message_files import check_text, message_batches
from headwater.pipeline.plain_errors import plain_errors
from headwater.pipeline.reach import check_reach
from headwater.pipeline.request import OpenRequest, open_request
from headwater.pipeline.row_changes import COMMON_DDL, IMAGES_DDL, RowChanges, change_batch
from headwater.pipeline.source_options import SourceOptions
from headwater.pipeline.unpickling import SOURCE_NAME, PickledByValue
from headwater.pipeline.window import Window
from headwater.reorder.plan import Slice
from headwater.rmgr.index import UNREFINED, Refinement
from headwater.rows.arrow import spark_schema


class HeadwaterDataSource(DataSource):
    """Decoded changes of a directory of WAL.

    Options: ``path`` (WAL) and ``catalog`` are needed; see ``README.md`` for the rest.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return SOURCE_NAME

    @plain_errors()
    def schema(self) -> str:
        """Columns: of messages with ``plugin``, else of changes; with a single table that table's own."""
        options = SourceOptions.parse(self.options)
        if options.request.plugin:
            kind = "STRING" if open_request(options.request).is_text else "BINARY"
            return f"lsn BIGINT, xid BIGINT, data {kind}"
        if options.single_table is None:
            return f"{COMMON_DDL}, {IMAGES_DDL}"
        return f"{COMMON_DDL}, {spark_schema(_plan(options).single)}"

    @plain_errors()
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
class HeadwaterReader(PickledByValue, DataSourceReader):
    """Plans on the driver, reads in workers; pickles."""

    options: SourceOptions

    @plain_errors()
    def partitions(self) -> list[SlicePartition]:
        """Index, assemble and plan the window; called once per query."""
        planned = _plan(self.options)
        slices = planned.assembly.plan.slices(self.options.partition_bytes)
        decoder = SliceDecoder(planned.opened.directory, planned.opened.plugin, planned.opened.session)
        single = planned.single if self.options.single_table is not None else None
        return [SlicePartition(one, decoder, single) for one in slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice; called once per partition, in a worker."""
        with plain_errors():
            yield from self._batches(partition)

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
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
