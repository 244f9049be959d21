"""Framed records through index, transactions, plan and collector, with relations from a function, not a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from headwater.base.value_codec import read_value, value_bytes
from headwater.catalog.relation import RelationSchema
from headwater.reorder.announced_schemas import ENTRIES, NOTHING_REMEMBERED, Given, SchemaMemory
from headwater.reorder.announcing.cache_invalidation import CacheInvalidation
from headwater.reorder.announcing.relation_sync import SyncedRows, Touches, as_seen, sync_rows
from headwater.reorder.commits.invalidation_places import concerns, find_forgets
from headwater.reorder.commits.join_indexes import merge_indexes
from headwater.reorder.commits.replays import Replays, replays_of_commits
from headwater.reorder.commits.row_cuts import needed_cuts
from headwater.reorder.commits.transactions import NEVER, committed_transactions, toplevel_of
from headwater.reorder.plan import Announcements, Events, Plan, Ranges, RelationUse, Slice, Units
from headwater.reorder.slices.changes import Candidates, candidate_rows, change_rows, choose, left_out_origins
from headwater.reorder.slices.cutting import cut_slices
from headwater.reorder.slices.resolve import Asked, Resolved, resolve_rows
from headwater.reorder.slices.spans import spans_by_unit
from headwater.reorder.slices.units import make_units
from headwater.reorder.unit_flags import BARE, BEGINS_HERE, ENDS_HERE, WROTE_BEFORE
from headwater.reorder.wanted_changes import Description
from headwater.rmgr.index.index_rows import MessageTable
from headwater.rmgr.index.kept_records import KeptRecord
from headwater.rmgr.index.wal_index import Request, WalIndex, build_index
from headwater.rmgr.logicalmsg import parse_message
from headwater.rows.collect.collect import Collector, SliceChanges
from headwater.rows.items import CLEAR_TOAST, LITERAL, OLD_IS_KEY, SEND_SCHEMA, SKIPPED, TOAST
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record
from unit.reorder.plain_reorder import MESSAGE, Output, Resolve, Unit
from unit.rmgr import plain_records as plain

MAJOR = 16
NOTHING_GIVEN = Given.of(np.empty((3, 0), np.int64), np.empty((2, 0), np.int64))


def schema(oid: int, number: int, toast_oid: int, is_toast: bool) -> RelationSchema:
    """Make a relation without columns; its number makes versions differ."""
    return RelationSchema(oid, "public", f"v{number}", "t" if is_toast else "r", "p", "d", (), (), toast_oid)


def part(made: Frames, low: int, high: int) -> Frames:
    """Return the records that start in ``[low, high)``."""
    which = np.flatnonzero((made.lsns >= low) & (made.lsns < high))
    return Frames(made.data, made.positions[which], made.lsns[which], made.end_lsns[which], None)


def index_parts(made: Frames, parts: int, request: Request) -> WalIndex:
    """Index all records, in so many runs, and again with cuts where the index's rows cross events."""
    index = first_index(made, parts, request)
    cuts = needed_cuts(index.rows, committed_transactions(index.rows)).tolist()
    return first_index(made, parts, replace(request, cuts=tuple(cuts))) if cuts else index


def first_index(made: Frames, parts: int, request: Request) -> WalIndex:
    """Index all records, in so many runs."""
    lows = made.lsns[np.linspace(0, len(made.lsns), parts, endpoint=False).astype(np.int64)]
    bounds = [*sorted({int(x) for x in lows}), int(made.end_lsns[-1])]
    runs = [build_index(part(made, a, b), a, b, request) for a, b in pairwise(bounds)]
    return merge_indexes([replace(run, first_prev=0, last_lsn=0) for run in runs])


def message_content(record: KeptRecord, _: int) -> list[bytes]:
    """Return what the plugin makes of a logical message: its content."""
    return [parse_message(parse_record(record.data, record.lsn, record.end_lsn, 16).main_data, record.lsn).content]


class _View:
    """A catalog of one publication, without members."""

    def publication(self, _name: str) -> None:
        return None

    def publication_by_oid(self, _oid: int) -> None:
        return None

    def relation_publications(self, _oid: int) -> tuple[()]:
        return ()

    def publication_member(self, _relation: int, _publication: int) -> None:
        return None

    def schema_publications(self, _oid: int) -> tuple[()]:
        return ()


