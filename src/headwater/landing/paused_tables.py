"""Tables that are paused, so that others go on: which errors do that, and what is noted and said then.

In: an error that stands in the way of a window, and the state where that begins. Out: a note in the target
(:mod:`headwater.lakes.paused`) and a warning, or the error. Who runs passes (:mod:`headwater.landing.landing`) then
lands the window once more, without the table: as if it had never been chosen, from its planning on. So what depends on
it is refused for its own reason, such as a mirror that would get rows of it, and is paused, too.

A table is paused for what it is, or what is in it: a value that its column cannot hold, a type, a change of its
definition, its name. A damaged file, a full disk, another process, WAL that is missing stop all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import (
    DecodingError,
    HeadwaterError,
    LakeConflictError,
    LakeError,
    LakeNameError,
    PluginError,
    UnsupportedTypeError,
    warn,
)
from headwater.lakes.paused import PausedTable
from headwater.lakes.target_directory import Lake
from headwater.option_names import at_door
from headwater.pg.lsn import Lsn
from headwater.plugins.api import SlicePlugin
from headwater.plugins.rows.plugin import RowChanges
from headwater.plugins.table_patterns import TablePatterns, qualified_name
from headwater.slots.kept_state import KeptState

STOP, PAUSE = "stop", "pause"
ON_TABLE_ERROR = (STOP, PAUSE)
"""What a run does that one table cannot go on with."""

_OF_TABLES = (LakeError, DecodingError, UnsupportedTypeError, PluginError)


def is_of_one_table(error: HeadwaterError) -> bool:
    """Tell whether an error stands in the way of one table only, for what the table is or has in it."""
    if error.table is None or not isinstance(error, _OF_TABLES) or isinstance(error, LakeConflictError):
        return False
    return error.file is None or isinstance(error, LakeNameError)


def pause(lake: Lake, error: HeadwaterError, kept_state: KeptState | None) -> int:
    """Pause the table that an error is about; gives its OID.

    Args:
        lake: where it lands.
        error: it.
        kept_state: the state where the table stands; None if it may lack the rows that it had at first.

    Raises:
        HeadwaterError: the error, if it is not of one table; or the note cannot be written.
    """
    if error.table is None or not is_of_one_table(error):
        raise error
    oid, name = error.table
    is_sure = kept_state is not None and kept_state.state.control.builder.is_consistent
    table = PausedTable(oid, lake.names.name_of(oid) or name, " ".join(at_door(error.message).split()), lsn=error.lsn)
    lake.paused.add(table, kept_state if is_sure else None)
    warn(f"table {table.name} is paused, the others go on: {table.reason}", lsn=table.lsn, hint=error.hint)
    return oid


def exclude(lake: Lake, oid: int, name: str, kept_state: KeptState | None) -> None:
    """Note that a table lands no further because the user has said so.

    Args:
        lake: where it has landed; oid, name: of the source's table.
        kept_state: see :func:`pause`.

    Raises:
        HeadwaterError: it cannot be written.
    """
    if oid not in lake.paused.oids:
        name = lake.names.name_of(oid) or name
        lake.paused.add(PausedTable(oid, name, "--exclude leaves it out", is_excluded=True), kept_state)


def exclude_by_names(lake: Lake, asked: TablePatterns) -> None:
    """Note the same of all tables in a target, where there is no catalog to ask yet: by the names that they have there.

    Raises:
        HeadwaterError: it cannot be written.
    """
    for name in lake.names.first_names:
        oid = lake.names.holder(name)
        if oid is not None and asked.excludes_name(name):
            exclude(lake, oid, name, None)


def excluded_tables(
    view: HistoricCatalog, before: SlicePlugin, after: SlicePlugin, lake: Lake
) -> Iterator[tuple[int, str]]:
    """Find the tables that have landed, and are excluded from now on; gives their OIDs and names.

    Args:
        view: the catalog where the target has come to.
        before: says what has landed; after: what is to land.
        lake: where.

    Raises:
        LakeError: partitions are to be left out of a table that has landed with them.
    """
    assert isinstance(after, RowChanges)
    for schema in filter(None, map(view.relation, view.tables())):
        if not before.wants(schema, view) or not after.choice.patterns.excludes(schema, view):
            continue
        root = view.relation(schema.topmost) or schema
        if not lake.names.has_relation(root.oid):
            continue
        if not after.choice.patterns.excludes(root, view):
            raise LakeError(
                f'partition "{qualified_name(schema)}" of table "{qualified_name(root)}" has landed with it, and would '
                "be left out",
                hint="exclude the partitioned table (--exclude), or land it to another place",
            )
        yield root.oid, qualified_name(root)


def tell_of_paused(lake: Lake, asked: TablePatterns) -> None:
    """Say which tables a run does not go on with, though they are asked for.

    Args:
        lake: where they have landed; asked: which tables are.

    Raises:
        LakeError: what is noted of them cannot be written.
    """
    for oid, table in list(lake.paused.tables.items()):
        if table.is_excluded and asked.matches(table.name):
            lake.paused.say(oid, "it was excluded until now (--exclude)")
    for table in waiting(lake):
        warn(f"table {table.name} stays paused{_place(table)}: {table.reason}", lsn=table.lsn, hint=_back(lake, table))


def waiting(lake: Lake) -> list[PausedTable]:
    """Return the tables that would land, and are paused."""
    return sorted(
        (table for table in lake.paused.tables.values() if not table.is_excluded), key=lambda table: table.name
    )


def _place(table: PausedTable) -> str:
    return "" if table.stands_at is None else f", where it stands at {Lsn(table.stands_at)}"


def _back(lake: Lake, table: PausedTable) -> str:
    place = lake.target.where
    return (
        f"headwater lake resume {place} {table.name} lands it from there, headwater lake reload {place} {table.name} "
        "takes its rows from a backup"
    )


def named(lake: Lake, names: Iterable[str]) -> list[PausedTable]:
    """Return paused tables by their names; all of them where none is given.

    Args:
        lake: where they have landed; names: of tables there.

    Raises:
        LakeError: one is not paused.
    """
    asked = list(names)
    known = lake.paused.tables.values()
    for name in asked:
        if not any(table.name == name for table in known):
            shown = ", ".join(sorted({table.name for table in known})) or "none is"
            raise LakeError(
                f'no table "{name}" is paused', file=str(lake.target.where), hint=f"those that are: {shown}"
            )
    return [table for table in known if not asked or table.name in asked]
