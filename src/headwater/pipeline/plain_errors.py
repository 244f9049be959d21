"""How errors leave a Python process that Spark started: as a line, without a traceback before it.

Spark puts the text that a worker sends into its own exception, traceback first, and so into ``str(error)``, the log of
every attempt and the user's own traceback. A worker that was asked to hide tracebacks sends only the exception's line.
It is asked here in its own environment and at the last moment: the worker ends with the error, so nobody else's
traceback is hidden. An exception that nobody foresaw becomes an error of ours that says its type, its message and where
in our program it was; its traceback is shown where ``HEADWATER_TRACEBACK`` is set.

What Spark leaves no way for: the words before ours ("Failed to create Python data source instance", or for a task the
line "An exception was thrown from the Python worker"), and that a failed task is tried again where
``spark.task.maxFailures`` says so, though the next attempt must fail alike.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import HeadwaterError, SparkError
from headwater.option_names import option, use_data_source, ways

TRACEBACK = "HEADWATER_TRACEBACK"
"""The environment variable that asks for tracebacks."""

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_OF_A_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")
_HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plain_errors() -> Iterator[None]:
    """What passes through is told in one line, in the data source's words: errors of ours, of files, and any other."""
    use_data_source()
    try:
        yield
    except HeadwaterError:
        _hide_traceback()
        raise
    except OSError as error:
        _hide_traceback()
        raise system_error("read", error) from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        _hide_traceback()
        raise unforeseen("the read", error) from error


def _hide_traceback() -> None:
    if any(name in os.environ for name in _OF_A_WORKER) and not asks_for_traceback():
        os.environ[_HIDE] = "1"


def asks_for_traceback() -> bool:
    """Whether the user wants to see the tracebacks of errors."""
    return bool(os.environ.get(TRACEBACK))


def unforeseen(what: str, error: BaseException) -> HeadwaterError:
    """An exception that is none of ours, as an error that says what it is and where in our program it was.

    Args:
        what: what failed by it, as in "step index".
        error: it; one that has no text of its own is named by its type.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = " ".join(str(error).split())
    said = f"{what} failed: {name}: {text}" if text else f"{what} failed: {name}"
    return SparkError(said, file=_place(error), hint=_advice(error))


def _advice(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        smaller = f"make windows smaller with {option('window-bytes')}"
        return ways("give it more memory", smaller, f"let fewer tasks run at a time ({option('master', 'local[1]')})")
    if isinstance(error, ImportError):
        return f"it is missing for {sys.executable}, which runs this"
    return f"this is a fault of the program; {TRACEBACK}=1 in the environment shows the traceback"


def _place(error: BaseException) -> str | None:
    """The innermost line of our program on the way to an exception."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_PACKAGE)]
    if not ours:
        return None
    return f"headwater/{os.path.relpath(ours[-1].filename, _PACKAGE)}:{ours[-1].lineno}"


def system_error(action: str, error: OSError) -> HeadwaterError:
    """What the system says of a file, as an error of ours.

    Args:
        action: what was done, as in "could not write output".
        error: what the system said.
    """
    file = None if error.filename is None else os.fsdecode(error.filename)
    return HeadwaterError(f"could not {action}: {error.strerror or error}", file=file)
