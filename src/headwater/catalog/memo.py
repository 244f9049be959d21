"""What views remember: values, each for a span of LSNs in which the rows that it rests on are the same.

In: answers of :mod:`headwater.catalog.historic_catalog`, and the keys that changed. Out: answers that still hold. What
was not asked between one image and the next is forgotten there (:meth:`Memo.aged`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from headwater.catalog.versions import NEVER, Dependency

Question = tuple[str, Any]


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
