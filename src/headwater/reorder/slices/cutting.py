"""The commit order, cut into slices of even size: what each decode task reads, keeps and announces.

In: a plan, whose rows of changes have resolutions and are in output order. Out: its slices. A slice holds whole
transactions. One that is larger than a slice is cut at lines of the LSN grid, where no TOAST chunks and no speculative
insert are pending; but not if the plugin must have it whole. Where it must have a non-transactional message together
with the transaction before it, no slice begins with one.

Plans of several outputs of one window are cut at the same places, as far as each may be: slices that read about the
same WAL form a group, for one task that reads it once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.stream_rules import EVERY
from headwater.reorder.integer_keys import distinct, distinct_rows, reaches
from headwater.reorder.plan import ChangeRows, Plan, Ranges, Slice, SliceEvents, SliceUnits, StreamedUnits, Units
from headwater.reorder.slices.resolve import wanted_kinds
from headwater.reorder.slices.spans import SpanIndex
from headwater.reorder.unit_flags import BARE, BEGINS_HERE, ENDS_HERE, MAY_HAVE_WRITTEN, STREAMED, WROTE_BEFORE
from headwater.rmgr.index.index_codes import UNSETTLED

Int64s = NDArray[np.int64]

SLICE_BYTES = 64 << 20
"""Upper bound of the WAL bytes of one task's slices, except for a transaction's parts that cannot be cut."""

SMALLEST_SLICE = 4 << 20

READ_GAP = 1 << 20
"""Two stretches of WAL closer than this many bytes are read as one."""

MOST_BESIDE_ANOTHER = 4
"""A slice that is cut where another plan was may hold so many times what it should: that one's may, too."""

EVERYTHING = np.iinfo(np.int64).max


