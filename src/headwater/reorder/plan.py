"""The commit order cut into slices of even size: what each decode task reads, keeps and announces.

In: rows of changes that are wanted, in output order, with their resolutions; events that are messages already. Out:
:class:`Slice` values, which pickle and go to Spark tasks. A slice holds whole transactions; one that is larger than a
slice is cut at lines of the LSN grid, where no TOAST chunks and no speculative insert are pending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.rmgr._index import UNSETTLED
from headwater.rmgr.index import GRID

Int64s = NDArray[np.int64]

READ_GAP = 1 << 20
"""Two stretches of WAL closer than this many bytes are read as one."""

BEGINS_HERE, ENDS_HERE, WROTE_BEFORE, BARE = 1, 2, 4, 8
"""Flags of units; the same bits as in :mod:`headwater.rows.items`."""

EVERYTHING = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Units:
    """What is output, in order: transactions and non-transactional messages, u of them.

    Attributes:
        xid, first_lsn, commit_lsn, end_lsn, commit_time: int64[u].
        bare: bool[u] a non-transactional message.
        own: bool[u] the transaction changes the catalog: its rows have resolutions of their own.
        origin: int64[u] 1 + number of the event that announces the origin, 0 none.
        member_xid: int64[m]; member_unit: int64[m] sorted.
    """

    xid: Int64s
    first_lsn: Int64s
    commit_lsn: Int64s
    end_lsn: Int64s
    commit_time: Int64s
    bare: NDArray[np.bool_]
    own: NDArray[np.bool_]
    origin: Int64s
    member_xid: Int64s
    member_unit: Int64s


@dataclass(frozen=True)
class ChangeRows:
    """Rows of changes to be decoded, sorted by (unit, first), n of them.

    Attributes:
        unit, locator, kinds, size, first, last: int64[n]; locator is an index into the plan's files, size in bytes,
            first and last are LSNs.
        resolution: int64[n].
        wanted: bool[n] some of its changes give messages (rows of TOAST relations do not, they are read for others).
        announce: bool[n] the schema goes before its first wanted change.
    """

    unit: Int64s
    locator: Int64s
    kinds: Int64s
    size: Int64s
    first: Int64s
    last: Int64s
    resolution: Int64s
    wanted: NDArray[np.bool_]
    announce: NDArray[np.bool_]

    def take(self, which: NDArray[np.generic]) -> ChangeRows:
        """The rows ``which`` selects."""
        return ChangeRows(
            *(getattr(self, name)[which] for name in self.__dataclass_fields__)  # each field is one array
        )


@dataclass(frozen=True)
class Events:
    """Messages made on the driver, sorted by (unit, place), e of them.

    Attributes:
        unit: int64[e]; place: int64[e] start of the record they come from; lsn: int64[e] what the lsn column shows.
        messages: the messages of each, at least one.
        origin_messages: messages that announce origins, by number.
    """

    unit: Int64s
    place: Int64s
    lsn: Int64s
    messages: tuple[tuple[bytes, ...], ...]
    origin_messages: tuple[tuple[bytes, ...], ...] = ()


@dataclass(frozen=True)
class RelationUse:
    """One relation version as slices use it.

    Attributes:
        schema: the relation; wants: bits of WANT_*; is_toast: its rows are chunks.
        messages: the schema messages, if the plugin sends any.
    """

    schema: RelationSchema
    wants: int
    is_toast: bool
    messages: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Slice:
    """The work of one decode task.

    Attributes:
        number: place in the output.
        ranges: ``(lo, hi)`` stretches of WAL to read, LSNs, ascending; lo is a record's start.
        size: bytes of the records it is about.
        unit_xid ... unit_origin: the slice's units, one element each (see :class:`Units`); unit_origin is 1 + index
            into ``origin_messages``.
        unit_lo, unit_hi: int64[u] only changes with ``unit_lo < lsn <= unit_hi`` belong to this slice.
        member_xid, member_unit: int64[m] the xids whose changes belong to each unit.
        files: int64[f, 3] files whose changes matter.
        spans: int64[4, s] (unit or -1 for any without catalog changes, file, from LSN, relation), sorted.
        announcements: int64[3, a] (unit, LSN, relation).
        event_unit, event_place, event_lsn: int64[e]; event_messages: their messages.
        relations: the relation versions.
        origin_messages: the origin announcements.
    """

    number: int
    ranges: tuple[tuple[int, int], ...]
    size: int
    unit_xid: Int64s
    unit_first: Int64s
    unit_commit: Int64s
    unit_end: Int64s
    unit_time: Int64s
    unit_flags: Int64s
    unit_own: NDArray[np.bool_]
    unit_origin: Int64s
    unit_lo: Int64s
    unit_hi: Int64s
    member_xid: Int64s
    member_unit: Int64s
    files: Int64s
    spans: Int64s
    announcements: Int64s
    event_unit: Int64s
    event_place: Int64s
    event_lsn: Int64s
    event_messages: tuple[tuple[bytes, ...], ...]
    relations: tuple[RelationUse, ...]
    origin_messages: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True)
class _Piece:
    """Units ``[start, stop)``; of a cut transaction (one unit) only the changes in ``(lo, hi]``."""

    start: int
    stop: int
    lo: int = -1
    hi: int = EVERYTHING


@dataclass(frozen=True)
class Plan:
    """Everything the slices are cut from.

    Attributes:
        units, rows, events: in output order.
        relations: by resolution number.
        files: int64[f, 3].
        grid: bytes between the LSN lines that no row crosses: the index's.
    """

    units: Units
    rows: ChangeRows
    events: Events
    relations: Sequence[RelationUse]
    files: Int64s
    grid: int = GRID

    def slices(self, target: int) -> list[Slice]:
        """Cut the plan.

        Args:
            target: bytes of WAL records a slice should hold.

        Returns:
            the slices, in output order.
        """
        return [self._slice(number, piece) for number, piece in enumerate(self._pieces(target))]

    def _pieces(self, target: int) -> Iterator[_Piece]:
        units = len(self.units.xid)
        weight = np.bincount(self.rows.unit, self.rows.size, units).astype(np.float64) + 64
        start = 0
        for huge in [*np.flatnonzero(weight > 2 * target), units]:
            yield from self._even(start, int(huge), weight, target)
            if huge < units:
                yield from self._cut(int(huge), target)
            start = int(huge) + 1

    def _even(self, start: int, stop: int, weight: NDArray[np.float64], target: int) -> Iterator[_Piece]:
        if start >= stop:
            return
        before = np.cumsum(weight[start:stop]) - weight[start:stop]
        parts = max(1, round(float(before[-1] + weight[stop - 1]) / target))
        share = (before[-1] + weight[stop - 1]) / parts
        cuts = np.searchsorted(before, np.arange(1, parts) * share) + start
        bounds = np.unique(np.concatenate([[start], cuts, [stop]]))
        for low, high in pairwise(bounds):
            yield _Piece(int(low), int(high))

    def _cut(self, unit: int, target: int) -> Iterator[_Piece]:
        """Cut one transaction at grid lines after which nothing is pending."""
        low, high = np.searchsorted(self.rows.unit, [unit, unit + 1])
        rows = self.rows.take(np.arange(low, high))
        cells = rows.first // self.grid
        bounds = np.append(np.flatnonzero(np.diff(cells, prepend=-1)), len(cells))
        lo, held = -1, 0
        for start, stop in pairwise(bounds[:-1]):
            held += int(rows.size[start:stop].sum())
            changes = rows.wanted[start:stop]
            settled = not (rows.kinds[start:stop] & UNSETTLED).any()
            if held >= target and settled and changes.any():
                last_change = int(rows.last[start:stop][changes].max())
                hi = max(last_change, self._last_event(unit, int(cells[start])))
                yield _Piece(unit, unit + 1, lo, hi)
                lo, held = hi, 0
        yield _Piece(unit, unit + 1, lo, EVERYTHING)

    def _last_event(self, unit: int, cell: int) -> int:
        """Place of the unit's last event up to the end of a grid cell, -1 if it has none."""
        low, high = np.searchsorted(self.events.unit, [unit, unit + 1])
        places = self.events.place[low:high]
        at = int(np.searchsorted(places, (cell + 1) * self.grid))
        return int(places[at - 1]) if at else -1

    def _slice(self, number: int, piece: _Piece) -> Slice:
        low, high = np.searchsorted(self.rows.unit, [piece.start, piece.stop])
        rows = self.rows.take(slice(low, high))  # type: ignore[arg-type]
        if piece.lo >= 0 or piece.hi != EVERYTHING:
            rows = rows.take((rows.last > piece.lo) & (rows.first <= piece.hi))
        return _make_slice(self, number, piece, rows)


