"""The knowledge of a schema-sending plugin about relations, and since when (PostgreSQL: RelationSyncEntry, pgoutput.c).

In: changes and truncates of a window, where the plugin forgets, and what it remembered before
(:class:`~headwater.reorder.announced_schemas.SchemaMemory`). Out: what each is decoded and announced as, and what the
plugin remembers at the end. Wherever the log is cut into windows, the outputs are those of the whole.

The plugin asks the catalog how a relation is published when it first meets it after an invalidation. It goes by that
answer until the next one. So does every change in between, even one whose transaction began earlier and would see
another state of the publications. Touches of one relation between two forgettings share an *entry*: its first touch
decides what is wanted (:mod:`headwater.reorder.announcing.publication_cache`). The schema goes before the first wanted
change since it was forgotten that it has been sent: from 15 on that is an entry's first one. In 14 entries outlive
changes of the relation, and a schema that was sent those of publications; each is forgotten by itself.

A row filter decides, in a task, whether a wanted change gives a message: then the announcement is tentative, and has a
number, the LSN of the first change that it could go before. :mod:`headwater.pipeline.slices.tentative_messages` finds
out which it is.

Places are counted by transactions in commit order, so nothing here depends on which of them are output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.announced_schemas import ENTRIES, Announced, Entry, SchemaMemory, StreamedAnnouncement
from headwater.reorder.announcing.announcing import (
    Known,
    Touched,
    announced_by,
    announcement_numbers,
    announcers,
    remembered_announcements,
)
from headwater.reorder.announcing.cache_invalidation import CacheInvalidation
from headwater.reorder.announcing.publication_cache import Asked, SchemaSender
from headwater.reorder.integer_keys import distinct, distinct_rows, lookup, stable_order
from headwater.reorder.plan import Announcements
from headwater.reorder.slices.changes import Candidates
from headwater.reorder.slices.resolve import Resolved, Resolver, wanted_kinds
from headwater.reorder.wanted_changes import WANT_TRUNCATE, Description
from headwater.rmgr.index.index_codes import CONFIRMS, DELETES_BARE, DELETES_OLD, INSERTS, UPDATES

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_Answer = tuple[Description, bool]
"""The plugin's description of a relation, and whether it gave one at all (:class:`RelationUse`)."""

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
class SyncedRows:
    """Candidates, and other touches, as the plugin takes them.

    Attributes:
        resolved: the candidates.
        others: int64[k] the resolutions of the other touches.
        announce: candidates before which the schema goes, c of them; announce_others: other touches likewise, k.
        own: bool[t] transactions with spans of their own.
        counted: int64[3, n] see :class:`headwater.reorder.announcing.announcing.AnnouncedBy`.
    """

    resolved: Resolved
    others: Int64s
    announce: Announcements
    announce_others: Announcements
    own: Bools
    counted: Int64s


def as_seen(resolved: Resolved, others: Touches, own: Bools) -> SyncedRows:
    """Return candidates and other touches as a plugin takes them that remembers nothing.

    Args:
        resolved: the candidates as of the change; others: the other touches.
        own: bool[t] transactions with spans of their own.
    """
    announce, announce_others = (
        Announcements.certain(np.zeros(len(some), np.bool_)) for some in (resolved.resolution, others.resolution)
    )
    return SyncedRows(resolved, others.resolution, announce, announce_others, own, np.empty((3, 0), np.int64))


