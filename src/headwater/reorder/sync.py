"""What a schema-sending plugin knows of a relation, and since when (PostgreSQL: RelationSyncEntry of pgoutput.c).

The plugin asks the catalog how a relation is published when it first meets it after it was told to forget it, and goes
by that answer until it is told again; so does every change in between, even one whose transaction began earlier and
would see another state of the publications. Touches of one relation between two forgettings share an *entry*: its
first touch decides what is wanted, and the schema goes before its first wanted change. The answer itself is put
together from two things that are kept longer: what the publications say is loaded at the first entry of any relation
after a message about publications, and which publications a relation is in is looked up at the first entry after a
message about their members.

Places are counted by transactions in commit order, so nothing here depends on which of them are output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.history import HistoricCatalog
from headwater.catalog.relation import Publication, RelationSchema
from headwater.reorder.changes import Candidates
from headwater.reorder.plan import RelationUse
from headwater.reorder.resend import Forget, entry_starts
from headwater.reorder.resolve import Resolved, Resolver
from headwater.rmgr._index import CONFIRMS, DELETES_BARE, DELETES_OLD, INSERTS, UPDATES
from headwater.rmgr.index import Rows

Int64s = NDArray[np.int64]

ROW_CHANGES = INSERTS | UPDATES | DELETES_OLD | DELETES_BARE | CONFIRMS
"""Kinds of changes that the output plugin is called for."""


@dataclass(frozen=True)
class Touches:
    """Changes and truncates of relations, in any order, n of them.

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
        order: int64[n] the touches by (relation, place).
    """

    resolution: Int64s
    entry: Int64s
    order: Int64s

    def announced(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The first wanted touch of every entry.

        Args:
            wanted: bool[n].
        """
        sends = np.zeros(len(wanted), np.bool_)
        which = self.order[wanted[self.order]]
        entry = self.entry[which]
        sends[which[np.flatnonzero(np.diff(entry, prepend=-1))]] = True
        return sends


