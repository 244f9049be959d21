"""The rows that tables had when a base backup was taken: as of which LSN they are landed, and where they lie.

In: a window in which decoding begins. Out: :class:`ExistingRows`, or nothing where they have landed already.

The LSN is that of the consistent point: decoding reports every transaction that commits after it, whole, and none
before. So a transaction is in the rows or among the changes, never in both. A copy of files that were written to
meanwhile, though, has lost what was dropped or cut off before its end. Where that is later, it is the LSN, and the
changes between both are left out as those are that the rows have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import LakeError
from headwater.existing.leaves import Leaf, leaf_of, other_access_method
from headwater.landing.tables.rows_without_wal import WithoutWal, partitions_without_wal
from headwater.landing.tables.source_tables import SourceTable
from headwater.pipeline.windows.database_fold import PlannedWindow
from headwater.plugins.api import WANT_INSERT, SlicePlugin
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import qualified_name


@dataclass(frozen=True)
class ExistingTable:
    """A table in the lake.

    Attributes:
        source: of the source.
        leaves: the relations whose rows land in it: itself, or its partitions.
        without_wal: partitions whose rows do not.
    """

    source: SourceTable
    leaves: tuple[Leaf, ...]
    without_wal: tuple[WithoutWal, ...] = ()


@dataclass(frozen=True)
class ExistingRows:
    """The rows that are to be landed.

    Attributes:
        lsn: START of the last record whose transaction they have.
        start_lsn: of the copy.
        tables: the tables.
        commit_lsn: the one that rows say of themselves; None for ``lsn``.
    """

    lsn: int
    start_lsn: int
    tables: tuple[ExistingTable, ...]
    commit_lsn: int | None = None


def consistent_point(window: PlannedWindow) -> int | None:
    """Return the LSN that rows are landed as of, if decoding can begin in a window or could before it.

    Raises:
        LakeError: the catalog was exported by a server; it has no files of tables.
    """
    store, builder = window.behind.store, window.followed.control.builder
    if store.origin.is_exported:
        raise no_rows_in_export()
    if builder.consistent_at is None:
        return None
    return max(builder.consistent_at, window.followed.completed_at or 0, store.files.reach_lsn - 1)


def no_rows_in_export() -> LakeError:
    """Return the error of a catalog that is no copy of a cluster."""
    return LakeError(
        "a catalog that was exported by a server has no rows of tables",
        hint="take a base backup, or land changes only (--snapshot never)",
    )


def existing_rows(store: CatalogStore, plugin: SlicePlugin, lsn: int) -> ExistingRows:
    """Return the tables that there are as of an LSN, and where their rows lie.

    Args:
        store: the catalog, rolled forward to there at least.
        plugin: says which are wanted.
        lsn: it.
    """
    view = store.view(lsn + 1)
    wanted = [schema for oid in view.tables() if (schema := _wanted(view, plugin, oid)) is not None]
    assert isinstance(plugin, RowChanges)
    return ExistingRows(lsn, store.start_lsn, _tables(store, view, wanted, plugin.choice))


def rows_of_table(store: CatalogStore, oid: int, lsn: int, choice: TableChoice) -> tuple[ExistingTable, ...]:
    """Return a table, and its partitions, whether it is chosen or not.

    Args:
        store: the catalog, rolled forward.
        oid: the table's; lsn: as of which its rows are wanted.
        choice: which tables land.
    """
    view = store.view(lsn + 1)
    schemas = [schema for schema in map(view.relation, view.tables()) if schema is not None and schema.topmost == oid]
    own = [schema for schema in schemas if schema.kind == "r" or schema.oid == oid]
    return _tables(store, view, own, choice)


def _tables(
    store: CatalogStore, view: HistoricCatalog, wanted: Sequence[RelationSchema], choice: TableChoice
) -> tuple[ExistingTable, ...]:
    """Return relations as they are in the lake."""
    groups: dict[int, list[RelationSchema]] = {}
    for schema in wanted:
        groups.setdefault(schema.topmost, []).append(schema)
    lost = partitions_without_wal(view, choice)
    tables = []
    for oid, own in groups.items():
        root = view.relation(oid)
        assert root is not None
        leaves = tuple(leaf for schema in own if (leaf := _leaf(store, view, schema)) is not None)
        without = tuple(relation for relation in lost if relation.relation.topmost == oid)
        tables.append(ExistingTable(SourceTable(root, tuple(own)), leaves, without))
    return tuple(tables)


def _wanted(view: HistoricCatalog, plugin: SlicePlugin, oid: int) -> RelationSchema | None:
    schema = view.relation(oid)
    if schema is None or (schema.kind == "p" and schema.is_partition):
        return None
    return schema if plugin.describe(schema, view).wants & WANT_INSERT else None


def _leaf(store: CatalogStore, view: HistoricCatalog, schema: RelationSchema) -> Leaf | None:
    leaf = leaf_of(store, view, schema)
    if leaf is not None:
        _require_heap(view, schema)
    return leaf


def _require_heap(view: HistoricCatalog, schema: RelationSchema) -> None:
    """See that a relation's rows lie in heap pages; of others the WAL does not tell of changes either.

    Raises:
        LakeError: they do not.
    """
    method = other_access_method(view, schema.oid)
    if method is not None:
        error = LakeError(
            f"table {qualified_name(schema)} has another access method than heap, of OID {method}",
            lsn=view.lsn,
            hint="leave it out (--exclude), or choose other tables (--tables)",
        )
        error.table = schema.topmost, qualified_name(schema)
        raise error
