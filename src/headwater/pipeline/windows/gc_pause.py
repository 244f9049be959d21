"""Python's search for reference cycles, put off while a window is planned.

Rolling a catalog forward can make millions of objects, which all stay until the window is planned. Each search looks at
all of them again and finds nothing: neither a window nor its catalog is in a cycle (a test counts what stays). Other
objects are searched a window later.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_within = 0
_was_enabled = False


@contextmanager
def collector_put_off() -> Iterator[None]:
    """Hold off automatic searches in this process while any thread is within.

    A user who switched them off finds it so.
    """
    global _within, _was_enabled
    with _lock:
        _was_enabled = gc.isenabled() if _within == 0 else _was_enabled
        _within += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if _within == 0 and _was_enabled:
                gc.enable()
