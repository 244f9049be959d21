"""Kernel: the reorder buffer, as sizes and flags (PostgreSQL: reorderbuffer.c).

What is queued goes through the server's own steps: ReorderBufferQueueChange, ...ProcessPartialChange,
...CheckMemoryLimit, ...LargestStreamableTopTXN, ...SerializeTXN, ...StreamTXN, ...TruncateTXN and ...CleanupTXN.
Nothing is kept but sizes and flags.

A row that stands for several changes is queued as a whole at its first one: as long as no size reaches the limit, that
is an upper bound, and the sums after the row are right. Where one does, the cell of the grid is noted: it has to be
gone through change by change, and what follows here is an estimate.

Known gap: of (sub)transactions of one size the first is spilled, in the order in which they showed; the server takes
one by the order of its hash table or heap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import borrowing_kernel, inline_kernel, kernel
from headwater.rmgr._record import Int
from headwater.rmgr.index.index_codes import CHUNKS, CONFIRMS, INSERTS, SPECULATIVE, SUPER_DELETES, UNSETTLED, UPDATES

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Rows of the table of transactions. TOP: number of the toplevel one. CHILD: first of its subtransactions; NEXT, BEFORE:
# neighbours among those, or among toplevel transactions by where they showed; BASE_NEXT, BASE_BEFORE: by BASE, where
# they got their base snapshot (0 for none). FAMILY_SIZE, INVALS, HI, HI_TAKEN: of a toplevel one. QUEUED: changes since
# it was truncated. OLDEST, NEWEST: ``lsn`` of the first and last of them, ORIGIN_ID the first one's origin. SINCE: the
# first block that it was streamed in. DECIDED: LSN where it became known whether a change is partial; MAY_CLEAR,
# MAY_SET: the last row that has something that may have changed that, it is not known where.
(XID, TOP, IS_ALIVE, OWN_SIZE, QUEUED, OLDEST, NEWEST, ORIGIN_ID, FLAGS, CHILD, NEXT, BEFORE) = range(12)
(BASE, BASE_NEXT, BASE_BEFORE, FAMILY_SIZE, INVALS, HI, HI_TAKEN, SINCE, DECIDED, MAY_CLEAR, MAY_SET) = range(12, 23)
TXN_FIELDS = 23

CATALOG, SERIALIZED, PARTIAL, STREAMABLE, STREAMED, IS_PREPARED, REPLAYED = 1, 2, 4, 8, 16, 32, 64
"""Flags of a transaction: RBTXN_HAS_CATALOG_CHANGES, IS_SERIALIZED, HAS_PARTIAL_CHANGE, HAS_STREAMABLE_CHANGE,
IS_STREAMED, prepared or skipped so, and decoded at PREPARE."""

# Indexes into Buffer.counts: the next event, blocks, bytes queued, committed xids; ends of the two lists; open toplevel
# transactions; of the event PLACE, TAKEN, CELL.
EVENT, BLOCKS, QUEUE_SIZE, N_COMMITTED, TOP_HEAD, TOP_TAIL, BASE_HEAD, BASE_TAIL, OPEN = range(9)
NOW, NOW_TAKEN, NOW_CELL = range(9, 12)
COUNTS = 12

# Rows of the table of blocks.
B_TXN, B_PLACE, B_LO, B_LO_TAKEN, B_HI, B_HI_TAKEN, B_IS_FIRST, B_IS_LAST, B_FIRST, B_LAST, B_ORIGIN = range(11)
BLOCK_FIELDS = 11

MESSAGE_SIZE = 16
"""sizeof(SharedInvalidationMessage)."""

RESTORED = 4096
"""max_changes_in_memory: so many changes that were spilled are in memory at once."""

NONE = -1


class Rules(NamedTuple):
    """The rules of streaming: the limit, and what a transaction must have.

    Attributes:
        limit: bytes (logical_decoding_work_mem).
        immediate: stream, or spill, each change (debug_logical_replication_streaming).
        needs_streamable: a transaction without changes that are sent is not streamed.
        change_size: sizeof(ReorderBufferChange); snapshot_size: sizeof(SnapshotData).
        streams_from: LSN before which nothing is streamed, only spilled (start_decoding_at).
        grid: bytes of a cell; first_cell: number of the first one.
    """

    limit: int
    immediate: bool
    needs_streamable: bool
    change_size: int
    snapshot_size: int
    streams_from: int
    grid: int
    first_cell: int


class Buffer(NamedTuple):
    """The reorder buffer.

    Attributes:
        events: int64[EVENT_FIELDS, e] in order.
        list_starts: int64[l+1]; list_values: int64[] lists of subtransactions, by number, -1 for one that never showed.
        txns: int64[TXN_FIELDS, t].
        committed: int64[] xids that changed the catalog and are in the builder's snapshots.
        blocks: int64[BLOCK_FIELDS, b].
        is_exact: bool[c] cells of the grid without a row of several changes; is_noted: bool[c] cells that must be so.
        counts: int64[COUNTS].
    """

    events: Int64s
    list_starts: Int64s
    list_values: Int64s
    txns: Int64s
    committed: Int64s
    blocks: Int64s
    is_exact: Bools
    is_noted: Bools
    counts: Int64s


@inline_kernel
def _append(t: Int, after: Int, before: Int, head: Int, tail: Int, b: Buffer) -> None:
    """Put a transaction at the end of a list: rows ``after`` and ``before`` link it, counts have its ends."""
    last = b.counts[tail]
    b.txns[after, t] = NONE
    b.txns[before, t] = last
    if last == NONE:
        b.counts[head] = t
    else:
        b.txns[after, last] = t
    b.counts[tail] = t


@inline_kernel
def _unlink(t: Int, after: Int, before: Int, head: Int, tail: Int, b: Buffer) -> None:
    """Take a transaction out of such a list."""
    following, last = b.txns[after, t], b.txns[before, t]
    if last == NONE:
        b.counts[head] = following
    else:
        b.txns[after, last] = following
    if following == NONE:
        b.counts[tail] = last
    else:
        b.txns[before, following] = last


@borrowing_kernel
def show(t: Int, b: Buffer) -> None:
    """Meet a transaction (ReorderBufferTXNByXid): as a toplevel one, as long as nothing else is known."""
    if b.txns[IS_ALIVE, t] == 0:
        b.txns[IS_ALIVE, t] = 1
        b.txns[TOP, t] = t
        _append(t, NEXT, BEFORE, TOP_HEAD, TOP_TAIL, b)
        b.counts[OPEN] += 1


@borrowing_kernel
def set_base(t: Int, place: Int, b: Buffer) -> None:
    """Give a toplevel transaction a base snapshot, if it has none (ReorderBufferSetBaseSnapshot)."""
    if b.txns[BASE, t] == 0:
        b.txns[BASE, t] = place
        _append(t, BASE_NEXT, BASE_BEFORE, BASE_HEAD, BASE_TAIL, b)


@inline_kernel
def _drop_base(t: Int, b: Buffer) -> None:
    if b.txns[BASE, t] != 0:
        _unlink(t, BASE_NEXT, BASE_BEFORE, BASE_HEAD, BASE_TAIL, b)
        b.txns[BASE, t] = 0


@borrowing_kernel
def _transfer_base(top: Int, sub: Int, b: Buffer) -> None:
    """Give the toplevel transaction the older of two base snapshots (ReorderBufferTransferSnapToParent).

    It gets that one's place, too.
    """
    x, base = b.txns, b.txns[BASE, sub]
    if base != 0 and (x[BASE, top] == 0 or base < x[BASE, top]):
        _drop_base(top, b)
        x[BASE, top] = base
        x[BASE_NEXT, top], x[BASE_BEFORE, top] = x[BASE_NEXT, sub], x[BASE_BEFORE, sub]
        if x[BASE_BEFORE, top] == NONE:
            b.counts[BASE_HEAD] = top
        else:
            x[BASE_NEXT, x[BASE_BEFORE, top]] = top
        if x[BASE_NEXT, top] == NONE:
            b.counts[BASE_TAIL] = top
        else:
            x[BASE_BEFORE, x[BASE_NEXT, top]] = top
        x[BASE, sub] = 0
    else:
        _drop_base(sub, b)


@borrowing_kernel
def join(sub: Int, top: Int, b: Buffer) -> None:
    """Make one transaction a subtransaction of another (ReorderBufferAssignChild)."""
    x = b.txns
    show(top, b)
    if x[IS_ALIVE, sub] != 0:
        if x[TOP, sub] != sub:
            return
        _unlink(sub, NEXT, BEFORE, TOP_HEAD, TOP_TAIL, b)
        b.counts[OPEN] -= 1
        _transfer_base(top, sub, b)
        x[FAMILY_SIZE, top] += x[FAMILY_SIZE, sub]
        x[FLAGS, top] |= x[FLAGS, sub] & (CATALOG | PARTIAL | STREAMABLE)
        x[INVALS, top] += x[INVALS, sub]
    x[IS_ALIVE, sub] = 1
    x[TOP, sub] = top
    first = x[CHILD, top]
    x[NEXT, sub], x[BEFORE, sub] = first, NONE
    if first != NONE:
        x[BEFORE, first] = sub
    x[CHILD, top] = sub


@borrowing_kernel
def _forget(t: Int, b: Buffer) -> None:
    """Take one (sub)transaction out, without its subtransactions."""
    x, top = b.txns, b.txns[TOP, t]
    b.counts[QUEUE_SIZE] -= x[OWN_SIZE, t]
    x[FAMILY_SIZE, top] -= x[OWN_SIZE, t]
    x[OWN_SIZE, t], x[QUEUED, t], x[FLAGS, t], x[IS_ALIVE, t] = 0, 0, 0, 0
    if top == t:
        _unlink(t, NEXT, BEFORE, TOP_HEAD, TOP_TAIL, b)
        _drop_base(t, b)
        b.counts[OPEN] -= 1
        return
    following, last = x[NEXT, t], x[BEFORE, t]
    if following != NONE:
        x[BEFORE, following] = last
    if last == NONE:
        x[CHILD, top] = following
    else:
        x[NEXT, last] = following


@borrowing_kernel
def clean_up(t: Int, b: Buffer) -> None:
    """Remove a transaction with all of its subtransactions (ReorderBufferCleanupTXN)."""
    if t == NONE or b.txns[IS_ALIVE, t] == 0:
        return
    while b.txns[CHILD, t] != NONE:
        _forget(b.txns[CHILD, t], b)
    _forget(t, b)


@inline_kernel
def _truncate_one(t: Int, b: Buffer) -> None:
    x = b.txns
    b.counts[QUEUE_SIZE] -= x[OWN_SIZE, t]
    x[FAMILY_SIZE, x[TOP, t]] -= x[OWN_SIZE, t]
    x[OWN_SIZE, t], x[QUEUED, t] = 0, 0
    x[FLAGS, t] &= ~SERIALIZED


@borrowing_kernel
def truncate(top: Int, b: Buffer) -> None:
    """Drop all that a toplevel transaction and its subtransactions have queued (ReorderBufferTruncateTXN)."""
    _truncate_one(top, b)
    sub = b.txns[CHILD, top]
    while sub != NONE:
        _truncate_one(sub, b)
        sub = b.txns[NEXT, sub]


@inline_kernel
def _is_above(number: Int, other: Int) -> bool:
    """Tell which of two queues with one LSN a new heap has on top (binaryheap_build): the first in preorder."""
    low, high = min(number, other) + 1, max(number, other) + 1
    level = np.int64(1)
    while 2 * level <= low:
        level *= 2
    while high >= 2 * level:
        high //= 2
    return bool((number < other) == (low <= high))


@inline_kernel
def _take_in(t: Int, number: Int, top_number: Int, block: Int, b: Buffer) -> Int:
    """Add a (sub)transaction's part to a block; return the number of the queue that the server begins with."""
    x, blocks = b.txns, b.blocks
    oldest, first = x[OLDEST, t], blocks[B_FIRST, block]
    if first == 0 or oldest < first or (oldest == first and _is_above(number, top_number)):
        blocks[B_FIRST, block], blocks[B_ORIGIN, block] = oldest, x[ORIGIN_ID, t]
        top_number = number
    blocks[B_LAST, block] = max(blocks[B_LAST, block], x[NEWEST, t])
    # Of spilled changes, no more than this many are left in memory where the server looks.
    if x[SINCE, t] == 0 and (x[FLAGS, t] & SERIALIZED == 0 or x[QUEUED, t] <= RESTORED):
        x[SINCE, t] = blocks[B_PLACE, block]
    return top_number


