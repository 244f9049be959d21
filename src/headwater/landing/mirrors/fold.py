"""Changes folded: which rows they leave, and from where to where each row version lived.

In: rows that were there, the *old* rows, and after them changes in their order; of all of them the key as a number
(:mod:`headwater.landing.mirrors.row_codes`), and which relation they are of. Out: for each row version where it ended,
and which row an update found. Arrays of numbers only; no Python object a row.

What does not fit is reported: an insert of a key that is there, an update or a delete of one that is not. A source that
was followed from an empty table on, or from all of its rows, has neither: so something was missed.

Rows are identified in two ways: by a key, which one row at a time has (:func:`fold_keys`), or as wholes, of which there
may be several alike (:func:`fold_wholes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.landing.mirrors.row_codes import Codes

OLD, PUT, CHANGED, GONE, NOTHING = range(5)
"""Kinds of events: a row that was there; one that comes; the new version of a row with the same key, which must be
there; the end of one, which must be there; and what concerns no row."""

NEVER = np.int64((1 << 62) - 1)
"""The end of a row that is still there."""

Kills = Mapping[int, NDArray[np.int64]]
"""By relation: places, ascending, where all of its rows before ended at once."""


@dataclass(frozen=True)
class Events:
    """n rows and changes: old rows, then changes in their order.

    Attributes:
        kind: uint8[n] of the above.
        code: int64[n] the key.
        relation: int64[n] OID.
        place: int64[n] ascending among changes; -1 of old rows.
    """

    kind: NDArray[np.uint8]
    code: Codes
    relation: NDArray[np.int64]
    place: NDArray[np.int64]


@dataclass(frozen=True)
class Folded:
    """The outcome of a fold.

    Attributes:
        end: int64[n] the place at which a row version ended, NEVER for none; 0 of what is none.
        found: int64[n] the row that an event has ended or changed; -1 for none.
        wrong: int64[w] events that found a row where none should be, or none where one should; ascending.
    """

    end: NDArray[np.int64]
    found: NDArray[np.int64]
    wrong: NDArray[np.int64]

    @property
    def is_left(self) -> NDArray[np.bool_]:
        """bool[n] the rows that are there in the end."""
        is_left: NDArray[np.bool_] = self.end == NEVER
        return is_left


def fold_keys(events: Events, kills: Kills) -> Folded:
    """Fold by key.

    Args:
        events: they; kills: see there.
    """
    shown = np.flatnonzero(events.kind != NOTHING)
    order = shown[np.argsort(events.code[shown], kind="stable")]
    code, kind = events.code[order], events.kind[order]
    killed = _next_kills(events, kills)[order]
    place = events.place[order]
    follows = np.zeros(len(order), np.bool_)
    follows[1:] = code[1:] == code[:-1]
    is_row = kind != GONE
    next_place = np.full(len(order), NEVER)
    next_place[:-1][follows[1:]] = place[1:][follows[1:]]
    ends = np.where(is_row, np.minimum(killed, next_place), 0)
    # Whether the row of the event before is there still when an event comes.
    is_there = np.zeros(len(order), np.bool_)
    is_there[1:] = follows[1:] & is_row[:-1] & (killed[:-1] > place[1:])
    wants = (kind == GONE) | (kind == CHANGED)
    older = np.full(len(events.kind), -1, np.int64)
    before = np.flatnonzero(is_there)
    older[order[before]] = order[before - 1]
    end = np.zeros(len(events.kind), np.int64)
    end[order] = ends
    return Folded(end, older, np.sort(order[is_there != wants]))


def fold_wholes(events: Events, kills: Kills) -> Folded:
    """Fold rows that only their values tell apart: of several alike an end takes the one that came first.

    Args:
        events: they, without CHANGED; kills: see there.
    """
    shown = np.flatnonzero(events.kind != NOTHING)
    _, group = np.unique(_with_epochs(events, kills)[shown], return_inverse=True)
    rows, ends = (shown[at] for at in (events.kind[shown] != GONE, events.kind[shown] == GONE))
    row_group, end_group = (group[at] for at in (events.kind[shown] != GONE, events.kind[shown] == GONE))
    by_row, by_end = np.argsort(row_group, kind="stable"), np.argsort(end_group, kind="stable")
    counts = np.bincount(row_group, minlength=int(group.max(initial=-1)) + 1)
    starts = np.cumsum(counts) - counts
    of_end, number = end_group[by_end], _numbers(end_group[by_end])
    exists = number < counts[of_end]
    taken = rows[by_row[np.where(exists, starts[of_end] + number, 0)]] if len(rows) else np.zeros(len(ends), np.int64)
    ending = ends[by_end]
    is_right = exists & (events.place[taken] < events.place[ending])
    end = np.zeros(len(events.kind), np.int64)
    end[rows] = _next_kills(events, kills)[rows]
    end[taken[is_right]] = events.place[ending[is_right]]
    older = np.full(len(events.kind), -1, np.int64)
    older[ending[is_right]] = taken[is_right]
    return Folded(end, older, np.sort(ending[~is_right]))


def _numbers(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each element in its group, from 0; groups are sorted."""
    places = np.arange(len(groups))
    is_first = np.ones(len(groups), np.bool_)
    is_first[1:] = groups[1:] != groups[:-1]
    numbers: NDArray[np.int64] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return numbers


def _with_epochs(events: Events, kills: Kills) -> Codes:
    """Return codes that differ on both sides of a kill: what ended there, no later event finds."""
    epoch = np.zeros(len(events.code), np.int64)
    for oid, places in kills.items():
        own = events.relation == oid
        epoch[own] = np.searchsorted(places, events.place[own], "right")
    codes: Codes = events.code * (int(epoch.max(initial=0)) + 1) + epoch
    return codes


def _next_kills(events: Events, kills: Kills) -> NDArray[np.int64]:
    """Return int64[n] the next place after each event at which all rows of its relation ended."""
    next_kill = np.full(len(events.kind), NEVER)
    for oid, places in kills.items():
        of_relation = np.flatnonzero(events.relation == oid)
        at = np.searchsorted(places, events.place[of_relation], "right")
        next_kill[of_relation] = np.append(places, NEVER)[at]
    return next_kill


def sources(unchanged: NDArray[np.bool_], older: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell where a column's values are that updates did not write again.

    Args:
        unchanged: bool[n] of each event whether its value is that of the row which it found.
        older: int64[n] ``found``, see :class:`Folded`.

    Returns:
        int64[n] the event that has the value; -1 if a row that is needed was not found.
    """
    source = np.where(unchanged, older, np.arange(len(older)))
    while True:
        # Each step goes twice as far.
        further = np.where(source >= 0, source[source], -1)
        if (further == source).all():
            return source
        source = further
