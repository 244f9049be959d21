"""Open the catalog of a database in a data directory or base backup, with no server.

Job: find the catalogs' files the way a backend does when it starts (relcache.c, relmapper.c): ``pg_database`` through
the shared relation map names the database; its own map leads to ``pg_class``; that leads to the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from headwater.catalog.copy.data_directory import DataDirectory, running_server
from headwater.catalog.copy.prepared import PreparedTransaction, prepared_transactions
from headwater.catalog.copy.taken_at import CatalogOrigin
from headwater.catalog.rows import CatalogRows, ClassRow, DatabaseRow
from headwater.catalog.snapshot import xid_precedes
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.copied_files import INCOMPLETE, check_files
from headwater.catalog.store.database_location import CreatedDatabase, Whereabouts
from headwater.catalog.store.heaps import Locator
from headwater.catalog.versions import NEVER, Version
from headwater.errors import CatalogError
from headwater.option_names import option
from headwater.pg.catalogs import (
    DEFAULT_TABLESPACE,
    GLOBAL_TABLESPACE,
    PG_CLASS,
    PG_DATABASE,
    SHARED_CATALOGS,
    catalog_name,
)
from headwater.pg.encodings import encoding_name


def list_databases(path: str | Path) -> list[DatabaseRow]:
    """List the databases of a data directory or base backup, by OID.

    Raises:
        CatalogError: not a data directory, an unsupported version, a file missing or broken.
    """
    directory = DataDirectory(path)
    _check_not_running(path)
    return sorted(_databases(directory, directory.relation_map()), key=lambda row: row.oid)


def choose_database(path: str | Path, name: str | None) -> DatabaseRow:
    """Return a database of a data directory or base backup.

    Args:
        path: it; name: the database's, None for the only one that accepts connections and is no template.

    Raises:
        CatalogError: as :func:`list_databases`; there is none of this name, or not just one.
    """
    return _choose(list_databases(path), name, path)


def open_created_catalog(
    path: str | Path, line: Sequence[CreatedDatabase], row: DatabaseRow, extra_locators: Iterable[Locator] = ()
) -> CatalogStore:
    """Open the catalog of a database that the WAL creates, from the database that it is made of.

    Args:
        path: as that of :func:`open_catalog`.
        line: databases that were created one as a copy of the files of the other, in their order: the first one from
            files that are here, or from none; the last one is the wanted database.
        row: the wanted database's row of ``pg_database``.
        extra_locators: files that an earlier store reported as missing.

    Returns:
        the store, not rolled forward: the WAL makes it that database's own.

    Raises:
        CatalogError: as :func:`open_catalog`.
    """
    wanted, source, rows = line[-1], line[0].source, list_databases(path)
    root = next((database for database in rows if database.oid == source), None) if source is not None else rows[0]
    if root is None:
        raise CatalogError(
            f'database "{row.name}" was created as a copy of database {source}, which is not in the catalog',
            lsn=line[0].lsn,
            file=str(path),
        )
    store = open_catalog(path, root, extra_locators)
    origin = replace(
        store.origin,
        database_oid=wanted.oid,
        database_name=row.name,
        database_tablespace=wanted.tablespace,
        encoding=encoding_name(row.encoding),
        prepared=(),
        is_logged=source is None,
    )
    followed = Whereabouts(root.oid, root.tablespace, tuple(database.oid for database in line))
    if source is None:
        store.files.forget_database()
        followed = Whereabouts(line[0].oid, line[0].tablespace, tuple(database.oid for database in line[1:]))
    store.become(origin, followed)
    return store


def open_catalog(
    path: str | Path,
    database: str | DatabaseRow | None = None,
    extra_locators: Iterable[Locator] = (),
    *,
    with_definitions: bool = False,
) -> CatalogStore:
    """Read the catalog of one database.

    Args:
        path: a data directory of a stopped server, or a base backup, plain or in tar format.
        database: the database's name, or its row; may be left out if only one accepts connections and is no template.
        extra_locators: files that an earlier store reported as missing.
        with_definitions: whether to read also the catalogs that have the definitions of objects.

    Returns:
        the store, not rolled forward.

    Raises:
        CatalogError: not a data directory, an unsupported version, an unknown database, a file missing or broken.
    """
    directory = DataDirectory(path)
    _check_not_running(path)
    shared_map = directory.relation_map()
    if isinstance(database, DatabaseRow):
        chosen = database
    else:
        chosen = _choose(_databases(directory, shared_map), database, path)
    store = _new_store(directory, chosen, with_definitions)
    for locator in extra_locators:
        store.files.add_extra(locator, directory.heap(locator))
    store.files.map_catalogs(shared_map, is_shared=True)
    local_map = directory.relation_map(chosen.oid, chosen.tablespace)
    followed = frozenset(store.tables)
    store.files.map_catalogs(local_map, is_shared=False)
    mapped = {oid: (GLOBAL_TABLESPACE, 0, _mapped(shared_map, oid)) for oid in followed & SHARED_CATALOGS}
    for oid in followed - SHARED_CATALOGS:
        if oid in local_map:
            mapped[oid] = chosen.tablespace, chosen.oid, local_map[oid]
    directory.expect_heaps(mapped.values())
    for oid, locator in mapped.items():
        _add_heap(directory, store, locator, oid)
    _mapped(local_map, PG_CLASS)
    directory.expect_heaps(_named_places(store))
    for oid in sorted(followed - SHARED_CATALOGS - local_map.keys()):
        _add_heaps(directory, store, oid)
    if directory.is_clean:
        check_files(store)
    elif directory.label is None:
        store.files.reach_lsn = max(store.files.reach_lsn, store.files.youngest_page())
    return store


def _check_not_running(path: str | Path) -> None:
    pid = running_server(Path(path))
    if pid is not None:
        raise CatalogError(
            f"a server runs in this directory (process {pid}), its files change while they are read",
            file=str(path),
            hint="take a base backup with pg_basebackup and give that, or stop the server",
        )


def _databases(directory: DataDirectory, shared_map: dict[int, int]) -> list[DatabaseRow]:
    """Read ``pg_database`` as of the backup's files."""
    store = _new_store(directory, DatabaseRow(0, "", 0, False, False, DEFAULT_TABLESPACE))
    locator = (GLOBAL_TABLESPACE, 0, _mapped(shared_map, PG_DATABASE))
    _add_heap(directory, store, locator, PG_DATABASE, must_exist=True)
    lives = ((version, *store.fates.lifetime(version)) for version in store.tables[PG_DATABASE].all_versions())
    rows = CatalogRows(directory.major, "UTF8")
    return rows.databases(version.data for version, born, died in lives if born < NEVER == died)


