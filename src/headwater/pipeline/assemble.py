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
from headwater.errors import HeadwaterError, warn
from headwater.pg.lsn import Lsn
from headwater.pipeline.driver_messages import DriverMessages, WantedMessages, WantedTruncate, renumbered
from headwater.pipeline.named_table import TableNames
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
from headwater.reorder.history import History, began_before, read_history
from headwater.reorder.plan import Plan
from headwater.reorder.resend import ForgetPlaces, Subject, crossed_commits
from headwater.reorder.resolve import WANT_TRUNCATE, Describe, Resolved, Resolver
from headwater.reorder.spans import spans_by_unit
from headwater.reorder.sync import Forgetting, LoadedPublications, SyncedRows, Touches, sync_rows
from headwater.reorder.transactions import NEVER, CommittedTransactions, committed_transactions
from headwater.reorder.units import make_units
from headwater.rmgr.index import UNREFINED, Refinement, WalIndex
from headwater.rmgr.index_rows import InvalidationTable
from headwater.rmgr.invalidation import Invalidation

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
        synced = self._sync(candidates, resolved, truncates) if self.plugin.sends_schema else None
        if synced is not None:
            resolved, truncates = synced.resolved, renumbered(truncates, synced.others)
        own = txns.changes_catalog if synced is None else synced.own
        uses = self.resolver.resolutions
        choice = choose(rows, candidates, resolved.resolution, uses, len(txns.xid))
        units, unit_of = make_units(txns, self._busy(candidates, choice, truncates, messages), own, messages.bare)
        truncated = np.array([uses[n].wants & WANT_TRUNCATE != 0 for t in truncates for n in t.relations], np.bool_)
        announced = np.zeros(len(at) + len(truncated), np.bool_)
        if synced is not None:
            announced = synced.announced(choice.wanted, truncated)
        changes = change_rows(rows, candidates, unit_of, resolved.resolution, choice, announced[: len(at)])
        events = driver.events(units, unit_of, messages, truncates, iter(announced[len(at) :]))
        spans = spans_by_unit(resolved.spans, unit_of)
        left_out = left_out_origins(rows.changes.origin, self.plugin.filter_origin)
        plan = Plan(units, changes, events, uses, spans, rows.locators, self.grid, left_out)
        return Assembly(
            plan, self.history, len(units.xid), int(rows.changes.count[at[choice.wanted]].sum()), consistent_at
        )

    def _describe(self, schema: RelationSchema, catalog: CatalogView) -> tuple[int, tuple[bytes, ...]]:
        wants = self.plugin.wants(schema, catalog) if self.window.tables.chooses(schema, catalog) else 0
        return wants, tuple(self.plugin.schema_messages(schema, catalog)) if wants else ()

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
        """The candidates as a plugin takes them that keeps in mind what it was told of relations."""
        more = [(number, t.txn, t.lsn) for t in truncates for number in t.relations]
        itself = np.where(self.output, np.arange(len(self.output)), -1)
        places = ForgetPlaces(self.rows, self.txns, self.output, itself, self.txns.commit_lsn)
        return sync_rows(
            candidates,
            resolved,
            Touches(*np.array(more, np.int64).reshape(-1, 3).T),
            self.resolver,
            Forgetting(places.forgets(self._forgotten)),
            _SchemaSender(self.plugin, self._describe, self.txns, self.window),
        )

    def _forgotten(self, invals: InvalidationTable) -> set[Subject]:
        """What the plugin forgets at a group of invalidation messages."""
        columns = (column.tolist() for column in (invals.id, invals.db, invals.value))
        messages = (Invalidation(*one) for one in zip(*columns, strict=True))
        ours = (message for message in messages if message.db in (0, self.store.database_oid))
        return {subject for message in ours for subject in self.plugin.forgets(message)}


class _SchemaSender:
    """The plugin as it is asked with what it keeps in mind; see :class:`headwater.reorder.sync.SchemaSender`."""

    def __init__(self, plugin: OutputPlugin, describe: Describe, txns: CommittedTransactions, window: Window) -> None:
        self.publication_names = plugin.publication_names
        self.tracks = plugin.tracks
        self._plugin = plugin
        self._describe = describe
        self._txns = txns
        self._window = window
        self._warned: set[str] = set()

    def loads(self, catalog: LoadedPublications, txn: int, lsn: int) -> None:
        """Warn of publications that are missing there, of each once."""
        for name in self._plugin.missing_publications(catalog):
            if name not in self._warned:
                warn(
                    f'skipped loading publication "{name}": it does not exist at this point in the WAL',
                    lsn=lsn,
                    hint="nothing is published by it until a change that comes after its creation",
                )
            self._warned.add(name)

    def describes(
        self, schema: RelationSchema, catalog: LoadedPublications, txn: int, lsn: int
    ) -> tuple[int, tuple[bytes, ...]]:
        """Ask; an error says where, and how to have what comes before."""
        try:
            return self._describe(schema, catalog)
        except HeadwaterError as error:
            error.lsn = error.lsn if error.lsn is not None else lsn
            end = Lsn(self._window.end_before(int(self._txns.commit_lsn[txn])))
            error.hint = error.hint or f"end the window at {end} to have what comes before that change's transaction"
            raise
