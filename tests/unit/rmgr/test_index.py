"""The index kernel against its plain twin, and the rules of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.errors import RecordError
from headwater.rmgr.index.index_codes import CATALOG_CHANGE, CHUNKS, HAS_BASE, UNSETTLED
from headwater.rmgr.index.index_rows import ChangeTable, Ragged, Rows, Table
from headwater.rmgr.index.wal_index import GRID, Request, WalIndex, build_index
from headwater.wal.records.frames import Frames
from unit.rmgr import plain_records as plain

REQUEST = Request((plain.DATABASE,), (), 18)


def index(records: Sequence[bytes], step: int = 0, request: Request = REQUEST) -> tuple[Frames, WalIndex]:
    made = plain.frames(records, step=step)
    return made, build_index(made, int(made.lsns[0]), int(made.end_lsns[-1]), request)


xids = st.integers(3, 9)
files = st.integers(20000, 20004)
databases = st.sampled_from([plain.DATABASE, plain.DATABASE, 6])
oids = st.integers(0, 9)
command_ids = st.sampled_from([0xFFFFFFFF, 0, 3, 9])
one_record = st.one_of(
    st.builds(plain.insert, xids, files),
    st.builds(plain.insert, xids, files, flags=st.sampled_from([0, 8, 12])),
    st.builds(plain.update, xids, files, with_key=st.booleans(), body=st.binary(max_size=9)),
    st.builds(plain.confirm, xids, files),
    st.builds(plain.delete, xids, files, with_key=st.booleans()),
    st.builds(plain.delete, xids, files, with_key=st.just(False), super_delete=st.just(True)),
    st.builds(plain.multi_insert, xids, files, st.integers(1, 40), last=st.booleans()),
    st.builds(plain.insert, st.integers(10, 14), files, toplevel=xids),
    st.builds(plain.commit, xids, st.lists(st.integers(10, 14), max_size=3)),
    st.builds(plain.abort, xids),
    st.builds(plain.new_cid, xids, st.integers(0, 5), cmax=command_ids, database=databases),
    st.builds(
        plain.truncate, xids, st.lists(oids, max_size=3), flags=st.integers(0, 3), database=databases, origin=oids
    ),
    st.builds(plain.message, st.integers(0, 4), st.binary(max_size=9), transactional=st.booleans(), origin=oids),
    st.builds(plain.create_file, st.integers(0, 4), files, fork=st.integers(0, 2), database=databases),
    st.builds(
        plain.invalidations,
        st.integers(0, 4),
        st.lists(st.builds(plain.inval_message, st.integers(-6, 80), oids)).map(b"".join),
    ),
    st.builds(plain.record, st.just(11), st.just(0), xids, st.just(b"btree")),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(one_record, min_size=1, max_size=60), st.sampled_from([0, 8 * 1000, GRID // 4]))
def test_rows_say_what_the_records_say(records: list[bytes], step: int) -> None:
    made, wal_index = index(records, step)
    twin = plain.plain_index(made)
    rows = wal_index.rows
    assert _sums(rows, rows.changes.count) == _by_file(twin.changes)
    assert _sums(rows, rows.changes.memory) == twin.memory
    assert [*zip(rows.ends.kind, rows.ends.xid, rows.ends.lsn, strict=True)] == twin.ends
    assert _first(rows) == twin.first
    assert [*zip(rows.assigns.xid, rows.assigns.top, strict=True)] == twin.assigns
    assert listed(rows.commands) == twin.commands
    assert listed(rows.truncates) == twin.truncates
    assert listed(rows.messages) == twin.messages
    assert listed(rows.invals) == twin.invals
    assert [(xid, lsn, int(rows.locators[file, 2])) for xid, lsn, file in listed(rows.files)] == twin.files


def listed(table: Table) -> list[tuple[Any, ...]]:
    columns = [getattr(table, field.name) for field in fields(table)]
    return [
        *zip(*([tuple(of) for of in _lists(c)] if isinstance(c, Ragged) else c.tolist() for c in columns), strict=True)
    ]


def _lists(column: Ragged) -> Iterator[list[int]]:
    return (column.values[a:b].tolist() for a, b in pairwise(column.starts))


@settings(deadline=None, max_examples=150)
@given(st.lists(one_record, min_size=1, max_size=60), st.sampled_from([0, GRID // 4]))
def test_no_row_crosses_a_grid_line_or_an_event_of_its_xid(records: list[bytes], step: int) -> None:
    _, wal_index = index(records, step)
    rows = wal_index.rows
    tables = (rows.commands, rows.truncates, rows.invals)
    events = [(int(xid), int(lsn)) for table in tables for xid, lsn in zip(table.xid, table.lsn, strict=True)]
    commits = rows.ends.lsn[rows.ends.invals > 0].tolist()
    for xid, first, last in zip(rows.changes.xid, rows.changes.first, rows.changes.last, strict=True):
        assert first // GRID == last // GRID
        assert not any(xid == owner and first < event < last for owner, event in events)
        assert not any(first < commit < last for commit in commits)


@settings(deadline=None, max_examples=150)
@given(st.lists(one_record, min_size=1, max_size=60), st.data())
def test_in_detailed_stretches_each_change_is_a_row(records: list[bytes], data: st.DataObject) -> None:
    made, coarse = index(records)
    lsns = made.lsns.tolist()
    edges = sorted(data.draw(st.sets(st.integers(lsns[0] - 8, lsns[-1] + 8), max_size=6)))
    detailed = tuple(zip(edges[::2], edges[1::2], strict=False))
    made, wal_index = index(records, request=replace(REQUEST, detailed=detailed))
    changes = wal_index.rows.changes
    inside = np.array([any(lo <= lsn < hi for lo, hi in detailed) for lsn in changes.first], np.bool_)
    sizes = [weighed for weighed in plain.plain_index(made).sizes if any(lo <= weighed[0] < hi for lo, hi in detailed)]
    rows = changes.take(np.flatnonzero(inside))
    assert rows.memory.tolist() == [memory for _, _, _, weights in sizes for memory in weights]
    assert rows.first.tolist() == [lsn for lsn, _, _, weights in sizes for _ in weights]
    assert not rows.span.any()
    assert (rows.count <= 1).all()
    assert not any((row.first < lo <= row.last) for row in _each(changes) for lo, _ in detailed)
    for column in ("count", "bytes", "memory"):
        assert _sums(wal_index.rows, getattr(changes, column)) == _sums(
            coarse.rows, getattr(coarse.rows.changes, column)
        )


def test_only_the_last_tuple_of_a_detailed_multi_insert_settles_it() -> None:
    records = [plain.multi_insert(3, 20000, 3, last=False), plain.multi_insert(3, 20000, 2)]
    changes = index(records, request=replace(REQUEST, detailed=((0, 1 << 40),)))[1].rows.changes
    assert (changes.kinds & UNSETTLED != 0).tolist() == [True, True, True, True, False]
    assert changes.count.tolist() == [1] * 5


def test_a_detailed_run_makes_room_for_more_tuples_than_it_has_records() -> None:
    records = [plain.multi_insert(3, 20000, 5000)] * 30
    changes = index(records, request=replace(REQUEST, detailed=((0, 1 << 40),)))[1].rows.changes
    assert len(changes) == 150_000
    assert int(changes.memory.sum()) == 30 * sum(plain.plain_index(plain.frames(records[:1])).sizes[0][3])


def test_chunks_are_told_from_other_inserts() -> None:
    changes = index([plain.insert(3, 20001, flags=0x18), plain.insert(3, 20000)])[1].rows.changes
    assert (changes.kinds & CHUNKS != 0).tolist() == [True, False]


def _each(changes: ChangeTable) -> Iterator[ChangeTable]:
    return (changes.take(slice(i, i + 1)) for i in range(len(changes)))


def _sums(rows: Rows, column: NDArray[np.integer]) -> Counter[tuple[int, int]]:
    total: Counter[tuple[int, int]] = Counter()
    for xid, locator, value in zip(rows.changes.xid, rows.changes.locator, column, strict=True):
        total[int(xid), int(rows.locators[locator][2])] += int(value)
    return total


def _by_file(changes: Counter[tuple[int, int, int, int]]) -> Counter[tuple[int, int]]:
    total: Counter[tuple[int, int]] = Counter()
    for (xid, file, _, _), count in changes.items():
        total[xid, file] += count
    return total


def _first(rows: Rows) -> dict[int, int]:
    first: dict[int, int] = {}
    for xid, lsn in zip(rows.xids.xid, rows.xids.lsn, strict=True):
        first[int(xid)] = min(int(lsn), first.get(int(xid), int(lsn)))
    return first


def test_neighbouring_changes_share_a_row() -> None:
    _, wal_index = index([plain.insert(3, 20000), plain.update(3, 20000), plain.insert(3, 20001), plain.commit(3)])
    rows = wal_index.rows
    assert [*zip(rows.changes.kinds, rows.changes.count, strict=True)] == [(1 | 2, 2), (1, 1)]


def test_a_speculative_insert_leaves_its_row_unsettled_until_it_is_confirmed() -> None:
    spec, confirm = plain.insert(3, 20000, flags=12), plain.record(10, 0x50, 3, b"\1\0", file=20000)
    assert index([spec])[1].rows.changes.kinds[0] & UNSETTLED
    rows = index([spec, confirm])[1].rows
    assert (rows.changes.kinds[0], rows.changes.count[0]) == (16 | 32, 1)


def test_xids_know_where_they_got_a_base_snapshot_and_whether_they_changed_the_catalog() -> None:
    lock = plain.record(10, 0x60, 3, bytes(8), file=20000)
    made, wal_index = index([lock, plain.insert(3, 20000), plain.new_cid(4, 0)])
    rows = wal_index.rows
    assert [*zip(rows.xids.xid, rows.xids.bits, strict=True)] == [(3, 0), (3, HAS_BASE), (4, CATALOG_CHANGE)]
    assert [int(x) for x in made.lsns] == [int(x) for x in rows.xids.lsn]


def test_records_of_catalogs_are_kept_whole_and_give_no_rows() -> None:
    request = Request((plain.DATABASE,), ((plain.SPC, plain.DATABASE, 1259),), 16)
    catalog = plain.record(10, 0x00, 3, b"\1\0\0", file=1259, block_data=plain.tuple_bytes())
    _, wal_index = index([catalog, plain.insert(3, 20000)], request=request)
    assert [catalog] == [k.data for k in wal_index.kept]
    assert len(wal_index.rows.changes) == 1


def test_commits_carry_subtransactions_times_and_invalidations() -> None:
    messages = bytes(range(32))
    _, wal_index = index([plain.commit(3, [4, 5], time=-9, invals=messages), plain.commit(6)])
    ends = wal_index.rows.ends
    assert ends.subs.starts.tolist() == [0, 2, 2]
    assert ends.subs.values.tolist() == [4, 5]
    assert ends.time.tolist() == [-9, 77]
    assert ends.invals.tolist() == [2, 0]
    assert ends.database.tolist() == [plain.DATABASE] * 2


def test_more_files_than_the_table_first_holds() -> None:
    _, wal_index = index([plain.insert(3, 20000 + i) for i in range(5000)])
    assert 5000 == len(wal_index.rows.locators) == int(wal_index.rows.changes.count.sum())


@pytest.mark.parametrize(("rmid", "info"), [(22, 0), (3, 0x70), (0, 0xF0), (127, 0)])
def test_an_unknown_record_is_an_error_with_its_lsn(rmid: int, info: int) -> None:
    with pytest.raises(RecordError, match="unknown record") as raised:
        index([plain.record(rmid, info, 3)])
    assert raised.value.lsn == 0x1000028


@settings(deadline=None, max_examples=300)
@given(one_record, st.integers(24, 200), st.integers(0, 255))
def test_mutated_records_raise_our_errors_only(made: bytes, at: int, value: int) -> None:
    broken = bytearray(made)
    broken[min(at, len(broken) - 1)] = value
    frames = plain.frames([bytes(broken)])
    try:
        build_index(frames, 0, 1 << 40, REQUEST)
    except RecordError:
        return
    assert np.all(np.isfinite(frames.lsns))


def test_a_command_without_a_number_is_malformed() -> None:
    with pytest.raises(RecordError, match="malformed record of resource manager 9"):
        index([plain.new_cid(3, 0xFFFFFFFF)])


def test_what_a_version_does_not_send_is_no_message() -> None:
    relsync = plain.invalidations(3, plain.inval_message(-6, 1))
    with pytest.raises(RecordError, match="unrecognized SI message ID: -6"):
        index([relsync], request=Request((plain.DATABASE,), (), 17))
    assert listed(index([relsync])[1].rows.invals) == [(3, 0x1000028, -6, plain.DATABASE, 1)]
