"""Rows of open transactions, carried from window to window, are those of one window over all."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.base.value_codec import same
from headwater.reorder.commits.canonical_rows import settled
from headwater.reorder.commits.open_transactions import common_events
from headwater.reorder.commits.row_cuts import crossed_events, needed_cuts
from headwater.reorder.commits.transactions import committed_transactions, toplevel_of
from headwater.rmgr.index.index_rows import NO_ROWS, Rows, join_rows
from headwater.rmgr.index.wal_index import Request
from headwater.wal.records.frames import Frames
from unit.reorder.random_sessions import random_records
from unit.reorder.sliced import first_index, part
from unit.rmgr import plain_records as plain


def window(made: Frames, carried: Rows, parts: int, request: Request) -> Rows:
    """Join what open transactions brought along with the index of a window.

    The index is made again where its rows cross events.
    """
    rows = join_rows([carried, first_index(made, parts, request).rows])
    cuts = needed_cuts(rows, committed_transactions(rows)).tolist()
    if not cuts:
        return rows
    return join_rows([carried, first_index(made, parts, replace(request, cuts=tuple(cuts))).rows])


def still_open(rows: Rows) -> Rows:
    """Return the rows without transactions that ended."""
    ended = rows.ends.xid

    def is_open(xid: NDArray[np.int64]) -> NDArray[np.bool_]:
        top = toplevel_of(rows)(xid)
        is_running: NDArray[np.bool_] = (xid != 0) & ~np.isin(top, ended)
        return is_running

    return rows.of_transactions(is_open)


def folded(made: Frames, bounds: list[int], parts: int, grid: int, detailed: tuple[tuple[int, int], ...] = ()) -> Rows:
    carried, last = NO_ROWS, 0
    for lo, hi in pairwise(bounds):
        frames = part(made, lo, hi)
        if not len(frames.lsns):
            continue
        rows = window(frames, carried, parts, Request((plain.DATABASE,), (), 16, grid, detailed=detailed))
        ended = np.append(last, common_events(rows, lo))
        carried, last = settled(still_open(rows), lo, ended, grid), int(ended[-1])
    return carried


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 1 << 62),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 4),
    st.sampled_from([256, 4096, 1 << 22]),
)
def test_a_fold_leaves_what_one_window_leaves(
    seed: int, sessions: int, transactions: int, parts: int, cuts: int, grid: int
) -> None:
    rng = Random(seed)
    records = random_records(rng, sessions, transactions)
    made = plain.frames(records[: rng.randrange(1, len(records) + 1)])
    lo, hi = int(made.lsns[0]), int(made.end_lsns[-1])
    whole = folded(made, [lo, hi], 1, grid)
    inside = sorted({rng.choice(made.lsns.tolist()) for _ in range(cuts)})
    assert same(whole, folded(made, [lo, *inside, hi], parts, grid))
    edges = sorted(rng.sample(range(lo, hi + 1), 4))
    detailed = ((edges[0], edges[1]), (edges[2], edges[3]))
    assert same(whole, folded(made, [lo, *inside, hi], parts, grid, detailed))
    assert not len(crossed_events(whole))


def test_neighbours_become_one_row() -> None:
    made = plain.frames(
        [plain.insert(700, 20000), plain.multi_insert(700, 20000, 3, last=False), plain.insert(700, 20000)]
    )
    lsns = made.lsns.tolist()
    changes = folded(made, [*lsns, int(made.end_lsns[-1])], 1, 1 << 22).changes
    assert (changes.count.tolist(), changes.kinds.tolist()) == ([5], [1])
    assert (changes.first.tolist(), changes.last.tolist()) == ([lsns[0]], [lsns[2]])
