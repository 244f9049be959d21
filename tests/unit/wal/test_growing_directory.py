"""A directory that gets WAL while it is read: what is looked at, and where the log ends at the moment."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from headwater.errors import AwaitedSegmentError, SegmentError
from headwater.wal.records.growing_directory import GrowingDirectory, end_of_log, has_record
from headwater.wal.segments.directory import WalDirectory
from unit.wal.plain_wal import MIB, WalWriter


def filled(segments: int) -> WalWriter:
    writer = WalWriter()
    while writer.position < (1 + segments) * MIB - 2000:
        writer.append(bytes([writer.position & 0xFF]) * 1500)
    return writer


@cache
def four() -> WalWriter:
    """Write four segments, once a process."""
    return filled(4)


def test_what_is_not_needed_is_not_looked_at(tmp_path: Path) -> None:
    """But for the segment that the needed one follows: the state may stand at its very end."""
    four().save(tmp_path)
    growing = GrowingDirectory(str(tmp_path))
    assert [s.number for s in growing.look(3 * MIB + 8).segments] == [1, 2, 3, 4]
    (tmp_path / four().name(1)).write_bytes(b"rubbish")
    (tmp_path / "00000002.history").write_text(f"1\t0/{5 * MIB:X}\tno reason\n")
    looked = growing.look(3 * MIB + 8)
    assert [s.number for s in looked.segments] == [3, 4]
    assert looked.lineage == ((1, 5 * MIB), (2, None))
    assert [s.number for s in growing.look(3 * MIB).segments] == [2, 3, 4]
    with pytest.raises(SegmentError, match="wrong size"):
        growing.look(None)


def test_an_archive_that_has_nothing_further_yet(tmp_path: Path) -> None:
    four().save(tmp_path)
    growing = GrowingDirectory(str(tmp_path))
    assert growing.look(5 * MIB).stop_lsn == 5 * MIB
    assert growing.look(7 * MIB).stop_lsn == 5 * MIB


def test_a_segment_that_is_being_copied_is_not_there_yet(tmp_path: Path) -> None:
    four().save(tmp_path)
    growing, last = GrowingDirectory(str(tmp_path)), tmp_path / four().name(4)
    for size in (0, 8192, MIB - 1):
        os.truncate(last, size)
        assert [s.number for s in growing.look(None).segments] == [1, 2, 3]
    os.truncate(tmp_path / four().name(2), 8192)
    with pytest.raises(SegmentError, match="wrong size"):
        growing.look(None)


def test_where_the_log_ends(tmp_path: Path) -> None:
    """All that is there begins before the end; it lies inside the last record where that fills the last segment."""
    writer = WalWriter()
    ends = []
    for size in (100, 8000, 60, 1_040_000, 16, 30_000):
        start = writer.append(bytes(size))
        ends.append(writer.position)
        directory = GrowingDirectory(str(writer.save(tmp_path))).look(None)
        assert start < end_of_log(directory) <= ends[-1]
        assert end_of_log(directory) == (2 * MIB if size == 1_040_000 else ends[-1])
        assert [has_record(directory, lsn) for lsn in ends] == [True] * (len(ends) - 1) + [False]
    assert not has_record(directory, directory.stop_lsn)


def test_a_record_that_is_not_whole_yet(tmp_path: Path) -> None:
    writer = WalWriter()
    writer.append(bytes(100))
    end = writer.position
    writer.append(b"x" * 20_000)
    path = writer.save(tmp_path) / writer.name(1)
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(bytes(MIB - 8192))
    directory = GrowingDirectory(str(tmp_path)).look(None)
    assert end_of_log(directory) == end
    assert not has_record(directory, end)


def test_a_segment_that_is_received_and_has_nothing_yet_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / f"{four().name(1)}.partial").write_bytes(bytes(MIB))
    with pytest.raises(AwaitedSegmentError, match="nothing is written in the first WAL segment yet"):
        GrowingDirectory(str(tmp_path)).look(None)
    with pytest.raises(SegmentError, match="found page magic 0000"):
        WalDirectory.scan(tmp_path)
