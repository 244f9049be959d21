"""The fold: from the state at an LSN, and the index of what follows, to the plan of that and the state after it.

In: a :class:`State`, the index of the WAL from its LSN on, the catalog at its LSN. Out: :class:`Advanced`, or what the
index lacks. Pure: the same state and the same WAL give the same plan and the same next state, wherever the WAL is cut.

Control records, the catalog and transactions are followed once, for all outputs. Which of them are replayed to a
plugin, and how, is asked for each output. What any of them lacks is indexed for all, as the finest of them needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.copied_files import check_files
from headwater.catalog.store.image_io import image_of
from headwater.errors import PluginError, RecordError, errors_of_output, warn
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_output import OpenOutput
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.windows.assemble import Assembly, RolledWindow, assemble
from headwater.pipeline.windows.window_checks import Int64s, check_consistent, check_window
from headwater.reorder.commits.accounting import StreamRules, account
from headwater.reorder.commits.control import Control, Followed, control_at, follow, once_consistent
from headwater.reorder.commits.open_transactions import NOTHING_OPEN, OpenTransactions, settle, still_open
from headwater.reorder.commits.replays import Replays, TwoPhase, replays_of_commits, replays_with_prepared
from headwater.reorder.commits.row_cuts import needed_cuts
from headwater.reorder.commits.state import OutputState, State
from headwater.reorder.commits.stream_rules import NOTHING_QUEUED, Accounting, Running, Streams
from headwater.reorder.commits.streamed_replays import replays_with_streams
from headwater.reorder.commits.transactions import NEVER, CommittedTransactions, committed_transactions
from headwater.reorder.commits.wal_levels import Decodable, starting_at
from headwater.reorder.slices.message_order import message_order
from headwater.rmgr.index.index_rows import Rows
from headwater.rmgr.index.wal_index import UNREFINED, Locator, Refinement, WalIndex


@dataclass(frozen=True)
class Start:
    """The beginning of a window, beside the catalog; see :class:`headwater.reorder.commits.state.State`."""

    lsn: int
    last_lsn: int
    control: Control
    left: OpenTransactions
    outputs: tuple[OutputState, ...]

    @classmethod
    def of_state(cls, state: State) -> Start:
        """Begin as the windows before left it."""
        return cls(state.lsn, state.last_lsn, state.control, state.left, state.outputs)

    @classmethod
    def of_catalog(
        cls, store: CatalogStore, whole: frozenset[int], needed: int, outputs: tuple[OutputState, ...]
    ) -> Start:
        """Begin where a catalog was taken; ``whole``, ``needed``: see ``control.control_at``."""
        return cls(store.start_lsn, 0, control_at(store, whole, needed), NOTHING_OPEN, outputs)

    @property
    def restart_lsn(self) -> int:
        """Nothing that has not ended began before it."""
        first = self.left.first_lsn
        return self.lsn if first is None else first


@dataclass(frozen=True)
class Behind:
    """The state of things after a window.

    Attributes:
        store: the catalog, rolled forward over it.
        control: what is known at its end, and why decoding could not begin earlier, if it has begun in it.
        lsn: LSN after its last record; last_lsn: where that one starts.
        left: what is known of transactions that have not ended.
        outputs: see :class:`headwater.reorder.commits.state.State`.
    """

    store: CatalogStore
    control: Control
    lsn: int
    last_lsn: int
    left: OpenTransactions = field(repr=False)
    outputs: tuple[OutputState, ...] = field(repr=False)

    def state(self, timeline: int) -> State:
        """Return the state after the window, where the log is on a timeline."""
        first = self.left.first_lsn
        horizon = self.lsn if first is None else first
        return State(
            lsn=self.lsn,
            last_lsn=self.last_lsn,
            timeline=timeline,
            control=once_consistent(self.control),
            catalog=image_of(self.store, horizon, self.lsn, self.control.next_xid),
            left=self.left,
            outputs=self.outputs,
        )


@dataclass(frozen=True)
class Advanced:
    """A window that was gone through.

    Attributes:
        assemblies: what is output of it, of each output.
        behind: the state of things after it.
        followed: what its records say.
    """

    assemblies: tuple[Assembly, ...]
    behind: Behind
    followed: Followed


Watch = Callable[[RolledWindow, Scope], None]
"""Called with a window that the catalog was rolled forward over, once it lacks nothing, and what is wanted of it; for
each output."""


def nobody_watches(window: RolledWindow, scope: Scope) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class _Window:
    """A window that was followed, as it is for all outputs.

    Attributes:
        start, index, store, detailed: as :func:`advance` has them.
        txns: transactions that committed in it; control: what is known at its end; followed: what its records say.
        lsn: after its last record.
    """

    start: Start
    index: WalIndex
    store: CatalogStore
    detailed: tuple[tuple[int, int], ...]
    txns: CommittedTransactions
    control: Control
    followed: Followed
    lsn: int


@dataclass(frozen=True)
class _Replayed:
    """The part of a window that is replayed to the plugin of one output.

    Attributes:
        output: the output; before: what the windows before left of it.
        two_phase_at: see :class:`OutputState`.
        replays: what is replayed; late: see :attr:`RolledWindow.late_messages`.
        accounting: what is queued at the end.
    """

    output: OpenOutput
    before: OutputState
    two_phase_at: int | None
    replays: Replays
    late: Int64s
    accounting: Accounting


def advance(
    start: Start,
    index: WalIndex,
    store: CatalogStore,
    outputs: Sequence[OpenOutput],
    is_end: bool,
    rolled: Callable[[CatalogStore, int, int, bool], None],
    detailed: tuple[tuple[int, int], ...] = (),
    skips_gaps: bool = False,
    watch: Watch = nobody_watches,
) -> Advanced | Refinement:
    """Go through one window.

    Args:
        start: the state of things after the windows before it, of these outputs.
        index: of its WAL, after the rows that were left.
        store: the catalog at its start; rolled forward in place, and of no use if the index lacks something.
        outputs: what is made of it; one at least, of one window.
        is_end: the session ends here: nothing follows that could bring what the plugins' options name.
        rolled: called with (catalog, LSN before, LSN after, is_end) before a plugin is asked.
        detailed: stretches that were indexed one change a row.
        skips_gaps: what was written while wal_level was too low is left out.
        watch: see :data:`Watch`.

    Returns:
        the window, gone through; or what the index lacks, such as the files that the window rewrites catalogs into:
        index again with that.

    Raises:
        WalError: records are malformed, or do not follow those before; wal_level was too low.
        CatalogError, DecodingError, PluginError: as the catalog, records, plugins or tables demand.
    """
    _check_seam(start, index)
    window = _followed_window(start, index, store, detailed)
    if isinstance(window, Refinement):
        return window
    check_files(store)
    first_wanted = outputs[0].scope.start
    check_window(index, window.followed, None if skips_gaps else first_wanted)
    if is_end:
        _check_end(window, outputs)
    replayed = _all_replayed(window, outputs)
    if isinstance(replayed, Refinement):
        return replayed
    rolled(store, max(first_wanted, start.lsn), window.lsn, is_end)
    left = still_open(start.left, index, window.txns, window.control, [replay.accounting for replay in replayed])
    assemblies = tuple(_assembled(window, replay, watch) for replay in replayed)
    return Advanced(assemblies, _behind(window, left, replayed, assemblies), window.followed)


def _followed_window(
    start: Start, index: WalIndex, store: CatalogStore, detailed: tuple[tuple[int, int], ...]
) -> _Window | Refinement:
    """Follow what all outputs share of a window, the catalog rolled over it too; or return what the index lacks."""
    followed = follow(start.control, index, store)
    txns = committed_transactions(index.rows, followed.levels)
    control = settle(index.rows, txns, start.control, followed, store)
    lacking = Refinement(_files(index.rows, store, start), frozenset(needed_cuts(index.rows, txns).tolist()))
    if lacking != UNREFINED:
        return lacking
    return _Window(start, index, store, detailed, txns, control, followed, index.last_end or start.lsn)


def _all_replayed(window: _Window, outputs: Sequence[OpenOutput]) -> list[_Replayed] | Refinement:
    """Collect the replays of each output; or what the index lacks for any of them."""
    lacking, replayed = UNREFINED, []
    for output, before in zip(outputs, window.start.outputs, strict=True):
        with errors_of_output(output.name):
            replay = _replayed(window, output, before)
        if isinstance(replay, Refinement):
            lacking |= replay
        else:
            replayed.append(replay)
    return replayed if lacking == UNREFINED else lacking


def _behind(
    window: _Window, left: OpenTransactions, replayed: Sequence[_Replayed], assemblies: Sequence[Assembly]
) -> Behind:
    """Return the state of things after the window, of all outputs."""
    outputs = tuple(
        OutputState(replay.output.asked, assembly.memory, replay.two_phase_at, replay.accounting)
        for replay, assembly in zip(replayed, assemblies, strict=True)
    )
    last_lsn = window.index.last_lsn or window.start.last_lsn
    return Behind(window.store, window.control, window.lsn, last_lsn, left, outputs)


def _check_end(window: _Window, outputs: Sequence[OpenOutput]) -> None:
    """Check that decoding could begin, and that there was what the plugins' options name."""
    if window.control.gap is None and not window.control.has_begun:
        check_consistent(window.control, window.store.start_lsn, window.index.hi)
    for output in outputs:
        with errors_of_output(output.name):
            _validate(output, window.store, window.lsn)


