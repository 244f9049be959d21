"""Files of values: whole, or as they were."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.errors import SlotError
from headwater.slots.value_file import load_value, save_value


@dataclass(frozen=True)
class One:
    """A value."""

    number: int


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing unfinished stays beside it, where it would take the room that is lacking."""
    file = tmp_path / "one"
    save_value(file, One(1))

    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SlotError, match="No space left"):
        save_value(file, One(2))
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert load_value(file, One) == One(1)
