"""The command's run: windows are planned (:mod:`headwater.pipeline.windows.windows`), decoded in tasks, and delivered.

A run has one output or several, of one database or several: the WAL is indexed once for all of them. A task that
decodes what several outputs want of a stretch of WAL reads it once.

The data source hands the same plans to Spark as partitions (:mod:`headwater.source.source_plan`, ``stream_planner``);
here the index is made in tasks, too, and one window is decoded while the next is planned. What driver and tasks hand
each other goes through an exchange (:mod:`headwater.jobs.exchange`): files, or Spark where they share no directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from headwater.errors import errors_of, errors_of_output
from headwater.jobs.engine import Engine
from headwater.jobs.exchange import Arrived, Exchange, Handed, Write
from headwater.jobs.outcome import Progress
from headwater.pg.version import VERSIONS
from headwater.pipeline.engines import engine_of
from headwater.pipeline.open_run import OpenRun, open_run
from headwater.pipeline.outputs import Decoded, DecodeResult, Deliver, Output
from headwater.pipeline.requests.open_request import OpenRequest, settings_together, start_of
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slices.decode_job import SliceDecoder, collected_together, joined_ranges
from headwater.pipeline.slices.message_files import MessageCounts, MessageForm, write_messages
from headwater.pipeline.slices.tentative_messages import Settlement
from headwater.pipeline.window_pipeline import PIECES, HandedWindow, StepProgress, WindowPipeline, timed
from headwater.pipeline.windows.assemble import Assembly
from headwater.pipeline.windows.database_fold import DatabaseFold, PlannedWindow
from headwater.pipeline.windows.databases import DatabaseChoice, label_of
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.windows.windows import NewPlans
from headwater.reorder.commits.state import State
from headwater.reorder.plan import Ranges, Slice
from headwater.reorder.slices.cutting import cut_together, even_slice
from headwater.rows.collect.collect import SliceChanges
from headwater.slots.kept_state import KeptState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICES_PER_CORE = 2
"""Slices for each task that can run at once, if they are worth it: who takes the messages begins with the first."""


TASK_VALUES = (PIECES, Slice)
"""What goes between driver and tasks; see :mod:`headwater.spark.kernel_loading`."""


@dataclass(frozen=True)
class RunSettings:
    """The way a run is done; what comes out is the same.

    Attributes:
        progress: called with (step, tasks done, tasks in all); None for nobody.
        scratch: an existing directory that driver and executors share; a temporary one is made inside it.
        place: an existing directory for the driver's files without ``scratch``; None for where temporary files go.
        bounds: of a window: WAL is planned window by window.
        keep: called with the state after each window, which has what every output needs.
    """

    progress: Progress | None = None
    scratch: str | None = None
    place: str | None = None
    bounds: WindowBounds = DEFAULT_BOUNDS
    keep: Callable[[KeptState], None] | None = None


AS_USUAL = RunSettings()


def decode(
    spark: SparkSession | Engine,
    request: DecodeRequest,
    form: MessageForm = MessageForm.ARROW,
    deliver: Deliver | None = None,
    kept_state: KeptState | None = None,
    settings: RunSettings = AS_USUAL,
) -> DecodeResult:
    """Decode a window of WAL of one database for one output.

    Args:
        request: what to decode; form, deliver: see :class:`Output`.
        spark, kept_state, settings: as those of :func:`decode_outputs`.

    Returns:
        the messages.

    Raises:
        HeadwaterError: any reason not to decode; nothing is left then.
    """
    output = Output(request, form, lambda _: deliver)
    decoded = decode_outputs(spark, [output], None, kept_state, settings)
    ((result,),) = decoded.databases.values()
    return result


def decode_outputs(
    spark: SparkSession | Engine,
    outputs: Sequence[Output],
    choice: DatabaseChoice | None = None,
    kept_state: KeptState | None = None,
    settings: RunSettings = AS_USUAL,
) -> Decoded:
    """Decode a window of WAL for one output or several, in one pass over it.

    Args:
        spark: the session whose workers decode, or another engine.
        outputs: what is made of it, one at least.
        choice: of several databases of a cluster, each of which is decoded for every output; None for the one that the
            requests name.
        kept_state: a state to go on from, in the catalog's place; of one database.
        settings: the way it is done.

    Returns:
        the messages of each.

    Raises:
        HeadwaterError: any reason not to decode for any of them; nothing is left then.
    """
    return decode_run(
        engine_of(spark), open_run([output.request for output in outputs], choice, kept_state), outputs, settings
    )


def decode_run(engine: Engine, run: OpenRun, outputs: Sequence[Output], settings: RunSettings = AS_USUAL) -> Decoded:
    """Decode what has been opened; see :func:`decode_outputs`.

    Args:
        engine: runs the tasks.
        run: what is decoded; outputs: what is made of it, in the order of the requests that were opened.
        settings: how.
    """
    engine = engine.for_bytes(run.wal_bytes)
    exchange = engine.open_exchange(settings.scratch, settings.place)
    try:
        report = None if settings.progress is None else StepProgress(settings.progress)
        return _Run(engine, report, exchange, outputs, settings.bounds, settings.keep).decoded(run)
    except BaseException:
        exchange.close()
        raise


@dataclass(frozen=True)
class _HandedOutput:
    """One output's share of a window of a database.

    Attributes:
        transactions, changes, passed_over, read_again: counts; see :class:`DecodeResult`.
    """

    transactions: int
    changes: int
    passed_over: int
    read_again: int


@dataclass(frozen=True)
class _HandedPart:
    """A database's part of a window.

    Attributes:
        plan: the database's.
        groups: slices that are ready for tasks, each with the number of its output; those of an output in its order.
        outputs: of each output.
        read_again: bytes of WAL that tasks read.
        consistent_at: LSN where decoding could begin, None if it could not yet.
        state: makes the state after it.
    """

    plan: DatabaseFold
    groups: list[list[tuple[int, Handed[Slice]]]]
    outputs: list[_HandedOutput]
    read_again: int
    consistent_at: int | None
    state: Callable[[], State]


@dataclass(frozen=True)
class _Task(Handed[list[Slice]]):
    """Slices of some outputs of one of several databases, which read about the same WAL.

    Attributes:
        number: the database's.
        outputs: numbers of the outputs; handed: the slice of each.
    """

    number: int
    outputs: tuple[int, ...]
    handed: tuple[Handed[Slice], ...]

    def load(self) -> list[Slice]:
        return [piece.load() for piece in self.handed]

    def remove(self) -> None:
        for piece in self.handed:
            piece.remove()


@dataclass(frozen=True)
class _Making:
    """The things that a task makes messages with, for one output of a database; pickles."""

    decoder: SliceDecoder
    form: MessageForm
    is_text: bool
    lsn_digits: int
    database: str | None
    output: str | None

    @classmethod
    def of(cls, plan: DatabaseFold, number: int, form: MessageForm) -> _Making:
        """Return the maker of messages for an output, by its number."""
        opened = plan.outputs[number].opened
        is_lines = form in (MessageForm.LINES, MessageForm.LINES_WITH_LSN)
        return cls(
            SliceDecoder(opened.directory, opened.plugin, opened.session),
            form,
            opened.plugin.traits.is_text if is_lines else opened.is_text,
            VERSIONS[opened.directory.major].lsn_digits,
            plan.name,
            plan.outputs[number].name,
        )

    def write(self, plan: Slice, changes: SliceChanges, sink: BinaryIO) -> MessageCounts:
        """Print a slice's changes, and write its messages."""
        with errors_of(self.database), errors_of_output(self.output):
            messages = self.decoder.messages_of(self.decoder.printed(plan, changes))
            return write_messages(sink, messages, self.form, self.is_text, self.lsn_digits)


