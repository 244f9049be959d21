"""The names of relations, and the LSNs at which the relations had them.

In: a store that was rolled forward. Out: every name that some relation had, with the LSNs between which it had it. All
rows of ``pg_class`` are looked at: names are what users ask for, once or twice a window, and no index is kept for them.

A name that a transaction gave and took back itself was never seen by another one: it begins and ends with that
transaction's commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from headwater.catalog.rows import ClassRow
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.versions import NEVER
from headwater.pg.catalogs import PG_CLASS, PG_NAMESPACE


class RelationName(NamedTuple):
    """A relation under a name.

    Attributes:
        name: the name with its schema, ``schema.name``.
        relation: the relation's row of ``pg_class``, as one of the versions with that name has it.
        born, died: the relation has the name at LSNs in ``(born, died]``.
    """

    name: str
    relation: ClassRow
    born: int
    died: int

    def is_at(self, lsn: int) -> bool:
        """Tell whether the relation has the name in a view at this LSN."""
        return self.born < lsn <= self.died


def relation_names(store: CatalogStore, first_oid: int) -> Iterator[RelationName]:
    """Give all names of all relations from an OID on, of committed transactions, in no particular order.

    Raises:
        CatalogError: a page or row of the catalog is broken.
    """
    namespaces = defaultdict(list)
    for version in store.tables[PG_NAMESPACE].all_versions():
        (row,) = store.rows.namespaces([version.data])
        namespaces[row.oid].append((row.name, *store.fates.lifetime(version)))
    for version in store.tables[PG_CLASS].all_versions():
        (relation,) = store.rows.classes([version.data])
        if relation.oid < first_oid:
            continue
        born, died = store.fates.lifetime(version)
        for schema, since, until in namespaces[relation.namespace]:
            both = max(born, since), min(died, until)
            if both[0] <= both[1] and both[0] < NEVER:
                yield RelationName(f"{schema}.{relation.name}", relation, *both)
