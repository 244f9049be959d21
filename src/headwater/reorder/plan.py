"""The plan of what is decoded: units in output order, their changes and events, relations; and one task's share of it.

Values only: :class:`Plan` is the whole. :mod:`headwater.reorder.slices.cutting` cuts it into :class:`Slice` values,
which pickle and go to Spark tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import MAY_BE_CONSTANT, taken
from headwater.catalog.relation import RelationSchema, RowFilters
from headwater.reorder.announced_schemas import NOTHING_BEFORE, LastOutput
from headwater.reorder.wanted_changes import certain_wants
from headwater.rmgr.index.wal_index import GRID

Int64s = NDArray[np.int64]

Ranges = tuple[tuple[int, int], ...]
"""Stretches of WAL ``(lo, hi)``, LSNs."""


@dataclass(frozen=True)
class Units:
    """The units of the output, in order: transactions and non-transactional messages, u of them.

    Attributes:
        txn: int64[u] the number of the replay, -1 for a non-transactional message.
        is_bare: bool[u] it is nothing but an event: such a message, or COMMIT or ROLLBACK PREPARED.
        xid, first_lsn, commit_lsn, end_lsn, commit_time: int64[u].
        own: bool[u] the transaction changes the catalog: its rows have resolutions of their own.
        member_xid: int64[m]; member_unit: int64[m] sorted: of all but blocks of streamed transactions.
        streamed: the units that are such blocks; None if none is.
    """

    txn: Int64s
    is_bare: NDArray[np.bool_]
    xid: Int64s
    first_lsn: Int64s
    commit_lsn: Int64s
    end_lsn: Int64s
    commit_time: Int64s
    own: NDArray[np.bool_]
    member_xid: Int64s
    member_unit: Int64s
    streamed: StreamedUnits | None = None


@dataclass(frozen=True)
class StreamedUnits:
    """Units that are blocks of streamed transactions, s of them; see ``reorder.commits.stream_rules.Blocks``.

    Attributes:
        unit: int64[s] sorted.
        lo, lo_taken, hi, hi_taken: int64[s] where each begins, and ends.
    """

    unit: Int64s
    lo: Int64s
    lo_taken: Int64s
    hi: Int64s
    hi_taken: Int64s


@dataclass(frozen=True)
class ChangeRows:
    """Rows of changes to be decoded, sorted by (unit, first), n of them.

    Attributes:
        unit: int64[n]; xid: uint32[n].
        locator: int32[n] index into the plan's files; kinds: uint8[n].
        size: uint32[n] bytes; first: int64[n] LSN; span: uint32[n] bytes from there to the last change.
        resolution: int64[n].
        wanted: bool[n] some of its changes give messages (rows of TOAST relations do not, they are read for others).
        announce: bool[n] the schema goes before its first wanted change.
        tentative: int64[n] the announcement that one of its changes may begin with, if none before it did; 0 for none.
    """

    unit: Int64s
    xid: NDArray[np.uint32]
    locator: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    size: NDArray[np.uint32]
    first: Int64s
    span: NDArray[np.uint32]
    resolution: Int64s
    wanted: NDArray[np.bool_]
    announce: NDArray[np.bool_]
    tentative: Int64s = field(metadata=MAY_BE_CONSTANT)

    def take(self, which: Int64s | slice) -> ChangeRows:
        """Return the rows ``which`` selects."""
        return ChangeRows(
            *(taken(getattr(self, name), which) for name in self.__dataclass_fields__)  # each field is one array
        )

    @property
    def last(self) -> Int64s:
        """int64[n] LSN of the row's last change."""
        return self.first + self.span