@dataclass(frozen=True)
class _Begun:
    """A window whose job runs.

    Attributes:
        window: it.
        tasks: of the job; arriving: the files of each, in their order.
        block: at its end the job runs no more.
    """

    window: HandedWindow[_HandedPart]
    tasks: list[_Task]
    arriving: Iterator[list[Arrived[MessageCounts]]]
    block: ExitStack


@dataclass
class _Run:
    """One call of :func:`decode_outputs`."""

    engine: Engine
    progress: StepProgress | None
    exchange: Exchange
    outputs: Sequence[Output]
    bounds: WindowBounds = DEFAULT_BOUNDS
    keep: Callable[[KeptState], None] | None = None
    labels: dict[DatabaseFold, str] = field(default_factory=dict)
    results: dict[DatabaseFold, list[DecodeResult]] = field(default_factory=dict)
    settlements: dict[DatabaseFold, list[Settlement]] = field(default_factory=dict)
    read_again: int = 0

    def __post_init__(self) -> None:
        self._ahead = WindowPipeline(self.engine, self.exchange, self._handed_part, self.bounds, self.progress)
        self.seconds = self._ahead.seconds

    def decoded(self, run: OpenRun) -> Decoded:
        """Decode what has been opened."""
        self.seconds["open"] = run.seconds
        self._decode_all(run.plans, run.new_plans)
        results = {self.labels[plan]: self.results[plan] for plan in run.decoded_plans()}
        return Decoded(results, sum(self._ahead.indexed), self.read_again, self.seconds, self.exchange)

    def _decode_all(self, plans: Sequence[DatabaseFold], new_plans: NewPlans) -> None:
        """Go window by window: a window's job begins when it is planned, while messages of the one before are taken."""
        with self._ahead.driven(plans, new_plans) as (windows, behind):
            for window in windows:
                begun = self._begun(window)
                behind.begin(partial(self._finish, begun), begun.block.close)

    def _finish(self, begun: _Begun) -> None:
        """Take a window's messages; one at a time, in their order."""
        with timed(self.seconds, "decode"), begun.block:
            for part in begun.window.parts:
                self._note(part, begun.window.hi)
            for task, files in zip(begun.tasks, begun.arriving, strict=True):
                for output, file in zip(task.outputs, files, strict=True):
                    self._take(begun.window.parts[task.number].plan, output, file)

    def _note(self, part: _HandedPart, hi: int) -> None:
        """Add a window's counts to a database's results."""
        plan = part.plan
        if plan not in self.results:
            self.labels[plan] = label_of(plan.opened.store, self.labels.values())
            self.results[plan] = [self._no_result(output.opened, part, hi) for output in plan.outputs]
            self.settlements[plan] = [Settlement() for _ in plan.outputs]
        self.read_again += part.read_again
        for result, counts in zip(self.results[plan], part.outputs, strict=True):
            result.transactions += counts.transactions
            result.changes += counts.changes
            result.passed_over += counts.passed_over
            result.read_again += counts.read_again
            result.wal_bytes = hi - start_of(plan.opened)
            result.consistent_at = part.consistent_at or 0
            result.end_lsn, result.state = hi, part.state

    def _no_result(self, opened: OpenRequest, part: _HandedPart, hi: int) -> DecodeResult:
        return DecodeResult(
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

    def _handed_part(self, plan: DatabaseFold, window: PlannedWindow) -> _HandedPart:
        """Return a part of a window, with its slices handed over."""
        handed = self._handed(plan, window)
        if self.keep is not None:
            self.keep(KeptState(handed.state(), settings_together(output.opened for output in plan.outputs)))
        return handed

    def _handed(self, plan: DatabaseFold, window: PlannedWindow) -> _HandedPart:
        assemblies, behind = window.assemblies, window.behind
        plans = [assembly.plan for assembly in assemblies]
        groups = cut_together(plans, even_slice(plans, SLICES_PER_CORE * self._ahead.parallel))
        read = [_bytes_of(joined_ranges([piece for _, piece in group])) for group in groups]
        return _HandedPart(
            plan=plan,
            groups=[[(number, self.exchange.hand(piece)) for number, piece in group] for group in groups],
            outputs=[_handed_output(number, assembly, groups) for number, assembly in enumerate(assemblies)],
            read_again=sum(read),
            consistent_at=behind.control.builder.consistent_at,
            state=lambda: plan.state_behind(behind),
        )

    def _begun(self, window: HandedWindow[_HandedPart]) -> _Begun:
        """Begin one job for the slices of all databases and outputs."""
        parts, block = window.parts, ExitStack()
        makings = [
            [_Making.of(part.plan, number, self.outputs[number].form) for number in range(len(part.outputs))]
            for part in parts
        ]

        def work(task: _Task) -> Iterator[Write[MessageCounts]]:
            chosen, slices = [makings[task.number][number] for number in task.outputs], task.load()
            with errors_of(chosen[0].database):
                collected = collected_together(
                    [(maker.decoder, plan) for maker, plan in zip(chosen, slices, strict=True)]
                )
            for making, plan in zip(chosen, slices, strict=True):
                # What one output has is gone when the next one's is printed.
                yield partial(making.write, plan, collected.pop(0))

        tasks = [_Task(number, *zip(*group, strict=True)) for number, part in enumerate(parts) for group in part.groups]
        job = self.exchange.run("decode", work, tasks, self._ahead.job_progress())
        return _Begun(window, tasks, block.enter_context(job), block)

    def _take(self, plan: DatabaseFold, number: int, arrived: Arrived[MessageCounts]) -> None:
        result, settlement, output = self.results[plan][number], self.settlements[plan][number], self.outputs[number]
        arrived = replace(arrived, summary=settlement.settle(arrived.path, arrived.summary, output.form))
        result.files.append(arrived)
        result.messages += arrived.summary.messages
        result.filtered += arrived.summary.filtered
        result.changes -= arrived.summary.filtered
        deliver = output.deliver(self.labels[plan])
        if deliver is not None:
            deliver(arrived.path)
            arrived.remove()


def _handed_output(number: int, assembly: Assembly, groups: Sequence[Sequence[tuple[int, Slice]]]) -> _HandedOutput:
    pieces = (piece for group in groups for output, piece in group if output == number)
    read = sum(_bytes_of(piece.ranges) for piece in pieces)
    return _HandedOutput(assembly.transactions, assembly.changes, assembly.passed_over, read)


def _bytes_of(ranges: Ranges) -> int:
    return sum(high - low for low, high in ranges)