def sync_rows(
    candidates: Candidates,
    resolved: Resolved,
    others: Touches,
    resolver: Resolver,
    forgetting: CacheInvalidation,
    sender: SchemaSender,
    memory: SchemaMemory,
    end: int,
) -> tuple[SyncedRows, SchemaMemory]:
    """Let each entry's first touch decide for all, candidates and others.

    Args:
        candidates: rows of the index; resolved: as of the change.
        others: touches by truncates, in any order.
        resolver: its resolutions are numbered on.
        forgetting: where the plugin forgets.
        sender: the plugin.
        memory: its memory before the window.
        end: LSN where the window ends: what committed before it is visible there.

    Returns:
        the rows, and the memory at the end.

    Raises:
        HeadwaterError: of the first touch in the output at which the plugin refuses.
    """
    resolution = resolved.resolution
    tracked = np.array([not x.is_toast and sender.tracks(x.schema) for x in resolver.resolutions] + [False], np.bool_)
    is_touch = tracked[resolution] & (candidates.kinds & ROW_CHANGES != 0)
    touched = slice(None) if is_touch.all() else np.flatnonzero(is_touch)
    of_rows = Touches(resolution[touched], candidates.txn[touched], candidates.first[touched])
    touches, rows_at, others_at = _merged(of_rows, others)
    session = _Session(touches, resolver, forgetting, sender, memory)
    taken = session.resolutions()
    uses, kinds = resolver.resolutions, candidates.kinds[touched]

    def gives(wants: Int64s) -> Bools:
        """Tell of which touches some change gives a message, by the WANT_* bits of each resolution: bool[n]."""
        is_given = np.empty(len(taken), np.bool_)
        is_given[others_at] = wants[taken[others_at]] & WANT_TRUNCATE != 0
        is_given[rows_at] = kinds & wanted_kinds(wants)[taken[rows_at]] != 0
        return is_given

    # Without row filters each wanted change gives a message. With one, a task finds out, so "wanted" and "certain" are
    # two answers, and announcements between them are tentative.
    wanted = gives(np.array([use.wants for use in uses] + [0], np.int64))
    are_filtered = any(use.filters is not None for use in uses)
    certain = gives(np.array([use.certain for use in uses] + [0], np.int64)) if are_filtered else wanted
    announcing = session.announce(wanted, certain, taken)
    session.require_sendable(wanted, taken, announcing)
    announce = announcing.before.take(rows_at).spread(len(resolution), touched)
    synced, own = _with_changed(candidates, resolved, touched, taken[rows_at], resolver.txns.changes_catalog)
    left = session.asked.remembered(end, session.entries(), session.announced(announcing.at_end))
    left = replace(left, streamed=session.streamed(announcing.own))
    return SyncedRows(
        synced, taken[others_at], announce, announcing.before.take(others_at), own, announcing.counted
    ), left


