"""Step 2 and 3 on the driver: from the index of a window to the plan of its output.

In: a merged index, the catalog at its start, a plugin. Out: a :class:`Plan`, and where decoding began. Work on flat
arrays throughout; Python goes row by row only over catalog events, messages and truncates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.history import HistoricCatalog
from headwater.catalog.relation import RelationSchema
from headwater.catalog.snapshot import SnapBuilder
from headwater.catalog.store import CatalogStore
from headwater.errors import WalError
from headwater.pg.lsn import Lsn
from headwater.plugins.api import OutputPlugin
from headwater.reorder.history import History, LogicalMessage, Truncate, check_wal_level, read_history
from headwater.reorder.plan import ChangeRows, Events, Plan, RelationUse, Units
from headwater.reorder.resend import Forget, ForgetPlaces, schema_places
from headwater.reorder.resolve import WANT_INSERT, WANT_TRUNCATE, Resolver, wanted_kinds
from headwater.reorder.transactions import NEVER, CommittedTransactions, committed_transactions
from headwater.rmgr._index import SPECULATIVE
from headwater.rmgr.index import WalIndex
from headwater.rmgr.invalidation import parse_invalidations

Int64s = NDArray[np.int64]
PAGE = 8192
LONG_HEADER, SHORT_HEADER = 40, 24


@dataclass(frozen=True)
class Window:
    """What part of the log is wanted.

    Attributes:
        start: transactions whose commit record starts before it are left out, 0 for none.
        end: stop as the server does with ``upto_lsn``, None for the end of the log.
    """

    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Assembly:
    """What the driver knows before decoding.

    Attributes:
        plan: what to decode.
        history: the rolled-forward catalog.
        transactions: how many transactions and bare messages are output.
        changes: how many row changes are wanted.
        consistent_at: LSN where decoding could begin.
    """

    plan: Plan
    history: History
    transactions: int
    changes: int
    consistent_at: int


def assemble(index: WalIndex, store: CatalogStore, plugin: OutputPlugin, window: Window) -> Assembly:
    """Put the transactions of an index back together and plan their output.

    Args:
        index: the merged index, from ``store.start_lsn`` on.
        store: the catalog at that LSN; rolled forward in place.
        plugin: what the output is for.
        window: which transactions are wanted.

    Returns:
        the plan and what led to it.

    Raises:
        WalError: wal_level was too low, or no consistent point was reached.
        CatalogError, DecodingError, PluginError: as the catalog, the records or the plugin demand.
    """
    txns = committed_transactions(index.rows)
    history = read_history(index, txns, store, SnapBuilder(start_decoding_at=window.start))
    check_wal_level(history)
    if history.builder.consistent_at is None:
        raise WalError(
            f"no consistent point between {Lsn(index.lo)} and {Lsn(index.hi)}: transactions that ran when the catalog "
            "was taken had not all ended",
            lsn=index.lo,
            hint="give more WAL, or a backup taken while no long transaction runs",
        )
    return _Assembler(index, txns, history, plugin, window).run(history.builder.consistent_at)


class _Assembler:
    """One call of :func:`assemble`."""

    def __init__(
        self,
        index: WalIndex,
        txns: CommittedTransactions,
        history: History,
        plugin: OutputPlugin,
        window: Window,
    ) -> None:
        self.rows = index.rows
        self.grid = index.grid
        self.txns = txns
        self.history = history
        self.store = history.store
        self.plugin = plugin
        self.end = NEVER if window.end is None else window.end
        self.start = history.builder.start_decoding_at
        self.resolver = Resolver(history, txns, self._describe)
        self.output = self._output()

    def run(self, consistent_at: int) -> Assembly:
        """All of it."""
        rows, txn = self._change_rows()
        truncates = list(self._truncates())
        messages = list(self._messages())
        units, unit_of = self._units(rows, truncates, messages)
        rows = _renumber(rows, unit_of[txn])
        events = self._events(units, unit_of, truncates, messages, rows)
        changes = int(self.rows.change_count[self._wanted_index].sum())
        plan = Plan(units, rows, events, self._relations(), self.rows.locators, self.grid)
        return Assembly(plan, self.history, len(units.xid), changes, consistent_at)

    def _describe(self, schema: RelationSchema, catalog: HistoricCatalog) -> tuple[int, tuple[bytes, ...]]:
        wants = self.plugin.wants(schema, catalog)
        return wants, tuple(self.plugin.schema_messages(schema, catalog)) if wants else ()

    # -- which transactions

    def _output(self) -> NDArray[np.bool_]:
        """bool[t]: transactions that are output (DecodeTXNNeedSkip, SnapBuildXactNeedsSkip)."""
        txns = self.txns
        keep = (txns.base_lsn != NEVER) & (txns.commit_lsn >= self.start) & self._before_end(txns.commit_lsn)
        keep &= (txns.database == 0) | (txns.database == self.store.database_oid)
        filtered = [o for o in np.unique(txns.origin) if self.plugin.filter_origin(int(o))]
        return keep & ~np.isin(txns.origin, filtered)

    def _before_end(self, lsn: Int64s) -> NDArray[np.bool_]:
        """Records the server still reads: those whose predecessor ended before ``upto_lsn``."""
        offset = lsn % PAGE
        at_page = (offset == SHORT_HEADER) | (offset == LONG_HEADER)
        before: NDArray[np.bool_] = np.where(at_page, lsn - offset, lsn) < self.end
        return before

    # -- row changes

    def _change_rows(self) -> tuple[ChangeRows, Int64s]:
        """The rows that are decoded, sorted by (transaction, LSN), and the transaction of each."""
        r = self.rows
        txn = self.txns.txn_of(r.change_xid)
        keep = txn >= 0
        keep[keep] = self.output[txn[keep]]
        filtered = [o for o in np.unique(r.change_origin) if self.plugin.filter_origin(int(o))]
        keep &= ~np.isin(r.change_origin, filtered)
        at = np.flatnonzero(keep)
        at = at[np.argsort(txn[at], kind="stable")]
        txn = txn[at]
        resolution = self.resolver.rows(txn, r.change_locator[at], r.change_first[at], r.change_kinds[at], r.locators)
        wants = np.array([x.wants for x in self.resolver.resolutions] or [0], np.int64)
        toast = np.array([x.is_toast for x in self.resolver.resolutions] or [False], np.bool_)
        known = resolution >= 0
        wanted = known & (r.change_kinds[at] & wanted_kinds(wants)[resolution] != 0)
        speculative = known & (r.change_kinds[at] & SPECULATIVE != 0) & (wants[resolution] & WANT_INSERT != 0)
        used = wanted | speculative | self._needed_toast(txn, resolution, wanted, known & toast[resolution])
        self._wanted_index = at[wanted]
        at, txn = at[used], txn[used]
        rows = ChangeRows(
            unit=txn,
            locator=r.change_locator[at],
            kinds=r.change_kinds[at],
            size=r.change_bytes[at],
            first=r.change_first[at],
            last=r.change_last[at],
            resolution=resolution[used],
            wanted=wanted[used],
            announce=np.zeros(len(at), np.bool_),
        )
        return rows, txn

    def _needed_toast(
        self, txn: Int64s, resolution: Int64s, wanted: NDArray[np.bool_], toast: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Chunk rows of relations that the same transaction has wanted changes of."""
        uses = self.resolver.resolutions
        owner = np.array([x.schema.oid if x.is_toast else x.schema.toast_oid for x in uses] or [0], np.int64)
        key = txn * (1 << 32) + np.where(resolution >= 0, owner[resolution], 0)
        needed: NDArray[np.bool_] = toast & np.isin(key, key[wanted])
        return needed

    def _relations(self) -> list[RelationUse]:
        return [RelationUse(x.schema, x.wants, x.is_toast, x.messages) for x in self.resolver.resolutions]

    # -- events

    def _truncates(self) -> Iterator[tuple[int, Truncate]]:
        for truncate in self.history.truncates:
            txn = self._txn(truncate.xid)
            if txn >= 0 and not self.plugin.filter_origin(truncate.origin):
                yield txn, truncate

    def _messages(self) -> Iterator[tuple[int, LogicalMessage, tuple[bytes, ...]]]:
        for message in self.history.messages:
            txn = self._txn(message.xid) if message.transactional else -1
            if not message.transactional and not self._bare_wanted(message):
                continue
            if (message.transactional and txn < 0) or self.plugin.filter_origin(message.origin):
                continue
            made = self.plugin.message(message.end_lsn, message.transactional, message.prefix, message.content)
            if made:
                yield txn, message, tuple(made)

    def _bare_wanted(self, message: LogicalMessage) -> bool:
        return message.lsn >= self.start and bool(self._before_end(np.array([message.lsn]))[0])

    def _txn(self, xid: int) -> int:
        """The output transaction an xid belongs to, -1 if there is none."""
        txn = int(self.txns.txn_of(np.array([xid], np.int64))[0])
        return txn if txn >= 0 and self.output[txn] else -1

    def _units(
        self,
        rows: ChangeRows,
        truncates: list[tuple[int, Truncate]],
        messages: list[tuple[int, LogicalMessage, tuple[bytes, ...]]],
    ) -> tuple[Units, Int64s]:
        """The units in output order, and the unit of each transaction (-1: not output)."""
        output = self.output
        if self.plugin.skips_empty:
            busy = np.zeros(len(output), np.bool_)
            busy[rows.unit[rows.wanted]] = True
            busy[[txn for txn, _ in truncates]] = True
            busy[[txn for txn, _, _ in messages if txn >= 0]] = True
            output = output & busy
        txn = np.flatnonzero(output)
        bare = [message for at, message, _ in messages if at < 0]
        bare_lsn = np.array([m.lsn for m in bare], np.int64)
        order = np.argsort(np.concatenate([self.txns.commit_lsn[txn], bare_lsn]), kind="stable")
        self._unit_txn = np.concatenate([txn, np.full(len(bare), -1)])[order]
        self._origins: list[tuple[bytes, ...]] = []
        unit_of = np.full(len(output) + 1, -1, np.int64)
        unit_of[self._unit_txn[self._unit_txn >= 0]] = np.flatnonzero(self._unit_txn >= 0)
        member = unit_of[self.txns.member_txn]
        by_unit = np.argsort(member, kind="stable")
        by_unit = by_unit[np.searchsorted(member[by_unit], 0) :]

        def column(values: NDArray[Any], of_bare: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([values[txn], of_bare])[order]

        zeros = np.zeros(len(bare), np.int64)
        units = Units(
            xid=column(self.txns.xid, np.array([m.xid for m in bare], np.int64)),
            first_lsn=column(self.txns.first_lsn, bare_lsn),
            commit_lsn=column(self.txns.commit_lsn, bare_lsn),
            end_lsn=column(self.txns.end_lsn, np.array([m.end_lsn for m in bare], np.int64)),
            commit_time=column(self.txns.commit_time, zeros),
            bare=self._unit_txn < 0,
            own=column(self.txns.changes_catalog, np.zeros(len(bare), np.bool_)),
            origin=self._announce_origins(),
            member_xid=self.txns.member_xid[by_unit],
            member_unit=member[by_unit],
        )
        return units, unit_of

    def _announce_origins(self) -> Int64s:
        """Per unit 1 + number of the messages that announce its origin, 0 without."""
        result = np.zeros(len(self._unit_txn), np.int64)
        txns = self._unit_txn
        origin = np.where(txns >= 0, self.txns.origin[txns], 0) if len(self.txns.xid) else result
        for unit in np.flatnonzero(origin):
            name = self.store.view(int(self.txns.commit_lsn[txns[unit]])).origin_name(int(origin[unit]))
            made = tuple(self.plugin.origin(name, int(self.txns.origin_lsn[txns[unit]]))) if name else ()
            if made:
                self._origins.append(made)
                result[unit] = len(self._origins)
        return result

    def _events(
        self,
        units: Units,
        unit_of: Int64s,
        truncates: list[tuple[int, Truncate]],
        messages: list[tuple[int, LogicalMessage, tuple[bytes, ...]]],
        rows: ChangeRows,
    ) -> Events:
        """All events in output order; decides on the way where schemas are announced."""
        made: list[tuple[int, int, int, tuple[bytes, ...]]] = []
        bare_units = iter(np.flatnonzero(units.bare))
        for txn, message, texts in messages:
            unit = int(unit_of[txn]) if txn >= 0 else int(next(bare_units))
            made.append((unit, message.lsn, message.end_lsn, texts))
        touched = [(int(unit_of[txn]), truncate, self._truncated(txn, truncate)) for txn, truncate in truncates]
        announced = self._announce(rows, units, unit_of, touched)
        at = 0
        for unit, truncate, numbers in touched:
            sends = announced[at : at + len(numbers)]
            at += len(numbers)
            texts = self._truncate_messages(truncate, numbers, sends)
            if texts:
                made.append((unit, truncate.lsn, truncate.lsn, texts))
        made.sort(key=lambda event: event[:2])
        return Events(
            unit=np.array([event[0] for event in made], np.int64),
            place=np.array([event[1] for event in made], np.int64),
            lsn=np.array([event[2] for event in made], np.int64),
            messages=tuple(event[3] for event in made),
            origin_messages=tuple(self._origins),
        )

    def _truncated(self, txn: int, truncate: Truncate) -> list[int]:
        """Resolutions of the truncated relations that the plugin wants."""
        catalog = self.resolver.view(txn, truncate.lsn)
        numbers = []
        for oid in truncate.relations:
            schema = catalog.relation(oid)
            number = -1 if schema is None else self.resolver.number(schema, catalog, truncate.lsn)
            if number >= 0 and self.resolver.resolutions[number].wants & WANT_TRUNCATE:
                numbers.append(number)
        return numbers

    def _truncate_messages(self, truncate: Truncate, numbers: list[int], sends: NDArray[np.bool_]) -> tuple[bytes, ...]:
        uses = [self.resolver.resolutions[number] for number in numbers]
        messages = [message for use, send in zip(uses, sends, strict=True) if send for message in use.messages]
        if uses:
            schemas = [use.schema for use in uses]
            messages += self.plugin.truncate(schemas, truncate.cascade, truncate.restart_seqs)
        return tuple(messages)

    # -- schemas sent again

    def _announce(
        self,
        rows: ChangeRows,
        units: Units,
        unit_of: Int64s,
        touched: list[tuple[int, Truncate, list[int]]],
    ) -> NDArray[np.bool_]:
        """Mark the rows before which the schema goes; returns the same for every truncated relation."""
        truncated = [(number, unit, truncate.lsn) for unit, truncate, numbers in touched for number in numbers]
        if not self.plugin.sends_schema:
            return np.zeros(len(truncated), np.bool_)
        extra = np.array(truncated, np.int64).reshape(-1, 3)
        oids = np.array([x.schema.oid for x in self.resolver.resolutions] or [0], np.int64)
        which = np.flatnonzero(rows.wanted)
        sends = schema_places(
            oids[np.concatenate([rows.resolution[which], extra[:, 0]])],
            np.concatenate([rows.unit[which], extra[:, 1]]),
            np.concatenate([rows.first[which], extra[:, 2]]),
            self._forgets(units, unit_of),
        )
        rows.announce[which] = sends[: len(which)]
        return sends[len(which) :]

    def _forgets(self, units: Units, unit_of: Int64s) -> Iterator[Forget]:
        places = ForgetPlaces(self.rows, self.txns, self.output, unit_of, units.commit_lsn)
        return places.forgets(self._forgotten)

    def _forgotten(self, data: bytes, lsn: int) -> set[int]:
        """Relations (0: all) whose schema the plugin forgets at a group of invalidation messages."""
        found = set()
        for message in parse_invalidations(data, lsn, self.store.major):
            if message.db in (0, self.store.database_oid):
                relation = self.plugin.invalidates(message)
                if relation is not None:
                    found.add(relation)
        return found


def _renumber(rows: ChangeRows, unit: Int64s) -> ChangeRows:
    """The same rows, by unit instead of transaction; those of dropped transactions left out."""
    kept = rows.take(unit >= 0)
    return ChangeRows(
        unit[unit >= 0],
        *(getattr(kept, name) for name in list(ChangeRows.__dataclass_fields__)[1:]),
    )
