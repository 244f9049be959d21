"""The files that the catalogs lie in, of one database and shared ones, as a state of the fold knows them.

A system relation is one that ``initdb`` made: a catalog, its indexes and TOAST table, tables of the information schema.
Each has a row in ``pg_class``, or a place in a relation map. Files of transactions that run are among them: one of
them may be the catalog's next.

Large objects are rows that users wrote, though they lie in a catalog: their files are none of these.
"""

from __future__ import annotations

import numpy as np

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import CatalogError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID, PG_AUTHID, PG_CLASS
from headwater.walsender.catalog_server.filtered_wal import SystemFiles

LARGE_OBJECTS = frozenset({2613, 2683})
"""``pg_largeobject`` and its index."""

_SUPERUSER = 10
"""OID of the role that initdb makes (BOOTSTRAP_SUPERUSERID)."""


def system_files(store: CatalogStore) -> SystemFiles:
    """Return the files of the system relations, those of all versions that the store has."""
    shared = {number for is_shared, number in store.files.mapped if is_shared}
    local = {number for is_shared, number in store.files.mapped if not is_shared}
    where = store.files.whereabouts
    roles = {number for (is_shared, number), (oid, _) in store.files.mapped.items() if is_shared and oid == PG_AUTHID}
    files = frozenset(shared), frozenset(local | _by_rows(store)), frozenset(roles)
    return SystemFiles(where.database, where.tablespace, *files)


def _by_rows(store: CatalogStore) -> set[int]:
    """Return the file numbers that rows of ``pg_class`` name for system relations."""
    table = store.tables[PG_CLASS]
    oid_at, number_at = (table.layout.offsets[name] for name in ("oid", "relfilenode"))
    bases = [(base.rows.column(oid_at, 4), base.rows.column(number_at, 4)) for base in table.bases]
    bodies = [version.data.body for version in table.made_versions()]
    made = [[int.from_bytes(body[at : at + 4], "little") for body in bodies] for at in (oid_at, number_at)]
    oids, numbers = (
        np.concatenate([*(base[i] for base in bases), np.array(made[i], np.uint32)]).astype(np.int64) for i in (0, 1)
    )
    is_system = (oids < FIRST_NORMAL_OBJECT_ID) & ~np.isin(oids, sorted(LARGE_OBJECTS)) & (numbers != 0)
    return set(numbers[is_system].tolist())


def name_of_superuser(store: CatalogStore) -> str:
    """Return the name of the role that initdb made, as of the last commit that named it.

    Raises:
        CatalogError: the catalog does not say.
    """
    rows = [row for span in store.timeline_of(("pg_authid", "oid", _SUPERUSER)).rows for row in span]
    if not rows:
        raise CatalogError("the catalog does not have the role that initdb made")
    return rows[-1].data.body[4:68].rstrip(b"\0").decode(errors="surrogateescape")