@borrowing_kernel
def _take_in_all(top: Int, block: Int, b: Buffer) -> None:
    """Add what a toplevel transaction and its subtransactions have queued to a block.

    The server has a queue for each that has queued something, the toplevel one's first, and the others' as these
    became known (ReorderBufferIterTXNInit): the other way round than they are listed here.
    """
    x, number = b.txns, np.int64(b.txns[QUEUED, top] > 0)
    sub = x[CHILD, top]
    while sub != NONE:
        number += x[QUEUED, sub] > 0
        sub = x[NEXT, sub]
    sub, top_number = x[CHILD, top], np.int64(0)
    while sub != NONE:
        if x[QUEUED, sub] > 0:
            number -= 1
            top_number = _take_in(sub, number, top_number, block, b)
        sub = x[NEXT, sub]
    if x[QUEUED, top] > 0:
        _take_in(top, 0, top_number, block, b)


@borrowing_kernel
def stream(top: Int, is_last: bool, b: Buffer) -> None:
    """Send out all that is queued of a toplevel transaction (ReorderBufferStreamTXN)."""
    x, blocks, block = b.txns, b.blocks, b.counts[BLOCKS]
    b.counts[BLOCKS] = block + 1
    blocks[B_TXN, block] = top
    blocks[B_PLACE, block] = b.counts[NOW]
    blocks[B_LO, block], blocks[B_LO_TAKEN, block] = x[HI, top], x[HI_TAKEN, top]
    x[HI, top], x[HI_TAKEN, top] = b.counts[NOW], b.counts[NOW_TAKEN]
    blocks[B_HI, block], blocks[B_HI_TAKEN, block] = x[HI, top], x[HI_TAKEN, top]
    blocks[B_IS_FIRST, block] = x[FLAGS, top] & STREAMED == 0
    blocks[B_IS_LAST, block] = is_last
    blocks[B_FIRST, block], blocks[B_LAST, block], blocks[B_ORIGIN, block] = 0, 0, 0
    _take_in_all(top, block, b)
    truncate(top, b)
    x[FLAGS, top] |= STREAMED
    if x[SINCE, top] == 0:
        x[SINCE, top] = b.counts[NOW]


