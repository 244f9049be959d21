"""Tables that are asked for later than the others of a target: which they are, and where their rows come from.

In: the catalog where the target has come to, what lands there and what is to land. Out: rows to be loaded as of there,
all tables as of one LSN, and from when on a base backup has them. Any backup will do that is complete before that LSN,
with the WAL from its beginning on: what WAL after its end did to the tables' pages is known as well as what WAL during
it did (:mod:`headwater.existing.page_history`). From that LSN on the windows have changes of these tables, too.

Transactions that are still open at the LSN are not in the rows; the state has what they have done, of all tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.bootstrap import list_databases, open_catalog
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import CatalogError, LakeError
from headwater.lakes.target_directory import Lake
from headwater.lakes.target_registry import Adding
from headwater.landing.existing_rows import ExistingTable, existing_rows, no_rows_in_export
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.named_catalog import state_in_file
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.request_checks import check_fit, check_server
from headwater.plugins.api import SlicePlugin
from headwater.plugins.rows.plugin import RowChanges
from headwater.plugins.table_patterns import TablePatterns, qualified_name
from headwater.wal.segments.directory import WalDirectory


def added_tables(store: CatalogStore, before: SlicePlugin, after: SlicePlugin, lsn: int) -> tuple[ExistingTable, ...]:
    """Return the tables that there are as of an LSN and that have not landed so far.

    Args:
        store: the catalog, rolled forward to there at least.
        before: says what has landed; after: what is to land.
        lsn: it.

    Raises:
        LakeError: what has landed would not go on, or a table has landed in part.
    """
    view = store.view(lsn + 1)
    for schema in _wanted(view, before):
        if not after.wants(schema, view) and not is_left_out(schema, after, view):
            raise _left_out(qualified_name(schema))
    tables = [table for table in existing_rows(store, after, lsn).tables if not _has_landed(table, before, view)]
    for table in tables:
        if any(before.wants(version, view) for version in table.source.versions):
            raise LakeError(
                f"only some partitions of table {qualified_name(table.source.last)} have landed",
                hint="leave the others out (--tables), or land the table to another place",
            )
    return tuple(tables)


def _wanted(view: HistoricCatalog, plugin: SlicePlugin) -> Iterator[RelationSchema]:
    for oid in view.tables():
        schema = view.relation(oid)
        if schema is not None and plugin.wants(schema, view):
            yield schema


def is_left_out(schema: RelationSchema, plugin: SlicePlugin, view: HistoricCatalog) -> bool:
    """Tell whether a table is left out on purpose: it is excluded, or paused."""
    return isinstance(plugin, RowChanges) and plugin.choice.leaves_out(schema, view)


def _has_landed(table: ExistingTable, before: SlicePlugin, view: HistoricCatalog) -> bool:
    return all(before.wants(version, view) for version in table.source.versions)


def catalog_of_backup(request: DecodeRequest, database: int, directory: WalDirectory) -> CatalogStore:
    """Return the catalog of the backup that a request names.

    Args:
        request: it.
        database: OID of the database that has the tables.
        directory: all of the WAL.

    Raises:
        LakeError: it has no rows of tables.
        AwaitedCatalogError: it is of after the WAL.
        HeadwaterError: it cannot be read, or is another server's; or WAL from its beginning on is missing.
    """
    if state_in_file(request.catalog) is not None:
        raise no_rows_in_export()
    row = next((row for row in list_databases(request.catalog) if row.oid == database), None)
    if row is None:
        raise CatalogError(
            f"the backup has no database of OID {database}", file=request.catalog, hint="give a newer base backup"
        )
    store = open_catalog(request.catalog, row)
    check_server(directory, store, request)
    check_fit(directory, store, request)
    return store


def require_all_chosen(lake: Lake, asked: TablePatterns) -> None:
    """See that all tables in a target go on, where there is no catalog to ask: by the names that they have there.

    Raises:
        LakeError: one would not.
    """
    for name in lake.names.first_names:
        if not asked.matches(name) and not asked.excludes_name(name):
            raise _left_out(name)


def require_new(lake: Lake, tables: Sequence[ExistingTable]) -> None:
    """See that nothing has landed of tables that land without the rows that they have.

    Raises:
        LakeError: something has, and changes since then would be missing.
    """
    for table in tables:
        if lake.names.has_relation(table.source.last.oid):
            raise LakeError(
                f"table {qualified_name(table.source.last)} has landed before, and has had changes since then",
                hint="land it to another place",
            )


def _left_out(name: str) -> LakeError:
    return LakeError(
        f"table {name} lands, and would not any more",
        hint="choose it, too (--tables), or say that it is to be left out (--exclude)",
    )


def is_adding(adding: Adding) -> LakeError:
    """Return the error of a run that asks for other tables than those that are being added."""
    return LakeError(
        f"tables are being added as they were at {Lsn(adding.lsn)}, for the choice {adding.tables.as_text}",
        hint="begin again with these --tables and the same backup",
    )


def too_late(adding: Adding) -> LakeError:
    """Return the error of a backup that is complete only after where a run that was ended has begun to add tables."""
    return LakeError(
        f"tables are being added as they were at {Lsn(adding.lsn)}, where this backup was not complete yet",
        hint="give the backup that they were begun to be added from, or an older one",
    )
