"""The random workload with real concurrency: every session in a thread of its own, autovacuum on.

The writers do what a :class:`~oracle.workload.Workload` does, each for itself; beside them some sessions only alter
publications, those that a stream asks for and one that none asks for. Nobody waits for anybody but in the server, so a
seed gives the same statements only as long as no session sees what another did: a run that fails has to be read from
the log of its sessions, in ``statements.log`` beside its files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg

from oracle.session import Session
from oracle.workload import SESSIONS, Workload

PUBLISHERS = (5, 6)
SETUP = ("CREATE PUBLICATION unasked FOR TABLE account, document, event, s0.base",)
SETTINGS = (
    ("autovacuum_naptime", "1s"),
    ("autovacuum_vacuum_threshold", "5"),
    ("autovacuum_vacuum_scale_factor", "0"),
    ("autovacuum_analyze_threshold", "5"),
    ("autovacuum_analyze_scale_factor", "0"),
    ("deadlock_timeout", "20ms"),
)
LOCK_TIMEOUT = "200ms"

ACTIONS = (
    "insert",
    "insert, delete",
    "update",
    "delete, truncate",
    "insert, update",
    "insert, update, delete, truncate",
)
COLUMNS = ("id", "id, parent")
LEAVES = ("event", "event_0", "event_1", "event_rest")
MEMBERS = ("account", "document", "tag", "parent", *(f"s{number}.base" for number in range(SESSIONS)))


@dataclass
class ThreadedWorkload:
    """A run.

    Args:
        seed: of the sessions' choices.
        connect: opens a session's connection.
        major: PostgreSQL's major version.
        steps: how many statements each writer issues.
    """

    seed: int
    connect: Callable[[], psycopg.Connection[Any]]
    major: int
    steps: int
    writers: list[Workload] = field(init=False)
    publishers: list[Workload] = field(init=False)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writers = [self._workload(number) for number in range(SESSIONS)]
        self.publishers = [self._workload(number) for number in PUBLISHERS]

    @property
    def sessions(self) -> list[Session]:
        """Those of the writers, and those of the publishers."""
        return [workload.sessions[0] for workload in (*self.writers, *self.publishers)]

    def run(self) -> None:
        """All sessions at once, until the writers have issued their statements.

        Raises:
            BaseException: what a thread raised first.
        """
        writing = [Thread(target=self._guarded, args=(self._write, workload)) for workload in self.writers]
        publishing = [
            Thread(target=self._guarded, args=(self._publish, workload, writing)) for workload in self.publishers
        ]
        for thread in (*writing, *publishing):
            thread.start()
        for thread in (*writing, *publishing):
            thread.join()
        if self.failures:
            raise self.failures[0]
        for workload in (*self.writers, *self.publishers):
            workload.settle()

    def errors(self) -> Counter[str]:
        """Failed statements by SQLSTATE."""
        return sum((session.errors for session in self.sessions), Counter())

    def write_log(self, path: Path) -> None:
        """What was done, in the order of its beginning: nanoseconds, session, statement, SQLSTATE of a failure."""
        lines = [(*line, session.number) for session in self.sessions for line in session.log]
        with path.open("w") as file:
            for began, ended, statement, state, number in sorted(lines):
                file.write(f"{began} {ended - began:>11} s{number} {state or 'ok':>5} {statement!r}\n")

    def _workload(self, number: int) -> Workload:
        return Workload(self.seed, self.connect, self.major, (number,), LOCK_TIMEOUT)

    def _guarded(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            self.failures.append(error)

    def _write(self, workload: Workload) -> None:
        (session,) = workload.sessions
        for _ in range(self.steps):
            if not session.in_transaction:
                session.forget_catalog()
            session.guard(lambda: workload.step(session), "a step")

    def _publish(self, workload: Workload, writing: Sequence[Thread]) -> None:
        (session,) = workload.sessions
        while any(thread.is_alive() for thread in writing):
            _alter_publications(session)


def _alter_publications(session: Session) -> None:
    """One alteration, or a transaction of some, of which parts may be rolled back."""
    rng = session.rng
    if rng.random() < 0.05:
        catalog = rng.choice(("pg_publication", "pg_publication_rel", "pg_publication_namespace"))
        session.run(f"VACUUM FULL {catalog}", "vacuum publications")
    if rng.random() < 0.6:
        _alter_publication(session)
        return
    session.begin()
    for _ in range(rng.randrange(1, 4)):
        if session.in_transaction:
            session.savepoint()
            _alter_publication(session)
        if session.in_transaction and session.savepoints and rng.random() < 0.3:
            session.rollback_to()
    if session.in_transaction:
        session.finish(rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))


def _alter_publication(session: Session) -> None:
    """What a publication says, what is in it, or how one that nobody asks for is called."""
    rng = session.rng
    names = [name for (name,) in session.rows("SELECT pubname FROM pg_publication ORDER BY 1")]
    unasked = [name for name in names if not name.startswith("pub_")]
    if not unasked or (len(unasked) < 3 and rng.random() < 0.1):
        name = f"unasked_{session.next_number()}"
        session.run(f"CREATE PUBLICATION {name} FOR TABLE {rng.choice(MEMBERS)}, {rng.choice(LEAVES)}", "publication")
        return
    name = rng.choice((rng.choice(unasked), "pub_some", "pub_list"))
    actions = f"SET (publish = '{rng.choice(ACTIONS)}')"
    if rng.random() < 0.1:
        session.run(f"ALTER PUBLICATION pub_all {actions}", "publication")
        return
    choices = [
        actions,
        actions,
        f"SET (publish_via_partition_root = {rng.choice(('true', 'false'))})",
        f"ADD TABLE {rng.choice(MEMBERS)}",
        f"DROP TABLE {rng.choice(MEMBERS)}",
        f"SET TABLE {rng.choice(MEMBERS)}, {rng.choice(LEAVES)}",
        f"ADD TABLES IN SCHEMA s{rng.randrange(SESSIONS)}",
        f"DROP TABLES IN SCHEMA s{rng.randrange(SESSIONS)}",
    ]
    if name != "pub_some":
        # Two publications of one stream must not differ in a table's columns.
        choices += [f"ADD TABLE child ({rng.choice(COLUMNS)})", "DROP TABLE child", f"SET TABLE child ({COLUMNS[0]})"]
    if name in unasked:
        choices += [f"RENAME TO unasked_{session.next_number()}", "DROP"]
    choice = rng.choice(choices)
    session.run(f"DROP PUBLICATION {name}" if choice == "DROP" else f"ALTER PUBLICATION {name} {choice}", "publication")
