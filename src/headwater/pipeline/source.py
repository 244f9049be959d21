"""The ``headwater`` data source: ``spark.read.format("headwater")``.

Spark calls :meth:`HeadwaterDataSource.schema` and :meth:`HeadwaterReader.partitions` once each while it plans, in a
Python process of the driver that has no Spark context; so the index is made there, in threads (the kernels run without
the interpreter lock). :meth:`HeadwaterReader.read` runs once per partition in a worker and gives Arrow batches, which
cross into the JVM once. Reader and partitions pickle.

Where Spark hands filters over (``spark.sql.python.filterPushdown.enabled``) and the option ``pushFilters`` is set, a
:class:`FilteringReader` takes those that the index can use. Spark refuses such a reader where it does not hand them
over, so which one it gets depends on which of Spark's programs asks. The option is off by default, because Spark (4.1
to 4.3) keeps one plan for each ``load()``: a DataFrame that is used a second time gets the rows of the filters that
were planned last (``PythonDataSourceV2.setReadInfo``).

Known gap: reading as a stream.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.kernel_travel import receive_kernels
from headwater.pipeline.message_files import check_text, message_batches
from headwater.pipeline.plain_errors import plain_errors
from headwater.pipeline.record_rows import SPARK_COLUMNS
from headwater.pipeline.record_view import RecordOptions, RecordReader, shows_records
from headwater.pipeline.request import open_request
from headwater.pipeline.row_batches import RowForm
from headwater.pipeline.row_filter import EVERYTHING, RowFilter
from headwater.pipeline.source_options import SourceOptions
from headwater.pipeline.source_plan import SourcePlan, plan_source
from headwater.pipeline.unpickling import SOURCE_NAME, PickledByValue
from headwater.reorder.plan import Slice

_HANDS_FILTERS_OVER = "pyspark.sql.worker.data_source_pushdown_filters"


class HeadwaterDataSource(DataSource):
    """Decoded changes of a directory of WAL.

    Options: ``path`` (WAL) and, for changes, ``catalog`` are needed; see ``docs/spark.md`` for the rest.
    """

    _planned: SourcePlan | None = None
    """What the schema of a single table took to find out; Spark pickles it with the rest for the reader."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return SOURCE_NAME

    @plain_errors()
    def schema(self) -> str:
        """Columns: of records; of messages with ``plugin``; else of changes, with a single table that table's own."""
        if shows_records(self.options):
            return SPARK_COLUMNS
        options = SourceOptions.parse(self.options)
        if options.request.plugin:
            kind = "STRING" if open_request(options.request).is_text else "BINARY"
            return f"lsn BIGINT, xid BIGINT, data {kind}"
        if options.single_table is None:
            return RowForm().spark_columns
        self._planned = plan_source(options)
        return self._planned.form.spark_columns

    @plain_errors()
    def reader(self, schema: StructType) -> HeadwaterReader | RecordReader:
        """A reader of these options."""
        if shows_records(self.options):
            return RecordReader(RecordOptions.parse(self.options))
        options = SourceOptions.parse(self.options)
        filters = options.push_filters and _filters_are_handed_over()
        return FilteringReader(options, self._planned) if filters else HeadwaterReader(options, self._planned)


def _filters_are_handed_over() -> bool:
    """Whether the caller is Spark's program that hands filters over."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        spec = frame.f_globals.get("__spec__")
        if spec is not None and spec.name == _HANDS_FILTERS_OVER:
            return True
        frame = frame.f_back
    return False


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """One slice of the plan, and what decodes it."""

    plan: Slice
    decoder: SliceDecoder
    form: RowForm


@dataclass
class HeadwaterReader(PickledByValue, DataSourceReader):
    """Plans on the driver, reads in workers; pickles."""

    options: SourceOptions
    planned: SourcePlan | None = None
    where: RowFilter = EVERYTHING

    @plain_errors()
    def partitions(self) -> list[SlicePartition]:
        """Index, assemble and plan the window; called once per query."""
        planned = self.planned if self.where == EVERYTHING else None
        self.planned = None
        planned = planned or plan_source(self.options, self.where)
        return [SlicePartition(one, planned.decoder, planned.form) for one in planned.slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice; called once per partition, in a worker."""
        receive_kernels()
        with plain_errors():
            yield from self._batches(partition)

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SlicePartition):
            return  # Spark's stand-in where there are no partitions
        if self.options.request.plugin:
            is_text = partition.decoder.is_text
            yield from map(check_text, message_batches(partition.decoder.messages(partition.plan), is_text))
        else:
            yield partition.form.batch(partition.decoder.cells(partition.plan))


class FilteringReader(HeadwaterReader):
    """A reader that plans only what filters let through."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that the index can use; called before :meth:`partitions`.

        Returns:
            those that Spark must apply to the rows.
        """
        if self.options.request.plugin:
            return filters
        self.where, rest = self.where.pushed(filters)
        return rest
