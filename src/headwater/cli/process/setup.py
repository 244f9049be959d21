"""The needs of the command of its process: standard streams that are open, names that are text.

Called first of all, before anything opens a file.
"""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import AbstractContextManager, redirect_stdout

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


def prepare_process() -> None:
    """Open what is closed of the standard streams, and begin again in UTF-8 where the locale knows ASCII only."""
    _require_utf8()
    _open_standard_streams()


def say(line: str) -> None:
    """Write a line to standard error; where it takes no more, as on a terminal that hung up, it is lost."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        forget(STANDARD_ERROR)


def printing_aside() -> AbstractContextManager[object]:
    """Send what output plugins and types print to standard error, as from Spark: standard output is the command's."""
    return redirect_stdout(sys.stderr)


def forget(descriptor: int) -> None:
    """Lose what a standard stream did not take; tried again at the end, it would decide the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _require_utf8() -> None:
    """Begin again in UTF-8, as Python itself does in the C locale by default; Spark's workers inherit the variable."""
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii" and "utf8" not in sys._xoptions:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _open_standard_streams() -> None:
    """Open streams that are closed: the next file would take their numbers, and what is meant for them.

    What takes the place of standard input or output cannot be read or written; what is said to standard error is lost.
    """
    if sys.stdin is None:
        _open(0, os.O_WRONLY)
    if sys.stdout is None:
        _open(1, os.O_RDONLY)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        _open(2, os.O_WRONLY)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _open(descriptor: int, mode: int) -> None:
    opened = os.open(os.devnull, mode)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    os.set_inheritable(descriptor, True)
