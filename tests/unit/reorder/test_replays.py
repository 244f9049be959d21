"""Replays of prepared transactions: all of them at PREPARE, and once more that they ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwater.reorder.commits.replays import (
    AT_PREPARE,
    COMMITS_PREPARED,
    ROLLS_BACK_PREPARED,
    WHOLE,
    Replays,
    TwoPhase,
    gids,
    replays_with_prepared,
)
from headwater.reorder.commits.transactions import NEVER, committed_transactions
from headwater.reorder.commits.wal_levels import Decodable
from headwater.rmgr.index.index_codes import ABORT_PREPARED, COMMIT, COMMIT_PREPARED, HAS_BASE
from headwater.rmgr.index.index_rows import NO_ROWS, EndTable, PrepareTable, Rows, XidTable, lists_of

ENDS = {"commit": COMMIT_PREPARED, "rollback": ABORT_PREPARED}


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def prepared(gid: bytes, xid: int, subs: tuple[int, ...], lsn: int, end: str | None, end_lsn: int = 0) -> Rows:
    """Make a transaction that began at 10 and was prepared, and an ordinary one with xid 900 that committed at 500."""
    ends = [(900, COMMIT, 500, ())] + ([(xid, ENDS[end], end_lsn, subs)] if end else [])
    ends.sort(key=lambda ended: ended[2])
    n = len(ends)
    zeros = np.zeros(n, np.int64)
    return replace(
        NO_ROWS,
        xids=XidTable(column(xid, 900), column(10, 11), np.full(2, HAS_BASE, np.uint8)),
        prepares=PrepareTable(
            xid=column(xid),
            lsn=column(lsn),
            next=column(lsn + 8),
            time=column(77),
            database=column(5),
            origin=column(0),
            origin_lsn=column(0),
            subs=lists_of([subs]),
            gid=lists_of([gid]),
        ),
        ends=EndTable(
            xid=column(*(ended[0] for ended in ends)),
            kind=column(*(ended[1] for ended in ends)),
            lsn=column(*(ended[2] for ended in ends)),
            next=column(*(ended[2] + 8 for ended in ends)),
            time=zeros + 99,
            database=zeros + 5,
            origin=zeros,
            origin_lsn=zeros,
            origin_time=zeros,
            invals=zeros,
            subs=lists_of([ended[3] for ended in ends]),
        ),
    )


def replayed(rows: Rows, *, at: int = 100, lo: int = 0, start: int = 100) -> Replays:
    two_phase = TwoPhase(at, lambda _xid, gid: b"_nodecode" in gid)
    return replays_with_prepared(rows, committed_transactions(rows), two_phase, lo, (Decodable(0, start, NEVER),))


def shown(replays: Replays) -> list[tuple[int, int, int, int]]:
    """Return (kind, xid, place, final LSN) without the ordinary transaction."""
    rows = zip(*(c.tolist() for c in (replays.kind, replays.xid, replays.place, replays.final_lsn)), strict=True)
    return [row for row in rows if row[1] != 900]


@pytest.mark.parametrize(
    ("what", "rows", "asked", "expected"),
    [
        ("prepared", prepared(b"g", 700, (701,), 200, None), {}, [(AT_PREPARE, 700, 200, 200)]),
        (
            "committed in the same window",
            prepared(b"g", 700, (701,), 200, "commit", 300),
            {},
            [(AT_PREPARE, 700, 200, 200), (COMMITS_PREPARED, 700, 300, 300)],
        ),
        (
            "committed in a later window",
            prepared(b"g", 700, (701,), 200, "commit", 300),
            {"lo": 250},
            [(COMMITS_PREPARED, 700, 300, 300)],
        ),
        (
            "rolled back",
            prepared(b"g", 700, (), 200, "rollback", 600),
            {},
            [(AT_PREPARE, 700, 200, 200), (ROLLS_BACK_PREPARED, 700, 600, 600)],
        ),
        (
            "prepared before it was switched on",
            prepared(b"g", 700, (701,), 50, "commit", 300),
            {},
            [(AT_PREPARE, 700, 300, 50), (COMMITS_PREPARED, 700, 300, 300)],
        ),
        (
            "prepared before, and rolled back",
            prepared(b"g", 700, (701,), 50, "rollback", 300),
            {},
            [(ROLLS_BACK_PREPARED, 700, 300, 300)],
        ),
        (
            "delivered by an earlier session",
            prepared(b"g", 700, (), 200, "commit", 300),
            {"start": 250},
            [(COMMITS_PREPARED, 700, 300, 300)],
        ),
        ("filtered", prepared(b"a_nodecode", 700, (701,), 200, "commit", 300), {}, [(WHOLE, 700, 300, 300)]),
        ("filtered and open", prepared(b"a_nodecode", 700, (701,), 200, None), {}, []),
    ],
)
def test_when(what: str, rows: Rows, asked: dict[str, int], expected: list[tuple[int, ...]]) -> None:
    replays = replayed(rows, **asked)
    assert shown(replays) == expected, what
    assert replays.place.tolist() == sorted(replays.place.tolist())
    with_changes = {row[0] for row in expected if row[0] in (WHOLE, AT_PREPARE)}
    members = {
        (int(xid), int(replays.xid[txn])) for xid, txn in zip(replays.member_xid, replays.member_txn, strict=True)
    }
    subs = rows.prepares.subs.values.tolist() if with_changes else []
    assert members == {(900, 900), *((xid, 700) for xid in ([700, *subs] if with_changes else []))}


def test_who_is_told_what_it_did() -> None:
    """Others learn of it at the commit alone; the plugin forgets what it was about at each replay."""
    all_replays = replayed(prepared(b"g", 700, (701,), 200, "commit", 600))
    assert all_replays.kind.tolist() == [AT_PREPARE, WHOLE, COMMITS_PREPARED]
    assert all_replays.commits.tolist() == [False, True, True]
    replays, askers = all_replays.ends_of(column(700, 900, 1, 700), column(1, 1, 1, 500))
    assert list(zip(replays.tolist(), askers.tolist(), strict=True)) == [(0, 0), (2, 0), (1, 1), (2, 3)]
    assert all_replays.time.tolist() == [77, 99, 99]


def test_names_are_bytes() -> None:
    rows = prepared("grün".encode(), 700, (), 200, None)
    assert gids(rows.prepares) == ["grün".encode()]