@dataclass(frozen=True)
class SyncedRows:
    """Candidates, and other touches, as the plugin takes them.

    Attributes:
        synced: all touches: first those of candidates, then the others.
        touched: int64[] the candidates that are touches.
        resolved: the candidates.
        own: bool[t] transactions with spans of their own.
    """

    synced: Synced
    touched: Int64s
    resolved: Resolved
    own: NDArray[np.bool_]

    @property
    def others(self) -> Int64s:
        """int64[k] the resolutions of the other touches."""
        return self.synced.resolution[len(self.touched) :]

    def announced(self, wanted: NDArray[np.bool_], others: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Before which candidates and other touches the schema goes.

        Args:
            wanted: bool[c] of the candidates; others: bool[k].

        Returns:
            bool[c + k].
        """
        sends = self.synced.announced(np.concatenate([wanted[self.touched], others]))
        announce = np.zeros(len(wanted), np.bool_)
        announce[self.touched] = sends[: len(self.touched)]
        return np.concatenate([announce, sends[len(self.touched) :]])


@dataclass(frozen=True)
class LoadedPublications:
    """The catalog at a touch, with publications and their members as they were when they were loaded last.

    Attributes:
        now: at the touch.
        loaded: when the publications were loaded.
        members: when the relation's memberships were looked up.
    """

    now: HistoricCatalog
    loaded: HistoricCatalog
    members: HistoricCatalog

    def relation(self, oid: int) -> RelationSchema | None:
        """The relation with this OID, now."""
        return self.now.relation(oid)

    def publication(self, name: str) -> Publication | None:
        """The publication as loaded, with the members it had when they were looked up."""
        loaded, then = self.loaded.publication(name), self.members.publication(name)
        if loaded is None or then is None:
            return loaded
        return replace(
            loaded, tables=then.tables, column_lists=then.column_lists, filtered=then.filtered, schemas=then.schemas
        )


@dataclass(frozen=True)
class Forgetting:
    """Where the plugin and the caches it uses forget; units are transactions.

    Attributes:
        entries: what is known of a relation (0: of all).
        publications: what the publications say (relation 0).
        members: which relations are in them (relation 0).
    """

    entries: Sequence[Forget]
    publications: Sequence[Forget]
    members: Sequence[Forget]


def sync_rows(
    rows: Rows,
    candidates: Candidates,
    resolved: Resolved,
    others: Touches,
    resolver: Resolver,
    forgetting: Forgetting,
) -> SyncedRows:
    """Let each entry's first touch decide for all, candidates and others.

    Args:
        rows: the index.
        candidates: some of its rows; resolved: as of the change.
        others: touches by truncates.
        resolver: its resolutions are numbered on.
        forgetting: where the plugin forgets.
    """
    at, resolution = candidates.at, resolved.resolution
    toast = np.array([x.is_toast for x in resolver.resolutions] + [True], np.bool_)
    touched = np.flatnonzero(~toast[resolution] & (rows.change_kinds[at] & ROW_CHANGES != 0))
    touches = Touches(
        np.concatenate([resolution[touched], others.resolution]),
        np.concatenate([candidates.txn[touched], others.txn]),
        np.concatenate([rows.change_first[at[touched]], others.lsn]),
    )
    synced = sync_touches(touches, resolver, forgetting)
    own = resolver.txns.changes_catalog
    changed = synced.resolution[: len(touched)] != resolution[touched]
    if not changed.any():
        return SyncedRows(synced, touched, resolved, own)
    resolution = resolution.copy()
    resolution[touched] = synced.resolution[: len(touched)]
    odd = np.unique(candidates.txn[touched[changed]])
    own = own.copy()
    own[odd] = True
    return SyncedRows(synced, touched, _with_own_spans(rows, candidates, resolution, resolved.spans, odd), own)


def _with_own_spans(rows: Rows, candidates: Candidates, resolution: Int64s, spans: Int64s, odd: Int64s) -> Resolved:
    """Resolutions, and spans of which all rows of some transactions have their own."""
    which = np.flatnonzero(np.isin(candidates.txn, odd))
    at = candidates.at[which]
    more = np.stack([candidates.txn[which], rows.change_locator[at], rows.change_first[at], resolution[which]])
    both = np.concatenate([spans[:, ~np.isin(spans[0], odd)], more], axis=1)
    return Resolved(resolution, both[:, np.lexsort((both[2], both[1], both[0]))])


def sync_touches(touches: Touches, resolver: Resolver, forgetting: Forgetting) -> Synced:
    """Let each entry's first touch decide for all.

    Args:
        touches: of relations that are no TOAST relations.
        resolver: its resolutions are numbered on.
        forgetting: where the plugin forgets.
    """
    uses = resolver.resolutions
    oids = np.array([use.schema.oid for use in uses] or [0], np.int64)
    relation = oids[touches.resolution]
    order, starts = entry_starts(relation, touches.txn, touches.lsn, forgetting.entries)
    number = np.cumsum(starts) - 1
    entry = np.empty(len(order), np.int64)
    entry[order] = number
    firsts = order[starts]
    loaded = _looked_up_at(touches, np.zeros(len(firsts), np.int64), firsts, forgetting.publications)
    members = _looked_up_at(touches, relation[firsts], firsts, forgetting.members)
    first = _decided(touches, firsts, loaded, members, resolver)
    answers = _answers(uses)
    resolution = touches.resolution.copy()
    for touch in np.flatnonzero(answers[resolution] != answers[first[entry]] if len(order) else []):
        then = uses[int(first[entry[touch]])]
        now = replace(uses[int(resolution[touch])], wants=then.wants, messages=then.messages)
        resolution[touch] = resolver.numbered(now)
    return Synced(resolution, entry, order)


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


def _decided(touches: Touches, firsts: Int64s, loaded: Int64s, members: Int64s, resolver: Resolver) -> Int64s:
    """The resolution of each entry's first touch; asked anew where something was looked up at a later place."""
    decided = touches.resolution[firsts]
    lsn = touches.lsn
    for entry in np.flatnonzero((lsn[loaded] > lsn[firsts]) | (lsn[members] > lsn[firsts])):
        places = (int(at[entry]) for at in (firsts, loaded, members))
        views = (resolver.view(int(touches.txn[at]), int(lsn[at])) for at in places)
        use = resolver.resolutions[int(decided[entry])]
        wants, messages = resolver.describe(use.schema, LoadedPublications(*views))
        decided[entry] = resolver.numbered(replace(use, wants=wants, messages=messages))
    return decided


def _answers(uses: Sequence[RelationUse]) -> Int64s:
    """Equal numbers for uses that the plugin answers alike, whatever the schema."""
    seen: dict[tuple[int, tuple[bytes, ...]], int] = {}
    return np.array([seen.setdefault((use.wants, use.messages), len(seen)) for use in uses] or [0], np.int64)
