"""What views remember: values, each for a span of LSNs in which the rows that it rests on are the same.

In: answers of :mod:`headwater.catalog.store.historic_catalog`, and the keys that changed. Out: answers that still hold.
What was not asked between one image and the next is forgotten there (:meth:`Memo.aged`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Any

from headwater.catalog.versions import NEVER, Dependency, OwnCommands, Timeline

Question = tuple[str, Any]
_OWN_MEMOS = 64


class Span:
    """What a value rests on, and the LSNs ``(lo, hi]`` in which it holds.

    Attributes:
        keys: what was looked up for it.
        is_own: some of it was made or removed by the transaction that asks.
    """

    __slots__ = ("hi", "is_own", "keys", "lo")

    def __init__(self) -> None:
        self.lo, self.hi = 0, NEVER
        self.keys: set[Dependency] = set()
        self.is_own = False

    def narrow(self, lo: int, hi: int) -> None:
        """It holds in these LSNs at most."""
        self.lo = max(self.lo, lo)
        self.hi = min(self.hi, hi)

    def absorb(self, other: Span) -> None:
        """It rests on what another value rests on, too."""
        self.narrow(other.lo, other.hi)
        self.keys |= other.keys
        self.is_own |= other.is_own


class Memo:
    """Values by what was asked, each for a span of LSNs."""

    def __init__(self) -> None:
        self._found: dict[Question, tuple[list[int], list[tuple[Span, Any]]]] = {}
        self._resting: dict[Dependency, set[Question]] = {}
        self._used: set[Question] = set()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, question: Question, lsn: int) -> tuple[Span, Any] | None:
        """The value remembered for an LSN."""
        found = self._found.get(question)
        if found is None:
            return None
        self._used.add(question)
        ends, answers = found
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
        """What was asked since this memo was made, as far as it holds at or after an LSN."""
        kept = Memo()
        for question in self._used & self._found.keys():
            for span, value in self._found[question][1]:
                if span.hi >= horizon:
                    kept.put(question, span, value)
        kept._used.clear()
        return kept


class ViewCache:
    """What the views of one store remember, and may not remember any longer.

    Attributes:
        changed: keys under which something may be found otherwise; who changes a catalog adds to it.
        answers: values that rest on committed rows only.
        timelines: when each version under a key is visible.
        own_keys: per set of xids, everything that rows which they made or removed may be looked up by.
    """

    def __init__(self) -> None:
        self.changed: set[Dependency] = set()
        self.answers = Memo()
        self.timelines: dict[Dependency, Timeline] = {}
        self.own_keys: dict[frozenset[int], frozenset[Dependency]] = {}
        self._own_answers: dict[OwnCommands, Memo] = {}

    @property
    def is_empty(self) -> bool:
        """Nothing is remembered."""
        return not (self.timelines or self.answers or self.own_keys)

    def take_over(self, before: ViewCache, horizon: int) -> None:
        """Remember what another one was asked, as far as it holds at or after an LSN; that one forgets it."""
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
        """Forget what rests on rows under these keys."""
        if not keys:
            return
        for key in keys:
            self.timelines.pop(key, None)
        self.answers.forget(keys)
        self._own_answers.clear()
        self.own_keys.clear()

    def forget_changed(self) -> None:
        """Forget what rests on rows that have changed; before a view is asked again."""
        self.forget(self.changed)
        self.changed.clear()

    def forget_answers(self) -> None:
        """Forget all values; when things are visible is remembered."""
        self.answers = Memo()
        self._own_answers.clear()
