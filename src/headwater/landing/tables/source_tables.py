"""Tables that a window has changes of, and their columns in the lake.

In: a planned window, in the thread that plans; later, what the lake's tables have. Out: a
:class:`~headwater.landing.tables.change_rows.ChangeTable` for each. Changes of a partition go to the table of the
topmost partitioned one that it is a partition of at the change: so one that is detached and attached goes here and
there.

Columns of a table are known by their numbers; those of a partition by the names that they share with its root, whose
numbers differ. A window in which a name means two columns of a partition is refused.

Each table of the lake may have one shape (``--schema-evolution split``). Then a table of the source counts as several,
one for each shape that it has had in the window.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.versions import NEVER
from headwater.errors import LakeError, warn
from headwater.lakes.lake_schema import LakeColumn, LakeSchema, Shape, evolved, has_shape, taken_over
from headwater.lakes.lake_table import LakeTable
from headwater.lakes.landing_target import PYTHON_IMPL, LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.landing.settings.column_settings import (
    NOTHING_SET,
    ColumnSettings,
    column_settings,
    require_settings_of_name,
    set_properties,
)
from headwater.landing.tables.attached_rows import Departure
from headwater.landing.tables.catalog_changes import CatalogWindow
from headwater.landing.tables.change_rows import CHANGE_FIELDS, RESERVED, Apart, ChangeTable
from headwater.landing.tables.table_events import TableStory, story_of
from headwater.landing.tables.table_spans import MirroredTables, Roots, TableSpans, WindowCatalog
from headwater.pipeline.windows.assemble import Assembly
from headwater.reorder.integer_keys import distinct
from headwater.reorder.plan import Plan
from headwater.rows.columns.arrow import is_shown
from headwater.rows.columns.table_columns import TypedTable

_OID = 3
"""Where :func:`headwater.plugins.rows.row_messages.truncate_message` has it."""


@dataclass(frozen=True)
class SourceTable:
    """A table that a window has changes of.

    Attributes:
        last: as of the window's end, or as it was last.
        versions: of the relations that its changes are of.
        story: what else happens to it; None if nobody has asked.
        dropped: numbers of columns that it has no more.
        shape: of the lake's table; None for any.
        apart: which of its changes are meant, None for all.
        first: LSN of the first of them; NEVER for none.
        changed_at: STARTs of the commit records that change its definition in the window, or a partition's; ascending.
        replaces: it has taken another table's place in the lake at the window's beginning: what ended that one's rows.
        refusal: why its changes cannot land; None if they can.
    """

    last: RelationSchema
    versions: tuple[RelationSchema, ...]
    story: TableStory | None = None
    dropped: frozenset[int] = frozenset()
    shape: Shape | None = None
    apart: Apart | None = None
    first: int = NEVER
    changed_at: tuple[int, ...] = ()
    replaces: Departure | None = None
    refusal: LakeError | None = field(default=None, compare=False)

    @property
    def relations(self) -> frozenset[int]:
        """OIDs of the table and of the relations that its rows are of."""
        members = frozenset[int]() if self.story is None else self.story.members
        return members | {self.last.oid} | {version.rewrite_of or version.oid for version in self.versions}


def source_tables(
    plan: Plan,
    window: CatalogWindow,
    since: int = -1,
    shapes: Callable[[RelationSchema], Shape] | None = None,
) -> list[SourceTable]:
    """Return the tables of a window.

    Args:
        plan: the window's.
        window: the window.
        since: transactions whose commit record starts up to there do not count.
        shapes: see :class:`~headwater.landing.landing_modes.Changelog`.

    Returns:
        the tables; refused where columns of a partition cannot be distinguished, or those of its root cannot be known.
    """
    store = window.store
    touched = [*_changed(plan, since), *_truncated(plan, window, since)]
    groups: dict[int, list[tuple[int, RelationSchema]]] = {}
    for lsn, version in touched:
        groups.setdefault(_topmost(version, store, lsn), []).append((lsn, version))
    tables: list[SourceTable] = []
    for oid, touches in groups.items():
        try:
            tables += _of_table(oid, touches, window, shapes)
        except LakeError as error:
            versions = tuple(dict.fromkeys(version for _, version in touches))
            last = window.end.relation(oid) or replace(versions[-1], oid=oid, is_partition=False)
            tables.append(SourceTable(last, versions, refusal=error))
    return tables


def _of_table(
    oid: int,
    touched: Sequence[tuple[int, RelationSchema]],
    window: CatalogWindow,
    shapes: Callable[[RelationSchema], Shape] | None,
) -> Iterator[SourceTable]:
    if shapes is not None:
        yield from [_of_shape(stage, window) for stage in _stages(oid, touched, window, shapes)]
        return
    versions = tuple(dict.fromkeys(version for _, version in touched))
    last = _last(oid, touched, window)
    _require_names(last, versions, window)
    dropped = frozenset(column.number for column in last.columns if column.is_dropped)
    first = min(lsn for lsn, _ in touched)
    yield SourceTable(with_dropped(last, versions), versions, dropped=dropped, first=first)


@dataclass
class _Stage:
    """The changes that a table has had while its columns were the same, or fewer.

    Attributes:
        shape: the columns; root: the table, as it was last then, under its first name: so that it does not depend on
            windows.
        touched: LSNs and versions of relations; truncates: whose are LSNs of truncates.
    """

    shape: Shape
    root: RelationSchema
    touched: list[tuple[int, RelationSchema]] = field(default_factory=list)


def _stages(
    oid: int,
    touched: Iterable[tuple[int, RelationSchema]],
    window: CatalogWindow,
    shapes: Callable[[RelationSchema], Shape],
) -> list[_Stage]:
    """Return a table's changes, apart by the columns that it had; in the order in which they came about."""
    stages: list[_Stage] = []
    ordered = sorted(touched, key=lambda touch: touch[0])
    for lsn, version in ordered:
        own = version if version.oid == oid else window.store.view(lsn).relation(oid)
        root = own or _last(oid, ordered, window)
        shape = shapes(root)
        stage = next((stage for stage in reversed(stages) if has_shape(stage.shape, shape)), None)
        if stage is None:
            stage = _Stage(shape, root)
            stages.append(stage)
        stage.root = replace(root, namespace=stage.root.namespace, name=stage.root.name)
        stage.touched.append((lsn, version))
    return stages


