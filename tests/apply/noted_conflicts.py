"""Conflicts that are told of: by ``headwater apply`` on standard error, by a stock subscription in its server's log."""

from __future__ import annotations

import re

_OURS = re.compile(
    r"^headwater: (conflict detected on relation .*) \(SQLSTATE \w{5}\)\n(?:(?:DETAIL|CONTEXT|\t).*\n?)*", re.MULTILINE
)
_OF_STOCK = re.compile(r"LOG:  (conflict detected on relation .*)$", re.MULTILINE)


def conflicts_in(text: str) -> list[str]:
    """Return the conflicts that ours has told of, in order of their words."""
    return sorted(_OURS.findall(text))


def without_conflicts(text: str) -> str:
    """Return what ours has said but for conflicts."""
    return _OURS.sub("", text)


def conflicts_in_log(log: str) -> list[str]:
    """Return the conflicts that a server has logged, in order of their words."""
    return sorted(_OF_STOCK.findall(log))
