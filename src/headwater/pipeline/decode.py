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
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import BinaryIO

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.errors import errors_of
from headwater.pg.version import VERSIONS
from headwater.pipeline.assemble import Assembly
from headwater.pipeline.database_plan import DatabasePlan, PlannedWindow
from headwater.pipeline.databases import ChosenDatabases, DatabaseChoice, exists, label_of, warn_of_namesakes
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.exchange import Arrived, Exchange, Handed
from headwater.pipeline.exchange_choice import open_exchange
from headwater.pipeline.index_job import IndexTask
from headwater.pipeline.message_files import MessageCounts, MessageForm, message_table, write_messages
from headwater.pipeline.request import DecodeRequest, OpenRequest, open_request
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.scratch import store_value
from headwater.pipeline.settling import Settlement
from headwater.pipeline.task_run import Progress
from headwater.pipeline.window import Scope
from headwater.pipeline.windows import NewPlans, Pass, nothing_new
from headwater.reorder.cutting import cut_slices
from headwater.reorder.plan import Slice
from headwater.reorder.state import State
from headwater.rmgr.index import WalIndex
from headwater.slots.kept_state import KeptState

SLICES_PER_CORE = 2
"""Slices for each task that can run at once, if they are worth it: who takes the messages begins with the first."""

SLICE_BYTES = 64 << 20
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
        transactions, changes, messages: counts; changes are rows that gave a message; transactions those of which any
            was wanted, also if row filters left none.
        wal_bytes: bytes of WAL read; read_again: bytes of the stretches of it that were decoded.
        passed_over: changes that nobody wanted, and that were not taken apart; filtered: those that row filters have
            left out, which were, but were not printed.
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
    read_again: int
    passed_over: int
    filtered: int
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


@dataclass
class DecodedDatabases:
    """The messages of several databases; use it as a context manager, or call :meth:`close`.

    Attributes:
        databases: of each by its label: its name as of when it was met, with its OID behind it if an earlier one had
            the same name. In the order in which they were met.
        seconds: wall-clock time of each step.
        exchange: what holds the files.
    """

    databases: dict[str, DecodeResult]
    seconds: dict[str, float]
    exchange: Exchange

    def __enter__(self) -> DecodedDatabases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exchange.close()


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
        run = _Run(spark, told, exchange, form, lambda label: deliver, bounds, keep)
        with _timed(run.seconds, "open"):
            opened = open_request(request, kept=kept)
        scope = Scope(opened.directory.segment_size, request.start or 0, request.tables)
        (result,) = run.decode([DatabasePlan(opened, scope)], warn_of_namesakes)
        return result
    except BaseException:
        exchange.close()
        raise


def decode_databases(
    spark: SparkSession,
    request: DecodeRequest,
    choice: DatabaseChoice,
    progress: Progress | None = None,
    form: MessageForm = MessageForm.ARROW,
    scratch: str | None = None,
    deliver: Callable[[str], Deliver | None] | None = None,
    place: str | None = None,
    bounds: WindowBounds = DEFAULT_BOUNDS,
) -> DecodedDatabases:
    """Decode a window of WAL for several databases of a cluster, in one pass over it.

    Args:
        spark, progress, form, scratch, place, bounds: as those of :func:`decode`.
        request: what to decode of each; it names no database.
        choice: of the databases.
        deliver: gives what takes the files of a database, known by its label, in their order; None for none.

    Returns:
        the messages of each.

    Raises:
        HeadwaterError: any reason not to decode any of them; nothing is left behind then.
    """
    exchange = open_exchange(spark.sparkContext, scratch, place)
    try:
        told = None if progress is None else StepProgress(progress)
        run = _Run(spark, told, exchange, form, deliver or (lambda label: None), bounds)
        with _timed(run.seconds, "open"):
            chosen = ChosenDatabases.open(request, choice)
        run.decode(chosen.first, chosen.new_plans)
        last = chosen.first[0].store
        chosen.check_found(last)
        results = {run.labels[plan]: run.results[plan] for plan in chosen.plans if exists(plan, last)}
        return DecodedDatabases(results, run.seconds, exchange)
    except BaseException:
        exchange.close()
        raise


@dataclass(frozen=True)
class _HandedPart:
    """A database's part of a window.

    Attributes:
        plan: the database's.
        slices: ready for tasks, in output order.
        transactions, changes, passed_over, read_again: counts; see :class:`DecodeResult`.
        consistent_at: LSN where decoding could begin, None if it could not yet.
        state: makes the state behind it.
    """

    plan: DatabasePlan
    slices: list[Handed[Slice]]
    transactions: int
    changes: int
    passed_over: int
    read_again: int
    consistent_at: int | None
    state: Callable[[], State]


@dataclass(frozen=True)
class _HandedWindow:
    """A window whose slices are ready for tasks.

    Attributes:
        parts: of each database.
        hi: LSN where its WAL ends.
        is_last: no window follows.
    """

    parts: list[_HandedPart]
    hi: int
    is_last: bool


@dataclass(frozen=True)
class _Task(Handed[Slice]):
    """A slice of one of several databases."""

    number: int
    handed: Handed[Slice]

    def load(self) -> Slice:
        """See :class:`Handed`."""
        return self.handed.load()

    def remove(self) -> None:
        """See :class:`Handed`."""
        self.handed.remove()


