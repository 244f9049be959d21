"""Calls of the command that are killed, between windows and inside them: what comes in the end is the server's, once.

The server's run is a random workload of sessions in threads. One call has many windows, each of a segment; call by call
the log is cut at random ends of records, into 2 to 40 pieces.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.demo.stream_comparison import joined, messages_table
from headwater.pg.lsn import Lsn
from headwater.slots.kept_state import find_state
from headwater.slots.slot_directory import read_slot
from oracle.decoded_run import DecodedRun
from oracle.killing import SEGMENT_BYTES, Killer, Moment, end_of, has, make_slot
from oracle.oracle import TAKEN_FROM
from oracle.streams import Stream
from slots.conftest import Command, done, refused

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]


def test_one_call_of_many_windows(killed_run: DecodedRun, rng: random.Random, command: Command, tmp_path: Path) -> None:
    stream = killed_run.run.streams[rng.choice(TAKEN_FROM)]
    slot, states = make_slot(command, killed_run.run, stream, stream.start, tmp_path), tmp_path / "states"
    states.mkdir()
    windows = end_of(stream) // SEGMENT_BYTES - stream.start // SEGMENT_BYTES + 1
    assert windows > 1
    bounds = ("--end", Lsn(end_of(stream)), "--window-bytes", "1")
    calls = _Calls(command, slot, stream, Killer(tmp_path))
    in_window, stood = has(rng.randint(1, windows - 1), "states/*.state"), {stream.start}
    by_chance = calls.killer.after(rng.uniform(0.3, 1.2))
    for moment in (in_window, rng.choice([by_chance, calls.while_writing(1)])):
        calls.killed(moment, *bounds, "--keep-states", states)
        stood.add(read_slot(slot).confirmed_lsn)
    assert stream.start < find_state(states, end_of(stream)).state.lsn <= end_of(stream)
    calls.finished(*bounds)
    calls.compare(killed_run, stream.messages)
    assert stood <= {stream.start, read_slot(slot).confirmed_lsn}
    assert calls.more(*bounds) == 0
    calls.killer.wait()


def test_call_by_call(killed_run: DecodedRun, rng: random.Random, command: Command, tmp_path: Path) -> None:
    name = rng.choice(TAKEN_FROM)
    stream, answers = killed_run.run.streams[name], killed_run.run.calls[name]
    slot = make_slot(command, killed_run.run, stream, answers[0].start, tmp_path)
    killed = sorted(rng.sample([number for number, one in enumerate(answers) if len(one.messages)], 2))
    killer = Killer(tmp_path)
    for number, answer in enumerate(answers):
        assert read_slot(slot).confirmed_lsn == answer.start
        calls = _Calls(command, slot, stream, killer, f"call-{number:02d}-")
        bounds = ("--end", Lsn(answer.end))
        if answer.error is not None:
            assert answer.error.message in refused(command, *calls.words(*bounds))
            continue
        if number in killed:
            is_first = number == killed[0]
            calls.killed(calls.while_writing() if is_first else killer.after(rng.uniform(0.3, 1.2)), *bounds)
        calls.finished(*bounds)
        calls.compare(killed_run, answer.messages)
        assert read_slot(slot).confirmed_lsn == answer.confirmed
        if number in (*killed, len(answers) - 1):
            assert calls.more(*bounds) == 0
    killer.wait()


class _Calls:
    """Calls of a slot to the same end, killed and not; each that comes to its end has output of its own."""

    def __init__(self, command: Command, slot: Path, stream: Stream, killer: Killer, name: str = "") -> None:
        self.killer = killer
        self._command, self._slot, self._stream, self._name = command, slot, stream, name
        self._is_text = stream.plugin == "test_decoding"
        self._outs: list[Path] = []

    def words(self, *bounds: str | Path | Lsn) -> tuple[str | Path, ...]:
        """Another call."""
        suffix = "lines" if self._is_text else "parquet"
        self._outs.append(self.killer.directory / f"{self._name}{len(self._outs)}.{suffix}")
        form = ("--with-lsn",) if self._is_text else ()
        return ("decode", "--slot", self._slot, "-q", *form, *map(str, bounds), "--out", self._outs[-1])

    def while_writing(self, number: int = 0) -> Moment:
        """When the call of a number, the first has 0, has begun with its output."""
        return has(1, f".headwater-*/{self._name}{number}.*")

    def killed(self, moment: Moment, *bounds: str | Path | Lsn) -> None:
        """One that is killed, unless it ends before."""
        self.killer.kills(moment, *self.words(*bounds))

    def finished(self, *bounds: str | Path | Lsn) -> None:
        """One that comes to its end."""
        done(self._command, *self.words(*bounds))

    def more(self, *bounds: str | Path | Lsn) -> int:
        """What one more gives."""
        self.finished(*bounds)
        return len(self._said(self._outs[-1:]))

    def compare(self, decoded: DecodedRun, expected: pa.Table) -> None:
        """All of them together against the server."""
        expected = _lines(expected) if self._is_text else expected
        decoded.compare(self._stream, expected, self._said(self._outs))

    def _said(self, outs: Sequence[Path]) -> pa.Table:
        made = [out for out in outs if out.exists()]
        if self._is_text:
            return _table_of(b"".join(out.read_bytes() for out in made))
        return joined(pq.read_table(out) for out in made)


def _lines(messages: pa.Table) -> pa.Table:
    """Messages as the command prints them with --with-lsn."""
    rows = zip(*(messages.column(name).to_pylist() for name in ("lsn", "xid", "data")), strict=True)
    return _table_of(b"".join(f"{Lsn(lsn)}\t{xid}\t".encode() + data + b"\n" for lsn, xid, data in rows))


def _table_of(printed: bytes) -> pa.Table:
    """A message for each line."""
    return messages_table((0, 0, line) for line in printed.splitlines(keepends=True))
