"""The memory of views: values, each for a span of LSNs in which the rows that it rests on are the same.

In: answers of :mod:`headwater.catalog.store.historic_catalog`, and the keys that changed. Out: answers that still hold.
Answers that were not asked for between one image and the next are forgotten there (:meth:`Memo.aged`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Any

from headwater.catalog.versions import NEVER, Dependency, OwnCommands, Timeline

Question = tuple[str, Any]
_OWN_MEMOS = 64


class Span:
    """The LSNs ``(lo, hi]`` in which a value holds, and the keys that it rests on.

    Attributes:
        keys: the keys that were looked up for the value.
        is_own: whether some of it was made or removed by the transaction that asks.
    """

    __slots__ = ("hi", "is_own", "keys", "lo")

    def __init__(self) -> None:
        self.lo, self.hi = 0, NEVER
        self.keys: set[Dependency] = set()
        self.is_own = False

    def narrow(self, lo: int, hi: int) -> None:
        """Narrow the span to these LSNs at most."""
        self.lo = max(self.lo, lo)
        self.hi = min(self.hi, hi)

    def absorb(self, other: Span) -> None:
        """Let the value also rest on everything that another value rests on."""
        self.narrow(other.lo, other.hi)
        self.keys |= other.keys
        self.is_own |= other.is_own


class Memo:
    """Values by question, each for a span of LSNs."""

    def __init__(self) -> None:
        self._found: dict[Question, tuple[list[int], list[tuple[Span, Any]]]] = {}
        self._resting: dict[Dependency, set[Question]] = {}
        self._used: set[Question] = set()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, question: Question, lsn: int) -> tuple[Span, Any] | None:
        """Return the value remembered for an LSN."""
        entry = self._found.get(question)
        if entry is None:
            return None
        self._used.add(question)
        ends, answers = entry
        at = bisect_left(ends, lsn)
        return answers[at] if at < len(ends) and answers[at][0].lo < lsn else None

    def put(self, question: Question, span: Span, value: Any) -> None:
        """Remember a value; spans of one question do not overlap, or hold equal values where they do."""
        self._used.add(question)
        ends, answers = self._found.setdefault(question, ([], []))
        at = bisect_left(ends, span.hi)
        ends.insert(at, span.hi)
        answers.insert(at, (span, value))
        for key in span.keys:
            self._resting.setdefault(key, set()).add(question)

    def forget(self, keys: Iterable[Dependency]) -> None:
        """Forget every answer to a question that rests on one of these keys."""
        for key in keys:
            for question in self._resting.pop(key, ()):
                self._found.pop(question, None)

    def aged(self, horizon: int) -> Memo:
        """Return the values asked for since this memo was made, as far as they hold at or after an LSN."""
        memo = Memo()
        for question in self._used & self._found.keys():
            for span, value in self._found[question][1]:
                if span.hi >= horizon:
                    memo.put(question, span, value)
        memo._used.clear()
        return memo


class ViewCache:
    """The memory of the views of a store, and the keys of what may be remembered no longer.

    Attributes:
        changed: keys under which something may be found otherwise; code that changes a catalog adds to it.
        answers: values that rest on committed rows only.
        timelines: the LSNs at which each version under a key is visible.
        own_keys: for each set of xids, all keys that find rows which the xids made or removed.
    """

    def __init__(self) -> None:
        self.changed: set[Dependency] = set()
        self.answers = Memo()
        self.timelines: dict[Dependency, Timeline] = {}
        self.own_keys: dict[frozenset[int], frozenset[Dependency]] = {}
        self._own_answers: dict[OwnCommands, Memo] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        return not (self.timelines or self.answers or self.own_keys)

    def take_over(self, before: ViewCache, horizon: int) -> None:
        """Take over the answers of another cache, as far as they hold at or after an LSN; that cache forgets them."""
        before.forget_changed()
        self.answers, before.answers = before.answers.aged(horizon), Memo()

    def own_answers(self, own: OwnCommands) -> Memo:
        """Return values that rest on rows that a transaction made or removed itself; of the last few that asked."""
        memo = self._own_answers.get(own)
        if memo is None:
            if len(self._own_answers) >= _OWN_MEMOS:
                self._own_answers.pop(next(iter(self._own_answers)))
            memo = self._own_answers[own] = Memo()
        return memo

    def forget(self, keys: Collection[Dependency]) -> None:
        """Forget the answers that rest on rows under these keys."""
        if not keys:
            return
        for key in keys:
            self.timelines.pop(key, None)
        self.answers.forget(keys)
        self._own_answers.clear()
        self.own_keys.clear()

    def forget_changed(self) -> None:
        """Forget the answers that rest on rows that have changed; before a view is asked again."""
        self.forget(self.changed)
        self.changed.clear()

    def forget_answers(self) -> None:
        """Forget all values; the LSNs at which versions are visible are remembered."""
        self.answers = Memo()
        self._own_answers.clear()
