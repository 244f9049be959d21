"""Memory that a process has touched is used again, instead of being given back and asked for again.

Memory that is touched for the first time costs more than most passes over it. The GNU C library gives large arrays, and
the end of its heap, back to the system as soon as they are freed; a task of the next slice would fault all of it in
again. A process that decodes keeps its peak instead, which slices and windows bound.

The memory that a process held at its peak, and so keeps, is measured here as well.

Known gap: other C libraries have no such switch, and are left as they are.
"""

from __future__ import annotations

import ctypes
import re
import resource
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_NEVER = -1


def keep_freed_memory() -> None:
    """Have this process, and those that it forks, keep what they free."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _NEVER)


def peak_memory() -> int:
    """Return the most bytes that this process has held since its program began.

    The number of getrusage, which is taken where there is no ``/proc``, may be that of the process that started this
    one.
    """
    status = Path("/proc/self/status")
    match = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
    return int(match[1] if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) << 10
