"""Rows of tables that land which the WAL does not have: of unlogged and foreign partitions, and of unlogged tables.

In: a planned window, in the thread that plans, and which tables are chosen. Out: where a relation comes to have rows
without WAL, or to have no more such; later, a warning where changes land, and an error where rows are mirrored. A table
that is unlogged all the time is left out, as one that is not there. What a mirrored table has by then when it is set
logged is in the WAL as a new heap; one that is set unlogged is reported elsewhere
(:mod:`headwater.landing.tables.table_events`).

Known gap: a table that is unlogged only within one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import LakeError, errors_of_table, warn
from headwater.landing.tables.catalog_changes import CatalogWindow, of_relations
from headwater.pg.catalogs import PG_CLASS
from headwater.plugins.rows.plugin import TableChoice
from headwater.plugins.table_patterns import qualified_name


@dataclass(frozen=True)
class WithoutWal:
    """A relation of which not all rows have WAL.

    Attributes:
        lsn: from where on: START of a commit record, or where it was seen.
        relation: as of then; root: the partitioned table that it is a partition of, None for none.
    """

    lsn: int
    relation: RelationSchema
    root: RelationSchema | None = None

    @property
    def what(self) -> str:
        """The relation, and what it is, in words."""
        name = f'"{qualified_name(self.relation)}"'
        if self.root is None:
            return f"table {name} is {'unlogged' if self.relation.persistence == 'u' else 'logged'}"
        kind = "a foreign table" if self.relation.kind == "f" else "unlogged"
        return f'partition {name} of "{qualified_name(self.root)}" is {kind}'


def rows_without_wal(window: CatalogWindow, choice: TableChoice) -> tuple[WithoutWal, ...]:
    """Find the relations that come to have rows without WAL in a window, or no more, in the order of the commits.

    Args:
        window: the window.
        choice: says which tables land.
    """
    places = of_relations(window.made(PG_CLASS))
    return tuple(lost for lsn, oid in places for lost in _found(window.store, choice, oid, lsn))


def partitions_without_wal(view: HistoricCatalog, choice: TableChoice) -> list[WithoutWal]:
    """Return the chosen partitions that are unlogged, or foreign tables, as of a view of the catalog."""
    schemas = (view.relation(oid) for oid in view.partitions_without_wal())
    return [
        _partition(view, schema, view.lsn) for schema in schemas if schema is not None and choice.chooses(schema, view)
    ]


def _found(store: CatalogStore, choice: TableChoice, oid: int, lsn: int) -> Iterator[WithoutWal]:
    was_in, is_in = store.view(lsn), store.view(lsn + 1)
    if not any(row.kind in "rpf" and row.persistence != "t" for row in is_in.class_rows(oid)):
        return
    before, after = was_in.relation(oid), is_in.relation(oid)
    if after is None or after.rewrite_of or not choice.chooses(after, is_in):
        return
    has_moved = before is None or before.topmost != after.topmost
    if after.kind == "p":
        below = partitions_without_wal(is_in, choice) if after.is_partition and has_moved else []
        yield from (WithoutWal(lsn, lost.relation, lost.root) for lost in below if oid in lost.relation.ancestors)
    elif _is_lost(after):
        if has_moved or not _is_lost(before):
            yield _partition(is_in, after, lsn)
    elif before is not None and after.kind == "r" and {before.persistence, after.persistence} == {"p", "u"}:
        yield WithoutWal(lsn, after)


def _is_lost(relation: RelationSchema | None) -> bool:
    """Tell whether rows of a partitioned table are in a relation, without WAL."""
    if relation is None or not relation.is_partition:
        return False
    return relation.kind == "f" or (relation.kind == "r" and relation.persistence == "u")


def _partition(view: HistoricCatalog, relation: RelationSchema, lsn: int) -> WithoutWal:
    return WithoutWal(lsn, relation, view.relation(relation.topmost) or relation)


def require_wal(relations: Iterable[WithoutWal], *, is_mirror: bool) -> None:
    """See that nothing is missing in the lake without a word.

    Args:
        relations: what has no WAL.
        is_mirror: rows are kept, not changes.

    Raises:
        LakeError: rows would be missing in a mirror.
    """
    for lost in relations:
        if not is_mirror:
            _warn(lost)
        elif lost.root is not None:
            with errors_of_table(lost.root.oid, qualified_name(lost.root)):
                raise LakeError(
                    f"{lost.what}: its rows are not in the WAL, and would be missing",
                    lsn=lost.lsn,
                    hint="land changes (--mode changelog), or leave the table out (--exclude); or take its rows, once "
                    "the partition was set logged, from a backup of after that",
                )


def _warn(lost: WithoutWal) -> None:
    if lost.root is not None:
        warn(f"{lost.what}: the WAL has none of its rows, and they do not land", lsn=lost.lsn)
    elif lost.relation.persistence == "u":
        warn(f"{lost.what} from there on: its changes are not in the WAL, and do not land", lsn=lost.lsn)
    else:
        warn(
            f"{lost.what} from there on: the rows that it had by then are not among its changes",
            lsn=lost.lsn,
            hint="to have them, land it to another place, from a base backup of after that",
        )
