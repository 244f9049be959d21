"""Exceptions that nobody foresaw, as errors of ours that say their type, their message and where they were raised.

Their tracebacks are shown where ``HEADWATER_TRACEBACK`` is set.
"""

from __future__ import annotations

import os
import sys
import traceback

from headwater.errors import HeadwaterError, SparkError
from headwater.option_names import option, ways

TRACEBACK = "HEADWATER_TRACEBACK"
"""The environment variable that asks for tracebacks."""

_PACKAGE = os.path.dirname(os.path.dirname(__file__))


def asks_for_traceback() -> bool:
    """Tell whether the user wants to see the tracebacks of errors."""
    return bool(os.environ.get(TRACEBACK))


def unforeseen(what: str, error: BaseException) -> HeadwaterError:
    """Return an exception that is none of ours as an error that says what it is and where in our program it was.

    Args:
        what: what failed by it, as in "step index".
        error: it; one that has no text of its own is named by its type.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = " ".join(str(error).split())
    message = f"{what} failed: {name}: {text}" if text else f"{what} failed: {name}"
    return SparkError(message, file=_place(error), hint=_advice(error))


def _advice(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        smaller = f"make windows smaller with {option('window-bytes')}"
        return ways("give it more memory", smaller, f"let fewer tasks run at a time ({option('master', 'local[1]')})")
    if isinstance(error, ImportError):
        return f"it is missing for {sys.executable}, which runs this"
    return f"this is a fault of the program; {TRACEBACK}=1 in the environment shows the traceback"


def _place(error: BaseException) -> str | None:
    """Return the innermost line of our program on the way to an exception."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_PACKAGE)]
    if not ours:
        return None
    return f"headwater/{os.path.relpath(ours[-1].filename, _PACKAGE)}:{ours[-1].lineno}"
