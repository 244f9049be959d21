"""The whole flow in one file: index, assemble, plan, decode, deliver.

The only module that joins all rooms. Steps 1 and 4 are Spark tasks, 2 and 3 run here on the driver. Tasks leave their
messages in files of a scratch directory that driver and workers share; only file names travel through Spark.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.pipeline.assemble import Assembly, Window, assemble
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.index_job import index_tasks
from headwater.pipeline.message_files import MessageFile, MessageForm, write_messages
from headwater.pipeline.request import DecodeRequest, OpenRequest, open_request
from headwater.pipeline.spark import Progress, run_tasks
from headwater.reorder.merge import merge_indexes
from headwater.reorder.plan import Slice
from headwater.rmgr.index import Locator, Request, WalIndex

SLICE_BYTES = 48 << 20
"""Upper bound of the WAL bytes of one decode task, except for a transaction's parts that cannot be cut."""

SMALLEST_SLICE = 4 << 20


@dataclass
class DecodeResult:
    """The messages of a decoded window, in files; use it as a context manager, or call :meth:`close`.

    Attributes:
        files: the tasks' files, in output order.
        is_text: the plugin writes text.
        transactions, changes, messages: counts; changes are rows that gave a message.
        wal_bytes: bytes of WAL read.
        end_lsn: where the window ended.
        seconds: wall-clock time of each step.
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
    scratch: Path
    _closed: bool = field(default=False, repr=False)

    def tables(self) -> Iterator[pa.Table]:
        """Tables of ``lsn int64, xid int64, data string|binary``, in order."""
        for file in self.files:
            yield file.table()

    def close(self) -> None:
        """Remove the files."""
        if not self._closed:
            shutil.rmtree(self.scratch, ignore_errors=True)
            self._closed = True

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
) -> DecodeResult:
    """Decode a window of WAL.

    Args:
        spark: the session whose workers decode.
        request: what to decode.
        progress: called with (step, tasks done, tasks in all).
        form: what the tasks write.
        scratch: an existing directory that driver and workers share; a temporary one is made inside it.

    Returns:
        the messages.

    Raises:
        HeadwaterError: any reason not to decode; nothing is left behind then.
    """
    seconds: dict[str, float] = {}
    parallel = spark.sparkContext.defaultParallelism
    with _timed(seconds, "open"):
        opened = open_request(request)
    with _timed(seconds, "index"):
        opened, index = _index(spark, opened, progress)
    with _timed(seconds, "assemble"):
        assembly = assemble(index, opened.store, opened.plugin, Window(request.start or 0, request.end))
        opened, index, assembly = _follow_rewrites(spark, opened, index, assembly, progress)
        opened.plugin.validate(opened.store.view(index.hi))
    with _timed(seconds, "plan"):
        slices = assembly.plan.slices(_slice_bytes(assembly, parallel))
    directory = Path(tempfile.mkdtemp(prefix="headwater-", dir=scratch))
    try:
        with _timed(seconds, "decode"):
            files = _decode(spark, opened, slices, directory, form, progress)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return DecodeResult(
        files=files,
        is_text=opened.plugin.is_text,
        transactions=assembly.transactions,
        changes=assembly.changes,
        messages=sum(file.messages for file in files),
        wal_bytes=index.hi - index.lo,
        consistent_at=assembly.consistent_at,
        end_lsn=index.hi,
        seconds=seconds,
        scratch=directory,
    )


def _index(spark: SparkSession, opened: OpenRequest, progress: Progress | None) -> tuple[OpenRequest, WalIndex]:
    store = opened.store
    wanted = Request(store.database_oid, tuple(sorted(store.locators())), store.major)
    parallel = spark.sparkContext.defaultParallelism
    tasks = index_tasks(opened.directory, store.start_lsn, opened.request.end, wanted, parallel)
    return opened, merge_indexes(run_tasks(spark.sparkContext, "index", _run_index, tasks, progress))


def _run_index(task):  # type: ignore[no-untyped-def]
    return task.run()


def _follow_rewrites(
    spark: SparkSession, opened: OpenRequest, index: WalIndex, assembly: Assembly, progress: Progress | None
) -> tuple[OpenRequest, WalIndex, Assembly]:
    """Index again while the window turns out to rewrite catalogs into files the index did not keep."""
    extra: frozenset[Locator] = frozenset()
    while missing := opened.store.missing_locators():
        extra |= missing
        opened, index = _index(spark, open_request(opened.request, extra), progress)
        window = Window(opened.request.start or 0, opened.request.end)
        assembly = assemble(index, opened.store, opened.plugin, window)
    return opened, index, assembly


def _slice_bytes(assembly: Assembly, parallel: int) -> int:
    total = int(assembly.plan.rows.size.sum())
    return max(SMALLEST_SLICE, min(SLICE_BYTES, -(-total // (2 * parallel))))


def _decode(
    spark: SparkSession,
    opened: OpenRequest,
    slices: list[Slice],
    directory: Path,
    form: MessageForm,
    progress: Progress | None,
) -> list[MessageFile]:
    decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
    is_text = opened.plugin.is_text

    def run(plan: Slice) -> MessageFile:
        path = os.path.join(directory, f"{plan.number:08d}")
        return write_messages(decoder.messages(plan), path, form, is_text)

    return run_tasks(spark.sparkContext, "decode", run, slices, progress)


class _timed:
    """Adds the time spent inside the ``with`` block to ``seconds[name]``."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.perf_counter() - self.began
