"""The check that a copy of a cluster has all files of the catalogs, after WAL has been read, which may have the rest.

The copy need not have files that the WAL has made again, or that a catalog has left in the window: then the WAL has all
of it. ``relpages`` is looked at only where a file may end because the next one is missing (PostgreSQL: ``md.c``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_CLASS, SHARED_CATALOGS, catalog_layout

if TYPE_CHECKING:
    from headwater.catalog.store.catalog_store import CatalogStore
    from headwater.catalog.store.heaps import Locator

INCOMPLETE = "is the copy complete? take a new base backup"


def check_files(store: CatalogStore) -> None:
    """Refuse a copy that lacks a file, or a part of one, that a catalog still lies in, as far as the WAL is read.

    Raises:
        CatalogError: a file is missing.
    """
    for oid, table in store.tables.items():
        locator, pages = _place_and_pages(store, oid)
        heap = None if locator is None else store.files.heaps.get(locator)
        if heap is None or heap.is_made or (store.origin.is_logged and heap.locator[1]):
            continue
        if heap.is_missing:
            raise CatalogError(f"{table.layout.name} has no file", file=heap.file or None, hint=INCOMPLETE)
        may_end = heap.blocks % store.origin.segment_blocks == 0 and not heap.is_extended
        if may_end and pages > heap.blocks:
            raise CatalogError(
                f"{table.layout.name} has {heap.blocks} pages, expected {pages} as pg_class says",
                file=heap.file,
                hint=INCOMPLETE,
            )


def _place_and_pages(store: CatalogStore, oid: int) -> tuple[Locator | None, int]:
    """Locate a catalog at the end of the window, and tell how many pages it should have at least."""
    rows = store.timeline_of(("pg_class", "oid", oid)).rows[-1]
    if oid in SHARED_CATALOGS or not rows:
        return store.files.places.get(oid), 0
    reader = catalog_layout(store.major, PG_CLASS).reader("relfilenode", "reltablespace", "relpages")
    filenode, tablespace, pages = reader.unpack_from(rows[0].data.body)
    if filenode == 0:
        return store.files.places.get(oid), pages
    return store.files.whereabouts.place(tablespace, filenode), pages