def even_slice(plans: Sequence[Plan], slices: int) -> int:
    """Return bytes of a slice, so that tasks that can run at once have about as much each, if it is worth it.

    Args:
        plans: of the outputs of a window; a task holds one slice of each at a time.
        slices: how many there are to be at least.
    """
    total = max(map(planned_bytes, plans))
    return max(SMALLEST_SLICE, min(SLICE_BYTES // len(plans), -(-total // slices)))


def cut_slices(plan: Plan, target: int) -> list[Slice]:
    """Cut a plan.

    Args:
        plan: what is to be decoded.
        target: bytes of WAL records a slice should hold.

    Returns:
        the slices, in output order.
    """
    return [part for group in cut_together([plan], target) for _, part in group]


def each_slice(plan: Plan, target: int, first_unit: int = 0) -> Iterator[tuple[int, Slice]]:
    """Cut a plan, each slice as it is taken; those that begin before a unit are left out.

    Args:
        plan: what is to be decoded.
        target: bytes of WAL records a slice should hold.
        first_unit: the number of the unit.

    Yields:
        the number of a slice's first unit, and the slice.
    """
    cutter = _Cutter(plan)
    for number, piece in enumerate(cutter.pieces(target)):
        if piece.start >= first_unit:
            yield piece.start, cutter.slice_of(number, piece)


def cut_together(plans: Sequence[Plan], target: int) -> list[list[tuple[int, Slice]]]:
    """Cut the plans of several outputs of a window: the largest, and the others where it was cut.

    Args:
        plans: what is to be decoded for each output.
        target: bytes of WAL records a slice should hold.

    Returns:
        groups of slices, each with the number of its plan, of which a group has one slice at most; the slices of a plan
        are in output order.
    """
    first = max(range(len(plans)), key=lambda number: planned_bytes(plans[number]))
    largest = _Cutter(plans[first])
    pieces = list(largest.pieces(target))
    cuts = largest.cuts(pieces)
    groups: defaultdict[tuple[int, int], list[tuple[int, Slice]]] = defaultdict(list)
    for number, plan in enumerate(plans):
        is_first = number == first
        cutter = largest if is_first else _Cutter(plan, cuts)
        group = among = 0
        for at, piece in enumerate(pieces if is_first else cutter.pieces(target)):
            own = at if is_first else max(group, piece.group)
            group, among = own, among + 1 if at and own == group else 0
            groups[group, among].append((number, cutter.slice_of(at, piece)))
    return [groups[key] for key in sorted(groups)]


def planned_bytes(plan: Plan) -> int:
    """Count bytes of the records that a plan is about."""
    return int(plan.rows.size.sum()) + int(plan.events.size.sum())


@dataclass(frozen=True)
class _Cuts:
    """The places where a plan was cut, c in its order.

    Attributes:
        unit: int64[c] the place of the unit that a slice begins with (:attr:`_Cutter.places`).
        lsn: int64[c] of a cut transaction the last change before it; -1 where the whole unit comes after it.
    """

    unit: Int64s
    lsn: Int64s

    def before(self, unit: int, lsn: int = -1) -> int:
        """Count the cuts that lie before a change, or are there."""
        low, high = np.searchsorted(self.unit, unit, "left"), np.searchsorted(self.unit, unit, "right")
        return int(low + np.searchsorted(self.lsn[low:high], lsn, "right"))


NO_CUTS = _Cuts(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class _Piece:
    """Units ``[start, stop)``; of a cut transaction (one unit) only the changes in ``(lo, hi]``.

    ``follows_cut`` says that a transaction of more than one change is right before, in other slices;
    ``follows_message`` of a cut transaction that the changes and events in the pieces before give a message for sure;
    ``group`` how many of the cuts of another plan lie before it.
    """

    start: int
    stop: int
    lo: int = -1
    hi: int = EVERYTHING
    follows_cut: bool = False
    follows_message: bool = False
    group: int = 0

    @property
    def is_whole(self) -> bool:
        """True if the piece holds all of its units."""
        return self.lo < 0 and self.hi == EVERYTHING


@dataclass(frozen=True)
class _Cutter:
    """A plan on its way into slices, with tables that are made of it once; and where another plan was cut."""

    plan: Plan
    others: _Cuts = NO_CUTS

    @cached_property
    def places(self) -> Int64s:
        """int64[u] ascending: where units come, alike in all plans of a window."""
        return np.maximum.accumulate(self.plan.units.commit_lsn)

    def cuts(self, pieces: Sequence[_Piece]) -> _Cuts:
        """Find where the pieces begin, but for the first."""
        begin = np.array([(self.places[piece.start], piece.lo) for piece in pieces[1:]], np.int64).reshape(-1, 2)
        return _Cuts(*begin.T)

    def pieces(self, target: int) -> Iterator[_Piece]:
        """Cut the plan into pieces, in output order."""
        # Units by weight, of which one is huge, and a target of 10:
        #
        #   unit      0   1   2   3        4   5
        #   weight    4   5   8   47       3   6
        #   slices    [0 1]   [2]   [3 (..a]] [3 (a..b]] ... [4 5]
        #
        # Even ones go whole into slices between the huge; a huge one is cut by LSN. Each unit weighs 64 more than its
        # records, for what is done for a transaction, however small.
        units = len(self.plan.units.xid)
        weight = np.bincount(self.plan.rows.unit, self.plan.rows.size, units).astype(np.float64) + 64
        weight += np.bincount(self.plan.events.unit, self.plan.events.size, units)
        # What another plan has cut is cut here, too, or the two would not read the same WAL in one task.
        is_huge = (weight > 2 * target) | np.isin(self.places, self.others.unit[self.others.lsn >= 0])
        start, follows_cut = 0, self.plan.follows_many
        for huge in np.append(np.flatnonzero(is_huge & ~self._is_led), units).tolist():
            even = self._even(start, huge, weight, target)
            yield from (replace(piece, follows_cut=follows_cut and piece.start == start) for piece in even)
            if huge == units:
                return
            cut = list(self._cut(huge, target)) if self._may_cut(huge) else []
            follows_cut = len(cut) > 1
            start = huge + 1 if follows_cut else int(self._starts[huge + 1])
            yield from cut if follows_cut else [_Piece(huge, start, group=self._group(huge))]

    def _group(self, unit: int, lsn: int = -1) -> int:
        return self.others.before(int(self.places[unit]), lsn)

    def _may_cut(self, unit: int) -> bool:
        """Tell whether a transaction may be cut; one that leads messages if there are two changes in it for sure."""
        low, high = np.searchsorted(self.plan.rows.unit, [unit, unit + 1])
        is_sure = not self.plan.leads_messages or int(np.count_nonzero(self._certain[low:high])) > 1
        return self.plan.cuts_transactions and is_sure

    @cached_property
    def _is_led(self) -> NDArray[np.bool_]:
        """bool[u] the unit must be where the transaction before it is."""
        return self.plan.units.is_bare & self.plan.leads_messages

    @cached_property
    def _starts(self) -> Int64s:
        """int64[u+1] for each unit the next one, from itself on, that a slice may begin with."""
        free = np.where(np.append(self._is_led, False), len(self._is_led), np.arange(len(self._is_led) + 1))
        return np.minimum.accumulate(free[::-1])[::-1]

    def _even(self, start: int, stop: int, weight: NDArray[np.float64], target: int) -> Iterator[_Piece]:
        """Cut units by their weight, between the places where another plan was cut."""
        if start >= stop:
            return
        others = self._starts[np.searchsorted(self.places, self.others.unit[self.others.lsn < 0])]
        edges = np.unique(np.concatenate([[start], others[(others > start) & (others < stop)], [stop]]))
        for low, high in pairwise(edges.tolist()):
            yield from self._evenly(low, high, weight, target)

    def _evenly(self, start: int, stop: int, weight: NDArray[np.float64], target: int) -> Iterator[_Piece]:
        before = np.cumsum(weight[start:stop]) - weight[start:stop]
        whole = float(before[-1] + weight[stop - 1])
        # Beside another plan's slice a larger one is better than two: each more reads that WAL again.
        is_fit = len(self.others.unit) and whole <= MOST_BESIDE_ANOTHER * target
        parts = 1 if is_fit else max(1, round(whole / target))
        share = whole / parts
        cuts = self._starts[np.searchsorted(before, np.arange(1, parts) * share) + start]
        bounds = np.unique(np.concatenate([[start], cuts, [stop]]))
        for low, high in pairwise(bounds):
            yield _Piece(int(low), int(high), group=self._group(low))

    def _cut(self, unit: int, target: int) -> Iterator[_Piece]:
        """Cut one transaction after the last wanted changes of grid cells that leave nothing pending.

        Chunks and events that follow them go to the next piece. One without such changes is cut after any event. Where
        another plan was cut, in a cell, this one is cut too, before what comes after.
        """
        low, high = np.searchsorted(self.plan.rows.unit, [unit, unit + 1])
        rows = self.plan.rows.take(slice(low, high))
        cells = rows.first // self.plan.grid
        bounds = np.append(np.flatnonzero(np.diff(cells, prepend=-1)), len(cells))
        lo, held, writes, group = -1, 0, False, self._group(unit)
        certain = self._certain[low:high]
        if not rows.wanted.any():
            for hi in self._event_cuts(unit, target):
                yield _Piece(unit, unit + 1, lo, hi, follows_message=writes, group=group)
                lo, writes, group = hi, True, self._group(unit, hi)
        for start, stop in pairwise(bounds[:-1]):
            cell = rows.take(slice(start, stop))
            held += int(cell.size.sum())
            group_after = self._group(unit, int(cells[stop]) * self.plan.grid - 1 if stop < len(cells) else EVERYTHING)
            # A piece ends after a wanted change, so that what follows of chunks and events belongs to the next change;
            # and only where no TOAST chunks or speculative insert wait for the record that completes them.
            if (held >= target or group_after > group) and cell.wanted.any() and _is_settled(cell):
                hi = int(cell.last[cell.wanted].max())
                yield _Piece(unit, unit + 1, lo, hi, follows_message=writes, group=group)
                lo, held, group = hi, 0, group_after
                writes = bool(certain[:stop].any())
        yield _Piece(unit, unit + 1, lo, EVERYTHING, follows_message=writes, group=group)

    @cached_property
    def _certain(self) -> NDArray[np.bool_]:
        """bool[n] rows of which a message is given, whatever row filters say."""
        relations, rows = self.plan.relations, self.plan.rows
        if not any(use.filters is not None for use in relations):
            return rows.wanted
        certain = wanted_kinds(np.array([use.certain for use in relations] + [0], np.int64))
        is_certain: NDArray[np.bool_] = rows.wanted & (rows.kinds & certain[rows.resolution] != 0)
        return is_certain

    def _event_cuts(self, unit: int, target: int) -> Iterator[int]:
        """Find where events come after which so many bytes of events are full, but for the last."""
        events = slice(*np.searchsorted(self.plan.events.unit, [unit, unit + 1]))
        full = np.cumsum(self.plan.events.size[events]) // target
        for at in np.flatnonzero(np.diff(full)[:-1]):
            yield int(self.plan.events.order[events][at + 1])

    def slice_of(self, number: int, piece: _Piece) -> Slice:
        """Make the slice of a piece, with its number among all of them."""
        rows, events = self._rows(piece), self._events(piece)
        files = distinct(rows.locator).values
        ranges = _ranges(rows, events.place[events.made < 0])
        spans, used = self._spans(piece, rows, files, ranges)
        may_be_filtered = self._is_filtered[rows.resolution]
        announced = rows.take(np.flatnonzero(rows.announce & ~may_be_filtered))
        return Slice(
            number=number,
            ranges=ranges,
            size=int(rows.size.sum()),
            units=self._units(piece, rows),
            events=events,
            files=self.plan.files[files],
            chunks=self._chunks(piece, rows, files),
            spans=spans,
            announcements=np.stack(
                [announced.unit - piece.start, announced.first, np.searchsorted(used, announced.resolution)]
            ),
            tentative=_tentative(rows.take(np.flatnonzero(may_be_filtered)), self._is_streamed, used, piece),
            counted=_counted(self.plan.counted, piece),
            relations=tuple(self.plan.relations[number] for number in used),
            left_out=self.plan.left_out,
        )

    def _units(self, piece: _Piece, rows: ChangeRows) -> SliceUnits:
        units, events, span = self.plan.units, self.plan.events, slice(piece.start, piece.stop)
        member_xid, member_unit = self._members(piece, rows)
        origin, origins = _shares(events.origin_unit, piece)
        frame, frames = _shares(events.frame_unit, piece)
        return SliceUnits(
            xid=units.xid[span],
            first_lsn=units.first_lsn[span],
            commit_lsn=units.commit_lsn[span],
            end_lsn=units.end_lsn[span],
            commit_time=units.commit_time[span],
            own=units.own[span],
            last_end=self._last_ends[span],
            last_time=self._last_times[span],
            flags=_flags(units, piece),
            **_bounds(units.streamed, piece),
            member_xid=member_xid,
            member_unit=member_unit,
            origin=origin,
            origin_messages=events.origin_messages[origins],
            frame=frame,
            frames=events.frames[frames],
        )

    @cached_property
    def _last_ends(self) -> Int64s:
        """int64[u] where the unit before each one ended."""
        return np.append(np.full(1, self.plan.before.end, np.int64), self.plan.units.end_lsn)[:-1]

    @cached_property
    def _last_times(self) -> Int64s:
        """int64[u] the commit time of the transaction before each unit."""
        number = np.where(self.plan.units.is_bare, -1, np.arange(len(self.plan.units.xid)))
        last = np.append(np.full(1, -1, np.int64), np.maximum.accumulate(number))[:-1]
        return np.where(last >= 0, self.plan.units.commit_time[last], self.plan.before.time)

    def _rows(self, piece: _Piece) -> ChangeRows:
        """Take the rows of a piece."""
        low, high = np.searchsorted(self.plan.rows.unit, [piece.start, piece.stop])
        if piece.is_whole:
            return self.plan.rows.take(slice(low, high))
        # Rows are sorted by their first LSN, and none crosses a line of the grid: those of the cell in which the piece
        # begins may reach into it, earlier ones cannot.
        first = self.plan.rows.first[low:high]
        near = [max(0, piece.lo) // self.plan.grid * self.plan.grid, min(piece.hi, EVERYTHING - 1) + 1]
        start, stop = np.searchsorted(first, near) + low
        rows = self.plan.rows.take(slice(start, stop))
        return rows.take(np.flatnonzero(rows.last > piece.lo))

    def _events(self, piece: _Piece) -> SliceEvents:
        """Take the events of a piece, and the messages that the plugin has made of them."""
        events, which = self.plan.events, self._events_within(piece)
        made = events.made[which]
        numbers = made[made >= 0]
        first, stop = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
        return SliceEvents(
            unit=events.unit[which] - piece.start,
            place=events.place[which],
            order=events.order[which],
            lsn=events.lsn[which],
            made=np.where(made >= 0, made - first, -1),
            tentative=events.tentative[which],
            messages=events.messages[first:stop],
        )

    def _events_within(self, piece: _Piece) -> slice:
        low, high = np.searchsorted(self.plan.events.unit, [piece.start, piece.stop])
        if piece.is_whole:
            return slice(low, high)
        start, stop = np.searchsorted(self.plan.events.order[low:high], [piece.lo, piece.hi], "right") + low
        return slice(start, stop)

    def _members(self, piece: _Piece, rows: ChangeRows) -> tuple[Int64s, Int64s]:
        """Find the xids whose changes belong to each unit; of a cut transaction those that occur."""
        if not piece.is_whole:
            xids = distinct(rows.xid).values
            return xids, np.zeros(len(xids), np.int64)
        units = self.plan.units
        low, high = np.searchsorted(units.member_unit, [piece.start, piece.stop])
        xid, unit = units.member_xid[low:high], units.member_unit[low:high] - piece.start
        if units.streamed is None:
            return xid, unit
        of_block = np.flatnonzero(np.isin(rows.unit, units.streamed.unit))
        (unit_of_block, xid_of_block), _ = distinct_rows(
            np.stack([rows.unit[of_block] - piece.start, rows.xid[of_block].astype(np.int64)])
        )
        return np.append(xid, xid_of_block), np.append(unit, unit_of_block)

    @cached_property
    def _is_streamed(self) -> NDArray[np.bool_]:
        """bool[u] the unit is a block of a streamed transaction."""
        is_streamed = np.zeros(len(self.plan.units.xid), np.bool_)
        if self.plan.units.streamed is not None:
            is_streamed[self.plan.units.streamed.unit] = True
        return is_streamed

    @cached_property
    def _is_filtered(self) -> NDArray[np.bool_]:
        return np.array([use.filters is not None for use in self.plan.relations] + [False], np.bool_)

    @cached_property
    def _is_toast(self) -> NDArray[np.bool_]:
        return np.array([use.is_toast for use in self.plan.relations], np.bool_)

    def _chunks(self, piece: _Piece, rows: ChangeRows, files: Int64s) -> Int64s:
        of_toast = np.flatnonzero(self._is_toast[rows.resolution])
        file = np.searchsorted(files, rows.locator[of_toast])
        pairs = distinct((rows.unit[of_toast] - piece.start) * max(1, len(files)) + file).values
        return np.stack(np.divmod(pairs, max(1, len(files))))

    def _spans(self, piece: _Piece, rows: ChangeRows, files: Int64s, ranges: Ranges) -> tuple[Int64s, Int64s]:
        """Take the spans that concern a piece, by its own numbers of units, files and relations; and those relations.

        All that is read must find its span, also what lies between the rows and is not planned.
        """
        owner = np.where(self.plan.units.own[rows.unit], rows.unit, -1)
        first, last = (ranges[0][0], ranges[-1][1] - 1) if ranges else (0, 0)
        spans = self.plan.spans[:, self._span_index.in_force(owner, rows.locator.astype(np.int64), first, last)]
        used = np.unique(spans[3][spans[3] >= 0])
        spans[0, spans[0] >= 0] -= piece.start
        spans[1] = np.searchsorted(files, spans[1])
        spans[3] = np.where(spans[3] >= 0, np.searchsorted(used, spans[3]), -1)
        return np.ascontiguousarray(spans), used

    @cached_property
    def _span_index(self) -> SpanIndex:
        return SpanIndex(self.plan.spans, len(self.plan.files))


def _is_settled(cell: ChangeRows) -> bool:
    """Tell whether no file's last change up to here leaves something pending."""
    order = np.argsort(-cell.last, kind="stable")
    _, newest = np.unique(cell.locator[order], return_index=True)
    return not (cell.kinds[order[newest]] & UNSETTLED).any()


def _shares(units: Int64s, piece: _Piece) -> tuple[Int64s, slice]:
    """Give the units of a piece their numbers, from 1 on, among those of some units that are the piece's.

    It is 0 if a unit is none of them.

    Args:
        units: int64[n] sorted.
        piece: the piece.

    Returns:
        int64[u], and which of the units are the piece's.
    """
    low, high = np.searchsorted(units, [piece.start, piece.stop])
    number = np.zeros(piece.stop - piece.start, np.int64)
    number[units[low:high] - piece.start] = np.arange(1, high - low + 1)
    return number, slice(int(low), int(high))


def _bounds(streamed: StreamedUnits | None, piece: _Piece) -> dict[str, Int64s]:
    """Find where the changes of a piece's units lie: blocks have bounds of their own."""
    count = piece.stop - piece.start
    lo, hi = np.full(count, piece.lo, np.int64), np.full(count, piece.hi, np.int64)
    lo_taken, hi_taken = np.full(count, EVERY, np.int64), np.full(count, EVERY, np.int64)
    if streamed is not None:
        of = slice(*np.searchsorted(streamed.unit, [piece.start, piece.stop]))
        unit = streamed.unit[of] - piece.start
        lo_taken[unit] = np.where(piece.lo < streamed.lo[of], streamed.lo_taken[of], EVERY)
        hi_taken[unit] = np.where(piece.hi >= streamed.hi[of], streamed.hi_taken[of], EVERY)
        lo[unit], hi[unit] = np.maximum(piece.lo, streamed.lo[of]), np.minimum(piece.hi, streamed.hi[of])
    return {"lo": lo, "lo_taken": lo_taken, "hi": hi, "hi_taken": hi_taken}


def _flags(units: Units, piece: _Piece) -> Int64s:
    is_bare = units.is_bare[piece.start : piece.stop]
    flags = np.where(is_bare, BARE, 0)
    if units.streamed is not None:
        flags |= np.where(np.isin(np.arange(piece.start, piece.stop), units.streamed.unit), STREAMED, 0)
    flags |= BEGINS_HERE if piece.lo < 0 else WROTE_BEFORE if piece.follows_message else MAY_HAVE_WRITTEN
    if piece.hi == EVERYTHING:
        flags |= ENDS_HERE
    if piece.follows_cut:
        flags[: int(np.argmin(np.append(is_bare, False)))] |= WROTE_BEFORE
    return flags


def _tentative(rows: ChangeRows, is_streamed: NDArray[np.bool_], used: Int64s, piece: _Piece) -> Int64s:
    """Find where an announcement of relations with row filters goes, or may go first and last: int64[6, b].

    A streamed transaction's number may also be that of the announcement for all, from its commit on.
    """
    numbered = np.flatnonzero(rows.tentative)
    keys = np.stack([rows.tentative[numbered], is_streamed[rows.unit[numbered]]])
    groups, number = distinct_rows(keys)
    first = np.full(groups.shape[1], EVERYTHING)
    np.minimum.at(first, number, numbered)
    last = numbered[_last_of_each(rows.last[numbered], rows.unit[numbered], number)]
    plain = np.flatnonzero(rows.announce)
    low, high = (rows.take(np.append(plain, ends)) for ends in (first, last))
    relation = np.searchsorted(used, low.resolution)
    return np.stack(
        [low.unit - piece.start, low.first, relation, low.tentative, high.unit - piece.start, high.last]
    ).astype(np.int64)


def _last_of_each(last: Int64s, unit: Int64s, group: Int64s) -> Int64s:
    """Find the row of each group that reaches furthest: not always the last, as subtransactions lie amid others."""
    order = np.lexsort((last, unit, group))
    return order[np.flatnonzero(np.diff(group[order], append=-1))]


def _counted(counted: Int64s, piece: _Piece) -> Int64s:
    """Take those of a plan that are a piece's."""
    of_piece = counted[:, slice(*np.searchsorted(counted[0], [piece.start, piece.stop]))].copy()
    of_piece[0] -= piece.start
    return of_piece


def _ranges(rows: ChangeRows, places: Int64s) -> Ranges:
    """Find the stretches of WAL that hold the rows, and records at some places; near ones joined."""
    row_first, row_last = (np.concatenate([column, places]) for column in (rows.first, rows.last))
    if not len(row_first):
        return ()
    cells = distinct(row_first // READ_GAP)
    first, last = reaches(cells.number, row_first, row_last, len(cells.values))
    last = np.maximum.accumulate(last)
    cut = np.flatnonzero(first[1:] > last[:-1] + READ_GAP) + 1
    lows = first[np.concatenate([[0], cut])]
    highs = last[np.concatenate([cut - 1, [len(last) - 1]])]
    return tuple((int(low), int(high) + 1) for low, high in zip(lows, highs, strict=True))
