"""The command's run: windows are planned (:mod:`headwater.pipeline.windows`), decoded in Spark tasks, and delivered.

The data source hands the same plans to Spark as partitions (:mod:`headwater.pipeline.source_plan`, ``stream_planner``);
here the index is made in tasks, too, and one window is decoded while the next is planned. What driver and tasks hand
each other goes through an exchange (:mod:`headwater.pipeline.exchange`): files, or Spark where they share no directory.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import BinaryIO

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.pg.version import VERSIONS
from headwater.pipeline.assemble import Assembly
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.exchange import Arrived, Exchange, Handed
from headwater.pipeline.exchange_choice import open_exchange
from headwater.pipeline.index_job import IndexTask
from headwater.pipeline.message_files import MessageCounts, MessageForm, message_table, write_messages
from headwater.pipeline.request import DecodeRequest, OpenRequest, open_request
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.scratch import store_value
from headwater.pipeline.task_run import Progress
from headwater.pipeline.window import Scope
from headwater.pipeline.windows import PlannedWindow, PlanWindows
from headwater.reorder.cutting import cut_slices
from headwater.reorder.plan import Slice
from headwater.reorder.state import State
from headwater.rmgr.index import WalIndex
from headwater.slots.kept_state import KeptState

SLICES_PER_CORE = 2
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
        state: makes the state behind it, for a session that goes on there.
        server_settings: settings of the server's configuration that values were printed under.
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
    state: Callable[[], State]
    server_settings: tuple[tuple[str, str], ...]
    seconds: dict[str, float]
    exchange: Exchange

    @property
    def bytes(self) -> int:
        """Bytes of the messages' data."""
        return sum(file.summary.size for file in self.files)

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
    bounds: WindowBounds = DEFAULT_BOUNDS,
    kept: KeptState | None = None,
    keep: Callable[[KeptState], None] | None = None,
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
        bounds: of a window: WAL is planned window by window.
        kept: a state to go on from, in the catalog's place.
        keep: called with the state behind each window.
        place: an existing directory for the driver's files without ``scratch``; None for where temporary files go.

    Returns:
        the messages.

    Raises:
        HeadwaterError: any reason not to decode; nothing is left behind then.
    """
    exchange = open_exchange(spark.sparkContext, scratch, place)
    try:
        told = None if progress is None else StepProgress(progress)
        return _Run(spark, told, exchange, deliver, bounds, keep).decode(request, form, kept)
    except BaseException:
        exchange.close()
        raise


@dataclass(frozen=True)
class _HandedWindow:
    """A window whose slices are ready for tasks.

    Attributes:
        slices: them, in output order.
        transactions, changes: counts.
        consistent_at: LSN where decoding could begin, None if it could not yet.
        hi: LSN where its WAL ends.
        is_last: no window follows.
        state: makes the state behind it.
    """

    slices: list[Handed[Slice]]
    transactions: int
    changes: int
    consistent_at: int | None
    hi: int
    is_last: bool
    state: Callable[[], State]


@dataclass
class _Run:
    """One call of :func:`decode`."""

    spark: SparkSession
    progress: StepProgress | None
    exchange: Exchange
    deliver: Deliver | None = None
    bounds: WindowBounds = DEFAULT_BOUNDS
    keep: Callable[[KeptState], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _is_long: bool = False

    def decode(self, request: DecodeRequest, form: MessageForm, kept: KeptState | None) -> DecodeResult:
        """Window by window: while one is decoded, the next is planned, and the one behind that is indexed."""
        with _timed(self.seconds, "open"):
            opened = open_request(request, kept=kept)
        files: list[Arrived[MessageCounts]] = []
        transactions = changes = 0
        # Of a window that is done nothing is kept: what it leaves behind holds a catalog.
        with closing(self._planned_ahead(self._windows(opened))) as windows:
            for window in windows:
                with _timed(self.seconds, "decode"):
                    files += self._decode(opened, window.slices, form)
                transactions, changes = transactions + window.transactions, changes + window.changes
                self._report(opened, window)
        return DecodeResult(
            files=files,
            is_text=opened.is_text,
            transactions=transactions,
            changes=changes,
            messages=sum(file.summary.messages for file in files),
            wal_bytes=window.hi - (opened.store.start_lsn if opened.state is None else opened.state.lsn),
            consistent_at=window.consistent_at or 0,
            end_lsn=window.hi,
            state=window.state,
            server_settings=opened.server_settings,
            seconds=self.seconds,
            exchange=self.exchange,
        )

    def _planned_ahead(self, windows: Iterator[_HandedWindow]) -> Generator[_HandedWindow]:
        """The windows; while one is decoded, the next is planned."""
        with ThreadPoolExecutor(1, "headwater-plan") as planner, self._ending_what_runs():
            planned: Future[_HandedWindow] | None = planner.submit(next, windows)
            while planned is not None:
                window = planned.result()
                planned = None if window.is_last else planner.submit(next, windows)
                yield window

    @contextmanager
    def _ending_what_runs(self) -> Iterator[None]:
        """Who gives up a window does not wait until the next one is planned."""
        try:
            yield
        except BaseException:
            self.exchange.stop()
            raise

    def _report(self, opened: OpenRequest, window: _HandedWindow) -> None:
        """How much of the WAL has been gone through, unless one window holds it all."""
        lo = opened.store.start_lsn if opened.state is None else opened.state.lsn
        self._is_long |= not window.is_last
        if self.progress is None or not self._is_long:
            return
        hi = window.hi if window.is_last else min(opened.directory.stop_lsn, opened.request.end or sys.maxsize)
        self.progress.report("MB of WAL", (window.hi - lo) >> 20, (hi - lo) >> 20)

    def _job_progress(self) -> Progress | None:
        return None if self.progress is None else self.progress.of_job()

    @property
    def _parallel(self) -> int:
        return int(self.spark.sparkContext.defaultParallelism)

    def _windows(self, opened: OpenRequest) -> Iterator[_HandedWindow]:
        request = opened.request
        scope = Scope(opened.directory.segment_size, request.start or 0, request.tables)
        plans = PlanWindows(opened, scope, self._index, self._parallel, bounds=self.bounds)
        windows = iter(plans)
        while True:
            with _timed(self.seconds, "plan"):
                handed = self._handed(plans, next(windows))
            if self.keep is not None:
                self.keep(KeptState(handed.state(), opened.server_settings))
            yield handed

    def _handed(self, plans: PlanWindows, window: PlannedWindow) -> _HandedWindow:
        """Its slices handed over; the plan they were cut from is large and goes."""
        assembly, behind = window.assembly, window.behind
        slices = cut_slices(assembly.plan, _slice_bytes(assembly, self._parallel))
        return _HandedWindow(
            slices=[self.exchange.hand(one) for one in slices],
            transactions=assembly.transactions,
            changes=assembly.changes,
            consistent_at=behind.control.builder.consistent_at,
            hi=window.hi,
            is_last=window.is_last,
            state=lambda: plans.state_behind(behind),
        )

    def _index(self, tasks: Sequence[IndexTask]) -> list[list[WalIndex]]:
        with (
            _timed(self.seconds, "index"),
            self.exchange.run("index", _write_index, tasks, self._job_progress()) as arriving,
        ):
            return [list(one.take(_PIECES)) for one in arriving]

    def _decode(
        self, opened: OpenRequest, slices: list[Handed[Slice]], form: MessageForm
    ) -> list[Arrived[MessageCounts]]:
        decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
        is_text = opened.plugin.is_text if form in (MessageForm.LINES, MessageForm.LINES_WITH_LSN) else opened.is_text
        digits = VERSIONS[opened.directory.major].lsn_digits

        def write(handed: Handed[Slice], sink: BinaryIO) -> MessageCounts:
            return write_messages(sink, decoder.messages(handed.load()), form, is_text, digits)

        files = []
        with self.exchange.run("decode", write, slices, self._job_progress()) as arriving:
            for one in arriving:
                files.append(one)
                if self.deliver is not None:
                    self.deliver(one.path)
                    one.remove()
        return files


@dataclass
class StepProgress:
    """Tells of a step's tasks in all its jobs, of which some run side by side.

    Attributes:
        report: told of them.
    """

    report: Progress
    _done: Counter[str] = field(default_factory=Counter)
    _total: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_job(self) -> Progress:
        """For one more job."""
        before = 0, 0

        def told(name: str, done: int, total: int) -> None:
            nonlocal before
            with self._lock:
                self._done[name] += done - before[0]
                self._total[name] += total - before[1]
                before = done, total
                sums = self._done[name], self._total[name]
            self.report(name, *sums)

        return told


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
