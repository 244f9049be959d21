"""How the Numba kernels are compiled and where their machine code is kept.

Numba's own cache key is the text of the one file that holds a function: a change in a file it calls goes unnoticed.
Headwater therefore keeps compiled kernels in a directory whose name is a digest over every kernel file of the package,
so that no stale code can be loaded. Every kernel is declared with :func:`kernel`, never with ``numba.njit`` directly.

Kernels take flat arrays and return flat arrays or status codes; they never raise and never see Python objects.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _digest() -> str:
    """A digest over the package's kernel files and the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {numba.config.CPU_NAME} {numba.config.BOUNDSCHECK}".encode())
    package = Path(__file__).parent
    for path in sorted(package.rglob("_*.py")):
        if path.name != "__init__.py":
            digest.update(path.relative_to(package).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_directory() -> Path:
    """Where compiled kernels of this very source are kept (`HEADWATER_CACHE_DIR` moves it)."""
    root = os.environ.get("HEADWATER_CACHE_DIR")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headwater"
    return base / "kernels" / _digest()


numba.config.CACHE_DIR = str(cache_directory())


def kernel(function: F) -> F:
    """Compile a function without the interpreter lock, with its machine code cached on disk."""
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled


def inline_kernel(function: F) -> F:
    """Like :func:`kernel`, for small helpers that LLVM should inline into their callers."""
    compiled: F = numba.njit(cache=True, nogil=True, inline="never", forceinline=True)(function)
    return compiled
