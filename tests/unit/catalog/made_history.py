"""Histories of pg_class that a server can make, as records for several logs alike, and what is seen at each point.

A transaction changes only versions that it sees and that no other one has deleted, unless that one came to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.versions import OwnCommands
from headwater.pg.catalogs import PG_CLASS
from headwater.rmgr.heap import TupleBytes
from unit.catalog.made_catalog import XMAX_INVALID, XMIN_COMMITTED, Log, class_row, page, tuple_image

FIRST_OID, FIRST_XID = 16384, 900
XMAX_COMMITTED = 0x0400
ENDED_IN_VAIN = ("aborted", "lost")
STEPS = (
    *("insert", "update", "update", "delete", "savepoint", "rollback to", "release"),
    *("commit", "commit", "abort", "prune", "inplace", "crash", "running", "cut", "cut"),
)


@dataclass(eq=False)
class Tuple:
    """A tuple on the page, with its inserter, and the transactions that deleted it, or tried to."""

    oid: int
    name: str
    data: TupleBytes
    inserter: int
    deleters: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Transaction:
    """A running transaction: its xids that have not been rolled back, the stack of open ones, its next command."""

    xids: set[int]
    stack: list[int]
    command: int = 0

    @property
    def own(self) -> OwnCommands:
        """The changes of its own that it sees."""
        return OwnCommands(frozenset(self.xids), self.command)


class History:
    """One page of pg_class and the transactions that change it.

    Args:
        logs: each gets all records.
        choose: decides what the steps leave open.

    Attributes:
        logs: the caller may put others in their place.
        next_xid: the next one to be given away.
        running: transactions.
        seen: LSN, and what a session sees there that has changed nothing: names by OID.
    """

    def __init__(self, logs: Sequence[Log], choose: Random) -> None:
        self.logs = list(logs)
        self.next_xid = FIRST_XID
        self.running: list[Transaction] = []
        self.seen: list[tuple[int, dict[int, list[str]]]] = []
        self._choose = choose
        self._state: dict[int, str] = {}
        self._tuples: dict[int, Tuple] = {}
        self._free: list[int] = []
        self._last_offnum = 0
        self._next_oid = FIRST_OID

    @property
    def lsn(self) -> int:
        """Of the last record."""
        return self.logs[0].lsn

    @property
    def oids(self) -> range:
        """Of all rows that there have been."""
        return range(FIRST_OID, self._next_oid)

    def step(self, name: str) -> None:
        """Do one of :data:`STEPS` but a cut, if it can be done."""
        getattr(self, "_" + name.replace(" ", "_"))()
        self.seen.append((self.lsn + 1, self._committed()))

    def _committed(self) -> dict[int, list[str]]:
        names: dict[int, list[str]] = {oid: [] for oid in self.oids}
        for tuple_ in self._tuples.values():
            if self._state[tuple_.inserter] == "committed" and not self._is_deleted(tuple_, "committed"):
                names[tuple_.oid].append(tuple_.name)
        return names

    def _is_deleted(self, tuple_: Tuple, *states: str) -> bool:
        return any(self._state[xid] in states for xid in tuple_.deleters)

    def _stores(self) -> list[CatalogStore]:
        return [log.store for log in self.logs]

    def _give_xid(self) -> int:
        self.next_xid += 1
        self._state[self.next_xid - 1] = "running"
        return self.next_xid - 1

    def _actor(self) -> Transaction:
        if not self.running or (len(self.running) < 3 and self._choose.random() < 0.4):
            xid = self._give_xid()
            self.running.append(Transaction({xid}, [xid]))
            return self.running[-1]
        return self._choose.choice(self.running)

    def _changeable(self, actor: Transaction) -> list[int]:
        return [
            offnum
            for offnum, tuple_ in sorted(self._tuples.items())
            if (self._state[tuple_.inserter] == "committed" or tuple_.inserter in actor.xids)
            and not self._is_deleted(tuple_, "running", "committed")
        ]

    def _place(self) -> int:
        if self._free and self._choose.random() < 0.5:
            return self._free.pop()
        self._last_offnum += 1
        return self._last_offnum

    def _made(self, oid: int, xid: int) -> Tuple:
        name = self._choose.choice("ab")
        return Tuple(oid, name, class_row(oid, name), xid)

    def _image(self) -> bytes | None:
        """Return now and then the page as it is, with hints as far as someone has looked."""
        if self._choose.random() > 0.15:
            return None
        return page({offnum: self._on_page(tuple_) for offnum, tuple_ in self._tuples.items()}, self.lsn)

    def _on_page(self, tuple_: Tuple) -> bytes:
        hints, xmax = 0, tuple_.deleters[-1] if tuple_.deleters else 0
        if self._state[tuple_.inserter] == "committed" and self._choose.random() < 0.5:
            hints |= XMIN_COMMITTED
        if not xmax or (self._state[xmax] in ENDED_IN_VAIN and self._choose.random() < 0.5):
            hints |= XMAX_INVALID
        elif self._state[xmax] == "committed" and self._choose.random() < 0.5:
            hints |= XMAX_COMMITTED
        return tuple_image(tuple_.data, tuple_.inserter, xmax, hints)

    def _insert(self) -> None:
        actor, offnum = self._actor(), self._place()
        is_first = not self._tuples and self._last_offnum == 1
        tuple_ = self._tuples[offnum] = self._made(self._next_oid, actor.stack[-1])
        self._next_oid += 1
        image = None if is_first else self._image()
        for log in self.logs:
            log.new_cid(tuple_.inserter, PG_CLASS, (0, offnum), actor.command)
            log.insert(tuple_.inserter, PG_CLASS, (0, offnum), tuple_.data, init=is_first, image=image)
        actor.command += 1

    def _update(self) -> None:
        actor = self._actor()
        offnums = self._changeable(actor)
        if not offnums:
            return
        old, new, xid = self._choose.choice(offnums), self._place(), actor.stack[-1]
        tuple_ = self._made(self._tuples[old].oid, xid)
        cmin = actor.command - 1 if self._tuples[old].inserter in actor.xids else 0xFFFFFFFF
        self._tuples[old].deleters.append(xid)
        self._tuples[new] = tuple_
        for log in self.logs:
            log.new_cid(xid, PG_CLASS, (0, old), cmin, actor.command)
            log.new_cid(xid, PG_CLASS, (0, new), actor.command)
            log.update(xid, PG_CLASS, (0, old), (0, new), tuple_.data)
        actor.command += 1

    def _delete(self) -> None:
        actor = self._actor()
        offnums = self._changeable(actor)
        if not offnums:
            return
        offnum, xid = self._choose.choice(offnums), actor.stack[-1]
        self._tuples[offnum].deleters.append(xid)
        image = self._image()
        for log in self.logs:
            log.new_cid(xid, PG_CLASS, (0, offnum), 0xFFFFFFFF, actor.command)
            log.delete(xid, PG_CLASS, (0, offnum), image=image)
        actor.command += 1

    def _inplace(self) -> None:
        offnums = [offnum for transaction in self.running for offnum in self._changeable(transaction)]
        if not offnums:
            return
        offnum = self._choose.choice(offnums)
        tuple_ = self._tuples[offnum]
        tuple_.data = class_row(tuple_.oid, tuple_.name, relpages=self._choose.randrange(9))
        for log in self.logs:
            log.inplace(PG_CLASS, (0, offnum), tuple_.data)

    def _savepoint(self) -> None:
        if self.running:
            actor, xid = self._choose.choice(self.running), self._give_xid()
            actor.xids.add(xid)
            actor.stack.append(xid)

    def _release(self) -> None:
        actor = self._choose.choice(self.running) if self.running else None
        if actor is not None and len(actor.stack) > 1:
            actor.stack.pop()

    def _rollback_to(self) -> None:
        actor = self._choose.choice(self.running) if self.running else None
        if actor is None or len(actor.stack) < 2:
            return
        gone = {xid for xid in actor.xids if xid >= actor.stack[-1]}
        actor.stack.pop()
        actor.xids -= gone
        self._end(gone, "aborted")

    def _commit(self) -> None:
        if self.running:
            actor = self.running.pop(self._choose.randrange(len(self.running)))
            self._end(actor.xids, "committed")

    def _abort(self) -> None:
        if self.running:
            actor = self.running.pop(self._choose.randrange(len(self.running)))
            self._end(actor.xids, "aborted")

    def _end(self, xids: set[int], state: str) -> None:
        self._state.update(dict.fromkeys(xids, state))
        for log in self.logs:
            if state == "committed":
                log.commit(*sorted(xids))
            else:
                log.store.abort(sorted(xids))

    def _crash(self) -> None:
        for actor in self.running:
            self._state.update(dict.fromkeys(actor.xids, "lost"))
        self.running.clear()

    def _running(self) -> None:
        for store in self._stores():
            store.settle_before(self._oldest_running())

    def _oldest_running(self) -> int:
        return min((xid for actor in self.running for xid in actor.xids), default=self.next_xid)

    def _is_dead(self, tuple_: Tuple) -> bool:
        if self._state[tuple_.inserter] in ENDED_IN_VAIN:
            return True
        oldest = self._oldest_running()
        return any(self._state[xid] == "committed" and xid < oldest for xid in tuple_.deleters)

    def _prune(self) -> None:
        dead = [offnum for offnum, tuple_ in sorted(self._tuples.items()) if self._is_dead(tuple_)]
        if not dead:
            return
        gone = self._choose.sample(dead, self._choose.randint(1, len(dead)))
        roots = {offnum: offnum for offnum in gone if self._choose.random() < 0.3}
        unused = [offnum for offnum in gone if offnum not in roots]
        for log in self.logs:
            log.prune(PG_CLASS, 0, roots, unused)
        for offnum in gone:
            del self._tuples[offnum]
        self._free += unused
