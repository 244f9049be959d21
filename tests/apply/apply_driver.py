"""``headwater apply`` as a process that kills itself: ``apply_driver.py STEP ARGUMENTS...``.

A step is just before, or just behind, what it asks a server and waits for: a command of the publisher's, a slot over
WAL, a sync of the target's pipeline, the end of a COPY, a piece of one. At the STEP-th it kills itself with SIGKILL.
With ``+STEP`` steps are counted from where the main worker's stream has begun; 0 is for never.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from headwater.apply.table_sync.sync_pool import SyncPool
from headwater.apply.table_sync.wal_publisher import WalPublisher
from headwater.apply.target.connection import TargetConnection
from headwater.cli.main import main
from headwater.receiver.replication_connection import ReplicationConnection

_ASKED = {
    TargetConnection: ("sync", "begin_copy", "put_copy", "end_copy"),
    ReplicationConnection: ("rows", "begin"),
    WalPublisher: ("begin", "make_slot", "drop_slot"),
}


def kill_at(step: int) -> None:
    """Count steps from here on, and kill this process at one of them."""
    numbers = itertools.count(1)

    def count() -> None:
        if next(numbers) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for kind, names in _ASKED.items():
        for name in names:
            setattr(kind, name, _counted(getattr(kind, name), count))


def _counted(call: Callable[..., Any], count: Callable[[], None]) -> Callable[..., Any]:
    def counted(*arguments: Any, **named: Any) -> Any:
        count()
        result = call(*arguments, **named)
        count()
        return result

    return counted


def kill_behind_begin(step: int) -> None:
    """Count steps from where the main worker's stream has begun."""
    pool: Any = SyncPool
    begin = pool.begin

    def begins(*arguments: Any) -> None:
        begin(*arguments)
        kill_at(step)

    pool.begin = begins


if __name__ == "__main__":
    (kill_behind_begin if sys.argv[1].startswith("+") else kill_at)(int(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    main()
