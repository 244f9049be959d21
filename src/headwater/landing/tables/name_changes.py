"""Names that mean another table from a commit on: tables that are made, renamed, moved to another schema, dropped.

In: a planned window, in the thread that plans. Out: a :class:`NameChange` for each name and commit, in the order of the
commits; what the lake makes of it is decided where its tables are known (:mod:`headwater.landing.replaced_tables`).

A name is that of a table which has rows of its own: a plain or a partitioned one, logged, and no partition of another.
Of a table that one transaction makes and drops, or renames twice, nothing is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.landing.tables.catalog_changes import CatalogWindow, of_relations
from headwater.pg.catalogs import PG_CLASS, PG_NAMESPACE
from headwater.pipeline.windows.assemble import Assembly
from headwater.plugins.rows.plugin import TableChoice
from headwater.plugins.table_patterns import qualified_name


@dataclass(frozen=True)
class NameChange:
    """A name that means another table, or none, from a commit on.

    Attributes:
        lsn: START of the commit's record.
        time: of the commit, microseconds since 2000; None if that is not known.
        name: ``schema.table``.
        before, after: the table that it has meant, and the one that it means then; None for none.
        was: the latter as it was before, maybe under another name; None if the commit has made it.
        is_chosen: the latter is chosen by then; was_chosen: it was before.
        has_passed_over: the window has changes of it that were passed over, as it was not chosen at them.
    """

    lsn: int
    time: int | None
    name: str
    before: RelationSchema | None
    after: RelationSchema | None
    was: RelationSchema | None = None
    is_chosen: bool = False
    was_chosen: bool = False
    has_passed_over: bool = False

    @property
    def was_known(self) -> bool:
        """Whether all that the latter had before is known: it was chosen, or was not there."""
        return self.was is None or self.was_chosen


def name_changes(window: CatalogWindow, choice: TableChoice, assembly: Assembly) -> tuple[NameChange, ...]:
    """Find the changes of names in a window, in the order of the commits.

    Args:
        window: it.
        choice: which tables land.
        assembly: of its changes.
    """
    places = window.changed(PG_CLASS)
    for _, lsn in window.updated(PG_NAMESPACE):
        places |= {(oid, lsn) for oid in window.store.view(lsn).tables()}
    before: dict[tuple[int, str], RelationSchema] = {}
    after: dict[tuple[int, str], RelationSchema] = {}
    for lsn, oid in of_relations(places):
        older, newer = (_table(window.store.view(at), oid) for at in (lsn, lsn + 1))
        names = tuple(None if table is None else qualified_name(table) for table in (older, newer))
        if names[0] == names[1]:
            continue
        if older is not None:
            before[lsn, qualified_name(older)] = older
        if newer is not None:
            after[lsn, qualified_name(newer)] = newer
    by_name = replace(choice, patterns=replace(choice.patterns, oids=frozenset()))
    naming = _Naming(window, by_name, assembly)
    return tuple(naming.change(*place, before.get(place), after.get(place)) for place in sorted({*before, *after}))


@dataclass(frozen=True)
class _Naming:
    """One call of :func:`name_changes`."""

    window: CatalogWindow
    choice: TableChoice
    assembly: Assembly

    def change(self, lsn: int, name: str, before: RelationSchema | None, after: RelationSchema | None) -> NameChange:
        """Return the change of a name at a commit."""
        time = self.assembly.catalog_times.get(lsn)
        if after is None:
            return NameChange(lsn, time, name, before, None)
        was_in, is_in = self.window.store.view(lsn), self.window.store.view(lsn + 1)
        was = _table(was_in, after.oid)
        return NameChange(
            lsn=lsn,
            time=time,
            name=name,
            before=before,
            after=after,
            was=was,
            is_chosen=self.choice.chooses(after, is_in),
            was_chosen=was is not None and self.choice.chooses(was, was_in),
            has_passed_over=self.assembly.unwanted.has_before(after.oid, self.window.hi),
        )


def _table(view: HistoricCatalog, oid: int) -> RelationSchema | None:
    """Return a relation that has rows, and a name, of its own."""
    relation = view.relation(oid)
    if relation is None or relation.kind not in "rp" or relation.rewrite_of or relation.topmost != oid:
        return None
    return relation if relation.persistence == "p" else None
