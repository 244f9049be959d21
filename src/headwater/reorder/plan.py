"""The commit order cut into slices of even size: what each decode task reads, keeps and announces.

In: rows of changes that are wanted, in output order, with their resolutions; events that are messages already. Out:
:class:`Slice` values, which pickle and go to Spark tasks. A slice holds whole transactions; one that is larger than a
slice is cut at lines of the LSN grid, where no TOAST chunks and no speculative insert are pending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.reorder.keys import distinct
from headwater.reorder.unit_flags import BARE, BEGINS_HERE, ENDS_HERE, WROTE_BEFORE
from headwater.rmgr.index import GRID
from headwater.rmgr.index_codes import UNSETTLED

Int64s = NDArray[np.int64]

READ_GAP = 1 << 20
"""Two stretches of WAL closer than this many bytes are read as one."""

EVERYTHING = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Units:
    """What is output, in order: transactions and non-transactional messages, u of them.

    Attributes:
        txn: int64[u] the transaction's number among the committed ones, -1 for a non-transactional message.
        xid, first_lsn, commit_lsn, end_lsn, commit_time: int64[u].
        own: bool[u] the transaction changes the catalog: its rows have resolutions of their own.
        member_xid: int64[m]; member_unit: int64[m] sorted.
    """

    txn: Int64s
    xid: Int64s
    first_lsn: Int64s
    commit_lsn: Int64s
    end_lsn: Int64s
    commit_time: Int64s
    own: NDArray[np.bool_]
    member_xid: Int64s
    member_unit: Int64s


@dataclass(frozen=True)
class ChangeRows:
    """Rows of changes to be decoded, sorted by (unit, first), n of them.

    Attributes:
        unit: int64[n]; xid: uint32[n].
        locator: int32[n] index into the plan's files; kinds: uint8[n].
        size: uint32[n] bytes; first, last: int64[n] LSNs.
        resolution: int64[n].
        wanted: bool[n] some of its changes give messages (rows of TOAST relations do not, they are read for others).
        announce: bool[n] the schema goes before its first wanted change.
    """

    unit: Int64s
    xid: NDArray[np.uint32]
    locator: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    size: NDArray[np.uint32]
    first: Int64s
    last: Int64s
    resolution: Int64s
    wanted: NDArray[np.bool_]
    announce: NDArray[np.bool_]

    def take(self, which: Int64s | slice) -> ChangeRows:
        """The rows ``which`` selects."""
        return ChangeRows(
            *(getattr(self, name)[which] for name in self.__dataclass_fields__)  # each field is one array
        )


@dataclass(frozen=True)
class Events:
    """What is neither a row change nor a schema, sorted by (unit, place), e of them.

    Attributes:
        unit: int64[e]; place: int64[e] start of the record they come from; lsn: int64[e] what the lsn column shows.
        size: int64[e] bytes of the record, if a task is to read it, else 0.
        made: int64[e] ascending: which of the messages the plugin has made of it; -1 for a logical message, which it
            makes in a task, out of the record.
        messages: the messages made of one event each, at least one.
        origin_unit: int64[o] sorted: units that announce a replication origin; origin_messages: how.
    """

    unit: Int64s
    place: Int64s
    lsn: Int64s
    size: Int64s
    made: Int64s
    messages: tuple[tuple[bytes, ...], ...]
    origin_unit: Int64s
    origin_messages: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True)
class RelationUse:
    """A relation as some changes see it.

    Attributes:
        schema: the relation.
        wants: bits of WANT_*: which of its changes give messages; 0 for a TOAST relation.
        is_toast: its rows are chunks.
        messages: what the plugin sends to announce it.
        is_decided: the plugin has said so; else it refused to, which is an error only if it is asked at this place
            (:mod:`headwater.reorder.sync`).
    """

    schema: RelationSchema
    wants: int
    is_toast: bool = False
    messages: tuple[bytes, ...] = ()
    is_decided: bool = True


@dataclass(frozen=True)
class Slice:
    """The work of one decode task.

    Attributes:
        number: place in the output.
        ranges: ``(lo, hi)`` stretches of WAL to read, LSNs, ascending; lo is a record's start.
        size: bytes of the records it is about.
        unit_xid ... unit_origin: the slice's units, one element each (see :class:`Units`; unit_flags:
            :mod:`headwater.reorder.unit_flags`); unit_origin is 1 + index
            into ``origin_messages``.
        unit_lo, unit_hi: int64[u] only changes with ``unit_lo < lsn <= unit_hi`` belong to this slice.
        member_xid, member_unit: int64[m] the xids whose changes belong to each unit.
        files: int64[f, 3] files whose changes matter.
        chunks: int64[2, k] (unit, file) pairs, sorted: the only TOAST chunks that matter. Another unit's chunks in the
            same file serve no wanted change, and the stretches need not hold them from the first on.
        spans: int64[4, s] (unit or -1 for any without catalog changes, file, from LSN, relation or -1), sorted.
        announcements: int64[3, a] (unit, LSN, relation).
        event_unit, event_place, event_lsn, event_made: int64[e] see :class:`Events`; messages: those made of them.
        relations: the relation versions.
        origin_messages: the origin announcements.
        left_out: replication origins (0: local) whose changes the plugin does not want.
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
    chunks: Int64s
    spans: Int64s
    announcements: Int64s
    event_unit: Int64s
    event_place: Int64s
    event_lsn: Int64s
    event_made: Int64s
    messages: tuple[tuple[bytes, ...], ...]
    relations: tuple[RelationUse, ...]
    origin_messages: tuple[tuple[bytes, ...], ...]
    left_out: tuple[int, ...]


