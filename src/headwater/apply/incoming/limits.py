"""The limits that processes share: places are files of a directory, and whoever has one holds the lock on its file.

A lock goes with its process, however that ends, so that no place is lost. Each process has its main connection in any
case: places are for what comes beside it.

PostgreSQL: launcher.c (max_sync_workers_per_subscription, max_logical_replication_workers), by slots in shared memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headwater.base.locks import lock, open_lock, release


class Lease:
    """A lease of places, until it is given back.

    Args:
        descriptors: of the files that are locked.
    """

    def __init__(self, descriptors: list[int] | None = None) -> None:
        self._descriptors = descriptors or []

    def give_back(self) -> None:
        """Let others have the places; once is enough."""
        while self._descriptors:
            release(self._descriptors.pop())

    def add(self, other: Lease) -> None:
        """Take another lease into this one."""
        self._descriptors += other._descriptors
        other._descriptors = []


@dataclass(frozen=True)
class WorkerLimits:
    """The limits of what runs beside the main connection of a subscription.

    Attributes:
        directory: of the places; None for no limits.
        target: names the target's places; connections: how many there are; None for no limit.
        copies: how many tables are copied at a time by all subscriptions; None for no limit.
    """

    directory: Path | None = None
    target: str = ""
    connections: int | None = None
    copies: int | None = None

    def connect(self, count: int = 1) -> Lease | None:
        """Take places for connections to the target; None if there are not so many now.

        Raises:
            OSError: the directory cannot be used.
        """
        return self._take(f"target-{self.target}", count, self.connections)

    def copy(self, connections: int) -> Lease | None:
        """Take the place of a copy, and of its connections; None if one of them is missing now.

        Raises:
            OSError: the directory cannot be used.
        """
        lease = self._take("copy", 1, self.copies)
        if lease is None:
            return None
        places = self.connect(connections)
        if places is None:
            lease.give_back()
            return None
        lease.add(places)
        return lease

    def _take(self, name: str, count: int, most: int | None) -> Lease | None:
        if self.directory is None or most is None:
            return Lease()
        taken: list[int] = []
        for number in range(most):
            if len(taken) == count:
                break
            descriptor = open_lock(self.directory / f"{name}.{number}")
            if lock(descriptor):
                taken.append(descriptor)
            else:
                os.close(descriptor)
        lease = Lease(taken)
        if len(taken) < count:
            lease.give_back()
            return None
        return lease
