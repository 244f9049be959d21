"""Modes of a target: it keeps the source's changes, its rows as they are, or with all versions that they have had.

A :class:`Mode` says what tasks stage of each table, and what becomes of that: one :class:`Settled` a table, which is
committed. The flow around it is the same (:mod:`headwater.landing.landing`). A table of changes takes the files as they
are; a mirror has them merged into its own (:mod:`headwater.landing.mirrors.merge_task`), in tasks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from headwater.base.overrides import override
from headwater.catalog.relation import Column, RelationSchema
from headwater.errors import LakeError, UsageError
from headwater.lakes.lake_schema import SPLIT, Shape
from headwater.lakes.lake_table import DataFile, LakeTable
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.paused import RELOADED_OR_CHANGES
from headwater.lakes.target_directory import Lake
from headwater.landing.mirrors.landed_files import Landing, Merging, Settled, Written
from headwater.landing.mirrors.mirror_form import MirrorForm, own_fields
from headwater.landing.mirrors.mirror_merges import settled_mirrors
from headwater.landing.settings.column_settings import require_rows_told
from headwater.landing.tables.catalog_changes import CatalogWindow
from headwater.landing.tables.change_rows import STAGED_FIELDS, StagedChanges
from headwater.landing.tables.partition_rows import left_with_rows
from headwater.landing.tables.source_tables import (
    LandedColumns,
    SourceTable,
    change_table,
    landed_columns,
    mirrored_tables,
    shape_of,
    source_tables,
)
from headwater.landing.tables.stored_types import Retyped, Rewritten
from headwater.landing.tables.table_events import Identity, TableStory, identity_of
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.windows.assemble import Assembly
from headwater.plugins.table_patterns import qualified_name
from headwater.rows.columns.typed_missing_values import missing_value

CHANGELOG, CURRENT, HISTORY = "changelog", "current", "history"


class Mode(ABC):
    """The mode of a target.

    Attributes:
        name: as the command has it.
        mirrors: see :class:`~headwater.plugins.rows.plugin.RowChanges`.
    """

    name: str
    mirrors: bool

    def of(self, schema: RelationSchema) -> Mode:  # noqa: ARG002
        """Return the mode of one table; a target's tables may have several."""
        return self

    @abstractmethod
    def tables(
        self, assembly: Assembly, window: CatalogWindow, wants: Callable[[RelationSchema], bool], since: int
    ) -> list[SourceTable]:
        """Return the tables that a window concerns; in the thread that plans. See :func:`mirrored_tables`."""

    def shape(self, schema: RelationSchema) -> Shape | None:  # noqa: ARG002
        """Tell which columns the lake's table must have, of the several that a table may have there; None for any."""
        return None

    @abstractmethod
    def existing(self, source: SourceTable) -> SourceTable:
        """Return a table whose rows were there before, with what is to be known of it.

        Raises:
            LakeError: its rows cannot be distinguished.
        """

    @abstractmethod
    def concerns(self, source: SourceTable, lake: Lake) -> bool:
        """Tell whether anything of a table is to be done."""

    @abstractmethod
    def landing(
        self, number: int, source: SourceTable, named: tuple[str, LakeTable], lake: Lake, decoder: SliceDecoder
    ) -> Landing:
        """Return a table on its way.

        Raises:
            LakeError: the window cannot be landed in it.
        """

    @abstractmethod
    def settled(
        self, landings: Sequence[Landing], written: Mapping[int, list[Written]], merging: Merging
    ) -> Iterator[Settled]:
        """Give the commits of the tables of which there is anything.

        Args:
            landings: of the window.
            written: what tasks have staged, by the number of the table.
            merging: runs merges.

        Raises:
            LakeError: changes do not fit the tables.
        """

    @abstractmethod
    def loaded(self, landing: Landing, files: list[DataFile], lsn: int, merging: Merging) -> Settled:
        """Return the commit of a table whose rows were there before.

        Args:
            landing: the table's.
            files: what tasks have staged of it.
            lsn: the one that it then has.
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

    @override
    def tables(
        self, assembly: Assembly, window: CatalogWindow, wants: Callable[[RelationSchema], bool], since: int
    ) -> list[SourceTable]:
        return source_tables(assembly.plan, window, since, self.shapes)

    def shape(self, schema: RelationSchema) -> Shape | None:
        return None if self.shapes is None else self.shapes(schema)

    def existing(self, source: SourceTable) -> SourceTable:
        return source

    @override
    def concerns(self, source: SourceTable, lake: Lake) -> bool:
        return True

    @override
    def landing(
        self, number: int, source: SourceTable, named: tuple[str, LakeTable], lake: Lake, decoder: SliceDecoder
    ) -> Landing:
        name, table = named
        changes = change_table(source, table, name, lake)
        return Landing(number, name, table, source, changes, changes.schema)

    @override
    def settled(
        self, landings: Sequence[Landing], written: Mapping[int, list[Written]], merging: Merging
    ) -> Iterator[Settled]:
        """Yield the files as they are."""
        # Of a table's several the earlier ones first: what they lack, none that comes later is to stand for.
        for number, files in sorted(written.items()):
            added = [file.file for file in files]
            last = max(file.last for file in files)
            yield Settled(landings[number], added, [], last, sum(file.rows for file in added))

    @override
    def loaded(self, landing: Landing, files: list[DataFile], lsn: int, merging: Merging) -> Settled:
        """Return the files as they are."""
        return Settled(landing, files, [], lsn, sum(file.rows for file in files))


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
        self, assembly: Assembly, window: CatalogWindow, wants: Callable[[RelationSchema], bool], since: int
    ) -> list[SourceTable]:
        return mirrored_tables(assembly, window, wants, since)

    def existing(self, source: SourceTable) -> SourceTable:
        members = frozenset({source.last.oid, *(version.oid for version in source.versions)})
        return replace(source, story=TableStory(identity_of(source.versions, source.last), members))

    def concerns(self, source: SourceTable, lake: Lake) -> bool:
        """Tell whether a table has changes, or rows come to it, or it is there already."""
        assert source.story is not None
        return bool(source.versions or source.story.coming) or lake.names.has_relation(source.last.oid)

    def landing(
        self, number: int, source: SourceTable, named: tuple[str, LakeTable], lake: Lake, decoder: SliceDecoder
    ) -> Landing:
        name, table = named
        assert source.story is not None
        if source.story.refusal is not None and source.story.refused_at > table.landed.commit_lsn:
            raise source.story.refusal
        if source.versions and lake.registry.is_detached(source.last.oid):
            raise left_with_rows(source.last)
        lake.registry.note_detached(source.story.detached)
        own = own_fields(has_history=self.has_history, is_partitioned=source.last.kind == "p")
        columns = landed_columns(source, table, name, lake, [field.name for field in own])
        _require_settings(source, columns, lake)
        fills = _fills(columns, source.story, decoder)
        changes = StagedChanges(
            table=columns.typed,
            names=columns.names,
            schema=pa.schema([*STAGED_FIELDS, *columns.lake.fields]),
            landed=table.landed.commit_lsn,
            staging=lake.staging.of_table(number),
            apart=None,
            name=name,
            members=source.story.members,
            fills=fills,
            breaks=tuple(
                sorted({arrival.lsn for arrival in source.story.coming if arrival.lsn > table.landed.commit_lsn})
            ),
            rewritten=() if self.has_history else _replacing(source.last, source.story),
        )
        mirror = self._form(name, source, table, columns, fills)
        return Landing(
            number=number, name=name, table=table, source=source, changes=changes, schema=mirror.schema, mirror=mirror
        )

    def _form(
        self,
        name: str,
        source: SourceTable,
        table: LakeTable,
        columns: LandedColumns,
        fills: Mapping[int, pa.Array[Any]],
    ) -> MirrorForm:
        assert source.story is not None
        is_partitioned = source.last.kind == "p"
        own = own_fields(has_history=self.has_history, is_partitioned=is_partitioned)
        names = dict(zip([column.number for column in columns.typed.columns], columns.names, strict=True))
        alive = [column for column in source.last.columns if column.number in names and not _is_gone(column, source)]
        known = set() if columns.before is None else {column.name for column in columns.before.columns}
        return MirrorForm(
            name=name,
            schema=table.file_schema(pa.schema([*own, *columns.lake.fields])),
            source_columns=tuple(names[column.number] for column in alive),
            identity=source.story.identity,
            key=_key(source.story.identity, source.last, names),
            staging=table.staging,
            has_history=self.has_history,
            gone=tuple(departure for departure in source.story.gone if departure.lsn > table.landed.commit_lsn),
            fills={names[number]: fill for number, fill in fills.items() if names[number] not in known},
            becomes=_becoming(columns),
            retyped={
                names[column.number]: column for column in _retyped(source.story, table) if column.number in names
            },
            rewritten=tuple(
                column
                for column in source.story.rewritten
                if column.lsn > table.landed.commit_lsn and column.number in names
            ),
            names=names,
            is_partition=source.last.topmost != source.last.oid,
            replaces=source.replaces,
            is_partitioned=is_partitioned,
            source=f"{source.last.namespace}.{source.last.name}",
            source_names={names[column.number]: column.name for column in columns.typed.columns},
        )

    def settled(
        self, landings: Sequence[Landing], written: Mapping[int, list[Written]], merging: Merging
    ) -> Iterator[Settled]:
        """Yield the files that stand for those that had to be rewritten."""
        return settled_mirrors(landings, written, merging)

    def loaded(self, landing: Landing, files: list[DataFile], lsn: int, merging: Merging) -> Settled:
        """Merge the same rows, in the order of the key."""
        staged = [Written(landing.number, file, lsn, was_there=True) for file in files]
        merged = list(self.settled([landing], {landing.number: staged}, merging))
        return replace(merged[0], last=lsn) if merged else Settled(landing, [], [], lsn, 0)


MODES: Mapping[str, Mode] = {
    CHANGELOG: Changelog(),
    CURRENT: Mirror(has_history=False),
    HISTORY: Mirror(has_history=True),
}


def mode_of(target: LandingTarget) -> Mode:
    """Return the mode of a target.

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
    """Return names in the lake of the key's columns.

    Raises:
        LakeError: one is not a column of the table any more.
    """
    numbers = {column.name: column.number for column in last.columns if column.number in names}
    lost = [name for name in identity.columns if name not in numbers]
    if lost:
        raise LakeError(
            f'column "{lost[0]}" of the key of table "{last.namespace}.{last.name}" was dropped in the window',
            hint="end the window before that (--end), and go on from there",
        )
    return tuple(names[numbers[name]] for name in identity.columns)


