"""The settings of ``ALTER DATABASE ... SET`` and ``ALTER ROLE ... SET``, as the copy of a cluster has them.

Job: the rows of ``pg_db_role_setting`` that a session of a role in a database begins with, in the order in which one
goes before another (PostgreSQL: process_settings, postinit.c). The order is: for all roles, for the database, for the
role, for the role in the database. A session takes them when it begins, a moment that no WAL records; so they are those
of the copy, and are not followed through the WAL. Columns: ``catalog/pg_db_role_setting.h`` and ``pg_authid.h``, the
same since 9.0.

Known gaps: in an online backup, settings that were made while it was taken may be there or not; settings of more than 8
kB that are stored out of line are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.catalog import fields
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.pages import (
    BLCKSZ,
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMIN_COMMITTED,
    PageTuple,
    page_tuples,
    scan_heap,
)
from headwater.errors import CatalogError
from headwater.pg.catalogs import (
    GLOBAL_TABLESPACE,
    PG_AUTHID,
    PG_DB_ROLE_SETTING,
    CatalogColumn,
    CatalogLayout,
)
from headwater.rmgr.heap import TupleBytes

_SETTING = CatalogLayout(
    PG_DB_ROLE_SETTING,
    "pg_db_role_setting",
    (CatalogColumn("setdatabase", 4, "i"), CatalogColumn("setrole", 4, "i"), CatalogColumn("setconfig", -1, "i")),
    {"setdatabase": 0, "setrole": 4},
    8,
)
_ROLE = CatalogLayout(
    PG_AUTHID,
    "pg_authid",
    (CatalogColumn("oid", 4, "i"), CatalogColumn("rolname", 64, "c")),
    {"oid": 0, "rolname": 4},
    68,
)


def role_settings(directory: DataDirectory, database: int, role: str | None) -> dict[str, str]:
    """Read the settings that a session begins with, in addition to the configuration files.

    Args:
        directory: the copy.
        database: OID.
        role: a role's name, None for one that has no settings of its own.

    Returns:
        values by names in lower case.

    Raises:
        CatalogError: there is no such role, or the copy cannot be read.
    """
    directory.expect_heaps(_locator(directory, oid) for oid in (PG_DB_ROLE_SETTING, PG_AUTHID))
    user = None if role is None else _role_oid(directory, role)
    rows = dict(_settings(directory))
    order = [(0, 0), (database, 0), *([] if user is None else [(0, user), (database, user)])]
    return {name: value for key in order for name, value in rows.get(key, {}).items()}


def settings_place(directory: DataDirectory) -> str:
    """Return the file that the settings lie in, for errors."""
    return directory.relation_place(_locator(directory, PG_DB_ROLE_SETTING))


def _locator(directory: DataDirectory, oid: int) -> tuple[int, int, int]:
    return GLOBAL_TABLESPACE, 0, directory.relation_map().get(oid, oid)


def _role_oid(directory: DataDirectory, role: str) -> int:
    reader = _ROLE.reader("oid", "rolname")
    for data in _rows(directory, _ROLE):
        oid, name = reader.unpack_from(data.body)
        if name.rstrip(b"\0") == role.encode():
            return int(oid)
    raise CatalogError(f'role "{role}" does not exist', file=directory.relation_place(_locator(directory, PG_AUTHID)))


def _settings(directory: DataDirectory) -> Iterator[tuple[tuple[int, int], dict[str, str]]]:
    """Give pairs of (database, role) and their settings."""
    reader = _SETTING.reader("setdatabase", "setrole")
    for data in _rows(directory, _SETTING):
        stored = fields.column(_SETTING, data, "setconfig")
        if stored is not None and fields.payload(stored) is None:
            raise CatalogError(
                "a row of pg_db_role_setting is stored out of line",
                file=settings_place(directory),
                hint="have fewer settings in ALTER DATABASE or ALTER ROLE ... SET",
            )
        texts = (text.decode("utf-8", "replace") for text in (fields.text_array(stored) if stored else ()))
        pairs = (text.partition("=") for text in texts)
        yield reader.unpack_from(data.body), {name.lower(): value for name, _, value in pairs}


def _rows(directory: DataDirectory, layout: CatalogLayout) -> Iterator[TupleBytes]:
    """Give the rows of a shared catalog that are not dead in the copy."""
    locator = _locator(directory, layout.oid)
    data = directory.heap(locator)
    if data is None:
        raise CatalogError(
            f"{layout.name} has no file", file=directory.relation_place(locator), hint="is the copy complete?"
        )
    for at in range(0, len(data), BLCKSZ):
        if scan_heap(data[at : at + BLCKSZ], layout.fixed_length).bad_block >= 0:
            continue
        for _, row in page_tuples(data[at : at + BLCKSZ]):
            if _is_alive(directory, row):
                yield row.data


def _is_alive(directory: DataDirectory, row: PageTuple) -> bool:
    mask = row.data.infomask
    is_there = bool(mask & HEAP_XMIN_COMMITTED) or directory.is_committed(row.xmin)
    if row.is_xmin_invalid or not is_there:
        return False
    if not row.is_deleted:
        return True
    deleter = directory.update_xid(row.xmax) if mask & HEAP_XMAX_IS_MULTI else row.xmax
    return deleter == 0 or not (mask & HEAP_XMAX_COMMITTED or directory.is_committed(deleter))
