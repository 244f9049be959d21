"""The short form of ``make fuzz``, and that its watchers notice what they are there for."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fuzz import protocol_kinds, workers
from fuzz.corpus import Corpus
from fuzz.kinds import Kind, all_kinds
from fuzz.run import run
from headwater.base.overrides import override

TESTS = Path(__file__).parent.parent
INPUTS, MESSAGES = 120, 6000


@pytest.mark.server
@pytest.mark.timeout(1800)  # Where no test before has had the kernels compiled.
def test_mutated_inputs_give_results_or_errors_of_ours(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzz", "--majors", "16", "--workers", "1", "--inputs", str(INPUTS)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(
        [*command, "--directory", str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [kind.name for kind in all_kinds() if f"\n{kind.name}: " not in done.stdout] == []


def test_messages_of_the_protocol_give_values_or_errors_of_ours() -> None:
    results = run([], protocol_kinds.KINDS, MESSAGES)
    assert results.failures == []
    assert sum(sum(counts.values()) for counts in results.outcomes.values()) >= MESSAGES - len(protocol_kinds.KINDS)


class _Misbehaves(Kind):
    """Every input but a few is fine; those hang, crash, grow, or raise what is not ours."""

    name, share = "misbehaves", 1

    @override
    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._number = 0

    def run(self, rng: random.Random) -> str | None:
        number = rng.randrange(1 << 30)
        if number == HANGS:
            while True:
                pass
        if number == CRASHES:
            ctypes.string_at(8)
        if number == GROWS:
            bytearray(workers.MEMORY_BYTES + (1 << 30))
        if number == RAISES:
            raise IndexError("list index out of range")
        return None


HANGS, CRASHES, GROWS, RAISES = (
    workers.generator(0, _Misbehaves.name, number).randrange(1 << 30) for number in (3, 5, 7, 9)
)


def test_hangs_crashes_growth_and_foreign_errors_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SECONDS", 1.0)
    results = run([], [_Misbehaves], 12)
    failures = {failure.number: failure.what for failure in results.failures}
    assert failures == {3: "hang", 5: "killed by SIGSEGV", 7: "MemoryError", 9: "IndexError"}
    assert sum(results.outcomes[_Misbehaves.name].values()) == 10
