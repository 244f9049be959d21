"""Every record of a real server's WAL in words: ours against those of pg_walinspect."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from headwater.pg.version import VERSIONS
from headwater.rmgr.description import block_ref, description
from headwater.rmgr.description_parts import Style, utc_stamp
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory
from records.server_records import RecordedWal

pytestmark = pytest.mark.server

_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)? ?(?:UTC|\+00)")


def _plain(text: str) -> str:
    """Cut zeros at the end of times: the server leaves them out, pg_waldump does not."""
    return _TIME.sub(lambda match: match[1] + (match[2] or "").rstrip("0").rstrip("."), text)


def test_as_pg_walinspect(recorded: RecordedWal) -> None:
    if not recorded.inspected:
        pytest.skip(f"no pg_walinspect of PostgreSQL {recorded.major}")
    frames = read_frames(WalDirectory.scan(recorded.wal), recorded.start, recorded.end)
    style = Style(VERSIONS[recorded.major], utc_stamp)
    kinds: Counter[tuple[str, str]] = Counter()
    for i, row in enumerate(recorded.inspected):
        record = parse_record(frames.record(i), int(frames.lsns[i]), int(frames.end_lsns[i]), recorded.major)
        assert (row.lsn, _plain(row.text)) == (record.lsn, _plain(description(record, style)))
        assert row.block_ref == block_ref(record, style.version)
        kinds[row.rmgr, row.name] += 1
    assert len(recorded.inspected) == len(frames.lsns)
    assert len(kinds) > 85, kinds
    messages = [row for row in recorded.inspected if row.rmgr == "LogicalMessage"]
    assert any("payload (2500000 bytes)" in row.text for row in messages)
