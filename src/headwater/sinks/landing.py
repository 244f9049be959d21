"""WAL landed in change tables: windows planned as the command does, files written by tasks, commits by the driver.

::

    window  ->  tables it has changes of, their columns in the lake  (driver)
            ->  slices: rows of each table into a file under ``staging``  (tasks, which return names and sizes)
            ->  one commit a table, with the LSN of the last transaction in it; then the state behind it all  (driver)

Exactly once: what a table has landed, it says itself, and tasks leave out transactions up to there. So a run that was
killed anywhere begins at the last state that was kept, and what it lands again is only what is missing. Files that no
commit names are nobody's.

Known gaps: changes only, not current rows; a table that is dropped and made again under its name is an error; columns
whose type changes inside a window to one that is not read from the text of the old one are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store import CatalogStore
from headwater.errors import LakeError
from headwater.pipeline.database_plan import DatabasePlan, PlannedWindow
from headwater.pipeline.decode_job import SliceDecoder
from headwater.pipeline.exchange import Handed, Write
from headwater.pipeline.exchange_choice import open_exchange
from headwater.pipeline.open_output import OpenOutput, scope_of
from headwater.pipeline.planned_ahead import PlannedAhead, StepProgress, timed
from headwater.pipeline.request import DecodeRequest, OpenRequest, open_request, settings_together
from headwater.pipeline.row_changes import RowChanges, TableChoice
from headwater.pipeline.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.pipeline.task_run import Progress
from headwater.reorder.cutting import cut_slices
from headwater.reorder.plan import Plan, Slice
from headwater.rows.arrow import is_shown
from headwater.rows.column_types import DELTA, ERROR, PARQUET
from headwater.rows.typed import TypedTable
from headwater.sinks.change_rows import CHANGE_FIELDS, RESERVED, ChangeTable
from headwater.sinks.delta_table import DeltaLakeTable
from headwater.sinks.lake_schema import EVOLVE, LakeColumn, LakeSchema, evolved
from headwater.sinks.lake_table import DataFile, LakeTable, Landed, file_name
from headwater.sinks.parquet_table import ParquetTable
from headwater.slots.kept_state import KeptState, find_state, keep_state
from headwater.slots.value_file import sync_directory

FORMATS = ("parquet", "delta")
_SLICE_BYTES = 64 << 20
_TARGETS = {"parquet": PARQUET, "delta": DELTA}


@dataclass(frozen=True)
class LandingTarget:
    """Where changes land.

    Attributes:
        place: a directory, which is made; each table has one in it.
        format: one of FORMATS.
        on_unrepresentable: see :data:`headwater.rows.column_types.ON_UNREPRESENTABLE`.
        schema_evolution: see :data:`headwater.sinks.lake_schema.SCHEMA_EVOLUTION`.
    """

    place: Path
    format: str = "parquet"
    on_unrepresentable: str = ERROR
    schema_evolution: str = EVOLVE


@dataclass
class LandingResult:
    """What has landed.

    Attributes:
        rows: by table; files: how many; bytes: theirs.
        resolved_lsn: LSN up to which all tables have everything; None if there was no window.
        seconds: wall-clock time of each step.
    """

    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    resolved_lsn: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def land(
    spark: SparkSession,
    request: DecodeRequest,
    target: LandingTarget,
    progress: Progress | None = None,
    bounds: WindowBounds = DEFAULT_BOUNDS,
) -> LandingResult:
    """Land the changes of a window of WAL, from where the last run has come to.

    Args:
        spark: the session whose workers write.
        request: the window, and which tables.
        target: where to.
        progress: called with (step, tasks done, tasks in all).
        bounds: of what is committed at a time.

    Raises:
        LakeError: the tables cannot be written, or are another's.
        HeadwaterError: any reason not to decode. What was committed stays.
    """
    with open_exchange(spark.sparkContext) as exchange, _Lake(target) as lake:
        opened = open_request(request, _rows_of(request), lake.kept())
        told = None if progress is None else StepProgress(progress)
        run = _Landing(PlannedAhead(spark, exchange, _Handing(exchange.hand), bounds, told), opened, lake)
        return run.run()


def _rows_of(request: DecodeRequest) -> partial[RowChanges]:
    return partial(_row_changes, request)


def _row_changes(request: DecodeRequest, store: CatalogStore) -> RowChanges:
    return RowChanges(TableChoice(request.tables), (), store.major, encoding=store.encoding)


@dataclass(frozen=True)
class _Part:
    """A window on its way to the tasks.

    Attributes:
        slices: ready for tasks; versions: of relations that they have changes of, in their order.
        last: the relations as of the window's end, by OID, of those that are there then.
        kept: the state behind it.
    """

    slices: list[Handed[Slice]]
    versions: list[RelationSchema]
    last: dict[int, RelationSchema]
    kept: KeptState


@dataclass(frozen=True)
class _Handing:
    """Makes parts, in the thread that plans."""

    hand: Callable[[Slice], Handed[Slice]]

    def __call__(self, plan: DatabasePlan, window: PlannedWindow) -> _Part:
        """See :data:`headwater.pipeline.planned_ahead.Hand`."""
        (assembly,), behind = window.assemblies, window.behind
        plan_of_window, view = assembly.plan, behind.store.view(window.hi)
        versions = [use.schema for use in plan_of_window.relations if use.wants and not use.is_toast]
        versions += _truncated(plan_of_window, behind.store)
        oids = {destination(version) for version in versions}
        last = {oid: found for oid in oids if (found := view.relation(oid)) is not None}
        slices = [self.hand(one) for one in cut_slices(plan_of_window, _SLICE_BYTES)]
        settings = settings_together(output.opened for output in plan.outputs)
        return _Part(slices, versions, last, KeptState(plan.state_behind(behind), settings))


def _truncated(plan: Plan, store: CatalogStore) -> Iterator[RelationSchema]:
    """Relations that were truncated, as of then; rows of theirs there may be none."""
    for lsn, messages in zip(plan.events.lsn[plan.events.made >= 0].tolist(), plan.events.messages, strict=True):
        oids = [json.loads(message)[_OID] for message in messages]
        yield from (found for oid in oids if (found := store.view(lsn).relation(oid)) is not None)


_OID = 3
"""Where :func:`headwater.pipeline.row_batches.truncate_message` has it."""


def destination(schema: RelationSchema) -> int:
    """OID of the relation whose table gets the changes of a relation: of a partition, the topmost partitioned table."""
    return schema.ancestors[-1] if schema.is_partition and schema.ancestors else schema.oid


@dataclass
class _Lake:
    """The tables of a target; a context manager."""

    target: LandingTarget
    tables: dict[int, tuple[str, LakeTable]] = field(default_factory=dict)

    @property
    def _own(self) -> Path:
        return self.target.place / "_headwater"

    def __enter__(self) -> _Lake:
        try:
            (self._own / "states").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeError(f"{error.strerror or error}", file=str(self._own)) from None
        return self

    def __exit__(self, *_: object) -> None:
        for table in [one for _, one in self.tables.values()]:
            table.close()

    def kept(self) -> KeptState | None:
        """The state where the last run has come to; None for none."""
        states = self._own / "states"
        return find_state(states, 1 << 63) if any(states.glob("*.state")) else None

    def table(self, schema: RelationSchema, source: str) -> tuple[str, LakeTable]:
        """The table of a relation, by its OID: it keeps the name that it had when it landed first."""
        if schema.oid not in self.tables:
            name = self._name(schema)
            place = self.target.place / name
            is_delta = self.target.format == "delta"
            made: LakeTable = DeltaLakeTable(place, source, name) if is_delta else ParquetTable(place, source)
            self.tables[schema.oid] = name, made
        return self.tables[schema.oid]

    def _name(self, schema: RelationSchema) -> str:
        path = self._own / "tables.json"
        names: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        found = names.get(str(schema.oid))
        if found is None:
            found = f"{schema.namespace}.{schema.name}"
            if found in names.values() or "/" in found:
                raise LakeError(
                    f'"{found}" is another table now, of OID {schema.oid}, or no name of a directory',
                    hint="land it to another place, or leave it out (--tables)",
                )
            _replace(path, json.dumps({**names, str(schema.oid): found}))
        return found

    def resolve(self, kept: KeptState) -> None:
        """All tables have everything up to a state."""
        states = self._own / "states"
        path = keep_state(states, kept)
        for other in states.glob("*.state"):
            if other != path:
                other.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    os.replace(part, path)
    sync_directory(path.parent)


@dataclass(frozen=True)
class _Written:
    """A file that a task has written.

    Attributes:
        table: the number of its table in the window; file: it; last: START of the last commit record in it.
    """

    table: int
    file: DataFile
    last: int


@dataclass
class _Landing:
    """One call of :func:`land`."""

    ahead: PlannedAhead[_Part]
    opened: OpenRequest
    lake: _Lake
    result: LandingResult = field(default_factory=LandingResult)

    def run(self) -> LandingResult:
        """Window by window."""
        plan = DatabasePlan([OpenOutput(self.opened, scope_of(self.opened))])
        with closing(self.ahead.windows([plan])) as windows:
            for window in windows:
                (part,) = window.parts
                with timed(self.ahead.seconds, "land"):
                    self._land(part)
                self.result.resolved_lsn = window.hi
        self.result.seconds = self.ahead.seconds
        return self.result

    @property
    def _source(self) -> str:
        return f"{self.opened.directory.system_identifier}/{self.opened.store.database_oid}"

    def _land(self, part: _Part) -> None:
        forms = self._forms(part)
        for number, files in self._written(part, [form for _, _, form in forms]).items():
            name, table, form = forms[number]
            last = max(one.last for one in files)
            table.commit([one.file for one in files], Landed(last, form.schema, self._source))
            self.result.rows[name] = self.result.rows.get(name, 0) + sum(one.file.rows for one in files)
            self.result.files += len(files)
            self.result.bytes += sum(one.file.size for one in files)
        self.lake.resolve(part.kept)

    def _forms(self, part: _Part) -> list[tuple[str, LakeTable, ChangeTable]]:
        """The tables that a window has changes of."""
        groups: dict[int, list[RelationSchema]] = {}
        for version in part.versions:
            groups.setdefault(destination(version), []).append(version)
        return [self._form(part.last.get(oid) or _last(oid, versions), versions) for oid, versions in groups.items()]

    def _form(self, last: RelationSchema, versions: list[RelationSchema]) -> tuple[str, LakeTable, ChangeTable]:
        target = self.lake.target
        name, table = self.lake.table(last, self._source)
        whole = _with_dropped(last, versions)
        _require_names(whole, versions)
        typed = TypedTable(whole, target.on_unrepresentable, _TARGETS[target.format])
        before = None if table.landed.schema is None else LakeSchema.of(table.landed.schema)
        columns = [LakeColumn(one.name, one.number, typed.type_of(one).arrow) for one in typed.columns]
        lake = evolved(before, last.oid, columns, RESERVED, target.schema_evolution, f"table {name}")
        names = tuple(_name_of(lake, one) for one in columns)
        schema = pa.schema([*CHANGE_FIELDS, *lake.fields])
        relations = frozenset(one.oid for one in versions) | {last.oid}
        return name, table, ChangeTable(typed, names, schema, relations, table.landed.commit_lsn)

    def _written(self, part: _Part, forms: list[ChangeTable]) -> dict[int, list[_Written]]:
        """What tasks have written, by table."""
        decoder = SliceDecoder(self.opened.directory, self.opened.plugin, self.opened.session)
        places = [self.lake.tables[form.table.schema.oid][1].staging for form in forms]
        work = partial(_write, decoder, forms, places)
        found: dict[int, list[_Written]] = {}
        exchange, progress = self.ahead.exchange, self.ahead.job_progress()
        with exchange.run("land", work, part.slices, progress) as arriving:
            for (arrived,) in arriving:
                arrived.remove()
                for one in arrived.summary:
                    found.setdefault(one.table, []).append(one)
        return found


def _last(oid: int, versions: Sequence[RelationSchema]) -> RelationSchema:
    """A relation that is gone at the window's end, as it was last."""
    own = [one for one in versions if one.oid == oid]
    return own[-1] if own else replace(versions[-1], oid=oid)