@borrowing_kernel
def note_unsure(top: Int, rules: Rules, b: Buffer) -> None:
    """Note the cell that decides whether the last change is partial, if rows of several changes leave that open."""
    x, decided = b.txns, b.txns[DECIDED, top]
    if x[MAY_SET, top] > decided or (x[FLAGS, top] & PARTIAL != 0 and x[MAY_CLEAR, top] > decided):
        cell = max(x[MAY_SET, top], x[MAY_CLEAR, top]) // rules.grid - rules.first_cell
        b.is_noted[max(cell, 0)] = True


@borrowing_kernel
def _largest_streamable(rules: Rules, b: Buffer) -> Int:
    """Find the largest streamable transaction.

    That is ReorderBufferLargestStreamableTopTXN (ReorderBufferLargestTopTXN of 14 and 15).
    """
    x, largest_txn, largest = b.txns, np.int64(NONE), np.int64(0)
    t = b.counts[BASE_HEAD]
    while t != NONE:
        if x[FAMILY_SIZE, t] > largest and (not rules.needs_streamable or x[FLAGS, t] & STREAMABLE != 0):
            note_unsure(t, rules, b)
            if x[FLAGS, t] & PARTIAL == 0:
                largest_txn, largest = t, x[FAMILY_SIZE, t]
        t = x[BASE_NEXT, t]
    return largest_txn


