"""A thread that writes and syncs received WAL, so that a slow disk never keeps the receiver from answering the server.

In: stretches of bytes, in order. Out: how far they are written and synced. What waits is bounded: a receiver that must
wait for room reads no more of its socket meanwhile, and the server waits.

Invariants: one thread puts, one writes. An error of writing is raised where the receiver looks next. What was put and
not yet synced when the process ends was never acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from types import TracebackType
from typing import Self

from headwater.errors import HeadwaterError
from headwater.jobs.unforeseen import unforeseen
from headwater.receiver.received_files import SegmentWriter

MOST_WAITING = 16 << 20
"""Bytes that may wait to be written."""


class Wakeup:
    """A descriptor that can be read once something has happened, for select beside a socket."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._reading

    def wake(self) -> None:
        """Make it readable; may be called by any thread, and by a handler of a signal."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, b"!")

    def clear(self) -> None:
        """Take what has been noted."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 4096)

    def close(self) -> None:
        """Close both ends."""
        os.close(self._reading)
        os.close(self._writing)


class WalWriting:
    """The thread, for one timeline.

    Args:
        writer: which it writes with, and closes at its end.
        wakeup: woken when more is synced, when there is room again, and by an error.
        is_synchronous: each stretch is synced, not only each whole segment.
    """

    def __init__(self, writer: SegmentWriter, wakeup: Wakeup, is_synchronous: bool) -> None:
        self._writer, self._wakeup, self._is_synchronous = writer, wakeup, is_synchronous
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, memoryview]] = deque()
        self._bytes, self._is_ending, self._wants_sync = 0, False, False
        self._error: Exception | None = None
        self._written = self._flushed = writer.position
        self._thread = threading.Thread(target=self._run, name="headwater-write-wal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write and sync all that waits; raise what stood in the way, unless something else is raised already."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join()
        if error is None:
            self.check()

    def put(self, lsn: int, data: memoryview) -> None:
        """Have bytes written."""
        with self._changed:
            self._waiting.append((lsn, data))
            self._bytes += len(data)
            self._changed.notify_all()

    @property
    def has_room(self) -> bool:
        """Whether more may be put."""
        return self._bytes < MOST_WAITING

    def progress(self) -> tuple[int, int]:
        """Return the LSNs up to which all is written, and synced.

        Raises:
            HeadwaterError: it cannot be written.
        """
        self.check()
        with self._changed:
            return self._written, self._flushed

    def ask_sync(self) -> None:
        """Have all that was put synced soon."""
        with self._changed:
            self._wants_sync = True
            self._changed.notify_all()

    def sync(self) -> None:
        """Wait until all that was put is synced.

        Raises:
            HeadwaterError: it cannot be written.
        """
        self.ask_sync()
        with self._changed:
            self._changed.wait_for(lambda: not self._wants_sync or self._error is not None)
        self.check()

    def check(self) -> None:
        """Raise what the thread has met.

        Raises:
            HeadwaterError: it cannot be written.
        """
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while self._work():
                pass
            self._writer.close()
            self._note()
        except Exception as error:
            self._writer.drop()
            with self._changed:
                self._error = error if isinstance(error, HeadwaterError) else unforeseen("writing WAL", error)
                self._changed.notify_all()
        self._wakeup.wake()

    def _work(self) -> bool:
        """Write all that waits; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_ending or self._wants_sync)
            waiting, self._waiting = self._waiting, deque()
            wants_sync, is_last = self._wants_sync, self._is_ending
        for lsn, data in waiting:
            self._writer.write(lsn, data)
            with self._changed:
                self._bytes -= len(data)
        if self._is_synchronous or wants_sync:
            self._writer.flush()
        self._note()
        with self._changed:
            self._wants_sync = self._wants_sync and not wants_sync
            self._changed.notify_all()
        return not is_last

    def _note(self) -> None:
        with self._changed:
            self._written, self._flushed = self._writer.position, self._writer.flushed
        self._wakeup.wake()
