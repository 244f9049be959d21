"""Settings of tables compared with the catalog where a run begins, before the first row lands.

In: the settings of a target, the catalog, which tables are chosen. Out: errors of columns that are not there or of keys
that would be lost, warnings of patterns that match nothing. Tables that come later are looked at when they land first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError, warn
from headwater.lakes.settings.table_settings import TableSettings
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import Mode
from headwater.landing.settings.column_settings import bound_settings, require_named, require_rows_told
from headwater.landing.tables.source_tables import require_first_layout
from headwater.landing.tables.stated_keys import identity_by
from headwater.plugins.api import CatalogView, SlicePlugin
from headwater.plugins.table_patterns import qualified_name
from headwater.rows.columns.arrow import is_shown


def check_settings(lake: Lake, view: CatalogView, oids: Sequence[int], plugin: SlicePlugin, mode: Mode) -> None:
    """See that settings fit the tables that there are.

    Args:
        lake: the target; view: the catalog, and the tables in it.
        oids: of the relations in it; plugin: says which are chosen; mode: of the target.

    Raises:
        LakeError: a column is not there; or rows of a mirror would not be told apart.
    """
    if not lake.target.tables:
        return
    tables = {_name(lake, schema): schema for schema in _chosen(view, oids, plugin)}
    for entry in lake.target.tables:
        _check_entry(lake, entry, tables)
    for name, schema in tables.items():
        has_landed = lake.names.has_relation(schema.oid) and _has_landed(lake, schema)
        settings = bound_settings(schema, (), lake, has_landed=has_landed)
        if settings is not None and settings.columns.key and not mode.of(schema).mirrors:
            raise LakeError(
                f"table {name} has a key in its settings, and lands as changes, whose rows are not told apart",
                hint='leave out "key", or say mode = "current" there',
            )
        if settings is not None and not has_landed:
            require_first_layout(schema, settings.columns, lake.target)
        if settings is not None and mode.of(schema).mirrors:
            identity = identity_by(settings.columns.key, (), schema)
            numbers = {column.name: column.number for column in schema.columns}
            require_rows_told(name, {column: numbers[column] for column in identity.columns}, settings.columns)


def _has_landed(lake: Lake, schema: RelationSchema) -> bool:
    return lake.tables.of_relation(schema, 0)[1].landed.commit_lsn >= 0


def _chosen(view: CatalogView, oids: Sequence[int], plugin: SlicePlugin) -> Iterator[RelationSchema]:
    for oid in oids:
        schema = view.relation(oid)
        if schema is not None and schema.kind in "rpm" and schema.topmost == oid and plugin.wants(schema, view):
            yield schema


def _name(lake: Lake, schema: RelationSchema) -> str:
    note = lake.registry.table_note(schema.oid)
    return qualified_name(schema) if note is None else note.table


def _check_entry(lake: Lake, entry: TableSettings, tables: Mapping[str, RelationSchema]) -> None:
    for pattern in entry.patterns:
        if not any(TableSettings((pattern,)).matches(name) for name in tables):
            warn(f'no table that lands matches "{pattern}" of the settings of tables yet')
    matching = {name: schema for name, schema in tables.items() if entry.matches(name)}
    if not matching:
        return
    columns = {name: _columns(lake, schema) for name, schema in matching.items()}
    if entry.is_exact:
        for name, there in columns.items():
            require_named(entry, name, there)
    lost = set(entry.named).difference(*columns.values())
    if lost:
        raise LakeError(
            f'no table that matches {", ".join(entry.patterns)} has a column "{min(lost)}", which the settings name',
            hint="settings have names as the catalog has them; correct them, or leave the column out",
        )


def _columns(lake: Lake, schema: RelationSchema) -> set[str]:
    note = lake.registry.table_note(schema.oid)
    noted = () if note is None else (*note.columns, *note.arranging)
    return {column.name for column in filter(is_shown, schema.columns)} | set(noted)