def _of_shape(stage: _Stage, window: CatalogWindow) -> SourceTable:
    versions = tuple(dict.fromkeys(version for _, version in stage.touched))
    _require_names(stage.root, versions, window)
    apart = Apart(frozenset(versions), frozenset(lsn for lsn, _ in stage.touched))
    return SourceTable(with_dropped(stage.root, versions), versions, shape=stage.shape, apart=apart)


def mirrored_tables(
    assembly: Assembly,
    window: CatalogWindow,
    wants: Callable[[RelationSchema], bool],
    since: int = -1,
) -> list[SourceTable]:
    """Return the tables of a window, and those of which only the definition has changed; with their stories.

    Args:
        assembly: of the window.
        window, since: see :func:`source_tables`.
        wants: whether a table's rows are wanted, as it is at the window's end.

    Returns:
        see there.
    """
    catalog = WindowCatalog(window, assembly)
    tables = {table.last.oid: table for table in source_tables(assembly.plan, window, since)}
    for oid in sorted(catalog.tables() - tables.keys()):
        last = catalog.at_end(oid) or catalog.before_leaving(oid)
        if last is not None and wants(last):
            tables[oid] = SourceTable(last, ())
    firsts = {oid: table.first for oid, table in tables.items()}
    changed = MirroredTables(_roots(tables.values()), firsts, wants)
    complete = {oid: _with_story(table, catalog, changed) for oid, table in tables.items()}
    return [_with_givers(table, complete) for table in complete.values()]


def _with_story(table: SourceTable, catalog: WindowCatalog, changed: MirroredTables) -> SourceTable:
    """Say what happens to a table."""
    if table.refusal is not None:
        return replace(table, story=TableStory(members=table.relations, refusal=table.refusal, refused_at=NEVER))
    return replace(table, story=story_of(TableSpans(table.last, table.versions, catalog, changed)))


def _with_givers(source: SourceTable, tables: Mapping[int, SourceTable]) -> SourceTable:
    """Return a table; refuse it if rows that come to it are not available from where they were."""
    assert source.story is not None
    for arrival in source.story.coming:
        giver = tables.get(arrival.giver)
        story = None if giver is None else giver.story
        if story is None or (story.refusal is None and not story.has_gone(arrival.relation, arrival.lsn)):
            error = LakeError(
                f'rows come to table "{source.last.namespace}.{source.last.name}" with a partition that is dropped, or '
                "from a table that is",
                lsn=arrival.lsn,
                hint="end the window before it is dropped (--end), and go on from there",
            )
            return replace(source, story=replace(source.story, refusal=error, refused_at=arrival.lsn))
    return source


