"""What a schema-sending plugin knows of a relation, and since when (PostgreSQL: RelationSyncEntry of pgoutput.c).

The plugin asks the catalog how a relation is published when it first meets it after it was told to forget it, and goes
by that answer until it is told again; so does every change in between, even one whose transaction began earlier and
would see another state of the publications. Touches of one relation between two forgettings share an *entry*: its
first touch decides what is wanted, and the schema goes before its first wanted change. The answer itself is put
together from two things that are kept longer: what the publications say is loaded at the first entry of any relation
after a message about publications, and which publications a relation or a schema is in is looked up at the first entry
that asks for it after a message about their members: the entry of another relation may have asked before, one of the
same schema or of the same partitioned table.

Places are counted by transactions in commit order, so nothing here depends on which of them are output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.history import HistoricCatalog
from headwater.catalog.relation import Publication, RelationSchema
from headwater.reorder.changes import Candidates
from headwater.reorder.keys import distinct, places_passed
from headwater.reorder.plan import RelationUse
from headwater.reorder.resend import Forget, entry_starts
from headwater.reorder.resolve import Resolved, Resolver
from headwater.rmgr._index import CONFIRMS, DELETES_BARE, DELETES_OLD, INSERTS, UPDATES

Int64s = NDArray[np.int64]

ROW_CHANGES = INSERTS | UPDATES | DELETES_OLD | DELETES_BARE | CONFIRMS
"""Kinds of changes that the output plugin is called for."""


@dataclass(frozen=True)
class Touches:
    """Changes and truncates of relations in order of their places (transaction, LSN), n of them.

    Attributes:
        resolution: int64[n] the relation as of the touch.
        txn: int64[n] its transaction; lsn: int64[n] the row's first LSN.
    """

    resolution: Int64s
    txn: Int64s
    lsn: Int64s


@dataclass(frozen=True)
class Synced:
    """The touches as the plugin takes them.

    Attributes:
        resolution: int64[n] what each is decoded and announced as.
        entry: int64[n] the entry each belongs to.
    """

    resolution: Int64s
    entry: Int64s

    def announced(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The first wanted touch of every entry.

        Args:
            wanted: bool[n].
        """
        sends = np.zeros(len(wanted), np.bool_)
        which = np.flatnonzero(wanted)
        sends[which[distinct(self.entry[which]).first]] = True
        return sends