def _choose(rows: list[DatabaseRow], name: str | None, path: str | Path) -> DatabaseRow:
    open_rows = [row for row in rows if row.allows_connections]
    there = ", ".join(sorted(row.name for row in open_rows))
    if name is not None:
        for row in rows:
            if row.name == name:
                return row
        raise CatalogError(f'database "{name}" does not exist', file=str(path), hint=f"there are: {there}")
    candidates = [row for row in open_rows if not row.is_template]
    if len(candidates) != 1:
        what = "more than one database" if candidates else "no database that accepts connections and is no template"
        hint = f"name one with {option('database')}: {there}" if there else None
        raise CatalogError(f"the cluster has {what}", file=str(path), hint=hint)
    return candidates[0]


def _new_store(directory: DataDirectory, row: DatabaseRow, with_definitions: bool = False) -> CatalogStore:
    control = directory.control
    prepared = prepared_transactions(directory)
    origin = CatalogOrigin(
        major=directory.major,
        system_identifier=control.system_identifier,
        timeline=directory.timeline,
        start_lsn=directory.start_lsn,
        is_shutdown=directory.is_shutdown,
        database_oid=row.oid,
        database_name=row.name,
        database_tablespace=row.tablespace,
        encoding=encoding_name(row.encoding),
        wal_level=control.wal_level,
        next_xid=control.next_xid & 0xFFFFFFFF,
        segment_blocks=control.relation_segment_blocks,
        backup_start=directory.backup_start,
        reach_lsn=directory.reach_lsn,
        reach_timeline=directory.reach_timeline,
        prepared=tuple(transaction for transaction in prepared if transaction.database == row.oid),
        xid_epoch=control.next_xid >> 32,
        decodes_on_demand=control.decodes_on_demand,
    )
    store = CatalogStore(origin, directory, directory.is_clean, with_definitions=with_definitions)
    if directory.is_shutdown:
        store.settle_before(_oldest(prepared, origin.next_xid))
    elif directory.label is None and control.oldest_active_xid:
        store.settle_before(control.oldest_active_xid)
    return store