def only(txns: Replays, which: slice) -> Replays:
    """Return some transactions, numbered from 0."""
    ours = (txns.member_txn >= which.start) & (txns.member_txn < which.stop)
    members = {"member_xid": txns.member_xid[ours], "member_txn": txns.member_txn[ours] - which.start}
    names = [f.name for f in fields(txns) if not f.name.startswith(("member", "streamed", "_"))]
    return Replays(**{name: getattr(txns, name)[which] for name in names}, **members)


@dataclass
class _Relations:
    """The relations that :func:`sync_rows` asks a resolver for."""

    txns: Replays
    resolutions: list[RelationUse]

    def view(self, _txn: int, _lsn: int) -> _View:
        return _View()

    def numbered(self, use: RelationUse) -> int:
        if use not in self.resolutions:
            self.resolutions.append(use)
        return self.resolutions.index(use)


@dataclass
class _Sender:
    """A plugin of one publication, which says of a relation always the same: it is in the relation's name."""

    resolutions: list[RelationUse]
    publication_names: tuple[str, ...] = ("p",)
    announcements: int = ENTRIES
    counts_prepared: bool = False

    def published_as(self, schema: RelationSchema, _messages: Sequence[bytes]) -> int:
        return schema.oid

    def tracks(self, _schema: RelationSchema) -> bool:
        return True

    def loads(self, _catalog: object, _txn: int, _lsn: int, warned: frozenset[str]) -> frozenset[str]:
        return warned

    def renewed(
        self, schema: RelationSchema, catalog: object, description: Description, txn: int, lsn: int
    ) -> Description:
        raise NotImplementedError

    def require_sendable(
        self, schema: RelationSchema, catalog: object, relations: tuple[int, int], txn: int, lsn: int
    ) -> None:
        raise NotImplementedError

    def describes(self, schema: RelationSchema, *_: object) -> Description:
        return next(Description(use.wants, use.messages) for use in self.resolutions if use.schema == schema)


def collected(slice_: Slice, stretches: Sequence[Frames]) -> SliceChanges:
    """Collect a slice's changes out of records."""
    collector = Collector(slice_, message_content, MAJOR)
    for frames in stretches:
        collector.add(frames)
    return collector.finish()


