"""One client session of a random workload: a connection, where its transaction stands, and the tables that it sees.

A statement may fail (a lock another session holds, a name that a rollback took away): the session then rolls back to a
savepoint or gives its transaction up, as an application would. Names are looked up in the session's own view of the
catalog, so that no model of uncommitted DDL is kept.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from oracle import values
from oracle.initial_schema import ASIDE
from oracle.older_servers import as_server_takes

CATALOG_QUERY = """
SELECT n.nspname || '.' || quote_ident(c.relname), c.relkind::text, c.relpersistence::text, c.relreplident::text,
       c.relispartition,
       (SELECT array_agg(a.attname::text ORDER BY k.place) FROM pg_index i
          CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
         WHERE i.indrelid = c.oid AND i.indisprimary),
       a.attname::text, format_type(a.atttypid, a.atttypmod), a.attgenerated::text <> '', a.attidentity::text <> ''
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE (n.nspname = ANY (%s) OR starts_with(n.nspname, %s)) AND c.relkind IN ('r', 'p')
 ORDER BY 1, a.attnum
"""
ENUM_QUERY = """
SELECT format_type(t.oid, NULL), array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
  FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid GROUP BY 1
"""
DOMAIN_QUERY = """
SELECT format_type(t.oid, NULL), format_type(t.typbasetype, t.typtypmod)
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE t.typtype = 'd' AND n.nspname NOT IN ('information_schema', 'pg_catalog')
"""


@dataclass(frozen=True)
class TableColumn:
    """A column that is not dropped."""

    name: str
    type: str
    is_generated: bool
    is_identity: bool


@dataclass(frozen=True)
class Table:
    """A table as a session sees it; ``name`` is qualified and quoted."""

    name: str
    kind: str
    persistence: str
    replica_identity: str
    is_partition: bool
    key: tuple[str, ...]
    columns: tuple[TableColumn, ...]

    @property
    def is_shared(self) -> bool:
        """Whether every session writes to it, each to its own keys."""
        return self.name.startswith("public.")

    @property
    def has_identity(self) -> bool:
        """Whether updates and deletes may be published."""
        return self.replica_identity in "fi" or (self.replica_identity == "d" and bool(self.key))

    def settable(self) -> list[TableColumn]:
        """List the columns that an INSERT may name, the key apart."""
        return [c for c in self.columns if not c.is_generated and not c.is_identity and c.name not in (*self.key, "id")]


@dataclass
class Session:
    """A connection and its transaction.

    Args:
        number: its place among the sessions; it writes to keys that leave this remainder.
        connect: opens its connection, and opens it again after a disconnect.
        rng: source of all its choices.

    Attributes:
        log: of each statement when it began and ended (``time.monotonic_ns``), its text, and its SQLSTATE if it failed.
    """

    number: int
    connect: Callable[[], psycopg.Connection[Any]]
    rng: random.Random
    connection: psycopg.Connection[Any] = field(init=False)
    in_transaction: bool = False
    savepoints: list[str] = field(default_factory=list)
    changed_public: bool = False
    has_prepared: bool = False
    serial: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    last_error: dict[str, str] = field(default_factory=dict)
    enums: dict[str, list[str]] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    recent_keys: dict[str, list[int]] = field(default_factory=dict)
    log: list[tuple[int, int, str, str]] = field(default_factory=list)
    _tables: dict[str, Table] | None = None

    def __post_init__(self) -> None:
        self.connection = self.connect()

    @property
    def schema(self) -> str:
        """The schema whose tables this session alone uses."""
        return f"s{self.number}"

    @property
    def major(self) -> int:
        """The server's major version."""
        return self.connection.info.server_version // 10000

    @property
    def aside(self) -> str:
        """The beginning of the name of the other schema that this session alone uses, and renames."""
        return f"{ASIDE}{self.number}_"

    def next_number(self) -> int:
        """Return a number no other session and no earlier call gives: for keys and names."""
        self.serial += 1
        return self.serial * 10 + self.number

    def run(self, statement: str, kind: str = "") -> bool:
        """Run a statement; on an error put the transaction right and say False."""
        self.statements[kind or statement.split(None, 1)[0].lower()] += 1
        statement = as_server_takes(statement, self.major)
        return self.guard(lambda: self.connection.execute(statement.encode()), statement)

    def copy_in(self, statement: str, lines: Iterable[str]) -> bool:
        """Run a COPY FROM STDIN with lines of its text format."""

        def feed() -> None:
            with self.connection.cursor().copy(statement.encode()) as copy:
                for line in lines:
                    copy.write(line + "\n")

        self.statements["copy"] += 1
        return self.guard(feed, statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of a query, empty if it failed."""
        result: list[tuple[Any, ...]] = []
        self.guard(lambda: result.extend(self.connection.execute(query.encode()).fetchall()), query)
        return result

    def begin(self) -> None:
        """Open a transaction block."""
        level = self.rng.choice(("", "", "", " ISOLATION LEVEL REPEATABLE READ"))
        self.in_transaction = self.run("BEGIN" + level, "begin")

    def finish(self, statement: str) -> bool:
        """End the transaction block with COMMIT, ROLLBACK or PREPARE TRANSACTION."""
        done = self.run(statement, statement.split(None, 1)[0].lower())
        if self.in_transaction and self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self._reset()
        return done

    def savepoint(self) -> None:
        """Open a subtransaction; names repeat, as they may."""
        name = self.rng.choice(("a", "b", f"p{len(self.savepoints)}"))
        if self.run(f"SAVEPOINT {name}"):
            self.savepoints.append(name)

    def rollback_to(self) -> None:
        """Roll back to some open savepoint."""
        name = self.rng.choice(self.savepoints)
        if self.run(f"ROLLBACK TO SAVEPOINT {name}", "rollback to"):
            while self.savepoints and self.savepoints[-1] != name:
                self.savepoints.pop()
            self.forget_catalog()

    def release(self) -> None:
        """Release some open savepoint and those inside it."""
        name = self.rng.choice(self.savepoints)
        if self.run(f"RELEASE SAVEPOINT {name}"):
            while self.savepoints.pop() != name:
                pass

    def disconnect(self) -> None:
        """Drop the connection in the middle of whatever it does, and come back once its backend is gone."""
        gone = self.connection.info.backend_pid
        self.connection.close()
        self.connection = self.connect()
        self._reset()
        while self.connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [gone]).fetchone():
            self.connection.execute("SELECT pg_sleep(0.005)")

    def tables(self) -> list[Table]:
        """List all tables this session may write to, as it sees them now."""
        if self._tables is None:
            self._tables = self._look_up()
        return list(self._tables.values())

    def forget_catalog(self) -> None:
        """Look names up again before the next use."""
        self._tables = None

    def literal(self, type_name: str) -> str:
        """Make a random literal of a type."""
        return values.literal(self.rng, type_name, self.domains, self.enums)

    def _look_up(self) -> dict[str, Table]:
        run = self.connection.execute
        self.enums = dict(run(ENUM_QUERY).fetchall())
        self.domains = dict(run(DOMAIN_QUERY).fetchall())
        parts: dict[str, tuple[tuple[Any, ...], list[TableColumn]]] = {}
        for row in run(CATALOG_QUERY, [["public", self.schema], self.aside]).fetchall():
            parts.setdefault(row[0], (row[:6], []))[1].append(TableColumn(*row[6:]))
        return {name: _table(head, columns) for name, (head, columns) in parts.items()}

    def guard(self, action: Callable[[], object], statement: str) -> bool:
        """Run an action in the name of a statement; on an error put the transaction right and return False."""
        began, state = time.monotonic_ns(), ""
        try:
            action()
        except psycopg.Error as error:
            state = error.sqlstate or "?"
            self.errors[state] += 1
            self.last_error[state] = f"{statement[:200]}: {error}"
            self._recover()
        self.log.append((began, time.monotonic_ns(), statement, state))
        return not state

    def _recover(self) -> None:
        self.forget_catalog()
        if not self.in_transaction:
            return
        if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self._reset()
        elif self.savepoints and self.rng.random() < 0.7:
            self.connection.execute(f"ROLLBACK TO SAVEPOINT {self.savepoints[-1]}")
        else:
            self.connection.execute("ROLLBACK")
            self._reset()

    def _reset(self) -> None:
        self.in_transaction = False
        self.savepoints.clear()
        self.changed_public = False
        self.forget_catalog()


def _table(head: tuple[Any, ...], columns: list[TableColumn]) -> Table:
    name, kind, persistence, replica_identity, is_partition, key = head
    return Table(name, kind, persistence, replica_identity, is_partition, tuple(key or ()), tuple(columns))