def _replayed(window: _Window, output: OpenOutput, before: OutputState) -> _Replayed | Refinement:
    """Collect the replays of one output; or what the index lacks for it."""
    index, txns, followed, plugin = window.index, window.txns, window.followed, output.plugin
    two_phase_at = _two_phase_at(window, output, before)
    rules = _stream_rules(window, output, two_phase_at)
    streams = _streams(window, before, rules) if plugin.traits.stream_limit else None
    if streams is not None and streams.lacking:
        return Refinement(detailed=streams.lacking)
    decodable = starting_at(followed.decodable, output.scope.start)
    replays = _replays(index, txns, rules, decodable, streams, _running(window))
    order = message_order(index.rows, index.lo, replays, txns, plugin.filter_origin)
    if order.lacking:
        return Refinement(detailed=order.lacking, since=min(lo for lo, _ in order.lacking))
    accounting = NOTHING_QUEUED if streams is None else streams.accounting
    return _Replayed(output, before, two_phase_at, replays, order.late, accounting)


def _assembled(window: _Window, replayed: _Replayed, watch: Watch) -> Assembly:
    """Return the plan of one output, whose session names things by its own search_path."""
    output, start = replayed.output, window.start
    rolled = RolledWindow(
        *(window.index, window.txns, window.store, window.control, window.followed.decodable, start.left),
        *(replayed.before.memory, window.lsn, replayed.replays, replayed.late),
    )
    window.store.name_by(output.opened.search_path)
    with errors_of_output(output.name):
        watch(rolled, output.scope)
        return assemble(rolled, output.plugin, output.scope)


