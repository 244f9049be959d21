"""The tables of a target as they belong together: now, or as of an LSN or a moment (``headwater lake tables``).

Nothing is locked: what a version of a table is made of does not change until it is expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from headwater.lakes.bound_names import oids_by_name
from headwater.lakes.lake_schema import LakeSchema
from headwater.lakes.lake_table import LakeFormat, TableSize, errors_at
from headwater.lakes.landing_target import LandingTarget, own_directory
from headwater.lakes.paused import LANDING, PAUSED, PausedTable, paused_tables
from headwater.lakes.resolved_log import Resolved, resolved_at
from headwater.lakes.stores.places import NO_OPTIONS, Where, place_of


@dataclass(frozen=True)
class TableView:
    """A table of a target.

    Attributes:
        name: of the table; version: see :attr:`~headwater.lakes.lake_table.LakeTable.version`, -1 where nothing has
            landed.
        size: of that version.
        renamed: names in the source of columns that have others here.
        oid: of the table of the source that lands there; None for none any more.
        state: :data:`~headwater.lakes.paused.LANDING`, or that of a table that is behind the others.
        stands_at: of such a table, the LSN before which it has everything; 0 where it may lack rows.
        paused: what is noted of it; None for nothing.
    """

    name: str
    version: int
    size: TableSize
    renamed: Mapping[str, str] = field(default_factory=dict)
    oid: int | None = None
    state: str = LANDING
    stands_at: int | None = None
    paused: PausedTable | None = None


def read_as_of(
    place: str | Where,
    lsn: int | None = None,
    time: datetime | None = None,
    storage_options: Mapping[str, str] = NO_OPTIONS,
) -> Resolved:
    """Return the versions of a target's tables that belong together: the last ones, or those of a time before.

    Windows are what is distinguished: between two of them, it is the one before.

    Args:
        place: the target's directory, or its address in a store.
        lsn: nothing that committed at or after it.
        time: nothing that committed later; with a time zone.
        storage_options: fsspec's for the store, by names.

    Returns:
        which version of each table to read, the LSN up to which they have everything, and which tables stand elsewhere
        (:attr:`~headwater.lakes.resolved_log.Resolved.paused`).

    Raises:
        LakeError: nothing is known of then.
    """
    where = place_of(place, storage_options)
    with errors_at(where):
        return resolved_at(own_directory(where), lsn, time)


def tables_of(place: Where, resolved: Resolved, *, is_now: bool = False) -> Iterator[TableView]:
    """Yield the tables of a target in certain versions, by their names.

    Args:
        place: the target's directory.
        resolved: in which.
        is_now: with those that are paused now, whether they have landed or not; else that were by then.

    Raises:
        LakeError: one has expired.
    """
    own = own_directory(place)
    noted, oids = {table.name: table for table in paused_tables(own).values()}, oids_by_name(own)
    behind = {name: table.stands_at or 0 for name, table in noted.items()} if is_now else resolved.paused
    form = LandingTarget.at(place).open_format()
    try:
        for name in sorted({*resolved.tables, *behind}):
            view = _view(form, place, name, resolved.tables.get(name, -1))
            view = replace(view, oid=oids.get(name))
            yield replace(view, **_lag(behind[name], noted.get(name))) if name in behind else view
    finally:
        form.close()


def _view(form: LakeFormat[Any], place: Where, name: str, version: int) -> TableView:
    if version < 0:
        return TableView(name, version, TableSize(0, 0, 0))
    schema = form.schema(place / name, name, version)
    renamed = {} if schema is None else LakeSchema.of(schema).renamed
    return TableView(name, version, form.size(place / name, name, version), renamed)


def _lag(stands_at: int, note: PausedTable | None) -> dict[str, Any]:
    is_same = note is not None and (note.stands_at or 0) == stands_at
    return {
        "state": note.state if note is not None and is_same else PAUSED,
        "stands_at": stands_at,
        "paused": note if is_same else None,
    }
