"""Every record of a real server's WAL: ours against pg_waldump's and pg_walinspect's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headwater.rmgr.registry import CODES, RMGR_NAMES, known_table, record_name
from headwater.wal.records.frames import Frames, read_frames
from headwater.wal.records.record import Record, parse_record
from headwater.wal.segments.directory import WalDirectory
from records.server_records import RecordedWal, ServerRecord

pytestmark = pytest.mark.server


def parsed(frames: Frames, major: int) -> list[tuple[Record, int]]:
    """Take every record apart, with its length."""
    return [
        (parse_record(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), major), frames.length(i))
        for i in range(len(frames.positions))
    ]


def image_bytes(record: Record) -> int:
    """Count bytes of page images as pg_waldump does (XLogRecGetLen: uncompressed and compressed alike)."""
    return sum(len(block.image.data) for block in record.blocks if block.image is not None)


def as_server(record: Record, length: int, major: int, like: ServerRecord) -> ServerRecord:
    """Put our record in the oracle's words, with the fields that the oracle has."""
    return ServerRecord(
        lsn=record.lsn,
        prev=record.prev,
        xid=record.xid,
        rmgr=RMGR_NAMES[record.rmid],
        name=record_name(major, record.rmid, record.info, record.lsn),
        length=length,
        fpi_length=image_bytes(record),
        end_lsn=None if like.end_lsn is None else record.end_lsn,
        main_length=None if like.main_length is None else len(record.main_data),
    )


def test_as_pg_waldump(recorded: RecordedWal) -> None:
    if recorded.dumped is None:
        pytest.skip(f"no pg_waldump of PostgreSQL {recorded.major}")
    wal = WalDirectory.scan(recorded.wal)
    frames = read_frames(wal, wal.start_lsn)
    ours = parsed(frames, recorded.major)
    assert len(recorded.dumped) > 5000
    assert [row.lsn for row in recorded.dumped] == frames.lsns.tolist()
    for (record, length), row in zip(ours, recorded.dumped, strict=True):
        assert row == as_server(record, length, recorded.major, row)


def test_as_pg_walinspect(recorded: RecordedWal) -> None:
    if not recorded.inspected:
        pytest.skip(f"no pg_walinspect of PostgreSQL {recorded.major}")
    wal = WalDirectory.scan(recorded.wal)
    frames = read_frames(wal, recorded.start, recorded.end)
    ours = parsed(frames, recorded.major)
    assert len(recorded.inspected) > 5000
    assert frames.end is None
    assert [row.lsn for row in recorded.inspected] == frames.lsns.tolist()
    for (record, length), row in zip(ours, recorded.inspected, strict=True):
        assert row == as_server(record, length, recorded.major, row)


def test_blocks_as_pg_walinspect(recorded: RecordedWal) -> None:
    """Locators, data and restored images of every block reference."""
    if not recorded.blocks:
        pytest.skip(f"no block list of pg_walinspect in PostgreSQL {recorded.major}")
    wal = WalDirectory.scan(recorded.wal)
    ours = [
        (record.lsn, block, block.image.page() if block.image is not None else None)
        for record, _ in parsed(read_frames(wal, recorded.start, recorded.end), recorded.major)
        for block in record.blocks
    ]
    assert len(recorded.blocks) == len(ours)
    methods: Counter[str] = Counter()
    for row, (lsn, block, page) in zip(recorded.blocks, ours, strict=True):
        expected = (*row[:7], row[7] or b"", row[8])
        assert expected == (lsn, block.id, block.spc, block.db, block.rel, block.fork, block.block, block.data, page)
        assert isinstance(row[9], list | None)
        methods.update(row[9] or [])
        if block.image is not None:
            assert ("APPLY" in (row[9] or [])) == block.image.is_applied
    assert methods["HAS_HOLE"] > 100
    assert methods["COMPRESS_PGLZ"] > 20


def test_every_segment_by_itself_gives_the_same(recorded: RecordedWal) -> None:
    wal = WalDirectory.scan(recorded.wal)
    assert len(wal.segments) > 10
    whole = read_frames(wal, wal.start_lsn)
    lsns: list[int] = []
    for segment in wal.segments:
        part = read_frames(
            wal,
            segment.start_lsn,
            segment.start_lsn + wal.segment_size,
            expect_prev=lsns[-1] if lsns else None,
        )
        lsns += part.lsns.tolist()
    assert whole.lsns.tolist() == lsns


def test_the_workload_meets_most_kinds_of_records(recorded: RecordedWal) -> None:
    """Of the kinds a server can write at will; none is unknown to the kernels' table."""
    wal = WalDirectory.scan(recorded.wal)
    frames = read_frames(wal, wal.start_lsn)
    kinds = {(int(frames.data[at + 17]), int(frames.data[at + 16]) & 0xF0) for at in frames.positions}
    table = known_table(recorded.major)
    assert all(table[rmid * 16 + (info >> 4)] for rmid, info in kinds)
    assert {rmid for rmid, _ in kinds} >= set(range(22)) - {3, 5, 18, 20}
    assert len(kinds) > sum(map(len, CODES[recorded.major])) // 3


def test_what_pg_control_says(recorded: RecordedWal) -> None:
    from control_files import read_control_file
    from headwater.wal.control import SHUTDOWNED

    control = read_control_file(recorded.data_directory)
    wal = WalDirectory.scan(recorded.wal)
    last = parsed(read_frames(wal, control.checkpoint_lsn), recorded.major)
    assert (recorded.major, wal.system_identifier) == (control.major, control.system_identifier)
    assert (control.state, control.is_shutdown_checkpoint, control.wal_level) == (SHUTDOWNED, True, 2)
    assert (control.wal_segment_size, control.wal_block_size, control.block_size) == (1 << 20, 8192, 8192)
    assert [record_name(recorded.major, r.rmid, r.info, r.lsn) for r, _ in last] == ["CHECKPOINT_SHUTDOWN"]
    from headwater.rmgr.xlog import parse_checkpoint

    checkpoint = parse_checkpoint(last[0][0].main_data, last[0][0].lsn, recorded.major)
    assert control.redo_lsn == checkpoint.redo == control.checkpoint_lsn
    assert (control.next_xid, control.next_oid) == (checkpoint.next_xid, checkpoint.next_oid)
    assert (control.timeline, control.checkpoint_time) == (checkpoint.timeline, checkpoint.time)
    assert (2 if recorded.major >= 17 else None) == checkpoint.wal_level


def test_the_archive_is_read_like_pg_wal(recorded: RecordedWal, tmp_path: Path) -> None:
    """Only whole segments, copied in any order, beside files that are none."""
    wal = WalDirectory.scan(recorded.wal)
    for segment in reversed(wal.segments[:-1]):
        (tmp_path / Path(segment.path).name).symlink_to(segment.path)
    (tmp_path / "000000010000000000000002.00000028.backup").write_text("START WAL LOCATION")
    archive = WalDirectory.scan(tmp_path)
    expected = read_frames(wal, wal.start_lsn, archive.stop_lsn).lsns.tolist()
    frames = read_frames(archive, archive.start_lsn)
    assert frames.end is not None
    assert expected[: len(frames.lsns)] == frames.lsns.tolist()
    assert len(expected) - len(frames.lsns) <= 1
