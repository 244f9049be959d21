"""How the command ends when it is told to: interrupted, terminated, hung up.

The first of these signals is raised as an exception in the main thread, so that every ``with`` block on the way removes
what it made; further ones are ignored meanwhile. Then one line says what happened, and the exit status is 128 and the
signal's number, as shells have it. A signal that was ignored when the command began stays ignored (``nohup``).

Spark's Java process ends when this process has ended and its pipe is closed; its Python workers end with it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from headwater.cli.surroundings import say

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}


class Stopped(BaseException):
    """The command was told to end."""


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """End the process cleanly when a signal comes inside the ``with`` block.

    Raises:
        SystemExit: it did, whatever else went wrong because of it.
    """
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            raise Stopped

    handlers = {number: signal.getsignal(number) for number in _WORDS} if _is_main_thread() else {}
    handlers = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    try:
        try:
            for number in handlers:
                signal.signal(number, stop)
            yield
        finally:
            if not received:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
    except BaseException:
        if not received:
            raise
    if received:
        # Python gives its handlers up before it ends; a signal would then be the end.
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)
        say(f"headwater: {_WORDS[signal.Signals(received[0])]}")
        sys.exit(128 + received[0])


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
