"""The compiling of Numba kernels, and the directory of their machine code.

Numba's own cache key is the text of the one file that holds a function: a change in a file it calls goes unnoticed.
Headwater therefore keeps compiled kernels in a directory whose name is a digest over that file and all it imports: no
stale code can be loaded. Every kernel is declared with :func:`kernel`, never with ``numba.njit`` directly.

A kernel whose name begins with an underscore is called by kernels alone: what Python would call it through is not made,
which is a third of the work of compiling a small one.

Kernels take flat arrays and return flat arrays or status codes; they never raise and never see Python objects.

Machine code is loaded from the cache and run: only a place where nobody but this user (or root) can write is used. If
there is none, a private directory takes its place, with one warning: this process removes it at its end, and processes
that it starts find it through `HEADWATER_CACHE_DIR`. Numba's own settings of this process stay as they are, and nothing
is ever written into the package.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core.dispatcher import Dispatcher

from headwater.base.cache_places import KERNEL_CACHE_VARIABLE, kernel_cache
from headwater.base.kernel_cache import KernelPlace, SharedCache
from headwater.base.temporary_directories import OwnDirectory
from headwater.base.trusted_paths import check_path, make_directory
from headwater.errors import HeadwaterError, warn

F = TypeVar("F", bound=Callable[..., Any])


_THIS_FILE = __file__
_PACKAGE = os.path.dirname(os.path.dirname(_THIS_FILE))
_IMPORT = re.compile(rb"^[ \t]*from (headwater(?:\.\w+)+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAME = re.compile(rb"(\w+)(?: as \w+)?")


@dataclass(frozen=True)
class _Source:
    """A file of the package: a digest of its name and text, and the files that it imports."""

    digest: bytes
    imported: tuple[str, ...]


def _closure(module: str) -> set[str]:
    """Return the files of a module and of all Headwater modules it imports, without those that this module imports."""
    files: set[str] = set()
    waiting = {os.path.join(_PACKAGE, *module.split(".")[1:]) + ".py"}
    while waiting:
        path = waiting.pop()
        files.add(path)
        if path != _THIS_FILE:
            waiting.update(_source(path).imported)
            waiting -= files
    return files


@cache
def _source(path: str) -> _Source:
    """Read a file, and find the files of modules that it imports names from, or imports as names.

    Every process asks at its start, and parsing all these files would take it half a second: the statements are found
    by their form, which the formatter keeps.
    """
    with open(path, "rb") as file:
        text = file.read()
    imported = []
    for module, several, single in _IMPORT.findall(text):
        folder = os.path.join(_PACKAGE, *module.decode().split(".")[1:])
        names = (os.path.join(folder, name.decode()) for name in _NAME.findall(several or single))
        imported += [f"{name}.py" for name in (folder, *names)]
    digest = hashlib.sha256(os.path.relpath(path, _PACKAGE).encode() + text).digest()
    return _Source(digest, tuple(filter(_is_file, imported)))


@cache
def _is_file(path: str) -> bool:
    return os.path.isfile(path)


@cache
def cache_directory(module: str) -> Path:
    """Return the directory of a module's compiled kernels (`HEADWATER_CACHE_DIR` moves it).

    Args:
        module: its full name.
    """
    digest = hashlib.sha256(f"{numba.__version__} {numba.config.CPU_NAME} {numba.config.BOUNDSCHECK}".encode())
    for path in sorted(_closure(module)):
        digest.update(_source(path).digest)
    return _trusted_cache() / digest.hexdigest()[:16]


@cache
def _trusted_cache() -> Path:
    """Return the user's cache, or a private one that lives as long as this process."""
    try:
        return _usable(kernel_cache())
    except OSError as error:
        reason = f'"{error.filename}": {error.strerror}' if error.filename else str(error)
    except HeadwaterError as error:
        reason = error.message
    private = OwnDirectory()
    atexit.register(private.close)
    os.environ[KERNEL_CACHE_VARIABLE] = str(private.path)
    warn(
        f"compiled kernels cannot be kept ({reason}), they are compiled anew in every run",
        hint=f"set {KERNEL_CACHE_VARIABLE} to a directory that only this user can write to",
    )
    return _usable(kernel_cache())


def _usable(place: Path) -> Path:
    """Return the directory, which is made if it is missing.

    Raises:
        OSError: it cannot be made, or not be written to.
        UntrustedPathError: others can write to it.
    """
    make_directory(place, 0o700)
    directory = check_path(place)
    with tempfile.TemporaryFile(dir=directory):
        return directory


def is_compiled(module: str) -> bool:
    """Tell whether an earlier run left compiled kernels of a module, by its full name."""
    directory = cache_directory(module)
    return directory.is_dir() and any(directory.rglob("*.nbc"))


@cache
def _usable_directory(module: str) -> Path:
    return _usable(cache_directory(module))


def _compile(function: F, **options: bool) -> F:
    is_private = function.__name__.startswith("_")
    compiled: Any = numba.njit(nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=is_private, **options)(function)
    if isinstance(compiled, Dispatcher):  # and not left as it is, without the compiler
        cast(Any, compiled).get_call_template = partial(_call_template, compiled)
        with _numba_caching_in(_usable_directory(function.__module__)):
            cast(Any, compiled)._cache = SharedCache(function)
    return cast(F, compiled)


def _call_template(compiled: Dispatcher, args: Sequence[types.Type], kws: Mapping[str, types.Type]) -> Any:
    """Type a call of a kernel by another one as if its constants were variables.

    Numba would compile the callee anew for each constant. Where constants matter it is inlined, and LLVM sees them.
    """
    plain = {name: types.unliteral(value) for name, value in kws.items()}
    return Dispatcher.get_call_template(compiled, tuple(map(types.unliteral, args)), plain)


@contextmanager
def _numba_caching_in(directory: Path) -> Iterator[None]:
    """Let functions declared meanwhile keep their machine code there.

    Numba looks at these settings at no other time.
    """
    locator = f"{KernelPlace.__module__}.{KernelPlace.__qualname__}"
    settings = {"CACHE_DIR": str(directory), "CACHE_LOCATOR_CLASSES": locator}
    before = {name: getattr(numba.config, name) for name in settings if hasattr(numba.config, name)}
    try:
        for name in before:
            setattr(numba.config, name, settings[name])
        yield
    finally:
        for name, value in before.items():
            setattr(numba.config, name, value)


# A callee first met while its caller compiles inherits `forceinline` and `_nrt` from it, unless it says otherwise: so
# every declaration names both, or a large kernel would be copied whole into the callers of a small one.


def kernel(function: F) -> F:
    """Compile a function without the interpreter lock, with its machine code cached on disk."""
    return _compile(function, forceinline=False, _nrt=True)


def borrowing_kernel(function: F) -> F:
    """Declare a kernel as :func:`kernel` does, for functions that make no array and return none.

    Numba counts a reference for every array argument of every call, with two atomic operations; in small functions
    called for each value that costs more than the work. Here nothing is counted: the caller keeps the arrays alive.
    """
    return _compile(function, forceinline=False, _nrt=False)


def inline_kernel(function: F) -> F:
    """Declare a kernel as :func:`borrowing_kernel` does, but copied by LLVM into its callers.

    It is for small helpers, and for every record.

    An array that is handed to a call takes seven words on its stack.
    """
    return _compile(function, forceinline=True, _nrt=False)
