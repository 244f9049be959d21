"""Damaged and torn WAL: an error or the end of the log, never a record too many, never a hole."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import HeadwaterError, PageError, RecordError, SegmentError
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.segments.directory import WalDirectory
from unit.wal.plain_wal import MIB, PAGE, PlainReader, WalWriter, make_record

Rows = list[tuple[int, int, bytes]]


def rows_of(frames: Frames) -> Rows:
    return [(int(frames.lsns[i]), int(frames.end_lsns[i]), frames.record(i)) for i in range(len(frames.positions))]


def read_all(directory: Path) -> Frames:
    wal = WalDirectory.scan(directory)
    return read_frames(wal, wal.start_lsn)


def mixed_wal(first_segment: int = 3) -> WalWriter:
    """Write two segments: small records, a record over four pages, a cut record, a switch, a last page half full."""
    writer = WalWriter(first_segment=first_segment)
    for number in range(150):
        writer.append(bytes([number]) * (number * 5 % 400), xid=number)
    writer.append(bytes(range(256)) * 100)
    writer.cut(b"c" * 3 * PAGE, 2)
    writer.append(b"after the cut" * 30)
    writer.switch()
    for number in range(90):
        writer.append(bytes([number]) * (number * 7 % 300), xid=number)
    return writer


MIXED = mixed_wal()
USED = len(MIXED.image) - MIB + PAGE


def interesting_offsets() -> st.SearchStrategy[int]:
    """Draw offsets into the image, mostly where something is written: headers of pages and records, the last page."""
    pages = range(0, len(MIXED.image), PAGE)
    headers = [page + i for page in pages if any(MIXED.image[page : page + 16]) for i in range(40)]
    records = [lsn - MIXED.start + i for lsn, _, _ in MIXED.records for i in range(24)]
    last = len(MIXED.image) - PAGE
    return st.one_of(
        st.sampled_from(headers),
        st.sampled_from(records),
        st.integers(last, len(MIXED.image) - 1),
        st.integers(0, len(MIXED.image) - 1),
    )


@settings(max_examples=400)
@given(offset=interesting_offsets(), mask=st.integers(1, 255))
def test_a_flipped_byte_is_an_error_or_lies_in_nothing(
    tmp_path_factory: pytest.TempPathFactory, offset: int, mask: int
) -> None:
    """Only the very last record may be taken for a torn write; every other one is read whole or not silently."""
    directory = MIXED.save(tmp_path_factory.mktemp("flip"))
    path = directory / MIXED.name(MIXED.first_segment + offset // MIB)
    data = bytearray(path.read_bytes())
    data[offset % MIB] ^= mask
    path.write_bytes(data)
    try:
        rows = rows_of(read_all(directory))
    except HeadwaterError:
        return
    assert rows == MIXED.records[: len(rows)]
    assert len(rows) >= len(MIXED.records) - 1


def flipped(tmp_path: Path, lsn: int, mask: int = 0x40) -> Path:
    """Write the mixed WAL with one byte changed."""
    directory = MIXED.save(tmp_path)
    path = directory / MIXED.name(lsn // MIB)
    data = bytearray(path.read_bytes())
    data[lsn % MIB] ^= mask
    path.write_bytes(data)
    return directory


@pytest.mark.parametrize("index", [0, 70, -2], ids=["first", "middle", "last but one"])
@pytest.mark.parametrize(
    ("field", "mask", "message"),
    [
        (0, 0x40, "length|checksum|contrecord"),
        (3, 0x40, "contrecord|invalid record length: found 10737"),
        (4, 0x01, "checksum"),
        (9, 0x10, "prev-link"),
        (16, 0x10, "checksum"),
        (17, 0x20, "resource manager ID|checksum"),
        (18, 0x01, "checksum"),
        (20, 0x80, "checksum"),
        (25, 0x01, "checksum"),
    ],
    ids=["length", "length, high byte", "xid", "prev", "info", "rmid", "padding", "crc", "body"],
)
def test_a_flip_in_a_record_is_named(tmp_path: Path, index: int, field: int, mask: int, message: str) -> None:
    with_body = [lsn for lsn, _, data in MIXED.records if len(data) > 32]
    lsn = with_body[index]
    with pytest.raises(RecordError, match=message) as caught:
        read_all(flipped(tmp_path, lsn + field, mask))
    assert lsn == caught.value.lsn
    assert MIXED.name(lsn // MIB) == Path(caught.value.file or "").name
    assert "but WAL goes on at" in caught.value.message


@pytest.mark.parametrize(
    ("field", "mask"),
    [(0, 0x01), (2, 0x40), (4, 0x02), (8, 0x01), (10, 0x01)],
    ids=["magic", "info", "tli", "at", "at"],
)
@pytest.mark.parametrize("page", [1, 3, -1], ids=["second", "fourth", "last"])
def test_a_flip_in_a_page_header_is_named(tmp_path: Path, page: int, field: int, mask: int) -> None:
    pages = [lsn for lsn in range(MIXED.start, MIXED.position, PAGE) if any(image_at(lsn, 16)) and lsn % MIB]
    with pytest.raises(PageError, match="page at") as caught:
        read_all(flipped(tmp_path, pages[page] + field, mask))
    assert pages[page] == caught.value.lsn


def image_at(lsn: int, size: int) -> bytes:
    return bytes(MIXED.image[lsn - MIXED.start : lsn - MIXED.start + size])


def test_a_flipped_continuation_length_is_an_error(tmp_path: Path) -> None:
    page = next(lsn for lsn in range(MIXED.start + PAGE, MIXED.position, PAGE) if image_at(lsn, 4)[2] & 1)
    with pytest.raises(RecordError, match="invalid contrecord length"):
        read_all(flipped(tmp_path, page + 16, 0x04))
    with pytest.raises(RecordError, match="no contrecord flag"):
        read_all(flipped(tmp_path, page + 2, 0x01))


def test_a_flip_in_the_only_page_of_the_last_record(tmp_path: Path) -> None:
    """The page's header is bad, the record that ends on it is whole."""
    writer = WalWriter()
    writer.append(b"x")
    writer.append(bytes(range(250)) * 40)
    directory = writer.save(tmp_path)
    path = directory / writer.name(1)
    data = bytearray(path.read_bytes())
    data[PAGE + 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(PageError, match="invalid magic number"):
        read_all(directory)


def test_a_record_that_ends_in_zeros_on_a_page_still_to_come(tmp_path: Path) -> None:
    """Its checksum holds over the zero page, yet nothing was written there."""
    writer = WalWriter()
    writer.append(bytes(PAGE - 40 - 24 - 64))
    lsn = writer.append(b"x" * 32 + bytes(40))
    assert writer.position - writer.start > PAGE
    writer.image[PAGE:] = b""
    frames = read_all(writer.save(tmp_path))
    assert frames.end is not None
    assert lsn == frames.end.lsn


def test_a_zeroed_stretch_in_the_middle_is_an_error(tmp_path: Path) -> None:
    for start, end in [(PAGE, 2 * PAGE), (PAGE + 512, PAGE + 1024), (0, 512)]:
        directory = MIXED.save(tmp_path / f"{start}")
        path = directory / MIXED.name(3)
        data = bytearray(path.read_bytes())
        data[start:end] = bytes(end - start)
        path.write_bytes(data)
        with pytest.raises(HeadwaterError):
            read_all(directory)


def old_segment(number: int) -> bytes:
    """Make a segment full of records of earlier WAL, as a recycled file has them."""
    writer = WalWriter(first_segment=number)
    while writer.position < (number + 1) * MIB:
        writer.append(b"old" * (len(writer.records) % 200))
    return writer.segment_images()[number]


OLD = old_segment(2)


@settings(max_examples=150)
@given(
    written=st.one_of(st.just(0), st.integers(40, USED), st.integers(MIB - 3 * PAGE, MIB)),
    segment=st.sampled_from([0, 1]),
    recycled=st.booleans(),
)
def test_a_torn_tail_is_the_end(
    tmp_path_factory: pytest.TempPathFactory, written: int, segment: int, recycled: bool
) -> None:
    """The WAL was written up to any byte, into a fresh or a recycled file; files ahead are recycled too."""
    directory = tmp_path_factory.mktemp("torn")
    images = list(MIXED.segment_images().values())
    images[segment] = images[segment][:written] + (OLD if recycled else bytes(MIB))[written:]
    images[segment + 1 :] = [OLD] * 2
    for number, data in enumerate(images):
        (directory / MIXED.name(MIXED.first_segment + number)).write_bytes(data)
    if segment == 0 and written == 0:
        # Not even the first header was written.
        with pytest.raises(SegmentError, match="no WAL segment"):
            read_all(directory)
        return
    frames = read_all(directory)
    plain = PlainReader(b"".join(images[: segment + 1]), MIXED.start)
    stop = plain.read(MIXED.start)
    assert plain.records == rows_of(frames)
    assert frames.end is not None
    assert stop - stop % PAGE == frames.end.lsn - frames.end.lsn % PAGE


@pytest.mark.parametrize("written", range(25))
def test_a_header_that_is_not_whole_is_the_end(tmp_path: Path, written: int) -> None:
    """Of a page that goes on with a record; the file is fresh."""
    writer = WalWriter()
    writer.append(b"first")
    long = writer.append(bytes(range(1, 251)) * 100)
    writer.image[2 * PAGE + written :] = b""
    frames = read_all(writer.save(tmp_path))
    assert frames.end is not None
    assert long == frames.end.lsn
    assert writer.records[:1] == rows_of(frames)


def test_a_place_reserved_but_empty_is_the_end(tmp_path: Path) -> None:
    """On the last page another backend may have copied its record after one that is still to come."""
    writer = WalWriter()
    writer.append(b"first")
    reserved = writer.append(bytes(100))
    writer.append(b"ready before it")
    at = reserved - writer.start
    writer.image[at : at + 128] = bytes(128)
    frames = read_all(writer.save(tmp_path))
    assert frames.end is not None
    assert reserved == frames.end.lsn
    assert writer.records[:1] == rows_of(frames)


def test_a_tail_that_is_still_being_written_gets_another_look(tmp_path: Path) -> None:
    """The tail looked damaged, because later pages came in between; read again it is sound."""
    writer = WalWriter()
    for number in range(40):
        writer.append(bytes([number]) * 500)
    directory = writer.save(tmp_path)
    path = directory / writer.name(1)
    whole = path.read_bytes()
    lsn = writer.records[20][0]
    torn = bytearray(whole)
    torn[lsn % MIB : lsn % MIB + 24] = make_record(10, 0, 1, 0, b"")
    path.write_bytes(torn)
    wal = WalDirectory.scan(directory)

    from headwater.wal.records import frames as module

    look = module._Reader.read

    def look_then_write(self: module._Reader) -> object:
        result = look(self)
        path.write_bytes(whole)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Reader, "read", look_then_write)
        assert writer.records == rows_of(read_frames(wal, wal.start_lsn))


