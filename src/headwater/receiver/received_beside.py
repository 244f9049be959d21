"""WAL that is received beside a run which follows it: a receiver in a thread of its own.

Invariants: a receiver that fails lets the run end, and the run then ends by the receiver's error. A lost connection is
a warning, and tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.errors import HeadwaterError, warn
from headwater.jobs.unforeseen import unforeseen
from headwater.receiver.wal_receiver import Reached, ReceiveRequest, WalReceiver


@contextmanager
def received_beside(
    request: ReceiveRequest, stop_run: Callable[[], None], report: Callable[[Reached], None] = lambda _: None
) -> Iterator[None]:
    """Receive WAL as long as the ``with`` block runs.

    Args:
        request: what is received.
        stop_run: lets the run in the block end, as nothing more comes.
        report: called whenever more has been synced, in the receiver's thread.

    Raises:
        HeadwaterError: the receiver's error, behind the block.
    """
    receiver, errors = WalReceiver(request, report, warn), list[HeadwaterError]()

    def receive() -> None:
        try:
            receiver.run()
        except Exception as error:
            errors.append(error if isinstance(error, HeadwaterError) else unforeseen("the receiver", error))
            stop_run()

    thread = threading.Thread(target=receive, name="headwater-receive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        receiver.stop()
        thread.join()
    if errors:
        raise errors[0]
