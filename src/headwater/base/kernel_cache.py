"""One process of a machine compiles a kernel, the others wait for it and load what it made.

Numba's cache keeps machine code; it does not keep processes from making the same code side by side, as many as Spark
starts. So a kernel that is not in the cache is compiled under a lock on a file beside it, by whoever comes first. The
lock goes with its process. Where files cannot be locked, or one process takes beyond all measure, nobody waits.

The directory is named after what the sources are (:func:`headwater.base.kernels.cache_directory`), so it does not
matter where they lie, or how old their files are: whoever has the same ones, in another environment, shares the code.

An executor of a cluster says on standard error, which is a log there, that it compiles: minutes without a task done
want a reason. Below all rooms; mirrors nothing of PostgreSQL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, _CacheLocator

from headwater.base.locks import lock_within, open_lock, release
from headwater.base.overrides import override

WAIT_SECONDS = 600.0
_OF_AN_EXECUTOR = ("SPARK_EXECUTOR_DIRS", "SPARK_EXECUTOR_ID", "CONTAINER_ID")
_said: set[str] = set()


class KernelPlace(_CacheLocator):  # type: ignore[misc]
    """Numba's place of a kernel: the directory that its settings name, and nothing of the source's own place and time.

    Args:
        line: where the kernel begins in its file.
    """

    def __init__(self, line: int) -> None:
        self._directory, self._line = str(numba.config.CACHE_DIR), line

    @classmethod
    @override
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> KernelPlace:
        """See Numba's."""
        return cls(py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        """See Numba's."""
        return self._directory

    def get_source_stamp(self) -> str:
        """See Numba's; the directory's name says it."""
        return ""

    def get_disambiguator(self) -> str:
        """See Numba's."""
        return str(self._line)


class SharedCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel, and its lock.

    Args:
        function: the Python function; Numba's settings say where its cache is, now.

    Attributes:
        module: the function's.
        index: the file that says which machine code is kept of which signature.
        lock_path: the file that is locked while something is added.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.module = function.__module__
        self.index = Path(self._cache_file._index_path)
        self.lock_path = str(self.index.with_suffix(".lock"))
        self._held: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the machine code of a signature; None if this process is to compile it, which then holds the lock."""
        code = super().load_overload(sig, target_context)
        if code is None and self._held is None:
            self._held = lock_file(self.lock_path)
            code = super().load_overload(sig, target_context)
            if code is None:
                say_once(f"compiling kernels for this machine, which takes a minute once (kept in {self.cache_path})")
            else:
                self._release()
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, and let the others have it."""
        try:
            super().save_overload(sig, data)
        finally:
            self._release()

    def signatures(self) -> list[Any]:
        """Return the signatures of which machine code is kept, for whatever processor."""
        return [signature for signature, *_ in self._cache_file._load_index()]

    def kept_files(self) -> list[str]:
        """Return the names of the files of machine code."""
        return sorted(set(self._cache_file._load_index().values()))

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            release(held)


def is_executor() -> bool:
    """Tell whether this process was started by an executor of a cluster."""
    return any(name in os.environ for name in _OF_AN_EXECUTOR)


def say_once(line: str) -> None:
    """Write a line to the log of an executor; what follows a parenthesis may differ from one that was said."""
    key = line.partition("(")[0]
    if key not in _said and is_executor():
        _said.add(key)
        with suppress(OSError):
            print(f"headwater: {line}", file=sys.stderr, flush=True)


def lock_file(path: str) -> int | None:
    """Lock a file, which is made if it is missing.

    Returns:
        what :func:`headwater.base.locks.release` takes; None where there are no locks, or after too long.
    """
    try:
        descriptor = open_lock(path)
    except OSError:
        return None
    with suppress(OSError):
        if lock_within(descriptor, WAIT_SECONDS):
            return descriptor
    os.close(descriptor)
    return None
