"""The fold: from the state at an LSN, and the index of what follows, to the plan of that and the state behind it.

In: a :class:`State`, the index of the WAL from its LSN on, the catalog at its LSN. Out: :class:`Advanced`, or what the
index lacks. Pure: the same state and the same WAL give the same plan and the same next state, wherever the WAL is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headwater.catalog.copied_files import check_files
from headwater.catalog.store import CatalogStore
from headwater.errors import PluginError, RecordError, warn
from headwater.pg.lsn import Lsn
from headwater.pipeline.assemble import Assembly, RolledWindow, assemble
from headwater.pipeline.window import Scope, check_consistent, check_window
from headwater.plugins.api import SlicePlugin
from headwater.reorder.accounting import Running, StreamRules, account
from headwater.reorder.control import Control, Followed, control_at, follow, once_consistent
from headwater.reorder.crossings import needed_cuts
from headwater.reorder.message_order import message_order
from headwater.reorder.open_transactions import NOTHING_OPEN, OpenTransactions, settle, still_open
from headwater.reorder.replays import Replays, TwoPhase, replays_of_commits, replays_with_prepared
from headwater.reorder.schema_memory import NOTHING_IN_MIND, SchemaMemory
from headwater.reorder.state import State
from headwater.reorder.streamed_replays import replays_with_streams
from headwater.reorder.streams import NOTHING_QUEUED, Accounting, Streams
from headwater.reorder.transactions import NEVER, CommittedTransactions, committed_transactions
from headwater.reorder.wal_levels import Decodable, starting_at
from headwater.rmgr.index import UNREFINED, Locator, Refinement, WalIndex
from headwater.rmgr.index_rows import Rows
from headwater.rmgr.xlog import WAL_LEVEL_LOGICAL


@dataclass(frozen=True)
class Start:
    """What a window begins with, beside the catalog; see :class:`headwater.reorder.state.State`."""

    lsn: int
    last_lsn: int
    control: Control
    left: OpenTransactions
    memory: SchemaMemory
    two_phase_at: int | None = None
    accounting: Accounting = NOTHING_QUEUED

    @classmethod
    def of_state(cls, state: State) -> Start:
        """As the windows before left it."""
        return cls(
            *(state.lsn, state.last_lsn, state.control, state.left, state.memory, state.two_phase_at, state.accounting)
        )

    @classmethod
    def of_catalog(cls, store: CatalogStore, whole: frozenset[int], needed: int = WAL_LEVEL_LOGICAL) -> Start:
        """Where a catalog was taken; ``whole``, ``needed``: see :func:`headwater.reorder.control.control_at`."""
        return cls(store.start_lsn, 0, control_at(store, whole, needed), NOTHING_OPEN, NOTHING_IN_MIND)

    @property
    def restart_lsn(self) -> int:
        """Nothing that has not ended began before it."""
        first = self.left.first_lsn
        return self.lsn if first is None else first


@dataclass(frozen=True)
class Behind:
    """What a window leaves behind.

    Attributes:
        store: the catalog, rolled forward over it.
        control: what is known at its end, and why decoding could not begin earlier, if it has begun in it.
        lsn: LSN behind its last record; last_lsn: where that one starts.
        left: what is known of transactions that have not ended.
        memory: what the plugin has in mind.
        two_phase_at, accounting: see :class:`headwater.reorder.state.State`.
    """

    store: CatalogStore
    control: Control
    lsn: int
    last_lsn: int
    left: OpenTransactions = field(repr=False)
    memory: SchemaMemory = field(repr=False)
    two_phase_at: int | None = None
    accounting: Accounting = field(default=NOTHING_QUEUED, repr=False)

    def state(self, timeline: int) -> State:
        """The state behind the window, where the log is on a timeline."""
        first = self.left.first_lsn
        horizon = self.lsn if first is None else first
        return State(
            lsn=self.lsn,
            last_lsn=self.last_lsn,
            timeline=timeline,
            control=once_consistent(self.control),
            catalog=self.store.image(horizon, self.lsn, self.control.next_xid),
            left=self.left,
            memory=self.memory,
            two_phase_at=self.two_phase_at,
            accounting=self.accounting,
        )


@dataclass(frozen=True)
class Advanced:
    """A window that was gone through.

    Attributes:
        assembly: what is output of it.
        behind: what it leaves behind.
        followed: what its records have told.
    """

    assembly: Assembly
    behind: Behind
    followed: Followed


Watch = Callable[[RolledWindow, Scope], None]
"""Called with a window that the catalog was rolled forward over, once it lacks nothing, and what is wanted of it."""


def nobody_watches(window: RolledWindow, scope: Scope) -> None:
    """Nothing is to be done."""


def advance(
    start: Start,
    index: WalIndex,
    store: CatalogStore,
    plugin: SlicePlugin,
    scope: Scope,
    is_end: bool,
    rolled: Callable[[CatalogStore, int, int, bool], None],
    detailed: tuple[tuple[int, int], ...] = (),
    skips_gaps: bool = False,
    watch: Watch = nobody_watches,
) -> Advanced | Refinement:
    """Go through one window.

    Args:
        start: what the windows before it left behind.
        index: of its WAL, behind the rows that were left.
        store: the catalog at its start; rolled forward in place, and of no use if the index lacks something.
        plugin: what the output is for.
        scope: which transactions are wanted.
        is_end: the session ends here: nothing follows that could bring what the plugin's options name.
        rolled: called with (catalog, LSN before, LSN behind, is_end) before the plugin is asked.
        detailed: stretches that were indexed one change a row.
        skips_gaps: what was written while wal_level was too low is left out.
        watch: see :data:`Watch`.

    Returns:
        what came of it; or what the index lacks, such as the files that the window rewrites catalogs into: index again
        with that.

    Raises:
        WalError: records are malformed, or do not follow those before; wal_level was too low.
        CatalogError, DecodingError, PluginError: as the catalog, records, plugin or tables demand.
    """
    _check_seam(start, index)
    followed = follow(start.control, index, store)
    txns = committed_transactions(index.rows, followed.levels)
    control = settle(index.rows, txns, start.control, followed, store)
    lacking = Refinement(_files(index.rows, store, start), frozenset(needed_cuts(index.rows, txns).tolist()))
    if lacking != UNREFINED:
        return lacking
    check_files(store)
    check_window(index, followed, None if skips_gaps else scope.start)
    lsn = index.last_end or start.lsn
    if is_end:
        if control.gap is None and not control.has_begun:
            check_consistent(control, store.start_lsn, index.hi)
        _validate(plugin, store, lsn, scope)
    at = _two_phase_at(start, followed, plugin, scope)
    rules = _stream_rules(followed, store, plugin, scope, at)
    streams = _streams(start, index, followed, detailed, rules) if plugin.stream_limit else None
    if streams is not None and streams.lacking:
        return Refinement(detailed=streams.lacking)
    replays = _replays(index, txns, rules, starting_at(followed.decodable, scope.start), streams)
    order = message_order(index.rows, index.lo, replays, txns, plugin.filter_origin)
    if order.lacking:
        return Refinement(detailed=order.lacking, since=min(lo for lo, _ in order.lacking))
    rolled(store, max(scope.start, start.lsn), lsn, is_end)
    accounting = NOTHING_QUEUED if streams is None else streams.accounting
    left = still_open(start.left, index, txns, control, accounting)
    window = RolledWindow(
        *(index, txns, store, control, followed.decodable, start.left, start.memory, lsn, replays, order.late)
    )
    watch(window, scope)
    assembly = assemble(window, plugin, scope)
    last_lsn = index.last_lsn or start.last_lsn
    behind = Behind(store, control, lsn, last_lsn, left, assembly.memory, at, accounting)
    return Advanced(assembly, behind, followed)


def _stream_rules(
    followed: Followed, store: CatalogStore, plugin: SlicePlugin, scope: Scope, two_phase_at: int | None
) -> StreamRules:
    begins = [one.start for one in followed.decodable[:1]]
    return StreamRules(
        limit=plugin.stream_limit,
        immediate=plugin.stream_limit == 1,
        major=store.major,
        database=store.database_oid,
        streams_from=max(*begins, scope.start) if begins else NEVER,
        filters_origins=plugin.filter_origin(1),
        two_phase=None if two_phase_at is None else TwoPhase(two_phase_at, plugin.filter_prepare),
    )


def _streams(
    start: Start, index: WalIndex, followed: Followed, detailed: tuple[tuple[int, int], ...], rules: StreamRules
) -> Streams:
    """What of transactions in progress is streamed."""
    lsn, oldest = np.array(followed.running, np.int64).reshape(-1, 2).T
    hi = index.last_end or start.lsn
    return account(start.accounting, index.rows, Running(lsn, oldest), index.lo, hi, index.grid, detailed, rules)


def _replays(
    index: WalIndex,
    txns: CommittedTransactions,
    rules: StreamRules,
    decodable: tuple[Decodable, ...],
    streams: Streams | None,
) -> Replays:
    """What is replayed in a window, and when."""
    if rules.two_phase is None:
        replays = replays_of_commits(txns)
    else:
        replays = replays_with_prepared(index.rows, txns, rules.two_phase, index.lo, decodable)
    return replays if streams is None else replays_with_streams(replays, index.rows, streams, rules.database)


def _two_phase_at(start: Start, followed: Followed, plugin: SlicePlugin, scope: Scope) -> int | None:
    """From where on prepared transactions are decoded at PREPARE: where this was switched on, or decoding begins."""
    if not plugin.two_phase or start.two_phase_at is not None:
        return start.two_phase_at if plugin.two_phase else None
    begins = [one.start for one in followed.decodable[:1]]
    return max(*begins, start.lsn, scope.start) if begins else None


def _validate(plugin: SlicePlugin, store: CatalogStore, lsn: int, scope: Scope) -> None:
    try:
        plugin.validate(store.view(lsn))
    except PluginError as error:
        if not scope.may_lack:
            raise
        warn(f'database "{store.database_name}": {error.message}', hint="nothing is decoded of it")


def _check_seam(start: Start, index: WalIndex) -> None:
    if start.last_lsn and index.records and index.first_prev != start.last_lsn:
        raise RecordError(
            f"the first record from {Lsn(start.lsn)} points back at {Lsn(index.first_prev)}, "
            f"expected {Lsn(start.last_lsn)}",
            lsn=start.lsn,
            hint="the WAL may be of another server or timeline than the state that it is to follow",
        )


def _files(rows: Rows, store: CatalogStore, start: Start) -> frozenset[tuple[Locator, int]]:
    """Files that proved to be catalogs', and where each was made.

    One that a transaction made before the window is of one that had not ended when the window began.
    """
    files = map(tuple, rows.locators[rows.files.locator].tolist())
    made: dict[tuple[int, ...], int] = dict(zip(files, rows.files.lsn.tolist(), strict=True))
    return frozenset((file, made.get(file, start.restart_lsn)) for file in store.missing_locators())
