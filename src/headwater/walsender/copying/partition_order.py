"""The partitions of a table in the order in which the server reads them.

Known gap: the order of bounds is that of OIDs, so that of creation.
"""

from __future__ import annotations

from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.walsender.copying.inheritors import children_by_parent


def partitions_in_order(view: HistoricCatalog, oid: int) -> list[int]:
    """List a partitioned table and all below it, each before what is below it."""
    children = children_by_parent(view)
    ordered: list[int] = []
    waiting = [oid]
    while waiting:
        ordered.append(waiting.pop())
        waiting += reversed(children.get(ordered[-1], ()))
    return ordered
