"""The parts of transactions that PostgreSQL streams before they end, by its own accounting of memory.

In: the rows of a window, with those of transactions that were open before it, and what was queued then
(:class:`Accounting`). Out: :class:`Streams`, or the stretches of WAL that have to be indexed one change a row. All
events of the window are put in the order of the WAL, and transactions are numbered. The kernel
(:mod:`headwater.reorder.commits._accounting`) lets them happen as reorderbuffer.c does.

Only cells of the grid in which the limit can be reached are looked at change by change. A first index has none of them,
a second those that an estimate has found. A third has all from the first one on that was lacking still. So a window is
indexed three times at most.

What the server queued before the session began it spilled, or has in memory: that goes by the rows of transactions that
are open, as if those that ended meanwhile had not been there. Aborted transactions are streamed as a walsender does
that decodes at once, and does not know yet that they will abort.

Known gaps: catalog changes in other databases weigh nothing (their NEW_CID records are not in the index); before the
consistent point all is queued, not from SNAPBUILD_FULL_SNAPSHOT on; and those of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.pg.version import Version
from headwater.reorder.commits import _accounting as k
from headwater.reorder.commits import _reorder_buffer as buf
from headwater.reorder.commits.replays import TwoPhase, gids
from headwater.reorder.commits.stream_rules import EVERY, Accounting, Blocks, Running, Streams
from headwater.reorder.integer_keys import Integers, lookup
from headwater.rmgr.index.index_codes import COMMIT, COMMIT_PREPARED
from headwater.rmgr.index.index_rows import ChangeTable, Ragged, Rows
from headwater.rmgr.index.wal_index import joined_stretches

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Stretches = tuple[tuple[int, int], ...]

OID_SIZE = 4


@dataclass(frozen=True)
class StreamRules:
    """The settings of a session that streams.

    Attributes:
        limit: bytes of ``logical_decoding_work_mem``.
        immediate: ``debug_logical_replication_streaming`` is ``immediate``.
        version: the server's, whose memory is counted.
        database: OID.
        streams_from: LSN where output begins (start_decoding_at, not before the consistent point).
        filters_origins: changes with a replication origin are left out.
        two_phase: how prepared transactions are decoded at PREPARE; None if they are not.
    """

    limit: int
    immediate: bool
    version: Version
    database: int
    streams_from: int
    filters_origins: bool = False
    two_phase: TwoPhase | None = None


def account(
    before: Accounting,
    rows: Rows,
    running: Running,
    lo: int,
    hi: int,
    grid: int,
    detailed: Stretches,
    rules: StreamRules,
) -> Streams:
    """Find out which blocks of a window are streamed.

    Args:
        before: the changes queued where it begins.
        rows: of the window, after those of transactions that were open before it.
        running: its RUNNING_XACTS records.
        lo, hi: where it begins and ends.
        grid: the index's.
        detailed: stretches that were indexed one change a row.
        rules: what the session asks for.
    """
    # The kernel goes through the events that reorderbuffer.c would get, in the order of the WAL, and adds up bytes:
    #
    #   place   event             memory of xid 700   of xid 701   in all
    #   0/100   CHANGES  700      40                  -            40
    #   0/180   CHANGES  701      40                  90           130      at a limit of 128 the larger one is streamed
    #   0/200   COMMITS  700      -                   -            0
    events = _Events(rows, before, running, rules)
    table, lists = events.table()
    first_cell, cells = _number_cells(table, lo, hi, grid)
    is_exact = _exact_cells(table, detailed, first_cell, cells, grid)
    buffer = _buffer(before, events.xids, table, lists, is_exact)
    buffer = _run(buffer, _kernel_rules(rules, lo, grid, first_cell))
    return Streams(
        _blocks(buffer),
        *_marked(buffer, is_top=False),
        *_marked(buffer, is_top=True),
        accounting=_accounting(buffer, hi),
        lacking=_lacking(buffer.is_noted, first_cell, grid, detailed),
    )


class _Events:
    """The events of a window, as the kernel takes them.

    Attributes:
        xids: int64[t] sorted: all transactions and subtransactions, whose places here are their numbers.
    """

    def __init__(self, rows: Rows, before: Accounting, running: Running, rules: StreamRules) -> None:
        self._rows, self._running, self._rules, self._since = rows, running, rules, before.lsn
        self._change_size = rules.version.change_size
        # Every xid that anything names gets a number, as the kernel has arrays, not a hash table.
        seen = (rows.xids.xid, rows.assigns.xid, rows.assigns.top, before.xid)
        self.xids = np.unique(np.concatenate(seen))

    def table(self) -> tuple[Int64s, Ragged]:
        """Return the events in the order of the WAL, and the lists of subtransactions that they name.

        The table is int64[EVENT_FIELDS, e].
        """
        rows, ends, prepares = self._rows, self._rows.ends, self._rows.prepares
        parts = [
            self._part(k.ASSIGNS, rows.assigns.lsn, rows.assigns.xid, OTHER=self._numbers(rows.assigns.top)),
            self._part(k.SEES, rows.xids.lsn, rows.xids.xid, KINDS=rows.xids.bits),
            self._changes(),
            self._truncates(),
            self._messages(),
            self._invalidations(),
            self._part(k.COMMANDS, rows.commands.lsn, rows.commands.xid, SIZE=self._change_size),
            self._part(k.RUNS, self._running.lsn, None, OTHER=self._running.oldest),
            self._prepares(),
            self._ends(),
        ]
        table = np.concatenate(parts, axis=1)
        # Stable, as parts are in the order in which the server handles what one record has: the assignment of a
        # subtransaction comes before its change, and an end comes last.
        order = np.argsort(table[k.PLACE], kind="stable")
        return np.ascontiguousarray(table[:, order]), _joined(self._listed(prepares.subs), self._listed(ends.subs))

    def _numbers(self, xids: Integers) -> Int64s:
        return lookup(self.xids, np.arange(len(self.xids)), xids)

    def _listed(self, subs: Ragged) -> Ragged:
        return Ragged(subs.starts, self._numbers(subs.values))

    def _part(self, kind: int, place: Int64s, xids: Integers | None, **columns: Any) -> Int64s:
        """Return events of one kind that are not in the accounting yet, of transactions that are known."""
        events = np.zeros((k.EVENT_FIELDS, len(place)), np.int64)
        events[k.KIND], events[k.PLACE], events[k.TAKEN] = kind, place, EVERY
        events[k.FIRST], events[k.LAST] = place, place
        for name, column in columns.items():
            events[getattr(k, name)] = column
        events[k.TXN] = 0 if xids is None else self._numbers(xids)
        # Rows of open transactions come again with each window; what the accounting has seen it must not count twice.
        keep = (events[k.PLACE] >= self._since) & (events[k.TXN] >= 0)
        return events if keep.all() else events[:, keep]

    def _changes(self) -> Int64s:
        table = _unfiltered(self._rows.changes, self._rules)
        if not table.memory.all():
            table = table.take(np.flatnonzero(table.memory))
        return self._part(
            k.CHANGES,
            table.first,
            table.xid,
            LAST=table.last,
            SIZE=table.memory,
            COUNT=np.maximum(table.count, 1),
            ORIGIN=table.origin,
            TAKEN=_taken(table),
            KINDS=table.kinds,
        )

    def _truncates(self) -> Int64s:
        table = _unfiltered(self._rows.truncates, self._rules)
        size = self._change_size + OID_SIZE * table.relations.counts
        return self._part(k.TRUNCATES, table.lsn, table.xid, SIZE=size, ORIGIN=table.origin)

    def _messages(self) -> Int64s:
        table = self._rows.messages.take(np.flatnonzero(self._rows.messages.transactional))
        table = _unfiltered(table, self._rules)
        return self._part(k.SENDS, table.lsn, table.xid, SIZE=table.memory, FIRST=table.end, LAST=table.end)

    def _invalidations(self) -> Int64s:
        """Return one event a record."""
        table = self._rows.invals
        table = table.take(np.flatnonzero(table.xid)) if len(table) else table
        first = np.flatnonzero(np.diff(table.lsn, prepend=-1))
        count = np.diff(np.append(first, len(table)))
        size = self._change_size + buf.MESSAGE_SIZE * count
        return self._part(k.INVALIDATES, table.lsn[first], table.xid[first], SIZE=size, COUNT=count)

    def _prepares(self) -> Int64s:
        """Return the prepared transactions that the plugin wants at PREPARE.

        Transactions before output begins, or not output, are skipped.
        """
        rules, two_phase = self._rules, self._rules.two_phase
        if two_phase is None:
            return np.empty((k.EVENT_FIELDS, 0), np.int64)
        table = self._rows.prepares
        named = zip(table.xid.tolist(), gids(table), strict=True)
        at = np.array([i for i, transaction in enumerate(named) if not two_phase.is_filtered(*transaction)], np.int64)
        table = table.take(at)
        is_replayed = (table.lsn >= max(rules.streams_from, two_phase.at)) & (table.database == rules.database)
        if rules.filters_origins:
            is_replayed &= table.origin == 0
        return self._part(k.PREPARES, table.lsn, table.xid, KINDS=is_replayed, LIST=at)

    def _ends(self) -> Int64s:
        """Return the ends, also of commits that are not output; these can have streamed nothing, but for origins."""
        ends, rules = self._rows.ends, self._rules
        is_commit = (ends.kind == COMMIT) | (ends.kind == COMMIT_PREPARED)
        is_output = (ends.lsn >= rules.streams_from) & np.isin(ends.database, (0, rules.database))
        if rules.filters_origins:
            is_output &= ends.origin == 0
        kind, number = np.where(is_commit, k.COMMITS, k.ABORTS), len(self._rows.prepares) + np.arange(len(ends))
        return self._part(0, ends.lsn, ends.xid, KIND=kind, KINDS=is_output, LIST=number)


def _unfiltered(table: Any, rules: StreamRules) -> Any:
    """Return the rows of origins that are not left out."""
    is_out = rules.filters_origins & (table.origin != 0)
    return table.take(np.flatnonzero(~is_out)) if is_out.any() else table


def _taken(table: ChangeTable) -> Int64s:
    """Count the changes of its record queued with each row; rows of one record are tuples of a MULTI_INSERT."""
    at = np.arange(len(table))
    is_first = np.append(True, np.diff(table.first) != 0)[: len(at)]
    is_last = np.append(is_first[1:], True)[: len(at)]
    return np.where(is_last, EVERY, at - np.maximum.accumulate(np.where(is_first, at, 0)) + 1)


def _joined(first: Ragged, then: Ragged) -> Ragged:
    starts = np.concatenate([first.starts, then.starts[1:] + len(first.values)])
    return Ragged(starts.astype(np.int64), np.concatenate([first.values, then.values]))


def _number_cells(table: Int64s, lo: int, hi: int, grid: int) -> tuple[int, int]:
    """Give every event its cell; return the number of the first one, and how many there are.

    Events before the first cell are in cell 0.
    """
    first = lo // grid
    table[k.CELL] = np.maximum(table[k.PLACE] // grid - first, 0)
    return first, max(hi // grid - first, int(table[k.CELL].max(initial=0))) + 1


def _exact_cells(table: Int64s, detailed: Stretches, first: int, cells: int, grid: int) -> Bools:
    """Find the cells in which no row stands for several changes: bool[c].

    Stretches asked for in detail are whole cells.
    """
    # A row that stands for many changes says what they weigh together, not when. Where the limit could be reached
    # inside one, the kernel notes its cell, and the caller indexes that cell again, one change a row.
    is_exact = np.ones(cells, np.bool_)
    is_several = (table[k.KIND] == k.CHANGES) & ((table[k.COUNT] > 1) | (table[k.FIRST] != table[k.LAST]))
    is_exact[table[k.CELL, is_several]] = False
    for low, high in detailed:
        is_exact[max(low // grid - first, 0) : max(min(high // grid - first, cells), 0)] = True
    return is_exact


def _buffer(before: Accounting, xids: Int64s, table: Int64s, lists: Ragged, is_exact: Bools) -> buf.Buffer:
    txns = np.zeros((buf.TXN_FIELDS, len(xids)), np.int64)
    txns[buf.XID] = xids
    for row in (buf.CHILD, buf.NEXT, buf.BEFORE, buf.BASE_NEXT, buf.BASE_BEFORE):
        txns[row] = buf.NONE
    counts = np.zeros(buf.COUNTS, np.int64)
    for end in (buf.TOP_HEAD, buf.TOP_TAIL, buf.BASE_HEAD, buf.BASE_TAIL):
        counts[end] = buf.NONE
    committed = np.zeros(len(before.committed) + len(xids), np.int64)
    committed[: len(before.committed)] = before.committed
    counts[buf.N_COMMITTED] = len(before.committed)
    blocks = np.zeros((buf.BLOCK_FIELDS, 1024), np.int64)
    buffer = buf.Buffer(
        table, lists.starts, lists.values, txns, committed, blocks, is_exact, np.zeros_like(is_exact), counts
    )
    if len(before.xid):
        _restore(before, buffer)
    return buffer


def _restore(before: Accounting, buffer: buf.Buffer) -> None:
    """Put what was queued before into the buffer."""
    at, top = (np.searchsorted(buffer.txns[buf.XID], xids) for xids in (before.xid, before.top))
    for row, column in _saved(before):
        buffer.txns[row, at] = column
    buf.restore(at, top, before.size, before.base, buffer)


_SAVED = (
    (buf.FLAGS, "flags"),
    (buf.QUEUED, "queued"),
    (buf.OLDEST, "oldest"),
    (buf.NEWEST, "newest"),
    (buf.ORIGIN_ID, "origin"),
    (buf.INVALS, "invals"),
    (buf.HI, "hi"),
    (buf.HI_TAKEN, "hi_taken"),
    (buf.SINCE, "since"),
)
"""Rows of the kernel's table, and the columns of the accounting that keep them."""


