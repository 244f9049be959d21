"""The relations that the option ``tables`` means: which one a single name is, and whether a pattern matches any.

A name means the relation that bears it at the window's end; if none does, the last one that bore it in the window. So a
table that was renamed, or made again, is not mixed with what had its name before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headwater.catalog.rows import ClassRow
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.relation_names import RelationName, relation_names
from headwater.errors import CatalogError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.plugins.table_patterns import no_table, qualified_name
from headwater.reorder.plan import RelationUse

_NO_ROWS = {
    "p": ("is partitioned: its rows are in its partitions", "name a partition, or set images to true"),
    "v": ("is a view: it has no rows of its own", None),
    "f": ("is a foreign table: its rows are on another server", None),
}


class NamedTable(NamedTuple):
    """The relation that a name means.

    Attributes:
        oid: its OID.
        lsn: where its columns are looked up: the window's end, or where it was dropped.
    """

    oid: int
    lsn: int


class TableNames:
    """The relations a user may ask for, by the names they had in a window.

    Args:
        store: the catalog, rolled forward over the window.
        start: LSN where the window begins; end: LSN after its last record.
    """

    def __init__(self, store: CatalogStore, start: int, end: int) -> None:
        self.end = end
        names = relation_names(store, FIRST_NORMAL_OBJECT_ID)
        self._all = [n for n in names if n.born < self.end and n.died >= start and not n.relation.rewrite]

    def named(self, name: str) -> NamedTable | None:
        """Return the relation that a name means; None if none of the catalog's bore it.

        Raises:
            CatalogError: the name is ambiguous, or its relation has no rows in the WAL.
        """
        bearers = [n for n in self._all if n.name == name and _is_named_by_users(n.relation)]
        present = [n for n in bearers if n.is_at(self.end)]
        if len({n.relation.oid for n in present}) > 1:
            raise CatalogError(f'the table name "{name}" is ambiguous: schemas and tables have points in their names')
        last = max(present or bearers, key=lambda n: (n.died, n.born), default=None)
        if last is None:
            return None
        _require_rows(last)
        oid = last.relation.oid
        return NamedTable(oid, self.last_lsn(oid))

    def last_lsn(self, oid: int) -> int:
        """Return the LSN at which a relation's columns are looked up: the window's end, or where it was dropped."""
        return min(self.end, max((n.died for n in self._all if n.relation.oid == oid), default=self.end))

    def with_rows(self, changed: Iterable[RelationUse]) -> set[str]:
        """Return the names of tables that the window's catalog had, or that had changes in the window.

        Args:
            changed: relations that had changes, as of these.
        """
        names = {n.name for n in self._all if _has_rows(n.relation)}
        return names | {qualified_name(use.schema) for use in changed if not use.is_toast}

    def no_match(self, name: str) -> CatalogError:
        """Return the error of a name that no relation has."""
        return no_table(name, (n.name for n in self._all if n.is_at(self.end)))


def _is_named_by_users(relation: ClassRow) -> bool:
    return relation.kind in "rmpvf"


def _has_rows(relation: ClassRow) -> bool:
    """Tell whether changes of a relation may be in the WAL; of partitioned tables only truncates."""
    return relation.kind in "rmp" and relation.persistence == "p"


def _require_rows(named: RelationName) -> None:
    relation = named.relation
    if relation.kind in _NO_ROWS:
        reason, hint = _NO_ROWS[relation.kind]
        raise CatalogError(f'"{named.name}" {reason}', hint=hint)
    if relation.persistence != "p":
        kind = "an unlogged" if relation.persistence == "u" else "a temporary"
        raise CatalogError(f'"{named.name}" is {kind} table: its changes are not in the WAL')
