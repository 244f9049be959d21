"""A run: how many inputs of each kind, progress, failures as files, and one input once more.

``python -m fuzz --inputs N`` (``make fuzz INPUTS=N``) goes through ``N`` inputs of all kinds; ``--only KIND:NUMBER``
through a single one, here in this process.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fuzz.corpus import Corpus, get_corpus
from fuzz.kinds import Kind, all_kinds
from fuzz.workers import Failure, Part, Told, strict_warnings, watched

Cause = tuple[str, str, str]
"""Kind of input, exception or end of the worker, place in the code."""

MAJORS = (14, 15, 16, 17, 18)
_SAY_SECONDS = 20.0


def parts_of(kinds: Sequence[type[Kind]], inputs: int, first: int, workers: int) -> list[list[Part]]:
    """Give every worker its parts: a share of each kind's inputs.

    Args:
        kinds: them.
        inputs: of all kinds together.
        first: number that each kind begins with.
        workers: how many share.
    """
    whole = sum(kind.share for kind in kinds)
    counts = {kind: max(1, round(inputs * kind.share / whole)) for kind in kinds}
    return [
        [part for kind, count in counts.items() if (part := Part(kind, first + n, first + count, workers)).count]
        for n in range(workers)
    ]


def run(
    corpora: Sequence[Corpus],
    kinds: Sequence[type[Kind]],
    inputs: int,
    *,
    seed: int = 0,
    first: int = 0,
    workers: int = 1,
    failures: Path | None = None,
) -> Told:
    """Go through inputs.

    Args:
        corpora: what is mutated.
        kinds: kinds of input.
        inputs: how many, of all kinds.
        seed: of the run; first: number of each kind's first input.
        workers: processes side by side.
        failures: say how it goes, and leave a file there for each cause of failures.
    """
    scratch = Path(tempfile.mkdtemp(prefix="headwater-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    parts = parts_of(kinds, inputs, first, workers)
    total, began, last, results = sum(part.count for some in parts for part in some), time.monotonic(), 0.0, Told()
    count, causes = 0, Counter[Cause]()

    def make(kind: type[Kind], place: Path) -> Kind:
        directory = Path(tempfile.mkdtemp(dir=place))
        # What a kind takes on the way in by chance is the same in every worker.
        random.seed(0)
        return kind(corpora, directory)

    try:
        for results in watched(parts, seed, make, scratch):
            if failures is not None and time.monotonic() - last > _SAY_SECONDS:
                last = time.monotonic()
                count = _say_failures(results.failures[count:], seed, failures, causes) + count
                done = sum(sum(counts.values()) for counts in results.outcomes.values())
                print(f"{done:>9} of {total} inputs, {len(results.failures)} failed, {last - began:.0f} s", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if failures is not None:
        _say_failures(results.failures[count:], seed, failures, causes)
    return results


def _say_failures(failures: Sequence[Failure], seed: int, directory: Path, causes: Counter[Cause]) -> int:
    """Print those that look like another cause than all before, with a file for each; how many there were."""
    for failure in failures:
        cause = failure.kind, failure.what, failure.where
        causes[cause] += 1
        if causes[cause] == 1:
            again = f"make fuzz SEED={seed} ONLY='{failure.kind}:{failure.number}'"
            directory.mkdir(parents=True, exist_ok=True)
            file = directory / f"{failure.kind.replace(' ', '-')}-{seed}-{failure.number}.txt"
            file.write_text(f"{again}\n{failure.what}\n{failure.text}")
            print(f"FAILED: {failure.kind} {failure.number}: {failure.what} {failure.where}\n  {again}", flush=True)
    return len(failures)


def _report(results: Told) -> None:
    print()
    for kind, counts in results.outcomes.items():
        counted = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        print(f"{kind}: {sum(counts.values())} inputs: {counted}")
    print(f"{sum(sum(counts.values()) for counts in results.outcomes.values())} inputs, {len(results.failures)} failed")


def _once(corpora: Sequence[Corpus], only: str, seed: int) -> None:
    """Run one input, with whatever it raises."""
    name, number = only.rsplit(":", 1)
    (kind,) = [kind for kind in all_kinds() if kind.name == name]
    strict_warnings()
    with tempfile.TemporaryDirectory() as scratch:
        from fuzz.workers import generator

        print(kind(corpora, Path(scratch)).run(generator(seed, name, int(number))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if an input failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description="mutated inputs in bulk")
    parser.add_argument("--inputs", type=int, default=100_000, help="how many, of all kinds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of each kind's first input")
    parser.add_argument("--kinds", help="names, with commas between them")
    parser.add_argument("--only", help="KIND:NUMBER, a single input")
    parser.add_argument("--majors", default=",".join(map(str, MAJORS)))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--directory", type=Path, default=Path("build/fuzz"), help="where server's files are kept")
    asked = parser.parse_args(arguments)
    # So that directories go and workers end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    corpora = [get_corpus(asked.directory, int(major)) for major in asked.majors.split(",")]
    if asked.only:
        _once(corpora, asked.only, asked.seed)
        return 0
    wanted = asked.kinds.split(",") if asked.kinds else None
    kinds = [kind for kind in all_kinds() if wanted is None or kind.name in wanted]
    failures = asked.directory / "failures"
    results = run(
        corpora, kinds, asked.inputs, seed=asked.seed, first=asked.first, workers=asked.workers, failures=failures
    )
    _report(results)
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