@dataclass(frozen=True)
class SyncedRows:
    """Candidates, and other touches, as the plugin takes them.

    Attributes:
        synced: all touches.
        touched: int64[] or all: the candidates that are touches.
        rows_at: int64[] which touches they are; others_at: int64[k] which the others are.
        resolved: the candidates.
        own: bool[t] transactions with spans of their own.
    """

    synced: Synced
    touched: Int64s | slice
    rows_at: Int64s | slice
    others_at: Int64s
    resolved: Resolved
    own: NDArray[np.bool_]

    @property
    def others(self) -> Int64s:
        """int64[k] the resolutions of the other touches."""
        return self.synced.resolution[self.others_at]

    def announced(self, wanted: NDArray[np.bool_], others: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Before which candidates and other touches the schema goes.

        Args:
            wanted: bool[c] of the candidates; others: bool[k].

        Returns:
            bool[c + k].
        """
        of_touches = np.empty(len(self.synced.entry), np.bool_)
        of_touches[self.rows_at] = wanted[self.touched]
        of_touches[self.others_at] = others
        sends = self.synced.announced(of_touches)
        announce = np.zeros(len(wanted), np.bool_)
        announce[self.touched] = sends[self.rows_at]
        return np.concatenate([announce, sends[self.others_at]])


@dataclass(frozen=True)
class LoadedPublications:
    """The catalog at a touch, with publications and their members as they were when they were loaded last.

    Attributes:
        now: at the touch.
        loaded: when the publications were loaded.
        relations: by OID, when it was looked up which publications the relation, and its ancestors, are in.
        schemas: the same for their schemas.
    """

    now: HistoricCatalog
    loaded: HistoricCatalog
    relations: Mapping[int, HistoricCatalog]
    schemas: Mapping[int, HistoricCatalog]

    def relation(self, oid: int) -> RelationSchema | None:
        """The relation with this OID, now."""
        return self.now.relation(oid)

    def publication(self, name: str) -> Publication | None:
        """The publication as loaded, of its members those that were looked up, as they were then."""
        loaded = self.loaded.publication(name)
        if loaded is None:
            return None
        relations = {oid: view.publication(name) for oid, view in self.relations.items()}
        schemas = {oid: view.publication(name) for oid, view in self.schemas.items()}
        return replace(
            loaded,
            tables=frozenset(oid for oid, then in relations.items() if then and oid in then.tables),
            column_lists=tuple(
                member for oid, then in relations.items() if then for member in then.column_lists if member[0] == oid
            ),
            filtered=frozenset(oid for oid, then in relations.items() if then and oid in then.filtered),
            schemas=frozenset(oid for oid, then in schemas.items() if then and oid in then.schemas),
        )


@dataclass(frozen=True)
class Forgetting:
    """Where the plugin and the caches it uses forget; units are transactions.

    Attributes:
        entries: what is known of a relation (0: of all).
        publications: what the publications say (relation 0).
        relations: which relations are in them (relation 0); schemas: which schemas are.
    """

    entries: Sequence[Forget]
    publications: Sequence[Forget]
    relations: Sequence[Forget]
    schemas: Sequence[Forget]

    def places(self) -> Int64s:
        """int64[m, 2] all places (unit, LSN), each once."""
        found = {
            (f.unit, f.lsn) for group in (self.entries, self.publications, self.relations, self.schemas) for f in group
        }
        return np.array(sorted(found), np.int64).reshape(-1, 2)


def sync_rows(
    candidates: Candidates, resolved: Resolved, others: Touches, resolver: Resolver, forgetting: Forgetting
) -> SyncedRows:
    """Let each entry's first touch decide for all, candidates and others.

    Args:
        candidates: rows of the index; resolved: as of the change.
        others: touches by truncates, in any order.
        resolver: its resolutions are numbered on.
        forgetting: where the plugin forgets.
    """
    resolution = resolved.resolution
    toast = np.array([x.is_toast for x in resolver.resolutions] + [True], np.bool_)
    is_touch = ~toast[resolution] & (candidates.kinds & ROW_CHANGES != 0)
    touched = slice(None) if is_touch.all() else np.flatnonzero(is_touch)
    of_rows = Touches(resolution[touched], candidates.txn[touched], candidates.first[touched])
    touches, rows_at, others_at = _merged(of_rows, others)
    synced = sync_touches(touches, resolver, forgetting)
    own = resolver.txns.changes_catalog
    then = synced.resolution[rows_at]
    changed = np.flatnonzero(then != of_rows.resolution)
    if len(changed):
        resolution = resolution.copy()
        resolution[touched] = then
        odd = np.unique(of_rows.txn[changed])
        own = own.copy()
        own[odd] = True
        resolved = _with_own_spans(candidates, resolution, resolved.spans, odd)
    return SyncedRows(synced, touched, rows_at, others_at, resolved, own)


def _merged(rows: Touches, others: Touches) -> tuple[Touches, Int64s | slice, Int64s]:
    """Touches of both kinds in order, and which of them are rows, and others.

    Args:
        rows: many; others: few, in any order.
    """
    count = len(others.txn)
    if not count:
        return rows, slice(None), np.empty(0, np.int64)
    order = np.lexsort((others.lsn, others.txn))
    low, high = (np.searchsorted(rows.txn, others.txn[order], side) for side in ("left", "right"))
    before = np.array(
        [a + np.searchsorted(rows.lsn[a:b], lsn) for a, b, lsn in zip(low, high, others.lsn[order], strict=True)]
    )
    others_at = np.empty(count, np.int64)
    others_at[order] = before + np.arange(count)
    is_row = np.ones(len(rows.txn) + count, np.bool_)
    is_row[others_at] = False
    merged = (
        np.insert(a, before, b[order])
        for a, b in ((rows.resolution, others.resolution), (rows.txn, others.txn), (rows.lsn, others.lsn))
    )
    return Touches(*merged), np.flatnonzero(is_row), others_at


def _with_own_spans(candidates: Candidates, resolution: Int64s, spans: Int64s, odd: Int64s) -> Resolved:
    """Resolutions, and spans of which all rows of some transactions have their own."""
    which = np.flatnonzero(np.isin(candidates.txn, odd))
    columns = (candidates.txn, candidates.locator, candidates.first, resolution)
    more = np.stack([column[which] for column in columns])
    both = np.concatenate([spans[:, ~np.isin(spans[0], odd)], more], axis=1)
    return Resolved(resolution, both[:, np.lexsort((both[2], both[1], both[0]))])


def sync_touches(touches: Touches, resolver: Resolver, forgetting: Forgetting) -> Synced:
    """Let each entry's first touch decide for all.

    Touches with one resolution between the same two places of forgetting are alike: the first stands for them.

    Args:
        touches: of relations that are no TOAST relations.
        resolver: its resolutions are numbered on.
        forgetting: where the plugin forgets.
    """
    uses = resolver.resolutions
    oids = np.array([use.schema.oid for use in uses] or [0], np.int64)
    passed = places_passed(touches.txn, touches.lsn, forgetting.places())
    alike = distinct(passed * len(oids) + touches.resolution)
    heads, resolution = alike.first, touches.resolution[alike.first]
    relation = oids[resolution]
    order, starts = entry_starts(relation, touches.txn[heads], touches.lsn[heads], forgetting.entries)
    entry = np.empty(len(heads), np.int64)
    entry[order] = np.cumsum(starts) - 1
    firsts = heads[order[starts]]
    loaded = _looked_up_at(touches, np.zeros(len(firsts), np.int64), firsts, forgetting.publications)
    first = _decided(touches, firsts, loaded, _memberships(touches, firsts, resolver, forgetting), resolver)
    answers = _answers(uses)
    differs = np.flatnonzero(answers[resolution] != answers[first[entry]])
    for head in differs:
        then = uses[int(first[entry[head]])]
        now = replace(uses[int(resolution[head])], wants=then.wants, messages=then.messages)
        resolution[head] = resolver.numbered(now)
    everywhere = resolution[alike.number] if len(differs) else touches.resolution
    return Synced(everywhere, entry[alike.number])


def _looked_up_at(touches: Touches, subject: Int64s, which: Int64s, forgets: Iterable[Forget]) -> Int64s:
    """The touch at which what each touch goes by was looked up: the first of its subject since it was forgotten.

    Args:
        touches: touches.
        subject: int64[k] what is looked up at each of the chosen touches.
        which: int64[k] the chosen touches.
        forgets: where it is forgotten.

    Returns:
        int64[k] touches.
    """
    order, starts = entry_starts(subject, touches.txn[which], touches.lsn[which], forgets)
    found = np.empty(len(order), np.int64)
    found[order] = which[order[starts][np.cumsum(starts) - 1]]
    return found


@dataclass(frozen=True)
class _Memberships:
    """When it was looked up which publications an entry's relation is in: touches by OID.

    Attributes:
        relations: of the relation and its ancestors; schemas: of their schemas.
    """

    relations: dict[int, int]
    schemas: dict[int, int]

    def last(self, lsn: Int64s) -> int:
        """The highest LSN of these touches."""
        return max(int(lsn[at]) for at in (*self.relations.values(), *self.schemas.values()))


def _memberships(touches: Touches, firsts: Int64s, resolver: Resolver, forgetting: Forgetting) -> list[_Memberships]:
    """What each entry's first touch goes by (GetRelationPublications, GetSchemaPublications: cached lists by OID)."""
    asked = [_asked(touches, int(first), resolver) for first in firsts]
    relations = _shared(touches, firsts, [relations for relations, _ in asked], forgetting.relations)
    schemas = _shared(touches, firsts, [schemas for _, schemas in asked], forgetting.schemas)
    return [_Memberships(*both) for both in zip(relations, schemas, strict=True)]


def _asked(touches: Touches, first: int, resolver: Resolver) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """OIDs of the relation of a touch and of its ancestors, and of the schemas of all these."""
    schema = resolver.resolutions[int(touches.resolution[first])].schema
    if not schema.ancestors:
        return (schema.oid,), (schema.namespace_oid,)
    catalog = resolver.view(int(touches.txn[first]), int(touches.lsn[first]))
    found = (catalog.relation(oid) for oid in schema.ancestors)
    schemas = dict.fromkeys([schema.namespace_oid, *(ancestor.namespace_oid for ancestor in found if ancestor)])
    return (schema.oid, *schema.ancestors), tuple(schemas)


def _shared(
    touches: Touches, firsts: Int64s, asked: Sequence[tuple[int, ...]], forgets: Iterable[Forget]
) -> list[dict[int, int]]:
    """For each first touch, and each OID it asks for: the touch at which that was looked up."""
    counts = np.array([len(oids) for oids in asked], np.int64)
    subject = np.array([oid for oids in asked for oid in oids], np.int64)
    found = iter(_looked_up_at(touches, subject, np.repeat(firsts, counts), forgets).tolist())
    return [{oid: next(found) for oid in oids} for oids in asked]


def _decided(
    touches: Touches, firsts: Int64s, loaded: Int64s, members: Sequence[_Memberships], resolver: Resolver
) -> Int64s:
    """The resolution of each entry's first touch; asked anew where something was looked up at a later place."""
    decided = touches.resolution[firsts]

    def view(touch: int) -> HistoricCatalog:
        return resolver.view(int(touches.txn[touch]), int(touches.lsn[touch]))

    for entry, (first, load, member) in enumerate(zip(firsts.tolist(), loaded.tolist(), members, strict=True)):
        if max(int(touches.lsn[load]), member.last(touches.lsn)) <= int(touches.lsn[first]):
            continue
        relations, schemas = ({oid: view(at) for oid, at in m.items()} for m in (member.relations, member.schemas))
        use = resolver.resolutions[int(decided[entry])]
        catalog = LoadedPublications(view(first), view(load), relations, schemas)
        wants, messages = resolver.describe(use.schema, catalog)
        decided[entry] = resolver.numbered(replace(use, wants=wants, messages=messages))
    return decided


def _answers(uses: Sequence[RelationUse]) -> Int64s:
    """Equal numbers for uses that the plugin answers alike, whatever the schema."""
    seen: dict[tuple[int, tuple[bytes, ...]], int] = {}
    return np.array([seen.setdefault((use.wants, use.messages), len(seen)) for use in uses], np.int64)
