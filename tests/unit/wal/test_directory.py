"""The segment files that make one history."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import HeadwaterError, SegmentError
from headwater.wal.layout import LONG_HEADER
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory, next_valid_page
from headwater.wal.segments.segment_files import segment_name
from unit.wal.plain_wal import MAGIC, MIB, PAGE, SYSTEM, WalWriter


def filled(segments: int, first_segment: int = 1, system: int = SYSTEM, major: int = 16) -> WalWriter:
    """Write whole segments of small records."""
    writer = WalWriter(first_segment=first_segment, system=system, major=major)
    while writer.position < (first_segment + segments) * MIB - 2000:
        writer.append(bytes([writer.position & 0xFF]) * 1500)
    return writer


SOME = filled(3)


def test_a_directory_of_one_history(tmp_path: Path) -> None:
    wal = WalDirectory.scan(SOME.save(tmp_path))
    assert [s.number for s in wal.segments] == [1, 2, 3]
    assert (MIB, SOME.system, 16, MIB, 4 * MIB) == (
        wal.segment_size,
        wal.system_identifier,
        wal.major,
        wal.start_lsn,
        wal.stop_lsn,
    )
    assert wal == pickle.loads(pickle.dumps(wal))
    assert wal.segment_at(2 * MIB) == pickle.loads(pickle.dumps(wal)).segments[1]
    assert wal.segment_at(4 * MIB) is None


@pytest.mark.parametrize("major", sorted(MAGIC))
def test_the_major_version_is_the_pages_magic(tmp_path: Path, major: int) -> None:
    writer = WalWriter(major=major)
    writer.append(b"x")
    assert major == WalDirectory.scan(writer.save(tmp_path)).major


def test_other_files_are_not_looked_at(tmp_path: Path) -> None:
    SOME.save(tmp_path)
    (tmp_path / "archive_status").mkdir()
    for name in ("000000010000000000000001.00000028.backup", "xlogtemp.12", "RECOVERYXLOG", "00000001000000000000000g"):
        (tmp_path / name).write_bytes(b"rubbish")
    assert len(WalDirectory.scan(tmp_path).segments) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("0000000100000000FFFFFFFF", "ends with FFFFFFFF, expected at most 00000FFF"),
        ("000000010000000000001000", "ends with 00001000, expected at most 00000FFF"),
        ("000000018000000000000000", "stands for 80000000/0, expected a position before 80000000/0"),
        ("00000001FFFFFFFF00000FFF", "stands for FFFFFFFF/FFF00000, expected a position before 80000000/0"),
    ],
)
def test_a_name_that_no_segment_has(tmp_path: Path, name: str, message: str) -> None:
    wal = SOME.save(tmp_path)
    (wal / name).write_bytes((wal / segment_name(1, 1, MIB)).read_bytes())
    with pytest.raises(SegmentError, match=message) as caught:
        WalDirectory.scan(wal)
    assert caught.value.file == str(wal / name)


def test_covering(tmp_path: Path) -> None:
    wal = WalDirectory.scan(SOME.save(tmp_path))
    assert wal.segments[:] == wal.covering(MIB)
    assert wal.segments[1:2] == wal.covering(2 * MIB, 3 * MIB)
    assert wal.segments[1:3] == wal.covering(2 * MIB + 100, 3 * MIB + 1)
    assert wal.segments[2:] == wal.covering(3 * MIB, 99 * MIB)
    assert wal.covering(7 * MIB, 8 * MIB) == ()
    with pytest.raises(SegmentError, match='"000000010000000000000000" is missing'):
        wal.covering(0, 2 * MIB)


def test_a_gap_is_reported_when_read_over(tmp_path: Path) -> None:
    SOME.save(tmp_path)
    (tmp_path / SOME.name(2)).unlink()
    wal = WalDirectory.scan(tmp_path)
    assert len(wal.covering(MIB, 2 * MIB)) == 1
    assert len(wal.covering(3 * MIB)) == 1
    for lo, hi in [(MIB, 3 * MIB), (MIB, None), (2 * MIB, 2 * MIB + 8)]:
        with pytest.raises(SegmentError, match='"000000010000000000000002" is missing') as caught:
            wal.covering(lo, hi)
        assert str(tmp_path / SOME.name(2)) == caught.value.file


@pytest.mark.parametrize("size", [0, 10, PAGE, MIB - 1, MIB + PAGE])
def test_a_file_of_another_size_is_named(tmp_path: Path, size: int) -> None:
    SOME.save(tmp_path)
    path = tmp_path / SOME.name(2)
    path.write_bytes((path.read_bytes() + bytes(PAGE))[:size])
    with pytest.raises(SegmentError, match=f"wrong size, found {size} bytes") as caught:
        WalDirectory.scan(tmp_path)
    assert str(path) == caught.value.file


def test_another_clusters_segment_is_named(tmp_path: Path) -> None:
    SOME.save(tmp_path)
    filled(1, 2, system=77).save(tmp_path)
    with pytest.raises(SegmentError, match="another system identifier, found 77, expected 73") as caught:
        WalDirectory.scan(tmp_path)
    assert str(tmp_path / SOME.name(2)) == caught.value.file


def test_another_versions_segment_is_named(tmp_path: Path) -> None:
    SOME.save(tmp_path)
    filled(1, 3, major=17).save(tmp_path)
    with pytest.raises(SegmentError, match="another PostgreSQL version, found 17, expected 16"):
        WalDirectory.scan(tmp_path)


@pytest.mark.parametrize(("magic", "message"), [(0xD106, "PostgreSQL 13 is unsupported"), (0xD1FF, "magic D1FF")])
def test_an_unsupported_version_is_named(tmp_path: Path, magic: int, message: str) -> None:
    writer = WalWriter()
    writer.append(b"x")
    struct.pack_into("<H", writer.image, 0, magic)
    with pytest.raises(SegmentError, match=message):
        WalDirectory.scan(writer.save(tmp_path))


def test_a_segment_of_another_block_size_is_named(tmp_path: Path) -> None:
    writer = WalWriter()
    writer.append(b"x")
    struct.pack_into("<I", writer.image, 36, 16384)
    with pytest.raises(SegmentError, match="another WAL block size, found 16384, expected 8192"):
        WalDirectory.scan(writer.save(tmp_path))


def test_no_segment_at_all(tmp_path: Path) -> None:
    with pytest.raises(SegmentError, match="no WAL segment in directory"):
        WalDirectory.scan(tmp_path)
    with pytest.raises(SegmentError, match="could not list directory"):
        WalDirectory.scan(tmp_path / "nowhere")
    (tmp_path / SOME.name(1)).write_bytes(b"")
    with pytest.raises(SegmentError, match="empty or truncated"):
        WalDirectory.scan(tmp_path)
    (tmp_path / SOME.name(1)).write_bytes(SOME.segment_images()[2])
    with pytest.raises(SegmentError, match="no WAL segment"):
        WalDirectory.scan(tmp_path)


def test_segments_ahead_are_not_part_of_it(tmp_path: Path) -> None:
    """Recycled under a name to come, or only allocated."""
    SOME.save(tmp_path)
    (tmp_path / SOME.name(4)).write_bytes(SOME.segment_images()[1])
    (tmp_path / SOME.name(5)).write_bytes(bytes(MIB))
    assert [s.number for s in WalDirectory.scan(tmp_path).segments] == [1, 2, 3]


def test_a_partial_segment_stands_in_until_the_whole_one_is_there(tmp_path: Path) -> None:
    SOME.save(tmp_path)
    (tmp_path / SOME.name(3)).rename(tmp_path / (SOME.name(3) + ".partial"))
    assert str(tmp_path / (SOME.name(3) + ".partial")) == WalDirectory.scan(tmp_path).segments[2].path
    SOME.save(tmp_path)
    assert str(tmp_path / SOME.name(3)) == WalDirectory.scan(tmp_path).segments[2].path


def forked(directory: Path) -> tuple[WalWriter, WalWriter, int]:
    """Write timeline 1 over segments 1 to 4; timeline 2 from the middle of segment 2 on; where it began."""
    parent = filled(1)
    parent.append(b"a" * 900)
    while parent.position < 2 * MIB + 300_000:
        parent.append(b"common" * 100)
    child = WalWriter(timeline=2, prev=parent.prev, image=bytearray(parent.image), records=list(parent.records))
    child.position = parent.position
    switch = parent.position
    while child.position < 5 * MIB - 5000:
        child.append(b"child" * 100)
    while parent.position < 4 * MIB + 500_000:
        parent.append(b"parent" * 90)
    parent.save(directory)
    for number, data in child.segment_images().items():
        if number > 1:
            (directory / child.name(number)).write_bytes(data)
    (directory / "00000002.history").write_text(
        f"# comment\n\n1\t{switch >> 32:X}/{switch & 0xFFFFFFFF:X}\tno reason\n"
    )
    return parent, child, switch


def test_the_childs_segments_are_preferred(tmp_path: Path) -> None:
    _, child, _ = forked(tmp_path)
    wal = WalDirectory.scan(tmp_path)
    assert [(s.number, s.timeline) for s in wal.segments] == [(1, 1), (2, 2), (3, 2), (4, 2)]
    assert wal.end_lsn is None
    assert [row[0] for row in child.records] == read_frames(wal, MIB).lsns.tolist()


def test_the_parent_is_read_when_asked_for(tmp_path: Path) -> None:
    parent, _, _ = forked(tmp_path)
    wal = WalDirectory.scan(tmp_path, timeline=1)
    assert {1} == {s.timeline for s in wal.segments}
    assert [row[0] for row in parent.records] == read_frames(wal, MIB).lsns.tolist()


def test_the_parents_tail_is_not_read_past_the_switch(tmp_path: Path) -> None:
    """The child's history file is there, its segments are still to come."""
    parent, child, switch = forked(tmp_path)
    for number in (2, 3, 4):
        (tmp_path / child.name(number)).unlink()
    wal = WalDirectory.scan(tmp_path)
    frames = read_frames(wal, MIB)
    assert switch == wal.end_lsn == wal.stop_lsn
    assert [row[0] for row in parent.records if row[0] < switch] == frames.lsns.tolist()
    assert frames.end is not None
    assert switch == frames.end.lsn