@dataclass(frozen=True)
class _Piece:
    """Units ``[start, stop)``; of a cut transaction (one unit) only the changes in ``(lo, hi]``."""

    start: int
    stop: int
    lo: int = -1
    hi: int = EVERYTHING

    @property
    def is_whole(self) -> bool:
        """It holds all of its units."""
        return self.lo < 0 and self.hi == EVERYTHING


@dataclass(frozen=True)
class Plan:
    """Everything the slices are cut from.

    Attributes:
        units, rows, events: in output order.
        relations: by resolution number.
        spans: int64[4, s] (unit or -1 for all without catalog changes, file, from LSN, resolution or -1), sorted.
        files: int64[f, 3].
        grid: bytes between the LSN lines that no row crosses: the index's.
        left_out: replication origins (0: local) whose changes are among the records and are not wanted.
    """

    units: Units
    rows: ChangeRows
    events: Events
    relations: Sequence[RelationUse]
    spans: Int64s
    files: Int64s
    grid: int = GRID
    left_out: tuple[int, ...] = ()

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
        weight += np.bincount(self.events.unit, self.events.size, units)
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
        """Cut one transaction after the last wanted changes of grid cells that leave nothing pending.

        Chunks and events that follow them go to the next piece. One without such changes is cut after any event.
        """
        low, high = np.searchsorted(self.rows.unit, [unit, unit + 1])
        rows = self.rows.take(slice(low, high))
        cells = rows.first // self.grid
        bounds = np.append(np.flatnonzero(np.diff(cells, prepend=-1)), len(cells))
        lo, held = -1, 0
        if not rows.wanted.any():
            for hi in self._event_cuts(unit, target):
                yield _Piece(unit, unit + 1, lo, hi)
                lo = hi
        for start, stop in pairwise(bounds[:-1]):
            cell = rows.take(slice(start, stop))
            held += int(cell.size.sum())
            if held >= target and cell.wanted.any() and _is_settled(cell):
                hi = int(cell.last[cell.wanted].max())
                yield _Piece(unit, unit + 1, lo, hi)
                lo, held = hi, 0
        yield _Piece(unit, unit + 1, lo, EVERYTHING)

    def _event_cuts(self, unit: int, target: int) -> Iterator[int]:
        """Places of events after which so many bytes of events are full, but for the last."""
        events = slice(*np.searchsorted(self.events.unit, [unit, unit + 1]))
        full = np.cumsum(self.events.size[events]) // target
        for at in np.flatnonzero(np.diff(full)[:-1]):
            yield int(self.events.place[events][at + 1])

    def _slice(self, number: int, piece: _Piece) -> Slice:
        units, span = self.units, slice(piece.start, piece.stop)
        rows, events = self._rows(piece), self._events(piece)
        made, messages = self._made(events)
        files = distinct(rows.locator).values
        spans, used = self._spans(piece, rows, files)
        member_xid, member_unit = self._members(piece, rows)
        unit_origin, origin_messages = self._origins(piece)
        announced = rows.take(np.flatnonzero(rows.announce))
        return Slice(
            number=number,
            ranges=_ranges(rows, self.events.place[events][made < 0]),
            size=int(rows.size.sum()),
            unit_xid=units.xid[span],
            unit_first=units.first_lsn[span],
            unit_commit=units.commit_lsn[span],
            unit_end=units.end_lsn[span],
            unit_time=units.commit_time[span],
            unit_flags=_flags(units.txn[span], piece),
            unit_own=units.own[span],
            unit_origin=unit_origin,
            unit_lo=np.full(piece.stop - piece.start, piece.lo, np.int64),
            unit_hi=np.full(piece.stop - piece.start, piece.hi, np.int64),
            member_xid=member_xid,
            member_unit=member_unit,
            files=self.files[files],
            chunks=self._chunks(piece, rows, files),
            spans=spans,
            announcements=np.stack(
                [announced.unit - piece.start, announced.first, np.searchsorted(used, announced.resolution)]
            ),
            event_unit=self.events.unit[events] - piece.start,
            event_place=self.events.place[events],
            event_lsn=self.events.lsn[events],
            event_made=made,
            messages=messages,
            relations=tuple(self.relations[i] for i in used),
            origin_messages=origin_messages,
            left_out=self.left_out,
        )

    def _rows(self, piece: _Piece) -> ChangeRows:
        """The rows of a piece. A cut transaction's: no row crosses the grid, so few need a look."""
        low, high = np.searchsorted(self.rows.unit, [piece.start, piece.stop])
        if piece.is_whole:
            return self.rows.take(slice(low, high))
        first = self.rows.first[low:high]
        near = [max(0, piece.lo) // self.grid * self.grid, min(piece.hi, EVERYTHING - 1) + 1]
        start, stop = np.searchsorted(first, near) + low
        rows = self.rows.take(slice(start, stop))
        return rows.take(np.flatnonzero(rows.last > piece.lo))

    def _events(self, piece: _Piece) -> slice:
        low, high = np.searchsorted(self.events.unit, [piece.start, piece.stop])
        if piece.is_whole:
            return slice(low, high)
        start, stop = np.searchsorted(self.events.place[low:high], [piece.lo, piece.hi], "right") + low
        return slice(start, stop)

    def _made(self, events: slice) -> tuple[Int64s, tuple[tuple[bytes, ...], ...]]:
        """Which messages the plugin has made of each of these events, and these messages."""
        made = self.events.made[events]
        numbers = made[made >= 0]
        if not len(numbers):
            return made, ()
        first = int(numbers[0])
        return np.where(made >= 0, made - first, -1), self.events.messages[first : int(numbers[-1]) + 1]

    def _members(self, piece: _Piece, rows: ChangeRows) -> tuple[Int64s, Int64s]:
        """The xids whose changes belong to each unit; of a cut transaction those that occur."""
        if not piece.is_whole:
            xids = distinct(rows.xid).values
            return xids, np.zeros(len(xids), np.int64)
        low, high = np.searchsorted(self.units.member_unit, [piece.start, piece.stop])
        return self.units.member_xid[low:high], self.units.member_unit[low:high] - piece.start

    def _origins(self, piece: _Piece) -> tuple[Int64s, tuple[tuple[bytes, ...], ...]]:
        low, high = np.searchsorted(self.events.origin_unit, [piece.start, piece.stop])
        unit_origin = np.zeros(piece.stop - piece.start, np.int64)
        unit_origin[self.events.origin_unit[low:high] - piece.start] = np.arange(1, high - low + 1)
        return unit_origin, self.events.origin_messages[low:high]

    @cached_property
    def _is_toast(self) -> NDArray[np.bool_]:
        return np.array([use.is_toast for use in self.relations], np.bool_)

    def _chunks(self, piece: _Piece, rows: ChangeRows, files: Int64s) -> Int64s:
        of_toast = np.flatnonzero(self._is_toast[rows.resolution])
        file = np.searchsorted(files, rows.locator[of_toast])
        pairs = distinct((rows.unit[of_toast] - piece.start) * max(1, len(files)) + file).values
        return np.stack(np.divmod(pairs, max(1, len(files))))

    def _spans(self, piece: _Piece, rows: ChangeRows, files: Int64s) -> tuple[Int64s, Int64s]:
        """The spans that concern a piece, by its own numbers of units, files and relations; and those relations."""
        common, low, high = np.searchsorted(self.spans[0], [0, piece.start, piece.stop])
        shared = self.spans[:, _in_groups(self.spans[1, :common], files)]
        own = self.spans[:, low:high]
        spans = np.concatenate([_in_force(shared, rows), own[:, np.isin(own[1], files)]], axis=1)
        used = np.unique(spans[3][spans[3] >= 0])
        spans[0, spans[0] >= 0] -= piece.start
        spans[1] = np.searchsorted(files, spans[1])
        spans[3] = np.where(spans[3] >= 0, np.searchsorted(used, spans[3]), -1)
        return np.ascontiguousarray(spans), used


def _is_settled(cell: ChangeRows) -> bool:
    """Whether no file's last change up to here leaves something pending."""
    order = np.argsort(-cell.last, kind="stable")
    _, newest = np.unique(cell.locator[order], return_index=True)
    return not (cell.kinds[order[newest]] & UNSETTLED).any()


def _in_groups(keys: Int64s, wanted: Int64s) -> Int64s:
    """Places of all elements of the sorted ``keys`` that are among the sorted ``wanted``."""
    low = np.searchsorted(keys, wanted)
    counts = np.searchsorted(keys, wanted, "right") - low
    return np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def _in_force(spans: Int64s, rows: ChangeRows) -> Int64s:
    """Spans of files without those that ended before the first row or begin after the last."""
    if not len(rows.first):
        return spans[:, :0]
    next_lsn = np.full(spans.shape[1], EVERYTHING)
    same = spans[1, 1:] == spans[1, :-1]
    next_lsn[:-1][same] = spans[2, 1:][same]
    return spans[:, (next_lsn > rows.first.min()) & (spans[2] <= rows.last.max())]


def _flags(txn: Int64s, piece: _Piece) -> Int64s:
    flags = np.where(txn < 0, BARE, 0)
    flags |= BEGINS_HERE if piece.lo < 0 else WROTE_BEFORE
    if piece.hi == EVERYTHING:
        flags |= ENDS_HERE
    return flags


def _ranges(rows: ChangeRows, places: Int64s) -> tuple[tuple[int, int], ...]:
    """The stretches of WAL that hold the rows, and records at some places; near ones joined."""
    row_first, row_last = (np.concatenate([column, places]) for column in (rows.first, rows.last))
    if not len(row_first):
        return ()
    cells = distinct(row_first // READ_GAP)
    first, last = np.full(len(cells.values), EVERYTHING), np.zeros(len(cells.values), np.int64)
    np.minimum.at(first, cells.number, row_first)
    np.maximum.at(last, cells.number, row_last)
    last = np.maximum.accumulate(last)
    cut = np.flatnonzero(first[1:] > last[:-1] + READ_GAP) + 1
    lows = first[np.concatenate([[0], cut])]
    highs = last[np.concatenate([cut - 1, [len(last) - 1]])]
    return tuple((int(low), int(high) + 1) for low, high in zip(lows, highs, strict=True))
