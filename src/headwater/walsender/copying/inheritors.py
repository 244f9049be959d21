"""The tables whose rows belong to a table: its partitions, and the tables that inherit from it, in the server's order.

In: a view of the catalog. Out: OIDs.

PostgreSQL: catalog/pg_inherits.c (find_inheritance_children, find_all_inheritors).
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.catalog.store.tables import WHOLE


def children_by_parent(view: HistoricCatalog) -> Mapping[int, tuple[int, ...]]:
    """Map each table to its children, by their OIDs; a partition that is being detached is none."""
    children: dict[int, list[int]] = {}
    for row in view.named_rows("pg_inherits", WHOLE, 0):
        if not row.flag("inhdetachpending"):
            children.setdefault(row.oid("inhparent"), []).append(row.oid("inhrelid"))
    return {parent: tuple(sorted(oids)) for parent, oids in children.items()}


def all_inheritors(view: HistoricCatalog, oid: int) -> list[int]:
    """List a table and all below it, level by level; each once, however many parents it has."""
    children = children_by_parent(view)
    found_oids = [oid]
    for parent in found_oids:
        found_oids += [child for child in children.get(parent, ()) if child not in found_oids]
    return found_oids
