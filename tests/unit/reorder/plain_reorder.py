"""Plain twin of everything between framed records and the items of slices: a reorder buffer like the server's.

Every change is copied into a list of its xid, a commit merges the lists of its subtransactions and replays them; what
catalog a change sees, and which schemas the reader has been sent, is found out by going along.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.reorder.wanted_changes import WANT_BARE_DELETE, WANT_DELETE, WANT_INSERT, WANT_UPDATE
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import Record, parse_record

INSERT, UPDATE, DELETE, MESSAGE = 1, 2, 3, 4


@dataclass(frozen=True)
class Output:
    """One item: a change with its tuples and the TOAST chunks it may use, or a message."""

    lsn: int
    xid: int
    kind: int
    relation: int
    new: bytes | None = None
    old: bytes | None = None
    chunks: tuple[bytes, ...] = ()
    is_key: bool = False
    is_announced: bool = False


@dataclass
class Unit:
    """A transaction or a bare message, with its items."""

    xid: int
    first_lsn: int
    commit_lsn: int
    items: list[Output] = field(default_factory=list)


@dataclass(frozen=True)
class PlainRelation:
    """A version of a relation, as the twin knows it: its number, wanted kinds, OID, and whether it holds chunks."""

    number: int
    wants: int
    oid: int
    toast_oid: int
    is_toast: bool


Resolve = Callable[[int, int, int], PlainRelation | None]
"""The relation of a file, by file, committed catalog changes and own commands before the change."""


@dataclass
class _Txn:
    base: int | None = None
    first: int | None = None
    changes_catalog: bool = False
    changes: list[Record] = field(default_factory=list)
    commands: list[int] = field(default_factory=list)
    invalidations: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)


@dataclass
class PlainReorder:
    """A plain reorder buffer, which reads records in order; ``units`` is the output.

    Attributes:
        resolve: looks relations up.
        left_out: leave out changes from these origins.
        sends_schema: the plugin remembers what it first learned of a relation, until a message has it forget that.
    """

    resolve: Resolve
    left_out: frozenset[int]
    sends_schema: bool
    units: list[Unit] = field(default_factory=list)
    txns: dict[int, _Txn] = field(default_factory=lambda: defaultdict(_Txn))
    tops: dict[int, int] = field(default_factory=dict)
    catalog_commits: list[int] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    entries: dict[int, int] = field(default_factory=dict)
    distributed: dict[int, list[tuple[int, tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(list))

    def read(self, made: Frames) -> None:
        """Read all records."""
        for i in range(len(made.positions)):
            self._record(parse_record(made.record(i), int(made.lsns[i]), int(made.end_lsns[i]), 16))

    def _record(self, record: Record) -> None:
        op = record.info & 0x70
        if record.rmid == 1 and op in (0x00, 0x20):
            return self._end(record, op == 0x00)
        if record.rmid == 1 and op == 0x60 and not record.xid:
            return self._forget(_relations(record.main_data[4:]))
        if record.rmid == 21 and not record.main_data[4]:
            unit = Unit(record.xid, record.lsn, record.lsn)
            self.units.append(unit)
            unit.items.append(self._message(record))
            self._see(record)
            return None
        return self._queue(record, op)

    def _see(self, record: Record) -> _Txn:
        txn = self.txns[record.xid]
        txn.first = record.lsn if txn.first is None else txn.first
        if record.toplevel_xid and record.xid:
            self.tops[record.xid] = record.toplevel_xid
            self.txns[record.toplevel_xid].first = self.txns[record.toplevel_xid].first or record.lsn
        return txn

    def _queue(self, record: Record, op: int) -> None:
        if not record.xid:
            return
        txn = self._see(record)
        if record.rmid == 9 and op == 0x70:
            txn.changes_catalog = True
            txn.commands.append(record.lsn)
        elif record.rmid == 1 and op == 0x60:
            txn.changes_catalog = True
            txn.invalidations.append((record.lsn, _relations(record.main_data[4:])))
        elif record.rmid in (9, 21) or (record.rmid == 10 and op != 0x60):
            txn.base = record.lsn if txn.base is None else txn.base
            txn.changes.append(record)

    def _end(self, record: Record, commits: bool) -> None:
        subs = _subs(record)
        family = [x for x in self.tops if self.tops[x] == record.xid]
        if commits:
            self._commit(record, [record.xid, *subs], {record.xid, *subs, *family})
        elif record.xid not in self.tops:
            for xid in {record.xid, *family}:
                self.txns.pop(xid, None)

    def _commit(self, record: Record, members: Sequence[int], everyone: set[int]) -> None:
        lists = [self.txns[x] for x in sorted(everyone)]
        changes_catalog = any(t.changes_catalog for t in lists)
        received = [received_entry for t in lists for received_entry in t.invalidations]
        bases = [t.base for t in lists if t.base is not None] + [record.lsn] * changes_catalog
        if bases:
            base = min(bases)
            everything = received + [x for x in self.distributed.pop(record.xid, []) if x[0] > base]
            own = [x for m in members for x in self.txns[m].invalidations]
            own += [x for x in everything if x not in received]
            self._replay(record, members, lists, changes_catalog, own)
            for _, relations in everything:
                self._forget(relations)
        for xid in everyone:
            self.txns.pop(xid, None)
        if received:
            named = tuple(relation for _, relations in received for relation in relations)
            for xid in {self.tops.get(x, x) for x in self.txns if x}:
                self.distributed[xid].append((record.lsn, named))
        if record.main_data[8] & 8:
            self.catalog_commits.append(record.lsn)

    def _replay(
        self,
        record: Record,
        members: Sequence[int],
        lists: Sequence[_Txn],
        changes_catalog: bool,
        invalidations: list[tuple[int, tuple[int, ...]]],
    ) -> None:
        unit = Unit(record.xid, min(t.first for t in lists if t.first is not None), record.lsn)
        self.units.append(unit)
        replay = _Replay(self, [x for m in members for x in self.txns[m].commands] if changes_catalog else [])
        steps: list[tuple[int, int, Any]] = [(lsn, 0, relations) for lsn, relations in invalidations]
        steps += [(change.lsn, 1, change) for m in members for change in self.txns[m].changes]
        for _, kind, what in sorted(steps, key=lambda step: step[:2]):
            if kind == 0:
                self._forget(what)
            elif what.origin not in self.left_out:
                unit.items += replay.step(what)

    def _forget(self, relations: Sequence[int]) -> None:
        forgotten = set(self.entries) if 0 in relations else set(relations)
        self.sent -= forgotten
        self.entries = {oid: wants for oid, wants in self.entries.items() if oid not in forgotten}

    def _message(self, record: Record) -> Output:
        return Output(record.end_lsn, 0, MESSAGE, -1, record.main_data[26:])


@dataclass
class _Replay:
    """Changes of one transaction on their way out (ReorderBufferProcessTXN)."""

    buffer: PlainReorder
    commands: list[int]
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    parked: tuple[Record, bytes] | None = None

    def step(self, record: Record) -> Iterator[Output]:
        op = record.info & 0x70
        if record.rmid == 21:
            yield self.buffer._message(record)
            return
        relation = self._relation(record)
        if relation is None or (record.rmid == 10 and op == 0x00 and not record.main_data[2] & 8):
            return
        if record.rmid == 9:
            yield from self._multi_insert(record, relation)
        elif op == 0x00 and record.main_data[2] & 4:
            self.parked = (record, record.blocks[0].data)
        elif op == 0x00 and relation.is_toast:
            self.pending.append((relation.oid, record.blocks[0].data))
        elif relation.is_toast:
            return
        elif op == 0x10 and record.main_data[7] & 8:
            self.pending = [] if self.parked else self.pending
            self.parked = None
        else:
            yield from self._row(record, op, relation)

    def _relation(self, record: Record) -> PlainRelation | None:
        committed = sum(lsn < record.lsn for lsn in self.buffer.catalog_commits)
        own = sum(lsn < record.lsn for lsn in self.commands)
        relation = self.buffer.resolve(record.blocks[0].rel, committed, own)
        if relation is None or relation.is_toast or not self.buffer.sends_schema or not _is_row_change(record):
            return relation
        return replace(relation, wants=self.buffer.entries.setdefault(relation.oid, relation.wants))

    def _row(self, record: Record, op: int, relation: PlainRelation) -> Iterator[Output]:
        main = record.main_data
        new: bytes | None = record.blocks[0].data
        old, is_key, lsn, xid = None, False, record.lsn, record.xid
        if op == 0x50:
            assert self.parked is not None
            (insert, new), self.parked = self.parked, None
            kind, wanted, lsn, xid = INSERT, WANT_INSERT, insert.lsn, insert.xid
        elif op == 0x10:
            new, old = None, main[8:] if main[7] & 6 else None
            kind, wanted, is_key = DELETE, WANT_DELETE if main[7] & 6 else WANT_BARE_DELETE, bool(main[7] & 4)
        elif op == 0x00:
            kind, wanted = INSERT, WANT_INSERT
        else:
            kind, wanted, is_key = UPDATE, WANT_UPDATE, bool(main[7] & 8)
            old = main[14:] if main[7] & 0x0C else None
        if relation.wants & wanted:
            yield self._output(lsn, xid, kind, relation, new, old, is_key)
        self.pending = []

    def _multi_insert(self, record: Record, relation: PlainRelation) -> Iterator[Output]:
        data, p = record.blocks[0].data, 0
        for _ in range(struct.unpack_from("<H", record.main_data, 2)[0]):
            p += p % 2
            size = struct.unpack_from("<H", data, p)[0]
            if relation.wants & WANT_INSERT:
                yield self._output(record.lsn, record.xid, INSERT, relation, data[p + 2 : p + 7 + size], None, False)
            p += 7 + size
        if record.main_data[0] & 2:
            self.pending = []

    def _output(
        self, lsn: int, xid: int, kind: int, relation: PlainRelation, new: bytes | None, old: bytes | None, is_key: bool
    ) -> Output:
        chunks = tuple(chunk for oid, chunk in self.pending if oid == relation.toast_oid)
        announced = self.buffer.sends_schema and relation.oid not in self.buffer.sent
        self.buffer.sent.add(relation.oid)
        return Output(lsn, xid, kind, relation.number, new, old, chunks, is_key, announced)


def _is_row_change(record: Record) -> bool:
    """Tell whether the plugin is called for a record."""
    op, main = record.info & 0x70, record.main_data
    if record.rmid == 10 and op == 0x00:
        return main[2] & 0x0C == 0x08
    return record.rmid == 9 or op != 0x10 or not main[7] & 8


def _subs(record: Record) -> list[int]:
    main = record.main_data
    if not record.info & 0x80 or not main[8] & 2:
        return []
    at = 20 if main[8] & 1 else 12
    count = struct.unpack_from("<i", main, at)[0]
    return list(struct.unpack_from(f"<{count}I", main, at + 4))


def invalidation(relation: int) -> bytes:
    """Make an invalidation message, as far as the twin reads it."""
    return struct.pack("<iIII", -2, 5, relation, 0)


def _relations(messages: bytes) -> tuple[int, ...]:
    return tuple(struct.unpack_from("<I", messages, at + 8)[0] for at in range(0, len(messages), 16))
