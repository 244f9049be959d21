"""The judgement of a service's memory over time."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

from soak.memory import Sample, judged, rss_of_tree

MIB = 1 << 20


def samples(pid: int, begin: int, values: list[int]) -> list[Sample]:
    return [Sample(begin + number, pid, value * MIB) for number, value in enumerate(values)]


def test_growth_of_the_last_life_counts() -> None:
    """What is loaded at the beginning of a life does not, nor does what a former process had."""
    former = samples(1, 0, list(range(100, 300)))
    flat = samples(2, 200, [*range(100, 300, 2), *([300, 304] * 50)])
    judgement = judged([*former, *flat])
    assert judgement.is_flat
    assert judgement.is_small
    assert judgement.peak == 304 * MIB
    assert not judged([*former, *samples(2, 200, list(range(300, 500)))]).is_flat
    assert not judged([*samples(1, 0, [2000]), *flat]).is_small


def test_growth_is_that_of_the_line() -> None:
    judgement = judged(samples(1, 0, list(range(1000, 1201))))
    assert round(judgement.growth / MIB) == 100
    assert round(judgement.slope / MIB) == 3600


def test_children_count() -> None:
    """A process that has a child, which has one, too: each further one is more."""
    code = "import subprocess, sys; n = int(sys.argv[1]); print('x', flush=True)\n"
    code += "if n: subprocess.run([sys.executable, '-c', sys.argv[2], str(n - 1), sys.argv[2]], stdin=0)\n"
    code += "sys.stdin.read()"
    sizes = []
    for depth in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(depth), code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(depth + 1):
            process.stdout.readline()
        sizes.append(rss_of_tree(process.pid))
        process.communicate()
    assert all(larger > smaller + MIB for smaller, larger in pairwise(sizes))
    assert rss_of_tree(process.pid) == 0
