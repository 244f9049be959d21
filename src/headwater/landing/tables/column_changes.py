"""Columns that a table has no more, or that have another name, where the lake's are not to follow.

The lake keeps such columns as they are, so what it has tells nothing of them (:mod:`headwater.lakes.lake_schema`). In:
a planned window, in the thread that plans, and which tables are chosen. Out: its changes of columns; later, an error of
a table that has landed before, until a run lands the window whose ``--schema-evolution`` lets the lake's follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import LakeError
from headwater.landing.tables.catalog_changes import CatalogWindow, of_relations
from headwater.pg.catalogs import PG_ATTRIBUTE
from headwater.plugins.rows.plugin import TableChoice
from headwater.rows.columns.arrow import is_shown


@dataclass(frozen=True)
class ColumnChange:
    """Columns of a table are others from a commit on.

    Attributes:
        lsn: START of the commit record.
        table: as of then.
        what: became of them, in words.
    """

    lsn: int
    table: RelationSchema
    what: tuple[str, ...]

    def refusal(self, name: str) -> LakeError:
        """Return the error of a change that is not wanted.

        Args:
            name: of the table in the lake.
        """
        return LakeError(
            f"table {name} has other columns than in the lake: {', '.join(self.what)}",
            lsn=self.lsn,
            hint="--schema-evolution evolve keeps the lake's as they are, and passes over that",
        )


def column_changes(window: CatalogWindow, choice: TableChoice) -> tuple[ColumnChange, ...]:
    """Find the changes of columns in a window, in the order of the commits.

    Args:
        window: it.
        choice: which tables land.
    """
    places = window.updated(PG_ATTRIBUTE)
    changes = (_change(window.store, choice, oid, lsn) for lsn, oid in of_relations(places))
    return tuple(change for change in changes if change is not None)


def _change(store: CatalogStore, choice: TableChoice, oid: int, lsn: int) -> ColumnChange | None:
    view = store.view(lsn + 1)
    before, after = store.view(lsn).relation(oid), view.relation(oid)
    if before is None or after is None or after.kind not in "rpm" or after.topmost != oid:
        return None
    what = tuple(_differing(before, after))
    return ColumnChange(lsn, after, what) if what and choice.chooses(after, view) else None


def _differing(before: RelationSchema, after: RelationSchema) -> Iterator[str]:
    names = {column.number: column.name for column in after.columns if is_shown(column)}
    for column in filter(is_shown, before.columns):
        name = names.get(column.number)
        if name is None:
            yield f"{column.name} is dropped"
        elif name != column.name:
            yield f"{column.name} is called {name}"