def test_a_missing_segment_in_the_middle_is_named(tmp_path: Path) -> None:
    directory = mixed_wal().save(tmp_path)
    writer = WalWriter(first_segment=6)
    writer.append(b"much later")
    writer.save(directory)
    wal = WalDirectory.scan(directory)
    with pytest.raises(SegmentError, match='"000000010000000000000005" is missing'):
        read_frames(wal, wal.start_lsn)
    assert len(read_frames(wal, wal.start_lsn, 4 * MIB).lsns) > 100


def test_a_record_that_runs_into_a_missing_segment_is_the_end(tmp_path: Path) -> None:
    writer = WalWriter()
    writer.append(b"x")
    lsn = writer.append(bytes(2 * MIB))
    directory = writer.save(tmp_path)
    (directory / writer.name(2)).unlink()
    (directory / writer.name(3)).unlink()
    frames = read_all(directory)
    assert frames.end is not None
    assert (lsn, "record goes on in a WAL segment that is not there") == (frames.end.lsn, frames.end.reason)


def test_a_flipped_length_in_the_last_record_but_one_of_a_full_segment(tmp_path: Path) -> None:
    """It claims to go on in a segment that is not there, but the next record begins on the same page."""
    writer = WalWriter()
    while writer.position < 2 * MIB - 600:
        writer.append(bytes(500))
    lsn = writer.append(bytes(100))
    writer.append(bytes(100))
    directory = writer.save(tmp_path)
    path = directory / writer.name(1)
    data = bytearray(path.read_bytes())
    data[lsn % MIB + 2] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(RecordError, match="invalid record length: found 1048700, but WAL goes on"):
        read_all(directory)


