"""Ranges cut into stretches: whole, in order, at multiples of the stretch's size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.wal.stretches import STRETCH_BYTES, stretches

LSNS = st.integers(1, 10 * STRETCH_BYTES)


@given(LSNS, LSNS)
def test_stretches_cover_the_range(one, other) -> None:
    lo, hi = sorted([one, other])
    found = list(stretches(lo, hi))
    assert (found[0][0], found[-1][1]) == (lo, hi)
    assert all(before[1] == after[0] and before[1] % STRETCH_BYTES == 0 for before, after in pairwise(found))
    assert all(high - low <= STRETCH_BYTES for low, high in found)
