"""Kernel: what the events of a window do to the reorder buffer (PostgreSQL: decode.c, snapbuild.c).

Events in the order of the WAL: changes and what else is queued, commits with SnapBuildCommitTxn and
SnapBuildDistributeSnapshotAndInval, PREPAREs, aborts, assignments, and what RUNNING_XACTS says. What the buffer does
with what it is given, and what it gives out for it, is :mod:`headwater.reorder.commits._reorder_buffer`.
"""

from __future__ import annotations

from headwater.base.kernels import borrowing_kernel, inline_kernel, kernel
from headwater.reorder.commits._reorder_buffer import (
    BASE,
    BLOCKS,
    CATALOG,
    EVENT,
    FLAGS,
    INVALS,
    IS_ALIVE,
    IS_PREPARED,
    MESSAGE_SIZE,
    N_COMMITTED,
    NEXT,
    NONE,
    NOW,
    NOW_CELL,
    NOW_TAKEN,
    OPEN,
    REPLAYED,
    STREAMABLE,
    STREAMED,
    TOP,
    TOP_HEAD,
    XID,
    Buffer,
    Rules,
    clean_up,
    join,
    note_partial,
    queue,
    set_base,
    show,
    stream,
    truncate,
)
from headwater.rmgr._record import Int
from headwater.rmgr.index.index_codes import CATALOG_CHANGE, CONFIRMS, HAS_BASE, SUPER_DELETES, UNSETTLED

# Rows of the table of events. PLACE: start of the record. TXN: number of the transaction; of an assignment OTHER is
# that of the toplevel one. FIRST, LAST: ``lsn`` of the first and last change. TAKEN: how many changes of the record are
# queued then. KINDS: bits of a row of changes, those of an xid, or a flag. LIST: which list of subtransactions.
KIND, PLACE, TXN, OTHER, SIZE, COUNT, FIRST, LAST, ORIGIN, TAKEN, KINDS, LIST, CELL = range(13)
EVENT_FIELDS = 13

ASSIGNS, SEES, CHANGES, TRUNCATES, SENDS, INVALIDATES, COMMANDS, RUNS, PREPARES, COMMITS, ABORTS = range(11)
"""Kinds of events, in the order in which they come if they are of one record."""

DONE, NEED_BLOCKS = 0, 1
"""Status codes."""


@borrowing_kernel
def _change(e: Int, rules: Rules, b: Buffer) -> None:
    v, t = b.events, b.events[TXN, e]
    top, kinds = b.txns[TOP, t], v[KINDS, e]
    if kinds & ~(CONFIRMS | SUPER_DELETES | UNSETTLED) != 0:
        b.txns[FLAGS, top] |= STREAMABLE
    note_partial(top, kinds, v[FIRST, e], v[LAST, e], b)
    queue(t, v[SIZE, e], v[COUNT, e], v[FIRST, e], v[LAST, e], v[ORIGIN, e], rules, b)


@borrowing_kernel
def _queue_other(e: Int, rules: Rules, b: Buffer) -> None:
    """Queue truncates and messages, which are sent; or invalidations and command ids, which are not."""
    v, t, kind = b.events, b.events[TXN, e], b.events[KIND, e]
    top = b.txns[TOP, t]
    if kind in (TRUNCATES, SENDS):
        b.txns[FLAGS, top] |= STREAMABLE
    elif kind == INVALIDATES:
        b.txns[INVALS, top] += v[COUNT, e]
    queue(t, v[SIZE, e], 1, v[FIRST, e], v[LAST, e], v[ORIGIN, e], rules, b)


@borrowing_kernel
def _hand_out(txn: Int, rules: Rules, b: Buffer) -> None:
    """Hand a new snapshot, and its invalidations, to all that run (SnapBuildDistributeSnapshotAndInval)."""
    x, place, invals = b.txns, b.counts[NOW], b.txns[INVALS, txn]
    snapshot = rules.change_size + rules.snapshot_size + 4 * b.counts[N_COMMITTED]
    top = b.counts[TOP_HEAD]
    while top != NONE:
        if x[BASE, top] != 0 and x[FLAGS, top] & IS_PREPARED == 0:
            queue(top, snapshot, 1, place, place, 0, rules, b)
            if top != txn and invals > 0:
                queue(top, rules.change_size + MESSAGE_SIZE * invals, 1, place, place, 0, rules, b)
        top = x[NEXT, top]


@inline_kernel
def _add_committed(t: Int, b: Buffer) -> None:
    b.committed[b.counts[N_COMMITTED]] = b.txns[XID, t]
    b.counts[N_COMMITTED] += 1


@borrowing_kernel
def _build_snapshot(e: Int, b: Buffer) -> None:
    """Add what changed the catalog to the snapshots that follow (SnapBuildCommitTxn, SnapBuildAddCommittedTxn)."""
    x, number = b.txns, b.events[LIST, e]
    for i in range(b.list_starts[number], b.list_starts[number + 1]):
        sub = b.list_values[i]
        if sub != NONE and x[IS_ALIVE, sub] != 0 and x[FLAGS, sub] & CATALOG != 0:
            _add_committed(sub, b)
    _add_committed(b.events[TXN, e], b)