@borrowing_kernel
def _largest(b: Buffer) -> Int:
    """Find the largest of transactions and subtransactions (ReorderBufferLargestTXN)."""
    x, largest_txn, largest = b.txns, np.int64(NONE), np.int64(0)
    top = b.counts[TOP_HEAD]
    while top != NONE:
        if x[OWN_SIZE, top] > largest:
            largest_txn, largest = top, x[OWN_SIZE, top]
        sub = x[CHILD, top]
        while sub != NONE:
            if x[OWN_SIZE, sub] > largest:
                largest_txn, largest = sub, x[OWN_SIZE, sub]
            sub = x[NEXT, sub]
        top = x[NEXT, top]
    return largest_txn


@inline_kernel
def _grow(t: Int, size: Int, b: Buffer) -> None:
    """Add to the sizes of a transaction, its family and the queue (ReorderBufferChangeMemoryUpdate)."""
    b.counts[QUEUE_SIZE] += size
    b.txns[FAMILY_SIZE, b.txns[TOP, t]] += size
    b.txns[OWN_SIZE, t] += size


@borrowing_kernel
def _spill(t: Int, b: Buffer) -> None:
    """Spill a transaction, and all of its subtransactions, if it has some (ReorderBufferSerializeTXN)."""
    x = b.txns
    _grow(t, -x[OWN_SIZE, t], b)
    x[FLAGS, t] |= SERIALIZED
    sub = x[CHILD, t] if x[TOP, t] == t else NONE
    while sub != NONE:
        _grow(sub, -x[OWN_SIZE, sub], b)
        x[FLAGS, sub] |= SERIALIZED
        sub = x[NEXT, sub]


