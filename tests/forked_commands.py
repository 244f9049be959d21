"""Commands as processes that are forked from one that has all modules and kernels in memory: ``fork_server.py``.

What is shown of them is what they do, not how they start: that is shown by the rungs that run the installed command.
A test about a process's first steps starts Python itself.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

_SERVER = Path(__file__).with_name("fork_server.py")
MAIN = ("-m", "headwater.cli.main")
"""What Python is given to run the command."""


class ForkedCommand:
    """A command that runs, or has ended; as ``subprocess.Popen``, of which it has the parts that tests use.

    Args:
        words: behind Python's name: :data:`MAIN`, or a script, and arguments.
        stdout, stderr: files to write to; None for those of this process.
        environment: all of it; None for that of this process.

    Attributes:
        pid: its number; returncode: how it has ended, None as far as is known.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdout: IO[bytes] | int | None = None,
        stderr: IO[bytes] | int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.returncode: int | None = None
        asked = {"words": list(words), "environment": dict(environment or os.environ), "directory": os.getcwd()}
        reads, writes = os.pipe()
        try:
            files = [_number(stdout, 1), _number(stderr, 2), writes]
            socket.send_fds(_channel(), [json.dumps(asked).encode()], files)
        finally:
            os.close(writes)
        self._pipe = os.fdopen(reads, "rb", buffering=0)
        self.pid = int(self._pipe.readline())

    def poll(self) -> int | None:
        """Return how it has ended; None while it runs."""
        if self.returncode is None and select.select([self._pipe], [], [], 0)[0]:
            self._note_end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; return its exit status, or the negative number of a signal.

        Raises:
            subprocess.TimeoutExpired: it has not, after so many seconds.
        """
        if self.returncode is None:
            if not select.select([self._pipe], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("headwater", timeout or 0)
            self._note_end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _note_end(self) -> None:
        self.returncode = int(self._pipe.readline())
        self._pipe.close()


def run_forked(words: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, within so many seconds; return what it has written.

    Raises:
        subprocess.TimeoutExpired: it did not end, and was killed.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        command = ForkedCommand(words, stdout=output, stderr=error)
        try:
            status = command.wait(timeout)
        except subprocess.TimeoutExpired:
            command.kill()
            raise
        return subprocess.CompletedProcess(list(words), status, _text(output), _text(error))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _number(file: IO[bytes] | int | None, usual: int) -> int:
    if file is None:
        return usual
    return file if isinstance(file, int) else file.fileno()


@cache
def _channel() -> socket.socket:
    """Start the server of this process, which ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        subprocess.Popen(
            [sys.executable, str(_SERVER), str(its.fileno())], pass_fds=[its.fileno()], stdin=subprocess.DEVNULL
        )
    atexit.register(ours.close)
    return ours
