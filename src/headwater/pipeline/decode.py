"""The whole flow in one file: index, assemble, plan, decode, deliver.

This is the command's way; the data source goes through the same steps in :mod:`headwater.pipeline.source`. Steps 1 and
4 are Spark tasks, 2 and 3 run here on the driver. Tasks leave their results in files of a scratch directory that driver
and workers share; only file names travel through Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.pipeline.assemble import Assembly, assemble
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.delivery import Deliver, deliver_while_running
from headwater.pipeline.index_job import IndexTask, index_start, index_tasks
from headwater.pipeline.message_files import MessageFile, MessageForm, message_table, write_messages
from headwater.pipeline.reach import check_reach
from headwater.pipeline.request import DecodeRequest, OpenRequest, open_request
from headwater.pipeline.scratch import Stored, store
from headwater.pipeline.spark import Progress, run_tasks
from headwater.pipeline.window import Window
from headwater.reorder.merge import merge_indexes
from headwater.reorder.plan import Slice
from headwater.rmgr.index import UNREFINED, Refinement, WalIndex
from headwater.temporary_directories import OwnDirectory
from headwater.trusted_paths import check_private

SLICES_PER_CORE = 3
"""Slices for each task that can run at once, if they are worth it: who takes the messages begins with the first."""

SLICE_BYTES = 128 << 20
"""Upper bound of the WAL bytes of one decode task, except for a transaction's parts that cannot be cut."""

SMALLEST_SLICE = 4 << 20


@dataclass
class DecodeResult:
    """The messages of a decoded window, in files; use it as a context manager, or call :meth:`close`.

    Attributes:
        files: the tasks' files, in output order; gone if they have been delivered.
        is_text: the messages are UTF-8 text.
        transactions, changes, messages: counts; changes are rows that gave a message.
        wal_bytes: bytes of WAL read.
        consistent_at: LSN where decoding could begin.
        end_lsn: where the window ended.
        seconds: wall-clock time of each step.
        scratch: the directory that holds the files.
    """

    files: list[MessageFile]
    is_text: bool
    transactions: int
    changes: int
    messages: int
    wal_bytes: int
    consistent_at: int
    end_lsn: int
    seconds: dict[str, float]
    scratch: OwnDirectory

    def tables(self) -> Iterator[pa.Table]:
        """Tables of ``lsn int64, xid int64, data string|binary``, in order."""
        for file in self.files:
            yield message_table(file.path)

    def close(self) -> None:
        """Remove the files."""
        self.scratch.close()

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
) -> DecodeResult:
    """Decode a window of WAL.

    Args:
        spark: the session whose workers decode.
        request: what to decode.
        progress: called with (step, tasks done, tasks in all).
        form: what the tasks write.
        scratch: an existing directory that driver and workers share; a temporary one is made inside it.
        deliver: takes the files in output order while later ones are made, and each is removed then; an error that
            comes later takes nothing back that it did.

    Returns:
        the messages.

    Raises:
        HeadwaterError: any reason not to decode; nothing is left behind then.
    """
    directory = OwnDirectory(scratch)
    try:
        check_private(directory.path, "choose a --scratch directory whose file system keeps owners and modes")
        return _Run(spark, progress, directory, deliver).decode(request, form)
    except BaseException:
        directory.close()
        raise


@dataclass
class _Run:
    """One call of :func:`decode`."""

    spark: SparkSession
    progress: Progress | None
    scratch: OwnDirectory
    deliver: Deliver | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    passes: int = 0

    def decode(self, request: DecodeRequest, form: MessageForm) -> DecodeResult:
        """The five steps."""
        opened, index, assembly = self._assemble(request, UNREFINED)
        while isinstance(assembly, Refinement):
            opened, index, assembly = self._assemble(request, opened.refinement | assembly)
        with _timed(self.seconds, "plan"):
            slices = assembly.plan.slices(_slice_bytes(assembly, self._parallel))
            stored = [store(one, self._path("slice", one.number)) for one in slices]
        with _timed(self.seconds, "decode"):
            files = self._decode(opened, stored, form)
        return DecodeResult(
            files=files,
            is_text=opened.is_text,
            transactions=assembly.transactions,
            changes=assembly.changes,
            messages=sum(file.messages for file in files),
            wal_bytes=index.hi - index.lo,
            consistent_at=assembly.consistent_at,
            end_lsn=index.hi,
            seconds=self.seconds,
            scratch=self.scratch,
        )

    @property
    def _parallel(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def _path(self, kind: str, number: int) -> str:
        return str(self.scratch.path / f"{kind}-{self.passes}-{number:08d}")

    def _assemble(
        self, request: DecodeRequest, refinement: Refinement
    ) -> tuple[OpenRequest, WalIndex, Assembly | Refinement]:
        self.passes += 1
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
        numbered = [(task, self._path("index", number)) for number, task in enumerate(tasks)]
        stored = run_tasks(self.spark.sparkContext, "index", _run_index, numbered, self.progress)
        return merge_indexes([piece for one in stored for piece in one.take()])

    def _decode(self, opened: OpenRequest, slices: list[Stored[Slice]], form: MessageForm) -> list[MessageFile]:
        decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        is_text = opened.is_text if form is MessageForm.ARROW else opened.plugin.is_text

        def run(stored: Stored[Slice]) -> MessageFile:
            return write_messages(decoder.messages(stored.load()), f"{stored.path}.messages", form, is_text)

        context = self.spark.sparkContext
        if self.deliver is None:
            return run_tasks(context, "decode", run, slices, self.progress)

        group = f"headwater decode {self.scratch.path.name}"

        def job() -> list[MessageFile]:
            return run_tasks(context, "decode", run, slices, self.progress, group)

        paths = [f"{one.path}.messages" for one in slices]
        return deliver_while_running(job, lambda: context.cancelJobGroup(group), paths, self.deliver)


def _run_index(numbered: tuple[IndexTask, str]) -> Stored[list[WalIndex]]:
    task, path = numbered
    return store(task.run(), path)


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
