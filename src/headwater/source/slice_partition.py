"""A slice of a plan as a partition of Spark's, with what a worker needs to read it, for batches and streams alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.slices.message_files import check_text, message_batches
from headwater.pipeline.slices.row_batches import RowForm
from headwater.pipeline.slices.tentative_messages import Settlement, depends_on_others
from headwater.reorder.plan import Slice
from headwater.spark.kernel_travel import receive_kernels


@dataclass(frozen=True)
class SlicePartition(InputPartition):
    """Slices of the plan that are read one after the other, mostly one, and what decodes them; pickles.

    Attributes:
        slices: in output order.
        decoder: decodes it.
        form: what rows look like; None for a plugin's messages.
    """

    slices: tuple[Slice, ...]
    decoder: SliceDecoder
    form: RowForm | None


def read_slice(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Give the rows of a partition; nothing of Spark's stand-in where there are no partitions.

    Raises:
        HeadwaterError: any reason not to decode it.
    """
    if not isinstance(partition, SlicePartition):
        return
    receive_kernels()
    settlement = Settlement()
    for plan in partition.slices:
        if partition.form is None:
            messages = settlement.settled(partition.decoder.messages(plan))
            yield from map(check_text, message_batches(messages, partition.decoder.is_text))
        else:
            yield partition.form.batch(partition.decoder.located(plan))


def partitions_of(slices: Sequence[Slice], decoder: SliceDecoder, form: RowForm | None) -> list[SlicePartition]:
    """Return a partition for each slice, or one for all where a plugin's messages depend on those of earlier slices."""
    if form is None and any(depends_on_others(piece) for piece in slices):
        return [SlicePartition(tuple(slices), decoder, form)]
    return [SlicePartition((piece,), decoder, form) for piece in slices]
