"""The changes of one slice, picked out of the WAL it names and put in output order.

In: a :class:`~headwater.reorder.plan.Slice` and framed records, stretch by stretch, of which those of its ranges are
looked at. Out: :class:`Items` with their tuples, transactions and literals for the plugin. One pass over the records;
nothing is allocated per record but of logical messages. Of a stretch nothing stays in memory but planned changes,
however long the ranges are. Several slices can be given the same stretches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError, RecordError
from headwater.reorder.plan import Ranges, RelationUse, Slice
from headwater.reorder.unit_flags import STREAMED
from headwater.rmgr.header_slots import header_scratch
from headwater.rmgr.index.kept_records import KeptRecord
from headwater.rmgr.locator_hash import locator_hash
from headwater.rmgr.registry import LOGICALMSG
from headwater.rows.collect import _by_transaction as _grouping
from headwater.rows.collect import _collect
from headwater.rows.collect import _collect_tables as k
from headwater.rows.collect._page_tuples import PAGE
from headwater.rows.items import Items, Literals, Transactions
from headwater.wal.layout import RMID_AT
from headwater.wal.records.frames import Frames
from headwater.wal.records.record import parse_record

_MAIN_FORK = 0

_RECORD_BYTES = 64
"""Most records of changes are longer: the first guess of how many items there will be."""


@dataclass(frozen=True)
class SliceChanges:
    """The changes that a plugin renders.

    Attributes:
        tuples: uint8[] the tuples that the items refer to.
        items: changes and literals in output order; transactions: theirs; literals: messages made before.
        relations: the relation versions that items use.
        place: int64[n] start of the record that each item is of.
    """

    tuples: NDArray[np.uint8]
    items: Items
    transactions: Transactions
    literals: Literals
    relations: tuple[RelationUse, ...]
    place: NDArray[np.int64]


MakeMessages = Callable[[KeptRecord, int], Sequence[bytes]]
"""Makes a plugin's messages of the record of a logical message, in a streamed block of this xid's if it is not 0."""


class Collector:
    """A collector of a slice's changes out of its records.

    Args:
        plan: the slice.
        make: makes the plugin's messages of a logical message.
        major: PostgreSQL's.
        is_logical: all WAL is of wal_level logical; else tuples may lie in page images, or not be there.
    """

    def __init__(self, plan: Slice, make: MakeMessages, major: int, is_logical: bool = True) -> None:
        self._plan = plan
        self._order = np.argsort(plan.events.order, kind="stable")
        self._scan = _Scan(plan, _wanted(plan, self._order, is_logical), major)
        self._said = _LogicalMessages(plan, make)

    def add(self, frames: Frames) -> None:
        """Take one stretch of records; they come in LSN order, and others than the slice's may be among them.

        Raises:
            RecordError: a record is malformed.
            DecodingError: the records contradict the plan.
        """
        for part in _within(frames, self._plan.ranges):
            self._scan.add(part)
            self._said.add(part)

    def finish(self) -> SliceChanges:
        """Return the changes, in output order, once all stretches are in.

        Raises:
            DecodingError: the records contradict the plan.
        """
        plan = self._plan
        raw, count = self._scan.finish()
        grouped, transactions = _group(plan, raw, count)
        missing = _grouping.announce(
            np.ascontiguousarray(plan.announcements), transactions.item_start, transactions.item_end, grouped
        )
        if missing >= 0:
            raise DecodingError("a planned change is not in the WAL any more", lsn=int(plan.announcements[1, missing]))
        items, used = _items(grouped, len(plan.relations))
        relations = tuple(plan.relations[i] for i in np.flatnonzero(used >= 0))
        literals = _literals(plan, self._order, self._said.finish())
        return SliceChanges(self._scan.tuples, items, transactions, literals, relations, grouped.place)


def _within(frames: Frames, ranges: Ranges) -> Iterator[Frames]:
    """Give the records that start in a slice's ranges: between them a slice knows no relations."""
    if not len(frames.lsns):
        return
    for lo, hi in ranges:
        if lo <= frames.lsns[-1] and hi > frames.lsns[0]:
            start, stop = np.searchsorted(frames.lsns, [lo, hi])
            yield frames.part(int(start), int(stop))


def _wanted(plan: Slice, order: NDArray[np.int64], is_logical: bool) -> k.Wanted:
    units, events = plan.units, plan.events
    left_out = np.zeros(1 << 16, np.bool_)
    left_out[list(plan.left_out)] = True
    slots, slot_xids, next_member = _member_hash(units.member_xid)
    files = np.ascontiguousarray(plan.files.T.reshape(3, -1))
    return k.Wanted(
        slots=slots,
        slot_xids=slot_xids,
        member_unit=units.member_unit,
        next_member=next_member,
        unit_lo=units.lo,
        unit_lo_taken=units.lo_taken,
        unit_hi=units.hi,
        unit_hi_taken=units.hi_taken,
        unit_own=units.own,
        files=files,
        file_slots=locator_hash(files, files.shape[1]),
        chunks=plan.chunks[0] * files.shape[1] + plan.chunks[1],
        spans=plan.spans,
        wants=np.array([use.wants for use in plan.relations], np.int64),
        toasts=np.array([use.is_toast for use in plan.relations], np.bool_),
        event_unit=events.unit[order],
        event_order=events.order[order],
        event_lsn=events.lsn[order],
        left_out=left_out,
        is_logical=is_logical,
    )


