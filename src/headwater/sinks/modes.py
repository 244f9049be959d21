"""What a target keeps of the source: its changes, its rows as they are, or with all versions that they have had.

A :class:`Mode` says what tasks stage of each table, and what becomes of that: one :class:`Settled` a table, which is
committed. The flow around it is the same (:mod:`headwater.sinks.landing`). A table of changes takes the files as they
are; a mirror has them merged into its own (:mod:`headwater.sinks.mirror`), in tasks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter

import pyarrow as pa
import pyarrow.compute as pc

from headwater.catalog.relation import Column, RelationSchema
from headwater.catalog.store import CatalogStore
from headwater.errors import LakeError, UsageError
from headwater.lakes.history_rows import TO_LSN, VALID_FIELDS
from headwater.lakes.lake import Lake
from headwater.lakes.lake_schema import SPLIT, Shape
from headwater.lakes.lake_table import DataFile, LakeTable, Sought
from headwater.lakes.landing_target import LandingTarget
from headwater.pipeline.assemble import Assembly
from headwater.pipeline.decode_job import SliceDecoder
from headwater.rows.missing_scalars import missing_scalar
from headwater.sinks.change_rows import RESERVED, STAGED_FIELDS, ChangeTable, StagedChanges
from headwater.sinks.merge_plan import Group, groups, is_small
from headwater.sinks.mirror import Merge, Merged, Moved, Staged, staged_rows
from headwater.sinks.mirror_form import PARTITION, MirrorForm
from headwater.sinks.mirrored import Identity, TableStory, identity_of, left_with_rows
from headwater.sinks.moved_rows import Handover, changes_besides
from headwater.sinks.source_tables import (
    LandedColumns,
    SourceTable,
    change_table,
    landed_columns,
    mirrored_tables,
    shape_of,
    source_tables,
)
from headwater.sinks.stored_types import Retyped

CHANGELOG, CURRENT, HISTORY = "changelog", "current", "history"


@dataclass(frozen=True)
class Written:
    """A file that a task has written.

    Attributes:
        table: the number of its table in the window; file: it; last: START of the last commit record in it.
        kills: rows of relations ended at once in it.
        moves_unchanged: see :class:`~headwater.sinks.mirror.Staged`.
    """

    table: int
    file: DataFile
    last: int
    kills: bool = False
    moves_unchanged: bool = False


@dataclass(frozen=True)
class Landing:
    """A table of a window on its way.

    Attributes:
        number: in the window; name: in the lake; table: there.
        source: of the source.
        changes: what tasks need to know of it; schema: its columns in the lake.
        mirror: what merges need to know of it; None of a table of changes.
    """

    number: int
    name: str
    table: LakeTable
    source: SourceTable
    changes: ChangeTable
    schema: pa.Schema
    mirror: MirrorForm | None = None


@dataclass(frozen=True)
class Settled:
    """What is committed of a table.

    Attributes:
        landing: it.
        added, removed: files, and paths of files.
        last: START of the last commit record that it then has.
        rows: changes that have landed.
    """

    landing: Landing
    added: list[DataFile]
    removed: list[str]
    last: int
    rows: int


@dataclass(frozen=True)
class Merging:
    """What runs merges.

    Attributes:
        run: runs a task for each; parallel: how many can run at once.
    """

    run: Callable[[Sequence[Merge]], list[Merged]]
    parallel: int


class Mode(ABC):
    """What a target keeps.

    Attributes:
        name: as the command has it.
        mirrors: see :class:`~headwater.pipeline.row_changes.RowChanges`.
    """

    name: str
    mirrors: bool

    @abstractmethod
    def tables(
        self,
        assembly: Assembly,
        store: CatalogStore,
        lo: int,
        hi: int,
        wants: Callable[[RelationSchema], bool],
        since: int,
    ) -> list[SourceTable]:
        """The tables that a window concerns; in the thread that plans. See :func:`mirrored_tables`."""

    def shape(self, schema: RelationSchema) -> Shape | None:
        """Which columns the lake's table must have, of the several that a table may have there; None for any."""
        return None

    @abstractmethod
    def existing(self, source: SourceTable) -> SourceTable:
        """A table whose rows were there before, with what is to be known of it.

        Raises:
            LakeError: its rows cannot be told apart.
        """

    @abstractmethod
    def concerns(self, source: SourceTable, lake: Lake) -> bool:
        """Whether anything of a table is to be done."""

    @abstractmethod
    def landing(
        self, number: int, source: SourceTable, named: tuple[str, LakeTable], lake: Lake, decoder: SliceDecoder
    ) -> Landing:
        """A table on its way.

        Raises:
            LakeError: the window cannot be landed in it.
        """

    @abstractmethod
    def settled(
        self, landings: Sequence[Landing], written: Mapping[int, list[Written]], merging: Merging
    ) -> Iterator[Settled]:
        """What is committed of each table of which there is anything.

        Args:
            landings: of the window.
            written: what tasks have staged, by the number of the table.
            merging: runs merges.

        Raises:
            LakeError: changes do not fit the tables.
        """

    @abstractmethod
    def loaded(self, landing: Landing, files: list[DataFile], lsn: int, merging: Merging) -> Settled:
        """What is committed of a table whose rows were there before.

        Args:
            landing: it.
            files: what tasks have staged of it.
            lsn: that it then has.
            merging: runs merges.
        """


