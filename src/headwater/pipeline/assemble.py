"""Step 2 and 3 on the driver: from the index of a window to the plan of its output.

In: a merged index, the catalog at its start, a plugin. Out: a :class:`Plan`, and where decoding began. Work on flat
arrays throughout; Python goes row by row only over catalog events, messages and truncates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.catalog.snapshot import SnapBuilder
from headwater.catalog.store import CatalogStore
from headwater.errors import WalError
from headwater.pg.lsn import Lsn
from headwater.pipeline.driver_messages import DriverMessages, MadeMessage, WantedTruncate, renumbered
from headwater.plugins.api import CatalogView, OutputPlugin
from headwater.reorder.changes import Candidates, Choice, candidate_rows, change_rows, choose
from headwater.reorder.history import History, check_wal_level, read_history
from headwater.reorder.plan import Plan
from headwater.reorder.resend import ForgetPlaces
from headwater.reorder.resolve import WANT_TRUNCATE, Resolver, spans_by_unit
from headwater.reorder.sync import Synced, Touches, sync_touches
from headwater.reorder.transactions import NEVER, CommittedTransactions, committed_transactions
from headwater.reorder.units import make_units
from headwater.rmgr._index import CONFIRMS, DELETES_BARE, DELETES_OLD, INSERTS, UPDATES
from headwater.rmgr.index import WalIndex
from headwater.rmgr.invalidation import Invalidation, parse_invalidations

Int64s = NDArray[np.int64]
PAGE = 8192
LONG_HEADER, SHORT_HEADER = 40, 24
ROW_CHANGES = INSERTS | UPDATES | DELETES_OLD | DELETES_BARE | CONFIRMS
"""Kinds of changes that the output plugin is called for."""


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
    check_wal_level(history, window.end)
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
        self.store = history.store
        self.history = history
        self.plugin = plugin
        self.end = NEVER if window.end is None else window.end
        self.start = history.builder.start_decoding_at
        self.resolver = Resolver(history, txns, self._describe)
        self.output = self._output()

    def run(self, consistent_at: int) -> Assembly:
        """All of it."""
        rows, txns = self.rows, self.txns
        candidates = candidate_rows(rows, txns, self.output, self.plugin.filter_origin)
        at, txn = candidates
        resolution, spans = self.resolver.rows(
            txn, rows.change_locator[at], rows.change_first[at], rows.change_kinds[at], rows.locators
        )
        driver = DriverMessages(self.history, txns, self.output, self.plugin, self.resolver, self._in_window)
        truncates, messages = list(driver.truncates()), list(driver.messages())
        touched = self._touched(candidates, resolution)
        synced = self._sync(candidates, resolution, touched, truncates)
        own = txns.changes_catalog
        if synced is not None:
            resolution, spans, own = self._apply(candidates, resolution, spans, touched, synced)
            truncates = renumbered(truncates, synced.resolution[len(touched) :])
        choice = choose(rows, candidates, resolution, self.resolver.resolutions, len(txns.xid))
        bare = [made.message for made in messages if made.txn < 0]
        units, unit_of = make_units(txns, self._busy(candidates, choice, truncates, messages), own, bare)
        announce, announced = self._announced(synced, touched, truncates, choice)
        changes = change_rows(rows, candidates, unit_of, resolution, choice, announce)
        events = driver.events(units, unit_of, messages, truncates, iter(announced))
        plan = Plan(
            units, changes, events, self.resolver.resolutions, spans_by_unit(spans, unit_of), rows.locators, self.grid
        )
        return Assembly(
            plan, self.history, len(units.xid), int(rows.change_count[at[choice.wanted]].sum()), consistent_at
        )

    def _describe(self, schema: RelationSchema, catalog: CatalogView) -> tuple[int, tuple[bytes, ...]]:
        wants = self.plugin.wants(schema, catalog)
        return wants, tuple(self.plugin.schema_messages(schema, catalog)) if wants else ()

    # -- which transactions

    def _output(self) -> NDArray[np.bool_]:
        """bool[t]: transactions that are output (DecodeTXNNeedSkip, SnapBuildXactNeedsSkip)."""
        txns = self.txns
        keep: NDArray[np.bool_] = (txns.base_lsn != NEVER) & (txns.commit_lsn >= self.start)
        keep &= self._before_end(txns.commit_lsn)
        keep &= (txns.database == 0) | (txns.database == self.store.database_oid)
        filtered = [o for o in np.unique(txns.origin) if self.plugin.filter_origin(int(o))]
        keep &= ~np.isin(txns.origin, filtered)
        return keep

    def _before_end(self, lsn: Int64s) -> NDArray[np.bool_]:
        """Records the server still reads: those whose predecessor ended before ``upto_lsn``."""
        offset = lsn % PAGE
        at_page = (offset == SHORT_HEADER) | (offset == LONG_HEADER)
        before: NDArray[np.bool_] = np.where(at_page, lsn - offset, lsn) < self.end
        return before

    def _in_window(self, lsn: int) -> bool:
        return lsn >= self.start and bool(self._before_end(np.array([lsn]))[0])

    def _busy(
        self,
        candidates: Candidates,
        choice: Choice,
        truncates: Sequence[WantedTruncate],
        messages: Sequence[MadeMessage],
    ) -> NDArray[np.bool_]:
        """bool[t]: output transactions without those that the plugin passes over because they are empty."""
        if not self.plugin.skips_empty:
            return self.output
        busy = np.zeros(len(self.output), np.bool_)
        busy[candidates.txn[choice.wanted]] = True
        busy[[made.txn for made in truncates]] = True
        busy[[made.txn for made in messages if made.txn >= 0]] = True
        return self.output & busy

    # -- what a plugin that sends schemas knows of relations

    def _touched(self, candidates: Candidates, resolution: Int64s) -> Int64s:
        """The candidates that are changes of relations, as the plugin meets them."""
        toast = np.array([x.is_toast for x in self.resolver.resolutions] + [True], np.bool_)
        kinds = self.rows.change_kinds[candidates.at] & ROW_CHANGES
        return np.flatnonzero(~toast[resolution] & (kinds != 0))

    def _sync(
        self, candidates: Candidates, resolution: Int64s, touched: Int64s, truncates: Sequence[WantedTruncate]
    ) -> Synced | None:
        """The touches of changes and truncates as the plugin takes them, None if it keeps nothing in mind."""
        if not self.plugin.sends_schema:
            return None
        itself = np.where(self.output, np.arange(len(self.output)), -1)
        places = ForgetPlaces(self.rows, self.txns, self.output, itself, self.txns.commit_lsn)
        extra = [(number, t.txn, t.truncate.lsn) for t in truncates for number in t.relations]
        more = np.array(extra, np.int64).reshape(-1, 3)
        touches = Touches(
            np.concatenate([resolution[touched], more[:, 0]]),
            np.concatenate([candidates.txn[touched], more[:, 1]]),
            np.concatenate([self.rows.change_first[candidates.at[touched]], more[:, 2]]),
        )
        return sync_touches(touches, self.resolver, places.forgets(self._forgotten), places.forgets(self._reloaded))

    def _apply(
        self, candidates: Candidates, resolution: Int64s, spans: Int64s, touched: Int64s, synced: Synced
    ) -> tuple[Int64s, Int64s, NDArray[np.bool_]]:
        """Resolutions and spans with what was synced, and bool[t] the transactions with spans of their own."""
        changed = synced.resolution[: len(touched)] != resolution[touched]
        own = self.txns.changes_catalog
        if not changed.any():
            return resolution, spans, own
        resolution = resolution.copy()
        resolution[touched] = synced.resolution[: len(touched)]
        odd = np.unique(candidates.txn[touched[changed]])
        own = own.copy()
        own[odd] = True
        which = np.flatnonzero(np.isin(candidates.txn, odd))
        at = candidates.at[which]
        rows = self.rows
        more = np.stack([candidates.txn[which], rows.change_locator[at], rows.change_first[at], resolution[which]])
        both = np.concatenate([spans[:, ~np.isin(spans[0], odd)], more], axis=1)
        return resolution, both[:, np.lexsort((both[2], both[1], both[0]))], own

    def _announced(
        self, synced: Synced | None, touched: Int64s, truncates: Sequence[WantedTruncate], choice: Choice
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Before which candidates, and which relations of truncates, the schema goes."""
        announce = np.zeros(len(choice.wanted), np.bool_)
        numbers = np.array([number for t in truncates for number in t.relations], np.int64)
        if synced is None:
            return announce, np.zeros(len(numbers), np.bool_)
        wants = np.array([use.wants for use in self.resolver.resolutions] or [0], np.int64)
        wanted = wants[numbers] & WANT_TRUNCATE != 0
        sends = synced.announced(np.concatenate([choice.wanted[touched], wanted]))
        announce[touched] = sends[: len(touched)]
        return announce, sends[len(touched) :]

    def _forgotten(self, data: bytes, lsn: int) -> set[int]:
        """Relations (0: all) whose schema the plugin forgets at a group of invalidation messages."""
        found = {self.plugin.invalidates(message) for message in self._concerning_us(data, lsn)}
        return {relation for relation in found if relation is not None}

    def _reloaded(self, data: bytes, lsn: int) -> set[int]:
        """{0} if the plugin loads publications anew after a group of invalidation messages."""
        return {0} if any(self.plugin.reloads(message) for message in self._concerning_us(data, lsn)) else set()

    def _concerning_us(self, data: bytes, lsn: int) -> list[Invalidation]:
        messages = parse_invalidations(data, lsn, self.store.major)
        return [message for message in messages if message.db in (0, self.store.database_oid)]
