"""How the Numba kernels are compiled and where their machine code is kept.

Numba's own cache key is the text of the one file that holds a function: a change in a file it calls goes unnoticed.
Headwater therefore keeps compiled kernels in a directory whose name is a digest over that file and all it imports, so
that no stale code can be loaded. Every kernel is declared with :func:`kernel`, never with ``numba.njit`` directly.

Kernels take flat arrays and return flat arrays or status codes; they never raise and never see Python objects.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


_PACKAGE = Path(__file__).parent


@cache
def _closure(module: str) -> frozenset[Path]:
    """A module's file and those of the Headwater modules it imports, directly or not."""
    found: set[Path] = set()
    waiting = [_PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")]
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            found.add(path)
            waiting += _imported(path)
    return frozenset(found)


def _imported(path: Path) -> list[Path]:
    """Where the modules would be that a file imports names from, or imports as names."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headwater."):
            module = str(node.module).split(".")[1:]
            names += [module, *([*module, alias.name] for alias in node.names)]
    return [_PACKAGE.joinpath(*name).with_suffix(".py") for name in names]


@cache
def cache_directory(module: str) -> Path:
    """Where the compiled kernels of a module are kept (`HEADWATER_CACHE_DIR` moves it).

    Args:
        module: its full name.
    """
    digest = hashlib.sha256(f"{numba.__version__} {numba.config.CPU_NAME} {numba.config.BOUNDSCHECK}".encode())
    for path in sorted(_closure(module)):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes())
    root = os.environ.get("HEADWATER_CACHE_DIR")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headwater"
    return base / "kernels" / digest.hexdigest()[:16]


def is_compiled(module: str) -> bool:
    """Whether an earlier run left compiled kernels of a module, by its full name."""
    directory = cache_directory(module)
    return directory.is_dir() and any(directory.rglob("*.nbc"))


def _compile(function: F, **options: bool) -> F:
    numba.config.CACHE_DIR = str(cache_directory(function.__module__))
    compiled: F = numba.njit(cache=True, nogil=True, **options)(function)
    return compiled


# A callee first met while its caller compiles inherits `forceinline` and `_nrt` from it, unless it says otherwise: so
# every declaration names both, or a large kernel would be copied whole into the callers of a small one.


def kernel(function: F) -> F:
    """Compile a function without the interpreter lock, with its machine code cached on disk."""
    return _compile(function, forceinline=False, _nrt=True)


def borrowing_kernel(function: F) -> F:
    """Like :func:`kernel`, for functions that make no array and return none.

    Numba counts a reference for every array argument of every call, with two atomic operations; in small functions
    called for each value that costs more than the work. Here nothing is counted: the caller keeps the arrays alive.
    """
    return _compile(function, forceinline=False, _nrt=False)


def inline_kernel(function: F) -> F:
    """Like :func:`borrowing_kernel`, for small helpers that LLVM should inline into their callers."""
    return _compile(function, forceinline=True, _nrt=False)
