"""Locks that a publisher waits for, told of: what is asked of it at a start may wait for somebody's transaction.

Publishers of 16 and newer open each published table to list them, so a table that is locked exclusively is waited for.
So do all that make a slot, for transactions that run. A second connection asks who is in the way.

PostgreSQL: pg_get_publication_tables, pg_blocking_pids.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.table_sync.sync_slots import open_server
from headwater.apply.table_sync.wal_publisher import Publisher, WalPublisher
from headwater.errors import ServerError

WAIT_SECONDS = 3.0

_BLOCKING = "SELECT DISTINCT pid FROM unnest(pg_catalog.pg_blocking_pids({})) pid ORDER BY pid"

Say = Callable[[str], None]


@contextmanager
def telling_of_locks(request: ApplyRequest, source: Publisher, say: Say) -> Iterator[None]:
    """Tell of what a publisher's session waits for, for as long as this lasts.

    Args:
        request: what is asked for; source: the session; say: gets lines.
    """
    if isinstance(source, WalPublisher):
        yield
        return
    has_ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(request, source.backend_pid, has_ended, say), daemon=True)
    watching.start()
    try:
        yield
    finally:
        has_ended.set()


def _watch(request: ApplyRequest, process: int, has_ended: threading.Event, say: Say) -> None:
    before = ""
    # A publisher that is no server has no such function, and one that is lost is told of by whoever waits for it.
    with suppress(ServerError):
        while not has_ended.wait(WAIT_SECONDS):
            with open_server(request) as asking:
                pids = [str(pid) for (pid,) in asking.rows(_BLOCKING.format(process))]
            text = ", ".join("a prepared transaction" if pid == "0" else f"process {pid}" for pid in pids)
            if text and text != before and not has_ended.is_set():
                say(f"the publisher waits for a lock that is held there by {text}")
            before = text
