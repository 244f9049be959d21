"""Rows of changes never cross an event of their own transaction, and those of others do not end them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.reorder.commits.join_indexes import merge_indexes
from headwater.reorder.commits.row_cuts import crossed_events
from headwater.reorder.commits.transactions import toplevel_of
from headwater.rmgr.index.index_rows import Rows
from headwater.rmgr.index.wal_index import Request, build_index
from headwater.wal.records.frames import Frames
from unit.reorder.random_sessions import random_records
from unit.reorder.sliced import first_index, index_parts, part
from unit.rmgr import plain_records as plain

REQUEST = Request((plain.DATABASE,), (), 16)


def crossed(rows: Rows) -> set[int]:
    toplevel = toplevel_of(rows)
    tables = (rows.commands, rows.invals, rows.truncates)
    events = [(int(toplevel(np.array([x]))[0]), int(at)) for t in tables for x, at in zip(t.xid, t.lsn, strict=True)]
    lsns = set()
    for xid, first, last in zip(rows.changes.owner, rows.changes.first, rows.changes.last, strict=True):
        top = int(toplevel(np.array([xid]))[0])
        lsns |= {lsn for owner, lsn in events if owner == top and first < lsn < last}
    return lsns


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 1 << 62), st.integers(1, 5), st.integers(1, 6), st.integers(1, 5))
def test_what_is_crossed_is_found_and_then_crossed_no_more(
    seed: int, sessions: int, transactions: int, parts: int
) -> None:
    made = plain.frames(random_records(Random(seed), sessions, transactions))
    rows = first_index(made, parts, REQUEST).rows
    assert crossed_events(rows).tolist() == sorted(crossed(rows))
    assert parts > 1 or not crossed(rows)
    again = index_parts(made, parts, REQUEST).rows
    assert not crossed(again)
    assert rows.changes.count.sum() == again.changes.count.sum()


def test_a_sibling_named_in_an_earlier_run() -> None:
    records = [
        plain.insert(701, 20000, toplevel=700),
        plain.insert(703, 20000, toplevel=702),
        plain.insert(701, 20000),
        plain.new_cid(704, 0, top=700, toplevel=700),
        plain.insert(701, 20000),
        plain.commit(700, [701, 704]),
    ]
    made = plain.frames(records)
    assert crossed_events(first_index(made, 1, REQUEST).rows).tolist() == []
    rows = first_index(made, 3, REQUEST).rows
    assert rows.changes.count.tolist() == [1, 1, 1, 1]
    rows = index_of_two_runs(made, 2)
    assert crossed_events(rows).tolist() == [int(made.lsns[3])]
    again = index_of_two_runs(made, 2, (int(made.lsns[3]),))
    assert again.changes.count.tolist() == [1, 1, 1, 1]


def index_of_two_runs(made: Frames, at: int, cuts: tuple[int, ...] = ()) -> Rows:
    bounds = [int(made.lsns[0]), int(made.lsns[at]), int(made.end_lsns[-1])]
    request = Request((plain.DATABASE,), (), 16, cuts=cuts)
    runs = [build_index(part(made, a, b), a, b, request) for a, b in pairwise(bounds)]
    return merge_indexes([replace(run, first_prev=0, last_lsn=0) for run in runs]).rows


def test_catalog_changes_of_others_do_not_end_a_row() -> None:
    records = []
    for i in range(50):
        records += [
            plain.insert(700, 20000),
            plain.new_cid(800 + i, 0),
            plain.invalidations(800 + i, bytes(32)),
            plain.invalidations(0, bytes(16)),
            plain.truncate(800 + i, [1]),
        ]
    rows = first_index(plain.frames([*records, plain.commit(700)]), 1, REQUEST).rows
    assert rows.changes.count.tolist() == [50]
    ended = [*records, plain.commit(849, invals=bytes(16)), plain.insert(700, 20000), plain.commit(700)]
    assert first_index(plain.frames(ended), 1, REQUEST).rows.changes.count.tolist() == [50, 1]