class Changelog(Mode):
    """Every change is a row.

    Args:
        shapes: tell of each version of a table which columns it has in the lake; None where one table holds all.
    """

    name = CHANGELOG
    mirrors = False

    def __init__(self, shapes: Callable[[RelationSchema], Shape] | None = None) -> None:
        self.shapes = shapes

    def tables(
        self,
        assembly: Assembly,
        store: CatalogStore,
        lo: int,
        hi: int,
        wants: Callable[[RelationSchema], bool],
        since: int,
    ) -> list[SourceTable]:
        """See :class:`Mode`."""
        return source_tables(assembly.plan, store, lo, hi, since, self.shapes)

    def shape(self, schema: RelationSchema) -> Shape | None:
        """See :class:`Mode`."""
        return None if self.shapes is None else self.shapes(schema)

    def existing(self, source: SourceTable) -> SourceTable:
        """See :class:`Mode`."""
        return source

    def concerns(self, source: SourceTable, lake: Lake) -> bool:
        """All of them."""
        return True

    def landing(
        self, number: int, source: SourceTable, named: tuple[str, LakeTable], lake: Lake, decoder: SliceDecoder
    ) -> Landing:
        """See :class:`Mode`."""
        name, table = named
        changes = change_table(source, table, name, lake.target)
        return Landing(number, name, table, source, changes, changes.schema)

    def settled(
        self, landings: Sequence[Landing], written: Mapping[int, list[Written]], merging: Merging
    ) -> Iterator[Settled]:
        """The files as they are."""
        # Of a table's several the earlier ones first: what they lack, none that comes later is to stand for.
        for number, files in sorted(written.items()):
            added = [one.file for one in files]
            last = max(one.last for one in files)
            yield Settled(landings[number], added, [], last, sum(one.rows for one in added))

    def loaded(self, landing: Landing, files: list[DataFile], lsn: int, merging: Merging) -> Settled:
        """The files as they are."""
        return Settled(landing, files, [], lsn, sum(one.rows for one in files))


