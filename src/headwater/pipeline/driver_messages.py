"""Messages that the driver makes itself: logical messages, truncates, origins.

In: the events that the kept records told of (:class:`~headwater.reorder.history.History`) and the plugin. Out:
:class:`~headwater.reorder.plan.Events`, which decode tasks put between the changes. One record at a time, in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.plugins.api import OutputPlugin
from headwater.reorder.changes import has_origin_of
from headwater.reorder.history import History, LogicalMessage
from headwater.reorder.plan import Events, Units
from headwater.reorder.resolve import Resolver
from headwater.reorder.transactions import CommittedTransactions
from headwater.reorder.wants import WANT_TRUNCATE
from headwater.rmgr.heap import TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS
from headwater.rmgr.index_rows import Rows

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class MadeMessage:
    """A logical message that the plugin wants: its transaction (-1: none) and what the plugin made of it."""

    txn: int
    message: LogicalMessage
    texts: tuple[bytes, ...]


@dataclass(frozen=True)
class WantedTruncate:
    """A truncate in an output transaction, and the resolutions of its relations that could be decoded."""

    txn: int
    lsn: int
    flags: int
    relations: tuple[int, ...]


def renumbered(truncates: Sequence[WantedTruncate], resolution: Int64s) -> list[WantedTruncate]:
    """The same truncates with other resolutions.

    Args:
        truncates: them.
        resolution: int64[k] for each relation of each truncate.
    """
    numbers = iter(resolution.tolist())
    return [replace(t, relations=tuple(next(numbers) for _ in t.relations)) for t in truncates]


@dataclass(frozen=True)
class DriverMessages:
    """Asks the plugin for the messages that are not row changes.

    Attributes:
        history: what the kept records tell.
        rows: the index.
        txns: the committed transactions; output: bool[t] those that are output.
        plugin: who is asked.
        resolver: looks relations up.
        in_window: whether an LSN lies in the window.
    """

    history: History
    rows: Rows
    txns: CommittedTransactions
    output: NDArray[np.bool_]
    plugin: OutputPlugin
    resolver: Resolver
    in_window: Callable[[int], bool]

    def messages(self) -> Iterator[MadeMessage]:
        """Logical messages, in LSN order."""
        found = self.history.messages
        txns = self._txns(np.array([m.xid if m.transactional else 0 for m in found], np.int64))
        for message, txn in zip(found, txns, strict=True):
            wanted = txn >= 0 if message.transactional else self.in_window(message.lsn)
            if wanted and not self.plugin.filter_origin(message.origin):
                made = self.plugin.message(message.end_lsn, message.transactional, message.prefix, message.content)
                if made:
                    yield MadeMessage(int(txn), message, tuple(made))

    def truncates(self) -> Iterator[WantedTruncate]:
        """Truncates, in LSN order; those of unwanted relations count as changes too, if the plugin tracks them."""
        found = self.rows.truncates
        txns = self._txns(found.xid)
        wanted = np.flatnonzero((txns >= 0) & ~has_origin_of(found.origin, self.plugin.filter_origin))
        for txn, lsn, flags, i in zip(
            txns[wanted].tolist(), found.lsn[wanted].tolist(), found.flags[wanted].tolist(), wanted, strict=True
        ):
            oids = found.relations.values[found.relations.starts[i] : found.relations.starts[i + 1]].tolist()
            yield WantedTruncate(txn, lsn, flags, tuple(self._truncated(txn, lsn, oids)))

    def _txns(self, xids: Int64s) -> Int64s:
        """The output transaction each xid belongs to, -1 if there is none."""
        txn = self.txns.txn_of(xids)
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
        messages: Iterable[MadeMessage],
        truncates: Iterable[WantedTruncate],
        announced: Iterator[np.bool_],
    ) -> Events:
        """All of them in output order.

        Args:
            units: what is output; unit_of: int64[t] the unit of each transaction.
            messages: of these units.
            truncates: of these units.
            announced: for each relation of each truncate, whether its schema goes first.
        """
        made: list[tuple[int, int, int, tuple[bytes, ...]]] = []
        bare = iter(np.flatnonzero(units.txn < 0))
        for m in messages:
            unit = int(unit_of[m.txn]) if m.txn >= 0 else int(next(bare))
            made.append((unit, m.message.lsn, m.message.end_lsn, m.texts))
        for t in truncates:
            texts = self._truncate_messages(t, [bool(next(announced)) for _ in t.relations])
            if texts:
                made.append((int(unit_of[t.txn]), t.lsn, t.lsn, texts))
        made.sort(key=lambda event: event[:2])
        origin_unit, origin_messages = self._origins(units)
        return Events(
            unit=np.array([event[0] for event in made], np.int64),
            place=np.array([event[1] for event in made], np.int64),
            lsn=np.array([event[2] for event in made], np.int64),
            messages=tuple(event[3] for event in made),
            origin_unit=origin_unit,
            origin_messages=origin_messages,
        )

    def _truncate_messages(self, wanted: WantedTruncate, sends: Sequence[bool]) -> tuple[bytes, ...]:
        uses = [self.resolver.resolutions[number] for number in wanted.relations]
        messages = [message for use, send in zip(uses, sends, strict=True) if send for message in use.messages]
        schemas = [use.schema for use in uses if use.wants & WANT_TRUNCATE]
        if schemas:
            cascade, restart_seqs = (bool(wanted.flags & flag) for flag in (TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS))
            messages += self.plugin.truncate(schemas, cascade, restart_seqs)
        return tuple(messages)

    def _origins(self, units: Units) -> tuple[Int64s, tuple[tuple[bytes, ...], ...]]:
        """Units that announce the replication origin they came from, and how."""
        found: list[int] = []
        made: list[tuple[bytes, ...]] = []
        of_txn = np.flatnonzero(units.txn >= 0)
        for unit in of_txn[self.txns.origin[units.txn[of_txn]] != 0]:
            txn = units.txn[unit]
            name = self.history.store.view(int(self.txns.commit_lsn[txn])).origin_name(int(self.txns.origin[txn]))
            messages = self.plugin.origin(name, int(self.txns.origin_lsn[txn])) if name else []
            if messages:
                found.append(int(unit))
                made.append(tuple(messages))
        return np.array(found, np.int64), tuple(made)
