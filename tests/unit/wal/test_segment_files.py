"""Segments as runs, against the list of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from headwater.wal.segments.place import Place
from headwater.wal.segments.segment_files import Segment, SegmentFiles, SegmentRun, segment_name
from headwater.wal.segments.segment_forms import SegmentForm

SIZE = 16 << 20


PLACES = (Place("/wal"), Place("s3://bucket/wal", "s3"))
FORMS = {
    SegmentForm(): "/wal/{name}",
    SegmentForm(ending=".partial"): "/wal/{name}.partial",
    SegmentForm(ending=".gz.partial", method="gzip"): "/wal/{name}.gz.partial",
    SegmentForm(1, True, "-*.zst", "zstd"): "s3://bucket/wal/{folder}/{name}-*.zst",
}


def made(timeline: int, number: int, form: SegmentForm) -> Segment:
    name = segment_name(timeline, number, SIZE)
    path = FORMS[form].format(name=name, folder=name[:16])
    return Segment(path, timeline, number, number * SIZE, form, PLACES)


def single_runs(segments: Iterable[Segment]) -> list[SegmentRun]:
    return [SegmentRun(segment.timeline, segment.number, 1, segment.form) for segment in segments]


histories = st.dictionaries(
    st.integers(0, 400), st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from(list(FORMS))), min_size=1
).map(lambda forms: [made(timeline, number, form) for number, (timeline, form) in sorted(forms.items())])


@given(histories)
def test_runs_are_the_list(segments: list[Segment]) -> None:
    files = SegmentFiles.of(PLACES, SIZE, single_runs(segments))
    assert list(files) == segments == list(files[:])
    assert segments[-1] == files[-1]
    assert tuple(segments[1:3]) == files[1:3]
    for number in range(-1, 402):
        assert next((s for s in segments if s.number == number), None) == files.numbered(number)
        assert next((s for s in segments if s.number > number), None) == files.following(number)


def test_many_segments_are_a_small_value() -> None:
    files = SegmentFiles.of(
        PLACES, SIZE, (SegmentRun(1 + (number > 50_000), number, 1, SegmentForm()) for number in range(100_000))
    )
    assert len(files) == 100_000
    assert len(pickle.dumps(files)) < 700