def _roots(tables: Iterable[SourceTable]) -> Roots:
    roots: dict[int, frozenset[int]] = {}
    for table in tables:
        for oid in {version.rewrite_of or version.oid for version in table.versions}:
            roots[oid] = roots.get(oid, frozenset()) | {table.last.oid}
    return roots


def _topmost(version: RelationSchema, store: CatalogStore, lsn: int) -> int:
    """Return the OID of the table that a relation's rows go to; a rewritten heap's to that of the heap before."""
    original = store.view(lsn).relation(version.rewrite_of) if version.rewrite_of else version
    return version.rewrite_of if original is None else original.topmost


def _changed(plan: Plan, since: int) -> Iterator[tuple[int, RelationSchema]]:
    """Yield relations whose rows changed, each with the LSN of a change of it."""
    counts = plan.units.commit_lsn[plan.rows.unit] > since
    numbers = distinct(plan.rows.resolution[counts])
    lsns = dict(zip(numbers.values.tolist(), plan.rows.first[counts][numbers.first].tolist(), strict=True))
    for number, use in enumerate(plan.relations):
        if use.wants and not use.is_toast and number in lsns:
            yield lsns[number], use.schema


def _truncated(plan: Plan, window: CatalogWindow, since: int) -> Iterator[tuple[int, RelationSchema]]:
    """Yield relations that were truncated, as of then; rows of theirs there may be none."""
    events = plan.events
    own = np.flatnonzero(events.made >= 0)
    counts = plan.units.commit_lsn[events.unit[own]] > since
    for lsn, number in zip(events.lsn[own][counts].tolist(), events.made[own][counts].tolist(), strict=True):
        messages = events.messages[number]
        for oid in (json.loads(message)[_OID] for message in messages):
            # One that its own transaction has made shows only after it.
            schema = window.store.view(lsn).relation(oid) or window.end.relation(oid)
            if schema is not None:
                yield lsn, schema


def _last(oid: int, touched: Iterable[tuple[int, RelationSchema]], window: CatalogWindow) -> RelationSchema:
    """Return a relation as of the window's end or, if it is gone by then, as of a change."""
    schema = window.end.relation(oid)
    if schema is not None:
        return schema
    own = [version for _, version in touched if version.oid == oid]
    if own:
        return max(own, key=lambda version: len(version.columns))
    schema = next((root for lsn, _ in touched if (root := window.store.view(lsn).relation(oid)) is not None), None)
    if schema is None:
        raise LakeError(
            f"the partitioned table of OID {oid}, whose partitions have changes, is gone before it could be seen",
            hint="leave its partitions out (--exclude)",
        )
    return schema


def with_dropped(last: RelationSchema, versions: Iterable[RelationSchema]) -> RelationSchema:
    """Return a relation with the columns that it had in the window and has no more."""
    columns = {column.number: column for column in last.columns}
    for version in versions:
        for column in version.columns if last.oid in (version.oid, version.rewrite_of) else ():
            known = columns.get(column.number)
            if known is None or (known.is_dropped and is_shown(column)):
                columns[column.number] = column
    return replace(last, columns=tuple(columns[number] for number in sorted(columns)))


def _names(schema: RelationSchema) -> dict[str, int]:
    return {column.name: column.number for column in schema.columns if is_shown(column)}


def _require_names(root: RelationSchema, versions: Sequence[RelationSchema], window: CatalogWindow) -> None:
    """See that a name means one column of a partition in all of the window, and one of its root.

    Raises:
        LakeError: it may not.
    """
    known: dict[int, dict[str, int]] = {}
    for version in versions:
        if root.oid in (version.oid, version.rewrite_of):
            continue
        version = replace(version, oid=version.rewrite_of) if version.rewrite_of else version
        if version.oid not in known:
            last = window.end.relation(version.oid)
            if last is None and not _is_steady(root, window):
                raise _refusal(root, version, "was dropped in a window in which its root's columns changed")
            known[version.oid] = {} if last is None else _names(last)
        names = _names(version)
        if any(known[version.oid].setdefault(name, number) != number for name, number in names.items()):
            raise _refusal(root, version, "has had two columns of one name in the window")
        if names.keys() - _names(root).keys():
            raise _refusal(root, version, "has had columns in the window that its root does not have at its end")


def _is_steady(root: RelationSchema, window: CatalogWindow) -> bool:
    """Tell whether a table has had the same columns in all of a window."""
    before = window.store.view(window.lo).relation(root.oid)
    if before is None:
        return not any(column.is_dropped for column in root.columns)
    return _names(before) == _names(root)


