"""Pieces of a slot's stream made into slices of changes, whose values are text.

In: messages one after the other (:mod:`headwater.remote_slots._message_parts`), in any pieces, in their order. Out: a
:class:`PrintedSlice` of each, which rows and tables are made of as of a slice that was decoded from WAL.

What a reader remembers from piece to piece is the transaction that goes on, and what relations are.

PostgreSQL: proto.c; known gap: options of TRUNCATE (CASCADE, RESTART IDENTITY) are not kept, as changes have no place
for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.errors import DecodingError
from headwater.pipeline.slices.decode_job import LocatedSlice
from headwater.plugins.api import WANT_ALL
from headwater.plugins.rows.row_messages import truncate_message
from headwater.remote_slots import _message_parts as _m
from headwater.remote_slots.announced_relations import AnnouncedRelations, unannounced
from headwater.reorder.plan import RelationUse
from headwater.rows.collect.collect import SliceChanges
from headwater.rows.items import Cells, Items, Literals, Transactions
from headwater.rows.session import SessionSettings
from headwater.rows.tuples.layout import compile_layouts
from headwater.rows.tuples.render import LocatedCells, PrintedTuples


class Begun(NamedTuple):
    """Transactions, t of them.

    Attributes:
        commit_lsn: int64[t] START of the commit record; commit_time: int64[t] microseconds since 2000.
        xid: uint32[t] their own.
        origin: names of their origins, by their numbers; without those that have none.
    """

    commit_lsn: NDArray[np.int64]
    commit_time: NDArray[np.int64]
    xid: NDArray[np.uint32]
    origin: dict[int, bytes]

    def last(self) -> Begun:
        """Return the last one alone."""
        at = len(self.xid) - 1
        origin = {0: self.origin[at]} if at in self.origin else {}
        return Begun(self.commit_lsn[at:], self.commit_time[at:], self.xid[at:], origin)


@dataclass(frozen=True)
class PrintedSlice(LocatedSlice):
    """Changes whose values are text.

    Attributes:
        before: how many items of the record of the first one were in slices before.
    """

    before: int = 0

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """See :class:`~headwater.pipeline.slices.decode_job.LocatedSlice`; also of what was in slices before."""
        numbers = super().numbers.copy()
        items = self.changes.items
        if self.before and len(items.lsn):
            same = (items.lsn == items.lsn[0]) & (items.txn == items.txn[0])
            numbers[: int(np.argmin(same)) if not same.all() else len(same)] += self.before
        return numbers

    @override
    def cells(self) -> Cells:
        """Return the values as they are."""
        new_first, old_first, cells, data, _ = self.located
        return Cells(new_first, old_first, cells.kinds, cells.starts, cells.lengths, data)


Wants = Callable[[RelationSchema], bool]


class SliceReader:
    """A reader of a slot's stream.

    Args:
        relations: what was announced; grows.
        wants: tells whether changes of a relation are wanted.
        session: settings that the text was printed under.
    """

    def __init__(self, relations: AnnouncedRelations, wants: Wants, session: SessionSettings) -> None:
        self.relations, self.wants, self.session = relations, wants, session
        self.layouts = compile_layouts([], session)
        self.begin_session()

    def begin_session(self) -> None:
        """Note that what comes is of a new session: outside of a transaction, with nothing announced."""
        self.open: Begun | None = None
        self.last, self.of_last = (-1, -1), 0
        self.relations.forget_current()

    def used(self, pieces: Iterable[NDArray[np.uint8]]) -> list[RelationSchema]:
        """Return the versions of relations that pieces have changes of; what is remembered stays as it is.

        Raises:
            HeadwaterError: as :meth:`read`.
        """
        current = dict(self.relations.current)
        try:
            numbers: set[int] = set()
            for data in pieces:
                numbers |= _Piece(self, data).used()
        finally:
            self.relations.current = current
        schemas = [self.relations.versions[number].schema for number in sorted(numbers)]
        return [schema for schema in schemas if self.wants(schema)]

    def read(self, data: NDArray[np.uint8]) -> PrintedSlice:
        """Read a piece.

        Raises:
            DecodingError: it is malformed.
            CatalogError: the server does not have a type any more that is in it.
            ConnectionLostError: the server cannot be asked for types.
        """
        return _Piece(self, data).slice()


_NOT_RARE = np.frombuffer(b"IUDBCY", np.uint8)

Arrays = tuple[
    NDArray[np.uint8],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.uint8],
    NDArray[np.int64],
    NDArray[np.int64],
]
"""Items: kinds, transactions, LSNs, layouts, flags, first cells of new and old tuples."""


class _Piece:
    """A piece that is read."""

    def __init__(self, reader: SliceReader, data: NDArray[np.uint8]) -> None:
        self.reader, self.relations, self.data = reader, reader.relations, data
        count = int(_m.count_messages(data))
        if count < 0:
            raise DecodingError("a piece of a slot's stream is not made of whole messages")
        self.kind, self.lsn = np.empty(count, np.uint8), np.empty(count, np.int64)
        self.start, self.end = np.empty(count, np.int64), np.empty(count, np.int64)
        _m.find_messages(data, self.kind, self.start, self.end, self.lsn)
        self.announced, self.literal = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        self.literals: list[list[bytes]] = []
        self.truncated: set[int] = set()

    def used(self) -> set[int]:
        """Return the numbers of versions that have changes, or are truncated."""
        before = dict(self.relations.current)
        self._take_rare(None)
        _, used = self._counted(*self._current(before))
        return {*np.flatnonzero(used).tolist(), *self.truncated}

    def slice(self) -> PrintedSlice:
        """Read it."""
        reader, before = self.reader, dict(self.relations.current)
        begun = self._begun()
        first = 0 if reader.open is None else 1
        transaction = (np.cumsum(self.kind == _m.BEGIN) - 1 + first).astype(np.int32)
        self._take_rare((begun, transaction))
        oids, versions = self._current(before)
        room, _ = self._counted(oids, versions)
        items, cells = self._changes(oids, versions, transaction, room)
        commits = begun.commit_lsn[items[1]] if len(begun.xid) else np.empty(0, np.int64)
        if len(items[1]) and (not len(begun.xid) or items[1].min() < 0):
            raise DecodingError("a slot has a change of no transaction", lsn=int(items[2][0]))
        continued = self._remember(items[2], commits)
        ended = np.flatnonzero((self.kind == _m.BEGIN) | (self.kind == _m.COMMIT))
        if len(ended):
            reader.open = begun.last() if self.kind[ended[-1]] == _m.BEGIN else None
        elif reader.open is not None:
            reader.open = begun.last()
        return self._as_slice(items, cells, begun, continued)

    def _begun(self) -> Begun:
        """Return the transactions of the piece, of which the first may have begun before."""
        chosen = np.flatnonzero(self.kind == _m.BEGIN)
        starts = self.start[chosen]
        wrong = np.flatnonzero(self.end[chosen] - starts != _m.BEGIN_BYTES)
        if len(wrong):
            raise self._malformed(int(chosen[wrong[0]]))
        count = len(chosen)
        lsn, time, xid = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint32)
        _m.take_begins(self.data, starts, lsn, time, xid)
        before = self.reader.open
        if before is None:
            return Begun(lsn, time, xid, {})
        return Begun(
            np.concatenate([before.commit_lsn, lsn]),
            np.concatenate([before.commit_time, time]),
            np.concatenate([before.xid, xid]),
            dict(before.origin),
        )

    def _message(self, number: int) -> bytes:
        return self.data[self.start[number] : self.end[number]].tobytes()

    def _take_rare(self, of: tuple[Begun, NDArray[np.int32]] | None) -> None:
        """Take what there are few of: relations, truncates, origins.

        Args:
            of: transactions, and to which messages belong; None to take no notice of them.
        """
        for number in np.flatnonzero(~np.isin(self.kind, _NOT_RARE)).tolist():
            kind = self.kind[number]
            if kind == _m.RELATION:
                self.announced[number] = self.relations.announce(self._message(number), int(self.lsn[number]))
            elif kind == _m.TRUNCATE:
                self._truncate(number)
            elif kind == _m.ORIGIN:
                name = self._origin(number)
                if of is not None:
                    of[0].origin[int(of[1][number])] = name
            else:
                raise self._malformed(number)

    def _origin(self, number: int) -> bytes:
        """Return the name of an origin, which is UTF-8."""
        name, *rest = self._message(number)[9:].split(b"\0")
        try:
            name.decode()
        except UnicodeDecodeError:
            raise self._malformed(number) from None
        if rest != [b""]:
            raise self._malformed(number)
        return name

    def _truncate(self, number: int) -> None:
        message = self._message(number)
        try:
            count, _flags = struct.unpack_from(">IB", message, 1)
            oids = struct.unpack_from(f">{count}I", message, 6)
        except struct.error:
            raise self._malformed(number) from None
        if lost := set(oids) - self.relations.current.keys():
            raise unannounced(min(lost), int(self.lsn[number]))
        versions = [self.relations.current[oid] for oid in oids]
        schemas = [self.relations.versions[version].schema for version in versions]
        wanted = [(at, schema) for at, schema in enumerate(schemas) if self.reader.wants(schema)]
        self.truncated |= set(versions)
        if wanted:
            self.literal[number] = len(self.literals)
            self.literals.append([truncate_message(schema, at) for at, schema in wanted])

    def _malformed(self, number: int) -> DecodingError:
        kind = bytes([int(self.kind[number])])
        return DecodingError(
            f"a slot's message of kind {kind!r} is malformed, or was not asked for", lsn=int(self.lsn[number])
        )

    def _current(self, before: Mapping[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return all relations, and the version that each has as the piece begins."""
        oids = sorted({*before, *self.relations.current})
        return np.array(oids, np.int64), np.array([before.get(oid, -1) for oid in oids], np.int32)

    @cached_property
    def _natts(self) -> NDArray[np.int32]:
        """int32[v] cells of a tuple of each version, -1 for one that is not wanted."""
        schemas = [version.schema for version in self.relations.versions]
        return np.array([len(schema.columns) if self.reader.wants(schema) else -1 for schema in schemas], np.int32)

    def _counted(self, oids: NDArray[np.int64], versions: NDArray[np.int32]) -> tuple[int, NDArray[np.bool_]]:
        """Count cells; which versions have changes."""
        used = np.zeros(len(self._natts), np.bool_)
        messages, current = (self.kind, self.start, self.end), (oids, versions.copy())
        wrong, room = _m.count_cells(self.data, messages, self.announced, current, self._natts, used)
        if wrong != _m.DONE:
            oid = int.from_bytes(self._message(int(wrong))[1:5], "big")
            raise unannounced(oid, int(self.lsn[wrong]))
        return int(room), used

    def _changes(
        self, oids: NDArray[np.int64], versions: NDArray[np.int32], transaction: NDArray[np.int32], room: int
    ) -> tuple[Arrays, LocatedCells]:
        known = self.relations.versions
        begins = np.cumsum([0, *(len(version.places) for version in known)]).astype(np.int32)
        places = np.concatenate([np.empty(0, np.int32), *(version.places for version in known)])
        shapes = begins, np.diff(begins).astype(np.int32), self._natts, places
        items = _item_room(len(self.kind))
        cells = np.empty(room, np.uint8), np.empty(room, np.int64), np.empty(room, np.int32)
        messages = self.kind, self.start, self.end, self.lsn
        wrong, made, used = _m.take_changes(
            self.data,
            messages,
            self.announced,
            (oids, versions),
            shapes,
            transaction,
            self.literal,
            items,
            cells,
            False,
        )
        if wrong != _m.DONE:
            raise self._malformed(int(wrong))
        own = LocatedCells(cells[0][:used], cells[1][:used], cells[2][:used], np.zeros(0, np.int32))
        return _first_items(items, int(made)), own

    def _remember(self, lsns: NDArray[np.int64], commits: NDArray[np.int64]) -> int:
        """Remember how many items the last record has had; return how many the first one has had before."""
        reader = self.reader
        if not len(lsns):
            return 0
        first, last = (int(lsns[0]), int(commits[0])), (int(lsns[-1]), int(commits[-1]))
        before = reader.of_last if first == reader.last else 0
        same = (lsns == last[0]) & (commits == last[1])
        run = len(same) if same.all() else int(np.argmin(same[::-1]))
        reader.of_last = run + (before if run == len(same) else 0)
        reader.last = last
        return before

    def _as_slice(self, items: Arrays, cells: LocatedCells, begun: Begun, before: int) -> PrintedSlice:
        kinds, txn, lsns, layout, flags, new, old = items
        none, nothing = np.full(len(kinds), -1, np.int64), np.zeros(len(kinds), np.int32)
        xids = begun.xid[txn] if len(txn) else np.empty(0, np.uint32)
        own = Items(kinds, txn, xids, lsns, layout, none, nothing, none, nothing, flags)
        transactions = _transactions(begun, txn, self._origins(begun))
        uses = tuple(RelationUse(version.schema, WANT_ALL) for version in self.relations.versions)
        changes = SliceChanges(self.data, own, transactions, _literals(self.literals), uses, lsns)
        located = PrintedTuples(new, old, cells, self.data, np.empty(0, np.uint8))
        return PrintedSlice(changes, kinds, located, self.reader.layouts, self.reader.session, before)

    def _origins(self, begun: Begun) -> NDArray[np.int32]:
        """Return 1 and the literal that has a transaction's origin's name; 0 for none: int32[t]."""
        origins, numbers = np.zeros(len(begun.xid), np.int32), dict[bytes, int]()
        for transaction, name in begun.origin.items():
            if name not in numbers:
                numbers[name] = len(self.literals)
                self.literals.append([name])
            origins[transaction] = numbers[name] + 1
        return origins