@inline_kernel
def _is_over(rules: Rules, b: Buffer) -> bool:
    size = b.counts[QUEUE_SIZE]
    return bool(size >= rules.limit or (rules.immediate and size > 0))


@borrowing_kernel
def _evict(t: Int, size: Int, rules: Rules, b: Buffer) -> None:
    """Stream or spill once the limit is reached, when a (sub)transaction has got changes of a size.

    That is ReorderBufferCheckMemoryLimit.
    """
    above = b.counts[QUEUE_SIZE] - rules.limit
    while _is_over(rules, b):
        largest = np.int64(NONE)
        if b.counts[NOW] >= rules.streams_from:
            largest = _largest_streamable(rules, b)
        if largest != NONE:
            stream(largest, False, b)
        else:
            _spill(_largest(b), b)
    if not b.is_exact[b.counts[NOW_CELL]]:
        b.is_noted[b.counts[NOW_CELL]] = True
        if above > 0 and b.txns[OWN_SIZE, t] == 0:
            # An estimate: the part of the row that comes after the change that reached the limit is still queued.
            _grow(t, min(above % rules.limit, size), b)


@borrowing_kernel
def _completes(t: Int, rules: Rules, b: Buffer) -> bool:
    """Tell whether a (sub)transaction that was spilled can be streamed, as its changes are complete."""
    x, top = b.txns, b.txns[TOP, t]
    if x[FLAGS, t] & SERIALIZED == 0 or x[BASE, top] == 0 or b.counts[NOW] < rules.streams_from:
        return False
    if rules.needs_streamable and x[FLAGS, top] & STREAMABLE == 0:
        return False
    note_unsure(top, rules, b)
    return bool(x[FLAGS, top] & PARTIAL == 0)


