"""WAL that is removed: what is old, and what no slot needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.base.locks import lock
from headwater.errors import HeadwaterWarning, UsageError
from headwater.receiver.retention import Retention, needed_by_slots, remove_unneeded
from headwater.slots.slot import Slot, SlotRequest
from headwater.slots.slot_directory import create_slot

SIZE = 1 << 20
REQUEST = SlotRequest((), "", "postgres", "pgoutput")


def segments(directory: Path, count: int) -> None:
    """Make segments from the one of LSN 0/100000 on, and what else lies beside them."""
    for number in range(1, count + 1):
        path = directory / f"0000000100000000{number:08X}"
        path.write_bytes(bytes(SIZE))
        os.utime(path, (number * 1000, number * 1000))
    for name in ("00000002.history", f"0000000100000000{count + 1:08X}.partial", "notes"):
        (directory / name).write_bytes(b"")


def numbers(directory: Path) -> list[int]:
    return sorted(int(path.name[16:], 16) for path in directory.iterdir() if len(path.name) == 24)


def test_by_size(tmp_path: Path) -> None:
    segments(tmp_path, 9)
    reached = 10 * SIZE + 4096
    assert remove_unneeded(tmp_path, reached, Retention.parse("3MB", [])) == 6
    assert numbers(tmp_path) == [7, 8, 9]
    assert remove_unneeded(tmp_path, reached, Retention.parse("3MB", [])) == 0
    assert remove_unneeded(tmp_path, reached, Retention.parse("0B", [])) == 2
    assert numbers(tmp_path) == [9]
    others = {"00000001000000000000000A.partial", "00000002.history", "notes"}
    assert {path.name for path in tmp_path.iterdir()} > others


def test_by_time(tmp_path: Path) -> None:
    segments(tmp_path, 9)
    assert remove_unneeded(tmp_path, 10 * SIZE, Retention.parse("1h", []), lambda: 8600.0) == 5
    assert numbers(tmp_path) == [6, 7, 8, 9]


def test_what_slots_need_stays(tmp_path: Path) -> None:
    place, slots = tmp_path / "wal", tmp_path / "slots"
    place.mkdir()
    segments(place, 9)
    retention = Retention.parse("1B", [slots, tmp_path / "none"])
    create_slot(slots / "physical", Slot(SlotRequest((), "", "", ""), SIZE, None))
    assert needed_by_slots([slots]) is None
    create_slot(slots / "new", Slot(REQUEST, 5 * SIZE, None))
    assert needed_by_slots([slots]) == 0
    assert remove_unneeded(place, 10 * SIZE, retention) == 0
    (slots / "new" / "slot").write_bytes(b"damaged")
    with pytest.warns(HeadwaterWarning, match="no WAL is removed"):
        assert remove_unneeded(place, 10 * SIZE, retention) == 0
    assert numbers(place) == list(range(1, 10))


@pytest.mark.parametrize("text", ["", "10", "GB", "-1GB", "1.5GB", "10 gb", "3weeks"])
def test_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid value for --keep"):
        Retention.parse(text, [])


def test_no_slot_is_made_while_wal_is_removed(tmp_path: Path) -> None:
    """Who makes one looks whether its WAL is there, which is not removed before the slot is there, too.

    What may go is looked for twice: without the lock, as databases may be followed then, and with it.
    """
    place, slots, locked = tmp_path / "wal", tmp_path / "slots", list[bool]()
    place.mkdir()
    segments(place, 3)

    def lock_slots(*, is_shared: bool) -> None:
        descriptor = os.open(slots, os.O_RDONLY)
        locked.append(lock(descriptor, is_shared=is_shared))
        os.close(descriptor)

    def now() -> float:
        lock_slots(is_shared=True)
        return 8600.0

    create_slot(slots / "new", Slot(SlotRequest((), "", "", ""), SIZE, None), lambda: lock_slots(is_shared=False))
    assert remove_unneeded(place, 10 * SIZE, Retention(seconds=1.0, slots=(slots,)), now) == 2
    assert locked == [False, True, False]
