"""The process Spark forks its Python workers from (``spark.python.daemon.module``).

It loads the kernels once, from the cache on disk, and then does what Spark's own daemon does; the workers it forks
find them in memory. On a cluster it first takes what travelled (:mod:`headwater.spark.kernel_travel`): an executor's
current directory is where Spark puts an application's files. A worker runs a full garbage collection after every task;
what was loaded here is kept out of it, or each would look at every object of the compiler, 30 to 100 milliseconds a
task. Workers keep the memory that they free (:mod:`headwater.base.malloc_settings`).

Spark lets go of workers that have had nothing to do for a minute, as while somebody reads the output page by page. It
lets go of all of them, and of this process, when it ends, maybe before they are ready. They end without the traceback
that its daemon prints of it. Processes that plan for the data source are forked from daemons of Spark's own, which no
setting replaces. There :func:`end_quietly` sees to it, once the data source is loaded, and for streams
:func:`leave_if_alone`.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def preload(rooms: Sequence[str] = ()) -> int:
    """Import the rooms that tasks use and load their compiled kernels.

    Args:
        rooms: modules that tasks use in addition to those of decoding.

    Returns:
        the number of kernels that were loaded.
    """
    from headwater.base.kernel_cache import is_executor
    from headwater.spark.kernel_loading import import_rooms, load_kernels, prepare_values
    from headwater.spark.kernel_travel import receive_kernels

    import_rooms(rooms)
    prepare_values()
    if is_executor():
        receive_kernels(Path.cwd())
    return load_kernels()


def _ends_quietly(serving: Callable[..., T]) -> Callable[..., T]:
    """Let what a process serves end when nobody reads what it writes any more."""

    def run(*arguments: object) -> T:
        try:
            return serving(*arguments)
        except ConnectionError:
            os._exit(1)

    return run


class _QuietTraceback:
    """A stand-in for Python's module in Spark's daemon: tracebacks are printed, but for that nobody reads any more."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


def end_quietly() -> None:
    """End without a traceback when Spark lets go of a process that a daemon of Spark's own has forked."""
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", "") == "pyspark.daemon":
        vars(main)["traceback"] = _QuietTraceback


def leave_if_alone() -> None:
    """End the process, which is a stream's reader alone, where the reader stops because nobody asks it any more.

    Spark's program would write what has ended it to a socket that is closed, and leave with a traceback of that.
    """
    is_alone = isinstance(sys.exc_info()[1], EOFError | ConnectionError)
    if is_alone and getattr(sys.modules["__main__"].__spec__, "name", "").startswith("pyspark.sql.streaming."):
        os._exit(0)


def serve(rooms: Sequence[str] = ()) -> None:
    """Be the daemon, until Spark ends it.

    Args:
        rooms: see :func:`preload`.
    """
    from pyspark import daemon

    from headwater.base.malloc_settings import keep_freed_memory

    keep_freed_memory()
    preload(rooms)
    daemon.worker = _ends_quietly(daemon.worker)
    gc.freeze()
    _ends_quietly(daemon.manager)()


if __name__ == "__main__":
    serve()
