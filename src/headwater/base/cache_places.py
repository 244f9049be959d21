"""Directories that Headwater keeps from one run to the next: server programs, code of kernels, Java's classes, indexes.

All are places that only this user (or root) can write to, as :mod:`headwater.base.trusted_paths` makes sure before
anything of them is used. Standard library only, below all rooms.
"""

from __future__ import annotations

import os
from pathlib import Path

from headwater.errors import HeadwaterError

KERNEL_CACHE_VARIABLE = "HEADWATER_CACHE_DIR"
SERVER_CACHE_VARIABLE = "HEADWATER_POSTGRES_DIR"
_ROOTS_CACHE = Path("/var/cache")


def kernel_cache() -> Path:
    """Return the directory of compiled kernels (`HEADWATER_CACHE_DIR` moves it).

    Raises:
        HeadwaterError: this user has no home directory.
    """
    return _compiled() / "kernels"


def java_cache() -> Path:
    """Return the directory of Java's loaded classes (`HEADWATER_CACHE_DIR` moves it).

    Raises:
        HeadwaterError: this user has no home directory.
    """
    return _compiled() / "java"


def lake_cache() -> Path:
    """Return the directory of what is made again of a lake's files (`HEADWATER_CACHE_DIR` moves it).

    Raises:
        HeadwaterError: this user has no home directory.
    """
    return _compiled() / "lakes"


def server_cache() -> Path:
    """Return the directory of installed PostgreSQL servers (`HEADWATER_POSTGRES_DIR` moves it).

    Root's servers run as another user, who must be able to read them: they are not kept in root's home directory.

    Raises:
        HeadwaterError: this user has no home directory.
    """
    return _named(SERVER_CACHE_VARIABLE) or (
        (_ROOTS_CACHE if os.geteuid() == 0 else _of_user(SERVER_CACHE_VARIABLE)) / "headwater" / "postgres"
    )


def _compiled() -> Path:
    return _named(KERNEL_CACHE_VARIABLE) or _of_user(KERNEL_CACHE_VARIABLE) / "headwater"


def _named(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(os.path.abspath(value)) if value else None


def _of_user(variable: str) -> Path:
    """Return ``$XDG_CACHE_HOME``, which counts if it is absolute, or ``~/.cache``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise HeadwaterError("this user has no home directory to keep a cache in", hint=f"set {variable}") from None
