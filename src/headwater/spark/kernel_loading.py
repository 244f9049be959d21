"""The loading of compiled kernels that earlier runs left, and of what else a process does once, ahead of its need.

Numba loads a kernel from disk when it is first called, in every process again. Spark's worker daemon calls
:func:`load_kernels` once instead, and the workers it forks have them in memory. A signature that the cache knows of
another processor only is compiled here; kernels of which no signature is known are left to their first call.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher

from headwater.base.value_codec import prepare

_PLUGINS = ("pgoutput", "test_decoding", "wal2json", "debezium")
_ROOMS = ("headwater.pipeline.decode", *(f"headwater.plugins.{name}.plugin" for name in _PLUGINS))

_LAZY = ("numpy.ma",)
"""What Numba imports when a kernel is first given an array, a quarter of what a first task takes."""


def import_rooms(more: Sequence[str] = ()) -> None:
    """Import the rooms that tasks use.

    Args:
        more: modules in addition to those of decoding.
    """
    for room in (*_LAZY, *_ROOMS, *more):
        importlib.import_module(room)


def prepare_values() -> None:
    """Find out what the values are made of that come and go with tasks: that takes longer than one of them does.

    The rooms that are imported name them, as ``TASK_VALUES``.
    """
    for room in _ROOMS:
        for kind in getattr(sys.modules.get(room), "TASK_VALUES", ()):
            prepare(kind)


def load_kernels(room: str = "headwater.") -> int:
    """Load all cached versions of the kernels that Python code of this process could call.

    Args:
        room: what the names of the modules begin with that call them.

    Returns:
        how many were loaded.
    """
    return sum(map(_load, set(_called_from_python(room))))


def task_kernels() -> set[Any]:
    """Return the kernels that Python code of this process could call."""
    return set(_called_from_python("headwater."))


def _called_from_python(room: str) -> Iterator[Any]:
    """Give the kernels that modules other than kernel files have imported, one by one or with their module."""
    for name, module in list(sys.modules.items()):
        # A package has each of its modules as an attribute, whoever imported that: it calls none of them.
        is_package = hasattr(module, "__path__")
        if name.startswith(room) and module is not None and not is_package and not _is_kernel_file(name):
            for value in list(vars(module).values()):
                if isinstance(value, Dispatcher):
                    yield value
                elif isinstance(value, ModuleType) and _is_kernel_file(value.__name__):
                    yield from (inner for inner in vars(value).values() if isinstance(inner, Dispatcher))


def _is_kernel_file(module: str) -> bool:
    return module.startswith("headwater.") and module.rpartition(".")[2].startswith("_")


def _load(kernel: Any) -> int:
    """Load one kernel's versions."""
    loaded = 0
    for signature in kernel._cache.signatures():
        if signature not in kernel.overloads:
            kernel.compile(signature)
            loaded += 1
    return loaded
