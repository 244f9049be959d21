"""Messages between the changes: of truncates, origins, frames of transactions, and the places of logical messages.

In: the index's tables of truncates and messages, and the plugin. Out: :class:`~headwater.reorder.plan.Events`, which
decode tasks put between the changes. Python goes one by one only over truncates, origins, prepared transactions and
streamed blocks that are output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from headwater.plugins.api import SlicePlugin, StreamedTransaction, TwoPhaseTransaction
from headwater.reorder.commits.replays import (
    AT_PREPARE,
    COMMITS_PREPARED,
    STREAM_ABORTS,
    STREAM_COMMITS,
    STREAM_PREPARES,
    STREAMS,
    WHOLE,
    Replays,
    gids,
)
from headwater.reorder.plan import Announcements, Events, Units
from headwater.reorder.slices.changes import has_origin_of
from headwater.reorder.slices.resolve import Resolver
from headwater.reorder.wanted_changes import WANT_TRUNCATE
from headwater.rmgr.heap import TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS
from headwater.rmgr.index.index_rows import MessageTable, Rows

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class WantedMessages:
    """Logical messages that the plugin wants, k of them; decode tasks make them.

    Attributes:
        txn: int64[k] their output transactions, -1 for those that stand alone.
        at: where they are.
    """

    txn: Int64s
    at: MessageTable

    @property
    def bare(self) -> MessageTable:
        """The messages that stand alone."""
        return self.at.take(np.flatnonzero(self.txn < 0))


@dataclass(frozen=True)
class WantedTruncate:
    """A truncate in an output transaction, and the resolutions of its relations that could be decoded."""

    txn: int
    xid: int
    lsn: int
    flags: int
    relations: tuple[int, ...]


_Made = tuple[int, int, int, int, tuple[bytes, ...]]
"""An event: unit, place, LSN, number of the announcement that it is, or 0, and messages."""


@dataclass(frozen=True)
class DdlMessages:
    """The plugin's messages for DDL, of one place each.

    Attributes:
        txn: the replay's number; lsn: the place; texts: the messages, in order.
    """

    txn: int
    lsn: int
    texts: tuple[bytes, ...]


@dataclass(frozen=True)
class FrameMessages:
    """The plugin's messages for the records that prepared and streamed transactions are replayed at, by replay.

    Attributes:
        frames: messages before and after its changes.
        finishes: messages for an end without changes (COMMIT PREPARED, the commit of what was streamed), if there are
            any.
    """

    frames: Mapping[int, tuple[tuple[bytes, ...], tuple[bytes, ...]]]
    finishes: Mapping[int, tuple[bytes, ...]]

    @property
    def begun(self) -> list[int]:
        """The replays that give messages, whether they have changes or not."""
        return [*(txn for txn, (before, _) in self.frames.items() if before), *self.finishes]


def renumbered(truncates: Sequence[WantedTruncate], resolution: Int64s) -> list[WantedTruncate]:
    """Return the same truncates with other resolutions.

    Args:
        truncates: the truncates.
        resolution: int64[k] for each relation of each truncate.
    """
    numbers = iter(resolution.tolist())
    return [replace(t, relations=tuple(next(numbers) for _ in t.relations)) for t in truncates]


@dataclass(frozen=True)
class DriverMessages:
    """The questions to the plugin about what is neither a row change nor a schema.

    Attributes:
        rows: the index.
        txns: the replays; output: bool[t] those replays that are output.
        plugin: the plugin that is asked.
        resolver: looks relations up.
        in_window: tells bool[n] which of some LSNs, int64[n], lie in the window.
        late: int64[k] sorted: logical messages that come after the change that follows them, by their places.
    """

    rows: Rows
    txns: Replays
    output: Bools
    plugin: SlicePlugin
    resolver: Resolver
    in_window: Callable[[Int64s], Bools]
    late: Int64s

    def messages(self) -> WantedMessages:
        """Return the logical messages, in LSN order."""
        logical = self.rows.messages
        txn, inside = self._txns(logical.owner, logical.lsn), logical.transactional
        wanted = np.where(inside, txn >= 0, self.in_window(logical.lsn))
        for kind in (False, True):
            if not self.plugin.wants_message(kind):
                wanted &= inside != kind
        wanted &= ~has_origin_of(logical.origin, self.plugin.filter_origin)
        chosen = np.flatnonzero(wanted)
        return WantedMessages(np.where(inside, txn, -1)[chosen], logical.take(chosen))

    def truncates(self) -> Iterator[WantedTruncate]:
        """Give truncates, in LSN order; those of unwanted relations count as changes too, if the plugin tracks them."""
        table = self.rows.truncates
        txns = self._txns(table.xid, table.lsn)
        wanted = np.flatnonzero((txns >= 0) & ~has_origin_of(table.origin, self.plugin.filter_origin))
        columns = (txns, table.xid, table.lsn, table.flags)
        for txn, xid, lsn, flags, i in zip(*(column[wanted].tolist() for column in columns), wanted, strict=True):
            oids = table.relations.values[table.relations.starts[i] : table.relations.starts[i + 1]].tolist()
            yield WantedTruncate(txn, xid, lsn, flags, tuple(self._truncated(txn, lsn, oids)))

    def framed(self) -> FrameMessages:
        """Return the frames of prepared and streamed transactions that are output."""
        finishes: dict[int, tuple[bytes, ...]] = {}
        frames: dict[int, tuple[tuple[bytes, ...], tuple[bytes, ...]]] = {}
        for at in np.flatnonzero(self.output & (self.txns.kind != WHOLE)).tolist():
            kind = self.txns.kind[at]
            if kind == STREAMS:
                frames[at] = self._block_frame(at)
            elif kind == AT_PREPARE:
                txn = self._two_phase(at)
                frames[at] = tuple(self.plugin.begin_prepare(txn)), tuple(self.plugin.prepare(txn))
            else:
                finishes[at] = tuple(self._finish(at, kind))
        return FrameMessages(frames, {txn: messages for txn, messages in finishes.items() if messages})

    def _finish(self, at: int, kind: int) -> list[bytes]:
        if kind == STREAM_COMMITS:
            return self.plugin.stream_commit(self._streamed(at))
        if kind == STREAM_ABORTS:
            return self.plugin.stream_abort(self._streamed(at))
        txn = self._two_phase(at)
        if kind == STREAM_PREPARES:
            return self.plugin.stream_prepare(txn)
        return self.plugin.commit_prepared(txn) if kind == COMMITS_PREPARED else self.plugin.rollback_prepared(txn)

    def _block_frame(self, at: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Make the messages before and after a block: none if nothing was queued for it."""
        assert self.txns.streamed is not None
        blocks, block, xid = self.txns.streamed.blocks, int(self.txns.streamed.block[at]), int(self.txns.xid[at])
        if not blocks.first[block]:
            return (), ()
        return tuple(self.plugin.stream_start(xid, bool(blocks.is_first[block]))), tuple(self.plugin.stream_stop(xid))

    def _streamed(self, at: int) -> StreamedTransaction:
        txns = self.txns
        assert txns.streamed is not None
        columns = (txns.streamed.top, txns.xid, txns.final_lsn, txns.end_lsn, txns.time)
        return StreamedTransaction(*(int(column[at]) for column in columns))

    def _two_phase(self, at: int) -> TwoPhaseTransaction:
        txns, prepares, row = self.txns, self.rows.prepares, int(self.txns.prepare[at])
        return TwoPhaseTransaction(
            xid=int(txns.xid[at]),
            gid=gids(prepares.take(np.array([row])))[0],
            final_lsn=int(txns.final_lsn[at]),
            end_lsn=int(txns.end_lsn[at]),
            time=int(txns.time[at]),
            prepare_end_lsn=int(prepares.next[row]),
            prepare_time=int(prepares.time[row]),
        )

    def _txns(self, xids: Int64s, places: Int64s) -> Int64s:
        """Return the output replay that has what each xid did at a place, -1 if there is none."""
        txn = self.txns.replay_of(xids, places)
        return np.where(np.append(self.output, False)[txn], txn, -1)

    def _truncated(self, txn: int, lsn: int, oids: Sequence[int]) -> Iterator[int]:
        catalog = self.resolver.view(txn, lsn)
        for oid in oids:
            schema = catalog.relation(oid)
            if schema is not None and self.plugin.tracks(schema):
                number = self.resolver.number(schema, catalog, lsn)
                if number >= 0:
                    yield number

    def events(
        self,
        units: Units,
        unit_of: Int64s,
        messages: WantedMessages,
        truncates: Iterable[WantedTruncate],
        announced: Announcements,
        framed: FrameMessages,
        ddl: Sequence[DdlMessages] = (),
    ) -> Events:
        """Return all events in output order.

        Args:
            units: what is output; unit_of: int64[t] the unit of each replay.
            messages: of these units.
            truncates: of these units.
            announced: says before which relations of truncates, one after the other, the schema goes.
            framed, ddl: of these units.
        """
        at, unit = messages.at, np.append(unit_of, -1)[messages.txn]
        order = np.where(np.isin(at.lsn, self.late), at.end, at.lsn)
        unit[messages.txn < 0] = np.flatnonzero(units.txn < 0)
        of_ddl = ((int(unit_of[steps.txn]), steps.lsn, steps.lsn, 0, steps.texts) for steps in ddl)
        driver_events = list(chain(of_ddl, self._made(unit_of, truncates, announced), self._finished(unit_of, framed)))
        driver_events.sort(key=itemgetter(0, 1))
        made_unit, made_place, made_lsn, tentative = (
            np.array([event[:4] for event in driver_events], np.int64).reshape(-1, 4).T
        )
        zeros, nothing = np.zeros(len(driver_events), np.int64), np.zeros(len(unit), np.int64)
        of_made = np.stack(
            [made_unit, made_place, made_place, made_lsn, tentative, zeros, np.arange(len(driver_events))]
        )
        of_messages = np.stack([unit, at.lsn, order, at.end, nothing, at.end - at.lsn, nothing - 1])
        # A truncate that begins where a late message comes is before it.
        both = np.concatenate([of_made, of_messages], axis=1)
        unit, place, order, lsn, tentative, size, number = both[:, np.lexsort((both[2], both[0]))]
        frames = sorted((int(unit_of[txn]), frame) for txn, frame in framed.frames.items() if unit_of[txn] >= 0)
        return Events(
            unit,
            place,
            order,
            lsn,
            size,
            number,
            tuple(event[4] for event in driver_events),
            tentative,
            *self._origins(units),
            frame_unit=np.array([unit for unit, _ in frames], np.int64),
            frames=tuple(frame for _, frame in frames),
        )

    def _made(self, unit_of: Int64s, truncates: Iterable[WantedTruncate], announced: Announcements) -> Iterator[_Made]:
        """Give events of truncates that have any messages.

        Tentative announcements of their relations are events of their own.
        """
        announcements = zip(announced.sends.tolist(), announced.tentative.tolist(), strict=True)
        for truncate in truncates:
            place, announced_with = (
                (int(unit_of[truncate.txn]), truncate.lsn, truncate.lsn),
                list(islice(announcements, len(truncate.relations))),
            )
            sends = [send for send, _ in announced_with]
            if any(number for _, number in announced_with):
                for resolution, (send, number) in zip(truncate.relations, announced_with, strict=True):
                    if send or number:
                        yield *place, number, self._announcements(truncate, [resolution])
                sends = [False] * len(sends)
            texts = self._truncate_messages(truncate, sends)
            if texts:
                yield *place, 0, texts

    def _finished(self, unit_of: Int64s, framed: FrameMessages) -> Iterator[_Made]:
        """Give the same of ends without changes."""
        for txn, messages in framed.finishes.items():
            if unit_of[txn] < 0:
                continue
            yield int(unit_of[txn]), int(self.txns.place[txn]), int(self.txns.end_lsn[txn]), 0, messages

    def _announcements(self, wanted: WantedTruncate, relations: Sequence[int]) -> tuple[bytes, ...]:
        """Return the messages that announce some relations of a truncate."""
        messages = [message for number in relations for message in self.resolver.resolutions[number].messages]
        if messages and self.txns.kind[wanted.txn] == STREAMS:
            return tuple(self.plugin.stream_schema(messages, wanted.xid))
        return tuple(messages)

    def _truncate_messages(self, wanted: WantedTruncate, sends: Sequence[bool]) -> tuple[bytes, ...]:
        uses = [self.resolver.resolutions[number] for number in wanted.relations]
        messages = self._announcements(
            wanted, [number for number, send in zip(wanted.relations, sends, strict=True) if send]
        )
        schemas = [use.schema for use in uses if use.wants & WANT_TRUNCATE]
        cascade, restart_seqs = (bool(wanted.flags & flag) for flag in (TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS))
        if self.txns.kind[wanted.txn] == STREAMS:
            top = int(self.txns.xid[wanted.txn])
            made = self.plugin.stream_truncate(schemas, cascade, restart_seqs, top, wanted.xid) if schemas else []
        else:
            made = self.plugin.truncate(schemas, cascade, restart_seqs) if schemas else []
        return *messages, *made

    def _origins(self, units: Units) -> tuple[Int64s, tuple[tuple[bytes, ...], ...]]:
        """Return the units that announce the replication origin they came from, and how."""
        announcing: list[int] = []
        texts: list[tuple[bytes, ...]] = []
        of_txn = np.flatnonzero(~units.is_bare)
        for unit in of_txn[self.txns.origin[units.txn[of_txn]] != 0]:
            txn = units.txn[unit]
            origin_id = int(self.txns.origin[txn])
            name = self.resolver.store.view(int(self.txns.place[txn])).origin_name(origin_id)
            messages = self.plugin.origin(origin_id, name, int(self.txns.origin_lsn[txn]))
            if messages:
                announcing.append(int(unit))
                texts.append(tuple(messages))
        return np.array(announcing, np.int64), tuple(texts)