def test_a_segment_truncated_after_the_scan_is_named(tmp_path: Path) -> None:
    directory = MIXED.save(tmp_path)
    wal = WalDirectory.scan(directory)
    path = directory / MIXED.name(3)
    path.write_bytes(path.read_bytes()[: MIB // 2 + 100])
    with pytest.raises(SegmentError, match="truncated") as caught:
        read_frames(wal, wal.start_lsn)
    assert str(path) == caught.value.file
    path.unlink()
    with pytest.raises(SegmentError, match="could not open"):
        read_frames(wal, wal.start_lsn)


def test_a_bad_first_page_of_the_last_segment_is_damage_not_recycling(tmp_path: Path) -> None:
    directory = MIXED.save(tmp_path)
    path = directory / MIXED.name(4)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 8, 2 * MIB)
    path.write_bytes(data)
    with pytest.raises(PageError, match="unexpected address"):
        read_all(directory)


@settings(max_examples=30)
@given(
    page=st.integers(0, 2 * MIB // PAGE - 1), junk=st.binary(min_size=8, max_size=64), offset=st.integers(0, PAGE - 64)
)
def test_any_page_may_be_the_first_one_asked_for(
    tmp_path_factory: pytest.TempPathFactory, page: int, junk: bytes, offset: int
) -> None:
    """Resynchronising at any page of sound or damaged WAL gives a run of its records, an end, or an error."""
    directory = MIXED.save(tmp_path_factory.mktemp("resync"))
    lo = MIXED.start + page * PAGE
    path = directory / MIXED.name(lo // MIB)
    data = bytearray(path.read_bytes())
    at = lo % MIB + offset
    data[at : at + len(junk)] = junk
    path.write_bytes(data)
    try:
        wal = WalDirectory.scan(directory)
        rows = rows_of(read_frames(wal, lo))
    except HeadwaterError:
        return
    first = next((i for i, row in enumerate(MIXED.records) if rows and row[0] == rows[0][0]), 0)
    assert MIXED.records[first : first + len(rows)] == rows
