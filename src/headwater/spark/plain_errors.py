"""Errors that leave a Python process of Spark's do so as a line, without a traceback before it.

Spark puts the text that a worker sends into its own exception, traceback first. So it gets into ``str(error)``, the log
of every attempt and the user's own traceback. A worker that was asked to hide tracebacks sends only the exception's
line.
It is asked here in its own environment and at the last moment: the worker ends with the error, so nobody else's
traceback is hidden. An exception that nobody foresaw becomes an error of ours that says its type, its message and where
in our program it was; its traceback is shown where ``HEADWATER_TRACEBACK`` is set.

Spark leaves no way to remove the words before ours: "Failed to create Python data source instance", or for a task the
line "An exception was thrown from the Python worker". A failed task is tried again where ``spark.task.maxFailures``
says so, though the next attempt must fail alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.base.system_errors import system_error
from headwater.errors import HeadwaterError
from headwater.jobs.unforeseen import asks_for_traceback, unforeseen
from headwater.option_names import use_data_source

_OF_A_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")
_HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report what passes through in one line, in the data source's words: errors of ours, of files, and any other."""
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
