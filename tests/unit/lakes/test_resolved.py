"""The log of what belongs together: lines that are whole, looked up by LSN and by time, and forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import LakeError
from headwater.lakes.resolved_log import NAME, ResolvedLog, resolved_at, resolved_states

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def made(place: Path) -> ResolvedLog:
    log = ResolvedLog(place)
    log.add(100, DAY, {"a": 1}, {})
    log.add(200, None, {"a": 1, "b": 1}, {})
    log.add(300, DAY + timedelta(days=2), {"b": 2}, {})
    return log


def test_what_belongs_together_by_lsn_and_by_time(tmp_path: Path) -> None:
    made(tmp_path)
    assert [dict(state.tables) for state in resolved_states(tmp_path)] == [{"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert resolved_at(tmp_path).lsn == 300
    assert resolved_at(tmp_path, lsn=299).lsn == 200
    assert resolved_at(tmp_path, time=DAY + timedelta(days=1)).lsn == 200
    assert resolved_at(tmp_path, time=DAY + timedelta(days=2)).lsn == 300
    with pytest.raises(LakeError, match="nothing has been resolved up to 0/63"):
        resolved_at(tmp_path, lsn=99)
    with pytest.raises(LakeError, match="nothing has been resolved up to 2025"):
        resolved_at(tmp_path, time=DAY - timedelta(days=1))


def test_a_line_that_was_cut_off_is_none(tmp_path: Path) -> None:
    made(tmp_path)
    path = tmp_path / NAME
    text = path.read_bytes()
    for length in range(len(text) - 40, len(text)):
        path.write_bytes(text[:length])
        assert resolved_at(tmp_path).lsn == 200
        ResolvedLog(tmp_path).add(300, None, {"b": 2}, {})
        assert [state.lsn for state in resolved_states(tmp_path)] == [100, 200, 300]


def test_a_damaged_line(tmp_path: Path) -> None:
    made(tmp_path)
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes().replace(b'"tables"', b'"tab"', 1))
    with pytest.raises(LakeError, match="damaged in line 1"):
        resolved_at(tmp_path)


def test_what_is_forgotten(tmp_path: Path) -> None:
    log = made(tmp_path)
    second = list(resolved_states(tmp_path))[1].written
    log.forget(second)
    assert resolved_at(tmp_path, lsn=100).lsn == 100  # it was so until then
    log.forget(second + timedelta(microseconds=1))
    assert [dict(state.tables) for state in resolved_states(tmp_path)] == [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    log.forget(datetime.now(UTC) + timedelta(days=1))
    log.add(400, None, {"a": 5}, {})
    assert [dict(state.tables) for state in resolved_states(tmp_path)] == [{"a": 1, "b": 2}, {"a": 5, "b": 2}]


def test_tables_that_are_paused_are_named_with_where_they_stand(tmp_path: Path) -> None:
    log = ResolvedLog(tmp_path)
    log.add(0x100, None, {"a": 1, "b": 1}, {})
    log.add(0x200, None, {"a": 2}, {"b": 0x100})
    log.add(0x300, None, {"b": 2}, {})
    assert [state.paused for state in resolved_states(tmp_path)] == [{}, {"b": 0x100}, {}]
    assert resolved_at(tmp_path, 0x250).tables == {"a": 2, "b": 1}
    assert "paused" not in (tmp_path / NAME).read_text().splitlines()[0]  # as all lines were before there were any
