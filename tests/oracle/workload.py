"""A seeded random workload over concurrent sessions, for the server's decoding and ours to agree on.

Where one thread drives all sessions, statement by statement, the same seed gives the same interleaving; in
:mod:`oracle.threads` each session has a thread and a ``Workload`` of its own. A session that meets another's lock gives
up soon (``lock_timeout``) and rolls back. So aborts and savepoint rollbacks come about beside those that
are asked for. Shared tables lie in ``public``, where a session touches only rows whose key leaves its own remainder;
each session's own tables lie in schemas of its own and take most of the DDL. Some transactions are left open, and some
prepared, when the workload ends.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from oracle import caretaking, changes, definitions
from oracle.initial_schema import SESSIONS
from oracle.session import Session


@dataclass
class Workload:
    """A run of the generator.

    Args:
        seed: decides everything.
        connect: opens a session's connection.
        numbers: of the sessions that this one drives; the others are another's.
        lock_timeout: how long a session waits for another's lock.
    """

    seed: int
    connect: Callable[[], psycopg.Connection[Any]]
    numbers: Sequence[int] = range(SESSIONS)
    lock_timeout: str = "15ms"
    rng: random.Random = field(init=False)
    sessions: list[Session] = field(init=False)
    prepared: list[str] = field(default_factory=list)
    may_prepare: bool = True
    everything_published: bool = field(default=False)

    def __post_init__(self) -> None:
        mine = "" if len(self.numbers) == SESSIONS else f" {self.numbers}"
        self.rng = random.Random(f"workload {self.seed}{mine}")
        self.sessions = [
            Session(number, self._open, random.Random(f"session {self.seed} {number}")) for number in self.numbers
        ]
        query = "SELECT pubupdate FROM pg_publication WHERE pubname = 'pub_all'"
        self.everything_published = bool(self.sessions[0].rows(query)[0][0])

    def run(self, steps: int) -> None:
        """Run that many statements."""
        for _ in range(steps):
            self.step(self.rng.choice(self.sessions))

    def settle(self) -> None:
        """Commit some of the open transactions and leave the others open."""
        for session in self.sessions:
            if session.in_transaction and self.rng.random() < 0.5:
                session.finish("COMMIT")

    def give_up(self) -> None:
        """Roll back what is open, and what is prepared."""
        for session in self.sessions:
            if session.in_transaction:
                session.finish("ROLLBACK")
        while self.prepared:
            self.sessions[0].run(f"ROLLBACK PREPARED '{self.prepared.pop()}'", "rollback prepared")

    def step(self, session: Session) -> None:
        """Run one statement of one session."""
        rng = self.rng
        if self.prepared and rng.random() < 0.04:
            self._finish_prepared(session)
        elif not session.in_transaction:
            self._outside(session)
        else:
            self._inside(session)

    def errors(self) -> Counter[str]:
        """Count failed statements by SQLSTATE."""
        return sum((session.errors for session in self.sessions), Counter())

    def _open(self) -> psycopg.Connection[Any]:
        connection = self.connect()
        connection.prepare_threshold = None
        connection.execute(f"SET lock_timeout = '{self.lock_timeout}'".encode())
        return connection

    def _outside(self, session: Session) -> None:
        draw = session.rng.random()
        if draw < 0.55:
            session.begin()
        elif draw < 0.86:
            changes.change(self, session)
        elif draw < 0.965:
            definitions.define(self, session)
        else:
            caretaking.maintain(session)

    def _inside(self, session: Session) -> None:
        draw = session.rng.random()
        if draw < 0.09:
            self._commit(session)
        elif draw < 0.11:
            session.finish("ROLLBACK")
        elif draw < 0.12 and self.may_prepare:
            self._prepare(session)
        elif draw < 0.17:
            session.savepoint()
        elif draw < 0.23 and session.savepoints:
            session.rollback_to() if session.rng.random() < 0.6 else session.release()
        elif draw < 0.233:
            session.disconnect()
        elif draw < 0.34:
            definitions.define(self, session)
        else:
            changes.change(self, session)

    def _commit(self, session: Session) -> None:
        changed_public = session.changed_public
        session.finish("COMMIT")
        if changed_public:
            self.forget_catalogs()

    def _prepare(self, session: Session) -> None:
        gid = f"gid {session.next_number()} it''s"
        if session.finish(f"PREPARE TRANSACTION '{gid}'"):
            self.prepared.append(gid)
            session.has_prepared = True

    def _finish_prepared(self, session: Session) -> None:
        if session.in_transaction:
            return
        gid = self.prepared.pop(self.rng.randrange(len(self.prepared)))
        verb = "COMMIT" if self.rng.random() < 0.7 else "ROLLBACK"
        session.run(f"{verb} PREPARED '{gid}'", f"{verb.lower()} prepared")
        self.forget_catalogs()

    def forget_catalogs(self) -> None:
        """Forget the catalogs of all sessions: others may see other tables now."""
        for session in self.sessions:
            session.forget_catalog()
