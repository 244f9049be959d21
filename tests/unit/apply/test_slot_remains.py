"""Remains of a slot that was killed while it was made, or dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SlotError
from headwater.slots.slot import Slot, SlotRequest
from headwater.slots.slot_directory import clear_remains, create_slot, is_slot


def test_remains_are_cleared_and_slots_stay(tmp_path: Path) -> None:
    slot, path = Slot(SlotRequest((), "", "d", "rows"), 0x1000028, None), tmp_path / "s"
    clear_remains(path)
    path.mkdir()
    (path / "lock").touch()
    with pytest.raises(SlotError, match="already exists"):
        create_slot(path, slot)
    clear_remains(path)
    create_slot(path, slot)
    clear_remains(path)
    assert is_slot(path)
