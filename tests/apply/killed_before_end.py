"""``headwater apply`` that kills itself around an end of a transaction of the target's: ``STEP ARGUMENTS...``.

Ends are COMMIT, PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED. At the STEP-th step it kills itself with
SIGKILL: each end has one just before it is sent, when the target has done all before it, and one behind.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from typing import Any

from headwater.apply.target.connection import Bound, TargetConnection
from headwater.cli.main import main

_END = re.compile("COMMIT|PREPARE TRANSACTION|COMMIT PREPARED|ROLLBACK PREPARED")


def kill_at(step: int) -> None:
    """Count steps from here on, and kill this process at one of them."""
    numbers, send = itertools.count(1), TargetConnection.send

    def look(connection: TargetConnection) -> None:
        if next(numbers) == step:
            connection.sync()
            connection.drain()
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(connection: TargetConnection, bound: Bound, *arguments: Any, **named: Any) -> None:
        is_end = _END.match(bound.statement.sql) is not None
        if is_end:
            look(connection)
        send(connection, bound, *arguments, **named)
        if is_end:
            look(connection)

    setattr(TargetConnection, "send", counted)  # noqa: B010 (a method is no variable to mypy)


if __name__ == "__main__":
    kill_at(int(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    main()
