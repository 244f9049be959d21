"""A process that keeps what it frees touches memory once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Page faults of arrays of 40 MB, each freed before the next one is made.
PROCESS = """
import resource, sys
import numpy as np
from headwater.base.malloc_settings import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
np.ones(5 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(5 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize("word", ["keep", "give back"])
def test_freed_memory_is_used_again(word: str) -> None:
    command = [sys.executable, "-c", PROCESS, word]
    run = subprocess.run(command, env={"NUMPY_MADVISE_HUGEPAGE": "0"}, capture_output=True, text=True, check=True)
    assert (int(run.stdout) < 1000) == (word == "keep")
