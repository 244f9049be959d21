"""Step 5's hand-over: files of messages taken in output order while later ones are still made.

A file is there when it has its name (:mod:`headwater.pipeline.message_files`), so the driver need not wait for the
job's end to begin with the first. What was taken is removed at once: a window needs little room beside its output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

R = TypeVar("R")

Deliver = Callable[[str], None]
"""Takes the path of a whole file."""

POLL_SECONDS = 0.005


def deliver_while_running(
    job: Callable[[], R], cancel: Callable[[], None], paths: Sequence[str], deliver: Deliver
) -> R:
    """Run a job in a thread, and hand its files over in order as they appear; each is removed then.

    Args:
        job: makes all of the files.
        cancel: ends the job before its time, when a file could not be delivered.
        paths: them, in output order.
        deliver: called in this thread, once per file.

    Returns:
        what the job returned.

    Raises:
        HeadwaterError: what the job raised; files before may have been delivered.
    """
    with ThreadPoolExecutor(1, "headwater-job") as pool:
        running = pool.submit(job)
        try:
            for path in paths:
                _await(path, running)
                deliver(path)
                os.unlink(path)
        except BaseException:
            if not running.done():
                cancel()
            raise
        return running.result()


def _await(path: str, running: Future[R]) -> None:
    """Wait until a file is there; raises what the job raised instead of it."""
    while not os.path.exists(path) and not running.done():
        wait([running], POLL_SECONDS)
    if running.done():
        running.result()
