"""Xids begin again in a window, between windows, and shortly before the catalog was copied: the server's word is ours.

The server's epoch is not 0. Majors are those of :data:`oracle.xid_wrap.MAJORS`; PostgreSQL 17 is left out on purpose,
for the reason that is given there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from control_files import read_control_file
from headwater.pg.lsn import Lsn
from headwater.reorder.commits.state import State
from headwater.slots.slot_directory import read_slot
from oracle.cut_windows import MOST, check_calls, check_planner, check_states, check_windows
from oracle.decoded_run import DecodedRun
from oracle.killing import Killer, make_slot
from oracle.oracle import WRAP_TAKEN_FROM
from oracle.scenario_wrap import WITHIN
from oracle.slot_calls import SlotCalls
from oracle.streams import OTHER_SETTINGS, PGOUTPUT, TEST_DECODING, UP_TO
from oracle.xid_wrap import WRAP
from slots.conftest import Command

pytestmark = [pytest.mark.server]
HALF = 1 << 31


@pytest.mark.parametrize("name", [*TEST_DECODING, *PGOUTPUT, OTHER_SETTINGS, UP_TO])
def test_one_window(wrap_run: DecodedRun, name: str) -> None:
    wrap_run.check(wrap_run.run.streams[name])


@pytest.mark.parametrize("name", ["test_decoding", "pgoutput, all", "pgoutput, lists"])
def test_windows(wrap_run: DecodedRun, name: str) -> None:
    for windows in (2, 7, MOST):
        check_windows(wrap_run, wrap_run.run.streams[name], windows, windows)


@pytest.mark.parametrize("name", WRAP_TAKEN_FROM)
def test_calls(wrap_run: DecodedRun, name: str) -> None:
    check_calls(wrap_run, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRAP_TAKEN_FROM)
def test_calls_of_a_slot(wrap_run: DecodedRun, command: Command, tmp_path: Path, name: str) -> None:
    stream, answers = wrap_run.run.streams[name], wrap_run.run.calls[name]
    slot, killer = make_slot(command, wrap_run.run, stream, answers[0].start, tmp_path), Killer(tmp_path)
    for number, answer in enumerate(answers):
        calls, bounds = SlotCalls(command, slot, stream, killer, f"call-{number:02d}-"), ("--end", Lsn(answer.end))
        calls.finished(*bounds)
        calls.compare(wrap_run, answer.messages)
        assert calls.more(*bounds) == 0
        assert read_slot(slot).confirmed_lsn == answer.confirmed


def test_states(wrap_run: DecodedRun) -> None:
    check_states(wrap_run, wrap_run.run.streams["pgoutput, all"], MOST, 1)


def test_one_planner_of_all_windows(wrap_run: DecodedRun, tmp_path: Path) -> None:
    check_planner(wrap_run, wrap_run.run.streams["pgoutput, all"], tmp_path)


def test_it_is_where_it_should_be(wrap_run: DecodedRun, wrap: str) -> None:
    """In the window transactions of before are open behind it; else the catalog's copy is from behind it."""
    copied = read_control_file(wrap_run.run.backup).next_xid
    xids = wrap_run.run.streams["test_decoding"].messages.column("xid").to_numpy()
    assert len(xids) > 20
    states = check_states(wrap_run, wrap_run.run.streams["test_decoding"], MOST, 2)
    assert WRAP < states[-1].control.next_xid < WRAP + 1000
    if wrap == WITHIN:
        assert WRAP - 100 < copied < WRAP - 50
        assert (xids > HALF).any()
        assert (xids < HALF).any()
        assert any(_has_open(state, HALF) and state.control.next_xid < WRAP for state in states)
        assert any(_has_open(state, HALF) and state.control.next_xid > WRAP for state in states)
    else:
        assert WRAP < copied < WRAP + 100
        assert (xids < HALF).all()


def _has_open(state: State, since: int) -> bool:
    """Tell whether a transaction is open whose xid has a low half from a value on."""
    return bool(np.any(state.left.rows.xids.xid > since))
