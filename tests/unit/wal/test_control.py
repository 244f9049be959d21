"""pg_control, packed by hand; the server rung compares real ones with the checkpoint in the WAL."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CatalogError
from headwater.wal.control import ControlFile, parse_control_file, without_commit_times
from unit.wal.plain_wal import SYSTEM, fast_crc32c

VERSIONS = {
    15: (1300, 202209061),
    16: (1300, 202307071),
    17: (1700, 202406281),
    18: (1800, 202506291),
    19: (1905, 202610061),
}


def control_bytes(major: int, catalog_version: int | None = None, *, tracks: bool = False) -> bytes:
    """Make a control file as the server writes it: fields with C alignment, checksum, zeros up to 8192 bytes."""
    version, catalog = VERSIONS[major]
    data = struct.pack("<QII", SYSTEM, version, catalog_version or catalog)
    data += struct.pack("<I4xqQ", 6, 1_700_000_000, 0x5000028)
    data += struct.pack("<QII?3xI", 0x5000000, 3, 2, True, 2) + (b"\1" + bytes(7) if major >= 19 else b"")
    data += struct.pack("<QII", (1 << 32) + 755, 24576, 11) + struct.pack("<Q" if major >= 19 else "<I", 22)
    data += struct.pack("<IIII", 722, 1, 33, 1)
    data += bytes(-len(data) % 8) + struct.pack("<qIII4x", 1_700_000_001, 44, 55, 750)
    data += struct.pack("<QQI4xQQ?3x", 1000, 0x6000000, 4, 0x7000000, 0x8000000, True)
    data += struct.pack("<i?3xiiiii?3x", 2, False, 100, 8, 10, 5, 64, tracks)
    data += bytes(-len(data) % 4) + struct.pack("<IdII", 8, 1234567.0, 8192, 131072)
    data += (struct.pack("<I", 32) if major >= 19 else b"") + struct.pack("<II", 8192, 1 << 24)
    data += struct.pack("<IIII?3x", 64, 32, 1996, 2048, True) + (bytes(4) if major >= 19 else b"") + b"\1\0\0\0"
    data += (b"\x01" if major >= 18 else b"") + bytes(32)
    data += bytes(-len(data) % 4)
    return (data + struct.pack("<I", fast_crc32c(data))).ljust(8192, b"\0")


@pytest.mark.parametrize("major", sorted(VERSIONS))
def test_every_field(major: int) -> None:
    expected = ControlFile(
        system_identifier=SYSTEM,
        major=major,
        catalog_version=VERSIONS[major][1],
        state=6,
        time=1_700_000_000,
        checkpoint_lsn=0x5000028,
        redo_lsn=0x5000000,
        timeline=3,
        previous_timeline=2,
        full_page_writes=True,
        decodes_on_demand=major >= 19,
        next_xid=(1 << 32) + 755,
        next_oid=24576,
        next_multi=11,
        oldest_xid=722,
        checkpoint_time=1_700_000_001,
        oldest_active_xid=750,
        min_recovery_lsn=0x6000000,
        min_recovery_timeline=4,
        backup_start_lsn=0x7000000,
        backup_end_lsn=0x8000000,
        backup_end_required=True,
        wal_level=2,
        block_size=8192,
        relation_segment_blocks=131072,
        wal_block_size=8192,
        wal_segment_size=1 << 24,
        data_checksum_version=1,
    )
    actual = parse_control_file(control_bytes(major), "pg_control")
    assert expected == actual
    assert not actual.is_shutdown_checkpoint


@pytest.mark.parametrize("catalog_version", [202007201, 202307072])
def test_another_version_is_refused(catalog_version: int) -> None:
    with pytest.raises(CatalogError, match=f"unsupported PostgreSQL version, found .* {catalog_version}"):
        parse_control_file(control_bytes(16, catalog_version), "pg_control")


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (32, "position FFFFFFFF/5000028, expected one before 80000000/0"),
        (40, "position FFFFFFFF/5000000, expected one before 80000000/0"),
        (64, "next transaction id 4294967295:755, expected one before 1073741824:0"),
        (136, "position FFFFFFFF/6000000, expected one before 80000000/0"),
    ],
)
def test_positions_and_ids_that_no_server_comes_to(offset: int, message: str) -> None:
    data = bytearray(control_bytes(16)[:288])
    data[offset + 4 : offset + 8] = b"\xff" * 4
    whole = (bytes(data) + struct.pack("<I", fast_crc32c(bytes(data)))).ljust(8192, b"\0")
    with pytest.raises(CatalogError, match=message) as caught:
        parse_control_file(whole, "pg_control")
    assert caught.value.file == "pg_control"


def test_relation_files_without_a_block_are_refused() -> None:
    data = bytearray(control_bytes(16)[:288])
    at = data.index(struct.pack("<II", 8192, 131072))
    data[at + 4 : at + 8] = bytes(4)
    with pytest.raises(CatalogError, match="relation files of 0 blocks, expected 1 or more"):
        parse_control_file((bytes(data) + struct.pack("<I", fast_crc32c(bytes(data)))).ljust(8192, b"\0"), "pg_control")


@given(st.sampled_from(sorted(VERSIONS)), st.integers(0, 287), st.integers(1, 255))
def test_any_flipped_byte_is_found(major: int, offset: int, mask: int) -> None:
    data = bytearray(control_bytes(major))
    data[offset] ^= mask
    with pytest.raises(CatalogError, match=r"checksum|version"):
        parse_control_file(bytes(data), "pg_control")


@given(st.binary(max_size=300))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CatalogError):
        parse_control_file(data, "pg_control")


@pytest.mark.parametrize("major", sorted(VERSIONS))
def test_without_commit_times(major: int) -> None:
    assert without_commit_times(control_bytes(major, tracks=True), major) == control_bytes(major)