@dataclass(frozen=True)
class Announcements:
    """The touches, of n, before which the schema goes.

    Attributes:
        sends: bool[n] before its first wanted change, or that which row filters let pass.
        tentative: int64[n] the number of the announcement that may go before one of its changes: if no change before it
            that shares the number has given a message; 0 for none.
    """

    sends: NDArray[np.bool_]
    tentative: Int64s = field(metadata=MAY_BE_CONSTANT)

    @classmethod
    def certain(cls, sends: NDArray[np.bool_]) -> Announcements:
        """Make announcements none of which is tentative."""
        return cls(sends, np.broadcast_to(np.zeros(1, np.int64), len(sends)))

    @classmethod
    def of(cls, count: int, which: Int64s, sends: NDArray[np.bool_], tentative: Int64s) -> Announcements:
        """Make those of ``count`` touches, of which ``which`` are asked about: before the others no schema goes."""
        before = np.zeros(count, np.bool_)
        before[which] = sends
        if not tentative.any():
            return cls.certain(before)
        numbers = np.zeros(count, np.int64)
        numbers[which] = tentative
        return cls(before, numbers)

    def take(self, which: Int64s | slice) -> Announcements:
        """Return the announcements of some touches."""
        return Announcements(self.sends[which], taken(self.tentative, which))

    def spread(self, count: int, which: Int64s | slice) -> Announcements:
        """Return the announcements of more touches, of which these are some."""
        return self if isinstance(which, slice) else Announcements.of(count, which, self.sends, self.tentative)


@dataclass(frozen=True)
class Events:
    """The events that are neither a row change nor a schema, sorted by (unit, order), e of them.

    Attributes:
        unit: int64[e]; place: int64[e] start of the record they come from; lsn: int64[e] what the lsn column shows.
        order: int64[e] where they come: after changes that begin up to there. That is their place, but for a logical
            message that the server takes after the change that follows it.
        size: int64[e] bytes of the record, if a task is to read it, else 0.
        made: int64[e] ascending: the number of the messages that the plugin has made of it; -1 for a logical message,
            which it makes in a task, out of the record.
        messages: the messages made of one event each, at least one.
        tentative: int64[e] the announcement that its messages are, unless it was made before; 0 for none.
        origin_unit: int64[o] sorted: units that announce a replication origin; origin_messages: how.
        frame_unit: int64[f] sorted: units that begin, or end, otherwise than the plugin's transactions do;
            frames: the messages for both, none where it begins as those do.
    """

    unit: Int64s
    place: Int64s
    order: Int64s
    lsn: Int64s
    size: Int64s
    made: Int64s
    messages: tuple[tuple[bytes, ...], ...]
    tentative: Int64s
    origin_unit: Int64s
    origin_messages: tuple[tuple[bytes, ...], ...]
    frame_unit: Int64s
    frames: tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...]


@dataclass(frozen=True)
class RelationUse:
    """A relation as some changes see it.

    Attributes:
        schema: the relation.
        wants: bits of WANT_*: the kinds of its changes that give messages; 0 for a TOAST relation.
        is_toast: its rows are chunks.
        messages: the messages that the plugin sends to announce it.
        is_decided: the plugin has said so; else it refused to, which is an error only if it is asked at this place
            (:mod:`headwater.reorder.announcing.relation_sync`).
        filters: they decide which of its wanted changes give messages; None for all.
    """

    schema: RelationSchema
    wants: int
    is_toast: bool = False
    messages: tuple[bytes, ...] = ()
    is_decided: bool = True
    filters: RowFilters | None = None

    @property
    def certain(self) -> int:
        """Bits of WANT_* of changes that give messages, whatever is in their rows."""
        return certain_wants(self.wants, self.filters)