def _oldest(prepared: Iterable[PreparedTransaction], next_xid: int) -> int:
    """Find the oldest xid that was running at a shutdown checkpoint: prepared transactions outlive it."""
    oldest = next_xid
    for xid in (xid for transaction in prepared for xid in (transaction.xid, *transaction.subxacts)):
        oldest = xid if xid_precedes(xid, oldest) else oldest
    return oldest


def _add_heap(
    directory: DataDirectory, store: CatalogStore, locator: Locator, oid: int, must_exist: bool = False
) -> None:
    base = directory.heap(locator)
    if base is None and (must_exist or directory.is_clean):
        raise CatalogError(
            f"{store.tables[oid].layout.name} has no file",
            file=directory.relation_place(locator),
            hint=INCOMPLETE,
        )
    try:
        store.files.add_heap(locator, oid, base, directory.is_clean, directory.relation_place(locator))
    except CatalogError as error:
        raise CatalogError(error.message, file=directory.relation_place(locator)) from None


def _mapped(mappings: dict[int, int], oid: int) -> int:
    if oid not in mappings:
        raise CatalogError(f"relation map lacks {catalog_name(oid)}")
    return mappings[oid]


def _add_heaps(directory: DataDirectory, store: CatalogStore, oid: int) -> None:
    """Add the files of a catalog, in the order in which it lay, or may have lain, in them.

    Row versions of pg_class that are dead, or not committed, may prove right in the WAL. A copy that is not clean may
    lack the rows altogether, if pg_class was rewritten meanwhile: the WAL brings them.

    Known gap: a file may be missed that a transaction was writing when the copy began, and that was gone before it was
    copied. It is not looked for unless pg_class has changed since on the page that names it.
    """
    live = [_place(store, row) for row in store.view(store.start_lsn + 1).class_rows(oid)]
    if directory.is_clean and not live:
        raise CatalogError(f"pg_class has no row of {store.tables[oid].layout.name}")
    uncertain = {id(version) for heap in store.files.heaps.values() for version in heap.unsettled()}
    added: set[Locator] = set()
    for version in _in_order_of_updates(store.tables[PG_CLASS].find("oid", oid)):
        (row,) = store.rows.classes([version.data])
        locator = _place(store, row)
        if not row.filenode or locator in added:
            continue
        if locator in live or directory.has_heap(locator):
            _add_heap(directory, store, locator, oid)
            if added:
                store.files.add_successor(locator, is_certain=id(version) not in uncertain)
            added.add(locator)
    for locator in live:
        store.files.places[oid] = locator


def _named_places(store: CatalogStore) -> list[Locator]:
    """List the files that some version of a row of pg_class, whether it is right or not, names for a catalog."""
    versions = [version for oid in store.tables for version in store.tables[PG_CLASS].find("oid", oid)]
    return [_place(store, row) for row in store.rows.classes(version.data for version in versions) if row.filenode]


def _place(store: CatalogStore, row: ClassRow) -> Locator:
    """Return the file that a row of pg_class names."""
    return row.tablespace or store.files.whereabouts.tablespace, store.database_oid, row.filenode


def _in_order_of_updates(versions: Iterable[Version]) -> list[Version]:
    """Order versions of a row, each after the one that its transaction updated."""
    rest, ordered = list(versions), list[Version]()
    while rest:
        first = next((v for v in rest if not any(v.inserter in w.deleters for w in rest if w is not v)), rest[0])
        rest.remove(first)
        ordered.append(first)
    return ordered
