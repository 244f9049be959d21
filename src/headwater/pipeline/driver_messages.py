"""What goes between the changes: messages of truncates and origins, made here, and places of logical messages.

In: the index's tables of truncates and messages, and the plugin. Out: :class:`~headwater.reorder.plan.Events`, which
decode tasks put between the changes. Python goes one by one only over truncates and origins that are output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwater.plugins.api import OutputPlugin
from headwater.reorder.changes import has_origin_of
from headwater.reorder.plan import Events, Units
from headwater.reorder.resolve import Resolver
from headwater.reorder.transactions import CommittedTransactions
from headwater.reorder.wants import WANT_TRUNCATE
from headwater.rmgr.heap import TRUNCATE_CASCADE, TRUNCATE_RESTART_SEQS
from headwater.rmgr.index_rows import MessageTable, Rows

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
        """Those that stand alone."""
        return self.at.take(np.flatnonzero(self.txn < 0))


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
    """Asks the plugin for what is neither a row change nor a schema.

    Attributes:
        rows: the index.
        txns: the committed transactions; output: bool[t] those that are output.
        plugin: who is asked.
        resolver: looks relations up.
        in_window: bool[n] which of some LSNs, int64[n], lie in the window.
    """

    rows: Rows
    txns: CommittedTransactions
    output: Bools
    plugin: OutputPlugin
    resolver: Resolver
    in_window: Callable[[Int64s], Bools]

    def messages(self) -> WantedMessages:
        """Logical messages, in LSN order."""
        found = self.rows.messages
        txn, inside = self._txns(found.owner), found.transactional
        wanted = np.where(inside, txn >= 0, self.in_window(found.lsn))
        for kind in (False, True):
            if not self.plugin.wants_message(kind):
                wanted &= inside != kind
        wanted &= ~has_origin_of(found.origin, self.plugin.filter_origin)
        chosen = np.flatnonzero(wanted)
        return WantedMessages(np.where(inside, txn, -1)[chosen], found.take(chosen))

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
        messages: WantedMessages,
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
        at, unit = messages.at, np.append(unit_of, -1)[messages.txn]
        unit[messages.txn < 0] = np.flatnonzero(units.txn < 0)
        made = sorted(self._made(unit_of, truncates, announced), key=lambda event: event[:2])
        cut_unit, cut_lsn = np.array([event[:2] for event in made], np.int64).reshape(-1, 2).T
        of_messages = np.stack([unit, at.lsn, at.end, at.end - at.lsn, np.full(len(unit), -1)])
        of_truncates = np.stack([cut_unit, cut_lsn, cut_lsn, np.zeros_like(cut_lsn), np.arange(len(made))])
        both = np.concatenate([of_messages, of_truncates], axis=1)
        unit, place, lsn, size, number = both[:, np.lexsort((both[1], both[0]))]
        return Events(unit, place, lsn, size, number, tuple(event[2] for event in made), *self._origins(units))

    def _made(
        self, unit_of: Int64s, truncates: Iterable[WantedTruncate], announced: Iterator[np.bool_]
    ) -> Iterator[tuple[int, int, tuple[bytes, ...]]]:
        """Unit, LSN and messages of truncates that have any."""
        for one in truncates:
            texts = self._truncate_messages(one, [bool(next(announced)) for _ in one.relations])
            if texts:
                yield int(unit_of[one.txn]), one.lsn, texts

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
            origin_id = int(self.txns.origin[txn])
            name = self.resolver.store.view(int(self.txns.commit_lsn[txn])).origin_name(origin_id)
            messages = self.plugin.origin(origin_id, name, int(self.txns.origin_lsn[txn]))
            if messages:
                found.append(int(unit))
                made.append(tuple(messages))
        return np.array(found, np.int64), tuple(made)
