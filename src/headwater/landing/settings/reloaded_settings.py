"""Settings that a table gets with rows of a backup: another key, other partitions, another order.

Its rows come anew, so they can be laid out anew. What is not of the layout stays: older versions, and changes, have
what they have. Which columns of the source have a mask, or do not land, is noted already, and goes on.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.settings.table_settings import TableSettings, settings_of
from headwater.lakes.target_directory import Lake
from headwater.lakes.target_registry import TableNote
from headwater.landing.settings.column_settings import require_named
from headwater.plugins.table_patterns import qualified_name
from headwater.rows.columns.arrow import is_shown

LAID_OUT = ("partition", "sort", "key")


def reloaded_settings(table: RelationSchema, lake: Lake) -> TableNote | None:
    """Return the note of a table with the settings that the target has for it now; None where it has them already.

    Args:
        table: of the source, as of where the target stands; lake: the target.

    Raises:
        LakeError: more than the layout would be another one, or files that stay would be laid out otherwise.
    """
    note = lake.registry.table_note(table.oid) or TableNote(qualified_name(table), {}, {})
    settings = settings_of(lake.target.tables, note.table)
    names = {*note.settings, *settings.fixed}
    changed = sorted(name for name in names if note.settings.get(name) != settings.fixed.get(name))
    if not changed:
        return None
    _require_possible(note.table, changed, settings, lake)
    numbers = {**note.arranging, **{column.name: column.number for column in filter(is_shown, table.columns)}}
    for entry in lake.target.tables:
        if entry.is_exact and entry.matches(note.table):
            require_named(entry, note.table, (*numbers, *note.columns))
    arranging = {name: numbers[name] for name in settings.arranging if name in numbers}
    return replace(note, settings=settings.fixed, arranging=arranging)


def _require_possible(name: str, changed: list[str], settings: TableSettings, lake: Lake) -> None:
    others = [what for what in changed if what not in LAID_OUT]
    if others:
        raise LakeError(
            f"table {name} would have other settings than it has landed with, of what rows of before have still: "
            f"{', '.join(others)}",
            hint="a reload takes another partition, sort and key; for all else land to another place",
        )
    mode = settings.mode or lake.target.mode
    if "partition" in changed and mode != "current" and lake.target.format != "iceberg":
        raise LakeError(
            f"table {name} keeps files of before, which are partitioned otherwise, and tables of "
            f"{lake.target.format} have one way of that",
            hint="land to another place; in Iceberg, and in any format with --mode current, a reload takes other "
            "partitions",
        )
