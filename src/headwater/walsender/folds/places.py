"""The places of the folds of one database: they find each other here, and become one where they stand together.

A fold asks what to do at each place where it stands. It is told to go, and how far; to wait; or that its outputs are
another's now. Folds that stand are woken whenever another one has come or gone.

Invariant: under the lock nothing takes its time. States are as large as catalogs: they are compared by the thread of
one of the folds, while the others do as they like; what has changed meanwhile is looked at again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
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
        compared: of others at the same place the state, and whether they can go on as one.
    """

    where: Whereabouts
    began: float
    came: float = 0.0
    has_gone: bool = False
    compared: dict[_Entry, tuple[KeptState, bool]] = field(default_factory=dict)


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
            position = position_of(fold)
            is_slow = position < fold.alone_until
            self._entries[fold] = _Entry(Whereabouts(position, is_slow=is_slow), now, now)
            self._wake_others(fold)

    def leave(self, fold: Fold) -> list[SharedOutput]:
        """Let go of a fold that ends; return its outputs."""
        with self._lock:
            outputs, fold.outputs = [*fold.outputs, *fold.handed], []
            fold.handed = []
            self._forget(fold)
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
        has_changed = False
        while True:
            has_changed |= self._take_in(fold)
            with self._lock:
                if fold.handed:
                    continue
                entry = self._entries[fold]
                if not fold.outputs:
                    self._forget(fold)
                    return None
                self._note(fold, entry, position_of(fold))
                near = self._near(fold, entry)
                stranger = next((other for other in near if not self._knows(entry, other)), None)
                if stranger is None:
                    return self._decide(fold, entry, near, (end, has_more, has_changed))
                its, kept_state = self._entries[stranger], stranger.kept
            self._compare(fold, entry, its, kept_state)

    def _take_in(self, fold: Fold) -> bool:
        """Join what a fold makes with what it was handed; tell whether anything has changed."""
        before = list(fold.outputs)
        with self._lock:
            fold.outputs, fold.handed = [*fold.outputs, *fold.handed], []
        fold.outputs = joined(fold.outputs, position_of(fold))
        return before != fold.outputs

    def _decide(
        self, fold: Fold, entry: _Entry, near: Sequence[Fold], more: tuple[int, bool, bool]
    ) -> Go | Wait | None:
        """Hand a fold's outputs to another one in its state, or tell it what to do."""
        host = next((other for other in near if entry.compared[self._entries[other]][1]), None)
        if host is None:
            return self._step(fold, entry, *more)
        host.handed, fold.outputs = [*host.handed, *fold.outputs], []
        self._forget(fold)
        host.wake()
        return None

    def _near(self, fold: Fold, entry: _Entry) -> list[Fold]:
        """Return others that stand at the same place, and may go on as one with a fold if their states are the same."""
        position = entry.where.position
        if not position or entry.where.is_slow or position < fold.alone_until:
            return []
        return [
            other
            for other, its in self._entries.items()
            if other is not fold
            and its.where == entry.where
            and position >= other.alone_until
            and _make_alike(fold, other)
        ]

    def _knows(self, entry: _Entry, other: Fold) -> bool:
        """Tell whether a fold was compared with another one as it is now."""
        compared = entry.compared.get(self._entries[other])
        return compared is not None and compared[0] is other.kept

    def _compare(self, fold: Fold, entry: _Entry, its: _Entry, kept_state: KeptState | None) -> None:
        """Compare states, and note what comes of it; nobody waits for that."""
        assert fold.kept is not None
        assert kept_state is not None
        is_alike = _are_alike(fold.kept, kept_state)
        with self._lock:
            if its in self._entries.values():
                entry.compared[its] = kept_state, is_alike

    def _step(self, fold: Fold, entry: _Entry, end: int, has_more: bool, has_changed: bool) -> Go | Wait:
        position, others = entry.where.position, [it.where for other, it in self._entries.items() if other is not fold]
        if not has_more:
            may_join = entry.where.is_slow and position >= fold.alone_until
            return Wait(JOIN_SECONDS if may_join and others else None, has_changed)
        now = self._clock()
        quiet = now - max(it.began for it in self._entries.values() if not it.has_gone or it is entry)
        standing = Standing(position, end, now - entry.came, not entry.has_gone, quiet)
        seconds = patience(standing, others) if position and not entry.where.is_slow else 0.0
        if seconds > 0:
            return Wait(seconds, has_changed)
        target = aim(position, end, others) if position else end
        entry.where, entry.has_gone = Whereabouts(position, target, target < fold.alone_until), True
        self._wake_others(fold)
        return Go(target, has_changed)

    def _note(self, fold: Fold, entry: _Entry, position: int) -> None:
        """Note that a fold stands somewhere, and tell others if that is news."""
        where = Whereabouts(position, None, position < fold.alone_until or not _can_join(fold))
        if where.position != entry.where.position:
            entry.came = self._clock()
            entry.compared.clear()
        if where != entry.where:
            entry.where = where
            self._wake_others(fold)

    def _forget(self, fold: Fold) -> None:
        gone = self._entries.pop(fold, None)
        for entry in self._entries.values():
            if gone is not None:
                entry.compared.pop(gone, None)
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


def _can_join(fold: Fold) -> bool:
    return all(member.can_join for output in fold.outputs for member in output.members)


def _make_alike(fold: Fold, other: Fold) -> bool:
    """Tell whether what two folds make can be made by one."""
    if fold.kept is None or other.kept is None:
        return False
    if not fold.outputs or not other.outputs or any(o.opened is None for o in (*fold.outputs, *other.outputs)):
        return False
    return fold.outputs[0].kind == other.outputs[0].kind


def _are_alike(*kept_states: KeptState) -> bool:
    """Tell whether two states of one place are the same, but for those of outputs; takes its time."""
    states = [replace(it.state, outputs=()) for it in kept_states]
    return (states[0].catalog is states[1].catalog and states[0].left is states[1].left) or same(*states)
