"""Calls of the command that are killed, between windows and inside them: what comes in the end is the server's, once.

The server's run is a random workload of sessions in threads. One call has many windows, each of a segment; call by call
the log is cut at random ends of records, into 2 to 40 pieces. The same log is also cut so within one session.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.pg.lsn import Lsn
from headwater.slots.kept_state import find_state
from headwater.slots.slot_directory import read_slot
from oracle.cut_windows import FEWEST, MOST, check_windows
from oracle.decoded_run import DecodedRun
from oracle.killing import SEGMENT_BYTES, Killer, end_of, has, make_slot
from oracle.oracle import TAKEN_FROM
from oracle.slot_calls import SlotCalls
from oracle.streams import RANDOM_PGOUTPUT
from slots.conftest import Command, refused

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1500)]
SHARES = 0.3, 0.8
"""Of the time that a process ran before the one that is killed after a share of it: so that it still runs then."""


def test_one_call_of_many_windows(killed_run: DecodedRun, rng: random.Random, command: Command, tmp_path: Path) -> None:
    stream = killed_run.run.streams[rng.choice(TAKEN_FROM)]
    slot, states = make_slot(command, killed_run.run, stream, stream.start, tmp_path), tmp_path / "states"
    states.mkdir()
    windows = end_of(stream) // SEGMENT_BYTES - stream.start // SEGMENT_BYTES + 1
    assert windows > 1
    bounds = ("--end", Lsn(end_of(stream)), "--window-bytes", "1")
    calls = SlotCalls(command, slot, stream, Killer(tmp_path))
    in_window, stood = has(rng.randint(1, windows - 1), "states/*.state"), {stream.start}
    by_chance = calls.killer.after(rng.uniform(*SHARES))
    for moment in (in_window, rng.choice([by_chance, calls.while_writing(1)])):
        calls.killed(moment, *bounds, "--keep-states", states)
        stood.add(read_slot(slot).confirmed_lsn)
    assert stream.start < find_state(states, end_of(stream)).state.lsn <= end_of(stream)
    calls.finished(*bounds)
    calls.compare(killed_run, stream.messages)
    assert stood <= {stream.start, (confirmed := read_slot(slot).confirmed_lsn)}
    assert calls.more(*bounds) == 0
    assert read_slot(slot).confirmed_lsn == confirmed
    assert calls.kills > 0
    calls.killer.wait()


def test_call_by_call(killed_run: DecodedRun, rng: random.Random, command: Command, tmp_path: Path) -> None:
    name = rng.choice(TAKEN_FROM)
    stream, answers = killed_run.run.streams[name], killed_run.run.calls[name]
    slot = make_slot(command, killed_run.run, stream, answers[0].start, tmp_path)
    killed = sorted(rng.sample([number for number, call in enumerate(answers) if len(call.messages)], 2))
    killer, kills = Killer(tmp_path), 0
    for number, answer in enumerate(answers):
        assert read_slot(slot).confirmed_lsn == answer.start
        calls = SlotCalls(command, slot, stream, killer, f"call-{number:02d}-")
        bounds = ("--end", Lsn(answer.end))
        if answer.error is not None:
            assert answer.error.message in refused(command, *calls.words(*bounds))
            continue
        if number in killed:
            is_first = number == killed[0]
            calls.killed(calls.while_writing() if is_first else killer.after(rng.uniform(*SHARES)), *bounds)
        calls.finished(*bounds)
        calls.compare(killed_run, answer.messages)
        assert calls.more(*bounds) == 0
        assert read_slot(slot).confirmed_lsn == answer.confirmed
        kills += calls.kills
    assert kills > 0
    killer.wait()


def test_one_session_cut_at_random_records(killed_run: DecodedRun, rng: random.Random) -> None:
    """Two streams are cut, each into 2 to 40 windows of its own."""
    for name in ("test_decoding", rng.choice([*RANDOM_PGOUTPUT])):
        check_windows(killed_run, killed_run.run.streams[name], rng.randint(FEWEST, MOST), rng.randrange(1 << 32))
