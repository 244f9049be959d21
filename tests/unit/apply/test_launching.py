"""The parts of the launcher that need no server: pauses, places that processes share, the socket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.apply.incoming.limits import WorkerLimits
from headwater.apply.launcher.back_off import BackOff
from headwater.apply.launcher.control_socket import LauncherMissingError, ask_launcher
from headwater.errors import UsageError


def test_pauses_double_up_to_a_bound() -> None:
    pauses = BackOff(5.0, 60.0)
    assert [pauses.ended(100.0, 101.0) - 100.0 for _ in range(6)] == [5, 10, 20, 40, 60, 60]
    assert pauses.ended(100.0, 170.0) == 105.0
    assert BackOff(90.0, 60.0).ended(0.0, 1.0) == 90.0
    assert BackOff(0.0).ended(5.0, 5.0) == 5.1


def test_places_are_shared(tmp_path: Path) -> None:
    limits = WorkerLimits(tmp_path, "t", connections=3, copies=2)
    first = limits.copy()
    assert first is not None
    assert limits.connect_up_to(5).count == 2
    assert limits.copy() is None
    first.give_back()
    first.give_back()
    assert limits.copy() is not None
    other = WorkerLimits(tmp_path, "other", connections=1, copies=2)
    assert other.copy() is not None
    assert other.connect() is None


def test_no_limits() -> None:
    limits = WorkerLimits()
    assert limits.connect_up_to(5).count == 5
    assert limits.copy() is not None


HOLDING = """
import sys, time
from pathlib import Path
from headwater.apply.incoming.limits import WorkerLimits
lease = WorkerLimits(Path(sys.argv[1]), "t", connections=1).connect()
print(lease is not None, flush=True)
time.sleep(600)
"""


def test_a_place_goes_with_its_process(tmp_path: Path) -> None:
    limits = WorkerLimits(tmp_path, "t", connections=1)
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert limits.connect() is None
        holder.kill()
        holder.wait()
        assert limits.connect() is not None


def test_there_is_no_launcher(tmp_path: Path) -> None:
    with pytest.raises(LauncherMissingError, match="no launcher runs there"):
        ask_launcher(tmp_path, "list")
    with pytest.raises(UsageError, match="expected 100 at most"):
        ask_launcher(tmp_path / ("x" * 120), "list")
