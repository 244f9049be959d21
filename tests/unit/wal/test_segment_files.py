"""Segments as runs, against the list of them."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from headwater.wal.segment_files import PARTIAL, Segment, SegmentFiles, segment_name

SIZE = 16 << 20


def made(timeline: int, number: int, is_partial: bool) -> Segment:
    path = f"/wal/{segment_name(timeline, number, SIZE)}{PARTIAL * is_partial}"
    return Segment(path, timeline, number, number * SIZE)


histories = st.dictionaries(
    st.integers(0, 40), st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from([False, False, True])), min_size=1
).map(lambda found: [made(timeline, number, partial) for number, (timeline, partial) in sorted(found.items())])


@given(histories)
def test_runs_are_the_list(segments: list[Segment]) -> None:
    files = SegmentFiles.of("/wal", SIZE, segments)
    assert list(files) == segments == list(files[:])
    assert segments[-1] == files[-1]
    assert tuple(segments[1:3]) == files[1:3]
    for number in range(-1, 42):
        assert next((s for s in segments if s.number == number), None) == files.numbered(number)
        assert next((s for s in segments if s.number > number), None) == files.following(number)


def test_many_segments_are_a_small_value() -> None:
    files = SegmentFiles.of("/wal", SIZE, [made(1 + (number > 50_000), number, False) for number in range(100_000)])
    assert len(files) == 100_000
    assert len(pickle.dumps(files)) < 500
