"""Output and progress are not one file: a process that dies between the two leaves what the next one finishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.base.value_codec import same
from headwater.errors import SlotError
from headwater.pg.lsn import Lsn
from headwater.slots.slot import SlotStatistics
from headwater.slots.slot_directory import open_slot, read_slot
from slots.conftest import Command, ServerRun, create_slot, done, lsns, refused

pytestmark = [pytest.mark.server]

WRITER = """
import os, signal, sys
from pathlib import Path

from headwater.slots.slot import SlotStatistics
from headwater.slots.slot_directory import open_slot, read_slot

slot, behind, out, left = *map(Path, sys.argv[1:4]), int(sys.argv[4])
replace = os.replace

def replace_or_die(*names):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names)

with open_slot(slot) as opened:
    part = opened.part_of(out)
    part.write_bytes(b"output")
    os.replace = replace_or_die
    opened.place(part, out, read_slot(behind).state, SlotStatistics(calls=1))
"""
"""Lets output take its place as a call does, and dies before it puts a file in its place, after so many of them."""


def write(slot: Path, behind: Path, out: Path, files: int) -> int:
    """Run the writer; its exit status."""
    arguments: list[str | Path] = [sys.executable, "-c", WRITER, slot, behind, out, str(files)]
    return subprocess.run(arguments, check=False, timeout=120).returncode


def slots_and_output(command: Command, made: ServerRun, directory: Path) -> tuple[Path, Path, Path]:
    """Make a slot, one that stands half-way through the log, and the path of output."""
    slot, behind = directory / "slot", directory / "behind"
    create_slot(command, slot, made)
    done(command, "slot", "copy", slot, behind)
    places = lsns(made.lines)
    done(command, "slot", "advance", behind, Lsn(places[len(places) // 2]))
    return slot, behind, directory / "out"


@pytest.mark.parametrize("files", range(4), ids=["nothing noted", "output noted", "output in place", "all done"])
def test_a_writer_that_dies_between_output_and_progress(
    command: Command, server_run: ServerRun, tmp_path: Path, files: int
) -> None:
    slot, behind, out = slots_and_output(command, server_run, tmp_path)
    begun, reached = read_slot(slot).confirmed_lsn, read_slot(behind).confirmed_lsn
    assert begun < reached
    assert write(slot, behind, out, files) == (-signal.SIGKILL if files < 3 else 0)
    assert read_slot(slot).confirmed_lsn == (reached if files == 3 else begun)
    assert out.exists() is (files > 1)
    with open_slot(slot) as opened:
        stands = opened.slot
    assert (stands.confirmed_lsn, stands.statistics.calls) == ((reached, 1) if files else (begun, 0))
    assert out.exists() is (files > 0)
    if not files:
        assert write(slot, behind, out, 3) == 0
    assert out.read_bytes() == b"output"
    assert same(read_slot(slot).state, read_slot(behind).state)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("files", [1, 2], ids=["output noted", "output in place"])
def test_a_killed_call_that_is_tried_again_does_not_replace_its_output(
    command: Command, server_run: ServerRun, tmp_path: Path, files: int
) -> None:
    """Its output was complete: the next call with the same file finds it there, and the one after that is refused."""
    slot, behind, out = slots_and_output(command, server_run, tmp_path)
    assert write(slot, behind, out, files) == -signal.SIGKILL
    status, _, errors = command("decode", "--slot", slot, "-q", "--out", out)
    assert (status, out.read_bytes()) == (0, b"output")
    assert f"has taken its place: {out}; nothing more is decoded" in errors
    assert read_slot(slot).confirmed_lsn == read_slot(behind).confirmed_lsn
    assert "may be what an earlier call of the slot has delivered" in refused(
        command, "decode", "--slot", slot, "-q", "--out", out
    )
    assert "may be what" in refused(command, "decode", "--slot", slot, "--peek", "-q", "--out", out)
    assert out.read_bytes() == b"output"
    done(command, "decode", "--slot", slot, "-q", "--with-lsn", "--out", tmp_path / "next")
    rest = (tmp_path / "next").read_bytes()
    assert rest
    assert server_run.lines.endswith(rest)


def test_slots_of_one_name_do_not_meet_where_their_output_waits(
    command: Command, server_run: ServerRun, tmp_path: Path
) -> None:
    slots = [tmp_path / folder / "orders" for folder in ("one", "two")]
    for slot in slots:
        create_slot(command, slot, server_run)
    done(command, "slot", "copy", slots[0], tmp_path / "behind")
    done(command, "slot", "advance", tmp_path / "behind", Lsn(lsns(server_run.lines)[-1]))
    outs = [tmp_path / f"out of {slot.parent.name}" for slot in slots]
    assert write(slots[0], tmp_path / "behind", outs[0], 1) == -signal.SIGKILL
    assert write(slots[1], tmp_path / "behind", outs[1], 3) == 0
    with open_slot(slots[0]) as opened:
        assert opened.settled == str(outs[0])
    assert [out.read_bytes() for out in outs] == [b"output", b"output"]
    assert not list(tmp_path.glob(".*"))


def test_a_note_that_cannot_be_written_leaves_no_output_behind(
    command: Command, server_run: ServerRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot on a full disk: output that waits beside its place would stay there once the slot is dropped."""
    slot, behind, out = slots_and_output(command, server_run, tmp_path)
    state, before = read_slot(behind).state, read_slot(slot)
    assert state is not None

    def fail(path: Path, _value: object) -> None:
        raise SlotError("could not write: No space left on device", file=str(path))

    with open_slot(slot) as opened:
        part = opened.part_of(out)
        part.write_bytes(b"output")
        monkeypatch.setattr("headwater.slots.slot_directory.save_value", fail)
        with pytest.raises(SlotError, match="No space left"):
            opened.place(part, out, state, SlotStatistics(calls=1))
    assert not part.exists()
    assert not out.exists()
    assert same(read_slot(slot), before)


def test_output_and_its_name_last_before_they_are_noted(
    command: Command, server_run: ServerRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note of output that a loss of power took away would count as output that is in its place already."""
    slot, behind, out = slots_and_output(command, server_run, tmp_path)
    state, synced = read_slot(behind).state, list[str]()
    assert state is not None
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    with open_slot(slot) as opened:
        part = opened.part_of(out)
        part.write_bytes(b"output")
        monkeypatch.setattr(os, "fsync", note)
        opened.place(part, out, state, SlotStatistics(calls=1))
    written = [f"{slot}/slot.part", str(slot)]
    assert synced == [str(part), str(tmp_path), *written, str(tmp_path), *written]
