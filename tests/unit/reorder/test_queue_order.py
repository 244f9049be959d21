"""Queues of a transaction merged as the server's heap merges them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.reorder.slices._queue_order import merge_queues

pytestmark = pytest.mark.interpreted


class PlainHeap:
    """binaryheap.c, with the least LSN on top."""

    def __init__(self, queues: list[list[int]]) -> None:
        self.queues = [list(queue) for queue in queues]
        self.nodes = [number for number, queue in enumerate(queues) if queue]
        for at in range((len(self.nodes) - 2) // 2, -1, -1):
            self.sift_down(at)

    def before(self, queue: int, other: int) -> bool:
        """Tell whether the next change of one queue is strictly before that of another."""
        return self.queues[queue][0] < self.queues[other][0]

    def sift_down(self, at: int) -> None:
        while True:
            left, right, swap = 2 * at + 1, 2 * at + 2, 0
            if left < len(self.nodes) and self.before(self.nodes[left], self.nodes[at]):
                swap = left
            if (
                right < len(self.nodes)
                and self.before(self.nodes[right], self.nodes[at])
                and (not swap or self.before(self.nodes[right], self.nodes[left]))
            ):
                swap = right
            if not swap:
                return
            self.nodes[swap], self.nodes[at] = self.nodes[at], self.nodes[swap]
            at = swap

    def take(self) -> int:
        """Take the next change, and return its queue."""
        queue = self.nodes[0]
        self.queues[queue].pop(0)
        if not self.queues[queue]:
            self.nodes[0] = self.nodes[-1]
            self.nodes.pop()
        if self.nodes:
            self.sift_down(0)
        return queue


@given(st.lists(st.lists(st.integers(0, 12), max_size=6).map(sorted), max_size=9))
def test_queues_are_merged_as_the_server_merges_them(queues: list[list[int]]) -> None:
    starts = np.cumsum([0] + [len(queue) for queue in queues], dtype=np.int64)
    lsns = np.array([lsn for queue in queues for lsn in queue], np.int64)
    order = np.full(len(lsns), -1, np.int64)
    merge_queues(starts, lsns, order)
    heap = PlainHeap(queues)
    expected = [heap.take() for _ in range(len(lsns))]
    actual = (np.searchsorted(starts, order, "right") - 1).tolist() if len(lsns) else []
    of_empty = {number for number, (low, high) in enumerate(pairwise(starts.tolist())) if low == high}
    assert not of_empty & set(actual)
    assert actual == expected
    assert sorted(order.tolist()) == list(range(len(lsns)))


def test_of_two_with_one_lsn_the_heap_decides() -> None:
    starts, lsns, order = np.array([0, 2, 4], np.int64), np.array([10, 30, 20, 30], np.int64), np.zeros(4, np.int64)
    merge_queues(starts, lsns, order)
    assert order.tolist() == [0, 2, 3, 1]