@borrowing_kernel
def _join_listed(e: Int, b: Buffer) -> None:
    """Join the subtransactions that an event lists (ReorderBufferCommitChild)."""
    number = b.events[LIST, e]
    for i in range(b.list_starts[number], b.list_starts[number + 1]):
        sub = b.list_values[i]
        if sub != NONE and b.txns[IS_ALIVE, sub] != 0:
            join(sub, b.events[TXN, e], b)


@borrowing_kernel
def _commit(e: Int, rules: Rules, b: Buffer) -> None:
    """Commit a transaction (DecodeCommit); KINDS says whether the transaction is output."""
    x, t = b.txns, b.events[TXN, e]
    _join_listed(e, b)
    if x[FLAGS, t] & CATALOG != 0:
        _build_snapshot(e, b)
        set_base(t, b.counts[NOW], b)
        _hand_out(t, rules, b)
    if x[FLAGS, t] & STREAMED != 0 and x[FLAGS, t] & REPLAYED == 0 and b.events[KINDS, e] != 0:
        stream(t, True, b)
    clean_up(t, b)


@borrowing_kernel
def _prepare(e: Int, b: Buffer) -> None:
    """Prepare a transaction (DecodePrepare); KINDS says whether it is replayed here, or only skipped."""
    x, t = b.txns, b.events[TXN, e]
    x[FLAGS, t] |= IS_PREPARED
    if b.events[KINDS, e] != 0:
        _join_listed(e, b)
        if x[FLAGS, t] & STREAMED != 0:
            stream(t, True, b)
        truncate(t, b)
        x[FLAGS, t] |= REPLAYED


@borrowing_kernel
def _abort(e: Int, b: Buffer) -> None:
    """Abort subtransactions, or all of a transaction (DecodeAbort)."""
    number = b.events[LIST, e]
    for i in range(b.list_starts[number], b.list_starts[number + 1]):
        clean_up(b.list_values[i], b)
    clean_up(b.events[TXN, e], b)


@inline_kernel
def _precedes(xid: Int, other: Int) -> bool:
    return bool((xid - other) & 0xFFFFFFFF >= 0x80000000)


@borrowing_kernel
def _running(e: Int, b: Buffer) -> None:
    """Handle RUNNING_XACTS: SnapBuildPurgeOlderTxn, and ReorderBufferAbortOld."""
    oldest, count = b.events[OTHER, e], 0
    for i in range(b.counts[N_COMMITTED]):
        if not _precedes(b.committed[i], oldest):
            b.committed[count] = b.committed[i]
            count += 1
    b.counts[N_COMMITTED] = count
    while b.counts[TOP_HEAD] != NONE and _precedes(b.txns[XID, b.counts[TOP_HEAD]], oldest):
        clean_up(b.counts[TOP_HEAD], b)


@borrowing_kernel
def _see(e: Int, b: Buffer) -> None:
    """Note what an xid was met with: a base snapshot, a change of the catalog (ReorderBufferXidSetCatalogChanges)."""
    x, t, bits = b.txns, b.events[TXN, e], b.events[KINDS, e]
    show(t, b)
    if bits & HAS_BASE:
        set_base(x[TOP, t], b.counts[NOW], b)
    if bits & CATALOG_CHANGE:
        x[FLAGS, t] |= CATALOG
        x[FLAGS, x[TOP, t]] |= CATALOG


@borrowing_kernel
def _event(e: Int, rules: Rules, b: Buffer) -> None:
    v, kind = b.events, b.events[KIND, e]
    t = v[TXN, e]
    b.counts[NOW], b.counts[NOW_TAKEN], b.counts[NOW_CELL] = v[PLACE, e], v[TAKEN, e], v[CELL, e]
    if kind == RUNS:
        _running(e, b)
    elif kind == ABORTS:
        _abort(e, b)
    elif kind == ASSIGNS:
        join(t, v[OTHER, e], b)
    elif kind == SEES:
        _see(e, b)
    elif b.txns[IS_ALIVE, t] != 0:
        if kind == CHANGES:
            _change(e, rules, b)
        elif kind == COMMITS:
            _commit(e, rules, b)
        elif kind == PREPARES:
            _prepare(e, b)
        else:
            _queue_other(e, rules, b)


@kernel
def account_events(rules: Rules, b: Buffer) -> Int:
    """Let events happen, from event ``counts[EVENT]`` on.

    Args:
        rules: the rules of streaming.
        b: changed.

    Returns:
        DONE, or NEED_BLOCKS when the table of blocks may not have room for the next one.
    """
    counts = b.counts
    while counts[EVENT] < b.events.shape[1]:
        # What each toplevel transaction has queued may go out, and twice more what it gets handed.
        if b.blocks.shape[1] - counts[BLOCKS] < 3 * counts[OPEN] + 8:
            return NEED_BLOCKS
        _event(counts[EVENT], rules, b)
        counts[EVENT] += 1
    return DONE
