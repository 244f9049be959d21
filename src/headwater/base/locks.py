"""Locks on files (``flock``): each goes with its process, or with the descriptor that holds it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

PAUSE_SECONDS = 0.05


def open_lock(path: str | Path, mode: int = 0o600) -> int:
    """Open a file to be locked, which is made if it is missing; no symbolic link.

    Returns:
        its descriptor.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)


def lock(descriptor: int, *, is_shared: bool = False) -> bool:
    """Lock an open file without waiting.

    Args:
        descriptor: the file; closing it ends the lock.
        is_shared: others may share the lock.

    Returns:
        whether it is locked; False where another process holds it.

    Raises:
        OSError: files cannot be locked there.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        return True
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False


def lock_within(descriptor: int, seconds: float) -> bool:
    """Lock an open file as soon as no other process holds it, tried at least once.

    Args:
        descriptor: the file; closing it ends the lock.
        seconds: how long to wait.

    Returns:
        whether it is locked; False where another process holds it still.

    Raises:
        OSError: files cannot be locked there.
    """
    deadline = time.monotonic() + seconds
    while not lock(descriptor):
        if time.monotonic() >= deadline:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def release(descriptor: int) -> None:
    """End a lock and close its file, also where a process that was forked meanwhile has the descriptor too."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
