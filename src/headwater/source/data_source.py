"""The ``headwater`` data source: ``spark.read`` and ``spark.readStream`` with ``.format("headwater")``.

Spark calls :meth:`HeadwaterDataSource.schema` and :meth:`HeadwaterReader.partitions` once each while it plans, in a
Python process of the driver that has no Spark context; so the index is made there, in threads (the kernels run without
the interpreter lock). :meth:`HeadwaterReader.read` runs once per partition in a worker and gives Arrow batches, which
cross into the JVM once. Reader and partitions pickle.

Where Spark hands filters over (``spark.sql.python.filterPushdown.enabled``) and the option ``pushFilters`` is set, a
:class:`FilteringReader` takes those that the index can use. Spark refuses such a reader where it does not hand them
over, so which one it gets depends on which of Spark's programs asks. The option is off by default, because Spark (4.1
to 4.3) keeps one plan for each ``load()``. A DataFrame that is used a second time gets the rows of the filters that
were planned last (``PythonDataSourceV2.setReadInfo``).

``spark.readStream.format("headwater")`` gets a :class:`HeadwaterStreamReader`. A schema is asked for before Spark says
whether it is for a stream. So a single table's name means the same relation to both: the one that bears it where the
WAL ends when ``load()`` is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from headwater.base.overrides import override
from headwater.errors import UsageError
from headwater.pipeline.slices.row_batches import RowForm
from headwater.plugins.rows.row_filter import EVERYTHING, RowFilter
from headwater.source.options import SourceOptions
from headwater.source.pickled_by_value import PickledByValue
from headwater.source.pushed_filters import column_of, pushed
from headwater.source.record_rows import SPARK_COLUMNS
from headwater.source.record_view import RecordOptions, RecordReader, shows_records
from headwater.source.slice_partition import SlicePartition, partitions_of, read_slice
from headwater.source.slot_options import SlotOptions, reads_slot
from headwater.source.slot_reader import SlotReader, SlotStreamReader
from headwater.source.source_plan import SourcePlan, form_of_slot, kept_of, open_source, plan_source, rows_of_changes
from headwater.source.stream_reader import HeadwaterStreamReader
from headwater.spark.plain_errors import plain_errors

_HANDS_FILTERS_OVER = "pyspark.sql.worker.data_source_pushdown_filters"


class HeadwaterDataSource(DataSource):
    """Decoded changes of a directory of WAL.

    Options: ``path`` (WAL) and, for changes, ``catalog`` are needed; see ``docs/reference/data-source.md`` for the
    rest.
    """

    _planned: SourcePlan | None = None
    """What the schema of a single table took to find out; Spark pickles it with the rest for the reader."""

    _form: RowForm | None = None
    """What rows of a single table look like."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "headwater"

    @plain_errors()
    def schema(self) -> str:
        """Return the columns: of records; of messages with ``plugin``; else of changes, or of a single table."""
        if reads_slot(self.options):
            self._form = SlotOptions.parse(self.options).form()
            return self._form.spark_columns
        if shows_records(self.options):
            return SPARK_COLUMNS
        options = SourceOptions.parse(self.options)
        if options.request.plugin:
            kind = "STRING" if open_source(options, kept_state=kept_of(options)).is_text else "BINARY"
            return f"lsn BIGINT, xid BIGINT, data {kind}"
        if options.single_table is None:
            return rows_of_changes(options.request).spark_columns
        if options.slot is None:
            self._planned = plan_source(options)
            self._form = self._planned.form
        else:
            self._form = form_of_slot(options)
        return self._form.spark_columns

    @plain_errors()
    @override
    def reader(self, schema: StructType) -> HeadwaterReader | RecordReader | SlotReader:
        """Return a reader of these options."""
        if reads_slot(self.options):
            slot = SlotOptions.parse(self.options)
            return SlotReader(slot, self._form or slot.form())
        if shows_records(self.options):
            return RecordReader(RecordOptions.parse(self.options))
        options = SourceOptions.parse(self.options)
        options.check_batch()
        filters = options.push_filters and _filters_are_handed_over()
        return FilteringReader(options, self._planned) if filters else HeadwaterReader(options, self._planned)

    @plain_errors()
    @override
    def streamReader(self, schema: StructType) -> HeadwaterStreamReader | SlotStreamReader:
        """Return a reader of these options that goes on."""
        if reads_slot(self.options):
            slot = SlotOptions.parse(self.options)
            return SlotStreamReader(slot, self._form or slot.form())
        if shows_records(self.options):
            raise UsageError('the view "records" is no stream', hint="use spark.read")
        options = SourceOptions.parse(self.options)
        options.check_stream()
        plain = rows_of_changes(options.request)
        form = None if options.request.plugin else plain if self._form is None else self._form
        return HeadwaterStreamReader(options, form)


def _filters_are_handed_over() -> bool:
    """Tell whether the caller is Spark's program that hands filters over."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        spec = frame.f_globals.get("__spec__")
        if spec is not None and spec.name == _HANDS_FILTERS_OVER:
            return True
        frame = frame.f_back
    return False


@dataclass
class HeadwaterReader(PickledByValue, DataSourceReader):
    """A reader that plans on the driver and reads in workers; pickles."""

    options: SourceOptions
    planned: SourcePlan | None = None
    where: RowFilter = EVERYTHING

    @plain_errors()
    def partitions(self) -> list[SlicePartition]:
        """Index, assemble and plan the window; called once per query."""
        planned = self.planned if self.where == EVERYTHING else None
        self.planned = None
        planned = planned or plan_source(self.options, self.where)
        form = None if self.options.request.plugin else planned.form
        return partitions_of(planned.slices, planned.decoder, form)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one slice; called once per partition, in a worker."""
        with plain_errors():
            yield from read_slice(partition)


class FilteringReader(HeadwaterReader):
    """A reader that plans only what filters let through."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that the index can use; called before :meth:`partitions`.

        Returns:
            the filters that Spark must apply to the rows.
        """
        if self.options.request.plugin:
            return filters
        operations = [
            condition for condition in filters if self.options.request.publish and column_of(condition) == "_op"
        ]
        others = [condition for condition in filters if condition not in operations]
        self.where, rest = pushed(self.where, others, changes_operations=bool(self.options.publications))
        return operations + rest