def test_a_parents_segment_does_not_hide_that_the_childs_is_missing(tmp_path: Path) -> None:
    _, child, _ = forked(tmp_path)
    (tmp_path / child.name(2)).unlink()
    wal = WalDirectory.scan(tmp_path)
    with pytest.raises(SegmentError, match='"000000020000000000000002" is missing'):
        read_frames(wal, MIB)


def test_without_its_history_a_child_has_no_parent(tmp_path: Path) -> None:
    _, _, _ = forked(tmp_path)
    (tmp_path / "00000002.history").unlink()
    wal = WalDirectory.scan(tmp_path)
    assert [s.number for s in wal.segments] == [2, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"), [("1 nonsense", "syntax error"), ("2\t0/100\tx", "not below 2"), ("1\t0/\t", "syntax error")]
)
def test_a_bad_history_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    forked(tmp_path)
    (tmp_path / "00000002.history").write_text(text)
    with pytest.raises(SegmentError, match=message) as caught:
        WalDirectory.scan(tmp_path)
    assert str(tmp_path / "00000002.history") == caught.value.file


@given(st.binary(max_size=80))
def test_any_history_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    directory = tmp_path_factory.mktemp("history")
    os.link(_shared_segment(tmp_path_factory), directory / "000000020000000000000001")
    (directory / "00000002.history").write_bytes(text)
    try:
        WalDirectory.scan(directory)
    except HeadwaterError as error:
        assert isinstance(error, SegmentError)  # noqa: PT017