def _make_slice(plan: Plan, number: int, piece: _Piece, rows: ChangeRows) -> Slice:
    units = plan.units
    span = slice(piece.start, piece.stop)
    low, high = np.searchsorted(plan.events.unit, [piece.start, piece.stop])
    events = np.arange(low, high)
    events = events[(plan.events.place[events] > piece.lo) & (plan.events.place[events] <= piece.hi)]
    used, relation = np.unique(rows.resolution, return_inverse=True)
    files, file = np.unique(rows.locator, return_inverse=True)
    unit = rows.unit - piece.start
    member_xid, member_unit = _members(units, piece)
    announced = rows.announce & (rows.first > piece.lo)
    return Slice(
        number=number,
        ranges=_ranges(rows, piece),
        size=int(rows.size.sum()),
        unit_xid=units.xid[span],
        unit_first=units.first_lsn[span],
        unit_commit=units.commit_lsn[span],
        unit_end=units.end_lsn[span],
        unit_time=units.commit_time[span],
        unit_flags=_flags(units, piece),
        unit_own=units.own[span],
        unit_origin=units.origin[span],
        unit_lo=np.full(piece.stop - piece.start, piece.lo, np.int64),
        unit_hi=np.full(piece.stop - piece.start, piece.hi, np.int64),
        member_xid=member_xid,
        member_unit=member_unit,
        files=plan.files[files],
        spans=_spans(np.where(units.own[rows.unit], unit, -1), file, rows.first, relation),
        announcements=np.stack([unit[announced], rows.first[announced], relation[announced]]),
        event_unit=plan.events.unit[events] - piece.start,
        event_place=plan.events.place[events],
        event_lsn=plan.events.lsn[events],
        event_messages=tuple(plan.events.messages[i] for i in events),
        relations=tuple(plan.relations[i] for i in used),
        origin_messages=plan.events.origin_messages,
    )


