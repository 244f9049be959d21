"""The order of files of tests, and how they go to the processes of a run: those that use a session of Spark to one.

A session costs its process a virtual machine, its warming up, and workers that load kernels: half a minute of a core.
With one process for the files that use it there is one session in a run, instead of one in each process.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadFileScheduling

SESSION_OF_SPARK = (
    "tests/landing/test_engines.py",
    "tests/landing/test_messages.py",
    "tests/landing/test_variant_tables.py",
    "tests/oracle/test_demo.py",
    "tests/oracle/test_random.py",
    "tests/oracle/test_windows.py",
    "tests/spark/",
)
"""Files and folders whose everyday tests use the fixture ``spark``."""

RECORDED_WAL = (
    "tests/records/test_descriptions.py",
    "tests/records/test_record_lists.py",
    "tests/records/test_waldump.py",
)
"""Files whose tests read the same recorded WAL, which takes a server's minute to make and seconds to load."""

FIRST = (*SESSION_OF_SPARK, "tests/values/test_server_text.py", "tests/plugins/test_debezium_refusals.py")
"""Begins first: what takes longest, and what compiles other kernels than the rungs that begin beside it.

Processes that need the same kernel wait for the one that compiles it.
"""

LAST = "tests/unit/"
"""The rung whose files are many and short: while they last, no process waits long for another one's end."""


class SharedSessions(LoadFileScheduling):  # type: ignore[misc]
    """A scheduler that gives a process a file after the other; those that share something costly go to one process."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of what is given to a process as a whole."""
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return a test's file, or what stands for all files that use a session of Spark, or the recorded WAL."""
    file = nodeid.partition("::")[0]
    if file.startswith(SESSION_OF_SPARK):
        return "spark"
    return "records" if file in RECORDED_WAL else file


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Put long files before all others, and the rung of short files behind them."""
    return sorted(items, key=lambda item: (item.nodeid.startswith(LAST), not item.nodeid.startswith(FIRST)))
