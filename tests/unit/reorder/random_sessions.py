"""Random sessions as a server would log them: transactions, savepoints, TOAST, COPY, ON CONFLICT, catalog changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from unit.reorder.plain_reorder import invalidation
from unit.rmgr import plain_records as plain

TABLES = {20000: 20001, 20002: 20003, 20004: 0, 20005: 0}
"""Files of tables, and of their TOAST tables; the last is of no relation that is decoded."""

UNKNOWN = 20005


class Session:
    """One backend: makes the records of one transaction after the other."""

    def __init__(self, rng: Random, xids: Iterator[int]) -> None:
        self.rng = rng
        self.xids = xids
        self.origin = rng.choice((0, 0, 1, 2))

    def records(self, transactions: int) -> Iterator[bytes]:
        """Give the records of some transactions."""
        for _ in range(transactions):
            yield from self._transaction()

    def _transaction(self) -> Iterator[bytes]:
        self.top = next(self.xids)
        self.stack: list[tuple[int, list[int]]] = [(self.top, [])]
        self.named: set[int] = set()
        self.messages: list[tuple[int, bytes]] = []
        for _ in range(self.rng.randrange(1, 9)):
            yield from self._statement()
        while len(self.stack) > 1:
            yield from self._end_savepoint()
        subs = self.stack[0][1]
        if self.rng.random() < 0.15:
            yield plain.abort(self.top, subs)
        else:
            committed = b"".join(message for xid, message in self.messages if xid in (self.top, *subs))
            yield plain.commit(self.top, subs, invals=committed)

    def _statement(self) -> Iterator[bytes]:
        kinds = {
            self._insert: 6,
            self._update: 4,
            self._delete: 3,
            self._copy: 3,
            self._upsert: 4,
            self._savepoint: 3,
            self._end_savepoint: 3,
            self._message: 1,
            self._lock: 1,
            self._change_catalog: 1,
            self._invalidate_at_once: 1,
        }
        yield from self.rng.choices(list(kinds), list(kinds.values()))[0]()

    def _head(self) -> tuple[int, plain.Head]:
        """Return the current xid, and what the header of its next record says."""
        xid = self.stack[-1][0]
        more: plain.Head = {"origin": self.origin}
        if xid != self.top and xid not in self.named:
            self.named.add(xid)
            more["toplevel"] = self.top
        return xid, more

    def _body(self) -> bytes:
        return self.rng.randbytes(self.rng.choice((1, 9, 60)))

    def _file(self) -> int:
        return self.rng.choice(list(TABLES))

    def _chunks(self, file: int) -> Iterator[bytes]:
        if TABLES[file]:
            for _ in range(self.rng.choice((0, 0, 1, 3))):
                xid, more = self._head()
                yield plain.insert(xid, TABLES[file], body=self._body(), flags=0x18, **more)

    def _insert(self) -> Iterator[bytes]:
        file, is_logged = self._file(), self.rng.random() < 0.8
        if is_logged:
            yield from self._chunks(file)
        xid, more = self._head()
        yield plain.insert(xid, file, body=self._body(), flags=8 if is_logged else 0, **more)

    def _update(self) -> Iterator[bytes]:
        file = self._file()
        yield from self._chunks(file)
        xid, more = self._head()
        yield plain.update(xid, file, body=self._body(), with_key=self.rng.random() < 0.5, **more)

    def _delete(self) -> Iterator[bytes]:
        xid, more = self._head()
        yield plain.delete(xid, self._file(), with_key=self.rng.random() < 0.5, **more)

    def _copy(self) -> Iterator[bytes]:
        file, records = self._file(), self.rng.randrange(1, 4)
        yield from self._chunks(file)
        for i in range(records):
            xid, more = self._head()
            yield plain.multi_insert(xid, file, self.rng.randrange(1, 6), last=i == records - 1, **more)

    def _upsert(self) -> Iterator[bytes]:
        file = self._file()
        yield from self._chunks(file)
        xid, more = self._head()
        yield plain.insert(xid, file, body=self._body(), flags=12, **more)
        xid, more = self._head()
        if self.rng.random() < 0.6:
            yield plain.confirm(xid, file, **more)
            return
        yield plain.delete(xid, file, with_key=False, super_delete=True, **more)
        if TABLES[file]:
            yield plain.delete(xid, TABLES[file], with_key=False, super_delete=True, **more)

    def _savepoint(self) -> Iterator[bytes]:
        self.stack.append((next(self.xids), []))
        yield from ()

    def _end_savepoint(self) -> Iterator[bytes]:
        if len(self.stack) > 1:
            xid, subs = self.stack.pop()
            if xid not in self.named:
                return
            if self.rng.random() < 0.5:
                yield plain.abort(xid, subs)
            else:
                self.stack[-1][1].extend([xid, *subs])

    def _message(self) -> Iterator[bytes]:
        xid, more = self._head()
        yield plain.message(xid, self._body(), transactional=self.rng.random() < 0.6, **more)

    def _lock(self) -> Iterator[bytes]:
        xid, more = self._head()
        yield plain.record(10, 0x60, xid, bytes(8), file=self._file(), **more)

    def _change_catalog(self) -> Iterator[bytes]:
        for _ in range(self.rng.randrange(1, 3)):
            xid, more = self._head()
            yield plain.new_cid(xid, 0, top=self.top, **more)
        message = invalidation(self.rng.choice((0, *TABLES)))
        xid, more = self._head()
        self.messages.append((xid, message))
        yield plain.invalidations(xid, message, **more)

    def _invalidate_at_once(self) -> Iterator[bytes]:
        yield plain.invalidations(0, invalidation(self.rng.choice((0, *TABLES))))


def random_records(rng: Random, sessions: int, transactions: int) -> list[bytes]:
    """Make records of sessions side by side."""
    xids = itertools.count(rng.choice((700, 0xFFFFFFFF - 5)))
    wrapped = (x if x <= 0xFFFFFFFF else x - 0xFFFFFFFF + 2 for x in xids)
    running = [Session(rng, wrapped).records(transactions) for _ in range(sessions)]
    records = []
    while running:
        at = rng.randrange(len(running))
        for _ in range(rng.choice((1, 1, 2, 8))):
            made = next(running[at], None)
            if made is None:
                del running[at]
                break
            records.append(made)
    return records