def _stream_rules(window: _Window, output: OpenOutput, two_phase_at: int | None) -> StreamRules:
    begins, plugin = [decodable.start for decodable in window.followed.decodable[:1]], output.plugin
    version = output.opened.session.version
    return StreamRules(
        limit=plugin.traits.stream_limit,
        immediate=plugin.traits.stream_limit == 1,
        version=version,
        database=window.store.database_oid,
        streams_from=max(*begins, output.scope.start) if begins else NEVER,
        filters_origins=plugin.filter_origin(1),
        two_phase=None
        if two_phase_at is None
        else TwoPhase(two_phase_at, plugin.filter_prepare, version.finishes_empty_prepared),
    )


def _streams(window: _Window, before: OutputState, rules: StreamRules) -> Streams:
    """Account for the blocks of transactions in progress that are streamed."""
    index = window.index
    return account(
        before.accounting, index.rows, _running(window), index.lo, window.lsn, index.grid, window.detailed, rules
    )


def _running(window: _Window) -> Running:
    lsn, oldest = np.array(window.followed.running, np.int64).reshape(-1, 2).T
    return Running(lsn, oldest)


def _replays(
    index: WalIndex,
    txns: CommittedTransactions,
    rules: StreamRules,
    decodable: tuple[Decodable, ...],
    streams: Streams | None,
    running: Running,
) -> Replays:
    """Return the replays of a window, and their places."""
    if rules.two_phase is None:
        replays = replays_of_commits(txns)
    else:
        replays = replays_with_prepared(index.rows, txns, rules.two_phase, index.lo, decodable)
    return replays if streams is None else replays_with_streams(replays, index.rows, streams, running, rules.database)


def _two_phase_at(window: _Window, output: OpenOutput, before: OutputState) -> int | None:
    """Return the LSN from which on prepared transactions are decoded at PREPARE.

    It is where this was switched on, or where decoding begins.
    """
    if not output.plugin.traits.two_phase or before.two_phase_at is not None:
        return before.two_phase_at if output.plugin.traits.two_phase else None
    begins = [decodable.start for decodable in window.followed.decodable[:1]]
    return max(*begins, window.start.lsn, output.scope.start) if begins else None


def _validate(output: OpenOutput, store: CatalogStore, lsn: int) -> None:
    try:
        output.plugin.validate(store.view(lsn))
    except PluginError as error:
        if not output.scope.may_lack:
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
    """Return the files that proved to be catalogs', and where each was made.

    One that a transaction made before the window is of one that had not ended when the window began.
    """
    files = map(tuple, rows.locators[rows.files.locator].tolist())
    made: dict[tuple[int, ...], int] = dict(zip(files, rows.files.lsn.tolist(), strict=True))
    return frozenset((file, made.get(file, start.restart_lsn)) for file in store.redo.missing_locators())