def _require_settings(source: SourceTable, columns: LandedColumns, lake: Lake) -> None:
    """See that a mirror's rows can be found, and come from no mirror whose columns are kept otherwise.

    Raises:
        LakeError: it is not so.
    """
    assert source.story is not None
    numbers = {column.name: column.number for column in source.last.columns}
    key = {name: numbers[name] for name in source.story.identity.columns if name in numbers}
    require_rows_told(qualified_name(source.last), key, columns.settings)
    for arrival in source.story.coming:
        if columns.settings or lake.registry.table_note(arrival.giver) is not None:
            raise LakeError(
                f"rows come to table {qualified_name(source.last)} with a partition from another table, and one of "
                "both has settings of its own for columns",
                lsn=arrival.lsn,
                hint=RELOADED_OR_CHANGES,
            )


def _fills(columns: LandedColumns, story: TableStory, decoder: SliceDecoder) -> dict[int, pa.Array[Any]]:
    """Return the values that rows from before have in columns that were added, by their numbers."""
    own = {column.number: column for column in columns.typed.columns}
    return {
        number: missing_value(column, own[number], columns.typed, decoder.session)
        for number, column in story.missing
        if number in own
    }


def _replacing(last: RelationSchema, story: TableStory) -> tuple[Rewritten, ...]:
    """Tell where rows were rewritten for the type of a column that identifies no row, and none have left before."""
    if story.identity.is_whole or story.gone or story.coming:
        return ()
    key = {column.number for column in last.columns if column.name in story.identity.columns}
    return tuple(column for column in story.rewritten if column.number not in key)


def _retyped(story: TableStory, table: LakeTable) -> tuple[Retyped, ...]:
    """Return the retyped columns of a story, unless the window has landed in the table already."""
    return story.retyped if story.changed_at > table.landed.commit_lsn else ()


def _becoming(columns: LandedColumns) -> dict[str, str]:
    """Return columns of the lake that are new or of another type, each with that of the same source that files have."""
    if columns.before is None:
        return {}
    known = {column.name: column.type for column in columns.before.columns}
    older = {column.number: column.name for column in columns.before.columns}
    newer = {
        column.name: older[column.number]
        for column in columns.lake.columns
        if column.name not in known and column.number in older
    }
    if not columns.are_replaced:
        return newer
    return newer | {
        column.name: column.name
        for column in columns.lake.columns
        if known.get(column.name, column.type) != column.type
    }
