"""``headwater apply`` as a process that kills itself: ``killed_apply.py STEP ARGUMENTS...``.

A step is whatever the process is about to say to the target, or to confirm to the source. At the STEP-th of them it
kills itself with SIGKILL: the step is not done, and nothing is cleaned up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from headwater.apply.target.connection import TargetConnection
from headwater.cli.main import main
from headwater.remote_slots.slot_feed import SlotFeed

_STEPS: tuple[tuple[type, str], ...] = (
    (TargetConnection, "send"),
    (TargetConnection, "sync"),
    (TargetConnection, "drain"),
    (SlotFeed, "confirm"),
)


class Steps:
    """Counts steps.

    Args:
        last: number of the step that is not done.
    """

    def __init__(self, last: int) -> None:
        self._left = last

    def counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return a step that is counted before it is done."""

        def done(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*arguments, **named)

        return done


if __name__ == "__main__":
    steps = Steps(int(sys.argv[1]))
    for kind, name in _STEPS:
        setattr(kind, name, steps.counted(getattr(kind, name)))
    sys.argv = ["headwater", *sys.argv[2:]]
    main()
