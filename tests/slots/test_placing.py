"""Output and progress are not one file: a process that dies between the two leaves what the next one finishes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.flat_values import same
from headwater.pg.lsn import Lsn
from headwater.slots.slot_directory import open_slot, read_slot
from slots.conftest import Command, ServerRun, create_slot, done, lsns

pytestmark = [pytest.mark.server, pytest.mark.spark]

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
    arguments = [sys.executable, "-c", WRITER, slot, behind, out, str(files)]
    return subprocess.run(arguments, check=False, timeout=120).returncode


@pytest.mark.parametrize("files", range(4), ids=["nothing noted", "output noted", "output in place", "all done"])
def test_a_writer_that_dies_between_output_and_progress(
    command: Command, server_run: ServerRun, tmp_path: Path, files: int
) -> None:
    slot, behind, out = tmp_path / "slot", tmp_path / "behind", tmp_path / "out"
    create_slot(command, slot, server_run)
    done(command, "slot", "copy", slot, behind)
    places = lsns(server_run.lines)
    done(command, "slot", "advance", behind, Lsn(places[len(places) // 2]))
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
