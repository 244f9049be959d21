"""Step 2 and 3 on the driver: from the index of a window to the plan of its output.

In: a merged index, the catalog at its start, a plugin. Out: a :class:`Plan`, and where decoding began. Work on flat
arrays throughout; Python goes row by row only over catalog events and truncates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.catalog.snapshot import SnapBuilder
from headwater.catalog.store import CatalogStore
from headwater.pipeline.driver_messages import DriverMessages, WantedMessages, WantedTruncate, renumbered
from headwater.pipeline.named_table import TableNames
from headwater.pipeline.schema_sender import PluginSender
from headwater.pipeline.window import Window, check_database_stays, check_window, warn_of_late_start
from headwater.plugins.api import CatalogView, OutputPlugin
from headwater.reorder.changes import (
    Candidates,
    Choice,
    candidate_rows,
    change_rows,
    choose,
    has_origin_of,
    left_out_origins,
)
from headwater.reorder.earlier import without_earlier
from headwater.reorder.forgetting import Forgetting
from headwater.reorder.history import History, began_before, read_history
from headwater.reorder.plan import Plan
from headwater.reorder.resend import concerns, crossed_commits, find_forgets
from headwater.reorder.resolve import Resolved, Resolver, spans_by_unit
from headwater.reorder.schema_memory import NOTHING_IN_MIND
from headwater.reorder.sync import SyncedRows, Touches, WindowEnd, as_seen, sync_rows
from headwater.reorder.transactions import NEVER, CommittedTransactions, committed_transactions, toplevel_of
from headwater.reorder.units import make_units
from headwater.rmgr.index import UNREFINED, Refinement, WalIndex

Int64s = NDArray[np.int64]


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


def assemble(index: WalIndex, store: CatalogStore, plugin: OutputPlugin, window: Window) -> Assembly | Refinement:
    """Put the transactions of an index back together and plan their output.

    Args:
        index: the merged index, from ``store.start_lsn`` on, or from before that.
        store: the catalog at that LSN; rolled forward in place.
        plugin: what the output is for.
        window: which transactions are wanted.

    Returns:
        the plan and what led to it; or what the index lacks, such as the files that the window rewrites catalogs
        into: index again with that.

    Raises:
        WalError: wal_level was too low, or no consistent point was reached.
        CatalogError, DecodingError, PluginError: as the catalog, records, plugin or tables demand.
    """
    index, whole = without_earlier(index, store)
    txns = committed_transactions(index.rows)
    history = read_history(index, txns, store, SnapBuilder(start_decoding_at=window.start), whole)
    check_database_stays(history, window)
    lacking = Refinement(store.missing_locators(), _cuts(index, txns, plugin))
    if lacking != UNREFINED:
        return lacking
    consistent_at = check_window(index, history, window)
    plugin.validate(store.view(index.hi))
    assembly = _Assembler(index, txns, history, plugin, window).run(consistent_at)
    if window.tables.patterns:
        TableNames(store, window).require_match(window.tables, assembly.plan.relations)
    return assembly


def _cuts(index: WalIndex, txns: CommittedTransactions, plugin: OutputPlugin) -> frozenset[int]:
    return frozenset(crossed_commits(index.rows, txns).tolist()) if plugin.sends_schema else frozenset()


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
        self.hi = index.hi
        self.txns = txns
        self.store = history.store
        self.history = history
        self.plugin = plugin
        self.window = window
        self.start = history.builder.start_decoding_at
        self.resolver = Resolver(history.store, index.rows.commands, txns, self._describe, plugin.sends_schema)
        self.output = self._output()

    def run(self, consistent_at: int) -> Assembly:
        """All of it."""
        rows, txns = self.rows, self.txns
        candidates = candidate_rows(rows, txns, self.output, self.plugin.filter_origin)
        at = candidates.at
        resolved = self.resolver.rows(
            candidates.txn, candidates.locator, candidates.first, candidates.kinds, rows.locators
        )
        driver = DriverMessages(rows, txns, self.output, self.plugin, self.resolver, self._in_window)
        truncates, messages = list(driver.truncates()), driver.messages()
        synced = self._sync(candidates, resolved, truncates)
        resolved, truncates = synced.resolved, renumbered(truncates, synced.others)
        uses = self.resolver.resolutions
        choice = choose(rows, candidates, resolved.resolution, uses, len(txns.xid))
        busy = self._busy(candidates, choice, truncates, messages)
        units, unit_of = make_units(txns, busy, synced.own, messages.bare)
        changes = change_rows(rows, candidates, unit_of, resolved.resolution, choice, synced.announce)
        events = driver.events(units, unit_of, messages, truncates, iter(synced.announce_others))
        spans = spans_by_unit(resolved.spans, unit_of)
        left_out = left_out_origins(rows.changes.origin, self.plugin.filter_origin)
        plan = Plan(units, changes, events, uses, spans, rows.locators, self.grid, left_out)
        return Assembly(
            plan, self.history, len(units.xid), int(rows.changes.count[at[choice.wanted]].sum()), consistent_at
        )

    def _describe(self, schema: RelationSchema, catalog: CatalogView) -> tuple[int, tuple[bytes, ...]]:
        return self.plugin.describe(schema, catalog) if self.window.tables.chooses(schema, catalog) else (0, ())

    # -- which transactions

    def _output(self) -> NDArray[np.bool_]:
        """bool[t]: transactions that are output (DecodeTXNNeedSkip, SnapBuildXactNeedsSkip)."""
        txns = self.txns
        keep: NDArray[np.bool_] = self.window.reads(txns.commit_lsn)
        if self.window.commits is not None:
            first, last = self.window.commits
            keep &= (txns.commit_lsn >= first) & (txns.commit_lsn <= last)
        keep &= (txns.database == 0) | (txns.database == self.store.database_oid)
        if txns.origin.any() or self.plugin.filter_origin(0):
            keep &= ~has_origin_of(txns.origin, self.plugin.filter_origin)
        self._warn_of_late_start(keep)
        keep &= (txns.base_lsn != NEVER) & (txns.commit_lsn >= self.start)
        return keep

    def _warn_of_late_start(self, wanted: NDArray[np.bool_]) -> None:
        """Warn of wanted transactions that committed before decoding could begin, and may have changed something."""
        txns, asked = self.txns, max(self.window.start, self.store.start_lsn)
        if self.start > asked:
            late = wanted & (txns.commit_lsn >= asked) & (txns.commit_lsn < self.start)
            late &= (txns.base_lsn != NEVER) | began_before(txns, self.store.next_xid)
            warn_of_late_start(self.history, txns.commit_lsn[late])

    def _in_window(self, lsn: Int64s) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = (lsn >= self.start) & self.window.reads(lsn)
        return inside

    def _busy(
        self,
        candidates: Candidates,
        choice: Choice,
        truncates: Sequence[WantedTruncate],
        messages: WantedMessages,
    ) -> NDArray[np.bool_]:
        """bool[t]: output transactions without those that the plugin passes over because they are empty."""
        if not self.plugin.skips_empty:
            return self.output
        busy = np.zeros(len(self.output), np.bool_)
        busy[candidates.txn[choice.wanted]] = True
        busy[[made.txn for made in truncates]] = True
        busy[messages.txn[messages.txn >= 0]] = True
        return self.output & busy

    # -- what a plugin that sends schemas knows of relations

    def _sync(self, candidates: Candidates, resolved: Resolved, truncates: Sequence[WantedTruncate]) -> SyncedRows:
        """The candidates, and the relations of truncates, as the plugin takes them."""
        more = [(number, t.txn, t.lsn) for t in truncates for number in t.relations]
        others = Touches(*np.array(more, np.int64).reshape(-1, 3).T)
        if not self.plugin.sends_schema:
            return as_seen(resolved, others, self.txns.changes_catalog)
        found = concerns(self.rows.invals, self.store.database_oid, self.plugin.heeded, self.plugin.forgets)
        forgets, given = find_forgets(found, toplevel_of(self.rows), self.txns, self.output)
        synced, _ = sync_rows(
            candidates,
            resolved,
            others,
            self.resolver,
            Forgetting(forgets, NOTHING_IN_MIND.given | given, self.txns, self.output),
            PluginSender(self.plugin, self._describe, self._end_before),
            NOTHING_IN_MIND,
            WindowEnd(self.hi, NEVER),
        )
        return synced

    def _end_before(self, txn: int) -> int:
        return self.window.end_before(int(self.txns.commit_lsn[txn]))