def _members(units: Units, piece: _Piece) -> tuple[Int64s, Int64s]:
    low, high = np.searchsorted(units.member_unit, [piece.start, piece.stop])
    return units.member_xid[low:high], units.member_unit[low:high] - piece.start


def _flags(units: Units, piece: _Piece) -> Int64s:
    flags = np.where(units.bare[piece.start : piece.stop], BARE, 0)
    begins = piece.lo < 0
    flags |= BEGINS_HERE if begins else WROTE_BEFORE
    if piece.hi == EVERYTHING:
        flags |= ENDS_HERE
    return flags


def _spans(unit: Int64s, file: Int64s, first: Int64s, relation: Int64s) -> Int64s:
    """Where each file's relation version changes, per unit with own catalog changes and for all others together."""
    order = np.lexsort((first, file, unit))
    spans = np.stack([unit[order], file[order], first[order], relation[order]])
    if spans.shape[1]:
        keep = np.ones(spans.shape[1], np.bool_)
        keep[1:] = (spans[[0, 1, 3], 1:] != spans[[0, 1, 3], :-1]).any(axis=0)
        spans = spans[:, keep]
    return np.ascontiguousarray(spans)


def _ranges(rows: ChangeRows, piece: _Piece) -> tuple[tuple[int, int], ...]:
    """The stretches of WAL that hold the rows; near ones joined."""
    if not len(rows.first):
        return ()
    order = np.argsort(rows.first, kind="stable")
    first, last = rows.first[order], np.maximum.accumulate(rows.last[order])
    cut = np.flatnonzero(first[1:] > last[:-1] + READ_GAP) + 1
    lows = first[np.concatenate([[0], cut])]
    highs = last[np.concatenate([cut - 1, [len(last) - 1]])]
    return tuple((int(low), int(high) + 1) for low, high in zip(lows, highs, strict=True))
