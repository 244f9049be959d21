"""A seeded random workload over concurrent sessions, for the server's decoding and ours to agree on.

One thread drives all sessions, statement by statement, so that the same seed gives the same interleaving; a session
that meets another's lock gives up at once (``lock_timeout``) and rolls back, which is how aborts and savepoint
rollbacks come about besides those that are asked for. Shared tables live in ``public``, where a session touches only
rows whose key leaves its own remainder; each session's own tables live in its schema ``s0``, ``s1``, ... and take most
of the DDL. Some transactions are left open, and some prepared, when the workload ends.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from oracle import changes, definitions
from oracle.session import Session

SESSIONS = 5

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'it''s "complicated"');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN short AS character varying(20);
CREATE DOMAIN shorter AS short;
CREATE DOMAIN moods AS mood[];
CREATE TABLE account (id integer PRIMARY KEY, name text NOT NULL, balance numeric(12,3), feeling mood, score positive,
    tags text[], added timestamp with time zone);
CREATE INDEX ON account (balance);
CREATE TABLE document (id bigint PRIMARY KEY, title character varying(20), body text, extra text, data jsonb,
    raw bytea);
ALTER TABLE document ALTER extra SET STORAGE EXTERNAL;
CREATE TABLE audit (id integer, body text, note text, at timestamp without time zone);
ALTER TABLE audit REPLICA IDENTITY FULL;
CREATE TABLE tag (id integer NOT NULL, label name, UNIQUE (id));
ALTER TABLE tag REPLICA IDENTITY USING INDEX tag_id_key;
CREATE TABLE parent (id integer PRIMARY KEY, label text);
CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent ON DELETE CASCADE, label text);
CREATE TABLE event (id integer, region integer, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE event_0 PARTITION OF event FOR VALUES IN (0);
CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE event_1_0 PARTITION OF event_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE event_1_1 (note text, id integer NOT NULL, dropped integer, region integer NOT NULL);
ALTER TABLE event_1_1 DROP COLUMN dropped;
ALTER TABLE event_1 ATTACH PARTITION event_1_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE event_rest PARTITION OF event DEFAULT;
CREATE UNLOGGED TABLE scratch (id integer PRIMARY KEY, note text);
CREATE PUBLICATION pub_all FOR ALL TABLES {all_options};
CREATE PUBLICATION pub_list FOR TABLE account, document, child, event;
CREATE PUBLICATION pub_some FOR TABLE audit, account, parent WITH (publish = 'insert, delete');
"""


def setup_statements(rng: random.Random) -> list[str]:
    """The schema that exists before the base copy is taken, some of it with rows."""
    everything = rng.random() < 0.5
    # Where updates are not published for all tables, a table without replica identity may be updated.
    options = "" if everything else "WITH (publish = 'insert, truncate')"
    statements = [s.strip() for s in SETUP.format(all_options=options).split(";") if s.strip()]
    for number in range(SESSIONS):
        base, row = f"s{number}.base", "-g, 'a' || g, g"
        statements.append(f"CREATE SCHEMA s{number}")
        statements.append(f"CREATE TABLE {base} (id integer PRIMARY KEY, a text, b integer, c text)")
        statements.append(f"INSERT INTO {base} SELECT {row} FROM generate_series(1, 40) g")
    old = "g, 'old', repeat('old body ' || g, 900)"
    statements.append("INSERT INTO account SELECT g, 'name ' || g, g / 7.0 FROM generate_series(-100, -1) g")
    statements.append(f"INSERT INTO document SELECT {old} FROM generate_series(-9, -1) g")
    return statements


@dataclass
class Workload:
    """A run of the generator.

    Args:
        seed: decides everything.
        connect: opens a session's connection.
        major: PostgreSQL's major version, for statements that came later.
        numbers: of the sessions that this one drives; the others are another's.
        lock_timeout: how long a session waits for another's lock.
    """

    seed: int
    connect: Callable[[], psycopg.Connection[Any]]
    major: int
    numbers: Sequence[int] = range(SESSIONS)
    lock_timeout: str = "15ms"
    rng: random.Random = field(init=False)
    sessions: list[Session] = field(init=False)
    prepared: list[str] = field(default_factory=list)
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
        """Issue that many statements."""
        for _ in range(steps):
            self.step(self.rng.choice(self.sessions))

    def settle(self) -> None:
        """Commit some of the open transactions and leave the others open."""
        for session in self.sessions:
            if session.in_transaction and self.rng.random() < 0.5:
                session.finish("COMMIT")

    def step(self, session: Session) -> None:
        """One statement of one session."""
        rng = self.rng
        if self.prepared and rng.random() < 0.04:
            self._finish_prepared(session)
        elif not session.in_transaction:
            self._outside(session)
        else:
            self._inside(session)

    def errors(self) -> Counter[str]:
        """Failed statements by SQLSTATE."""
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
            definitions.maintain(self, session)

    def _inside(self, session: Session) -> None:
        draw = session.rng.random()
        if draw < 0.09:
            self._commit(session)
        elif draw < 0.11:
            session.finish("ROLLBACK")
        elif draw < 0.12:
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
        """Others may see other tables now."""
        for session in self.sessions:
            session.forget_catalog()