def _with_dropped(last: RelationSchema, versions: Sequence[RelationSchema]) -> RelationSchema:
    """A relation with the columns that it had in the window and has no more."""
    columns = list(last.columns)
    for version in versions:
        for column in version.columns if version.oid == last.oid else ():
            at = column.number - 1
            if is_shown(column) and not is_shown(columns[at]) and columns[at].is_dropped:
                columns[at] = column
    return replace(last, columns=tuple(columns))


def _require_names(root: RelationSchema, versions: Sequence[RelationSchema]) -> None:
    """Whether a partitioned table has all columns that its partitions have, which are known by their names.

    Raises:
        LakeError: one was renamed in the window.
    """
    names = {column.name for column in root.columns}
    for version in versions:
        lost = [column.name for column in version.columns if is_shown(column) and column.name not in names]
        if lost and version.oid != root.oid:
            raise LakeError(
                f'column "{lost[0]}" of partition "{version.namespace}.{version.name}" is none of '
                f'"{root.namespace}.{root.name}" at the window\'s end',
                hint="land the time before apart (--end)",
            )


def _name_of(lake: LakeSchema, column: LakeColumn) -> str:
    found = lake.column(column.number)
    assert found is not None
    return found.name


def _write(
    decoder: SliceDecoder, forms: Sequence[ChangeTable], places: Sequence[str], task: Handed[Slice]
) -> Iterator[Write[list[_Written]]]:
    """Runs once per slice, in a task: one file for each table."""

    def write(_: BinaryIO) -> list[_Written]:
        located = decoder.located(task.load())
        found = [(number, form.rows(located)) for number, form in enumerate(forms)]
        return [_file(number, places[number], rows) for number, rows in found if rows is not None]

    yield write


def _file(number: int, place: str, rows: pa.Table) -> _Written:
    """Write rows into a file of a name that no other attempt has."""
    last = int(np.max(rows["_commit_lsn"].to_numpy()))
    name = file_name(last)
    path = os.path.join(place, name)
    pq.write_table(rows, path, compression="zstd")
    bounds = {"_commit_lsn": [int(value) for value in (rows["_commit_lsn"][0].as_py(), last)]}
    lower, upper = ({name: pair[at] for name, pair in bounds.items()} for at in (0, 1))
    return _Written(number, DataFile(name, rows.num_rows, os.path.getsize(path), lower, upper), last)