def _merged(rows: Touches, others: Touches) -> tuple[Touches, Int64s | slice, Int64s]:
    """Merge touches of both kinds in order, and tell which of them are rows, and others.

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
    """Return resolutions, and spans of which all rows of some transactions have their own."""
    which = np.flatnonzero(np.isin(candidates.txn, odd))
    columns = (candidates.txn, candidates.locator, candidates.first, resolution)
    more = np.stack([column[which] for column in columns])
    both = np.concatenate([spans[:, ~np.isin(spans[0], odd)], more], axis=1)
    return Resolved(resolution, both[:, np.lexsort((both[2], both[1], both[0]))])


def _with_changed(
    candidates: Candidates, resolved: Resolved, touched: Int64s | slice, taken: Int64s, own: Bools
) -> tuple[Resolved, Bools]:
    """Return candidates, some of which are taken as something else, and transactions with spans of their own.

    Args:
        candidates: the candidates; resolved: as of the change.
        touched: int64[m] or all: some of them; taken: int64[m] the resolutions these are taken as.
        own: bool[t] transactions that have spans of their own anyway.
    """
    changed = np.flatnonzero(taken != resolved.resolution[touched])
    if not len(changed):
        return resolved, own
    resolution, own = resolved.resolution.copy(), own.copy()
    resolution[touched] = taken
    odd = np.unique(candidates.txn[touched][changed])
    own[odd] = True
    return _with_own_spans(candidates, resolution, resolved.spans, odd), own


class _Session:
    """A window as the plugin goes through it.

    Touches with one resolution between the same two places of forgetting are alike: the first of them, a *head*,
    stands for them. An entry is that of the head at which it begins, or one that was remembered before the window; so
    is an announcement, the stretch of touches that the schema is sent once for.

    Args:
        touches: of relations that the plugin tracks, n of them.
        resolver, forgetting, sender, memory: as of :func:`sync_rows`.
    """

    def __init__(
        self,
        touches: Touches,
        resolver: Resolver,
        forgetting: CacheInvalidation,
        sender: SchemaSender,
        memory: SchemaMemory,
    ) -> None:
        self._touches, self._resolver, self._sender, self._before = touches, resolver, sender, memory.entries
        self._is_apart = sender.announcements != ENTRIES
        # Thousands of rows between two invalidations get the same answers. So the first touch of each resolution in
        # each phase stands for the others, and only these heads go through what follows:
        #
        #   touch        t  t  t  u  t  |  t  u  u        t, u: relations; |: an invalidation
        #   phase        0  0  0  0  0     1  1  1
        #   head         0  0  0  1  0     2  3  3
        oids = np.array([use.schema.oid for use in resolver.resolutions] or [0], np.int64)
        phases = forgetting.phases([ENTRIES, sender.announcements], touches.txn, touches.lsn, np.unique(oids))
        heads, self._head_of = _heads(touches, phases, len(oids))
        self._heads, self._resolution = heads, touches.resolution[heads]
        places = forgetting.at(touches.txn[heads], touches.lsn[heads])
        # Entries from before the window come first, in reverse, as sources number them -1, -2, ...: adding their count
        # makes an index of every source.
        known = np.array([entry.relation for entry in self._before], np.int64)
        self._entries = forgetting.look_up(ENTRIES, known, oids[self._resolution], places)
        self._entry_of = self._entries.source + len(known)
        self._in_mind = remembered_announcements(memory)
        self._announcers = announcers(resolver.txns, self._in_mind.xid, sender.counts_prepared)
        known = self._in_mind.relations
        self._announcements = forgetting.look_up(sender.announcements, known, oids[self._resolution], places)
        self._announcement_of = self._announcements.source + len(known)
        self._announced_before = _Announced(self._in_mind.published_as, self._in_mind.number)
        # A head that looked up its own entry is where the plugin asks the catalog.
        firsts = np.flatnonzero(self._entries.source == np.arange(len(heads)))
        self._answers: dict[_Answer, int] = {}
        self._own = self._numbers(
            [(Description(use.wants, use.messages, use.filters), use.is_decided) for use in resolver.resolutions]
        )
        self.asked = Asked(self._resolution[firsts], places.take(firsts), resolver, forgetting, sender, memory)
        self._said = self._decide(firsts)

    def _decide(self, firsts: Int64s) -> Int64s:
        """Return the answers of entries: from before the window, the last one first, and of heads: int64[m + h]."""
        decided = self._own[self._resolution]
        for asked, description in self.asked.anew():
            decided[firsts[asked]] = self._numbers([(description, True)])[0]
        before = [(entry.said, True) for entry in reversed(self._before)]
        return np.concatenate([self._numbers(before), decided])

    def _numbers(self, answers: Sequence[_Answer]) -> Int64s:
        """Give equal answers equal numbers, whatever the schema."""
        known = self._answers
        return np.array([known.setdefault(answer, len(known)) for answer in answers], np.int64)

    def resolutions(self) -> Int64s:
        """Return the resolution that each touch is decoded and announced as: int64[n]."""
        resolution, answer_of = self._resolution.copy(), self._said[self._entry_of]
        # Most touches are taken as the catalog has them at their own place. Only where the entry says something else,
        # as it was made earlier, another resolution is needed.
        differs = np.flatnonzero(self._own[resolution] != answer_of)
        if not len(differs):
            return self._touches.resolution
        # How an entry that outlives changes of the relation is announced depends on the touch.
        which = self._heads[differs] if self._is_apart else np.zeros(len(differs), np.int64)
        kinds, number = distinct_rows(np.stack([resolution[differs], answer_of[differs], which]))
        answers = list(self._answers)
        taken = [self._as(use, answers[answer], touch) for use, answer, touch in kinds.T.tolist()]
        resolution[differs] = np.array(taken, np.int64)[number]
        return resolution[self._head_of]

    def _as(self, use: int, answer: _Answer, touch: int) -> int:
        was, (description, _) = self._resolver.resolutions[use], answer
        if self._is_apart and description.wants:
            txn, lsn = int(self._touches.txn[touch]), int(self._touches.lsn[touch])
            description = self._sender.renewed(was.schema, self._resolver.view(txn, lsn), description, txn, lsn)
        return self._resolver.numbered(
            replace(
                was,
                wants=description.wants,
                messages=description.messages,
                filters=description.filters,
                is_decided=True,
            )
        )

    def announce(self, wanted: Bools, certain: Bools, taken: Int64s) -> _Announcing:
        """Find the touches before which the schema goes.

        That is the first wanted one of every announcement that was not sent yet. Where row filters decide whether that
        one gives a message, the announcement has a number. All wanted touches have it up to the first certain one: the
        schema goes before whichever of them is the first that gives a message.

        Args:
            wanted: bool[n] of some change of a touch a message is wanted; certain: bool[n] whatever is in its row.
            taken: int64[n] the resolution that each touch is decoded and announced as.
        """
        at_end, who = self._announced_before.longer(len(self._announcement_of)), self._announcers
        stretch_of, of_all = self._announcement_of[self._head_of], np.flatnonzero(at_end.published_as)
        known = Known(
            stretch=np.append(of_all, self._in_mind.stretch),
            announcer=np.append(np.zeros(len(of_all), np.int64), who.known(self._in_mind.xid)),
            number=np.append(at_end.number[of_all], self._in_mind.own_number),
        )
        known_as = np.append(at_end.published_as[of_all], self._in_mind.own_published_as)
        may_be = ((at_end.published_as == 0) | (at_end.number != 0))[stretch_of]
        if self._resolver.txns.streamed is not None:
            may_be |= who.of[self._touches.txn] > 0
        which = np.flatnonzero(wanted & may_be)
        by_touch = announced_by(self._touched(which, stretch_of, certain), who, known)
        by, own_by = (self._announced_as(by, taken[which], known_as) for by in (by_touch.by, by_touch.own_by))
        at_end.published_as[by_touch.common], at_end.number[by_touch.common] = by, by_touch.number
        before = Announcements.of(len(wanted), which, by_touch.sends, by_touch.tentative)
        stretch, announcer = by_touch.own
        return _Announcing(before, at_end, _Own(stretch, announcer, own_by, by_touch.own_number), by_touch.counted)

    def _touched(self, which: Int64s, stretch_of: Int64s, certain: Bools) -> Touched:
        """Return some touches, as those that may announce."""
        txn, lsn = self._touches.txn[which], self._touches.lsn[which]
        return Touched(stretch_of[which], txn, certain[which], announcement_numbers(self._resolver.txns, txn, lsn))

    def _announced_as(self, by: Int64s, taken: Int64s, known: Int64s) -> Int64s:
        """Return OIDs of relations announced by wanted touches or, below 0, known before the window: int64[n]."""
        oids, is_new = np.empty(len(by), np.int64), by >= 0
        oids[~is_new] = known[by[~is_new]]
        oids[is_new] = self._published_as(taken[by[is_new]])
        return oids

    def _published_as(self, taken: Int64s) -> Int64s:
        """Return the OIDs of the relations that some are announced as: int64[n]."""
        uses, number = np.unique(taken, return_inverse=True)
        resolutions = [self._resolver.resolutions[use] for use in uses.tolist()]
        oids = [self._sender.published_as(use.schema, use.messages) for use in resolutions]
        return np.array(oids, np.int64)[number]

    def require_sendable(self, wanted: Bools, taken: Int64s, announcing: _Announcing) -> None:
        """Stop at a wanted touch that is sent as another relation than it was announced as, if that cannot be done.

        Args:
            wanted: bool[n]; taken: int64[n] the resolution that each touch is decoded and announced as.
            announcing: the announcements.

        Raises:
            HeadwaterError: as :meth:`SchemaSender.require_sendable`.
        """
        if not self._is_apart:
            return
        which = np.flatnonzero(wanted)
        sent_as, announced_as = self._published_as(taken[which]), self._known_as(which, announcing)
        differs = np.flatnonzero(sent_as != announced_as)
        for at in differs[distinct(self._head_of[which[differs]]).first].tolist():
            schema, touch = self._resolver.resolutions[int(taken[which[at]])].schema, int(which[at])
            txn, lsn = int(self._touches.txn[touch]), int(self._touches.lsn[touch])
            relations = int(announced_as[at]), int(sent_as[at])
            self._sender.require_sendable(schema, self._resolver.view(txn, lsn), relations, txn, lsn)

    def _known_as(self, which: Int64s, announcing: _Announcing) -> Int64s:
        """Return OIDs of relations that wanted touches were announced as, for all or by streamed ones: int64[n]."""
        stretch, announcer = self._announcement_of[self._head_of[which]], self._announcers.of[self._touches.txn[which]]
        known_as, is_own = announcing.at_end.published_as[stretch], announcer > 0
        size, own = len(self._announcers.top), announcing.own
        pairs = stretch[is_own] * size + announcer[is_own]
        known_as[is_own] = lookup(own.stretch * size + own.announcer, own.published_as, pairs)
        return known_as

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries remembered at the end."""
        answers, before = list(self._answers), self._before[::-1]
        entries = (self._entries.kept_source + len(before)).tolist()
        columns = zip(self._entries.kept.tolist(), entries, self._said[entries].tolist(), strict=True)
        return tuple(
            before[entry] if entry < len(before) else Entry(oid, answers[answer][0]) for oid, entry, answer in columns
        )

    def announced(self, announced: _Announced) -> tuple[Announced, ...]:
        """Return the relations that are, or may be, announced at the end; announced: m + h of them."""
        at = self._announcements.kept_source + len(self._announced_before.number)
        columns = self._announcements.kept, announced.published_as[at], announced.number[at]
        return tuple(
            Announced(oid, other, number)
            for oid, other, number in zip(*(column.tolist() for column in columns), strict=True)
            if other
        )

    def streamed(self, of: _Own) -> tuple[StreamedAnnouncement, ...]:
        """Return the announcements that transactions in progress have made at the end, or may have."""
        if not len(of.stretch):
            return ()
        remembered = self._announcements.kept_source + len(self._announced_before.number)
        order = stable_order(remembered)
        relation = lookup(remembered[order], self._announcements.kept[order], of.stretch)
        which = np.flatnonzero((relation >= 0) & self._announcers.is_open[of.announcer])
        top = self._announcers.top[of.announcer]
        columns = (column[which].tolist() for column in (top, relation, of.published_as, of.number))
        return tuple(sorted(StreamedAnnouncement(*announcement) for announcement in zip(*columns, strict=True)))


