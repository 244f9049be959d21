"""Files of a data directory, made by hand around a control file."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from headwater.catalog.copy.data_directory import DataDirectory, running_server
from headwater.errors import CatalogError
from headwater.wal.checksum import crc32c

IN_PRODUCTION, SHUTDOWNED = 6, 1


def control_file(state: int = SHUTDOWNED) -> bytes:
    """Make a control file of PostgreSQL 16 with a shutdown checkpoint at 0/1000028."""
    data = bytearray(8192)
    struct.pack_into("<QIIIxxxxqQ", data, 0, 77, 1300, 202307071, state, 0, 0x1000028)
    struct.pack_into("<QII", data, 40, 0x1000028, 1, 1)
    struct.pack_into("<Q", data, 64, 1000)
    struct.pack_into("<IIII", data, 216, 8192, 131072, 8192, 16 << 20)
    struct.pack_into("<I", data, 288, crc32c(bytes(data[:288])))
    return bytes(data)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    (tmp_path / "PG_VERSION").write_text("16\n")
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "pg_control").write_bytes(control_file())
    (tmp_path / "base" / "5").mkdir(parents=True)
    return tmp_path


def test_shut_down_cluster(cluster: Path) -> None:
    directory = DataDirectory(cluster)
    assert (directory.major, directory.start_lsn, directory.timeline) == (16, 0x1000028, 1)
    assert (directory.is_shutdown, directory.is_clean) == (True, True)


def test_online_backup_begins_at_its_label(cluster: Path) -> None:
    (cluster / "global" / "pg_control").write_bytes(control_file(IN_PRODUCTION))
    (cluster / "backup_label").write_text(
        "START WAL LOCATION: 2/2000028 (file 000000030000000200000002)\nCHECKPOINT LOCATION: 2/2000060\n"
        "BACKUP METHOD: streamed\nBACKUP FROM: primary\nSTART TIMELINE: 3\n"
    )
    directory = DataDirectory(cluster)
    assert (directory.start_lsn, directory.timeline) == (0x202000028 - 0x100000000 + 0x100000000, 3)
    assert (directory.is_shutdown, directory.is_clean) == (False, False)
    (cluster / "backup_label").write_text("nonsense")
    with pytest.raises(CatalogError, match="no START WAL LOCATION"):
        DataDirectory(cluster)


def test_not_a_data_directory(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="not a PostgreSQL data directory"):
        DataDirectory(tmp_path)


@pytest.mark.parametrize("version", ["13", "9.6", "20", "\udcff".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_unsupported_version(cluster: Path, version: str) -> None:
    (cluster / "PG_VERSION").write_text(f"{version}\n")
    with pytest.raises(CatalogError, match="is unsupported, expected one of 14, 15, 16, 17, 18, 19"):
        DataDirectory(cluster)


def test_files_of_several_segments(cluster: Path) -> None:
    directory = DataDirectory(cluster)
    file = cluster / "base" / "5" / "1259"
    assert directory.heap((1663, 5, 1259)) is None
    file.write_bytes(bytes(8192))
    assert directory.heap((1663, 5, 1259)) == bytes(8192)
    object.__setattr__(directory.control, "relation_segment_blocks", 1)
    (cluster / "base" / "5" / "1259.1").write_bytes(b"\1" * 8192)
    (cluster / "base" / "5" / "1259.3").write_bytes(b"\3" * 8192)
    assert directory.heap((1663, 5, 1259)) == bytes(8192) + b"\1" * 8192


def test_relation_map(cluster: Path) -> None:
    directory = DataDirectory(cluster)
    content = (struct.pack("<ii", 0x592717, 2) + struct.pack("<IIII", 1259, 20000, 1249, 1249)).ljust(520, b"\0")
    file = cluster / "base" / "5" / "pg_filenode.map"
    file.write_bytes(content + crc32c(content).to_bytes(4, "little"))
    assert directory.relation_map(5, 1663) == {1259: 20000, 1249: 1249}
    file.write_bytes(content + b"\0\0\0\0")
    with pytest.raises(CatalogError, match="incorrect checksum in relation map"):
        directory.relation_map(5, 1663)
    file.write_bytes(b"short")
    with pytest.raises(CatalogError, match="relation map has 5 bytes"):
        directory.relation_map(5, 1663)
    shutil.rmtree(cluster / "base")
    with pytest.raises(CatalogError, match="could not read file"):
        directory.relation_map(5, 1663)


def test_commit_log(cluster: Path) -> None:
    (cluster / "pg_xact").mkdir()
    (cluster / "pg_xact" / "0001").write_bytes(bytes([0b11_10_01_00]) + bytes(100))
    directory = DataDirectory(cluster)
    first = 1 << 20
    assert [directory.is_committed(first + n) for n in range(5)] == [False, True, False, False, False]
    assert not directory.is_committed(first + 10_000)
    with pytest.raises(CatalogError, match="could not read the status of transaction 3"):
        directory.is_committed(3)


def test_updater_of_a_multixact(cluster: Path) -> None:
    """Multixact 5 has members 7 (a lock) and 8 (an update); 6 has a lock only and is the newest."""
    (cluster / "pg_multixact" / "offsets").mkdir(parents=True)
    (cluster / "pg_multixact" / "members").mkdir()
    offsets = struct.pack("<8I", 0, 0, 0, 0, 0, 7, 9, 0)
    (cluster / "pg_multixact" / "offsets" / "0000").write_bytes(offsets)
    groups = struct.pack("<4B4I", 0, 0, 0, 0, 1, 2, 3, 4) + struct.pack("<4B4I", 0, 0, 0, 0, 5, 6, 7, 100)
    groups += struct.pack("<4B4I", 4, 1, 0, 0, 200, 300, 0, 0)
    (cluster / "pg_multixact" / "members" / "0000").write_bytes(groups)
    directory = DataDirectory(cluster)
    assert [directory.update_xid(multi) for multi in (5, 6, 7, 1 << 20)] == [200, 0, 0, 0]


def test_members_whose_numbers_begin_again(cluster: Path) -> None:
    """The members of the last multixact before the numbers begin again, too: none is at 0."""
    last = 0xFFFFFFFF
    for folder in ("pg_multixact/offsets", "pg_multixact/members"):
        (cluster / folder).mkdir(parents=True)
    (cluster / "pg_multixact" / "offsets" / "FFFF").write_bytes(bytes(65535 * 4) + struct.pack("<I", last - 1))
    (cluster / "pg_multixact" / "offsets" / "0000").write_bytes(struct.pack("<2I", 0, 2))
    group = last // 4
    number, page = divmod(group // 409, 32)
    groups = bytes(page * 8192 + group % 409 * 20) + struct.pack("<4B4I", 0, 0, 0, 0, 0, 0, 50, 51)
    (cluster / "pg_multixact" / "members" / f"{number:04X}").write_bytes(groups)
    (cluster / "pg_multixact" / "members" / "0000").write_bytes(struct.pack("<4B4I", 0, 4, 4, 0, 0, 100, 200, 0))
    assert DataDirectory(cluster).update_xid(last) == 100


def test_files_that_should_know_of_a_transaction(cluster: Path) -> None:
    """Transactions that had begun when the copy was made are in its files; an online backup's may come too early."""
    for folder in ("pg_xact", "pg_multixact/offsets", "pg_multixact/members"):
        (cluster / folder).mkdir(parents=True)
    directory = DataDirectory(cluster)
    next_xid, next_multi = directory.control.next_xid & 0xFFFFFFFF, directory.control.next_multi
    assert not directory.is_committed(next_xid)
    assert directory.update_xid(next_multi) == 0
    with pytest.raises(CatalogError, match=f"status of transaction {next_xid - 1}: no such file"):
        directory.is_committed(next_xid - 1)
    with pytest.raises(CatalogError, match=f"status of multixact {next_multi - 1}: no such file"):
        directory.update_xid(next_multi - 1)
    (cluster / "pg_xact" / "0000").write_bytes(b"\0")
    (cluster / "pg_multixact" / "offsets" / "0000").write_bytes(struct.pack("<I", 1) * (next_multi + 1))
    directory = DataDirectory(cluster)
    with pytest.raises(CatalogError, match="the file ends at 1 bytes"):
        directory.is_committed(next_xid - 1)
    offsets = struct.pack("<I", 1) * next_multi + struct.pack("<I", 3)
    (cluster / "pg_multixact" / "offsets" / "0000").write_bytes(offsets)
    with pytest.raises(CatalogError, match=f"status of multixact {next_multi - 1}: no such file"):
        DataDirectory(cluster).update_xid(next_multi - 1)
    (cluster / "backup_label").write_text("START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n")
    assert not DataDirectory(cluster).is_committed(next_xid - 1)