def _refusal(root: RelationSchema, version: RelationSchema, why: str) -> LakeError:
    return LakeError(
        f'partition "{version.namespace}.{version.name}" of "{root.namespace}.{root.name}" {why}',
        hint="end the window before that (--end), and go on from there",
    )


@dataclass(frozen=True)
class LandedColumns:
    """The columns of a table in the lake, as they are from a window on.

    Attributes:
        typed: the source's.
        before: those in the lake before the window; None for none.
        lake: those in it from then on.
        names: in the lake, of the source's columns in their order.
        are_replaced: columns get other types in place (:func:`replaces_types`).
        settings: of the source's columns.
    """

    typed: TypedTable
    before: LakeSchema | None
    lake: LakeSchema
    names: tuple[str, ...]
    are_replaced: bool
    settings: ColumnSettings = NOTHING_SET


def shape_of(schema: RelationSchema, target: LandingTarget) -> Shape:
    """Return the columns that a table has in the lake."""
    return {
        column.number: column.type
        for column in _columns(TypedTable(schema, target.on_unrepresentable, target.types), target)
    }


def _columns(typed: TypedTable, target: LandingTarget) -> list[LakeColumn]:
    return [
        LakeColumn(column.name, column.number, target.types.held(typed.type_of(column).arrow))
        for column in typed.columns
    ]


def landed_columns(
    source: SourceTable, table: LakeTable, name: str, lake: Lake, reserved: Sequence[str]
) -> LandedColumns:
    """Tell how the columns of a table in the lake follow those of the source.

    Args:
        source: it; table: in the lake; name: there.
        lake: that it is in.
        reserved: names of columns that are the lake's own.

    Raises:
        LakeError: its columns are others, and that is not wanted.
    """
    target, types = lake.target, lake.target.types
    settings = column_settings(source.last, source.versions, lake, has_landed=table.landed.commit_lsn >= 0)
    require_settings_of_name(source.last, name, lake)
    set_properties(table, source.last, lake)
    typed = TypedTable(source.last, target.on_unrepresentable, types, without=settings.excluded, masks=settings.masks)
    mode = lake.registry.mode_of(source.last.oid)
    before = None if table.landed.schema is None else LakeSchema.of(table.landed.schema)
    columns = _columns(typed, target)
    if before is not None and source.replaces is not None and lake.names.former(name) - {source.last.oid}:
        # Not where a table gets its own rows anew: its columns keep their names.
        before = taken_over(before, columns)
    schema = evolved(
        before,
        source.last.oid,
        columns,
        reserved,
        target.schema_evolution,
        f"table {name}",
        widens=types.widens,
        former=lake.names.former(name),
        replaces_types=replaces_types(target, mode),
    )
    _tell_renamed(before, schema, reserved, name)
    names = tuple(schema.holding(column).name for column in columns)
    return LandedColumns(typed, before, schema, names, replaces_types(target, mode), settings)


def replaces_types(target: LandingTarget, mode: str) -> bool:
    """Tell whether a mirror's column gets another type in place: all of its files are rewritten for that, at once.

    In Parquet and Iceberg files keep what they have, and the table's column is widened, or another one begins.
    """
    return (mode, target.format, target.catalog_impl) == ("current", "delta", PYTHON_IMPL)


def _tell_renamed(before: LakeSchema | None, lake: LakeSchema, reserved: Sequence[str], name: str) -> None:
    """Warn of columns that are new, and called as the lake's own are."""
    known, own = (
        set() if before is None else {column.name for column in before.columns},
        {name.lower() for name in reserved},
    )
    for column in lake.columns:
        if column.name not in known and column.source is not None and column.source.lower() in own:
            warn(
                f"table {name}: the source's column \"{column.source}\" is called as one of the lake's own, and lands "
                f'as "{column.name}"'
            )


def change_table(source: SourceTable, table: LakeTable, name: str, lake: Lake) -> ChangeTable:
    """Return the form of a table of changes, for tasks.

    Args:
        source: the source's table; table: in the lake; name: there.
        lake: the lake that it is in.

    Raises:
        LakeError: its columns are others, and that is not wanted.
    """
    columns = landed_columns(source, table, name, lake, RESERVED)
    there = None if table.landed.schema is None else set(table.landed.schema.names)
    there = there and there - {column.name for column in (columns.before.columns if columns.before else ())}
    own = [field for field in CHANGE_FIELDS if there is None or field.name in there]
    schema = table.file_schema(pa.schema([*own, *columns.lake.fields]))
    return ChangeTable(columns.typed, columns.names, schema, table.landed.commit_lsn, table.staging, source.apart)
