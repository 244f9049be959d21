"""Rows of catalogs that a server itself loses, under VACUUM FULL: its output then is no oracle."""

from __future__ import annotations

from typing import Any

import psycopg

DEPENDED_ON = (
    "pg_class",
    "pg_type",
    "pg_namespace",
    "pg_constraint",
    "pg_attrdef",
    "pg_proc",
    "pg_publication",
    "pg_publication_rel",
)
"""Catalogs whose rows pg_depend names."""


class CatalogRowLostError(Exception):
    """A row of a catalog that the server has lost: what the server says is not to be compared with."""


def require_catalog_rows(connection: psycopg.Connection[Any]) -> None:
    """Check that a server has the rows of catalogs that its other rows depend on, and all columns of its relations.

    VACUUM FULL loses a row of a catalog when the transaction that has updated it is rolled back at a certain moment
    meanwhile: rewrite_heap_dead_tuple drops the version before the dead one. The server then decodes all that it still
    decodes without that row.

    Raises:
        CatalogRowLostError: a row was lost.
    """
    for catalog in (*DEPENDED_ON, "pg_publication_namespace"):
        if connection.execute("SELECT to_regclass(%s) IS NULL", [catalog]).fetchone() == (True,):
            continue
        for place in ("ref", ""):
            query = (
                f"SELECT {place}objid FROM pg_depend WHERE {place}classid = '{catalog}'::regclass "
                f"AND {place}objid NOT IN (SELECT oid FROM {catalog})"
            )
            _require_none(connection, query, catalog)
    columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0"
    _require_none(
        connection, f"SELECT oid FROM pg_class c WHERE relnatts <> ({columns})", "pg_attribute, of a relation,"
    )


def _require_none(connection: psycopg.Connection[Any], query: str, catalog: str) -> None:
    lost = connection.execute(query.encode()).fetchone()
    if lost is not None:
        raise CatalogRowLostError(f"{catalog} has lost a row, OID {lost[0]}")
