"""Moments and ages as commands take them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.cli.lake import ExpireFlags, TablesFlags, expire_command, moment, tables_command
from headwater.errors import HeadwaterError, LakeError, UsageError


def test_moments() -> None:
    assert moment(None) == (None, None)
    assert moment("0/1552C90") == (0x1552C90, None)
    noon = datetime(2026, 2, 3, 12, tzinfo=UTC)
    for text in ("2026-02-03T12:00:00Z", "2026-02-03 12:00", "2026-02-03T14:00:00+02:00"):
        assert moment(text) == (None, noon)
    for text in ("yesterday", "0/XYZ", ""):
        with pytest.raises(HeadwaterError):
            moment(text)


@pytest.mark.parametrize("text", ["7", "7w", "-1d", "0/1", "d"])
def test_ages_that_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"is no (age|LSN)"):
        expire_command.run(ExpireFlags(tmp_path, text))


def test_directories_in_which_nothing_has_landed(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="nothing has been resolved"):
        tables_command.run(TablesFlags(tmp_path))
    with pytest.raises(LakeError, match="nothing has landed there"):
        expire_command.run(ExpireFlags(tmp_path, "7d"))
    assert list(tmp_path.iterdir()) == []
