"""A process that the launcher has started, and the thread that hears what it says.

It has a process group of its own: an interrupt of the terminal is for the launcher alone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from headwater.apply.launcher.reports import VARIABLE, Report

_OF_FLAGS = "HEADWATER_APPLY_"
"""Variables that begin so are in what the process is told."""


class LaunchedProcess:
    """A process.

    Args:
        order: what it is told, as an object of JSON.
        heard: is called with each report; ended: with the exit status, or the negative number of the signal that was
            its end. Both are called by a thread of its own.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, order: Mapping[str, Any], heard: Callable[[Report], None], ended: Callable[[int], None]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _start(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self._socket, self._heard, self._ended = ours, heard, ended
        with suppress(OSError):  # It has ended at once, which the thread notices.
            ours.sendall(json.dumps(order).encode() + b"\n")
        threading.Thread(target=self._listen, name=f"process {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def end(self) -> None:
        """Ask it to end."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def _listen(self) -> None:
        with self._socket.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                if line.endswith(b"\n"):
                    self._heard(Report.parse(line))
        status = self._process.wait()
        self._socket.close()
        self._ended(status)


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_FLAGS)}
    return subprocess.Popen(
        [sys.executable, "-m", "headwater.cli.main", "apply"],
        env={**environment, VARIABLE: str(descriptor)},
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
