"""Remains of a slot that was killed while it was made, or dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SlotError
from headwater.slots.slot import Slot, SlotRequest
from headwater.slots.slot_directory import check_is_free, clear_all_remains, create_slot, is_slot

SLOT = Slot(SlotRequest((), "", "d", "rows"), 0x1000028, None)


@pytest.mark.parametrize("names", [(), ("lock",), ("lock", "slot.part", "invalidated")])
def test_remains_are_in_nobodys_way(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tmp_path / "s"
    path.mkdir()
    for name in names:
        (path / name).touch()
    check_is_free(path)
    create_slot(path, SLOT)
    assert is_slot(path)
    assert sorted(entry.name for entry in path.iterdir()) == ["lock", "slot"]
    with pytest.raises(SlotError, match="already exists"):
        create_slot(path, SLOT)


def test_what_is_no_slots_stays(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "letter").touch()
    with pytest.raises(SlotError, match="already exists"):
        check_is_free(tmp_path)
    with pytest.raises(SlotError, match="already exists"):
        create_slot(tmp_path, SLOT)
    assert (tmp_path / "letter").exists()


def test_all_remains_of_a_directory_go(tmp_path: Path) -> None:
    create_slot(tmp_path / "whole", SLOT)
    for name, file in (("left", "lock"), ("other", "letter"), (".shelf", "lock")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    (tmp_path / "empty").mkdir()
    clear_all_remains(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".shelf", "empty", "other", "whole"]
