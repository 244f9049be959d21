"""Runs of the command that a proxy kills at a request."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bad_input.running_command import running
from landing.stores.proxy import KILL, KILL_BEHIND, PASS, StoreProxy


def is_killed(words: Sequence[object], proxy: StoreProxy, directory: Path) -> bool:
    """Run the command, which the proxy may kill at a request; tell whether it has, else the command has succeeded.

    Args:
        words: the command's; proxy: that it asks through; directory: for temporary files.
    """
    with running(*words, directory=directory) as process:
        proxy.kill = partial(os.kill, process.process.pid, signal.SIGKILL)
        output = process.standard_error()
        status = process.process.wait()
    assert status in (0, -signal.SIGKILL), output
    return status != 0


def is_killed_at_write(
    words: Sequence[object], proxy: StoreProxy, directory: Path, rng: random.Random, among: tuple[int, int] | None
) -> bool:
    """Run the command, killed before one of its requests that write, or when that is done; see :func:`is_killed`.

    Args:
        rng: chooses the request; among: the first and the last that it may be, None for none: then it is not killed.
    """
    if among is None:
        proxy.choose = lambda *_: PASS
    else:
        proxy.nth_write(rng.randint(*among), rng.choice((KILL, KILL_BEHIND)))
    return is_killed(words, proxy, directory)
