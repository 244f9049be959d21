"""The partitions of a table in the order in which the server reads them: by their bounds.

In: a view of the catalog. Out: OIDs, each table before what is below it.

PostgreSQL: partitioning/partbounds.c (create_hash_bounds, create_list_bounds, create_range_bounds).

Known gaps:

- Text is ordered by its bytes, as in the collation C.
- A bound may have values of a type that is not known here, such as an enum. Then partitions are in the order of OIDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.catalog.generic_row import NamedRow
from headwater.catalog.node_tree import Datum, Node
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.definitions.expressions import parse_one
from headwater.errors import CatalogError
from headwater.filters.sort_keys import sort_key
from headwater.rows.missing_values import varlena_payload
from headwater.walsender.copying.inheritors import children_by_parent

_LISTED, _NULL, _DEFAULT = range(3)


def partitions_in_order(view: HistoricCatalog, oid: int) -> list[int]:
    """List a partitioned table and all below it, each before what is below it."""
    children = children_by_parent(view)
    ordered: list[int] = []
    waiting = [oid]
    while waiting:
        ordered.append(waiting.pop())
        waiting += reversed(_by_bounds(view, children.get(ordered[-1], ())))
    return ordered


def _by_bounds(view: HistoricCatalog, oids: Sequence[int]) -> list[int]:
    """Sort the partitions of one table."""
    try:
        keys = {oid: bound_key(_bound(row)) for oid in oids for row in view.named_rows("pg_class", "oid", oid)}
    except KeyError:
        return list(oids)
    return sorted(oids, key=lambda oid: keys[oid])


def _bound(row: NamedRow) -> Node:
    bound = row.text("relpartbound")
    if bound is None:
        raise CatalogError(f"partition {row.oid('oid')} has no bound")
    return parse_one(bound)


def bound_key(bound: Node) -> tuple[Any, ...]:
    """Return what a partition is ordered by among those of its table.

    Args:
        bound: its PARTITIONBOUNDSPEC.

    Raises:
        KeyError: a value is of a type whose order is not known.
    """
    if bound.boolean("is_default"):
        return (_DEFAULT,)
    strategy = bound.word("strategy")
    if strategy == "h":
        return _LISTED, bound.integer("modulus"), bound.integer("remainder")
    if strategy == "r":
        return _LISTED, *map(_limit, bound.nodes("upperdatums"))
    values = [_value(datum) for datum in bound.nodes("listdatums") if not datum.boolean("constisnull")]
    return (_LISTED, min(values)) if values else (_NULL,)


def _limit(datum: Node) -> tuple[int, Any]:
    """Return the key of one column of a bound of a range: its kind is negative for MINVALUE, positive for MAXVALUE."""
    kind = datum.integer("kind")
    return kind, 0 if kind else _value(datum.node("value"))


def _value(constant: Node) -> Any:
    key, datum = sort_key(constant.integer("consttype")), constant["constvalue"]
    assert isinstance(datum, Datum)
    length = constant.integer("constlen")
    payload = varlena_payload(datum.data) if length == -1 else datum.data[:length]
    if payload is None:
        raise CatalogError("the bound of a partition has a malformed constant")
    return key(payload)
