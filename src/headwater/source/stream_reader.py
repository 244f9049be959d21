"""The ``headwater`` data source as a stream: ``spark.readStream.format("headwater")``.

Spark makes a :class:`HeadwaterStreamReader` in two kinds of process. One Python process of the driver lives as long as
the query, and is asked for offsets and partitions: it plans, in threads, and holds states and the slot's lock, from the
first question on. Another one is started for each batch only to pickle :meth:`HeadwaterStreamReader.read` for the
executors, so making a reader opens nothing; the pickled one has options and no session. Partitions pickle.

Spark 4.1 asks for the latest offset without saying where the stream stands, and knows no limits of reading. So the last
answer is gone on from, and the bound of the options is applied here. If it asks for that first of all, the answer is
the end of the log. Its ``Trigger.AvailableNow`` is one batch, also where that is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from headwater.errors import PluginError
from headwater.pipeline.slices.row_batches import RowForm
from headwater.pipeline.slices.tentative_messages import depends_on_others
from headwater.slots.slot_directory import open_slot
from headwater.source.options import SourceOptions
from headwater.source.pickled_by_value import PickledByValue
from headwater.source.slice_partition import SlicePartition, partitions_of, read_slice
from headwater.source.stream_offsets import StreamOffset
from headwater.source.stream_planner import StreamPlanner
from headwater.spark.plain_errors import plain_errors
from headwater.spark.worker_daemon import leave_if_alone

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

PATIENCE_SECONDS = 20.0
"""How long a slot may be another process's: that of a driver that was killed has to notice it first."""

Json = dict[str, Any]


class HeadwaterStreamReader(PickledByValue, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that plans in the driver's process and reads in workers; pickles.

    Args:
        options: of the stream.
        form: what rows look like; None for a plugin's messages.
    """

    def __init__(self, options: SourceOptions, form: RowForm | None) -> None:
        self._options = options
        self._form = form
        self._planner: StreamPlanner | None = None
        self._held = _Held()

    @property
    def _session(self) -> StreamPlanner:
        if self._planner is None:
            slot = None
            if self._options.slot is not None:
                slot = self._held.stack.enter_context(open_slot(Path(self._options.slot), PATIENCE_SECONDS))
            self._planner = StreamPlanner(self._options, None if self._form is None else self._form.table, slot)
        return self._planner

    @plain_errors()
    def initialOffset(self) -> Json:
        """Return the offset at which a query without a checkpoint begins."""
        return self._session.begin().as_json()

    def getDefaultReadLimit(self) -> Any:
        """Return the limit of the option ``maxBytesPerTrigger``; not called by Spark 4.1."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

        size = self._options.max_bytes
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """Let the end of the log at this moment be the query's."""
        self._session.stop_at_present()

    @plain_errors()
    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """Return the end of the next batch, the start again if there is none yet.

        Args:
            start: where the last batch ended; limit: how much a batch may be. None of both from Spark 4.1.
        """
        size = self._options.max_bytes if limit is None else getattr(limit, "max_bytes", None)
        return self._session.latest(None if start is None else StreamOffset.of_json(start), size).as_json()

    @plain_errors()
    def reportLatestOffset(self) -> Json | None:
        """Return the end of the log, for the query's progress."""
        end = self._session.log_end()
        return None if end is None else end.as_json()

    @plain_errors()
    def partitions(self, start: Json, end: Json) -> list[SlicePartition]:
        """Return the slices between two offsets."""
        stretch = self._session.stretch(StreamOffset.of_json(start), StreamOffset.of_json(end))
        if stretch.decoder is None:
            return []
        if self._form is None and any(depends_on_others(piece) for piece in stretch.slices):
            raise PluginError(
                "with a row filter, a plugin's messages depend on those of other batches of a stream",
                hint="leave the option plugin out to read rows, or decode with the command",
            )
        return partitions_of(stretch.slices, stretch.decoder, self._form)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one slice; called once per partition, in a worker."""
        with plain_errors():
            yield from read_slice(partition)

    @plain_errors()
    def commit(self, end: Json) -> None:
        """Note that everything up to an offset has been delivered."""
        self._session.commit(StreamOffset.of_json(end))

    def stop(self) -> None:
        """Release the slot."""
        self._planner = None
        self._held.stack.close()
        leave_if_alone()


class _Held:
    """The things that are released at the end; of a pickled reader nothing is."""

    def __init__(self) -> None:
        self.stack = ExitStack()

    def __reduce__(self) -> tuple[type[_Held], tuple[()]]:
        return _Held, ()
