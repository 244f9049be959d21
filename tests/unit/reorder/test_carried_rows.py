"""Rows of a transaction that stays open over windows are looked up between commits of windows that are over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from headwater.reorder.commits.control import Control
from headwater.reorder.commits.join_indexes import merge_indexes
from headwater.reorder.commits.open_transactions import NOTHING_OPEN, OpenTransactions, still_open
from headwater.reorder.commits.replays import replays_of_commits
from headwater.reorder.commits.transactions import NEVER, committed_transactions
from headwater.reorder.slices.changes import candidate_rows
from headwater.reorder.slices.resolve import Asked, resolve_rows
from headwater.rmgr.index.wal_index import Request, WalIndex
from headwater.wal.records.frames import Frames
from unit.reorder.sliced import index_parts, part
from unit.rmgr import plain_records as plain

FILE = 20000
MESSAGES = plain.inval_message(-2, FILE)


def altered(xid: int) -> list[bytes]:
    """Make a transaction that changes the catalog and commits."""
    return [plain.new_cid(xid, 0), plain.commit(xid, invals=MESSAGES)]


WINDOWS = (
    [plain.insert(700, FILE), *altered(701), plain.insert(700, FILE)],
    [plain.insert(700, FILE), *altered(702), plain.insert(700, FILE)],
    [plain.insert(700, FILE), plain.commit(700)],
)
CATALOG_CHANGES_OF_ITS_OWN = (plain.new_cid(700, 0), plain.insert(700, FILE))


def answers(windows: Sequence[Sequence[bytes]]) -> tuple[list[tuple[int, int]], OpenTransactions]:
    """Return for each row of what commits in the last window its place and that of the row that it was looked up for.

    Also what the windows before it left behind.
    """
    made = plain.frames([record for window in windows for record in window])
    places = np.append(made.lsns, made.end_lsns[-1])
    left, edge = NOTHING_OPEN, 0
    for window in windows[:-1]:
        index = merge_indexes([_index(made, int(places[edge]), int(places[edge + len(window)]))], left.rows)
        edge += len(window)
        left = still_open(left, index, committed_transactions(index.rows), Control(2, 1000))
    rows = merge_indexes([_index(made, int(places[edge]), int(places[-1]))], left.rows).rows
    txns = committed_transactions(rows)
    candidates = candidate_rows(rows, replays_of_commits(txns), txns.base_lsn != NEVER, lambda _origin: False)
    columns = (
        candidates.txn,
        candidates.locator,
        candidates.first,
        candidates.kinds,
        np.zeros(len(candidates.first), np.int64),
    )
    commits = left.commits_behind(txns)
    resolved = resolve_rows(txns.changes_catalog, commits, Asked(*columns), lambda _txn, _file, lsn, _kinds: lsn)
    return list(zip(candidates.first.tolist(), resolved.resolution.tolist(), strict=True)), left


def _index(made: Frames, lo: int, hi: int) -> WalIndex:
    return index_parts(part(made, lo, hi), 1, Request((plain.DATABASE,), (), 16))


@pytest.mark.parametrize("own", [(), CATALOG_CHANGES_OF_ITS_OWN], ids=["plain", "changes the catalog itself"])
def test_a_commit_of_an_earlier_window_lies_between_rows_that_are_carried_over_it(own: Sequence[bytes]) -> None:
    windows = ([*own, *WINDOWS[0]], *WINDOWS[1:])
    pairs, left = answers(windows)
    made = plain.frames([record for window in windows for record in window])
    commits = made.lsns[np.array([2, 6]) + len(own)].tolist()
    behind = {place: sum(commit < place for commit in commits) for place, _ in pairs}
    assert set(behind.values()) == {0, 1, 2}
    assert [behind[asked] for _, asked in pairs] == [behind[place] for place, _ in pairs]
    assert {asked for _, asked in pairs} == {min(p for p in behind if behind[p] == n) for n in range(3)}
    assert left.catalog_commits.tolist() == commits


def test_a_commit_is_forgotten_with_the_last_transaction_that_was_open_then() -> None:
    _, left = answers([*WINDOWS, [plain.insert(703, FILE), *altered(704)], [plain.commit(703)]])
    assert len(left.catalog_commits) == 1
    _, left = answers([*WINDOWS, altered(704), [plain.insert(703, FILE)], [plain.commit(703)]])
    assert len(left.catalog_commits) == 0