class _Scan:
    """The pass over the records of a slice: raw items and their tuples, in arrays that grow."""

    def __init__(self, plan: Slice, wanted: k.Wanted, major: int) -> None:
        units = len(plan.units.xid)
        self._wanted = wanted
        self._work = k.Work(
            headers=header_scratch(major),
            parked=np.full(units, -1, np.int64),
            pending=np.zeros(units, np.bool_),
            state=np.zeros(k.STATE_SIZE, np.int64),
            tuples=np.empty(plan.size, np.uint8),
            pages=np.zeros(0 if wanted.is_logical else 2 * PAGE, np.uint8),
        )
        self._major = major
        self._raw = np.empty((plan.size // _RECORD_BYTES + len(wanted.event_lsn) + 1024, k.COLUMNS), np.int64)

    @property
    def tuples(self) -> NDArray[np.uint8]:
        """The tuples so far."""
        return self._work.tuples[: self._work.state[k.USED]]

    def add(self, frames: Frames) -> None:
        """Pick the changes out of one stretch."""
        state = self._work.state
        state[k.RECORD] = 0
        while status := _collect.collect_items(
            frames.data, frames.positions, frames.lsns, self._wanted, self._work, self._raw
        ):
            record = int(state[k.RECORD])
            if status > 0:
                raise _scan_error(status, int(frames.lsns[record]))
            if status == k.NEED_PAGES:
                self._load_pages(
                    KeptRecord(int(frames.lsns[record]), int(frames.end_lsns[record]), frames.record(record))
                )
                continue
            self._make_room(status, frames.length(record))

    def _load_pages(self, kept_record: KeptRecord) -> None:
        """Restore the page images of a record; the old tuple lies on the new one's page if no other one is named.

        The second page that is named may also be one of the visibility map.
        """
        record, pages, state = (
            parse_record(kept_record.data, kept_record.lsn, kept_record.end_lsn, self._major),
            self._work.pages,
            self._work.state,
        )
        new, other = record.block(0), record.block(1)
        old = new if other is None or other.fork != _MAIN_FORK else other
        for page, has, block in ((k.NEW, k.HAS_NEW, new), (k.OLD, k.HAS_OLD, old)):
            image = None if block is None else block.image
            state[has] = image is not None
            if image is not None:
                pages[page * PAGE : (page + 1) * PAGE] = np.frombuffer(image.page(), np.uint8)
        state[k.PAGES_OF] = kept_record.lsn

    def finish(self) -> tuple[NDArray[np.int64], int]:
        """Return the raw items and their number, once all stretches are in."""
        while status := _collect.push_rest(self._wanted, self._work, self._raw):
            self._make_room(status, 0)
        return self._raw, int(self._work.state[k.ITEMS])

    def _make_room(self, status: int, record: int) -> None:
        """Lengthen the full array; the next record is given in bytes."""
        if status == k.NEED_SPACE:
            longer_raw = np.empty((2 * len(self._raw) + 65536, k.COLUMNS), np.int64)
            longer_raw[: len(self._raw)] = self._raw
            self._raw = longer_raw
        else:
            longer = np.empty(2 * len(self._work.tuples) + record, np.uint8)
            longer[: len(self.tuples)] = self.tuples
            self._work = self._work._replace(tuples=longer)


class _LogicalMessages:
    """The plugin's messages of logical messages, made as their records come by."""

    def __init__(self, plan: Slice, make: MakeMessages) -> None:
        units, events = plan.units, plan.events
        which = np.flatnonzero(events.made < 0)
        self._events = which[np.argsort(events.place[which], kind="stable")]
        unit = events.unit[self._events]
        self._places = events.place[self._events]
        self._streamed = np.where(units.flags[unit] & STREAMED, units.xid[unit], 0).tolist()
        self._make = make
        self._made: list[Sequence[bytes]] = []

    def add(self, frames: Frames) -> None:
        """Make those of one stretch."""
        if not len(frames.lsns):
            return
        places = self._places[slice(*np.searchsorted(self._places, [frames.lsns[0], frames.lsns[-1] + 1]))]
        for at in np.searchsorted(frames.lsns, places).tolist():
            record = KeptRecord(int(frames.lsns[at]), int(frames.end_lsns[at]), frames.record(at))
            if record.lsn != self._places[len(self._made)] or record.data[RMID_AT] != LOGICALMSG:
                break
            self._made.append(self._make(record, self._streamed[len(self._made)]))

    def finish(self) -> dict[int, Sequence[bytes]]:
        """Return all of the messages, by event.

        Raises:
            DecodingError: one was not among the records.
        """
        if len(self._made) < len(self._places):
            missing = int(self._places[len(self._made)])
            raise DecodingError("a planned logical message is not in the WAL any more", lsn=missing)
        return dict(zip(self._events.tolist(), self._made, strict=True))


def _scan_error(status: int, lsn: int) -> RecordError | DecodingError:
    if status == k.UNCONFIRMED:
        return DecodingError("invalid ordering of speculative insertion changes", lsn=lsn)
    return RecordError("malformed heap record: its lengths disagree", lsn=lsn)


def _member_hash(xids: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Build the hash from xids to members, and from each member to the next one of its xid, empty if no xid has two."""
    size = 1 << int(2 * len(xids) + 1).bit_length()
    slots, keys, following = np.full(size, -1, np.int32), np.zeros(size, np.int64), np.empty(len(xids), np.int64)
    has_several = _collect.fill_members(xids, slots, keys, following)
    return slots, keys, following if has_several else following[:0]


def _group(plan: Slice, raw: NDArray[np.int64], count: int) -> tuple[_grouping.Grouped, Transactions]:
    units = plan.units
    start, end = np.empty((2, len(units.xid)), np.int64)
    grouped = _grouping.Grouped(
        kind=np.empty(count, np.uint8),
        txn=np.empty(count, np.int32),
        xid=np.empty(count, np.uint32),
        lsn=np.empty(count, np.int64),
        layout=np.empty(count, np.int32),
        new_at=np.empty(count, np.int64),
        new_len=np.empty(count, np.int32),
        old_at=np.empty(count, np.int64),
        old_len=np.empty(count, np.int32),
        flags=np.empty(count, np.uint8),
        place=np.empty(count, np.int64),
    )
    _grouping.group_items(raw, count, start, end, grouped)
    transactions = Transactions(
        xid=units.xid.astype(np.uint32),
        first_lsn=units.first_lsn,
        commit_lsn=units.commit_lsn,
        end_lsn=units.end_lsn,
        commit_time=units.commit_time,
        last_end=units.last_end,
        last_time=units.last_time,
        item_start=start,
        item_end=end,
        flags=units.flags.astype(np.uint8),
        origin=np.where(units.origin > 0, units.origin + len(plan.events.unit), 0).astype(np.int32),
        begin=_frame_literals(plan, 0),
        end=_frame_literals(plan, 1),
    )
    return grouped, transactions


def _frame_literals(plan: Slice, side: int) -> NDArray[np.int32]:
    """Return 1 + the literal that each unit begins (side 0) or ends with, 0 for none: int32[u]."""
    units = plan.units
    first = len(plan.events.unit) + len(units.origin_messages)
    has_any = np.array([False, *(bool(frame[side]) for frame in units.frames)], np.bool_)
    literal = first + 2 * (units.frame - 1) + side + 1
    return np.where(has_any[units.frame], literal, 0).astype(np.int32)


def _items(grouped: _grouping.Grouped, relations: int) -> tuple[Items, NDArray[np.int64]]:
    """Return the items, and the new number of each relation version: only those whose rows are printed have one."""
    used = np.zeros(relations, np.int64)
    _grouping.number_layouts(grouped.kind, grouped.layout, used)
    items = Items(
        kind=grouped.kind,
        txn=grouped.txn,
        xid=grouped.xid,
        lsn=grouped.lsn,
        layout=grouped.layout,
        new_at=grouped.new_at,
        new_len=grouped.new_len,
        old_at=grouped.old_at,
        old_len=grouped.old_len,
        flags=grouped.flags,
    )
    return items, used


def _literals(plan: Slice, order: NDArray[np.int64], said_by_event: Mapping[int, Sequence[bytes]]) -> Literals:
    """Lay out the literals.

    Literal i is event ``order[i]``; origin announcements, and frames, follow. Logical messages come by event.
    """
    made_numbers = plan.events.made.tolist()
    groups = [
        plan.events.messages[made_numbers[event]] if made_numbers[event] >= 0 else said_by_event[event]
        for event in order.tolist()
    ]
    groups += [*plan.units.origin_messages, *(messages for frame in plan.units.frames for messages in frame)]
    messages = [message for group in groups for message in group]
    first = np.cumsum([0] + [len(group) for group in groups])
    offsets = np.cumsum([0] + [len(message) for message in messages])
    data = np.frombuffer(b"".join(messages) or b"\0", np.uint8)
    return Literals(first.astype(np.int64), offsets.astype(np.int64), data)
