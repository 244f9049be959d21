"""Ranges cut into stretches: whole, in order, at multiples of the stretch's size; and no record lost at a cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.wal.records import stretches as module
from headwater.wal.records.stretches import STRETCH_BYTES, read_stretches, stretches
from headwater.wal.segments.directory import WalDirectory
from unit.wal.plain_wal import MIB, PAGE, WalWriter

LSNS = st.integers(1, 10 * STRETCH_BYTES)
SIZES = st.one_of(st.integers(0, 300), st.sampled_from([PAGE - 80, PAGE - 64, PAGE, 3 * PAGE, 40_000]))
STEPS = st.lists(st.one_of(SIZES, st.sampled_from(["switch", "cut"])), max_size=40)


@given(LSNS, LSNS)
def test_stretches_cover_the_range(an_lsn: int, another_lsn: int) -> None:
    lo, hi = sorted([an_lsn, another_lsn])
    pieces = list(stretches(lo, hi))
    assert (pieces[0][0], pieces[-1][1]) == (lo, hi)
    assert all(before[1] == after[0] and before[1] % STRETCH_BYTES == 0 for before, after in pairwise(pieces))
    assert all(high - low <= STRETCH_BYTES for low, high in pieces)


@settings(max_examples=60)
@given(steps=STEPS, pages=st.integers(1, 4), beyond=st.integers(0, MIB))
def test_every_record_is_in_one_stretch(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str], pages: int, beyond: int
) -> None:
    """Records over several stretches, cut records, and ends of the log at a cut included."""
    writer = WalWriter()
    for step in [*steps, 8]:
        if step == "switch":
            writer.switch()
        elif step == "cut":
            writer.cut(bytes(2 * PAGE), 1)
        else:
            writer.append(bytes(int(step)))
    directory = WalDirectory.scan(writer.save(tmp_path_factory.mktemp("wal")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STRETCH_BYTES", pages * PAGE)
        pieces = list(read_stretches(directory, writer.start, directory.stop_lsn + beyond))
    records = [(lo <= lsn < hi, lsn) for lo, hi, frames in pieces for lsn in frames.lsns.tolist()]
    assert records == [(True, lsn) for lsn, _, _ in writer.records]
    assert [frames.end is None for _, _, frames in pieces[:-1]] == [True] * (len(pieces) - 1)
