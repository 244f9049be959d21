"""The changes that concern a group, read file by file, beside all changes of the window at once."""

from __future__ import annotations

import datetime
import tempfile
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from headwater.landing.mirrors.fold import NOTHING
from headwater.landing.mirrors.staged_changes import POSTIMAGE, PREIMAGE, GroupChanges, Staged, in_range, staged_rows
from headwater.landing.tables.attached_rows import Departure
from headwater.landing.tables.change_rows import STAGED

COLUMNS = [STAGED[name] for name in ("_change_type", "_commit_lsn", "_commit_time", "_relation", "_heap")]
KEY = "id"
SINGLE = st.tuples(
    st.sampled_from(["insert", "delete", POSTIMAGE]), st.integers(0, 20), st.sampled_from([0, 0, 0, 7, 8])
)
MOVED = st.tuples(st.just("moved"), st.integers(0, 20), st.integers(0, 20))
EVENTS = st.lists(st.one_of(SINGLE, MOVED, st.just(("truncate", None, 0))), min_size=1, max_size=30)


def _rows(events: list[tuple[str, int | None, int]]) -> pa.Table:
    """Make rows of events, each of a commit of its own."""
    rows: list[tuple[str, int | None, int, int]] = []
    for lsn, (kind, key, other) in enumerate(events, 1):
        if kind == "moved":
            rows += [(PREIMAGE, key, 0, lsn), (POSTIMAGE, other, 0, lsn)]
        else:
            rows.append((kind, key, other, lsn))
    kinds, keys, heaps, lsns = zip(*rows, strict=True)
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    times = pa.array([moment] * len(rows), pa.timestamp("us", tz="UTC"))
    relations = pa.array([5] * len(rows), pa.int64())
    columns = [pa.array(kinds), pa.array(lsns, pa.int64()), times, relations, pa.array(heaps, pa.int64())]
    return pa.table([*columns, pa.array(keys, pa.int64())], [*COLUMNS, KEY])


@given(EVENTS, st.lists(st.integers(1, 9), max_size=8), st.integers(-1, 20), st.integers(0, 21))
def test_a_group_knows_of_its_changes_what_the_window_knows(
    events: list[tuple[str, int | None, int]], cuts: list[int], above: int, upto: int
) -> None:
    rows = _rows(events)
    starts = [0, *(cut for cut in accumulate(cuts) if cut < len(rows)), len(rows)]
    bounds = pa.scalar(above, pa.int64()), pa.scalar(upto, pa.int64())
    with tempfile.TemporaryDirectory() as place:
        paths = [f"{place}/{number}.parquet" for number in range(len(starts) - 1)]
        for path, start, end in zip(paths, starts, starts[1:], strict=False):
            pq.write_table(rows.slice(start, end - start), path)
        whole = Staged.of(staged_rows(paths))
        group = GroupChanges.read(paths, [*COLUMNS, KEY], KEY, *bounds)
        picks, of_group = (
            np.flatnonzero((staged.kind != NOTHING) & in_range(staged.rows[KEY], *bounds))
            for staged in (whole, group.staged)
        )
        at = np.concatenate([own + start for own, start in zip(group.at, starts, strict=False)])
        taken = list(group.whole(of_group))
    assert at[of_group].tolist() == picks.tolist()
    assert group.staged.kind[of_group].tolist() == whole.kind[picks].tolist()
    moved = group.staged.moved_from[of_group]
    assert np.where(moved >= 0, at[moved], -1).tolist() == whole.moved_from[picks].tolist()
    assert not len(picks) or pa.concat_tables(taken).equals(rows.take(picks))
    _assert_same_ends(group.staged, whole, of_group, picks)


def _assert_same_ends(group: Staged, whole: Staged, of_group: np.ndarray, picks: np.ndarray) -> None:
    """See that rows of a relation end between the same changes."""
    gone = [Departure(5, 4)]
    ends = whole.kills(gone)
    assert group.kills(gone).keys() == ends.keys()
    for oid, places in group.kills(gone).items():
        between = np.searchsorted(group.place[of_group], places)
        expected = np.searchsorted(whole.place[picks], ends[oid])
        assert set(between.tolist()) == set(expected.tolist())
