"""The spans of relations in a window, commit by commit, and which relations were a table or a partition of it.

In: a planned window and the catalog that was rolled forward over it, in the thread that plans. Out: of each relation
whose definition changes, its spans: what it is before the window, and what it is from each commit on that changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from headwater.catalog.relation import RelationSchema
from headwater.catalog.versions import NEVER
from headwater.errors import LakeError
from headwater.lakes.paused import RELOADED_OR_CHANGES
from headwater.landing.tables.attached_rows import Departure
from headwater.landing.tables.catalog_changes import CatalogWindow, of_relations
from headwater.landing.tables.stored_types import retyped
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_ENUM, PG_INHERITS
from headwater.pipeline.windows.assemble import Assembly

_KEYS = (("pg_class", "oid"), ("pg_attribute", "attrelid"), ("pg_inherits", "inhrelid"))

Span = tuple[int, RelationSchema | None]
"""What a relation is from a commit on: START of its record, -1 for what was before the window."""


@dataclass(frozen=True)
class Step:
    """A commit that changes the definition of a relation.

    Attributes:
        oid: the relation's.
        lsn: START of the commit record.
        before, after: the relation; None where it is not there, or has no rows.
    """

    oid: int
    lsn: int
    before: RelationSchema | None
    after: RelationSchema | None


def steps_of(oid: int, spans: Iterable[Span]) -> Iterator[Step]:
    """Yield the commits between the spans of a relation, in their order."""
    for (_, before), (lsn, after) in pairwise(spans):
        yield Step(oid, lsn, before, after)


class WindowCatalog:
    """The catalog's record of a window.

    Args:
        window: the window; assembly: of its changes.

    Attributes:
        lo: LSN where the window begins.
        spans: by OID, those of each relation whose definition changes.
        times: of commits, by the START of their records.
        unwanted: changes of tables that nobody wants.
        types_changed_at: START of the last commit record that has removed parts of a type; -1 for none.
    """

    def __init__(self, window: CatalogWindow, assembly: Assembly) -> None:
        self._window, self.lo = window, window.lo
        self.times, self.unwanted = assembly.catalog_times, assembly.unwanted
        self.spans = {oid: list(self._spans(oid)) for oid in sorted(self._changed())}
        self.types_changed_at = max(self._types_gone(), default=-1)

    def _changed(self) -> set[int]:
        """Find the relations whose definition has changed."""
        catalogs = (PG_CLASS, PG_ATTRIBUTE, PG_INHERITS)
        return {oid for catalog in catalogs for _, oid in of_relations(self._window.changed(catalog))}

    def _types_gone(self) -> Iterator[int]:
        """Find where labels of enums and attributes of composite types were removed, or others took their place."""
        yield from (lsn for _, lsn in self._window.removed(PG_ENUM))
        for oid, lsn in self._window.removed(PG_CLASS) | self._window.removed(PG_ATTRIBUTE):
            if any(row.kind == "c" for row in self._window.end.class_rows(oid)):
                yield lsn

    def _spans(self, oid: int) -> Iterator[Span]:
        store = self._window.store
        versions = [version for key in _KEYS for version in store.versions((*key, oid))]
        # Of what one transaction has made and removed a timeline says nothing.
        ends = {end for version in versions for end in store.fates.lifetime(version)}
        yield -1, self.relation(oid, self._window.lo)
        for lsn in sorted(end for end in ends if end in self._window):
            yield lsn, self.relation(oid, lsn + 1)

    def relation(self, oid: int, lsn: int) -> RelationSchema | None:
        """Return a table, partitioned or not, as of an LSN; None where it is none, or the copy that a rewrite makes."""
        schema = self._window.store.view(lsn).relation(oid)
        return schema if schema is not None and schema.kind in "rp" and not schema.rewrite_of else None

    def filenode(self, oid: int, lsn: int) -> int:
        """Return the ``relfilenode`` of a relation as of an LSN; 0 where it has none."""
        return next((row.filenode for row in self._window.store.view(lsn).class_rows(oid)), 0)

    def tables(self) -> set[int]:
        """Find the topmost tables of the relations that have changed, or whose rows say something else; gives OIDs."""
        changed = {schema.topmost for spans in self.spans.values() for _, schema in spans if schema is not None}
        return changed | set(self._retyped())

    def _retyped(self) -> Iterator[int]:
        """Find tables with a column whose values say something else now, though it is of the same type."""
        for oid in self._window.end.tables() if self.types_changed_at >= 0 else ():
            before, now = self.relation(oid, self._window.lo), self.at_end(oid)
            if before is not None and now is not None and retyped(now, before, ()):
                yield now.topmost

    def at_end(self, oid: int) -> RelationSchema | None:
        """Return a table as it is at the window's end."""
        return self.relation(oid, self._window.hi)

    def before_leaving(self, oid: int) -> RelationSchema | None:
        """Return a table as it was before it became a partition of another one; None if it did not."""
        for step in steps_of(oid, self.spans.get(oid, ())):
            if step.before is not None and step.after is not None and step.before.topmost == oid != step.after.topmost:
                return step.before
        return None


