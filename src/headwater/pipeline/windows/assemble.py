"""Step 2 and 3 on the driver: from the index of a window to the plan of its output.

In: the rows of a window and the catalog rolled forward over it, a plugin. Out: a :class:`Plan` of what committed there.
Work on flat arrays throughout; Python goes row by row only over messages and truncates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import taken
from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.errors import PluginError
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.windows.ddl_steps import ddl_of_window
from headwater.pipeline.windows.driver_messages import (
    DdlMessages,
    DriverMessages,
    FrameMessages,
    WantedMessages,
    WantedTruncate,
    renumbered,
)
from headwater.pipeline.windows.last_transaction import MANY, changes_in_mind, last_changes, require_told, with_changes
from headwater.pipeline.windows.schema_sender import PluginSender
from headwater.plugins.api import CatalogView, SlicePlugin
from headwater.reorder.announced_schemas import Given, SchemaMemory
from headwater.reorder.announcing.cache_invalidation import CacheInvalidation
from headwater.reorder.announcing.relation_sync import SyncedRows, Touches, as_seen, sync_rows
from headwater.reorder.commits.control import Control
from headwater.reorder.commits.invalidation_places import concerns, find_forgets
from headwater.reorder.commits.open_transactions import OpenTransactions, began_before
from headwater.reorder.commits.replays import STREAM_COMMITS, STREAMS, Replays
from headwater.reorder.commits.streamed_replays import ends_of_shown, still_shown
from headwater.reorder.commits.transactions import NEVER, CommittedTransactions, toplevel_of
from headwater.reorder.commits.wal_levels import Decodable, is_decodable, lies_in, starting_at
from headwater.reorder.integer_keys import or_together
from headwater.reorder.plan import Plan, Units
from headwater.reorder.slices.changes import (
    Candidates,
    Choice,
    candidate_rows,
    change_rows,
    choose,
    has_origin_of,
    left_out_origins,
)
from headwater.reorder.slices.resolve import Resolved, Resolver, wanted_kinds
from headwater.reorder.slices.spans import spans_by_unit
from headwater.reorder.slices.units import make_units
from headwater.reorder.slices.unwanted_changes import PassedOver
from headwater.reorder.wanted_changes import Description
from headwater.rmgr.index.index_codes import DELETES_BARE, DELETES_OLD, UPDATES
from headwater.rmgr.index.wal_index import WalIndex

Int64s = NDArray[np.int64]

_DELETES = DELETES_OLD | DELETES_BARE


@dataclass(frozen=True)
class Assembly:
    """The knowledge of the driver before decoding.

    Attributes:
        plan: what to decode.
        transactions: how many transactions and bare messages are output.
        changes: how many row changes are wanted.
        passed_over: how many of the same transactions are not, and are not taken apart; those of catalogs aside.
        late: int64[n] where transactions committed that are wanted, but cannot be decoded.
        memory: what the plugin remembers at the end.
        catalog_times: of transactions that changed the catalog, when they committed, microseconds since 2000, by START
            of the commit's record.
        unwanted: changes of relations of which none are wanted.
    """

    plan: Plan
    transactions: int
    changes: int
    passed_over: int
    late: Int64s
    memory: SchemaMemory
    catalog_times: Mapping[int, int]
    unwanted: PassedOver


@dataclass(frozen=True)
class RolledWindow:
    """A window that the catalog was rolled forward over.

    Attributes:
        index: of the window, joined with what those before it left.
        commits: transactions that committed in it.
        store: the catalog, rolled forward over it.
        control: what is known at its end.
        decodable: where its transactions can be decoded.
        left: what those before it left.
        memory: what the plugin remembers at its start.
        end: LSN after its last record.
        replays: what is replayed in it.
        late_messages: int64[k] sorted: places of logical messages that come after the change that follows them.
    """

    index: WalIndex
    commits: CommittedTransactions
    store: CatalogStore
    control: Control
    decodable: tuple[Decodable, ...]
    left: OpenTransactions
    memory: SchemaMemory
    end: int
    replays: Replays
    late_messages: Int64s


def assemble(window: RolledWindow, plugin: SlicePlugin, scope: Scope) -> Assembly:
    """Plan the output of the transactions that committed in a window.

    Args:
        window: it.
        plugin: what the output is for.
        scope: which transactions are wanted.

    Raises:
        CatalogError, DecodingError, PluginError: as the catalog, records, plugin or tables demand.
    """
    return _Assembler(window, plugin, scope).run()


@dataclass(frozen=True)
class _Describing:
    """The description of relations: which changes are wanted, and how a relation is announced."""

    plugin: SlicePlugin
    scope: Scope

    def __call__(self, schema: RelationSchema, catalog: CatalogView) -> Description:
        if not self.scope.tables.chooses(schema, catalog):
            return Description()
        schema = self.shown(schema, catalog)
        chosen, description = self.plugin.chosen, self.plugin.describe(schema, catalog)
        description = description if chosen is None else chosen.described(description, schema, catalog)
        if description.filters is not None and self.plugin.traits.marks_rows:
            raise PluginError(
                f'the rows of table "{schema.namespace}.{schema.name}" are filtered, and may not be complete',
                hint="below wal_level logical, name a publication without a row filter, or none",
            )
        return description

    def shown(self, schema: RelationSchema, catalog: CatalogView) -> RelationSchema:
        """Return the relation without columns that nobody wants, with what the plugin looks up of it."""
        schema = self.plugin.looked_up(schema, catalog)
        return schema if self.plugin.chosen is None else self.plugin.chosen.shown(schema, catalog)


class _Assembler:
    """One call of :func:`assemble`."""

    def __init__(self, window: RolledWindow, plugin: SlicePlugin, scope: Scope) -> None:
        self.window = window
        self.rows = window.index.rows
        self.wanted_at = starting_at(window.decodable, scope.start)
        self.txns = window.replays
        self.store = window.store
        self.plugin, self.traits = plugin, plugin.traits
        self.scope = scope
        commits = window.left.commits_behind(window.commits)
        # Not a method of this one: a window's arrays would be in a cycle, and stay until Python looks for those.
        self.describe = _Describing(plugin, scope)
        self.resolver = Resolver(
            window.store, self.rows.commands, self.txns, commits, self.describe, self.traits.sends_schema
        )
        self.wanted = self._wanted()
        self.decodable = is_decodable(self.txns.place, self.txns.first_lsn, self.wanted_at)
        self.output: NDArray[np.bool_] = self.wanted & (self.txns.base_lsn != NEVER) & self.decodable

    def run(self) -> Assembly:
        """Assemble the window."""
        rows, txns = self.rows, self.txns
        candidates = candidate_rows(rows, txns, self.output, self.plugin.filter_origin)
        at = candidates.at
        resolved = self.resolver.rows(
            candidates.txn, candidates.locator, candidates.first, candidates.kinds, rows.locators
        )
        driver = DriverMessages(
            rows, txns, self.output, self.plugin, self.resolver, self._in_window, self.window.late_messages
        )
        truncates, messages, framed = list(driver.truncates()), driver.messages(), driver.framed()
        ddl = list(self._ddl()) if self.traits.wants_ddl else []
        synced, memory = self._sync(candidates, resolved, truncates)
        resolved, truncates = synced.resolved, renumbered(truncates, synced.others)
        uses = self.resolver.resolutions
        choice = choose(rows, candidates, resolved.resolution, uses, len(txns.xid))
        self._tell_passed_over(candidates, resolved.resolution)
        self._require_sure_blocks(candidates, resolved.resolution, choice)
        busy, shown = self._busy(candidates, choice, truncates, messages, framed)
        busy[[made.txn for made in ddl]] = True
        memory = replace(memory, shown=shown)
        units, unit_of = make_units(txns, busy, synced.own, messages.bare)
        changes = change_rows(rows, candidates, unit_of, resolved.resolution, choice, synced.announce)
        events = driver.events(units, unit_of, messages, truncates, synced.announce_others, framed, ddl)
        spans = spans_by_unit(resolved.spans, unit_of)
        left_out = left_out_origins(rows.changes.origin, self.plugin.filter_origin)
        grid, cuts, leads = self.window.index.grid, self.traits.cuts_transactions, self.traits.leads_messages
        follows_many = False
        if leads:
            before = changes_in_mind(memory)
            require_told(before, units)
            follows_many = before == MANY
            memory = with_changes(memory, self._last_changes(candidates, resolved, choice, messages, units, before))
        plan = Plan(
            *(units, changes, events, uses, spans, rows.locators, grid, left_out, cuts, leads, follows_many),
            counted=_counted(synced.counted, unit_of),
            before=memory.last,
        )
        if self.traits.tells_last:
            memory = replace(memory, last=plan.last)
        count = int(taken(rows.changes.count, at[choice.wanted]).sum())
        is_table = np.array([not use.is_toast for use in uses] + [False], np.bool_)
        unwanted = is_table[resolved.resolution] & ~choice.wanted
        passed_over = int(taken(rows.changes.count, at[unwanted]).sum())
        own = np.flatnonzero(txns.changes_catalog)
        times = dict(zip(txns.final_lsn[own].tolist(), txns.time[own].tolist(), strict=True))
        silent = PassedOver(candidates, resolved.resolution, uses, txns)
        return Assembly(plan, len(units.xid), count, passed_over, self._late(), memory, times, silent)

    # -- which transactions

    def _wanted(self) -> NDArray[np.bool_]:
        """Return bool[t]: transactions that are output if decoding can begin before them (DecodeTXNNeedSkip)."""
        txns, keep = self.txns, self._is_of_database()
        if self.scope.commits is not None:
            first, last = self.scope.commits
            keep &= (txns.place >= first) & (txns.place <= last)
        if txns.origin.any() or self.plugin.filter_origin(0):
            keep &= ~has_origin_of(txns.origin, self.plugin.filter_origin)
        return keep

    def _is_of_database(self) -> NDArray[np.bool_]:
        """Return bool[t]: below logical, a commit names its database only if it drops files or changes the catalog."""
        txns, rows = self.txns, self.rows
        named: NDArray[np.bool_] = txns.database == self.store.database_oid
        unnamed: NDArray[np.bool_] = txns.database == 0
        if not self.store.redo.numbers_commands:
            touching = txns.txn_of(np.append(rows.changes.xid, rows.messages.xid))
            unnamed = unnamed & np.isin(np.arange(len(unnamed)), touching)
        return named | unnamed

    def _late(self) -> Int64s:
        """Return the wanted transactions that cannot be decoded, and may have changed something."""
        txns, asked = self.txns, max(self.scope.start, self.store.origin.first_lsn)
        late: NDArray[np.bool_] = self.wanted & txns.has_changes & (txns.kind != STREAMS)
        late &= (txns.place >= asked) & ~self.decodable
        late &= (txns.base_lsn != NEVER) | began_before(txns.xid, self.store, self.window.control)
        commits: Int64s = txns.place[late]
        return commits

    def _ddl(self) -> Iterator[DdlMessages]:
        """Make the plugin's messages for the DDL of output transactions, by their places."""
        placed = ddl_of_window(self.rows, self.window.commits, self.store, self.output)
        for (txn, lsn), events in groupby(placed, key=lambda placed_event: (placed_event.txn, placed_event.lsn)):
            texts = tuple(
                text
                for placed_event in events
                for text in self.plugin.ddl(placed_event.event, placed_event.number, placed_event.behind)
            )
            if texts:
                yield DdlMessages(txn, lsn, texts)

    def _in_window(self, lsn: Int64s) -> NDArray[np.bool_]:
        return lies_in(lsn, self.wanted_at)

    def _busy(
        self,
        candidates: Candidates,
        choice: Choice,
        truncates: Sequence[WantedTruncate],
        messages: WantedMessages,
        framed: FrameMessages,
    ) -> tuple[NDArray[np.bool_], tuple[int, ...]]:
        """Return bool[t]: output replays without those that the plugin passes over because they are empty.

        Return also the streamed transactions that have not ended, and of which something has been shown.
        """
        silent = ~self.txns.has_changes
        if self.txns.streamed is not None:
            silent |= self.txns.streamed.is_empty
        silent[framed.begun] = False
        if not self.traits.skips_empty:
            return self.output & ~silent, ()
        busy = np.zeros(len(self.output), np.bool_)
        busy[framed.begun] = True
        puts_off = self.traits.puts_off_streams and self.txns.streamed is not None
        if puts_off:
            busy[(self.txns.kind == STREAMS) | (self.txns.kind >= STREAM_COMMITS)] = False
        busy[candidates.txn[choice.wanted]] = True
        busy[[made.txn for made in truncates]] = True
        begun = self.output & busy
        busy[messages.txn[messages.txn >= 0]] = True
        if not puts_off:
            return self.output & busy, ()
        if self.traits.messages_count:
            begun = self.output & busy
        before = self.window.memory.shown
        busy |= ends_of_shown(self.txns, begun, np.array(before, np.int64))
        return self.output & busy, still_shown(self.txns, begun, before)

    def _require_sure_blocks(self, candidates: Candidates, resolution: Int64s, choice: Choice) -> None:
        """Refuse to find out in tasks which blocks say nothing: what ends their transactions depends on that."""
        if self.txns.streamed is None or not self.traits.puts_off_streams:
            return
        is_filtered = np.array([use.filters is not None for use in self.resolver.resolutions] + [False], np.bool_)
        is_of_block = self.txns.kind[candidates.txn] == STREAMS
        rows = np.flatnonzero(choice.wanted & is_filtered[resolution] & is_of_block)
        if len(rows):
            raise PluginError(
                f"plugin {self.plugin.name} cannot leave out streamed blocks that a row filter makes empty",
                lsn=int(candidates.first[rows[0]]),
                hint="show empty transactions, leave streaming off, or raise logical_decoding_work_mem",
            )

    def _tell_passed_over(self, candidates: Candidates, resolution: Int64s) -> None:
        """Tell the plugin of rows that it does not want of relations of which it wants others."""
        uses = self.resolver.resolutions
        kinds = or_together(candidates.kinds, resolution + 1, len(uses) + 1)[1:]
        wanted = wanted_kinds(np.array([use.wants for use in uses], np.int64))
        for number in np.flatnonzero((kinds & ~wanted & (UPDATES | _DELETES) != 0) & (wanted != 0)).tolist():
            left_out = int(kinds[number] & ~wanted[number])
            self.plugin.passes_over(uses[number].schema, bool(left_out & UPDATES), bool(left_out & _DELETES))

    def _last_changes(
        self,
        candidates: Candidates,
        resolved: Resolved,
        choice: Choice,
        messages: WantedMessages,
        units: Units,
        before: int,
    ) -> int:
        """Count the messages of the last transaction, for the next window."""
        # Number -1 is the last element.
        certain = wanted_kinds(np.array([use.certain for use in self.resolver.resolutions] + [0], np.int64))
        changes = last_changes(
            self.rows,
            candidates,
            choice,
            certain[resolved.resolution],
            messages,
            units,
            may_leave_out=self.traits.chooses_messages,
        )
        return before if changes is None else changes

    # -- what a plugin that sends schemas knows of relations

    def _sync(
        self, candidates: Candidates, resolved: Resolved, truncates: Sequence[WantedTruncate]
    ) -> tuple[SyncedRows, SchemaMemory]:
        """Return the candidates, and the relations of truncates, as the plugin takes them."""
        more = [(number, t.txn, t.lsn) for t in truncates for number in t.relations]
        others = Touches(*np.array(more, np.int64).reshape(-1, 3).T)
        if not self.traits.sends_schema:
            return as_seen(resolved, others, self.txns.changes_catalog), self.window.memory
        concerned = concerns(self.rows.invals, self.store.database_oid, self.traits.heeded, self.plugin.forgets)
        forgets, given = find_forgets(concerned, toplevel_of(self.rows), self.txns, self.output & self.txns.has_changes)
        return sync_rows(
            candidates,
            resolved,
            others,
            self.resolver,
            CacheInvalidation(
                forgets, self._handed_on() | given, self.txns, self.output & self.txns.has_changes, self._restarted()
            ),
            PluginSender(self.plugin, self.describe, self._end_before),
            self.window.memory,
            self.window.end,
        )

    def _restarted(self) -> Int64s:
        """Return int64[n] the transactions before which the server was restarted with a high enough wal_level."""
        lo = self.window.index.lo
        raised = np.array(
            [decodable.first for decodable in self.window.decodable if decodable.first >= max(lo, 1)], np.int64
        )
        return np.searchsorted(self.txns.place, raised)

    def _handed_on(self) -> Given:
        """Return the invalidations that commits before the window have handed on to transactions that were open."""
        handed, forgets = self.window.left.handed_on, self.plugin.forgets
        concerned = concerns(handed.messages(), self.store.database_oid, self.traits.heeded, forgets)
        return Given.of(np.stack([concerned.lsn, concerned.memory, concerned.subject]), handed.counts())

    def _end_before(self, txn: int) -> int:
        return self.scope.end_before(int(self.txns.place[txn]))


def _counted(counted: Int64s, unit_of: Int64s) -> Int64s:
    """Return by units what is by replays; what is not output counts for nobody."""
    unit = unit_of[counted[0]]
    by_unit = np.stack([unit, counted[1], counted[2]])[:, unit >= 0]
    return by_unit[:, np.lexsort(by_unit[::-1])]