class Mirror(Mode):
    """The rows that the source has.

    Args:
        has_history: with all versions that they have had.
    """

    mirrors = True

    def __init__(self, *, has_history: bool) -> None:
        self.has_history = has_history
        self.name = HISTORY if has_history else CURRENT

    def tables(
        self,
        assembly: Assembly,
        store: CatalogStore,
        lo: int,
        hi: int,
        wants: Callable[[RelationSchema], bool],
        since: int,
    ) -> list[SourceTable]:
        """See :class:`Mode`."""
        return mirrored_tables(assembly.plan, store, lo, hi, wants, assembly.catalog_times, since)

    def existing(self, source: SourceTable) -> SourceTable:
        """See :class:`Mode`."""
        members = frozenset({source.last.oid, *(one.oid for one in source.versions)})
        return replace(source, story=TableStory(identity_of(source.versions, source.last), members))

    def concerns(self, source: SourceTable, lake: Lake) -> bool:
        """Tables that have changes, or that rows come to, or that there are already."""
        assert source.story is not None
        return bool(source.versions or source.story.coming) or lake.has(source.last)

    def landing(
        self, number: int, source: SourceTable, named: tuple[str, LakeTable], lake: Lake, decoder: SliceDecoder
    ) -> Landing:
        """See :class:`Mode`."""
        name, table = named
        assert source.story is not None
        if source.story.refusal is not None and source.story.refused_at > table.landed.commit_lsn:
            raise source.story.refusal
        if source.versions and lake.is_detached(source.last):
            raise left_with_rows(source.last)
        lake.note_detached(source.story.detached)
        reserved = [*RESERVED, *(one.name for one in (*STAGED_FIELDS, PARTITION, *VALID_FIELDS))]
        columns = landed_columns(source, table, name, lake.target, reserved)
        fills = _fills(columns, source.story, decoder)
        changes = StagedChanges(
            columns.typed,
            columns.names,
            pa.schema([*STAGED_FIELDS, *columns.lake.fields]),
            table.landed.commit_lsn,
            lake.staging(number),
            None,
            name,
            source.story.members,
            fills,
            tuple(sorted({one.lsn for one in source.story.coming if one.lsn > table.landed.commit_lsn})),
        )
        mirror = self._form(name, source, table, columns, fills)
        return Landing(number, name, table, source, changes, mirror.schema, mirror)

    def _form(
        self, name: str, source: SourceTable, table: LakeTable, columns: LandedColumns, fills: Mapping[int, pa.Scalar]
    ) -> MirrorForm:
        assert source.story is not None
        own = [*(VALID_FIELDS if self.has_history else ()), *([PARTITION] if source.last.kind == "p" else [])]
        names = dict(zip([one.number for one in columns.typed.columns], columns.names, strict=True))
        alive = [one for one in source.last.columns if one.number in names and not _is_gone(one, source)]
        known = set() if columns.before is None else {one.name for one in columns.before.columns}
        return MirrorForm(
            name,
            table.file_schema(pa.schema([*own, *columns.lake.fields])),
            tuple(names[one.number] for one in alive),
            source.story.identity,
            _key(source.story.identity, source.last, names),
            table.staging,
            self.has_history,
            tuple(one for one in source.story.gone if one.lsn > table.landed.commit_lsn),
            {names[number]: fill for number, fill in fills.items() if names[number] not in known},
            _becoming(columns),
            {names[one.number]: one for one in _retyped(source.story, table) if one.number in names},
            tuple(one for one in source.story.rewritten if one.lsn > table.landed.commit_lsn and one.number in names),
            names,
            source.last.topmost != source.last.oid,
        )

    def settled(
        self, landings: Sequence[Landing], written: Mapping[int, list[Written]], merging: Merging
    ) -> Iterator[Settled]:
        """The files that stand for those that had to be rewritten; of a table that rows come to before it has them."""
        for landing in landings:
            _require_columns(landing, written.get(landing.number, []))
        staged = {landing.number: list(written.get(landing.number, [])) for landing in landings}
        done: dict[int, list[Merged]] = {landing.number: [] for landing in landings}
        leaving = _leaving(landings)
        stages = list(_stages(landings, leaving))
        for stage in stages:
            merges = [one for landing in stage for one in _merges(landing, staged, leaving, merging.parallel)]
            for merged in merging.run(merges) if merges else []:
                done[merged.table].append(merged)
                for moved in merged.moved:
                    _insert(staged[moved.table], moved)
        for landing in (landing for stage in reversed(stages) for landing in stage):
            files, parts = staged[landing.number], done[landing.number]
            last = _last(landing, files)
            if files or parts or landing.schema != landing.table.landed.schema:
                added = [file for part in parts for file in part.added]
                removed = [path for part in parts for path in part.removed]
                yield Settled(landing, added, removed, last, sum(one.file.rows for one in files))

    def loaded(self, landing: Landing, files: list[DataFile], lsn: int, merging: Merging) -> Settled:
        """The same rows, in the order of the key."""
        staged = [Written(landing.number, file, lsn) for file in files]
        found = list(self.settled([landing], {landing.number: staged}, merging))
        return replace(found[0], last=lsn) if found else Settled(landing, [], [], lsn, 0)


