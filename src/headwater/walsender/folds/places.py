"""The places of the folds of one database: they find each other here, and become one where they stand together.

A fold asks what to do at each place where it stands. It is told to go, and how far; to wait; or that its outputs are
another's now. Folds that stand are woken whenever another one has come or gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from headwater.base.value_codec import same
from headwater.slots.kept_state import KeptState
from headwater.walsender.folds.rules import Standing, Whereabouts, aim, patience
from headwater.walsender.folds.shared_output import SharedOutput, joined


class Fold(Protocol):
    """A fold, as others see it.

    Attributes:
        kept: the state where it stands.
        outputs: what it makes; handed: what others have handed to it, where it stands.
        alone_until: LSN before which it does not become one with another.
    """

    kept: KeptState | None
    outputs: list[SharedOutput]
    handed: list[SharedOutput]
    alone_until: int

    def wake(self) -> None:
        """Let it ask again."""


@dataclass(frozen=True)
class Go:
    """A fold is to go through a window.

    Attributes:
        target: LSN where it ends at the latest; has_changed: its outputs have.
    """

    target: int
    has_changed: bool


@dataclass(frozen=True)
class Wait:
    """A fold is to wait until it is woken, or so many seconds."""

    seconds: float | None
    has_changed: bool


@dataclass(eq=False)
class _Entry:
    """A fold's entry.

    Attributes:
        where: where it is.
        began, came: when it began, and when it came to where it stands; 0 before it has.
        has_gone: it has gone through a window.
        unlike: by its entry, each fold whose state differs at the same place, and the place.
    """

    where: Whereabouts
    began: float
    came: float = 0.0
    has_gone: bool = False
    unlike: dict[int, int] = field(default_factory=dict)


class Places:
    """The places of the folds of one database; any thread asks.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[Fold, _Entry] = {}

    def enter(self, fold: Fold) -> None:
        """Take a fold that begins."""
        with self._lock:
            now = self._clock()
            self._entries[fold] = _Entry(Whereabouts(position_of(fold), is_slow=False), now, now)
            self._wake_others(fold)

    def leave(self, fold: Fold) -> list[SharedOutput]:
        """Let go of a fold that ends; return its outputs."""
        with self._lock:
            outputs, fold.outputs = [*fold.outputs, *fold.handed], []
            fold.handed = []
            self._entries.pop(fold, None)
            self._wake_others(fold)
        return outputs

    def wake_all(self) -> None:
        """Let all folds that stand ask again."""
        with self._lock:
            self._wake_others(None)

    def note_slow(self, fold: Fold, is_slow: bool) -> None:
        """Note whether a fold is held up by a client."""
        with self._lock:
            entry = self._entries[fold]
            entry.where = replace(entry.where, is_slow=is_slow)
            self._wake_others(fold)

    def next_step(self, fold: Fold, end: int, has_more: bool) -> Go | Wait | None:
        """Tell a fold what to do where it stands.

        Args:
            fold: it; end: LSN where the log ends.
            has_more: there is WAL behind its place.

        Returns:
            None: it has nothing to do any more.
        """
        with self._lock:
            entry, position = self._entries[fold], position_of(fold)
            has_changed = _take_in(fold, position)
            if not fold.outputs:
                self._forget(fold)
                return None
            self._note(fold, entry, position)
            host = self._host(fold, entry)
            if host is not None:
                host.handed, fold.outputs = [*host.handed, *fold.outputs], []
                self._forget(fold)
                host.wake()
                return None
            return self._step(fold, entry, end, has_more, has_changed)

    def _step(self, fold: Fold, entry: _Entry, end: int, has_more: bool, has_changed: bool) -> Go | Wait:
        position, others = entry.where.position, [it.where for other, it in self._entries.items() if other is not fold]
        if not has_more:
            return Wait(JOIN_SECONDS if entry.where.is_slow and others else None, has_changed)
        now = self._clock()
        quiet = now - max(it.began for it in self._entries.values() if not it.has_gone or it is entry)
        standing = Standing(position, end, now - entry.came, not entry.has_gone, quiet)
        seconds = patience(standing, others) if position and not entry.where.is_slow else 0.0
        if seconds > 0:
            return Wait(seconds, has_changed)
        target = aim(position, end, others) if position else end
        entry.where, entry.has_gone = Whereabouts(position, target), True
        self._wake_others(fold)
        return Go(target, has_changed)

    def _note(self, fold: Fold, entry: _Entry, position: int) -> None:
        """Note that a fold stands somewhere, and tell others if that is news."""
        where = Whereabouts(position, None, not _can_join(fold))
        if where.position != entry.where.position:
            entry.came = self._clock()
        if where != entry.where:
            entry.where = where
            self._wake_others(fold)

    def _host(self, fold: Fold, entry: _Entry) -> Fold | None:
        """Return another fold that stands at the same place, in the same state."""
        position = entry.where.position
        if not position or entry.where.is_slow or position < fold.alone_until:
            return None
        for other, its in self._entries.items():
            if other is fold or its.where != entry.where or position < other.alone_until:
                continue
            if entry.unlike.get(id(its)) != position:
                if _are_alike(fold, other):
                    return other
                entry.unlike[id(its)] = its.unlike[id(entry)] = position
        return None

    def _forget(self, fold: Fold) -> None:
        del self._entries[fold]
        self._wake_others(fold)

    def _wake_others(self, fold: Fold | None) -> None:
        for other, entry in self._entries.items():
            if other is not fold and entry.where.target is None:
                other.wake()


JOIN_SECONDS = 0.2
"""After which a fold at the end of the log, whose clients were slow, asks whether it can join another."""


def position_of(fold: Fold) -> int:
    """Return the LSN where a fold stands; 0 at the catalog."""
    return 0 if fold.kept is None else fold.kept.state.lsn


def _take_in(fold: Fold, position: int) -> bool:
    """Join what a fold makes with what it was handed; tell whether anything has changed."""
    before = list(fold.outputs)
    fold.outputs, fold.handed = joined([*fold.outputs, *fold.handed], position), []
    return before != fold.outputs


def _can_join(fold: Fold) -> bool:
    return all(member.can_join for output in fold.outputs for member in output.members)


def _are_alike(fold: Fold, other: Fold) -> bool:
    """Tell whether two folds at one place can go on as one."""
    if fold.kept is None or other.kept is None:
        return False
    if not fold.outputs or not other.outputs or any(o.opened is None for o in (*fold.outputs, *other.outputs)):
        return False
    if fold.outputs[0].kind != other.outputs[0].kind:
        return False
    states = [replace(it.state, outputs=()) for it in (fold.kept, other.kept)]
    return (states[0].catalog is states[1].catalog and states[0].left is states[1].left) or same(*states)
