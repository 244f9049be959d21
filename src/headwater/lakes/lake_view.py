"""The tables of a target as they belong together: now, or as of an LSN or a moment (``headwater lake tables``).

Nothing is locked: what a version of a table is made of does not change until it is expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headwater.lakes.lake_schema import LakeSchema
from headwater.lakes.lake_table import TableSize, errors_at
from headwater.lakes.landing_target import LandingTarget, own_directory
from headwater.lakes.resolved import Resolved, resolved_at


@dataclass(frozen=True)
class TableView:
    """A table of a target.

    Attributes:
        name: it; version: see :attr:`~headwater.lakes.lake_table.LakeTable.version`.
        size: what it is made of.
        renamed: what columns were called in the source that are called otherwise here.
    """

    name: str
    version: int
    size: TableSize
    renamed: Mapping[str, str]


def read_as_of(place: Path, lsn: int | None = None, time: datetime | None = None) -> Resolved:
    """The versions of a target's tables that belong together: the last ones, or those of a time before.

    Windows are what is told apart: between two of them, it is the one before.

    Args:
        place: the target's directory.
        lsn: nothing that committed at or behind it.
        time: nothing that committed later; with a time zone.

    Returns:
        which version of each table to read, and the LSN up to which they have everything.

    Raises:
        LakeError: nothing is known of then.
    """
    with errors_at(place):
        return resolved_at(own_directory(place), lsn, time)


def tables_of(place: Path, resolved: Resolved) -> Iterator[TableView]:
    """The tables of a target in certain versions.

    Raises:
        LakeError: one has expired.
    """
    form = LandingTarget.at(place).open_format()
    try:
        for name, version in sorted(resolved.tables.items()):
            schema = form.schema(place / name, name, version)
            renamed = {} if schema is None else LakeSchema.of(schema).renamed
            yield TableView(name, version, form.size(place / name, name, version), renamed)
    finally:
        form.close()