@dataclass
class Sliced:
    """The plan of an index, and its slices collected.

    Attributes:
        made: the records; index: their index.
        resolve: looks relations up.
        left_out: leave out changes from these origins.
        sends_schema: whether the plugin remembers relations.
        cuts: LSNs where what it remembers goes from one window to the next.
    """

    made: Frames
    index: WalIndex
    resolve: Resolve
    left_out: frozenset[int]
    sends_schema: bool
    cuts: Sequence[int] = ()

    def plan(self) -> Plan:
        """Plan as ``pipeline/windows/assemble.py`` does."""
        rows = self.index.rows
        self.txns = replays_of_commits(committed_transactions(rows))
        self.relations: list[RelationUse] = []
        self.numbers: dict[int, int] = {}
        self.commits = np.sort(rows.ends.lsn[rows.ends.invals > 0])
        output = self.txns.base_lsn != NEVER
        candidates = candidate_rows(rows, self.txns, output, self.left_out.__contains__)
        own = [
            self._own_commands(*pair) for pair in zip(candidates.txn.tolist(), candidates.first.tolist(), strict=True)
        ]
        columns = (candidates.txn, candidates.locator, candidates.first, candidates.kinds, np.array(own, np.int64))
        commits = np.sort(self.txns.place[self.txns.changes_catalog])
        resolved = resolve_rows(self.txns.changes_catalog, commits, Asked(*columns), self._answer)
        synced = self._sync(candidates, resolved, output)
        resolution, spans = synced.resolved
        choice = choose(rows, candidates, resolution, self.relations, len(self.txns.xid))
        messages = self._messages(output)
        bare = messages.take(np.flatnonzero(~messages.transactional))
        units, unit_of = make_units(self.txns, output, synced.own, bare)
        changes = change_rows(rows, candidates, unit_of, resolution, choice, synced.announce)
        events = self._events(units, unit_of, messages)
        return Plan(
            units,
            changes,
            events,
            self.relations,
            spans_by_unit(spans, unit_of),
            rows.locators,
            self.index.grid,
            left_out_origins(rows.changes.origin, self.left_out.__contains__),
        )

    def _sync(self, candidates: Candidates, resolved: Resolved, output: np.ndarray) -> SyncedRows:
        """Synchronise window by window, with what the plugin remembers as bytes in between."""
        none = Touches(*np.empty((3, 0), np.int64))
        if not self.sends_schema:
            return as_seen(resolved, none, self.txns.changes_catalog)
        memory, parts = value_bytes(NOTHING_REMEMBERED), []
        self.given = NOTHING_GIVEN
        for lo, hi in pairwise([0, *sorted(self.cuts), NEVER]):
            low, high = np.searchsorted(self.txns.place, [lo, hi])
            part, memory = self._sync_window(candidates, resolved, output, slice(low, high), (lo, hi), memory)
            parts.append(part)
        resolution = np.concatenate([part.resolved.resolution for part in parts])
        # Spans of transactions without catalog changes are in every part.
        spans = np.unique(np.concatenate([part.resolved.spans for part in parts], axis=-1), axis=1)
        announce = np.concatenate([part.announce.sends for part in parts])
        own = np.concatenate([part.own for part in parts])
        sends, nothing = Announcements.certain(announce), Announcements.certain(announce[:0])
        return SyncedRows(Resolved(resolution, spans), none.resolution, sends, nothing, own, parts[0].counted)

    def _sync_window(
        self,
        candidates: Candidates,
        resolved: Resolved,
        output: np.ndarray,
        which: slice,
        window: tuple[int, int],
        memory: bytes,
    ) -> tuple[SyncedRows, bytes]:
        """Synchronise the transactions of one window, as if the index had only those."""
        txns, invals, (lo, hi) = only(self.txns, which), self.index.rows.invals, window
        invals = invals.take(np.flatnonzero((invals.xid != 0) | ((invals.lsn >= lo) & (invals.lsn < hi))))
        concerned = concerns(invals, plain.DATABASE, {-2}, lambda message: {(ENTRIES, message.value)})
        forgets, given = find_forgets(concerned, toplevel_of(self.index.rows), txns, output[which])
        self.given |= given
        before = read_value(SchemaMemory, memory)
        low, high = np.searchsorted(candidates.txn, [which.start, which.stop])
        ours = (resolved.spans[0] < 0) | ((resolved.spans[0] >= which.start) & (resolved.spans[0] < which.stop))
        spans = resolved.spans[:, ours].copy()
        spans[0] = np.where(spans[0] >= 0, spans[0] - which.start, -1)
        synced, after = sync_rows(
            Candidates(
                candidates.at[low:high],
                candidates.txn[low:high] - which.start,
                candidates.locator[low:high],
                candidates.kinds[low:high],
                candidates.first[low:high],
            ),
            Resolved(resolved.resolution[low:high], spans),
            Touches(*np.empty((3, 0), np.int64)),
            _Relations(txns, self.relations),  # type: ignore[arg-type]
            CacheInvalidation(forgets, self.given, txns, output[which]),
            _Sender(self.relations),
            before,
            hi,
        )
        spans = synced.resolved.spans.copy()
        spans[0] = np.where(spans[0] >= 0, spans[0] + which.start, -1)
        return replace(synced, resolved=synced.resolved._replace(spans=spans)), value_bytes(after)

    def _answer(self, txn: int, locator: int, lsn: int, _kinds: int) -> int:
        committed = int(np.searchsorted(self.commits, lsn))
        own = self._own_commands(txn, lsn) if txn >= 0 else 0
        relation = self.resolve(int(self.index.rows.locators[locator, 2]), committed, own)
        if relation is None:
            return -1
        if relation.number not in self.numbers:
            self.numbers[relation.number] = len(self.relations)
            made = schema(
                relation.oid, relation.number, 0 if relation.is_toast else relation.toast_oid, relation.is_toast
            )
            self.relations.append(RelationUse(made, relation.wants, relation.is_toast))
        return self.numbers[relation.number]

    def _own_commands(self, txn: int, lsn: int) -> int:
        commands = self.index.rows.commands
        return int(np.count_nonzero(np.isin(commands.xid, self.txns.members(txn)) & (commands.lsn < lsn)))

    def _messages(self, output: np.ndarray) -> MessageTable:
        messages = self.index.rows.messages
        is_output = np.append(output, False)[self.txns.txn_of(messages.owner)] & ~np.isin(
            messages.origin, [*self.left_out]
        )
        return messages.take(np.flatnonzero(is_output | ~messages.transactional))

    def _events(self, units: Units, unit_of: np.ndarray, messages: MessageTable) -> Events:
        unit = np.append(unit_of, -1)[self.txns.txn_of(messages.owner)]
        unit[~messages.transactional] = np.flatnonzero(units.txn < 0)
        order = np.lexsort((messages.lsn, unit))
        lsn, end = messages.lsn, messages.end
        nobody = np.empty(0, np.int64)
        nothing = np.zeros(len(order), np.int64)
        sorted_lsn, size, made = lsn[order], (end - lsn)[order], np.full(len(unit), -1)
        return Events(
            *(unit[order], sorted_lsn, sorted_lsn, end[order], size, made), (), nothing, nobody, (), nobody, ()
        )

    def units(self, target: int) -> list[Unit]:
        """Return the items of all slices, by unit."""
        return self.units_of((slice_, slice_.ranges) for slice_ in cut_slices(self.plan(), target))

    def units_of(self, slices: Iterable[tuple[Slice, Ranges]]) -> list[Unit]:
        """Return the items of slices, by unit, each picked out of what is read for it."""
        units: list[Unit] = []
        for slice_, read in slices:
            self._check_ranges(slice_)
            self._collect(slice_, read, units)
        return units

    def _check_ranges(self, slice_: Slice) -> None:
        assert list(slice_.ranges) == sorted(slice_.ranges)
        assert all(low in self.made.lsns for low, _ in slice_.ranges)

    def _collect(self, slice_: Slice, read: Ranges, units: list[Unit]) -> None:
        changes = collected(slice_, [part(self.made, *bounds) for bounds in read])
        t = changes.transactions
        for i in range(len(t.xid)):
            if t.flags[i] & BEGINS_HERE:
                # Of a message after a transaction that was cut it says that this one wrote.
                assert t.flags[i] & BARE or not t.flags[i] & WROTE_BEFORE
                units.append(Unit(int(t.xid[i]), int(t.first_lsn[i]), int(t.commit_lsn[i])))
            assert (units[-1].xid, units[-1].commit_lsn) == (t.xid[i], t.commit_lsn[i])
            units[-1].items += self._items(changes, int(t.item_start[i]), int(t.item_end[i]))
            assert i == len(t.xid) - 1 or t.flags[i] & ENDS_HERE

    def _items(self, changes: SliceChanges, start: int, end: int) -> list[Output]:
        items, literals = changes.items, changes.literals
        pending: list[bytes] = []
        outputs = []
        for i in range(start, end):
            kind, flags = int(items.kind[i]), int(items.flags[i])
            new = _bytes(changes.tuples, int(items.new_at[i]), int(items.new_len[i]))
            old = _bytes(changes.tuples, int(items.old_at[i]), int(items.old_len[i]))
            if kind == LITERAL:
                at = literals.first[items.layout[i]]
                data = literals.data[literals.offsets[at] : literals.offsets[at + 1]].tobytes()
                outputs.append(Output(int(items.lsn[i]), 0, MESSAGE, -1, data))
                continue
            if kind == TOAST:
                assert new is not None
                pending.append(new)
            elif kind < SKIPPED:
                name = changes.relations[items.layout[i]].schema.name
                outputs.append(
                    Output(
                        int(items.lsn[i]),
                        int(items.xid[i]),
                        kind,
                        int(name[1:]),
                        new,
                        old,
                        tuple(pending),
                        bool(flags & OLD_IS_KEY),
                        bool(flags & SEND_SCHEMA),
                    )
                )
            if flags & CLEAR_TOAST:
                pending = []
        return outputs


def _bytes(tuples: np.ndarray, at: int, length: int) -> bytes | None:
    return None if at < 0 else tuples[at : at + length].tobytes()