@borrowing_kernel
def queue(t: Int, size: Int, count: Int, first: Int, last: Int, origin: Int, rules: Rules, b: Buffer) -> None:
    """Queue changes, after noting what the change itself says of its transaction (ReorderBufferQueueChange)."""
    x = b.txns
    if x[QUEUED, t] == 0:
        x[OLDEST, t], x[NEWEST, t], x[ORIGIN_ID, t] = first, last, origin
    x[NEWEST, t] = max(x[NEWEST, t], last)
    x[QUEUED, t] += count
    _grow(t, size, b)
    if _completes(t, rules, b):
        if not b.is_exact[b.counts[NOW_CELL]]:
            b.is_noted[b.counts[NOW_CELL]] = True
        stream(x[TOP, t], False, b)
    if _is_over(rules, b):
        _evict(t, size, rules, b)


@borrowing_kernel
def _decide(top: Int, place: Int, is_partial: bool, b: Buffer) -> None:
    x = b.txns
    if place >= x[DECIDED, top]:
        x[DECIDED, top] = place
        x[FLAGS, top] = x[FLAGS, top] | PARTIAL if is_partial else x[FLAGS, top] & ~PARTIAL


@borrowing_kernel
def note_partial(top: Int, kinds: Int, first: Int, last: Int, b: Buffer) -> None:
    """Note whether TOAST chunks or a speculative insert wait for completion (ReorderBufferProcessPartialChange).

    Of a row of several records it is not always known which was the last that decides; deletions decide nothing, nor
    does a MULTI_INSERT that others follow.
    """
    x = b.txns
    if kinds & CHUNKS != 0 or (kinds & UNSETTLED != 0 and kinds & SPECULATIVE != 0):
        if kinds in (INSERTS | CHUNKS, SPECULATIVE | UNSETTLED):
            _decide(top, last, True, b)
        else:
            x[MAY_SET, top] = max(x[MAY_SET, top], last)
    elif kinds & ~(INSERTS | UPDATES | SPECULATIVE | CONFIRMS | SUPER_DELETES) == 0:
        _decide(top, last, False, b)
    elif first != last and kinds & (INSERTS | UPDATES | CONFIRMS | SUPER_DELETES) != 0:
        x[MAY_CLEAR, top] = max(x[MAY_CLEAR, top], last)


@kernel
def restore(at: Int64s, top: Int64s, size: Int64s, base: Int64s, b: Buffer) -> None:
    """Put what was queued before into an empty buffer whose transactions have their flags and INVALS.

    Args:
        at: int64[n] numbers of transactions, toplevel ones before their subtransactions, as they showed.
        top: int64[n] those of their toplevel ones; size: int64[n] bytes queued; base: int64[n] BASE of each.
        b: changed.
    """
    for i in range(len(at)):
        if top[i] == at[i]:
            show(at[i], b)
    # Put in front of the others each, and listed in ascending order.
    for i in range(len(at) - 1, -1, -1):
        if top[i] != at[i]:
            join(at[i], top[i], b)
        _grow(at[i], size[i], b)
    for i in np.argsort(base):
        if base[i] != 0:
            set_base(at[i], base[i], b)


@kernel
def list_open(numbers: Int64s, b: Buffer) -> Int:
    """Fill ``numbers`` with those of open transactions, in the order of the accounting; return how many there are."""
    count, top = np.int64(0), b.counts[TOP_HEAD]
    while top != NONE:
        numbers[count] = top
        start, sub = count + 1, b.txns[CHILD, top]
        count += 1
        while sub != NONE:
            numbers[count] = sub
            count += 1
            sub = b.txns[NEXT, sub]
        numbers[start:count].sort()
        top = b.txns[NEXT, top]
    return count


@kernel
def note_all_unsure(rules: Rules, b: Buffer) -> None:
    """Note the cells that decide what is open at the end: what the next window begins with has to be known."""
    top = b.counts[TOP_HEAD]
    while top != NONE:
        note_unsure(top, rules, b)
        top = b.txns[NEXT, top]