def test_where_a_backup_ends(cluster: Path) -> None:
    directory = DataDirectory(cluster)
    assert (directory.manifest_end_lsn(), directory.backup_start, directory.reach_lsn) == (None, None, 0)
    label = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\nBACKUP FROM: {}\nSTART TIMELINE: 1\n"
    (cluster / "backup_label").write_text(label.format("primary"))
    wal_ranges = '"WAL-Ranges": [\n{ "Timeline": 1, "Start-LSN": "0/2000028", "End-LSN": "0/2000120" }\n],'
    (cluster / "backup_manifest").write_text(wal_ranges)
    directory = DataDirectory(cluster)
    assert (directory.manifest_end_lsn(), directory.backup_start) == (0x2000120, 0x2000028)
    (cluster / "backup_label").write_text(label.format("standby"))
    directory = DataDirectory(cluster)
    assert (directory.backup_start, directory.reach_lsn) == (None, directory.control.min_recovery_lsn)


def test_server_that_runs_in_a_directory(cluster: Path, tmp_path: Path) -> None:
    lock_file, elsewhere = cluster / "postmaster.pid", tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert running_server(cluster) is None
    lock_file.write_text("nonsense\n")
    assert running_server(cluster) is None
    with subprocess.Popen(["sleep", "60"], cwd=cluster) as process:
        lock_file.write_text(f"{process.pid}\n{cluster}\n1700000000\n")
        assert running_server(cluster) == process.pid
        lock_file.write_text(f"{process.pid}\n{elsewhere}\n1700000000\n")
        assert running_server(cluster) is None
        process.terminate()
    lock_file.write_text(f"{process.pid}\n{cluster}\n1700000000\n")
    assert running_server(cluster) is None
    lock_file.write_text(f"{os.getpid()}\n{cluster}\n1700000000\n")
    assert running_server(cluster) is None
