"""Rows of catalogs that commits of a window have made, or put others in the place of: of which relations, and where."""

from __future__ import annotations

from headwater.catalog.store import CatalogStore
from headwater.catalog.tables import CatalogTable
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID

Places = set[tuple[int, int]]
"""First keys of rows, OIDs of relations or schemas, each with the START of a commit's record."""


def of_relations(places: Places) -> list[tuple[int, int]]:
    """LSNs and OIDs of relations that are no catalogs, in the order of the commits."""
    return sorted((lsn, oid) for oid, lsn in places if oid >= FIRST_NORMAL_OBJECT_ID)


def made_rows(store: CatalogStore, table: CatalogTable, lo: int, hi: int) -> Places:
    """Rows that were made, or changed, by the commits whose record starts in ``[lo, hi)``.

    Args:
        store: the catalog, rolled forward over the window.
        table: the rows of one catalog.
        lo, hi: LSNs.
    """
    return _places(store, table, lo, hi)[0]


def removed_rows(store: CatalogStore, table: CatalogTable, lo: int, hi: int) -> Places:
    """Rows that are no more, or that others are in the place of; see :func:`made_rows`."""
    return _places(store, table, lo, hi)[1]


def changed_rows(store: CatalogStore, table: CatalogTable, lo: int, hi: int) -> Places:
    """All of them; see :func:`made_rows`."""
    born, died = _places(store, table, lo, hi)
    return born | died


def updated_rows(store: CatalogStore, table: CatalogTable, lo: int, hi: int) -> Places:
    """The same of rows that were there before, under their key."""
    born, died = _places(store, table, lo, hi)
    return born & died


def _places(store: CatalogStore, table: CatalogTable, lo: int, hi: int) -> tuple[Places, Places]:
    """Where rows were made, and where they went."""
    born, died = Places(), Places()
    for version in table.made_versions():
        oid = table.first_key(version)
        assert isinstance(oid, int)
        for lsn, found in zip(store.fates.lifetime(version), (born, died), strict=True):
            if lo <= lsn < hi:
                found.add((oid, lsn))
    return born, died
