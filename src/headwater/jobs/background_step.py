"""Work done one step after the work at hand: a window's job begins while the results of the one before are taken.

One piece at a time, in order. Nothing is begun before the piece before it is done, and nothing is left undone at the
end, unless who waits is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class BackgroundStep:
    """A context manager; at its end the last piece is done, and an error of it is raised.

    Args:
        stop: ends what a piece waits for, where the run is interrupted.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._pool = ThreadPoolExecutor(1, "headwater-behind")
        self._doing: Future[None] | None = None

    def begin(self, work: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Do a piece, once the one before is done; returns when it has begun.

        Args:
            work: the piece.
            give_up: called instead, if it does not come to that.

        Raises:
            Exception: of the one before.
        """
        try:
            self.wait()
        except BaseException:
            give_up()
            raise
        self._doing = self._pool.submit(work)

    def wait(self) -> None:
        """Wait until nothing is being done.

        Raises:
            Exception: of what was being done.
        """
        doing, self._doing = self._doing, None
        if doing is not None:
            doing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_interrupted = error is not None and not isinstance(error, Exception)
        if is_interrupted:
            self._stop()
            self._pool.shutdown()
            return
        try:
            self.wait()  # an error of it comes first: it is of an earlier window
        finally:
            self._pool.shutdown()
