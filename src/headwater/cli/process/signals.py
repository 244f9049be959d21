"""The end of the command when it is asked to end: interrupted, terminated, hung up.

The first of these signals is raised as an exception in the main thread. So every ``with`` block on the way removes what
it made; further ones are ignored meanwhile. Then one line says what happened, and the exit status is 128 and the
signal's number, as shells have it. A signal that was ignored when the command began stays ignored (``nohup``).

Python drops an exception that is raised while it frees an object: in ``__del__``, or in the callback of a weak
reference (py4j has one for each Java object). An end that was dropped there is raised again.

A command that goes on until it is asked to end has that as its own end (:func:`heeding_first`): exit status 0.

Spark's Java process ends when this process has ended and its pipe is closed; its Python workers end with it.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

from headwater.cli.process.setup import say

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}

_AGAIN_SECONDS = 0.01
"""After which an end that Python dropped is raised again."""


class Stopped(BaseException):
    """A signal that ends the command."""


class _Signals:
    """The signals that came, and whether the exception of the first of them is still to be raised."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._is_due = True
        self._hook: CodeType | None = None

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; inside the hook, which drops exceptions, too, wait for the next one."""
        self.received.append(number)
        if self._is_due and not self._is_in_hook(frame):
            self._is_due = False
            raise Stopped

    def _is_in_hook(self, frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code is not self._hook:
            frame = frame.f_back
        return frame is not None

    def again(self) -> None:
        """Ask the main thread once more, from outside of what dropped the exception."""
        self._is_due = True
        threading.Thread(target=self._remind, daemon=True).start()

    def _remind(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while self._is_due:
            time.sleep(_AGAIN_SECONDS)
            if self._is_due:
                signal.pthread_kill(main, self.received[0])

    @contextmanager
    def never_dropped(self) -> Iterator[None]:
        """Raise the exception again where Python drops it."""
        before = sys.unraisablehook

        def dropped(what: sys.UnraisableHookArgs) -> None:
            if what.exc_type is Stopped:
                self.again()
            else:
                before(what)

        self._hook = dropped.__code__
        sys.unraisablehook = dropped
        try:
            yield
        finally:
            sys.unraisablehook = before


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """End the process cleanly when a signal comes inside the ``with`` block.

    Raises:
        SystemExit: it did, whatever else went wrong because of it.
    """
    signals = _Signals()
    handlers = {number: signal.getsignal(number) for number in _WORDS} if _is_main_thread() else {}
    handlers = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    try:
        try:
            for number in handlers:
                signal.signal(number, signals.stop)
            with signals.never_dropped():
                yield
        finally:
            if not signals.received:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
    except BaseException:
        if not signals.received:
            raise
    if signals.received:
        # Python gives its handlers up before it ends; a signal would then be the end.
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)
        say(f"headwater: {_WORDS[signal.Signals(signals.received[0])]}")
        sys.exit(128 + signals.received[0])


@contextmanager
def heeding_first(tell: Callable[[], None]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM inside only tell; another one ends the command as ever, at once.

    Args:
        tell: called in the main thread, between two of its instructions.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if callable(handler)} if _is_main_thread() else {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def heed(_number: int, _frame: FrameType | None) -> None:
        restore()
        tell()

    for number in before:
        signal.signal(number, heed)
    try:
        yield
    finally:
        restore()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
