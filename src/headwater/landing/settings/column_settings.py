"""Columns of a table that do not land, or are masked: which they are, by their numbers.

Settings name columns. Which column of the source a name means is noted when the table lands first, by its number. So a
column that is renamed stays excluded, or masked. A column that gets such a name later is bound, too.

Known gap: a column that is added under such a name and renamed within one window, before any row has it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.lake_table import LakeTable
from headwater.lakes.settings.table_settings import TableSettings, settings_of
from headwater.lakes.target_directory import Lake
from headwater.lakes.target_registry import TableNote
from headwater.plugins.table_patterns import qualified_name
from headwater.rows.columns.arrow import is_shown
from headwater.rows.columns.column_masks import ColumnMask
from headwater.rows.masks import read_mask

_OTHER_PLACE = (
    "leave the settings as they were; headwater lake reload --table-settings FILE lays a table's rows out by "
    "others; or land to another place"
)


@dataclass(frozen=True)
class ColumnSettings:
    """The settings of a table's columns.

    Attributes:
        excluded: numbers of columns that do not land; masks: of columns, by their numbers.
        arranging: numbers of the columns that partition, sort or identify rows, by their names in settings.
        entry: all settings of the table; None for none.
    """

    excluded: frozenset[int] = frozenset()
    masks: tuple[tuple[int, ColumnMask], ...] = ()
    arranging: Mapping[str, int] = field(default_factory=dict)
    entry: TableSettings | None = None

    def __bool__(self) -> bool:
        return bool(self.excluded or self.masks)

    @property
    def key(self) -> tuple[int, ...]:
        """Numbers of the columns that settings say identify rows; none if they do not say."""
        names = () if self.entry is None else self.entry.key
        return tuple(self.arranging[name] for name in names) if all(name in self.arranging for name in names) else ()


NOTHING_SET = ColumnSettings()


def column_settings(
    last: RelationSchema, versions: Iterable[RelationSchema], lake: Lake, *, has_landed: bool
) -> ColumnSettings:
    """Return the settings of a table's columns, and note which columns they are.

    Args, Raises:
        see :func:`bound_settings`.
    """
    bound = bound_settings(last, versions, lake, has_landed=has_landed)
    if bound is None:
        return NOTHING_SET
    lake.registry.note_table(last.oid, bound.note)
    return bound.columns


@dataclass(frozen=True)
class BoundSettings:
    """The settings of a table, with what is noted of them."""

    note: TableNote
    columns: ColumnSettings


def bound_settings(
    last: RelationSchema, versions: Iterable[RelationSchema], lake: Lake, *, has_landed: bool
) -> BoundSettings | None:
    """Find the settings of a table's columns; None for none.

    Args:
        last: the table; versions: of it, and maybe other relations, in the window.
        lake: that it is in; has_landed: anything of it is there.

    Raises:
        LakeError: it has landed with other settings, or a column is not there.
        UsageError: settings contradict each other.
    """
    note = lake.registry.table_note(last.oid)
    if note is None and not lake.target.tables:
        return None
    name = qualified_name(last) if note is None else note.table
    settings = settings_of(lake.target.tables, name)
    if note is None and not settings.fixed:
        return None
    if note is None and has_landed and not _is_of_another(lake, name, settings):
        raise changed(name, {}, settings.fixed)
    columns = _bound(settings, {} if note is None else note.columns, _own(last, versions))
    arranging = _arranging(settings, last) if note is None else note.arranging
    _require_columns(lake.target.tables, name, {**columns, **arranging})
    return BoundSettings(
        TableNote(name, settings.fixed, columns, arranging),
        _by_number(settings, columns, arranging, lake.target.mask_secret),
    )


def _arranging(settings: TableSettings, last: RelationSchema) -> dict[str, int]:
    """Return the numbers of the columns that partition, sort or identify rows, once and for all."""
    numbers = {column.name: column.number for column in filter(is_shown, last.columns)}
    return {name: numbers[name] for name in settings.arranging if name in numbers}


def _is_of_another(lake: Lake, name: str, settings: TableSettings) -> bool:
    """Tell whether what has landed under a name is of another table of the source, with the same settings."""
    notes = lake.registry.table_notes.values()
    return any(note.table == name and note.settings == settings.fixed for note in notes)


def require_settings_of_name(last: RelationSchema, name: str, lake: Lake) -> None:
    """See that a table has the settings of the name that it lands under.

    Args:
        last: the source's; name: in the lake; lake: that it is in.

    Raises:
        LakeError: it has landed under another name, with others.
    """
    note = lake.registry.table_note(last.oid)
    if note is None or name == note.table or re.fullmatch(rf"{re.escape(note.table)}_\d+", name):
        return
    settings = settings_of(lake.target.tables, name)
    if settings.fixed != note.settings:
        raise LakeError(
            f"table {name} is another table now, which has landed as {note.table} with other settings",
            hint="give both names the same settings, or let the newer one land beside (--on-table-replaced new)",
        )


def set_properties(table: LakeTable, last: RelationSchema, lake: Lake) -> None:
    """Let a table have the properties that settings give it, from its next commit on.

    Args:
        table: in the lake; last: of the source; lake: that it is in.
    """
    if lake.target.tables:
        note = lake.registry.table_note(last.oid)
        name = qualified_name(last) if note is None else note.table
        table.properties = settings_of(lake.target.tables, name).properties


def require_same_settings(lake: Lake, besides: Container[str] = ()) -> None:
    """See that tables have the settings that they have landed with.

    Args:
        lake: that they are in; besides: names there of tables that get others.

    Raises:
        LakeError: one has others, or another secret.
    """
    entries, secret = lake.target.tables, lake.target.mask_secret
    lake.registry.require_secret(secret)
    for oid, note in list(lake.registry.table_notes.items()):
        settings = settings_of(entries, note.table)
        if settings.fixed == note.settings or lake.names.name_of(oid) in besides:
            continue
        if _has_landed(lake, oid):
            raise changed(note.table, note.settings, settings.fixed)
        lake.registry.forget_table(oid)


def _has_landed(lake: Lake, oid: int) -> bool:
    name = lake.names.name_of(oid)
    table = None if name is None else lake.tables.of_name(name)
    return table is not None and table.landed.commit_lsn >= 0


def changed(table: str, before: Mapping[str, object], after: Mapping[str, object]) -> LakeError:
    """Return the error of a table whose settings are others than it has landed with."""
    differing = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    lost = " (no settings are given: --config)" if not after else ""
    return LakeError(f"table {table} has landed with other settings: {', '.join(differing)}{lost}", hint=_OTHER_PLACE)


def _own(last: RelationSchema, versions: Iterable[RelationSchema]) -> list[RelationSchema]:
    return [last, *(version for version in versions if last.oid in (version.oid, version.rewrite_of))]


def _bound(
    settings: TableSettings, noted: Mapping[str, tuple[int, ...]], versions: Iterable[RelationSchema]
) -> dict[str, tuple[int, ...]]:
    """Return the numbers of columns by the names that settings have for them."""
    wanted = (*settings.exclude_columns, *settings.mask)
    numbers = {name: list(noted.get(name, ())) for name in wanted}
    taken = {number for own in numbers.values() for number in own}
    for version in versions:
        for column in filter(is_shown, version.columns):
            if column.name in numbers and column.number not in taken:
                numbers[column.name].append(column.number)
                taken.add(column.number)
    return {name: tuple(own) for name, own in numbers.items() if own}


def _require_columns(entries: Iterable[TableSettings], name: str, columns: Mapping[str, object]) -> None:
    """See that columns are there that entries name for this very table."""
    for entry in entries:
        if entry.is_exact and entry.matches(name):
            require_named(entry, name, columns)


def require_named(entry: TableSettings, table: str, columns: Iterable[str]) -> None:
    """See that a table has the columns that settings name.

    Raises:
        LakeError: it lacks one.
    """
    there = set(columns)
    lost = [name for name in entry.named if name not in there]
    if lost:
        raise LakeError(
            f'table {table} has no column "{lost[0]}", which its settings name',
            hint="settings have names as the catalog has them; correct them, or leave the column out",
        )


def _by_number(
    settings: TableSettings, columns: Mapping[str, tuple[int, ...]], arranging: Mapping[str, int], secret: bytes
) -> ColumnSettings:
    excluded = frozenset(number for name in settings.exclude_columns for number in columns.get(name, ()))
    masks = tuple(
        (number, ColumnMask(read_mask(text), secret))
        for name, text in settings.mask.items()
        for number in columns.get(name, ())
    )
    return ColumnSettings(excluded, masks, arranging, settings)


def require_rows_told(table: str, key: Mapping[str, int], settings: ColumnSettings) -> None:
    """See that rows of a mirror are told apart still, by the columns that identify them.

    Args:
        table: its name; key: numbers of these columns, by their names; settings: of its columns.

    Raises:
        LakeError: one does not land, or different values of it may become the same.
    """
    masks = dict(settings.masks)
    for name, number in key.items():
        if number in settings.excluded:
            raise _untold(table, name, "is excluded")
        if number in masks and not masks[number].mask.tells_apart:
            raise _untold(table, name, f"has the mask {masks[number].mask.kind}")


def _untold(table: str, column: str, what: str) -> LakeError:
    return LakeError(
        f'column "{column}" identifies rows of table {table}, and {what}: a mirror could not find its rows',
        hint="mask it with sha256 or hmac-sha256, which keep values apart, or land changes (--mode changelog)",
    )