@dataclass(frozen=True)
class _Announced:
    """Announcements, a of them.

    Attributes:
        published_as: int64[a] OID of the relation that each is announced as, 0 if it is not.
        number: int64[a] its number, if it may not have been made, else 0.
    """

    published_as: Int64s
    number: Int64s

    def longer(self, more: int) -> _Announced:
        """Return the announcements with so many more, which were not made."""
        nothing = np.zeros(more, np.int64)
        return _Announced(np.concatenate([self.published_as, nothing]), np.concatenate([self.number, nothing]))


class _Own(NamedTuple):
    """The announcements that streamed transactions have made for themselves, or may have, o of them.

    Attributes:
        stretch, announcer: int64[o].
        published_as, number: int64[o] as of :class:`_Announced`.
    """

    stretch: Int64s
    announcer: Int64s
    published_as: Int64s
    number: Int64s


class _Announcing(NamedTuple):
    """The announcements of a window.

    Attributes:
        before: the touches that they come before.
        at_end: m + h announcements, for all; own: those of streamed transactions.
        counted: see :class:`headwater.reorder.announcing.announcing.AnnouncedBy`.
    """

    before: Announcements
    at_end: _Announced
    own: _Own
    counted: Int64s


def _heads(touches: Touches, phase: Int64s, resolutions: int) -> tuple[Int64s, Int64s]:
    """Find the first touch of each resolution in each phase, in order; and the one standing for each touch: int64[n].

    Args:
        touches: n of them.
        phase: int64[n] numbers that grow wherever something is forgotten.
        resolutions: how many there are.
    """
    alike = distinct(phase * resolutions + touches.resolution)
    order = np.argsort(alike.first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return alike.first[order], number[alike.number]