def _shared_segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.getbasetemp() / "shared-segment"
    if not path.exists():
        path.write_bytes(SOME.segment_images()[1])
    return path


@pytest.mark.parametrize(
    ("size", "number", "name"),
    [
        (16 * MIB, 1, "000000030000000000000001"),
        (16 * MIB, 256, "000000030000000100000000"),
        (1 << 30, 7, "000000030000000100000003"),
        (MIB, 4097, "000000030000000100000001"),
    ],
)
def test_names_of_segments(size: int, number: int, name: str) -> None:
    assert name == segment_name(3, number, size)


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (["pg_wal"], "it is a data directory"),
        (["0000000100000000"], "no WAL segment in directory"),
        (["15-1", "16-2"], "several archives; name one of them: 15-1, 16-2"),
        (["archive", "backup"], "a repository of pgBackRest"),
    ],
)
def test_a_directory_of_directories(tmp_path: Path, inside: list[str], message: str) -> None:
    for name in inside:
        (tmp_path / name).mkdir()
    with pytest.raises(SegmentError) as caught:
        WalDirectory.scan(tmp_path)
    assert message in caught.value.message + f"; {caught.value.hint}"


def test_a_missing_segment_has_the_timeline_that_the_history_was_on(tmp_path: Path) -> None:
    parent, child, _ = forked(tmp_path)
    for name in (parent.name(1), child.name(2), child.name(3)):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        with pytest.raises(SegmentError, match=f'"{name}" is missing'):
            WalDirectory.scan(tmp_path).covering(MIB)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SegmentError, match='"000000010000000000000000" is missing'):
        WalDirectory.scan(tmp_path).covering(0)


def test_without_its_history_a_timeline_has_nothing_before_it(tmp_path: Path) -> None:
    forked(tmp_path)
    (tmp_path / "00000002.history").unlink()
    with pytest.raises(SegmentError, match="or that of an older timeline is missing") as caught:
        WalDirectory.scan(tmp_path).covering(MIB)
    assert "00000002.history, which says what came before timeline 2" in str(caught.value.hint)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_segment_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    SOME.save(tmp_path)
    (tmp_path / SOME.name(2)).chmod(0)
    with pytest.raises(SegmentError, match="Permission denied") as caught:
        WalDirectory.scan(tmp_path)
    assert str(tmp_path / SOME.name(2)) == caught.value.file


LONG = filled(1)


@given(valid=st.sets(st.integers(0, 127)), first=st.integers(0, 128), last=st.integers(0, 128), cut=st.integers(0, MIB))
def test_the_next_valid_page(
    tmp_path_factory: pytest.TempPathFactory, valid: set[int], first: int, last: int, cut: int
) -> None:
    """Pages that are not valid have headers of another place; the file may be cut anywhere behind its first page."""
    path = LONG.save(tmp_path_factory.mktemp("pages"))
    wal = WalDirectory.scan(path)
    (file,) = path.iterdir()
    data = bytearray(file.read_bytes())
    for page in set(range(128)) - valid:
        data[page * PAGE + 8 : page * PAGE + 16] = bytes(8)
    size = max(cut, PAGE)
    file.write_bytes(data[:size])
    wanted = [page for page in range(first, last) if page in valid and page * PAGE + LONG_HEADER <= size]
    expected = MIB + wanted[0] * PAGE if wanted else None
    assert next_valid_page(wal, wal.segments[0], first, last) == expected