Roots = Mapping[int, frozenset[int]]
"""By relation, OIDs of the tables that its changes in the window are of: itself, or roots."""


@dataclass(frozen=True)
class MirroredTables:
    """All tables that a window has changes of.

    Attributes:
        roots: of their changes; firsts: LSNs of their first ones, by OIDs.
        wants: tells whether a table is mirrored.
    """

    roots: Roots
    firsts: Mapping[int, int]
    wants: Callable[[RelationSchema], bool]

    @cached_property
    def oids(self) -> frozenset[int]:
        """OIDs of them."""
        return frozenset().union(*self.roots.values())


@dataclass(frozen=True)
class TableSpans:
    """The relations that were a table in a window, or a partition of it.

    Attributes:
        last: the table, at the window's end.
        versions: of the relations that its changes are of.
        catalog: what relations were; tables: all that the window has changes of.
    """

    last: RelationSchema
    versions: Sequence[RelationSchema]
    catalog: WindowCatalog
    tables: MirroredTables

    @cached_property
    def own(self) -> dict[int, list[Span]]:
        """Spans of the relations that are, or were, the table or a partition of it."""
        return {
            oid: spans for oid, spans in self.catalog.spans.items() if any(self.is_ours(schema) for _, schema in spans)
        }

    @cached_property
    def passing(self) -> dict[int, list[Span]]:
        """Spans of relations that were it, or a partition, inside a transaction only, and have had changes then."""
        # No span shows them as ours, as spans are of commits: only a change of theirs does.
        oids = sorted(self._changed - self.own.keys())
        return {oid: self.catalog.spans[oid] for oid in oids if oid in self.catalog.spans}

    @cached_property
    def members(self) -> frozenset[int]:
        """OIDs of the relations whose rows are the table's."""
        return self._changed | self.own.keys()

    @cached_property
    def apart(self) -> frozenset[int]:
        """OIDs of other tables that have changes of their own."""
        return self.tables.oids - {self.last.oid}

    @property
    def _changed(self) -> frozenset[int]:
        return frozenset(version.rewrite_of or version.oid for version in self.versions)

    @property
    def is_dropped(self) -> bool:
        """Whether the table itself was dropped: its mirror stays."""
        spans = self.catalog.spans.get(self.last.oid)
        return spans is not None and spans[-1][1] is None

    def steps(self) -> Iterator[Step]:
        """Yield the commits that change relations of the table, relation by relation."""
        for oid, spans in self.own.items():
            yield from steps_of(oid, spans)

    def is_ours(self, schema: RelationSchema | None) -> bool:
        """Tell whether a version of a relation is the table, or a partition of it."""
        return schema is not None and schema.topmost == self.last.oid

    def was_ours(self, oid: int, lsn: int) -> bool:
        """Tell whether a relation was the table, or a partition of it, earlier in the window than a commit."""
        return any(self.is_ours(schema) for at, schema in self.catalog.spans[oid] if at < lsn)

    def was_apart(self, oid: int, lsn: int) -> bool:
        """Tell whether a relation had changes of its own before a commit."""
        return oid in self.apart and self.tables.firsts.get(oid, NEVER) < lsn

    def departure(self, oid: int, lsn: int) -> Departure:
        """Return the departure that ends the rows of a relation at a commit."""
        return Departure(oid, lsn, self.catalog.times.get(lsn))

    def refusal(self, schema: RelationSchema, why: str, lsn: int, hint: str = RELOADED_OR_CHANGES) -> LakeError:
        """Return the error of a window that the mirror cannot follow.

        Args:
            schema: the table, or the partition of it, that this is about; why: the sentence's rest.
            lsn: START of the commit record; hint: what helps.
        """
        kind = "table" if schema.oid == self.last.oid else "partition"
        return LakeError(f'{kind} "{schema.namespace}.{schema.name}" {why}', lsn=lsn, hint=hint)
