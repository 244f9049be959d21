"""How our errors leave a Python process that Spark started: as a line, without a traceback before it.

Spark puts the text that a worker sends into its own exception, traceback first, and so into ``str(error)``, the log of
every attempt and the user's own traceback. A worker that was asked to hide tracebacks sends only the exception's line.
It is asked here in its own environment and at the last moment: the worker ends with the error, so nobody else's
traceback is hidden. Errors that are not ours keep theirs.

What Spark leaves no way for: the words before ours ("Failed to create Python data source instance", or for a task the
line "An exception was thrown from the Python worker"), and that a failed task is tried again where
``spark.task.maxFailures`` says so, though the next attempt must fail alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import HeadwaterError

_OF_A_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")
_HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Our errors that pass through are told in one line; so is a file that cannot be read."""
    try:
        yield
    except HeadwaterError:
        _hide_traceback()
        raise
    except OSError as error:
        _hide_traceback()
        raise system_error("read", error) from error


def _hide_traceback() -> None:
    if any(name in os.environ for name in _OF_A_WORKER):
        os.environ[_HIDE] = "1"


def system_error(action: str, error: OSError) -> HeadwaterError:
    """What the system says of a file, as an error of ours.

    Args:
        action: what was done, as in "could not write output".
        error: what the system said.
    """
    file = None if error.filename is None else os.fsdecode(error.filename)
    return HeadwaterError(f"could not {action}: {error.strerror or error}", file=file)