def _item_room(count: int) -> Arrays:
    """Make room for items."""
    kinds, flags = np.empty(count, np.uint8), np.empty(count, np.uint8)
    transactions, layouts = np.empty(count, np.int32), np.empty(count, np.int32)
    new, old = np.empty(count, np.int64), np.empty(count, np.int64)
    return kinds, transactions, np.empty(count, np.int64), layouts, flags, new, old


def _first_items(items: Arrays, count: int) -> Arrays:
    kinds, transactions, lsns, layouts, flags, new, old = items
    first = kinds[:count], transactions[:count], lsns[:count]
    return *first, layouts[:count], flags[:count], new[:count], old[:count]


def _transactions(begun: Begun, of_items: NDArray[np.int32], origins: NDArray[np.int32]) -> Transactions:
    count = len(begun.xid)
    numbers, nothing, unknown = np.arange(count), np.zeros(count, np.int32), np.full(count, -1, np.int64)
    return Transactions(
        xid=begun.xid,
        first_lsn=begun.commit_lsn,
        commit_lsn=begun.commit_lsn,
        end_lsn=begun.commit_lsn,
        commit_time=begun.commit_time,
        last_end=unknown,
        last_time=unknown,
        item_start=np.searchsorted(of_items, numbers).astype(np.int64),
        item_end=np.searchsorted(of_items, numbers, side="right").astype(np.int64),
        flags=np.zeros(count, np.uint8),
        origin=origins,
        begin=nothing,
        end=nothing,
    )


def _literals(groups: list[list[bytes]]) -> Literals:
    messages = [message for group in groups for message in group]
    first = np.cumsum([0, *(len(group) for group in groups)]).astype(np.int64)
    offsets = np.cumsum([0, *(len(message) for message in messages)]).astype(np.int64)
    return Literals(first, offsets, np.frombuffer(b"".join(messages), np.uint8))
