"""The transaction that a record belongs to, and the places where transactions begin."""

from __future__ import annotations

import numpy as np

from headwater.reorder.commits.transactions import (
    NEVER,
    CommittedTransactions,
    committed_transactions,
    oldest_base,
    toplevel_of,
)
from headwater.rmgr.index.index_rows import Rows
from headwater.rmgr.index.wal_index import Request, build_index
from unit.rmgr import plain_records as plain

FILE = 20000


def index(*records: bytes) -> tuple[list[int], Rows]:
    made = plain.frames(records)
    wal_index = build_index(made, int(made.lsns[0]), int(made.end_lsns[-1]), Request((plain.DATABASE,), (), 16))
    return made.lsns.tolist(), wal_index.rows


def transactions(*records: bytes) -> tuple[list[int], CommittedTransactions]:
    lsns, rows = index(*records)
    return lsns, committed_transactions(rows)


def test_nothing_committed() -> None:
    _, txns = transactions(plain.insert(700, FILE))
    assert len(txns.xid) == 0
    assert txns.txn_of(np.array([700])).tolist() == [-1]


def test_commit_order_is_the_order_of_commit_records() -> None:
    lsns, txns = transactions(plain.insert(700, FILE), plain.insert(701, FILE), plain.commit(701), plain.commit(700))
    assert txns.xid.tolist() == [701, 700]
    assert txns.commit_lsn.tolist() == lsns[2:]
    assert txns.first_lsn.tolist() == [lsns[1], lsns[0]]


def test_xids_may_wrap_around() -> None:
    _, txns = transactions(
        plain.insert(0xFFFFFFFE, FILE), plain.insert(3, FILE, toplevel=0xFFFFFFFE), plain.commit(0xFFFFFFFE, [3])
    )
    assert txns.members(0).tolist() == [3, 0xFFFFFFFE]
    assert txns.txn_of(np.array([3, 0xFFFFFFFE, 4])).tolist() == [0, 0, -1]


def test_a_subtransaction_is_known_by_the_commit_record_alone() -> None:
    lsns, txns = transactions(plain.insert(701, FILE), plain.commit(700, [701]))
    assert txns.members(0).tolist() == [700, 701]
    assert (txns.first_lsn.tolist(), txns.base_lsn.tolist()) == ([lsns[0]], [lsns[0]])


def test_an_assignment_alone_shows_the_toplevel_transaction_but_commits_nothing() -> None:
    lsns, txns = transactions(plain.insert(701, FILE, toplevel=700), plain.abort(701), plain.commit(700))
    assert txns.members(0).tolist() == [700]
    assert txns.txn_of(np.array([701])).tolist() == [-1]
    # What the aborted subtransaction queued gave the toplevel one its base snapshot.
    assert (txns.first_lsn.tolist(), txns.base_lsn.tolist()) == ([lsns[0]], [lsns[0]])


def test_catalog_changes_of_an_aborted_subtransaction_mark_the_toplevel_one() -> None:
    _, txns = transactions(plain.new_cid(701, 0, toplevel=700), plain.abort(701), plain.commit(700))
    assert txns.changes_catalog.tolist() == [True]


def test_only_catalog_changes_give_the_base_snapshot_at_the_commit() -> None:
    lsns, txns = transactions(plain.new_cid(700, 0), plain.commit(700))
    assert txns.base_lsn.tolist() == [lsns[1]]


def test_locks_and_other_records_give_no_base_snapshot() -> None:
    lsns, txns = transactions(plain.record(11, 0, 700, b"btree"), plain.commit(700))
    assert (txns.first_lsn.tolist(), txns.base_lsn.tolist()) == ([lsns[0]], [NEVER])


def test_an_assignment_goes_before_what_an_abort_record_says() -> None:
    _, rows = index(
        plain.insert(702, FILE, toplevel=700), plain.insert(701, FILE, toplevel=700), plain.abort(701, [702])
    )
    assert toplevel_of(rows)(np.array([702, 701, 700, 9])).tolist() == [700, 700, 700, 9]


def test_the_oldest_base_snapshot_is_that_of_the_first_change() -> None:
    lsns, rows = index(plain.record(11, 0, 700, b"btree"), plain.insert(701, FILE), plain.insert(700, FILE))
    assert oldest_base(rows) == lsns[1]
    assert oldest_base(rows.of_transactions(lambda xids: xids == 700)) == lsns[2]
    assert oldest_base(index(plain.new_cid(700, 0))[1]) == NEVER
