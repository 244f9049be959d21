"""Changes of catalogs' rows by the commits of a window: of which relations, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.store.tables import CatalogTable
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID

Places = set[tuple[int, int]]
"""First keys of rows, OIDs of relations or schemas, each with the START of a commit's record."""


@dataclass(frozen=True)
class CatalogWindow:
    """A window, of which the commits count whose record starts in ``[lo, hi)``.

    Attributes:
        store: the catalog, rolled forward over it.
        lo, hi: LSNs.
    """

    store: CatalogStore
    lo: int
    hi: int

    def __contains__(self, lsn: int) -> bool:
        """Tell whether a commit whose record starts there is one of them."""
        return self.lo <= lsn < self.hi

    @cached_property
    def end(self) -> HistoricCatalog:
        """The catalog after the window."""
        return self.store.view(self.hi)

    def made(self, catalog: int) -> Places:
        """Return rows that were made, or changed.

        Args:
            catalog: OID of it.
        """
        return self._places(self.store.tables[catalog])[0]

    def removed(self, catalog: int) -> Places:
        """Return rows that are no more, or that others are in the place of; see :meth:`made`."""
        return self._places(self.store.tables[catalog])[1]

    def changed(self, catalog: int) -> Places:
        """Return rows that were made, changed or removed; see :meth:`made`."""
        born, died = self._places(self.store.tables[catalog])
        return born | died

    def updated(self, catalog: int) -> Places:
        """Return rows that were there before, under their key, and were changed; see :meth:`made`."""
        born, died = self._places(self.store.tables[catalog])
        return born & died

    def _places(self, table: CatalogTable) -> tuple[Places, Places]:
        """Tell where rows were made, and where they went."""
        born, died = Places(), Places()
        for version in table.versions_between(self.lo, self.hi):
            oid = table.first_key(version)
            assert isinstance(oid, int)
            for lsn, places in zip(self.store.fates.lifetime(version), (born, died), strict=True):
                if lsn in self:
                    places.add((oid, lsn))
        return born, died


def of_relations(places: Places) -> list[tuple[int, int]]:
    """Return LSNs and OIDs of relations that are no catalogs, in the order of the commits."""
    return sorted((lsn, oid) for oid, lsn in places if oid >= FIRST_NORMAL_OBJECT_ID)
