"""Threads that copy one table together, each by connections of its own.

PostgreSQL: no counterpart: a table is copied by one worker there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


def run_together(runs: list[Callable[[], None]], failed: Callable[[BaseException], None]) -> None:
    """Run functions at once, each in a thread, and wait for all.

    Args:
        runs: the functions; failed: is told of what one of them raises, in its thread.
    """

    def guarded(run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # whatever it is, who waits has to hear of it
            failed(error)

    threads = [threading.Thread(target=guarded, args=(run,), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
