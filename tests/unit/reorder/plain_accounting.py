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
    """What is queued."""

    lsn: int
    size: int
    origin: int = 0
    is_sent: bool = True
    is_partial: bool | None = None
    """Whether it begins something that another one completes (True), or completes it (False)."""
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
        """All records."""
        for i in range(len(made.positions)):
            self._record(parse_record(made.record(i), int(made.lsns[i]), int(made.end_lsns[i]), MAJOR))

    def _txn(self, xid: int) -> Txn:
        if xid not in self.by_xid:
            self.by_xid[xid] = Txn(xid)
            self.tops.append(self.by_xid[xid])
        return self.by_xid[xid]

    def _record(self, one: Record) -> None:
        self.now = (one.lsn, EVERY)
        op = one.info & 0x70
        if one.rmid == 1 and op in (0x00, 0x20):
            (self._commit if op == 0 else self._abort)(one)
            return
        if one.xid:
            txn = self._txn(one.toplevel_xid or one.xid)
            if one.toplevel_xid and one.xid not in self.by_xid:
                self.by_xid[one.xid] = Txn(one.xid, txn)
                txn.subs.append(self.by_xid[one.xid])
            self._event(self.by_xid[one.xid], one, op)

    def _event(self, txn: Txn, one: Record, op: int) -> None:
        main = one.main_data
        if one.rmid in (9, 10) and (one.rmid, op) not in ((9, 0x70), (10, 0x60)):
            txn.toplevel.base = txn.toplevel.base or one.lsn
            for change in _changes(one, op):
                self.now = (one.lsn, change.taken)
                self._queue(txn, change)
        elif one.rmid == 9:
            assert parse_new_cid(main, one.lsn)
            txn.changed_catalog = txn.toplevel.changed_catalog = True
            self._queue(txn, Change(one.lsn, 80, is_sent=False))
        elif one.rmid == 1 and op == 0x60:
            txn.changed_catalog = txn.toplevel.changed_catalog = True
            count = struct.unpack_from("<i", main)[0]
            txn.toplevel.invals += count
            self._queue(txn, Change(one.lsn, 80 + 16 * count, is_sent=False))
        elif one.rmid == 21:
            said = parse_message(main, one.lsn)
            if said.transactional:
                txn.toplevel.base = txn.toplevel.base or one.lsn
                self._queue(txn, Change(one.end_lsn, 80 + len(said.prefix) + 1 + len(said.content) + 16))

    def _queue(self, txn: Txn, change: Change) -> None:
        top = txn.toplevel
        txn.memory.append(change)
        top.has_sent |= change.is_sent
        if change.is_partial is not None:
            top.is_partial = change.is_partial
        if txn.is_serialized and top.has_sent and top.base and not top.is_partial:
            self._stream(top, is_last=False)
        while (size := sum(one.total for one in self.tops)) >= self.limit or (self.immediate and size):
            found = [one for one in self.tops if one.base and one.total and one.has_sent and not one.is_partial]
            if found:
                found.sort(key=lambda one: one.base)
                self._stream(max(found, key=lambda one: one.total), is_last=False)
            else:
                self._spill(max((one for top in self.tops for one in _spill_order(top)), key=lambda one: one.size))

    def _spill(self, txn: Txn) -> None:
        for one in txn.family:
            one.spilled += one.memory
            one.memory = []
            one.is_serialized = True

    def _stream(self, top: Txn, is_last: bool) -> None:
        queued = sorted(
            (change.lsn, number, change.origin)
            for number, one in enumerate(top.family)
            for change in one.spilled + one.memory
        )
        first, last, origin = (queued[0][0], queued[-1][0], queued[0][2]) if queued else (0, 0, 0)
        place = self.now[0]
        self.blocks.append((top.xid, place, top.hi, self.now, not top.is_streamed, is_last, first, last, origin))
        for one in top.subs:
            if one.spilled or one.memory:
                self.marked.setdefault(one.xid, place)
        for one in top.family:
            one.memory, one.spilled, one.is_serialized = [], [], False
        top.is_streamed, top.hi = True, self.now

    def _forget(self, txn: Txn) -> None:
        for one in txn.family:
            del self.by_xid[one.xid]
        if txn.top is None:
            self.tops.remove(txn)
        else:
            txn.top.subs.remove(txn)

    def _abort(self, one: Record) -> None:
        for xid in (*parse_end(one, MAJOR).subxacts, one.xid):
            if xid in self.by_xid:
                self._forget(self.by_xid[xid])

    def _commit(self, one: Record) -> None:
        if one.xid not in self.by_xid:
            return
        txn, ended = self.by_xid[one.xid], parse_end(one, MAJOR)
        if txn.changed_catalog:
            subs = [self.by_xid[xid] for xid in ended.subxacts if xid in self.by_xid]
            self.committed += 1 + sum(sub.changed_catalog for sub in subs)
            txn.base = txn.base or one.lsn
            for other in [top for top in self.tops if top.base]:
                self._queue(other, Change(one.lsn, 80 + 120 + 4 * self.committed, is_sent=False))
                if other is not txn and txn.invals:
                    self._queue(other, Change(one.lsn, 80 + 16 * txn.invals, is_sent=False))
        if txn.is_streamed:
            self._stream(txn, is_last=True)
        self._forget(txn)


def _spill_order(top: Txn) -> list[Txn]:
    """Of equal ones the first is spilled here: subtransactions that showed last come first."""
    return [top, *reversed(top.subs)]


def _changes(one: Record, op: int) -> Iterator[Change]:
    kind, _ = plain._kind(one.rmid, op, one.main_data)
    if not kind or not one.blocks:
        return
    sizes, main = list(plain._change_sizes(one)), one.main_data
    if one.rmid == 9:
        for number, size in enumerate(sizes, 1):
            is_end = number == len(sizes)
            completes = False if is_end and main[0] & 2 else None
            yield Change(one.lsn, size, one.origin, is_partial=completes, taken=EVERY if is_end else number)
    elif op == 0x00:
        yield Change(one.lsn, sizes[0], one.origin, is_partial=bool(main[2] & 0x14))
    elif op == 0x10:
        is_super = bool(main[7] & 8)
        yield Change(one.lsn, sizes[0], one.origin, not is_super, False if is_super else None)
    else:
        yield Change(one.lsn, sizes[0], one.origin, op != 0x50, False)
