"""``headwater apply`` that takes a lock before each COMMIT, behind the statement that moves the origin.

Whoever holds :data:`LOCK` has its sessions wait there.
"""

from __future__ import annotations

from typing import Any

from headwater.apply.target.connection import Bound, Statement, TargetConnection
from headwater.cli.main import main

LOCK = 77
_TAKE = Bound(Statement(f"SELECT pg_catalog.pg_advisory_xact_lock_shared({LOCK})"))


def lock_ends() -> None:
    """Let sessions take the lock from here on."""
    send = TargetConnection.send

    def locked(connection: TargetConnection, bound: Bound, *arguments: Any, **named: Any) -> None:
        if bound.statement.sql == "COMMIT":
            send(connection, _TAKE)
        send(connection, bound, *arguments, **named)

    setattr(TargetConnection, "send", locked)  # noqa: B010 (a method is no variable to mypy)


if __name__ == "__main__":
    lock_ends()
    main()
