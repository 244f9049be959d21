"""The plain twin of the accounting: a reorder buffer of objects, fed one record at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.rmgr.heap2 import parse_new_cid
from headwater.rmgr.logicalmsg import parse_message
from headwater.rmgr.xact import parse_end
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import Record, parse_record
from unit.rmgr import plain_records as plain

EVERY = (1 << 63) - 1
MAJOR = 16


@dataclass(frozen=True)
class Change:
    """A queued change."""

    lsn: int
    size: int
    origin: int = 0
    is_sent: bool = True
    is_partial: bool | None = None
    """Whether it begins something that another change completes (True), or completes it (False)."""
    taken: int = EVERY


@dataclass
class Txn:
    """A (sub)transaction."""

    xid: int
    top: Txn | None = None
    subs: list[Txn] = field(default_factory=list)
    memory: list[Change] = field(default_factory=list)
    spilled: list[Change] = field(default_factory=list)
    is_serialized: bool = False
    is_partial: bool = False
    has_sent: bool = False
    is_streamed: bool = False
    changed_catalog: bool = False
    base: int = 0
    invals: int = 0
    hi: tuple[int, int] = (0, 0)

    @property
    def toplevel(self) -> Txn:
        return self.top or self

    @property
    def size(self) -> int:
        return sum(change.size for change in self.memory)

    @property
    def family(self) -> list[Txn]:
        return [self, *self.subs]

    @property
    def total(self) -> int:
        return sum(txn.size for txn in self.family)


class PlainBuffer:
    """PostgreSQL's.

    Attributes:
        blocks: (xid, place, lo, hi, is_first, is_last, first, last, origin) of each.
        marked: place of the first block of each subtransaction that was streamed.
    """

    def __init__(self, limit: int, immediate: bool) -> None:
        self.limit, self.immediate = limit, immediate
        self.by_xid: dict[int, Txn] = {}
        self.tops: list[Txn] = []
        self.committed = 0
        self.blocks: list[tuple[object, ...]] = []
        self.marked: dict[int, int] = {}
        self.now = (0, EVERY)

    def read(self, made: Frames) -> None:
        """Read all records."""
        for i in range(len(made.positions)):
            self._record(parse_record(made.record(i), int(made.lsns[i]), int(made.end_lsns[i]), MAJOR))

    def _txn(self, xid: int) -> Txn:
        if xid not in self.by_xid:
            self.by_xid[xid] = Txn(xid)
            self.tops.append(self.by_xid[xid])
        return self.by_xid[xid]

    def _record(self, record: Record) -> None:
        self.now = (record.lsn, EVERY)
        op = record.info & 0x70
        if record.rmid == 1 and op in (0x00, 0x20):
            (self._commit if op == 0 else self._abort)(record)
            return
        if record.xid:
            txn = self._txn(record.toplevel_xid or record.xid)
            if record.toplevel_xid and record.xid not in self.by_xid:
                self.by_xid[record.xid] = Txn(record.xid, txn)
                txn.subs.append(self.by_xid[record.xid])
            self._event(self.by_xid[record.xid], record, op)

    def _event(self, txn: Txn, record: Record, op: int) -> None:
        main = record.main_data
        if record.rmid in (9, 10) and (record.rmid, op) not in ((9, 0x70), (10, 0x60)):
            txn.toplevel.base = txn.toplevel.base or record.lsn
            for change in _changes(record, op):
                self.now = (record.lsn, change.taken)
                self._queue(txn, change)
        elif record.rmid == 9:
            assert parse_new_cid(main, record.lsn)
            txn.changed_catalog = txn.toplevel.changed_catalog = True
            self._queue(txn, Change(record.lsn, 80, is_sent=False))
        elif record.rmid == 1 and op == 0x60:
            txn.changed_catalog = txn.toplevel.changed_catalog = True
            count = struct.unpack_from("<i", main)[0]
            txn.toplevel.invals += count
            self._queue(txn, Change(record.lsn, 80 + 16 * count, is_sent=False))
        elif record.rmid == 21:
            message = parse_message(main, record.lsn)
            if message.transactional:
                txn.toplevel.base = txn.toplevel.base or record.lsn
                self._queue(txn, Change(record.end_lsn, 80 + len(message.prefix) + 1 + len(message.content) + 16))

    def _queue(self, txn: Txn, change: Change) -> None:
        top = txn.toplevel
        txn.memory.append(change)
        top.has_sent |= change.is_sent
        if change.is_partial is not None:
            top.is_partial = change.is_partial
        if txn.is_serialized and top.has_sent and top.base and not top.is_partial:
            self._stream(top, is_last=False)
        while (size := sum(toplevel.total for toplevel in self.tops)) >= self.limit or (self.immediate and size):
            candidates = [
                toplevel
                for toplevel in self.tops
                if toplevel.base and toplevel.total and toplevel.has_sent and not toplevel.is_partial
            ]
            if candidates:
                candidates.sort(key=lambda toplevel: toplevel.base)
                self._stream(max(candidates, key=lambda toplevel: toplevel.total), is_last=False)
            else:
                self._spill(
                    max((member for top in self.tops for member in _spill_order(top)), key=lambda member: member.size)
                )

    def _spill(self, txn: Txn) -> None:
        for member in txn.family:
            member.spilled += member.memory
            member.memory = []
            member.is_serialized = True

    def _stream(self, top: Txn, is_last: bool) -> None:
        queues = [sorted(member.spilled + member.memory, key=lambda change: change.lsn) for member in top.family]
        queues = heap_of([queue for queue in queues if queue])
        first, last, origin = 0, 0, 0
        if queues:
            first, origin = queues[0][0].lsn, queues[0][0].origin
            last = max(queue[-1].lsn for queue in queues)
        place = self.now[0]
        self.blocks.append((top.xid, place, top.hi, self.now, not top.is_streamed, is_last, first, last, origin))
        for member in top.subs:
            if member.spilled or member.memory:
                self.marked.setdefault(member.xid, place)
        for member in top.family:
            member.memory, member.spilled, member.is_serialized = [], [], False
        top.is_streamed, top.hi = True, self.now

    def _forget(self, txn: Txn) -> None:
        for member in txn.family:
            del self.by_xid[member.xid]
        if txn.top is None:
            self.tops.remove(txn)
        else:
            txn.top.subs.remove(txn)

    def _abort(self, record: Record) -> None:
        for xid in (*parse_end(record, MAJOR).subxacts, record.xid):
            if xid in self.by_xid:
                self._forget(self.by_xid[xid])

    def _commit(self, record: Record) -> None:
        if record.xid not in self.by_xid:
            return
        txn, ended = self.by_xid[record.xid], parse_end(record, MAJOR)
        if txn.changed_catalog:
            subs = [self.by_xid[xid] for xid in ended.subxacts if xid in self.by_xid]
            self.committed += 1 + sum(sub.changed_catalog for sub in subs)
            txn.base = txn.base or record.lsn
            for other in [top for top in self.tops if top.base]:
                self._queue(other, Change(record.lsn, 80 + 120 + 4 * self.committed, is_sent=False))
                if other is not txn and txn.invals:
                    self._queue(other, Change(record.lsn, 80 + 16 * txn.invals, is_sent=False))
        if txn.is_streamed:
            self._stream(txn, is_last=True)
        self._forget(txn)


def heap_of(queues: list[list[Change]]) -> list[list[Change]]:
    """Make a heap of queues, the one that begins first on top, as binaryheap_build does."""
    heap = list(queues)
    for start in range(len(heap) // 2 - 1, -1, -1):
        at = start
        while 2 * at + 1 < len(heap):
            # Of equal ones the left child goes up, and none above its parent.
            best = min(range(2 * at + 1, min(2 * at + 3, len(heap))), key=lambda child: heap[child][0].lsn)
            if heap[at][0].lsn <= heap[best][0].lsn:
                break
            heap[at], heap[best] = heap[best], heap[at]
            at = best
    return heap


def _spill_order(top: Txn) -> list[Txn]:
    """Order a family for spilling: subtransactions that showed last come first.

    Of equal ones the first is spilled here.
    """
    return [top, *reversed(top.subs)]


def _changes(record: Record, op: int) -> Iterator[Change]:
    kind, _ = plain._kind(record.rmid, op, record.main_data)
    if not kind or not record.blocks:
        return
    sizes, main = list(plain._change_sizes(record)), record.main_data
    if record.rmid == 9:
        for number, size in enumerate(sizes, 1):
            is_end = number == len(sizes)
            completes = False if is_end and main[0] & 2 else None
            yield Change(record.lsn, size, record.origin, is_partial=completes, taken=EVERY if is_end else number)
    elif op == 0x00:
        yield Change(record.lsn, sizes[0], record.origin, is_partial=bool(main[2] & 0x14))
    elif op == 0x10:
        is_super = bool(main[7] & 8)
        yield Change(record.lsn, sizes[0], record.origin, not is_super, False if is_super else None)
    else:
        yield Change(record.lsn, sizes[0], record.origin, op != 0x50, False)
