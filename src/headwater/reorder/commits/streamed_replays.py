"""Replays of transactions that are streamed while they are in progress, put among those of the others.

In: the replays of a window, and what is streamed in it (:mod:`headwater.reorder.commits.stream_rules`). Out:
:class:`Replays` with a replay for each block, and one for what ends a streamed transaction. There is also one for each
streamed (sub)transaction that was rolled back, or whose server crashed. PostgreSQL: ReorderBufferStreamTXN,
ReorderBufferStreamCommit, ReorderBufferAbort, ReorderBufferAbortOld of reorderbuffer.c.

What is streamed at a record comes before what else is replayed there: a commit hands its snapshot to the transactions
that run before it is replayed itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.reorder.commits.replays import (
    AT_PREPARE,
    STREAM_ABORTS,
    STREAM_COMMITS,
    STREAM_PREPARES,
    STREAMS,
    WHOLE,
    Replays,
    in_order,
    taken,
)
from headwater.reorder.commits.stream_rules import Running, Streams
from headwater.reorder.commits.streamed_blocks import Streamed, lookup_or
from headwater.reorder.commits.transactions import NEVER, first_seen, toplevel_of
from headwater.reorder.integer_keys import within_groups
from headwater.rmgr.index.index_codes import ABORT, ABORT_PREPARED
from headwater.rmgr.index.index_rows import Rows

Int64s = NDArray[np.int64]

HALF_OF_XIDS = 1 << 31
"""An xid precedes the half of all xids that follow it (TransactionIdPrecedes)."""


def replays_with_streams(replays: Replays, rows: Rows, streams: Streams, running: Running, database: int) -> Replays:
    """Put blocks among the replays, and ends of streamed transactions in the place of their replays.

    Args:
        replays: of a window, as if nothing was streamed.
        rows: its index, with rows of transactions that were open before it.
        streams: the blocks streamed in it, or before it.
        running: its RUNNING_XACTS records.
        database: OID of the database that is decoded.
    """
    tops = streams.top_xid
    if not len(tops):
        return replays
    is_streamed = np.isin(replays.xid, tops)
    ends = is_streamed & ((replays.kind == WHOLE) | (replays.kind == AT_PREPARE))
    parts = (
        _blocks(rows, streams, database),
        taken(replays, np.flatnonzero(~ends)),
        _ends(taken(replays, np.flatnonzero(ends))),
        _aborts(rows, streams, database, replays),
        _abandoned(rows, streams, running, database),
    )
    ordered, order = in_order(parts)
    count = len(streams.blocks.xid)
    top = toplevel_of(rows)(ordered.xid)
    block, ends_stream = np.where(order < count, order, -1), ordered.kind >= STREAM_COMMITS
    return replace(ordered, streamed=Streamed.of(streams.blocks, block, top, ends_stream, rows))


def ends_of_shown(txns: Replays, busy: NDArray[np.bool_], shown: Int64s) -> NDArray[np.bool_]:
    """Tell which replays end what was streamed, of transactions of which a block before them says something: bool[t].

    Args:
        txns: the replays, with blocks.
        busy: bool[t] which replays say something.
        shown: int64[n] toplevel xids of transactions that have said something before the window.
    """
    streamed = txns.streamed
    assert streamed is not None
    blocks = np.flatnonzero(busy & (streamed.block >= 0))
    tops, first = np.unique(np.append(shown, streamed.top[blocks]), return_index=True)
    since = np.append(np.full(len(shown), -1), blocks)[first]
    begun = lookup_or(tops, since, streamed.top, NEVER) < np.arange(len(busy))
    ends: NDArray[np.bool_] = streamed.ends_stream & begun
    return ends


def still_shown(txns: Replays, busy: NDArray[np.bool_], shown: tuple[int, ...]) -> tuple[int, ...]:
    """List the toplevel xids of transactions of which something has been shown, and that have not ended; sorted."""
    streamed = txns.streamed
    assert streamed is not None
    over = streamed.top[streamed.ends_stream & (txns.xid == streamed.top)]
    tops = np.unique(np.append(np.array(shown, np.int64), streamed.top[busy & (streamed.block >= 0)]))
    return tuple(tops[~np.isin(tops, over)].tolist())


def _blocks(rows: Rows, streams: Streams, database: int) -> Replays:
    """Make a replay for each block; one block's changes are found by xid and place, so it has no members here."""
    blocks = streams.blocks
    first, base, changes_catalog = _seen(rows, blocks.xid)
    return _replays(
        STREAMS,
        xid=blocks.xid,
        place=blocks.place,
        final_lsn=blocks.place,
        end_lsn=blocks.last,
        time=np.zeros(len(blocks.xid), np.int64),
        origin=np.where(blocks.is_first, blocks.origin, 0).astype(np.int64),
        database=database,
        first_lsn=first,
        base_lsn=base,
        changes_catalog=changes_catalog,
    )


