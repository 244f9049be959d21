"""A wait until something may have come to the places where WAL lies, without asking again and again.

In: places, and a descriptor that ends the waiting. On Linux the kernel reports what happens in directories of this
machine (inotify(7)). It does not report what another machine writes to a shared one, nor do stores report anything. So
all is also looked at again after ``poll_seconds``. Nothing that happens between two waits is missed.

Known gap: of an archive with folders, those that are there when it begins to be watched, and none inside of them.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from headwater.wal.segments.place import Place

POLL_SECONDS = 1.0
"""After which all is looked at again though nothing was reported."""

_MODIFY, _CLOSE_WRITE, _MOVED_TO, _CREATE = 0x2, 0x8, 0x80, 0x100
_EVENTS = _MODIFY | _CLOSE_WRITE | _MOVED_TO | _CREATE
_BUFFER_BYTES = 1 << 16


class Arrivals:
    """Watches places; a context manager.

    Args:
        places: that WAL comes to.
        stop: a descriptor that can be read when waiting is to end.
        poll_seconds: see POLL_SECONDS.
    """

    def __init__(self, places: Sequence[Place], stop: int, poll_seconds: float = POLL_SECONDS) -> None:
        self._stop = stop
        self._milliseconds = max(1, int(poll_seconds * 1000))
        self._watch = _watched([place.address for place in places if place.is_local])

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            os.close(self._watch)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until something happens in a place, it is time to look, or waiting is to end; so long at most."""
        ready = select.poll()
        for descriptor in (self._stop, self._watch):
            if descriptor is not None:
                ready.register(descriptor, select.POLLIN)
        ready.poll(self._milliseconds if seconds is None else min(self._milliseconds, math.ceil(seconds * 1000)))
        if self._watch is not None:
            with suppress(BlockingIOError):
                while len(os.read(self._watch, _BUFFER_BYTES)):
                    pass


def _watched(directories: Sequence[str]) -> int | None:
    """Open a descriptor that can be read when something happens in directories; None where there is no such thing."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return None
    if descriptor < 0:
        return None
    for directory in directories:
        for folder in (directory, *_folders(directory)):
            library.inotify_add_watch(descriptor, os.fsencode(folder), ctypes.c_uint32(_EVENTS))
    return descriptor


def _folders(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except OSError:
        return []
