"""Relations that have rows of their own, and where these lie as of an LSN.

In: a catalog, rolled forward to there. Out: :class:`Leaf`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.existing.page_history import Locator
from headwater.pg.catalogs import HEAP_ACCESS_METHOD


@dataclass(frozen=True)
class Leaf:
    """A relation that has rows.

    Attributes:
        schema: as of the LSN; locator: its file; toast: its TOAST table's file, None without one.
    """

    schema: RelationSchema
    locator: Locator
    toast: Locator | None


def leaf_of(store: CatalogStore, view: HistoricCatalog, schema: RelationSchema) -> Leaf | None:
    """Return where a relation's rows lie; None for one that has no file.

    Args:
        store: the catalog; view: of it, as of the LSN.
        schema: the relation.
    """
    locator = _locator(store, view, schema.oid)
    if locator is None:
        return None
    return Leaf(schema, locator, _locator(store, view, schema.toast_oid) if schema.toast_oid else None)


def other_access_method(view: HistoricCatalog, oid: int) -> int | None:
    """Return the OID of a relation's access method if its rows do not lie in heap pages, else None."""
    methods = (row.access_method for row in view.class_rows(oid))
    return next((method for method in methods if method != HEAP_ACCESS_METHOD), None)


def files_of(leaves: Iterable[Leaf]) -> list[Locator]:
    """List the files of relations and of their TOAST tables, each once."""
    chosen = list(leaves)
    return sorted({leaf.locator for leaf in chosen}.union(toast_files_of(chosen)))


def toast_files_of(leaves: Iterable[Leaf]) -> list[Locator]:
    """List the files of the TOAST tables of relations, each once."""
    return sorted({leaf.toast for leaf in leaves if leaf.toast is not None})


def _locator(store: CatalogStore, view: HistoricCatalog, oid: int) -> Locator | None:
    rows = view.class_rows(oid)
    return store.files.whereabouts.place(rows[0].tablespace, rows[0].filenode) if rows and rows[0].filenode else None