@dataclass
class _Run:
    """One call of :func:`decode` or :func:`decode_databases`."""

    spark: SparkSession
    progress: StepProgress | None
    exchange: Exchange
    form: MessageForm
    deliver: Callable[[str], Deliver | None]
    bounds: WindowBounds = DEFAULT_BOUNDS
    keep: Callable[[KeptState], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    labels: dict[DatabasePlan, str] = field(default_factory=dict)
    results: dict[DatabasePlan, DecodeResult] = field(default_factory=dict)
    settlements: dict[DatabasePlan, Settlement] = field(default_factory=dict)
    _is_long: bool = False

    def decode(self, plans: Sequence[DatabasePlan], new_plans: NewPlans = nothing_new) -> list[DecodeResult]:
        """Window by window: while one is decoded, the next is planned, and the one behind that is indexed."""
        over = Pass(plans, self._index, self._parallel, self.bounds, new_plans=new_plans)
        # Of a window that is done nothing is kept: what it leaves behind holds a catalog.
        with closing(self._planned_ahead(self._windows(over))) as windows:
            for window in windows:
                for part in window.parts:
                    self._note(part, window.hi)
                with _timed(self.seconds, "decode"):
                    self._decode(window.parts)
                self._report(plans[0].opened, window)
        return list(self.results.values())

    def _note(self, part: _HandedPart, hi: int) -> None:
        """Add a window's counts to a database's result."""
        opened = part.plan.opened
        result = self.results.get(part.plan)
        if result is None:
            self.labels[part.plan] = label_of(opened.store, self.labels.values())
            result = self.results[part.plan] = DecodeResult(
                files=[],
                is_text=opened.is_text,
                transactions=0,
                changes=0,
                messages=0,
                wal_bytes=0,
                read_again=0,
                passed_over=0,
                filtered=0,
                consistent_at=0,
                end_lsn=hi,
                state=part.state,
                server_settings=opened.server_settings,
                seconds=self.seconds,
                exchange=self.exchange,
            )
        result.transactions += part.transactions
        result.changes += part.changes
        result.passed_over += part.passed_over
        result.read_again += part.read_again
        result.wal_bytes = hi - _start_of(opened)
        result.consistent_at = part.consistent_at or 0
        result.end_lsn, result.state = hi, part.state

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
        lo = _start_of(opened)
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

    def _windows(self, over: Pass) -> Iterator[_HandedWindow]:
        windows = iter(over)
        while True:
            with _timed(self.seconds, "plan"):
                handed = self._handed(next(windows))
            if self.keep is not None:
                for part in handed.parts:
                    self.keep(KeptState(part.state(), part.plan.opened.server_settings))
            yield handed

    def _handed(self, windows: dict[DatabasePlan, PlannedWindow]) -> _HandedWindow:
        """Their slices handed over; the plans they were cut from are large and go."""
        ((hi, is_last),) = {(window.hi, window.is_last) for window in windows.values()}
        return _HandedWindow([self._handed_part(plan, windows.pop(plan)) for plan in list(windows)], hi, is_last)

    def _handed_part(self, plan: DatabasePlan, window: PlannedWindow) -> _HandedPart:
        assembly, behind = window.assembly, window.behind
        slices = cut_slices(assembly.plan, _slice_bytes(assembly, self._parallel))
        return _HandedPart(
            plan=plan,
            slices=[self.exchange.hand(one) for one in slices],
            transactions=assembly.transactions,
            changes=assembly.changes,
            passed_over=assembly.passed_over,
            read_again=sum(high - low for one in slices for low, high in one.ranges),
            consistent_at=behind.control.builder.consistent_at,
            state=lambda: plan.state_behind(behind),
        )

    def _index(self, tasks: Sequence[IndexTask]) -> list[list[WalIndex]]:
        with (
            _timed(self.seconds, "index"),
            self.exchange.run("index", _write_index, tasks, self._job_progress()) as arriving,
        ):
            return [list(one.take(_PIECES)) for one in arriving]

    def _decode(self, parts: Sequence[_HandedPart]) -> None:
        """One job for the slices of all databases."""
        form = self.form
        is_lines = form in (MessageForm.LINES, MessageForm.LINES_WITH_LSN)
        names = [part.plan.name for part in parts]
        openings = [part.plan.opened for part in parts]
        decoders = [SliceDecoder(one.directory, one.plugin, one.session) for one in openings]
        are_text = [one.plugin.is_text if is_lines else one.is_text for one in openings]
        digits = VERSIONS[openings[0].directory.major].lsn_digits

        def write(task: _Task, sink: BinaryIO) -> MessageCounts:
            with errors_of(names[task.number]):
                messages = decoders[task.number].messages(task.load())
                return write_messages(sink, messages, form, are_text[task.number], digits)

        tasks = [_Task(number, one) for number, part in enumerate(parts) for one in part.slices]
        with self.exchange.run("decode", write, tasks, self._job_progress()) as arriving:
            for task, one in zip(tasks, arriving, strict=True):
                self._take(parts[task.number].plan, one)

    def _take(self, plan: DatabasePlan, arrived: Arrived[MessageCounts]) -> None:
        result, settlement = self.results[plan], self.settlements.setdefault(plan, Settlement())
        arrived = replace(arrived, summary=settlement.settle(arrived.path, arrived.summary, self.form))
        result.files.append(arrived)
        result.messages += arrived.summary.messages
        result.filtered += arrived.summary.filtered
        result.changes -= arrived.summary.filtered
        deliver = self.deliver(self.labels[plan])
        if deliver is not None:
            deliver(arrived.path)
            arrived.remove()


def _start_of(opened: OpenRequest) -> int:
    return opened.store.start_lsn if opened.state is None else opened.state.lsn


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
