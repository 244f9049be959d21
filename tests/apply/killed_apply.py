"""``headwater apply`` as a process that kills itself: ``killed_apply.py [small] STEP ARGUMENTS...``.

A step is whatever the process is about to say to the target, or to confirm to the source. At the STEP-th of them it
kills itself with SIGKILL: the step is not done, and nothing is cleaned up. At 0 it does not. With ``small`` little work
is many units, for sessions that apply at a time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from headwater.apply.parallel import parallel_applier
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


def count_steps(steps: Steps) -> None:
    """Have steps counted from here on."""
    for kind, name in _STEPS:
        setattr(kind, name, steps.counted(getattr(kind, name)))


if __name__ == "__main__":
    if sys.argv[1] == "small":
        parallel_applier.FEWEST_CHANGES, parallel_applier.MOST_UNIT_CHANGES = 20, 60
        del sys.argv[1]
    count_steps(Steps(int(sys.argv[1])))
    sys.argv = ["headwater", *sys.argv[2:]]
    main()
