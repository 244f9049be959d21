"""Step 2 and 3 on the driver: from the index of a window to the plan of its output.

In: the rows of a window and the catalog rolled forward over it, a plugin. Out: a :class:`Plan` of what committed there.
Work on flat arrays throughout; Python goes row by row only over messages and truncates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store import CatalogStore
from headwater.errors import HeadwaterError, warn
from headwater.pg.lsn import Lsn
from headwater.pipeline.driver_messages import DriverMessages, MadeMessage, WantedTruncate, renumbered
from headwater.pipeline.window import Scope
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
from headwater.reorder.control import Control
from headwater.reorder.history import read_history
from headwater.reorder.open_transactions import began_before
from headwater.reorder.plan import Plan
from headwater.reorder.resend import ForgetPlaces, Subject
from headwater.reorder.resolve import Describe, Resolved, Resolver, spans_by_unit
from headwater.reorder.sync import Forgetting, LoadedPublications, SyncedRows, Touches, sync_rows
from headwater.reorder.transactions import NEVER, CommittedTransactions
from headwater.reorder.units import make_units
from headwater.reorder.wants import WANT_TRUNCATE
from headwater.rmgr.index import WalIndex
from headwater.rmgr.index_rows import InvalidationTable
from headwater.rmgr.invalidation import Invalidation

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Assembly:
    """What the driver knows before decoding.

    Attributes:
        plan: what to decode.
        transactions: how many transactions and bare messages are output.
        changes: how many row changes are wanted.
        late: int64[n] where transactions committed that are wanted, but came before decoding could begin.
    """

    plan: Plan
    transactions: int
    changes: int
    late: Int64s


def assemble(
    index: WalIndex,
    txns: CommittedTransactions,
    store: CatalogStore,
    control: Control,
    plugin: OutputPlugin,
    scope: Scope,
) -> Assembly:
    """Plan the output of the transactions that committed in a window.

    Args:
        index: of the window, joined with what those before it left behind.
        txns: that committed in it.
        store: the catalog, rolled forward over it.
        control: what is known at its end.
        plugin: what the output is for.
        scope: which transactions are wanted.

    Raises:
        CatalogError, DecodingError, PluginError: as the catalog, records, plugin or tables demand.
    """
    return _Assembler(index, txns, store, control, plugin, scope).run()


class _Assembler:
    """One call of :func:`assemble`."""

    def __init__(
        self,
        index: WalIndex,
        txns: CommittedTransactions,
        store: CatalogStore,
        control: Control,
        plugin: OutputPlugin,
        scope: Scope,
    ) -> None:
        self.rows = index.rows
        self.grid = index.grid
        self.txns = txns
        self.store = store
        self.history = read_history(index.kept, store)
        self.control = control
        self.plugin = plugin
        self.scope = scope
        builder = control.builder
        self.start = max(scope.start, builder.start_decoding_at) if builder.is_consistent else NEVER
        self.resolver = Resolver(store, index.rows.commands, txns, self._describe, plugin.sends_schema)
        self.wanted = self._wanted()
        self.output = self.wanted & (txns.base_lsn != NEVER) & (txns.commit_lsn >= self.start)

    def run(self) -> Assembly:
        """All of it."""
        rows, txns = self.rows, self.txns
        candidates = candidate_rows(rows, txns, self.output, self.plugin.filter_origin)
        at = candidates.at
        resolved = self.resolver.rows(
            candidates.txn, candidates.locator, candidates.first, candidates.kinds, rows.locators
        )
        driver = DriverMessages(self.history, rows, txns, self.output, self.plugin, self.resolver, self._in_window)
        truncates, messages = list(driver.truncates()), list(driver.messages())
        synced = self._sync(candidates, resolved, truncates) if self.plugin.sends_schema else None
        if synced is not None:
            resolved, truncates = synced.resolved, renumbered(truncates, synced.others)
        own = txns.changes_catalog if synced is None else synced.own
        uses = self.resolver.resolutions
        choice = choose(rows, candidates, resolved.resolution, uses, len(txns.xid))
        bare = [made.message for made in messages if made.txn < 0]
        units, unit_of = make_units(txns, self._busy(candidates, choice, truncates, messages), own, bare)
        truncated = np.array([uses[n].wants & WANT_TRUNCATE != 0 for t in truncates for n in t.relations], np.bool_)
        announced = np.zeros(len(at) + len(truncated), np.bool_)
        if synced is not None:
            announced = synced.announced(choice.wanted, truncated)
        changes = change_rows(rows, candidates, unit_of, resolved.resolution, choice, announced[: len(at)])
        events = driver.events(units, unit_of, messages, truncates, iter(announced[len(at) :]))
        spans = spans_by_unit(resolved.spans, unit_of)
        left_out = left_out_origins(rows.changes.origin, self.plugin.filter_origin)
        plan = Plan(units, changes, events, uses, spans, rows.locators, self.grid, left_out)
        return Assembly(plan, len(units.xid), int(rows.changes.count[at[choice.wanted]].sum()), self._late())

    def _describe(self, schema: RelationSchema, catalog: CatalogView) -> tuple[int, tuple[bytes, ...]]:
        wants = self.plugin.wants(schema, catalog) if self.scope.tables.chooses(schema, catalog) else 0
        return wants, tuple(self.plugin.schema_messages(schema, catalog)) if wants else ()

    # -- which transactions

    def _wanted(self) -> NDArray[np.bool_]:
        """bool[t]: transactions that are output if decoding can begin before them (DecodeTXNNeedSkip)."""
        txns = self.txns
        keep: NDArray[np.bool_] = (txns.database == 0) | (txns.database == self.store.database_oid)
        if self.scope.commits is not None:
            first, last = self.scope.commits
            keep &= (txns.commit_lsn >= first) & (txns.commit_lsn <= last)
        if txns.origin.any() or self.plugin.filter_origin(0):
            keep &= ~has_origin_of(txns.origin, self.plugin.filter_origin)
        return keep

    def _late(self) -> Int64s:
        """Wanted transactions that committed before decoding could begin, and may have changed something."""
        txns, asked = self.txns, max(self.scope.start, self.store.start_lsn)
        late: NDArray[np.bool_] = self.wanted & (txns.commit_lsn >= asked) & (txns.commit_lsn < self.start)
        late &= (txns.base_lsn != NEVER) | began_before(txns, self.store, self.control)
        commits: Int64s = txns.commit_lsn[late]
        return commits

    def _in_window(self, lsn: int) -> bool:
        return bool(lsn >= self.start)

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
            _SchemaSender(self.plugin, self._describe, self.txns, self.scope),
        )

    def _forgotten(self, invals: InvalidationTable) -> set[Subject]:
        """What the plugin forgets at a group of invalidation messages."""
        columns = (column.tolist() for column in (invals.id, invals.db, invals.value))
        messages = (Invalidation(*one) for one in zip(*columns, strict=True))
        ours = (message for message in messages if message.db in (0, self.store.database_oid))
        return {subject for message in ours for subject in self.plugin.forgets(message)}


class _SchemaSender:
    """The plugin as it is asked with what it keeps in mind; see :class:`headwater.reorder.sync.SchemaSender`."""

    def __init__(self, plugin: OutputPlugin, describe: Describe, txns: CommittedTransactions, scope: Scope) -> None:
        self.publication_names = plugin.publication_names
        self.tracks = plugin.tracks
        self._plugin = plugin
        self._describe = describe
        self._txns = txns
        self._scope = scope
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
            end = Lsn(self._scope.end_before(int(self._txns.commit_lsn[txn])))
            error.hint = error.hint or f"end the window at {end} to have what comes before that change's transaction"
            raise
