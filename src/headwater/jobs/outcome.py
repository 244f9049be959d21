"""The outcome of a task: its result, or the error that it met, and what it warned of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.errors import HeadwaterError, HeadwaterWarning

R = TypeVar("R")

Progress = Callable[[str, int, int], None]
"""Called with a step's name, tasks done and tasks in all, from any thread; must not raise."""


@dataclass(frozen=True)
class Failure:
    """An error that a task met, carried back as a value so that its type survives.

    Attributes:
        error: the error.
        trace: the traceback of what the error was made of, where that was an exception that nobody foresaw.
    """

    error: HeadwaterError
    trace: str = ""


@dataclass(frozen=True)
class Attempted(Generic[R]):
    """The outcome of a task.

    Attributes:
        result: what it returned, or the error of ours that it raised.
        warned: what it warned of.
    """

    result: R | Failure
    warned: list[HeadwaterWarning]
