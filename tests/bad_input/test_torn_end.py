"""Ends of a log that look damaged and are not: of one that was being written, or that a crash cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from bad_input.clusters import SEGMENT, Cluster, linked_copy
from bad_input.command import CommandHere
from bad_input.damage import flip, overwrite, record_bounds, segments, zero_from

pytestmark = [pytest.mark.server]


def _decode(headwater: CommandHere, cluster: Cluster, wal: Path) -> bytes:
    return headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres").check_passed()


@pytest.mark.parametrize("back", [1, 2, 40])
@pytest.mark.parametrize("inside", [0, 8, 20])
def test_zero_tail(headwater: CommandHere, cluster: Cluster, wal: Path, whole: bytes, back: int, inside: int) -> None:
    """Records from some place on were never written, the first of them only in part; the last one is no change."""
    bounds = record_bounds(wal, cluster.backup)
    zero_from(wal, bounds[-back][0] + inside)
    decoded = _decode(headwater, cluster, wal)
    assert whole.startswith(decoded)
    assert (decoded == whole) == (back == 1)


def test_tail_of_a_recycled_segment(headwater: CommandHere, cluster: Cluster, wal: Path, whole: bytes) -> None:
    """Behind the end lie records of an older segment, as in a file that was renamed for reuse."""
    lsn = record_bounds(wal, cluster.backup)[-60][0]
    last = next(path for path in segments(wal) if int(path.name[16:], 16) == lsn // SEGMENT)
    older = segments(wal)[1].read_bytes()
    overwrite(last, lsn % SEGMENT, older[lsn % SEGMENT :])
    for path in segments(wal):
        if path.name > last.name:
            overwrite(path, 0, older)
    decoded = _decode(headwater, cluster, wal)
    assert whole.startswith(decoded)
    assert len(decoded) > len(whole) // 2


def test_flipped_byte_in_the_very_last_record(
    headwater: CommandHere, cluster: Cluster, wal: Path, whole: bytes
) -> None:
    """No reader can tell it from a record that was being written; here it is the shutdown's checkpoint."""
    lsn = record_bounds(wal, cluster.backup)[-1][0]
    flip(next(path for path in segments(wal) if int(path.name[16:], 16) == lsn // SEGMENT), lsn % SEGMENT + 30)
    assert whole == _decode(headwater, cluster, wal)


def test_newest_segments_missing(headwater: CommandHere, cluster: Cluster, wal: Path, whole: bytes) -> None:
    """An archive that lags behind ends in the middle of a transaction."""
    last = record_bounds(wal, cluster.backup)[-1][0] // SEGMENT
    for path in segments(wal):
        if int(path.name[16:], 16) >= last - 1:
            path.unlink()
    decoded = _decode(headwater, cluster, wal)
    assert whole.startswith(decoded)
    assert decoded.endswith(b"\n")
    assert 0 < len(decoded) < len(whole)


def test_copied_while_the_server_wrote(headwater: CommandHere, cluster: Cluster, whole: bytes) -> None:
    decoded = _decode(headwater, cluster, cluster.live)
    assert whole.startswith(decoded)
    assert decoded.count(b"COMMIT") > 7
    assert b"open at the copy" not in decoded


def test_crash(headwater: CommandHere, cluster: Cluster, whole: bytes) -> None:
    """All that was committed before the crash is there."""
    decoded = _decode(headwater, cluster, cluster.crashed)
    assert decoded.startswith(whole)
    assert decoded.count(b"INSERT: id[integer]:10") >= 1000
    assert b"INSERT: id[integer]:102999 " in decoded


def test_preallocated_segments(headwater: CommandHere, cluster: Cluster, tmp_path: Path, whole: bytes) -> None:
    wal = linked_copy(cluster.wal, tmp_path / "wal")
    last = segments(wal)[-1]
    number = int(last.name[16:], 16)
    for more in range(1, 4):
        (wal / f"{last.name[:16]}{number + more:08X}").write_bytes(bytes(SEGMENT))
    assert whole == _decode(headwater, cluster, wal)
