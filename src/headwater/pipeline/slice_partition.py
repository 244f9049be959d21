"""A slice of a plan as a partition of Spark's: what a worker needs to read it, for batches and streams alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.kernel_travel import receive_kernels
from headwater.pipeline.message_files import check_text, message_batches
from headwater.pipeline.row_batches import RowForm
from headwater.reorder.plan import Slice


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """One slice of the plan, and what decodes it; pickles.

    Attributes:
        plan: the slice.
        decoder: decodes it.
        form: what rows look like; None for a plugin's messages.
    """

    plan: Slice
    decoder: SliceDecoder
    form: RowForm | None


def read_slice(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one slice; nothing of Spark's stand-in where there are no partitions.

    Raises:
        HeadwaterError: any reason not to decode it.
    """
    if not isinstance(partition, SlicePartition):
        return
    receive_kernels()
    if partition.form is None:
        messages = partition.decoder.messages(partition.plan)
        yield from map(check_text, message_batches(messages, partition.decoder.is_text))
    else:
        yield partition.form.batch(partition.decoder.rows(partition.plan, partition.form.exact_columns))
