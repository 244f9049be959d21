"""Work on some of the machine's cores, and on all the memory that a process has touched."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier

from headwater.base.malloc_settings import keep_freed_memory


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Run what this thread starts in the block on so many cores: processes inherit it, Java counts no others."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def workers_on_cores(count: int) -> ProcessPoolExecutor:
    """Start new processes, on as many cores in all, that keep freed memory as Spark's workers do, and begin together.

    Raises:
        SystemExit: there are fewer cores.
    """
    if len(os.sched_getaffinity(0)) < count:
        raise SystemExit(f"{count} cores are needed, found {len(os.sched_getaffinity(0))}")
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, context, initializer=_ready, initargs=(count, context.Barrier(count)))


def new_process() -> ProcessPoolExecutor:
    """Start one new process: what it starts ends with it."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def cores_said(count: int) -> str:
    """Write a number of cores in words."""
    return "one core" if count == 1 else f"{count} cores"


def _ready(count: int, all_there: Barrier) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    keep_freed_memory()
    all_there.wait()