def _saved(before: Accounting) -> Iterator[tuple[int, Int64s]]:
    return ((row, getattr(before, name)) for row, name in _SAVED)


def _kernel_rules(rules: StreamRules, lo: int, grid: int, first_cell: int) -> buf.Rules:
    return buf.Rules(
        limit=rules.limit,
        immediate=rules.immediate,
        needs_streamable=rules.version.streams_what_is_sent,
        change_size=rules.version.change_size,
        snapshot_size=rules.version.snapshot_size,
        streams_from=max(rules.streams_from, lo),
        grid=grid,
        first_cell=first_cell,
    )


def _run(buffer: buf.Buffer, rules: buf.Rules) -> buf.Buffer:
    while k.account_events(rules, buffer) == k.NEED_BLOCKS:
        used = int(buffer.counts[buf.BLOCKS])
        # One event makes at most a block for each open transaction, its first one and its last.
        room = 2 * used + 3 * int(buffer.counts[buf.OPEN]) + 8
        blocks = np.zeros((buf.BLOCK_FIELDS, room), np.int64)
        blocks[:, :used] = buffer.blocks[:, :used]
        buffer = buffer._replace(blocks=blocks)
    buf.note_all_unsure(rules, buffer)
    return buffer


def _blocks(buffer: buf.Buffer) -> Blocks:
    table = buffer.blocks[:, : buffer.counts[buf.BLOCKS]]
    return Blocks(
        xid=buffer.txns[buf.XID, table[buf.B_TXN]],
        place=table[buf.B_PLACE].copy(),
        lo=table[buf.B_LO].copy(),
        lo_taken=table[buf.B_LO_TAKEN].copy(),
        hi=table[buf.B_HI].copy(),
        hi_taken=table[buf.B_HI_TAKEN].copy(),
        is_first=table[buf.B_IS_FIRST] != 0,
        is_last=table[buf.B_IS_LAST] != 0,
        first=table[buf.B_FIRST].copy(),
        last=table[buf.B_LAST].copy(),
        origin=table[buf.B_ORIGIN].astype(np.uint16),
    )