def _ends(replays: Replays) -> Replays:
    """Replay that streamed transactions committed, or were prepared: their last changes are in a block of their own."""
    nobody = np.empty(0, np.int64)
    kind = np.where(replays.kind == WHOLE, STREAM_COMMITS, STREAM_PREPARES).astype(np.uint8)
    return replace(replays, kind=kind, member_xid=nobody, member_txn=nobody)


def _aborts(rows: Rows, streams: Streams, database: int, replays: Replays) -> Replays:
    """Replay that streamed transactions, or subtransactions of which something was streamed, were rolled back."""
    ends = rows.ends
    finished = replays.xid[replays.prepare >= 0]
    is_abort = (ends.kind == ABORT) | ((ends.kind == ABORT_PREPARED) & ~np.isin(ends.xid, finished))
    ends = ends.take(np.flatnonzero(is_abort))
    counts = ends.subs.counts + 1
    row = np.repeat(np.arange(len(ends.xid)), counts)
    is_itself = within_groups(counts) == counts[row] - 1
    xid = np.empty(len(row), np.int64)
    xid[is_itself], xid[~is_itself] = ends.xid, ends.subs.values
    since = np.minimum(
        lookup_or(streams.top_xid, streams.top_since, xid, NEVER),
        lookup_or(streams.sub_xid, streams.sub_since, xid, NEVER),
    )
    which = np.flatnonzero(since < ends.lsn[row])
    row, xid = row[which], xid[which]
    first, base, changes_catalog = _seen(rows, toplevel_of(rows)(xid))
    return _replays(
        STREAM_ABORTS,
        xid=xid,
        place=ends.lsn[row],
        final_lsn=ends.lsn[row],
        end_lsn=ends.next[row],
        time=np.where(ends.origin != 0, ends.origin_time, ends.time)[row],
        origin=np.zeros(len(row), np.int64),
        database=database,
        first_lsn=first,
        base_lsn=base,
        changes_catalog=changes_catalog,
    )


def _abandoned(rows: Rows, streams: Streams, running: Running, database: int) -> Replays:
    """Replay that servers crashed amid streamed transactions.

    The first RUNNING_XACTS record to which they are old says so. No record ends them, so the plugin gets an abort at 0,
    and at no time.
    """
    is_open = ~np.isin(streams.top_xid, rows.ends.xid)
    xid, since = streams.top_xid[is_open], streams.top_since[is_open]
    precedes = (xid[:, None] - running.oldest + HALF_OF_XIDS) % (2 * HALF_OF_XIDS) < HALF_OF_XIDS
    says_so = precedes & (running.lsn > since[:, None])
    which = np.flatnonzero(says_so.any(axis=1))
    xid, place = xid[which], running.lsn[says_so.argmax(axis=1)[which]] if len(which) else which
    first, base, changes_catalog = _seen(rows, xid)
    nothing = np.zeros(len(xid), np.int64)
    return _replays(
        STREAM_ABORTS,
        xid=xid,
        place=place,
        final_lsn=place,
        end_lsn=nothing,
        time=nothing,
        origin=nothing,
        database=database,
        first_lsn=first,
        base_lsn=base,
        changes_catalog=changes_catalog,
    )


def _seen(rows: Rows, tops: Int64s) -> tuple[Int64s, Int64s, NDArray[np.bool_]]:
    """Return what :func:`first_seen` says of toplevel xids that may occur several times."""
    xids, number = np.unique(tops, return_inverse=True)
    first, base, changes_catalog = first_seen(rows, xids)
    return first[number], base[number], changes_catalog[number]


def _replays(kind: int, *, xid: Int64s, database: int, **columns: Any) -> Replays:
    count, nobody = len(xid), np.empty(0, np.int64)
    return Replays(
        kind=np.full(count, kind, np.uint8),
        xid=xid,
        database=np.full(count, database, np.int64),
        origin_lsn=np.zeros(count, np.int64),
        prepare=np.full(count, -1, np.int64),
        member_xid=nobody,
        member_txn=nobody,
        **columns,
    )
