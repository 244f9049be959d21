"""Spark's worker daemon of a session that lands: it has what tasks that write and merge tables use, too.

See :mod:`headwater.spark.worker_daemon`. Without it each worker would import that with its first task, which takes
half a second.
"""

from __future__ import annotations

from headwater.spark.worker_daemon import preload, serve

_ROOMS = ("headwater.landing.landing_pass",)

MODULE = "headwater.landing.worker_daemon"


def preload_landing(_: int = 0) -> int:
    """Do what :func:`headwater.spark.worker_daemon.preload` does, for tasks that land."""
    return preload(_ROOMS)


if __name__ == "__main__":
    serve(_ROOMS)