def _marked(buffer: buf.Buffer, is_top: bool) -> tuple[Int64s, Int64s]:
    """Return (sub)transactions that were streamed, and where first."""
    x = buffer.txns
    chosen = np.flatnonzero((x[buf.SINCE] != 0) & ((x[buf.TOP] == np.arange(x.shape[1])) == is_top))
    return x[buf.XID, chosen], x[buf.SINCE, chosen]


def _accounting(buffer: buf.Buffer, hi: int) -> Accounting:
    x, counts = buffer.txns, buffer.counts
    order = np.empty(x.shape[1], np.int64)
    order = order[: buf.list_open(order, buffer)]
    columns = {name: x[row, order] for row, name in _SAVED}
    return Accounting(
        lsn=hi,
        committed=np.sort(buffer.committed[: counts[buf.N_COMMITTED]]),
        xid=x[buf.XID, order],
        top=x[buf.XID, x[buf.TOP, order]],
        size=x[buf.OWN_SIZE, order],
        base=x[buf.BASE, order],
        **columns,
    )


def _lacking(is_noted: Bools, first: int, grid: int, detailed: Stretches) -> Stretches:
    """Find the cells that have to be detailed: those that were noted, or all from the first of them on."""
    noted = np.flatnonzero(is_noted)
    if not len(noted):
        return ()
    if detailed:
        return ((int(noted[0] + first) * grid, int(len(is_noted) + first) * grid),)
    return joined_stretches((int(cell + first) * grid, int(cell + first + 1) * grid) for cell in noted)
