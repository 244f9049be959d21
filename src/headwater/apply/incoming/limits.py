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
        count: how many; descriptors: of the files that are locked.

    Attributes:
        count: how many there are; none any more once they were given back.
    """

    def __init__(self, count: int = 0, descriptors: list[int] | None = None) -> None:
        self.count, self._descriptors = count, descriptors or []

    def give_back(self) -> None:
        """Let others have the places; once is enough."""
        self.count = 0
        while self._descriptors:
            release(self._descriptors.pop())

    def add(self, other: Lease) -> None:
        """Take another lease into this one."""
        self.count += other.count
        self._descriptors += other._descriptors
        other.count, other._descriptors = 0, []


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

    def connect(self) -> Lease | None:
        """Take a place for a connection to the target; None if there is none now.

        Raises:
            OSError: the directory cannot be used.
        """
        lease = self.connect_up_to(1)
        return lease if lease.count else None

    def connect_up_to(self, count: int) -> Lease:
        """Take places for connections to the target, as many as there are now.

        Args:
            count: most of them.

        Raises:
            OSError: the directory cannot be used.
        """
        return self._take(f"target-{self.target}", count, self.connections)

    def copy(self) -> Lease | None:
        """Take the place of a copy, and of its connection; None if one of them is missing now.

        Raises:
            OSError: the directory cannot be used.
        """
        lease = self._take("copy", 1, self.copies)
        place = self.connect() if lease.count else None
        if place is None:
            lease.give_back()
            return None
        lease.add(place)
        return lease

    def _take(self, name: str, count: int, most: int | None) -> Lease:
        if self.directory is None or most is None:
            return Lease(count)
        taken: list[int] = []
        for number in range(most):
            if len(taken) == count:
                break
            descriptor = open_lock(self.directory / f"{name}.{number}")
            if lock(descriptor):
                taken.append(descriptor)
            else:
                os.close(descriptor)
        return Lease(len(taken), taken)
