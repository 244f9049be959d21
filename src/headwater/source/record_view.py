"""The view ``records`` of the data source: a row for each record of the WAL, read in parallel by runs of segments.

Needs the WAL and nothing else. Each partition reads the records that start in its run, and verifies them as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from headwater.errors import UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.wal_places import STORAGE, source_of_options
from headwater.rmgr.outline import RecordChoice
from headwater.source.options import PARTITION_BYTES, VIEW_RECORDS, parse_partition_bytes, view_of
from headwater.source.pickled_by_value import PickledByValue
from headwater.source.record_rows import record_batches
from headwater.spark.kernel_travel import receive_kernels
from headwater.spark.plain_errors import plain_errors
from headwater.wal.layout import PAGE_SIZE
from headwater.wal.records.stretches import read_stretches
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource

OPTIONS = ("path", "view", "startingLsn", "endingLsn", "partitionBytes", "timeline")
"""Options that this view has; ``storage.NAME`` come on top."""


def shows_records(options: Mapping[str, str]) -> bool:
    """Tell whether a read asks for this view.

    Raises:
        UsageError: it asks for one that does not exist.
    """
    return view_of(options) == VIEW_RECORDS


@dataclass(frozen=True)
class RecordOptions:
    """The options of one read, checked.

    Attributes:
        source: where the WAL is.
        start, end: records that start there or later, and that are whole before it; None for no end.
        partition_bytes: bytes of WAL of a partition, at least a segment.
    """

    source: WalSource
    start: int = 0
    end: int | None = None
    partition_bytes: int = PARTITION_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> RecordOptions:
        """Read Spark's options.

        Raises:
            UsageError: an option is missing or malformed, or means nothing for records.
        """
        given = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in OPTIONS}
        for name in sorted(name for name in given.keys() - known if not name.startswith(STORAGE)):
            hint = f"known: {', '.join(OPTIONS)}, {STORAGE}*"
            raise UsageError(f'option "{name}" means nothing for the view "records"', hint=hint)
        if not given.get("path"):
            raise UsageError('the headwater data source needs the option "path"')
        start = Lsn.parse(given.get("startinglsn", "0/0"))
        end = Lsn.parse(given["endinglsn"]) if "endinglsn" in given else None
        if end is not None and end <= start:
            raise UsageError(f"endingLsn {end} lies not behind startingLsn {start}")
        return cls(source_of_options(given), start, end, parse_partition_bytes(given))

    @property
    def choice(self) -> RecordChoice:
        """The records."""
        return RecordChoice(self.start, self.end)


@dataclass(frozen=True)
class RecordPartition(InputPartition):
    """A run: the records that start in ``[lo, hi)``."""

    directory: WalDirectory
    lo: int
    hi: int


@dataclass
class RecordReader(PickledByValue, DataSourceReader):
    """A reader that cuts on the driver and reads in workers; pickles."""

    options: RecordOptions

    @plain_errors()
    def partitions(self) -> list[RecordPartition]:
        """Return runs of whole segments."""
        directory = WalDirectory.scan(self.options.source)
        stop = directory.stop_lsn
        hi = stop if self.options.end is None else min(stop, self.options.end)
        lo = max(self.options.start - self.options.start % PAGE_SIZE, directory.start_lsn)
        size = directory.segment_size
        step = -(-self.options.partition_bytes // size) * size
        cuts = [lo, *range((lo // size) * size + step, hi, step), hi]
        pairs = pairwise(cuts)
        return [RecordPartition(directory, begin, end) for begin, end in pairs if begin < end]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records of one run; called once per partition, in a worker."""
        with plain_errors():
            if isinstance(partition, RecordPartition):  # else Spark's stand-in where there are none
                receive_kernels()
                yield from self._batches(partition)

    def _batches(self, partition: RecordPartition) -> Iterator[pa.RecordBatch]:
        directory, choice = partition.directory, self.options.choice
        for _, _, frames in read_stretches(directory, partition.lo, partition.hi):
            yield from record_batches(frames, directory.segment_size, choice, directory.major)
