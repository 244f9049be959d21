"""Spans that are found by arithmetic, against a walk over all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.reorder.slices.spans import SpanIndex, joined, spans_by_unit

FILES, LAST = 4, 20
SpanTable = dict[tuple[tuple[int, int], int], int]
"""Resolutions by (owner, file) and LSN."""

places = st.tuples(st.integers(-1, 3), st.integers(0, FILES - 1))
tables = st.dictionaries(st.tuples(places, st.integers(0, LAST)), st.integers(-1, 5), max_size=30)


def array(table: SpanTable) -> np.ndarray:
    rows = sorted((owner, file, lsn, resolution) for ((owner, file), lsn), resolution in table.items())
    return np.array(rows, np.int64).reshape(-1, 4).T


def resolution(spans: np.ndarray, owner: int, file: int, lsn: int) -> int:
    resolutions = [s[3] for s in spans.T.tolist() if s[:2] == [owner, file] and s[2] <= lsn]
    return resolutions[-1] if resolutions else -1


@given(tables, st.lists(places, max_size=6), st.integers(0, LAST), st.integers(0, LAST))
def test_spans_in_force_say_the_same_and_no_more(
    table: SpanTable, pairs: list[tuple[int, int]], an_lsn: int, another_lsn: int
) -> None:
    first, last = sorted((an_lsn, another_lsn))
    spans = array(table)
    owner, file = np.array(pairs, np.int64).reshape(-1, 2).T
    chosen = spans[:, SpanIndex(spans, FILES).in_force(owner, file, first, last)]
    for pair in set(pairs):
        for lsn in range(first, last + 1):
            assert resolution(spans, *pair, lsn) == resolution(chosen, *pair, lsn)
    for pair in {(s[0], s[1]) for s in chosen.T.tolist()}:
        assert pair in pairs
        lsns = [s[2] for s in chosen.T.tolist() if (s[0], s[1]) == pair]
        assert sum(lsn <= first for lsn in lsns) <= 1
        assert max(lsns) <= last


@given(tables)
def test_joined_spans_say_the_same(table: SpanTable) -> None:
    spans = array(table)
    fewer = joined(spans)
    for owner in range(-1, 4):
        for file in range(FILES):
            for lsn in range(LAST + 1):
                assert resolution(spans, owner, file, lsn) == resolution(fewer, owner, file, lsn)


@given(tables, st.lists(st.booleans(), min_size=4, max_size=4))
def test_spans_of_units(table: SpanTable, output: list[bool]) -> None:
    unit_of = np.where(output, np.cumsum(output) - 1, -1)
    of_units = spans_by_unit(array(table), unit_of).T.tolist()
    expected = [[o if o < 0 else int(unit_of[o]), *rest] for o, *rest in array(table).T.tolist()]
    assert of_units == [s for s, (o, *_) in zip(expected, array(table).T.tolist(), strict=True) if o < 0 or output[o]]
