"""The random workload with real concurrency: every session in a thread of its own, autovacuum on.

The writers do what a :class:`~oracle.workload.Workload` does, each for itself, so that records interleave inside their
statements. Beside them some sessions only alter publications, and one only maintains and rebuilds; these keep pace with
the writers, a statement or transaction for every few of theirs. One does what every run must have
(:mod:`oracle.certain`), at the beginning and beside the others. Nobody else waits for anybody but in the server. So a
seed gives the same statements only as long as no session sees what another did: a run that fails has to be read from
the log of its sessions, ``statements.log`` beside its files.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Any

import psycopg

from oracle.caretaking import take_care
from oracle.certain import change_certainly
from oracle.initial_schema import SESSIONS
from oracle.publishing import publish
from oracle.session import Session
from oracle.workload import Workload

SETTINGS = (
    ("autovacuum_naptime", "1s"),
    ("autovacuum_vacuum_threshold", "5"),
    ("autovacuum_vacuum_scale_factor", "0"),
    ("autovacuum_analyze_threshold", "5"),
    ("autovacuum_analyze_scale_factor", "0"),
    ("deadlock_timeout", "20ms"),
)
LOCK_TIMEOUT = "150ms"


@dataclass
class _Follower:
    """A session that does something for every few statements of the writers.

    Attributes:
        act: what it does.
        share: how often, per statement of any writer.
    """

    workload: Workload
    act: Callable[[Session], None]
    share: float
    turns: Semaphore = field(default_factory=lambda: Semaphore(0))


@dataclass
class ThreadedWorkload:
    """A run.

    Args:
        seed: of the sessions' choices.
        connect: opens a session's connection.
        steps: how many statements each writer issues.
    """

    seed: int
    connect: Callable[[], psycopg.Connection[Any]]
    steps: int
    writers: list[Workload] = field(init=False)
    followers: list[_Follower] = field(init=False)
    certain: Session = field(init=False)
    failures: list[BaseException] = field(default_factory=list)
    _over: Event = field(default_factory=Event)
    _beside_done: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.writers = [self._workload(number) for number in range(SESSIONS)]
        kinds = ((publish, 0.1), (publish, 0.1), (take_care, 0.06))
        self.followers = [_Follower(self._workload(SESSIONS + i), *kind) for i, kind in enumerate(kinds)]
        self.certain = Session(SESSIONS + len(kinds), self.connect, random.Random(f"certain {self.seed}"))

    @property
    def sessions(self) -> list[Session]:
        """The sessions of the writers, then the others'."""
        workloads = (*self.writers, *(follower.workload for follower in self.followers))
        return [*(workload.sessions[0] for workload in workloads), self.certain]

    def run(self, beside: Callable[[], None]) -> tuple[int, int]:
        """Run all sessions at once, until the writers have issued their statements.

        Args:
            beside: what a thread does meanwhile, once; until it is done, nobody prepares a transaction, and none is
                left open.

        Returns:
            two positions of the log: before the one and behind the other, certain changes were committed.

        Raises:
            BaseException: what a thread raised first.
        """
        _, begun = change_certainly(self.certain)
        again: list[tuple[int, int]] = []
        writing = [Thread(target=self._guarded, args=(self._write, workload)) for workload in self.writers]
        others = [Thread(target=self._guarded, args=(self._follow, follower)) for follower in self.followers]
        others.append(Thread(target=self._guarded, args=(self._do_beside, beside, again)))
        for thread in (*writing, *others):
            thread.start()
        for thread in writing:
            thread.join()
        self._over.set()
        for follower in self.followers:
            follower.turns.release()
        for thread in others:
            thread.join()
        if self.failures:
            raise self.failures[0]
        for workload in self.writers:
            workload.settle()
        return begun, again[0][0]

    def errors(self) -> Counter[str]:
        """Count failed statements by SQLSTATE."""
        return sum((session.errors for session in self.sessions), Counter())

    def write_log(self, path: Path) -> None:
        """Write what was done, in order of its beginning: nanoseconds, session, statement, SQLSTATE of a failure."""
        lines = [(*line, session.number) for session in self.sessions for line in session.log]
        with path.open("w") as file:
            for began, ended, statement, state, number in sorted(lines):
                file.write(f"{began} {ended - began:>11} s{number} {state or 'ok':>5} {statement!r}\n")

    def _workload(self, number: int) -> Workload:
        return Workload(self.seed, self.connect, (number,), LOCK_TIMEOUT)

    def _guarded(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            self.failures.append(error)
            for argument in arguments:
                # Nobody may wait for a transaction whose thread is gone.
                if isinstance(argument, Workload):
                    argument.sessions[0].connection.close()

    def _write(self, workload: Workload) -> None:
        (session,) = workload.sessions
        for _ in range(self.steps):
            workload.may_prepare = self._beside_done.is_set()
            if not session.in_transaction:
                session.forget_catalog()
            session.guard(lambda: workload.step(session), "a step")
            for follower in self.followers:
                if workload.rng.random() < follower.share:
                    follower.turns.release()
        if session.in_transaction and not self._beside_done.is_set():
            session.finish("COMMIT")

    def _follow(self, follower: _Follower) -> None:
        (session,) = follower.workload.sessions
        while follower.turns.acquire() and not self._over.is_set():
            session.forget_catalog()
            session.guard(lambda: follower.act(session), "a turn")
            if session.in_transaction:
                session.finish("COMMIT")

    def _do_beside(self, beside: Callable[[], None], again: list[tuple[int, int]]) -> None:
        try:
            beside()
            again.append(change_certainly(self.certain))
        finally:
            self._beside_done.set()
