"""PostgreSQL's isolation specs: sessions with named steps, and the orders in which the steps are run.

The form is that of ``src/test/isolation/README``. A step that waits for a lock is left waiting, and the next step of
another session begins; a marker in parentheses that names a step makes the next one wait until that one has ended.
What statements return, and that some fail, is not looked at: a spec is a workload here. Known gap: specs that leave it
to the runner to make all permutations are refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import psycopg

Connect = Callable[[str], psycopg.Connection[Any]]
"""Makes a session that has a name."""

_TOKEN = re.compile(r'#[^\n]*|\s+|\{([^}]*)\}|"((?:[^"]|"")*)"|([A-Za-z_][\w$]*)|([(),*]|\d+)')
_KEYWORDS = frozenset({"setup", "teardown", "session", "step", "permutation"})
_PATIENCE_SECONDS = 60
_IS_BLOCKED = "SELECT count(*) > 0 FROM pg_locks WHERE pid = %s AND NOT granted"


@dataclass(frozen=True)
class Step:
    """A step of a permutation.

    Attributes:
        name: of the step.
        ends_behind: names of the steps that have ended when it has.
    """

    name: str
    ends_behind: tuple[str, ...] = ()


@dataclass
class Session:
    """A session's own statements before and behind its steps."""

    setup: list[str] = field(default_factory=list)
    teardown: list[str] = field(default_factory=list)


@dataclass
class IsolationSpec:
    """A spec as it is written.

    Attributes:
        setup, teardown: statements before and behind each permutation.
        sessions: by name.
        steps: (session, statements) by name of the step.
        permutations: orders of steps.
    """

    setup: list[str] = field(default_factory=list)
    teardown: list[str] = field(default_factory=list)
    sessions: dict[str, Session] = field(default_factory=dict)
    steps: dict[str, tuple[str, str]] = field(default_factory=dict)
    permutations: list[list[Step]] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the spec of a file.

        Raises:
            ValueError: it is none, or has no permutation.
        """
        spec, place = cls(), ""
        words = _Words(text)
        while words:
            word = words.take("keyword")
            if word in ("setup", "teardown"):
                blocks = spec.sessions[place] if place else spec
                (blocks.setup if word == "setup" else blocks.teardown).append(words.take("block"))
            elif word == "session":
                place = words.take("name")
                spec.sessions[place] = Session()
            elif word == "step":
                name = words.take("name")
                spec.steps[name] = (place, words.take("block"))
            else:
                spec.permutations.append(list(_permutation(words)))
        if not spec.permutations:
            raise ValueError("a spec without permutations")
        return spec


def _permutation(words: _Words) -> Iterator[Step]:
    while words.kind == "name":
        name, markers = words.take("name"), list[str]()
        if words.skip("("):
            while not words.skip(")"):
                if words.kind == "name":
                    markers.append(words.take("name"))
                else:
                    words.take("sign")
        yield Step(name, tuple(markers))


class _Words:
    """A file's words from left to right: of each its kind (keyword, name, block, sign) and its text."""

    def __init__(self, text: str) -> None:
        self._words = list(_words(text))
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._words)

    @property
    def kind(self) -> str:
        return self._words[self._at][0] if self else ""

    def take(self, kind: str) -> str:
        actual, text = self._words[self._at] if self else ("", "the end")
        if actual != kind:
            raise ValueError(f"expected a {kind}, found {text}")
        self._at += 1
        return text

    def skip(self, sign: str) -> bool:
        is_next = bool(self) and self._words[self._at] == ("sign", sign)
        self._at += is_next
        return is_next


def _words(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"unexpected character {text[at]!r} at {at}")
        at = match.end()
        block, quoted, plain, sign = match.groups()
        if block is not None:
            yield "block", block
        elif quoted is not None:
            yield "name", quoted.replace('""', '"')
        elif plain is not None:
            yield ("keyword" if plain in _KEYWORDS else "name"), plain
        elif sign is not None:
            yield "sign", sign


class SpecRun:
    """Runs the permutations of a spec, each in sessions of its own.

    Args:
        name: of the spec, which sessions are called by.
        connect: makes a session.
        before_step: called with each step's statements.
    """

    def __init__(self, name: str, connect: Connect, before_step: Callable[[str], None]) -> None:
        self._name, self._connect, self._before_step = name, connect, before_step

    def run(self, spec: IsolationSpec) -> None:
        """Run all permutations, one after the other."""
        for permutation in spec.permutations:
            with ExitStack() as stack:
                sessions = {name: self._open(stack, name) for name in ("control", *spec.sessions)}
                self._run(spec, permutation, sessions, stack.enter_context(ThreadPoolExecutor(len(sessions))))

    def _run(
        self,
        spec: IsolationSpec,
        permutation: list[Step],
        sessions: dict[str, psycopg.Connection[Any]],
        pool: ThreadPoolExecutor,
    ) -> None:
        control, running = sessions["control"], dict[str, tuple[str, Future[None]]]()
        for statements in spec.setup:
            _attempt(control, statements)
        for name, session in spec.sessions.items():
            for statements in session.setup:
                _attempt(sessions[name], statements)
        for step in permutation:
            name, statements = spec.steps[step.name]
            if name in running:
                _end(running.pop(name)[1])
            self._before_step(statements)
            running[name] = (step.name, pool.submit(_attempt, sessions[name], statements))
            _until_blocked(control, running[name][1], sessions[name].info.backend_pid)
            for waited, future in list(running.values()):
                if waited in step.ends_behind:
                    _end(future)
        for _, future in running.values():
            _end(future)
        for name, session in spec.sessions.items():
            for statements in session.teardown:
                _attempt(sessions[name], statements)
        for statements in spec.teardown:
            _attempt(control, statements)

    def _open(self, stack: ExitStack, name: str) -> psycopg.Connection[Any]:
        return stack.enter_context(self._connect(f"isolation/{self._name}/{name}"))


def _attempt(connection: psycopg.Connection[Any], statements: str) -> None:
    """Send statements as one query; one that fails is a part of the workload."""
    with suppress(psycopg.Error):
        connection.execute(statements.encode())


def _until_blocked(control: psycopg.Connection[Any], future: Future[None], pid: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not future.done() and control.execute(_IS_BLOCKED, [pid]).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise TimeoutError("a step neither ended nor waits for a lock")
        control.execute("SELECT pg_sleep(0.005)")


def _end(future: Future[None]) -> None:
    future.result(_PATIENCE_SECONDS)