MODES: Mapping[str, Mode] = {
    CHANGELOG: Changelog(),
    CURRENT: Mirror(has_history=False),
    HISTORY: Mirror(has_history=True),
}


def mode_of(target: LandingTarget) -> Mode:
    """What a target keeps.

    Raises:
        UsageError: it cannot be kept so.
    """
    if target.schema_evolution != SPLIT:
        return MODES[target.mode]
    if target.mode != CHANGELOG:
        raise UsageError(
            "a mirror is one table, whatever its columns",
            hint="--schema-evolution split is for change tables (--mode changelog)",
        )
    return Changelog(partial(shape_of, target=target))


def _is_gone(column: Column, source: SourceTable) -> bool:
    return column.is_dropped or column.number in source.dropped


def _key(identity: Identity, last: RelationSchema, names: Mapping[int, str]) -> tuple[str, ...]:
    """Names in the lake of the key's columns.

    Raises:
        LakeError: one is not a column of the table any more.
    """
    numbers = {one.name: one.number for one in last.columns if one.number in names}
    lost = [name for name in identity.columns if name not in numbers]
    if lost:
        raise LakeError(
            f'column "{lost[0]}" of the key of table "{last.namespace}.{last.name}" was dropped in the window',
            hint="end the window before that (--end), and go on from there",
        )
    return tuple(names[numbers[name]] for name in identity.columns)


def _fills(columns: LandedColumns, story: TableStory, decoder: SliceDecoder) -> dict[int, pa.Scalar]:
    """What columns that were added hold in rows from before, by their numbers."""
    own = {one.number: one for one in columns.typed.columns}
    return {
        number: missing_scalar(column, own[number], columns.typed, decoder.session)
        for number, column in story.missing
        if number in own
    }


def _retyped(story: TableStory, table: LakeTable) -> tuple[Retyped, ...]:
    """Those columns of a story's, unless the window has landed in the table already."""
    return story.retyped if story.changed_at > table.landed.commit_lsn else ()


def _becoming(columns: LandedColumns) -> dict[str, str]:
    """Columns of the lake that are new, by those of the same column of the source that files have."""
    if columns.before is None:
        return {}
    known = {one.name for one in columns.before.columns}
    older = {one.number: one.name for one in columns.before.columns}
    return {
        one.name: older[one.number] for one in columns.lake.columns if one.name not in known and one.number in older
    }


def _last(landing: Landing, files: Sequence[Written]) -> int:
    """START of the last commit record that a table has."""
    assert landing.source.story is not None
    return max([landing.table.landed.commit_lsn, landing.source.story.changed_at, *(one.last for one in files)])


def _leaving(landings: Sequence[Landing]) -> dict[int, list[Handover]]:
    """Rows that go from one mirror to another, by the number of the one that they leave.

    Raises:
        LakeError: columns of one become others besides.
    """
    found: dict[int, list[Handover]] = {landing.number: [] for landing in landings}
    givers = {landing.source.last.oid: landing for landing in landings}
    for landing in landings:
        assert landing.source.story is not None
        for arrival in landing.source.story.coming:
            giver = givers.get(arrival.giver)
            if giver is None or arrival.lsn <= landing.table.landed.commit_lsn:
                continue  # it has no mirror, as it has had no rows; or they have come already
            assert giver.mirror is not None
            assert isinstance(giver.changes, StagedChanges)
            assert isinstance(landing.changes, StagedChanges)
            if not giver.mirror.is_steady:
                raise changes_besides(giver.name, landing.name, arrival.lsn)
            found[giver.number].append(Handover.of(arrival, giver.changes, landing.number, landing.changes))
    return found


