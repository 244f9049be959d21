"""Kernel: the order in which the server takes what it has queued of a transaction and its subtransactions.

Mirrors ReorderBufferIterTXNInit and ReorderBufferIterTXNNext of reorderbuffer.c over binaryheap.c (14 to 19): one queue
a (sub)transaction, merged by LSN. Of two queues whose next changes have one LSN, the heap's shape decides: a logical
message has the LSN of the record after its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headwater.base.kernels import inline_kernel, kernel

Int64s = NDArray[np.int64]


@inline_kernel
def _sift_down(heap: Int64s, size: int, at: int, lsns: Int64s, next_of: Int64s) -> None:
    """Let the queue at a place sink to where its next change is not after those of its children."""
    queue = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and lsns[next_of[heap[child + 1]]] < lsns[next_of[heap[child]]]:
            child += 1
        if lsns[next_of[queue]] <= lsns[next_of[heap[child]]]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = queue


@kernel
def merge_queues(starts: Int64s, lsns: Int64s, order: Int64s) -> None:
    """Merge queues as the server does.

    Args:
        starts: int64[q+1] queue i is ``lsns[starts[i]:starts[i + 1]]``, ascending; the toplevel transaction's first,
            then those of subtransactions as these became known.
        lsns: int64[n].
        order: int64[n] receives indexes into lsns, in the order in which they are taken.
    """
    next_of, heap, size = starts.copy(), np.empty(len(starts), np.int64), 0
    for queue in range(len(starts) - 1):
        if starts[queue] < starts[queue + 1]:
            heap[size] = queue
            size += 1
    for at in range((size - 2) // 2, -1, -1):
        _sift_down(heap, size, at, lsns, next_of)
    taken = 0
    while size > 0:
        queue = heap[0]
        order[taken] = next_of[queue]
        taken += 1
        next_of[queue] += 1
        if next_of[queue] == starts[queue + 1]:
            size -= 1
            heap[0] = heap[size]
        if size > 0:
            _sift_down(heap, size, 0, lsns, next_of)
