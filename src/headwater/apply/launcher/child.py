"""The side of a launched process: it is told what to apply, says once a second how it is, and ends with its launcher.

One socket joins both. The launcher's first line is what is to be applied; what is said here is a
:class:`Report` a line. When the launcher has gone, however that was, the socket is at its end: the run is ended, and if
that takes too long, the process.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headwater.apply.launcher.reports import FAILED, End, Report
from headwater.apply.launcher.subscription_run import SubscriptionRun

REPORT_SECONDS, END_SECONDS = 1.0, 5.0
"""How often it says how it is; how long it may take to end once its launcher is gone."""


class LaunchedRun:
    """A run that a launcher has started.

    Args:
        descriptor: of the socket.

    Attributes:
        order: what the launcher said.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        with self._socket.makefile("rb") as file:
            self.order: dict[str, Any] = json.loads(file.readline())
        self._lock, self._is_over = threading.Lock(), threading.Event()

    def run(self, run: SubscriptionRun) -> End:
        """Run to the end, and say so.

        Raises:
            HeadwaterError: it fails, and that is not tried again.
        """
        threading.Thread(target=self._attend, args=(run,), name="launcher", daemon=True).start()
        end = FAILED
        try:
            end = run.run()
            return End(end)
        finally:
            self._is_over.set()
            self._say(Report(run.status(), end))

    def _attend(self, run: SubscriptionRun) -> None:
        """Say how it is, until the launcher is gone."""
        while not self._is_over.is_set():
            if select.select([self._socket], [], [], REPORT_SECONDS)[0]:
                self._end(run.stop)
                return
            self._say(Report(run.status()))

    def _end(self, stop: Callable[[], None]) -> None:
        stop()
        self._is_over.wait(END_SECONDS)
        os._exit(1)  # All that is not committed is the target's to undo.

    def _say(self, report: Report) -> None:
        with self._lock:
            if report.end is None and self._is_over.is_set():
                return
            with suppress(OSError):  # It is gone; whoever reads notices that.
                self._socket.sendall(report.line())