def _stages(landings: Sequence[Landing], leaving: Mapping[int, Sequence[Handover]]) -> Iterator[list[Landing]]:
    """Mirrors that can be merged at once; each behind those whose rows come to it.

    Raises:
        LakeError: rows go in a circle.
    """
    sorter = TopologicalSorter[int]({landing.number: () for landing in landings})
    for giver, found in leaving.items():
        for one in found:
            sorter.add(one.table, giver)
    try:
        sorter.prepare()
    except CycleError:
        (first, *_) = (one for found in leaving.values() for one in found)
        raise LakeError(
            "partitions with rows go from one table to another, and others back, in one window",
            lsn=first.arrival.lsn,
            hint="end the window before that (--end), and go on from there",
        ) from None
    known = {landing.number: landing for landing in landings}
    while sorter.is_active():
        ready = sorter.get_ready()
        yield [known[number] for number in sorted(ready)]
        sorter.done(*ready)


def _insert(files: list[Written], moved: Moved) -> None:
    """Put rows that come with a commit before what it, and later ones, have changed."""
    at = next((number for number, one in enumerate(files) if one.last >= moved.lsn), len(files))
    files.insert(at, Written(moved.table, moved.file, moved.lsn))


def _merges(
    landing: Landing, staged: Mapping[int, Sequence[Written]], leaving: Mapping[int, Sequence[Handover]], parallel: int
) -> Iterator[Merge]:
    """The tasks of a mirror; as many as can run at once, if there is enough for them."""
    files = staged[landing.number]
    form, kills = landing.mirror, any(one.kills for one in files)
    assert form is not None
    if not files and not form.gone and not form.rewrites_all:
        return
    paths = tuple(f"{landing.changes.staging}/{one.file.path}" for one in files)
    touches_all = kills or bool(form.gone) or form.rewrites_all
    sought = Sought(paths, form.key, touches_all or form.identity.is_whole)
    # Versions that have ended are in files that nobody rewrites.
    mine = {path: one for path, one in landing.table.concerned(sought).items() if not _is_closed(one)}
    is_one = form.identity.is_whole or not form.key or any(one.moves_unchanged for one in files) or not paths
    if is_one:
        found = [Group(None, None, tuple(one for one in mine.values() if _concerns(form, one, touches_all)))]
    else:
        values = staged_rows(paths, [form.key[0]])[0]
        found = groups(mine, form.key[0], values, touches_all=touches_all, tasks=parallel)
    for group in found:
        yield Merge(
            landing.number,
            form,
            paths,
            group.above,
            group.upto,
            tuple((one.path, landing.table.locate(one.path)) for one in group.files),
            frozenset(one.path for one in group.files if is_small(one)),
            _last(landing, files),
            sum(one.size for one in group.files) + sum(one.file.size for one in files),
            tuple(leaving[landing.number]),
        )


def _require_columns(landing: Landing, files: Sequence[Written]) -> None:
    """Whether rows can be had in a mirror.

    Raises:
        LakeError: their table has no columns.
    """
    assert landing.mirror is not None
    if files and not landing.mirror.source_columns:
        schema = landing.source.last
        first = staged_rows([f"{landing.changes.staging}/{files[0].file.path}"], ["_lsn"])["_lsn"][0]
        raise LakeError(
            f'table "{schema.namespace}.{schema.name}" has no columns, and has rows: a mirror cannot have them',
            lsn=first.as_py(),
            hint="land it to another place, as changes (--mode changelog), or leave it out there (--tables)",
        )


def _concerns(form: MirrorForm, file: DataFile, touches_all: bool) -> bool:
    """Whether changes that are not told by a key's first column may be of a file's rows."""
    return not form.identity.is_none or touches_all or is_small(file)


def _is_closed(file: DataFile) -> bool:
    """Whether all versions in a file have ended; other programs put some together with valid ones."""
    return TO_LSN in file.lower and file.nulls.get(TO_LSN) == 0


def notes(table: int, form: ChangeTable, file: DataFile, last: int, rows: pa.Table) -> Written:
    """What the driver needs to know of a file that a task has written."""
    if not form.is_staged:
        return Written(table, file, last)
    is_truncate = pc.any(pc.equal(rows["_change_type"], "truncate")).as_py()
    is_rewritten = pc.any(pc.not_equal(rows["_heap"], 0)).as_py()
    return Written(table, file, last, bool(is_truncate or is_rewritten), Staged.of(rows).moves_unchanged)