@dataclass(frozen=True)
class SliceUnits:
    """The units of a slice, u of them; what is not explained is as in :class:`Units`.

    Attributes:
        xid, first_lsn, commit_lsn, end_lsn, commit_time: int64[u]; own: bool[u].
        last_end, last_time: int64[u] where what is output before the unit ended, and the time of the last transaction
            before it; -1 and NO_TIME for none that is known.
        flags: int64[u] :mod:`headwater.reorder.unit_flags`.
        lo, hi: int64[u] only changes with ``lo < lsn <= hi`` belong to this slice; and of the record at ``lo`` those
            from number ``lo_taken`` on, of that at ``hi`` those before ``hi_taken``: both int64[u].
        member_xid, member_unit: int64[m] the xids whose changes belong to each unit.
        origin: int64[u] 1 + index into ``origin_messages``, the origin announcements; 0 for none.
        frame: int64[u] 1 + index into ``frames`` (see :class:`Events`), 0 for a unit that begins and ends as the
            plugin's transactions do.
    """

    xid: Int64s
    first_lsn: Int64s
    commit_lsn: Int64s
    end_lsn: Int64s
    commit_time: Int64s
    own: NDArray[np.bool_]
    last_end: Int64s
    last_time: Int64s
    flags: Int64s
    lo: Int64s
    lo_taken: Int64s
    hi: Int64s
    hi_taken: Int64s
    member_xid: Int64s
    member_unit: Int64s
    origin: Int64s
    origin_messages: tuple[tuple[bytes, ...], ...]
    frame: Int64s
    frames: tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...]


@dataclass(frozen=True)
class SliceEvents:
    """The events of a slice: see :class:`Events`; ``messages`` are those made of them, ``made`` counts from the first.

    Attributes:
        unit, place, order, lsn, made, tentative: int64[e].
        messages: the messages made of one event each.
    """

    unit: Int64s
    place: Int64s
    order: Int64s
    lsn: Int64s
    made: Int64s
    tentative: Int64s
    messages: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True)
class Slice:
    """The work of one decode task.

    Attributes:
        number: place in the output.
        ranges: ``(lo, hi)`` stretches of WAL to read, LSNs, ascending; lo is a record's start.
        size: bytes of the records it is about.
        units, events: the slice's.
        files: int64[f, 3] files whose changes matter.
        chunks: int64[2, k] (unit, file) pairs, sorted: the only TOAST chunks that matter. Another unit's chunks in the
            same file serve no wanted change, and the stretches need not hold them from the first on.
        spans: int64[4, s] (unit or -1 for any without catalog changes, file, from LSN, relation or -1), sorted.
        announcements: int64[3, a] (unit, LSN, relation): its first change from there on is announced.
        tentative: int64[6, b] (unit, LSN, relation, number of the announcement or 0, unit, LSN): so is the first one up
             to the second place that row filters let pass, if there is any. It lies in blocks of the same transaction
             or in no block. With a number, unless it was announced in a slice before.
        counted: int64[3, c] see :class:`Plan`.
        relations: the relation versions.
        left_out: replication origins (0: local) whose changes the plugin does not want.
    """

    number: int
    ranges: Ranges
    size: int
    units: SliceUnits
    events: SliceEvents
    files: Int64s
    chunks: Int64s
    spans: Int64s
    announcements: Int64s
    tentative: Int64s
    counted: Int64s
    relations: tuple[RelationUse, ...]
    left_out: tuple[int, ...]


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
        cuts_transactions, leads_messages: what the plugin says of slices (``PluginTraits``).
        follows_many: with ``leads_messages``, the last transaction before gave more than one message of changes.
        counted: int64[3, n] (unit, number, number): from this end of a streamed transaction on an announcement of the
            first number counts as one of the second; sorted.
        before: the output before all of this, if that is known.
    """

    units: Units
    rows: ChangeRows
    events: Events
    relations: Sequence[RelationUse]
    spans: Int64s
    files: Int64s
    grid: int = GRID
    left_out: tuple[int, ...] = ()
    cuts_transactions: bool = True
    leads_messages: bool = False
    follows_many: bool = False
    counted: Int64s = field(default_factory=lambda: np.empty((3, 0), np.int64))
    before: LastOutput = NOTHING_BEFORE

    @cached_property
    def last(self) -> LastOutput:
        """The last output."""
        units = self.units
        times = units.commit_time[~units.is_bare]
        return LastOutput(
            int(units.end_lsn[-1]) if len(units.end_lsn) else self.before.end,
            int(times[-1]) if len(times) else self.before.time,
        )
