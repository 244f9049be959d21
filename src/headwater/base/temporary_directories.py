"""Temporary directories that do not outlive their process for long, however it ends.

A process that is killed removes nothing. So every directory has a lock file, which its process holds locked while it
lives; whoever makes the next directory in the same parent removes those of this user whose lock nobody holds. A
process number, which another process may have by then, plays no part.

Only a directory that is certainly this user's is removed: the name, the owner, the mode and the lock file must be ours.
The lock file names this machine, as locks may not reach further. It is written once the lock is held and removed last.
Known gap: what a process leaves that is killed before it has written its lock file.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from headwater.base.locks import lock

_PREFIX = "headwater-"
_NAME = re.compile(r"\.?headwater-\w{8}")
_LOCK = "headwater.lock"
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.05


class OwnDirectory:
    """A new directory that only this user can enter; a context manager that removes it.

    Args:
        parent: where; None for where temporary files go.
        hidden: its name begins with a dot.

    Raises:
        OSError: it cannot be made.

    Attributes:
        path: the directory.
    """

    def __init__(self, parent: str | Path | None = None, hidden: bool = False) -> None:
        base = Path(parent) if parent is not None else Path(tempfile.gettempdir())
        _remove_leftovers(base)
        self.path = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}" if hidden else _PREFIX, dir=base))
        self._process = os.getpid()
        self._lock: int | None = None
        try:
            self._lock = _hold(self.path / _LOCK)
        except BaseException:
            remove_directory(self.path)
            raise

    def close(self) -> None:
        """Remove the directory; in a forked process, which does not own it, nothing is done."""
        if self._lock is not None and os.getpid() == self._process:
            lock, self._lock = self._lock, None
            remove_directory(self.path)
            os.close(lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def remove_directory(path: Path) -> None:
    """Remove a directory, even while a task that was cancelled writes its last file into it."""
    for _ in range(_ATTEMPTS):
        _remove_all_but_lock(path)
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_PAUSE_SECONDS)


def _remove_all_but_lock(path: Path) -> None:
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != _LOCK:
                os.unlink(entry.path)


def _hold(path: Path) -> int:
    """Make and lock a lock file; without the machine's name in it, where there are no locks, nobody takes it over."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with suppress(OSError):
        if lock(descriptor):
            os.write(descriptor, _machine())
    return descriptor


def _remove_leftovers(parent: Path) -> None:
    """Remove what killed processes have left in a directory; what cannot be removed stays."""
    with suppress(OSError), os.scandir(parent) as entries:
        for name in [entry.name for entry in entries if _NAME.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_if_left(parent / name)


def _remove_if_left(path: Path) -> None:
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        return
    descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.read(descriptor, 256) == _machine() and lock(descriptor):
            remove_directory(path)
    finally:
        os.close(descriptor)


def _machine() -> bytes:
    return os.uname().nodename.encode()
