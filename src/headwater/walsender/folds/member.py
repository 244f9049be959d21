"""One session's part in a fold: its queue, and how much of the present window it has been given."""

from __future__ import annotations

import threading

from headwater.errors import HeadwaterError
from headwater.slots.history import Position, check_of_history
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.folds.outbox import Outbox

BUSY_SECONDS = 1.0
"""A client that has taken something within this time takes what it is given."""


class Member:
    """A member of an output.

    Args:
        outbox: its queue.

    Attributes:
        outbox: its queue.
        given: messages that it has been given of what follows the state at the start of the present window.
        read: where the WAL ended that they were made of; None before there were any.
        is_stopped: it takes nothing any more.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.given = 0
        self.read: Position | None = None
        self.is_stopped = False
        self._is_idle = threading.Event()
        self._is_idle.set()

    @property
    def can_join(self) -> bool:
        """Whether it stands where the fold stands, and takes what it is given."""
        outbox = self.outbox
        return self.given == 0 and (outbox.is_roomy or outbox.idle_seconds < BUSY_SECONDS)

    def has_been_given(self, count: int, read: Position) -> None:
        """Note messages that it has been given, of a window that ends somewhere."""
        self.given += count
        self.read = read if self.read is None else max(self.read, read)

    def check_of_history(self, directory: WalDirectory) -> None:
        """Check that what it was given follows the state where it stands in this history, too.

        Raises:
            SessionError: it may not.
        """
        if self.given and self.read is not None:
            check_of_history(directory, self.read)

    def entered(self) -> None:
        """Note that a fold has it."""
        self._is_idle.clear()

    def left(self) -> None:
        """Note that no fold has it."""
        self._is_idle.set()

    def fail(self, error: HeadwaterError) -> None:
        """End with an error."""
        self.outbox.offer(error)
        self.left()

    def stop(self) -> None:
        """Take nothing any more."""
        self.is_stopped = True
        self.outbox.close()

    def wait(self) -> None:
        """Wait until no fold has it."""
        self._is_idle.wait()
