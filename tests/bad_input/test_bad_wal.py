"""WAL that is damaged, incomplete, or not the catalog's."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bad_input.clusters import SEGMENT, Cluster
from bad_input.command import CommandHere
from bad_input.damage import (
    PAGE,
    Place,
    cut,
    flip,
    heap_inserts,
    middle,
    overwrite,
    page_header,
    record_bounds,
    segments,
    u32,
    used_segments,
)
from headwater.pg.lsn import Lsn

pytestmark = [pytest.mark.server]


def test_missing_middle_segment(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    missing = used_segments(wal, cluster.backup)[2]
    missing.unlink()
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed(f'WAL segment "{missing.name}" is missing', f"in {missing}", "found 0000", "restore it")


def test_missing_segment_behind_the_end_asked_for(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    files = used_segments(wal, cluster.backup)
    files[4].unlink()
    end = Lsn(int(files[3].name[16:], 16) * SEGMENT)
    headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres", "--end", end).check_passed()


def test_wal_begins_after_the_catalog(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    first = used_segments(wal, cluster.backup)[0]
    for path in segments(wal):
        if path.name <= first.name:
            path.unlink()
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed(f'WAL segment "{first.name}" is missing', f"in {first}")


@pytest.mark.parametrize("size", [0, 1, 5000, 8192, SEGMENT // 2, SEGMENT - 1, SEGMENT + 1])
def test_segment_of_wrong_size(headwater: CommandHere, cluster: Cluster, wal: Path, size: int) -> None:
    file = used_segments(wal, cluster.backup)[2]
    cut(file, size)
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed(f"found {size} bytes, expected {SEGMENT}", f"in {file}")


def test_empty_directory(headwater: CommandHere, cluster: Cluster, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    run = headwater("--wal", empty, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("no WAL segment in directory", f"in {empty}")


@pytest.mark.parametrize("name", ["missing", "file"])
def test_no_directory(headwater: CommandHere, cluster: Cluster, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    run = headwater("--wal", tmp_path / name, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("could not list directory", f"in {tmp_path / name}")


def test_segment_of_another_cluster_among_ours(
    headwater: CommandHere, cluster: Cluster, wal: Path, stranger: Path
) -> None:
    strangers = {path.name: path for path in segments(stranger / "pg_wal")}
    file = next(path for path in used_segments(wal, cluster.backup)[1:] if path.name in strangers)
    overwrite(file, 0, strangers[file.name].read_bytes())
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("system identifier", f"in {file}", "found", "expected")


def test_wal_of_another_cluster(headwater: CommandHere, cluster: Cluster, stranger: Path) -> None:
    run = headwater("--wal", stranger / "pg_wal", "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("the WAL is of system", "expected", f"in {stranger / 'pg_wal'}", str(cluster.backup))


def test_wal_of_another_major(headwater: CommandHere, cluster: Cluster, elder: Path) -> None:
    run = headwater("--wal", elder / "pg_wal", "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("PostgreSQL 15", "16", f"in {elder / 'pg_wal'}")


def test_segment_of_another_major_among_ours(headwater: CommandHere, cluster: Cluster, wal: Path, elder: Path) -> None:
    others = {path.name: path for path in segments(elder / "pg_wal")}
    file = next(path for path in used_segments(wal, cluster.backup)[1:] if path.name in others)
    overwrite(file, 0, others[file.name].read_bytes())
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("PostgreSQL version, found 15, expected 16", f"in {file}")


def test_catalog_newer_than_the_wal(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    last = used_segments(wal, cluster.backup)[-1]
    for path in segments(wal):
        if path.name >= last.name:
            path.unlink()
    run = headwater("--wal", wal, "--catalog", cluster.after, "--database", "postgres")
    run.check_failed("newer than the WAL", f"in {cluster.after}", "give a base backup from before the WAL")


def test_catalog_newer_than_the_wal_inside_a_segment(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    bounds = record_bounds(wal, cluster.backup)
    last, before = bounds[-1][0], bounds[-4][0]
    file = next(path for path in segments(wal) if int(path.name[16:], 16) == before // SEGMENT)
    overwrite(file, before % SEGMENT, bytes(SEGMENT - before % SEGMENT))
    run = headwater("--wal", wal, "--catalog", cluster.after, "--database", "postgres")
    run.check_failed(f"at {Lsn(last)}", "newer than the WAL", f"in {cluster.after}")


def test_wal_level_below_logical(headwater: CommandHere, cluster: Cluster) -> None:
    run = headwater("--wal", cluster.replica / "pg_wal", "--catalog", cluster.replica, "--database", "postgres")
    run.check_failed("wal_level = replica, expected logical", "set wal_level = logical", begun=None)


def test_wal_level_lowered_midway(headwater: CommandHere, cluster: Cluster, whole: bytes) -> None:
    window = ["--wal", cluster.lowered, "--catalog", cluster.backup, "--database", "postgres"]
    run = headwater(*window)
    run.check_failed("wal_level fell to replica, expected logical", "--end ", begun=True)
    end = run.stderr.split("--end ")[1].strip()
    assert headwater(*window, "--end", end).check_passed().startswith(whole)


def test_rows_of_a_low_wal_level(headwater: CommandHere, cluster: Cluster) -> None:
    window = ["--wal", cluster.lowered, "--catalog", cluster.backup, "--database", "postgres", "--from-replica-level"]
    lines = headwater(*window).check_warned("was written with wal_level = replica", "a TRUNCATE cannot be told")
    inserted = [line for line in lines.splitlines() if re.search(rb": INSERT: id\[integer\]:200\d{3} ", line)]
    assert len(inserted) == 300
    assert all(line.endswith(b"' (complete)") for line in inserted)


# -- flipped bytes


CHECKSUM = "incorrect resource manager data checksum in record: found"


def _in_row(place: Place) -> tuple[int, str]:
    return place.lsn + place.length - 9, CHECKSUM


def _in_length(place: Place) -> tuple[int, str]:
    return place.lsn + 1, f"(at {place.text}"


def _in_high_length(place: Place) -> tuple[int, str]:
    return place.lsn + 3, f"(at {place.text}"


def _in_checksum(place: Place) -> tuple[int, str]:
    return place.lsn + 20, CHECKSUM


def _in_previous(place: Place) -> tuple[int, str]:
    return place.lsn + 9, "record with incorrect prev-link: found"


def _in_xid(place: Place) -> tuple[int, str]:
    return place.lsn + 4, CHECKSUM


def _in_page_magic(place: Place) -> tuple[int, str]:
    return page_header(place.lsn) + place.lsn // SEGMENT * SEGMENT, "invalid magic number of page"


def _in_page_address(place: Place) -> tuple[int, str]:
    return page_header(place.lsn) + place.lsn // SEGMENT * SEGMENT + 9, "unexpected address of page"


def _in_page_rest(place: Place) -> tuple[int, str]:
    return page_header(place.lsn) + place.lsn // SEGMENT * SEGMENT + 16, "contrecord"


FLIPS = [
    _in_row,
    _in_length,
    _in_high_length,
    _in_checksum,
    _in_previous,
    _in_xid,
    _in_page_magic,
    _in_page_address,
    _in_page_rest,
]


@pytest.mark.parametrize("choose", FLIPS)
def test_flipped_byte(
    headwater: CommandHere, cluster: Cluster, wal: Path, choose: Callable[[Place], tuple[int, str]]
) -> None:
    place = middle(wal, cluster.backup)
    lsn, expected = choose(place)
    flip(place.file, lsn % SEGMENT)
    run = headwater(
        "--wal", wal, "--catalog", cluster.backup, "--database", "postgres", "--out", headwater.out / "lines"
    )
    run.check_failed(expected, str(place.file), "restore the segment from another copy", begun=True)


def test_flipped_byte_near_the_end(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    place = heap_inserts(wal, cluster.backup)[-2]
    flip(place.file, (place.lsn + place.length - 5) % SEGMENT)
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed(f"at {place.text}", str(place.file), begun=True)


def test_flipped_byte_in_a_segment_header(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    file = used_segments(wal, cluster.backup)[3]
    flip(file, 0)
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("invalid magic number of page", f"in {file}", begun=True)


def test_page_full_of_noise(headwater: CommandHere, cluster: Cluster, wal: Path) -> None:
    place = middle(wal, cluster.backup)
    overwrite(place.file, page_header(place.lsn), random.Random(1).randbytes(PAGE))
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("invalid magic number of page", str(place.file), begun=True)


@pytest.mark.parametrize("length", [0, 23, 1 << 24, 1 << 30, 0xFFFFFFFF])
def test_absurd_record_length(headwater: CommandHere, cluster: Cluster, wal: Path, length: int) -> None:
    place = middle(wal, cluster.backup)
    overwrite(place.file, place.lsn % SEGMENT, u32(length))
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    run.check_failed("length", "found", f"at {place.text}", str(place.file), begun=True)


@pytest.mark.parametrize("seed", range(12))
def test_random_flips_never_change_the_output(
    headwater: CommandHere, cluster: Cluster, wal: Path, whole: bytes, seed: int
) -> None:
    """Either one error, or the very same output: some bytes, such as padding, mean nothing."""
    rng = random.Random(f"flip {seed}")
    bounds = record_bounds(wal, cluster.backup)
    lsn = rng.randrange(bounds[0][0], bounds[-20][0])
    file = next(path for path in segments(wal) if int(path.name[16:], 16) == lsn // SEGMENT)
    flip(file, lsn % SEGMENT, 1 << rng.randrange(8))
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    if run.status == 0:
        assert whole == run.check_passed()
    else:
        run.check_failed(str(wal), "(at ", "restore the segment from another copy", begun=None)
