"""What a schema-sending plugin knows of a relation, and since when (PostgreSQL: RelationSyncEntry of pgoutput.c).

The plugin asks the catalog how a relation is published when it first meets it after it was told to forget it, and goes
by that answer until it is told again; so does every change in between, even one whose transaction began earlier and
would see another state of the publications. Touches of one relation between two forgettings share an *entry*: its
first touch decides what is wanted, and the schema goes before its first wanted change. The answer itself is put
together from things that are kept longer. The publications are loaded at the first entry of any relation after a
message about any publication, but from rows that the catalog cache keeps until a message names that very row: each was
read at the first loading since. Which publications a relation or a schema is in is looked up at the first entry that
asks for it after a message about their members: the entry of another relation may have asked before, one of the same
schema or of the same partitioned table.

What the plugin refuses to say (a publication is missing) is an error at the first place in the output where it is
asked, and nowhere else.

Places are counted by transactions in commit order, so nothing here depends on which of them are output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.history import HistoricCatalog
from headwater.catalog.relation import Publication, RelationSchema
from headwater.reorder.changes import Candidates
from headwater.reorder.keys import distinct, places_passed
from headwater.reorder.plan import RelationUse
from headwater.reorder.resend import ENTRIES, LOADED, RELATIONS, ROWS, SCHEMAS, Forget, entry_starts
from headwater.reorder.resolve import Resolved, Resolver
from headwater.rmgr.index_codes import CONFIRMS, DELETES_BARE, DELETES_OLD, INSERTS, UPDATES

Int64s = NDArray[np.int64]

_LookedUp = dict[int, int]
"""Where things were looked up: touches by OID, or by number."""

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
    """The catalog at a touch, with publications and their members as they were when they were looked up last.

    Attributes:
        now: at the touch.
        rows: by name, when the publication's row was read.
        relations: by OID, when it was looked up which publications the relation, and its ancestors, are in.
        schemas: the same for their schemas.
    """

    now: HistoricCatalog
    rows: Mapping[str, HistoricCatalog]
    relations: Mapping[int, HistoricCatalog]
    schemas: Mapping[int, HistoricCatalog]

    def relation(self, oid: int) -> RelationSchema | None:
        """The relation with this OID, now."""
        return self.now.relation(oid)

    def publication(self, name: str) -> Publication | None:
        """The publication as its row was read, of its members those that were looked up, as they were then."""
        loaded = self.rows[name].publication(name)
        if loaded is None:
            return None
        relations = {oid: view.with_members(loaded) for oid, view in self.relations.items()}
        schemas = {oid: view.with_members(loaded) for oid, view in self.schemas.items()}
        return replace(
            loaded,
            tables=frozenset(oid for oid, then in relations.items() if oid in then.tables),
            column_lists=tuple(
                member for oid, then in relations.items() for member in then.column_lists if member[0] == oid
            ),
            filtered=frozenset(oid for oid, then in relations.items() if oid in then.filtered),
            schemas=frozenset(oid for oid, then in schemas.items() if oid in then.schemas),
        )


class Forgetting:
    """Where the plugin and the caches it uses forget; units are transactions.

    Args:
        forgets: all places, in any order.
    """

    def __init__(self, forgets: Iterable[Forget]) -> None:
        self._by_memory: dict[int, list[Forget]] = {}
        for forget in forgets:
            self._by_memory.setdefault(forget.memory, []).append(forget)

    def of(self, memory: int) -> Sequence[Forget]:
        """The places where one of its memories forgets."""
        return self._by_memory.get(memory, ())

    def places(self) -> Int64s:
        """int64[m, 2] all places (unit, LSN), each once."""
        found = {(f.unit, f.lsn) for forgets in self._by_memory.values() for f in forgets}
        return np.array(sorted(found), np.int64).reshape(-1, 2)


class SchemaSender(Protocol):
    """The plugin, as it is asked for what it keeps in mind; places are (transaction, LSN of the change)."""

    @property
    def publication_names(self) -> Sequence[str]:
        """The publications that it was given."""

    def tracks(self, schema: RelationSchema) -> bool:
        """Whether it keeps an entry of this relation."""

    def loads(self, catalog: LoadedPublications, txn: int, lsn: int) -> None:
        """Told where it loads its publications."""

    def describes(
        self, schema: RelationSchema, catalog: LoadedPublications, txn: int, lsn: int
    ) -> tuple[int, tuple[bytes, ...]]:
        """Which changes it wants, and its schema messages.

        Raises:
            HeadwaterError: the server would stop there.
        """


def sync_rows(
    candidates: Candidates,
    resolved: Resolved,
    others: Touches,
    resolver: Resolver,
    forgetting: Forgetting,
    sender: SchemaSender,
) -> SyncedRows:
    """Let each entry's first touch decide for all, candidates and others.

    Args:
        candidates: rows of the index; resolved: as of the change.
        others: touches by truncates, in any order.
        resolver: its resolutions are numbered on.
        forgetting: where the plugin forgets.
        sender: the plugin.
    """
    resolution = resolved.resolution
    tracked = np.array([not x.is_toast and sender.tracks(x.schema) for x in resolver.resolutions] + [False], np.bool_)
    is_touch = tracked[resolution] & (candidates.kinds & ROW_CHANGES != 0)
    touched = slice(None) if is_touch.all() else np.flatnonzero(is_touch)
    of_rows = Touches(resolution[touched], candidates.txn[touched], candidates.first[touched])
    touches, rows_at, others_at = _merged(of_rows, others)
    synced = sync_touches(touches, resolver, forgetting, sender)
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


def sync_touches(touches: Touches, resolver: Resolver, forgetting: Forgetting, sender: SchemaSender) -> Synced:
    """Let each entry's first touch decide for all.

    Touches with one resolution between the same two places of forgetting are alike: the first stands for them.

    Args:
        touches: of relations that the plugin tracks.
        resolver: its resolutions are numbered on.
        forgetting: where the plugin forgets.
        sender: the plugin.
    """
    uses = resolver.resolutions
    oids = np.array([use.schema.oid for use in uses] or [0], np.int64)
    passed = places_passed(touches.txn, touches.lsn, forgetting.places())
    alike = distinct(passed * len(oids) + touches.resolution)
    heads, resolution = alike.first, touches.resolution[alike.first]
    relation = oids[resolution]
    order, starts = entry_starts(relation, touches.txn[heads], touches.lsn[heads], forgetting.of(ENTRIES))
    entry = np.empty(len(heads), np.int64)
    entry[order] = np.cumsum(starts) - 1
    first = _Entries(touches, heads[order[starts]], resolver, forgetting, sender).decided()
    answers = _answers(uses)
    differs = np.flatnonzero(answers[resolution] != answers[first[entry]])
    for head in differs:
        then = uses[int(first[entry[head]])]
        now = replace(uses[int(resolution[head])], wants=then.wants, messages=then.messages, is_decided=True)
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
class _Entries:
    """The first touches of entries, and what the plugin goes by at each.

    Attributes:
        touches: all touches; firsts: int64[e] those that begin an entry.
        resolver, forgetting, sender: as of :func:`sync_touches`.
    """

    touches: Touches
    firsts: Int64s
    resolver: Resolver
    forgetting: Forgetting
    sender: SchemaSender

    def decided(self) -> Int64s:
        """int64[e] the resolution of each first touch, asked anew where something was looked up at a later place.

        Raises:
            HeadwaterError: of the first touch in the output at which the plugin refuses.
        """
        decided = self.touches.resolution[self.firsts]
        loaded, members = self._loaded(), self._memberships()
        rows = dict(zip(np.unique(loaded).tolist(), self._rows(np.unique(loaded)), strict=True))
        for entry in np.argsort(self.firsts, kind="stable").tolist():
            first, load = int(self.firsts[entry]), int(loaded[entry])
            looked_up = (rows[load], *members[entry])
            use = self.resolver.resolutions[int(decided[entry])]
            if first == load:
                self.sender.loads(self._catalog(first, looked_up), *self._place(first))
            latest = max(int(self.touches.lsn[at]) for found in looked_up for at in found.values())
            if use.is_decided and latest <= self.touches.lsn[first]:
                continue
            wants, messages = self.sender.describes(use.schema, self._catalog(first, looked_up), *self._place(first))
            decided[entry] = self.resolver.numbered(replace(use, wants=wants, messages=messages, is_decided=True))
        return decided

    def _loaded(self) -> Int64s:
        """int64[e] the touch at which the publications that each goes by were loaded (publications_valid)."""
        everything = np.zeros(len(self.firsts), np.int64)
        return _looked_up_at(self.touches, everything, self.firsts, self.forgetting.of(LOADED))

    def _rows(self, loads: Int64s) -> list[_LookedUp]:
        """What each loading found of the publications' rows (GetPublicationByName, by number from 1)."""
        numbers = range(1, len(self.sender.publication_names) + 1)
        return self._shared(loads, [tuple(numbers)] * len(loads), ROWS)

    def _memberships(self) -> list[tuple[_LookedUp, _LookedUp]]:
        """Which publications relations and schemas are in (GetRelationPublications, GetSchemaPublications)."""
        asked = [self._asked(int(first)) for first in self.firsts]
        relations = self._shared(self.firsts, [relations for relations, _ in asked], RELATIONS)
        schemas = self._shared(self.firsts, [schemas for _, schemas in asked], SCHEMAS)
        return list(zip(relations, schemas, strict=True))

    def _asked(self, first: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """OIDs of the relation of a touch and of its ancestors, and of the schemas of all these."""
        schema = self.resolver.resolutions[int(self.touches.resolution[first])].schema
        if not schema.ancestors:
            return (schema.oid,), (schema.namespace_oid,)
        catalog = self._view(first)
        found = (catalog.relation(oid) for oid in schema.ancestors)
        schemas = dict.fromkeys([schema.namespace_oid, *(ancestor.namespace_oid for ancestor in found if ancestor)])
        return (schema.oid, *schema.ancestors), tuple(schemas)

    def _shared(self, which: Int64s, asked: Sequence[tuple[int, ...]], memory: int) -> list[_LookedUp]:
        """For each of some touches, and each subject it asks a memory for: where that was looked up."""
        counts = np.array([len(subjects) for subjects in asked], np.int64)
        subject = np.array([one for subjects in asked for one in subjects], np.int64)
        places = _looked_up_at(self.touches, subject, np.repeat(which, counts), self.forgetting.of(memory))
        found = iter(places.tolist())
        return [{one: next(found) for one in subjects} for subjects in asked]

    def _catalog(self, first: int, looked_up: Sequence[_LookedUp]) -> LoadedPublications:
        rows, relations, schemas = ({one: self._view(at) for one, at in found.items()} for found in looked_up)
        named = {name: rows[number] for number, name in enumerate(self.sender.publication_names, 1)}
        return LoadedPublications(self._view(first), named, relations, schemas)

    def _view(self, touch: int) -> HistoricCatalog:
        return self.resolver.view(*self._place(touch))

    def _place(self, touch: int) -> tuple[int, int]:
        return int(self.touches.txn[touch]), int(self.touches.lsn[touch])


def _answers(uses: Sequence[RelationUse]) -> Int64s:
    """Equal numbers for uses that the plugin answers alike, whatever the schema."""
    seen: dict[tuple[int, tuple[bytes, ...], bool], int] = {}
    return np.array([seen.setdefault((use.wants, use.messages, use.is_decided), len(seen)) for use in uses], np.int64)
