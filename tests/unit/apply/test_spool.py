"""Spools of streamed transactions: what is added comes back, but for what is rolled back, in memory or in a file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.apply.batches.batch import Messages
from headwater.apply.streamed import spool as spools
from headwater.apply.streamed.spool import Spool
from headwater.errors import SpoolError

TOP = 1000


@pytest.mark.parametrize("memory", [100, 5_000, 1 << 20])
@pytest.mark.parametrize("seed", range(20))
def test_random_subtransactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, seed: int) -> None:
    """The model keeps each message with the subtransactions that it is in."""
    monkeypatch.setattr(spools, "MEMORY_BYTES", memory)
    monkeypatch.setattr(spools, "READ_BYTES", 333)
    random_of, spool, expected = (
        random.Random(seed),
        Spool(TOP, tmp_path / "made"),
        list[tuple[tuple[int, ...], bytes]](),
    )
    path, released, last = [TOP], {TOP: list[int]()}, TOP
    for number in range(400):
        chance = random_of.random()
        if chance < 0.1:
            last += 1
            path.append(last)
            released[last] = []
        elif chance < 0.2 and len(path) > 1:
            gone = path.pop()
            if random_of.random() < 0.5:
                expected = [(within, data) for within, data in expected if gone not in within]
                # As the server does: first those that have ended inside, in the order of their numbers.
                for xid in [*sorted(released[gone]), gone]:
                    spool.roll_back(xid)
            else:
                released[path[-1]] += [*released[gone], gone]
        else:
            data = b"%d" % number + bytes(random_of.randrange(200))
            spool.add(path[-1], data, number)
            expected.append((tuple(path), data))
    assert [data for data, _ in _messages(spool)] == [data for _, data in expected]
    assert (tmp_path / "made").exists() == (memory < 1 << 20)
    spool.close()
    assert not list(tmp_path.rglob("*.*"))


def _messages(spool: Spool) -> list[tuple[bytes, int]]:
    """Return the messages, each with its LSN."""
    return [message for piece in spool.pieces() for message in Messages.parse(piece)]


def test_a_subtransaction_without_changes(tmp_path: Path) -> None:
    spool = Spool(TOP, tmp_path)
    spool.add(TOP, b"a", 1)
    assert spool.roll_back(TOP + 1) is None
    assert _messages(spool) == [(b"a", 1)]


def test_no_place_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "MEMORY_BYTES", 10)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SpoolError, match="could not write changes of a streamed transaction"):
        Spool(TOP, file).add(TOP, bytes(100), 1)
    full = Spool(TOP, tmp_path)
    with Path("/dev/full").open("wb", buffering=0) as device:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: device)
        with pytest.raises(SpoolError, match="No space left on device"):
            full.add(TOP, bytes(100), 1)
