"""Framing of whole, sound WAL against the plain reader, over every shape of record."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import RecordError, SegmentError, UsageError
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.segments.directory import WalDirectory
from unit.wal.plain_wal import MAGIC, MIB, PAGE, PlainReader, WalWriter, main_data

Rows = list[tuple[int, int, bytes]]


def rows_of(frames: Frames) -> Rows:
    return [(int(frames.lsns[i]), int(frames.end_lsns[i]), frames.record(i)) for i in range(len(frames.positions))]


def scan(writer: WalWriter, directory: Path) -> WalDirectory:
    return WalDirectory.scan(writer.save(directory))


def plain_rows(writer: WalWriter) -> Rows:
    reader = PlainReader(b"".join(writer.segment_images().values()), writer.start)
    reader.read(writer.start)
    return reader.records


SIZES = st.one_of(
    st.integers(0, 60),
    st.integers(0, 300),
    st.sampled_from([PAGE - 80, PAGE - 64, PAGE - 48, PAGE, 2 * PAGE, 40_000]),
)
STEPS = st.lists(st.one_of(SIZES, st.sampled_from(["switch", "cut"])), max_size=60)


def write_steps(steps: list[int | str]) -> WalWriter:
    writer = WalWriter()
    for number, step in enumerate(steps):
        if step == "switch":
            writer.switch()
        elif step == "cut":
            writer.cut(bytes([number]) * 3 * PAGE, 1 + number % 3)
        else:
            assert isinstance(step, int)
            writer.append(bytes([number]) * step, xid=number)
    return writer


@settings(max_examples=60)
@given(steps=STEPS)
def test_any_wal_as_the_plain_reader_reads_it(tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]) -> None:
    writer = write_steps([*steps, 8])
    wal = scan(writer, tmp_path_factory.mktemp("wal"))
    frames = read_frames(wal, wal.start_lsn)
    assert writer.records == rows_of(frames)
    assert plain_rows(writer) == rows_of(frames)
    assert frames.end is not None
    assert frames.end.lsn in (writer.position, writer.position + 24)
    assert rows_of(frames) == rows_of(read_frames(wal, wal.start_lsn, check=False))


@settings(max_examples=40)
@given(steps=STEPS, cuts=st.lists(st.integers(0, 60), max_size=3))
def test_ranges_join_without_loss(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str], cuts: list[int]
) -> None:
    """Ranges that meet at record starts or at segment starts give every record once."""
    writer = write_steps([*steps, 8])
    wal = scan(writer, tmp_path_factory.mktemp("wal"))
    starts = [row[0] for row in writer.records]
    edges = {wal.start_lsn, *(s.start_lsn for s in wal.segments), *(starts[c % len(starts)] for c in cuts)}
    bounds: list[int | None] = [*sorted(edges), None]
    rows: Rows = []
    for lo, hi in pairwise(bounds):
        assert lo is not None
        prev = rows[-1][0] if rows else None
        frames = read_frames(wal, lo, hi, expect_prev=prev)
        assert hi is None or frames.end is None
        rows += rows_of(frames)
    assert writer.records == rows


def test_every_distance_to_a_pages_end(tmp_path: Path) -> None:
    """A record whose header straddles a page, ends on it, or leaves 8 bytes of it."""
    for left in range(0, 80, 8):
        writer = WalWriter()
        start = writer.append(b"a")
        writer.append(bytes(start - start % PAGE + PAGE - writer.position - 24 - left))
        assert left == -writer.position % PAGE
        writer.append(b"straddles", xid=9)
        writer.append(bytes(20_000))
        wal = scan(writer, tmp_path / str(left))
        assert writer.records == rows_of(read_frames(wal, wal.start_lsn))


def test_an_end_on_a_pages_boundary_is_the_boundary(tmp_path: Path) -> None:
    writer = WalWriter()
    writer.append(bytes(PAGE - 40 - 24))
    writer.append(b"next page")
    wal = scan(writer, tmp_path)
    frames = read_frames(wal, wal.start_lsn)
    assert frames.end_lsns.tolist() == [MIB + PAGE, MIB + PAGE + 24 + 40]
    assert frames.lsns.tolist() == [MIB + 40, MIB + PAGE + 24]
    assert read_frames(wal, MIB + PAGE).lsns.tolist() == [MIB + PAGE + 24]
    assert read_frames(wal, MIB, MIB + PAGE).lsns.tolist() == [MIB + 40]


def test_a_record_larger_than_a_segment(tmp_path: Path) -> None:
    """The segment in the middle holds no start of a record; the range before it reads on over it."""
    writer = WalWriter()
    writer.append(b"first")
    writer.append(np.arange(700_000, dtype="<u4").tobytes())
    writer.append(b"last")
    wal = scan(writer, tmp_path)
    first, middle, last = (read_frames(wal, s.start_lsn, s.start_lsn + MIB) for s in wal.segments)
    assert [writer.records[:2], [], writer.records[2:]] == [rows_of(first), rows_of(middle), rows_of(last)]
    assert first.end is None
    assert middle.end is None


def test_a_range_reads_only_what_it_needs(tmp_path: Path) -> None:
    writer = WalWriter()
    while writer.position < 4 * MIB:
        writer.append(bytes(900))
    wal = scan(writer, tmp_path)
    frames = read_frames(wal, wal.segments[1].start_lsn, wal.segments[1].start_lsn + 100)
    assert len(frames.data) <= 2 * PAGE
    Path(wal.segments[2].path).unlink()
    whole = read_frames(wal, wal.segments[0].start_lsn, wal.segments[1].start_lsn)
    assert len(whole.data) <= MIB + 2 * PAGE


@pytest.mark.parametrize("major", sorted(MAGIC))
def test_the_flag_of_a_page_behind_a_cut_record(tmp_path: Path, major: int) -> None:
    writer = WalWriter(major=major)
    writer.cut(bytes(3 * PAGE), 2)
    writer.append(b"y")
    assert writer.records == rows_of(read_frames(scan(writer, tmp_path), MIB))


def test_bits_of_a_page_that_do_not_exist(tmp_path: Path) -> None:
    ends = []
    for major in (18, 19):
        writer = WalWriter(major=major)
        writer.append(bytes(PAGE))
        writer.image[PAGE + 2] |= 4 if major == 18 else 8
        ends.append(read_frames(scan(writer, tmp_path / str(major)), MIB).end)
    assert [end is not None and "invalid info bits" in end.reason for end in ends] == [False, True]


def test_the_record_after_a_cut_one_must_name_it(tmp_path: Path) -> None:
    writer = WalWriter()
    writer.append(b"x")
    cut = writer.cut(bytes(3 * PAGE), 2)
    position, image = writer.position, bytearray(writer.image)
    lsn, _, data = writer.records[-1]
    writer.append(b"y")
    assert writer.records == rows_of(read_frames(scan(writer, tmp_path / "good"), MIB))

    liar = WalWriter(image=image, prev=writer.records[0][0])
    liar.position = lsn
    liar.append(main_data(struct.pack("<QQ", cut + 8, 1)), rmid=0, info=0xD0)
    assert liar.position == position
    liar.append(b"y")
    with pytest.raises(RecordError, match="overwritten contrecord names") as caught:
        read_frames(scan(liar, tmp_path / "bad"), MIB)
    assert lsn == caught.value.lsn
    assert len(data) == 24 + 18


@pytest.mark.parametrize("rmid", [128, 200, 255])
def test_records_of_custom_resource_managers_are_records(tmp_path: Path, rmid: int) -> None:
    writer = WalWriter()
    lsns = [writer.append(b"x"), writer.append(b"y", rmid=rmid), writer.append(b"z")]
    assert read_frames(scan(writer, tmp_path), MIB).lsns.tolist() == lsns


def test_the_seam_between_ranges_is_checked(tmp_path: Path) -> None:
    writer = WalWriter()
    first, second, _ = writer.append(b"x"), writer.append(b"y"), writer.append(b"z")
    wal = scan(writer, tmp_path)
    assert len(read_frames(wal, second, expect_prev=first).lsns) == 2
    with pytest.raises(RecordError, match="incorrect prev-link"):
        read_frames(wal, second, expect_prev=first - 8)


@pytest.mark.parametrize("lo", [MIB + 4, MIB + 8, MIB + PAGE + 16, -8])
def test_no_record_can_start_there(tmp_path: Path, lo: int) -> None:
    writer = WalWriter()
    writer.append(b"x")
    with pytest.raises(UsageError, match="no record can start at"):
        read_frames(scan(writer, tmp_path), lo)


def test_a_range_before_the_first_segment_names_the_missing_file(tmp_path: Path) -> None:
    writer = WalWriter(first_segment=5)
    writer.append(b"x")
    with pytest.raises(SegmentError, match="000000010000000000000004"):
        read_frames(scan(writer, tmp_path), 4 * MIB)


def test_a_range_after_the_last_segment_is_the_end(tmp_path: Path) -> None:
    writer = WalWriter()
    writer.append(b"x")
    frames = read_frames(scan(writer, tmp_path), 2 * MIB)
    assert frames.end is not None
    assert frames.end.lsn == 2 * MIB
    assert frames.end.reason == "no WAL segment follows"
