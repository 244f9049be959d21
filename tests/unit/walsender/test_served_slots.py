"""Slots of a directory: whose a slot is while it is made, and that nobody waits for who makes one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.errors import SessionError, SlotError, SlotInUseError
from headwater.slots.slot import Slot, SlotRequest
from headwater.walsender.served_slots import ServedSlots

SLOT = Slot(SlotRequest((), "", "", ""), 1 << 24, None)
MAKER, OTHER = 1001, 1002


def slots_in(directory: Path, most: int = 4) -> ServedSlots:
    slots = ServedSlots(directory / "slots", most, "max_replication_slots")
    slots.create("there", SLOT, OTHER, False)
    return slots


@pytest.mark.parametrize("is_temporary", [False, True])
def test_while_a_slot_is_made_others_are_used_and_its_name_is_taken(tmp_path: Path, is_temporary: bool) -> None:
    slots, steps = slots_in(tmp_path, most=2), list[str]()

    def check() -> None:
        """Stand where the slot's file is about to be written."""
        with slots.used("there", OTHER):
            steps.append("used")
        with pytest.raises(SessionError, match='"new" already exists'):
            slots.check_new("new")
        with pytest.raises(SessionError, match="all replication slots are in use"):
            slots.create("third", SLOT, OTHER, False)
        assert slots.owns(MAKER) == is_temporary

    slots.create("new", SLOT, MAKER, is_temporary, check)
    assert steps == ["used"]
    assert slots.names() == ["new", "there"]
    if is_temporary:
        with pytest.raises(SessionError, match=f'"new" is active for PID {MAKER}'), slots.used("new", OTHER):
            pass
    slots.drop_owned(MAKER)
    assert slots.names() == (["there"] if is_temporary else ["new", "there"])


def test_a_slot_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    slots = slots_in(tmp_path)

    def check() -> None:
        raise SlotError("the WAL has gone")

    with pytest.raises(SlotError, match="the WAL has gone"):
        slots.create("new", SLOT, MAKER, True, check)
    assert (slots.names(), slots.owns(MAKER), slots.pid_of("new")) == (["there"], False, None)
    slots.create("new", SLOT, OTHER, False)
    slots.drop_owned(MAKER)
    assert slots.names() == ["new", "there"]


def test_a_name_is_free_when_its_slot_has_gone_and_was_let_go_of(tmp_path: Path) -> None:
    slots = slots_in(tmp_path)
    with slots.used("there", OTHER) as opened:
        opened.drop()
        with pytest.raises(SessionError, match='"there" already exists'):
            slots.create("there", SLOT, MAKER, True)
    slots.create("there", SLOT, MAKER, True)
    with pytest.raises(SessionError, match=f"active for PID {MAKER}"):
        slots.drop("there", OTHER)
    slots.drop_owned(MAKER)
    assert (slots.names(), slots.owns(MAKER)) == ([], False)


def test_waiting_ends_as_it_is_told_to(tmp_path: Path) -> None:
    slots = slots_in(tmp_path)

    def canceled() -> None:
        raise SessionError("canceling statement due to user request")

    with slots.used("there", OTHER):
        with pytest.raises(SessionError, match="canceling"):
            slots.drop("there", MAKER, canceled)
        with pytest.raises(SessionError, match=f"active for PID {OTHER}"):
            slots.drop("there", MAKER)
    slots.drop("there", MAKER, canceled)
    assert slots.names() == []


def test_a_second_service_is_refused_and_temporary_slots_stay(tmp_path: Path) -> None:
    slots = slots_in(tmp_path)
    slots.create("temporary", SLOT, MAKER, True)
    with pytest.raises(SlotInUseError, match=f"the process {os.getpid()} serves"):
        slots_in(tmp_path)
    assert slots.names() == ["temporary", "there"]


def test_a_service_that_has_ended_holds_nothing(tmp_path: Path) -> None:
    slots = slots_in(tmp_path)
    del slots
    again = ServedSlots(tmp_path / "slots", 4, "max_replication_slots")
    assert again.names() == ["there"]
