"""Archives in other forms than the server's own: the same records come out, and what is wrong is named."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from headwater.errors import SegmentError, TruncatedSegmentError, WalError
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.records.growing_directory import GrowingDirectory, end_of_log
from headwater.wal.segments import unpacking
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource
from sources.archives import ARCHIVES, PACKERS
from unit.wal.plain_wal import MIB, WalWriter


def filled(segments: int, timeline: int = 1) -> WalWriter:
    """Write segments of small records, the last one half full, with content that does not compress to nothing."""
    writer = WalWriter(timeline=timeline)
    while writer.position < (segments + 0.5) * MIB:
        writer.append(hashlib.sha256(writer.position.to_bytes(8)).digest() * 40)
    return writer


@cache
def four() -> WalWriter:
    """Write four segments, once a process."""
    return filled(4)


def lsns() -> list[int]:
    """List where the records of four segments begin."""
    return [lsn for lsn, _, _ in four().records]


HISTORY = "00000002.history"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return four().save(tmp_path_factory.mktemp("plain"))


def read(path: Path | WalSource) -> Frames:
    wal = WalDirectory.scan(path)
    return read_frames(wal, wal.start_lsn)


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_same_records_come_out(plain: Path, tmp_path: Path, name: str) -> None:
    wal = WalDirectory.scan(ARCHIVES[name](plain, tmp_path))
    assert [segment.number for segment in wal.segments] == [1, 2, 3, 4]
    assert len(wal.segments.runs) <= 2
    assert read_frames(wal, MIB).lsns.tolist() == lsns()
    assert read_frames(wal, 3 * MIB, 3 * MIB + 9000).lsns.tolist() == [
        lsn for lsn in lsns() if 3 * MIB <= lsn < 3 * MIB + 9000
    ]


@pytest.mark.parametrize("name", ["simple.gz", "pgBackRest.zst", "WAL-G.lz4", "barman.gz"])
def test_a_history_is_read_in_all_forms(tmp_path: Path, name: str) -> None:
    parent = filled(2)
    child = WalWriter(timeline=2, prev=parent.prev, image=bytearray(parent.image), records=list(parent.records))
    child.position = parent.position
    child.append(b"child" * 100)
    wal = parent.save(tmp_path / "wal")
    (wal / child.name(2)).write_bytes(child.segment_images()[2])
    (wal / HISTORY).write_text(f"1\t0/{parent.position:X}\tno reason\n")
    scanned = WalDirectory.scan(ARCHIVES[name](wal, tmp_path / "archive"))
    assert scanned.lineage == ((1, parent.position), (2, None))
    assert read_frames(scanned, MIB).lsns.tolist() == [lsn for lsn, _, _ in child.records]


def one_packed(plain: Path, archive: Path, number: int, suffix: str) -> Path:
    """Make a copy of the plain directory in which one segment is packed; its file."""
    shutil.copytree(plain, archive, dirs_exist_ok=True)
    path = archive / four().name(number)
    packed = path.with_name(path.name + suffix)
    packed.write_bytes(PACKERS[suffix](path.read_bytes()))
    path.unlink()
    return packed


def test_plain_and_packed_segments_side_by_side(plain: Path, tmp_path: Path) -> None:
    one_packed(plain, tmp_path, 2, ".zst")
    assert read(tmp_path).lsns.tolist() == lsns()


def test_of_two_copies_the_plain_one_is_read_if_it_is_whole(plain: Path, tmp_path: Path) -> None:
    """``gzip`` removes the plain file when it is done, ``gunzip`` the packed one."""
    packed = one_packed(plain, tmp_path, 2, ".gz")
    whole = packed.read_bytes()
    shutil.copy(plain / four().name(2), tmp_path)
    packed.write_bytes(whole[:1000])
    assert read(tmp_path).lsns.tolist() == lsns()
    packed.write_bytes(whole)
    os.truncate(tmp_path / four().name(2), 5000)
    assert read(tmp_path).lsns.tolist() == lsns()


def test_the_first_place_that_has_a_segment_is_read(plain: Path, tmp_path: Path) -> None:
    archive = ARCHIVES["pgBackRest.gz"](plain, tmp_path / "archive")
    own = tmp_path / "pg_wal"
    own.mkdir()
    for number in (3, 4):
        shutil.copy(plain / four().name(number), own)
    for path in archive.glob(f"*/{four().name(4)}*"):
        path.unlink()
    wal = WalDirectory.scan(WalSource.of(archive, own))
    assert [Path(segment.path).is_relative_to(own) for segment in wal.segments] == [False, False, False, True]
    assert read_frames(wal, MIB).lsns.tolist() == lsns()
    wal = WalDirectory.scan(WalSource.of(own, archive))
    assert [Path(segment.path).is_relative_to(own) for segment in wal.segments] == [False, False, True, True]
    assert read_frames(wal, MIB).lsns.tolist() == lsns()


def test_a_partial_segment_gives_way_to_a_whole_one_of_any_place(plain: Path, tmp_path: Path) -> None:
    partial = tmp_path / "partial"
    partial.mkdir()
    (partial / f"{four().name(3)}.partial").write_bytes((plain / four().name(3)).read_bytes()[:8192].ljust(MIB, b"\0"))
    assert read(WalSource.of(partial, plain)).lsns.tolist() == lsns()


def test_a_file_that_changes_its_name_is_found_again(plain: Path, tmp_path: Path) -> None:
    """Between the listing and the reading: compressed, received to its end, archived."""
    own, archive = tmp_path / "own", tmp_path / "archive"
    archive.mkdir()
    shutil.copytree(plain, own)
    (own / four().name(4)).rename(own / f"{four().name(4)}.partial")
    wal = WalDirectory.scan(WalSource.of(own, archive))
    (own / f"{four().name(1)}.gz").write_bytes(gzip.compress((own / four().name(1)).read_bytes(), 1))
    (own / four().name(1)).unlink()
    data = (own / four().name(2)).read_bytes()
    (archive / four().name(2)[:16]).mkdir()
    (archive / four().name(2)[:16] / f"{four().name(2)}-{hashlib.sha1(data).hexdigest()}").write_bytes(data)
    (own / four().name(2)).rename(own / four().name(9))
    (own / f"{four().name(4)}.partial").rename(own / four().name(4))
    assert read_frames(wal, MIB).lsns.tolist() == lsns()
    (own / four().name(3)).unlink()
    with pytest.raises(SegmentError, match="No such file") as caught:
        read_frames(wal, MIB)
    assert caught.value.file == str(own / four().name(3))
    assert "wal_keep_size" in str(caught.value.hint)


# -- what is wrong


@pytest.mark.parametrize("suffix", [".gz", ".lz4", ".zst", ".bz2", ".xz", ".lzma", ".br"])
@pytest.mark.parametrize("number", [2, 4])
def test_a_truncated_file_is_no_end_of_the_log(plain: Path, tmp_path: Path, suffix: str, number: int) -> None:
    packed = one_packed(plain, tmp_path, number, suffix)
    whole = packed.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 8, 0):
        packed.write_bytes(whole[:size])
        with pytest.raises(SegmentError, match=r"truncated|wrong size|unpacked") as caught:
            read(tmp_path)
        assert caught.value.file == str(packed)


@pytest.mark.parametrize("suffix", [".gz", ".lz4", ".zst", ".bz2", ".xz"])
def test_a_damaged_file_is_named(plain: Path, tmp_path: Path, suffix: str) -> None:
    packed = one_packed(plain, tmp_path, 2, suffix)
    whole = bytearray(packed.read_bytes())
    for at in (len(whole) // 3, len(whole) - 5):
        damaged = bytearray(whole)
        damaged[at] ^= 0x5A
        packed.write_bytes(damaged)
        with pytest.raises(SegmentError, match=r"unpacked|truncated") as caught:
            read(tmp_path)
        assert caught.value.file == str(packed)


def test_damage_inside_what_is_packed_is_damage(plain: Path, tmp_path: Path) -> None:
    packed = one_packed(plain, tmp_path, 2, ".gz")
    data = bytearray(gzip.decompress(packed.read_bytes()))
    data[500_000] ^= 1
    packed.write_bytes(gzip.compress(bytes(data)))
    with pytest.raises(WalError, match="WAL goes on at") as caught:
        read(tmp_path)
    assert caught.value.file == str(packed)


def test_a_segment_of_another_size_in_a_packed_file(plain: Path, tmp_path: Path) -> None:
    packed = one_packed(plain, tmp_path, 2, ".gz")
    data = gzip.decompress(packed.read_bytes())
    for wrong in (data[:-8192], data + bytes(10)):
        packed.write_bytes(gzip.compress(wrong))
        with pytest.raises(SegmentError, match=f"wrong size, found .* when unpacked, expected {MIB}"):
            read(tmp_path)


def test_the_sha1_of_a_name_is_verified(plain: Path, tmp_path: Path) -> None:
    archive = ARCHIVES["pgBackRest.lz4"](plain, tmp_path)
    path = next(archive.glob(f"*/{four().name(2)}-*"))
    wrong = path.with_name(f"{four().name(2)}-{'0' * 40}.lz4")
    path.rename(wrong)
    with pytest.raises(SegmentError, match=r"another SHA-1 than its name says.*expected 0000") as caught:
        read(archive)
    assert caught.value.file == str(wrong)


@pytest.mark.parametrize(("suffix", "method"), [(".lzo", "lzo"), (".zip", "zip"), (".snappy", "snappy")])
def test_methods_that_are_not_read_are_named(plain: Path, tmp_path: Path, suffix: str, method: str) -> None:
    shutil.copytree(plain, tmp_path, dirs_exist_ok=True)
    packed = tmp_path / f"{four().name(3)}{suffix}"
    (tmp_path / four().name(3)).rename(packed)
    wal = WalDirectory.scan(tmp_path)
    assert len(wal.covering(MIB, 3 * MIB)) == 2
    for attempt in (lambda: wal.covering(MIB), lambda: read_frames(wal, MIB)):
        with pytest.raises(SegmentError, match=f"compressed with {method}, which is not supported") as caught:
            attempt()
        assert caught.value.file == str(packed)
        assert caught.value.hint


def test_only_methods_that_are_not_read(tmp_path: Path) -> None:
    (tmp_path / f"{four().name(3)}.lzo").write_bytes(b"\x89LZO\0")
    with pytest.raises(SegmentError, match="compressed with lzo, which is not supported"):
        WalDirectory.scan(tmp_path)


@pytest.mark.parametrize("name", ["pgBackRest", "pgBackRest.gz", "WAL-G.lz4"])
@pytest.mark.parametrize(("start", "message"), [(b"Salted__", "OpenSSL"), (b"\x85\x01\x0c\x03", "PGP")])
def test_an_encrypted_archive_is_named(plain: Path, tmp_path: Path, name: str, start: bytes, message: str) -> None:
    archive = ARCHIVES[name](plain, tmp_path)
    for path in archive.rglob("0*"):
        if path.is_file():
            path.write_bytes(start + os.urandom(200_000))
    with pytest.raises(SegmentError, match=rf"encrypted \({message}") as caught:
        WalDirectory.scan(archive)
    assert "with the archive's own tool" in str(caught.value.hint)


def test_a_file_that_is_not_what_its_name_says(plain: Path, tmp_path: Path) -> None:
    packed = one_packed(plain, tmp_path, 2, ".gz")
    packed.write_bytes(PACKERS[".zst"](b"x" * MIB))
    with pytest.raises(SegmentError, match="not compressed with gzip, as its name says: found bytes 28 b5 2f fd"):
        read(tmp_path)


def test_another_clusters_segment_at_the_end_of_a_run_is_named(plain: Path, tmp_path: Path) -> None:
    packed = one_packed(plain, tmp_path, 2, ".gz")
    other = WalWriter(first_segment=2, system=77)
    other.append(b"x")
    packed.write_bytes(gzip.compress(other.segment_images()[2]))
    with pytest.raises(SegmentError, match="another system identifier, found 77") as caught:
        WalDirectory.scan(tmp_path)
    assert caught.value.file == str(packed)


# -- while it grows, and what it takes


@pytest.mark.parametrize("suffix", [".gz", ".lz4", ".zst"])
def test_a_packed_segment_that_is_on_its_way_is_not_there_yet(plain: Path, tmp_path: Path, suffix: str) -> None:
    packed = one_packed(plain, tmp_path, 4, suffix)
    whole = packed.read_bytes()
    growing = GrowingDirectory(str(tmp_path))
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        packed.write_bytes(whole[:size])
        assert [segment.number for segment in growing.look(None).segments] == [1, 2, 3]
    packed.write_bytes(whole)
    looked = growing.look(None)
    assert [segment.number for segment in looked.segments] == [1, 2, 3, 4]
    assert end_of_log(looked) == four().position
    one_packed(plain, tmp_path, 2, suffix).write_bytes(whole[:100])
    with pytest.raises(TruncatedSegmentError):
        read_frames(growing.look(None), MIB)


@pytest.mark.parametrize("suffix", [".gz", ".lz4", ".zst", ".bz2"])
def test_a_partial_segment_is_read_to_its_last_byte(plain: Path, tmp_path: Path, suffix: str) -> None:
    """Cut off anywhere: the records that are whole in what is left come out, more with more bytes."""
    packed = one_packed(plain, tmp_path, 4, suffix)
    whole = packed.read_bytes()
    packed.unlink()
    partial = packed.with_name(packed.name + ".partial")
    counts = []
    for size in (0, len(whole) // 5, len(whole) // 2, len(whole) - 1):
        partial.write_bytes(whole[:size])
        read_lsns = read(tmp_path).lsns.tolist()
        assert read_lsns == lsns()[: len(read_lsns)]
        counts.append(len(read_lsns))
    assert sorted(counts) == counts
    assert counts[-1] == len(lsns())


def test_a_header_costs_a_piece_of_the_segment(tmp_path: Path) -> None:
    """A window in a large segment is unpacked up to its own end."""
    writer = WalWriter(segment_size=16 * MIB)
    while writer.position < writer.start + 3 * MIB:
        writer.append(os.urandom(3000))
    (tmp_path / f"{writer.name(1)}.zst").write_bytes(PACKERS[".zst"](writer.segment_images()[1]))
    wal = WalDirectory.scan(tmp_path)
    unpacking._CACHE.clear()
    read_frames(wal, writer.start, writer.start + MIB)
    held = list(unpacking._CACHE._held.values())
    assert [MIB < cached.filled < 4 * MIB for cached in held] == [True]


def test_a_process_keeps_so_much(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = ARCHIVES["simple.zst"](plain, tmp_path)
    monkeypatch.setattr(unpacking, "CACHE_BYTES", 2 * MIB)
    unpacking._CACHE.clear()
    assert read(archive).lsns.tolist() == lsns()
    held = list(unpacking._CACHE._held.values())
    assert sum(cached.filled for cached in held[:-1]) <= 2 * MIB
    before = [cached.filled for cached in held]
    assert read_frames(WalDirectory.scan(archive), 4 * MIB).lsns.tolist() == [lsn for lsn in lsns() if lsn >= 4 * MIB]
    assert before[-1] == MIB
    assert unpacking._CACHE._held.popitem()[1] is held[-1]
