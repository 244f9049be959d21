"""The whole flow in one file: index, assemble, plan, decode, deliver.

This is the command's way; the data source goes through the same steps in :mod:`headwater.pipeline.source`. Steps 1 and
4 are Spark tasks, 2 and 3 run here on the driver. What they hand each other goes through an exchange
(:mod:`headwater.pipeline.exchange`): files, or Spark where driver and executors share no directory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import BinaryIO

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.pipeline.assemble import Assembly, assemble
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.exchange import Arrived, Exchange, Handed
from headwater.pipeline.exchange_choice import open_exchange
from headwater.pipeline.index_job import IndexTask, index_start, index_tasks
from headwater.pipeline.message_files import MessageCounts, MessageForm, message_table, write_messages
from headwater.pipeline.reach import check_reach
from headwater.pipeline.request import DecodeRequest, OpenRequest, open_request
from headwater.pipeline.scratch import store_value
from headwater.pipeline.task_run import Progress
from headwater.pipeline.window import Window
from headwater.reorder.merge import merge_indexes
from headwater.reorder.plan import Slice
from headwater.rmgr.index import UNREFINED, Refinement, WalIndex

SLICES_PER_CORE = 3
"""Slices for each task that can run at once, if they are worth it: who takes the messages begins with the first."""

SLICE_BYTES = 128 << 20
"""Upper bound of the WAL bytes of one decode task, except for a transaction's parts that cannot be cut."""

SMALLEST_SLICE = 4 << 20

Deliver = Callable[[str], None]
"""Takes the path of a whole file."""


@dataclass
class DecodeResult:
    """The messages of a decoded window, in files; use it as a context manager, or call :meth:`close`.

    Attributes:
        files: the tasks' files, in output order; those that were delivered are gone.
        is_text: the messages are UTF-8 text.
        transactions, changes, messages: counts; changes are rows that gave a message.
        wal_bytes: bytes of WAL read.
        consistent_at: LSN where decoding could begin.
        end_lsn: where the window ended.
        seconds: wall-clock time of each step.
        exchange: what holds the files.
    """

    files: list[Arrived[MessageCounts]]
    is_text: bool
    transactions: int
    changes: int
    messages: int
    wal_bytes: int
    consistent_at: int
    end_lsn: int
    seconds: dict[str, float]
    exchange: Exchange

    def tables(self) -> Iterator[pa.Table]:
        """Tables of ``lsn int64, xid int64, data string|binary``, in order."""
        for file in self.files:
            yield message_table(file.path)

    def close(self) -> None:
        """Remove the files."""
        self.exchange.close()

    def __enter__(self) -> DecodeResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def decode(
    spark: SparkSession,
    request: DecodeRequest,
    progress: Progress | None = None,
    form: MessageForm = MessageForm.ARROW,
    scratch: str | None = None,
    deliver: Deliver | None = None,
    place: str | None = None,
) -> DecodeResult:
    """Decode a window of WAL.

    Args:
        spark: the session whose workers decode.
        request: what to decode.
        progress: called with (step, tasks done, tasks in all).
        form: what the tasks write.
        scratch: an existing directory that driver and executors share; a temporary one is made inside it.
        deliver: takes the files in output order while later ones are made, and each is removed then; an error that
            comes later takes nothing back that it did.
        place: an existing directory for the driver's files without ``scratch``; None for where temporary files go.

    Returns:
        the messages.

    Raises:
        HeadwaterError: any reason not to decode; nothing is left behind then.
    """
    exchange = open_exchange(spark.sparkContext, scratch, place)
    try:
        return _Run(spark, progress, exchange, deliver).decode(request, form)
    except BaseException:
        exchange.close()
        raise


@dataclass
class _Run:
    """One call of :func:`decode`."""

    spark: SparkSession
    progress: Progress | None
    exchange: Exchange
    deliver: Deliver | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def decode(self, request: DecodeRequest, form: MessageForm) -> DecodeResult:
        """The five steps."""
        opened, index, assembly = self._assemble(request, UNREFINED)
        while isinstance(assembly, Refinement):
            opened, index, assembly = self._assemble(request, opened.refinement | assembly)
        with _timed(self.seconds, "plan"):
            slices = assembly.plan.slices(_slice_bytes(assembly, self._parallel))
            handed = [self.exchange.hand(one) for one in slices]
        with _timed(self.seconds, "decode"):
            files = self._decode(opened, handed, form)
        return DecodeResult(
            files=files,
            is_text=opened.is_text,
            transactions=assembly.transactions,
            changes=assembly.changes,
            messages=sum(file.summary.messages for file in files),
            wal_bytes=index.hi - index.lo,
            consistent_at=assembly.consistent_at,
            end_lsn=index.hi,
            seconds=self.seconds,
            exchange=self.exchange,
        )

    @property
    def _parallel(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def _assemble(
        self, request: DecodeRequest, refinement: Refinement
    ) -> tuple[OpenRequest, WalIndex, Assembly | Refinement]:
        with _timed(self.seconds, "open"):
            opened = open_request(request, refinement)
        with _timed(self.seconds, "index"):
            index = self._index(opened)
        check_reach(opened, index)
        with _timed(self.seconds, "assemble"):
            window = Window(opened.directory.segment_size, request.start or 0, request.end, request.tables)
            return opened, index, assemble(index, opened.store, opened.plugin, window)

    def _index(self, opened: OpenRequest) -> WalIndex:
        start, end = index_start(opened.directory, opened.store), opened.request.end
        tasks = index_tasks(opened.directory, start, end, opened.index_request(), self._parallel)
        with self.exchange.run("index", _write_index, tasks, self.progress) as arriving:
            return merge_indexes([piece for one in arriving for piece in one.take(_PIECES)])

    def _decode(
        self, opened: OpenRequest, slices: list[Handed[Slice]], form: MessageForm
    ) -> list[Arrived[MessageCounts]]:
        decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        is_text = opened.is_text if form is MessageForm.ARROW else opened.plugin.is_text

        def write(handed: Handed[Slice], sink: BinaryIO) -> MessageCounts:
            return write_messages(sink, decoder.messages(handed.load()), form, is_text)

        files = []
        with self.exchange.run("decode", write, slices, self.progress) as arriving:
            for one in arriving:
                files.append(one)
                if self.deliver is not None:
                    self.deliver(one.path)
                    one.remove()
        return files


_PIECES = tuple[WalIndex, ...]


def _write_index(task: IndexTask, sink: BinaryIO) -> None:
    store_value(sink, tuple(task.run()), _PIECES)


def _slice_bytes(assembly: Assembly, parallel: int) -> int:
    total = int(assembly.plan.rows.size.sum()) + int(assembly.plan.events.size.sum())
    return max(SMALLEST_SLICE, min(SLICE_BYTES, -(-total // (SLICES_PER_CORE * parallel))))


class _timed:
    """Adds the time spent inside the ``with`` block to ``seconds[name]``."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.perf_counter() - self.began
