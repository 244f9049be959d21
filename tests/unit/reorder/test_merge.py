"""Indexes of neighbouring runs joined: like one index of all, with the seams checked."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from headwater.base.value_codec import read_value, same, write_value
from headwater.errors import RecordError
from headwater.reorder.commits.join_indexes import merge_indexes
from headwater.rmgr.index.index_rows import NO_ROWS, Rows, join_rows
from headwater.rmgr.index.wal_index import Request, WalIndex, build_index
from headwater.wal.records.frames import EndOfWal, Frames
from unit.reorder.sliced import part
from unit.rmgr import plain_records as plain

REQUEST = Request((plain.DATABASE,), ((plain.SPC, plain.DATABASE, 1259),), 16)


def linked() -> Frames:
    """Make records that point back at one another."""
    made = [
        plain.insert(700, 20003),
        plain.insert(700, 20001),
        plain.commit(700, [701, 702], invals=bytes(32)),
        plain.insert(703, 20002, toplevel=705),
        plain.invalidations(703, bytes(range(48))),
        plain.insert(703, 20001),
        plain.new_cid(705, 1),
        plain.truncate(705, [9, 8]),
        plain.message(703, b"m"),
        plain.create_file(703, 20009),
        plain.truncate(700, [7]),
        plain.insert(703, 20001),
        plain.commit(705, [703]),
    ]
    frames = plain.frames(made)
    for i, at in enumerate(frames.positions):
        prev = 0 if i == 0 else int(frames.lsns[i - 1])
        frames.data[at + 8 : at + 16] = np.frombuffer(prev.to_bytes(8, "little"), np.uint8)
    return frames


def runs(frames: Frames, *cuts: int) -> list[WalIndex]:
    bounds = [int(frames.lsns[0]), *(int(frames.lsns[i]) for i in cuts), int(frames.end_lsns[-1])]
    return [build_index(part(frames, a, b), a, b, REQUEST) for a, b in pairwise(bounds)]


@pytest.mark.parametrize("cuts", [(1,), (3,), (4, 5), (1, 2, 3, 4, 5, 6, 7), (2, 2, 6)])
def test_parts_joined_are_the_whole(cuts: tuple[int, ...]) -> None:
    frames = linked()
    whole, joined = merge_indexes(runs(frames)), merge_indexes(runs(frames, *cuts))
    for name in ("lo", "hi", "records", "first_prev", "last_lsn", "end", "grid"):
        assert getattr(whole, name) == getattr(joined, name)
    assert list(whole.kept) == list(joined.kept)
    for name in ("ends", "assigns", "invals", "commands", "truncates", "messages"):
        assert same(getattr(whole.rows, name), getattr(joined.rows, name)), name
    assert counts(whole.rows) == counts(joined.rows)
    assert made_files(whole.rows) == made_files(joined.rows)


def counts(rows: Rows) -> dict[tuple[int, int], int]:
    counted: dict[tuple[int, int], int] = {}
    changes = rows.changes
    for xid, file, count in zip(changes.xid, rows.locators[changes.locator, 2], changes.count, strict=True):
        counted[int(xid), int(file)] = counted.get((int(xid), int(file)), 0) + int(count)
    return counted


def made_files(rows: Rows) -> list[tuple[int, int, int]]:
    return list(zip(rows.files.xid, rows.files.lsn, rows.locators[rows.files.locator, 2], strict=True))


@pytest.mark.parametrize("at", range(1, 12))
def test_rows_of_open_transactions_joined_with_what_follows(at: int) -> None:
    frames = linked()
    whole, (before, after) = merge_indexes(runs(frames, at)).rows, (run.rows for run in runs(frames, at))

    def is_open(xid: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(xid, [703, 705])

    carried, since = before.of_transactions(is_open), int(frames.lsns[at])
    joined, chosen = join_rows([carried, NO_ROWS, after]), whole.of_transactions(is_open, since)
    for name, _ in joined.tables():
        table, expected = getattr(joined, name), getattr(whole, name)
        which = is_open(expected.xid) | (expected.lsn >= since)
        assert table.lsn.tolist() == expected.lsn[which].tolist(), name
        assert same(getattr(chosen, name).xid, table.xid), name
    assert counts(joined) == counts(chosen)
    assert made_files(joined) == made_files(chosen)
    assert chosen.locators.tolist() == sorted(chosen.locators.tolist())
    used = {number for table in (chosen.changes, chosen.files) for number in table.locator.tolist()}
    assert used == set(range(len(chosen.locators)))
    assert same(read_value(Rows, memoryview(written(carried))), carried)


def written(rows: Rows) -> bytes:
    sink = io.BytesIO()
    write_value(sink, rows)
    return sink.getvalue()


def test_runs_that_do_not_meet_are_an_error() -> None:
    parts = runs(linked(), 2, 5)
    with pytest.raises(RecordError, match="points back at") as raised:
        merge_indexes([parts[0], parts[2]])
    assert raised.value.lsn == parts[2].lo


def test_a_run_without_records_lies_between_others() -> None:
    frames = linked()
    first, last = runs(frames, 4)
    empty = build_index(part(frames, 0, 0), last.lo, last.lo, REQUEST)
    assert merge_indexes([first, empty, last]).records == len(frames.lsns)


def test_what_follows_the_end_of_the_log_is_left_out() -> None:
    frames = linked()
    first, last = runs(frames, 4)
    end = EndOfWal(last.lo, "zeros")
    ended = build_index(replace(part(frames, first.lo, first.hi), end=end), first.lo, first.hi, REQUEST)
    joined = merge_indexes([ended, last])
    assert (joined.records, joined.end, joined.hi) == (4, end, last.lo)
