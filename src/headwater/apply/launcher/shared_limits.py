"""The limits of a launcher's subscriptions: how many connections a target has, how many tables are copied at a time.

Each subscription has its main connection in any case; the rest of a target's places is shared by all of its
subscriptions. Targets are one if their strings lead to one host and port.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from headwater.apply.incoming.limits import WorkerLimits
from headwater.apply.incoming.requests import ApplyRequest
from headwater.errors import UsageError
from headwater.receiver.server_extra import load_psycopg

_OF_SERVER = ("host", "hostaddr", "port", "service")


def limited(
    requests: Mapping[str, ApplyRequest], directory: Path, connections: int | None, copies: int | None
) -> dict[str, ApplyRequest]:
    """Give requests the limits that they share.

    Args:
        requests: by name; directory: of the places.
        connections: most to a target; copies: most tables that are copied at a time; None for no limit.

    Raises:
        UsageError: a target has more subscriptions than connections, or none is left for copies.
    """
    targets = {name: _server(request.target) for name, request in requests.items()}
    counts = Counter(targets.values())
    return {
        name: _with_limits(request, targets[name], counts[targets[name]], directory, connections, copies)
        for name, request in requests.items()
    }


def _with_limits(
    request: ApplyRequest, target: str, count: int, directory: Path, connections: int | None, copies: int | None
) -> ApplyRequest:
    if connections is None:
        return replace(request, limits=WorkerLimits(directory, target, None, copies))
    left = connections - count
    needs_more = request.wal is None and request.copies_data
    if left < needs_more:
        raise UsageError(
            f"a target has {count} subscriptions, for which {connections} connections are not enough",
            hint="each has one, and one is needed for copies: raise --max-connections",
        )
    return replace(request, limits=WorkerLimits(directory, target, left, copies))


def _server(conninfo: str) -> str:
    """Return what names the server of a target among others; no part of a password."""
    psycopg = load_psycopg("a target")
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(conninfo)
    except psycopg.Error:
        # What libpq says of it may have a part of a password.
        raise UsageError("the target's connection string is malformed") from None
    words = "\0".join(f"{name}={parts.get(name)}" for name in _OF_SERVER)
    return hashlib.sha256(words.encode()).hexdigest()[:16]
