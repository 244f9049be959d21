"""A process that has imported what ``headwater apply`` and ``serve`` need, and forks each of them: ``forked_commands``.

Started by itself, a command spends more than a second of a core on imports and on loading kernels. Most tests of these
rungs do little more work than that. A fork has both in memory. It is a process as any other: it has a number,
signals, streams and an environment of its own. Its end waits for threads, runs what was registered for it, and leaves
memory to the kernel: taking kernels down one by one is a third of a second.

On a new machine there are no kernels yet when the first command is forked. What is compiled meanwhile, by commands or
by anybody else, is loaded before the next fork.

Requests come by a socket, which is argument 1: JSON, with standard output, standard error, and a pipe. The command
writes its number to the pipe once signals reach it; this process writes its exit status there.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import Any

ROOMS = ("apply", "cli.process", "receiver", "remote_slots", "slots", "walsender")
COMMANDS = ("apply", "main", "serve", "subscription")
AT_WORK = ("psycopg", "psycopg.pq", "psycopg.postgres")
"""What commands import when they first need it: more than half of what a short one would spend."""
MAIN = "headwater.cli.main"

REQUEST_BYTES = 1 << 18
_HANDED_OVER = 3


@dataclass(frozen=True)
class Request:
    """A command that is to run.

    Attributes:
        words: behind Python's name: ``-m headwater.cli.main``, or a script, and arguments.
        environment: all of it; directory: to run in.
        output, error, pipe: descriptors.
    """

    words: list[str]
    environment: dict[str, str]
    directory: str
    output: int
    error: int
    pipe: int


def import_all() -> None:
    """Import what commands need."""
    for name in (*AT_WORK, *(f"headwater.cli.{command}" for command in COMMANDS)):
        importlib.import_module(name)
    for name in ROOMS:
        room = importlib.import_module(f"headwater.{name}")
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)


class CompiledKernels:
    """The kernels that this process could call, as far as anybody has compiled them."""

    def __init__(self) -> None:
        self._loading = importlib.import_module("headwater.spark.kernel_loading")
        self._places = {kernel._cache.index.parent for kernel in self._loading.task_kernels()}
        self._loaded: list[int] = []

    def load(self) -> None:
        """Load those that are new: machine code comes into its directory as a file."""
        times = [place.stat().st_mtime_ns for place in self._places]
        if times != self._loaded:
            self._loading.load_kernels()
            self._loaded = times
            gc.collect()
            gc.freeze()


class Server:
    """Forks commands, and tells how they have ended.

    Args:
        channel: gives requests; kernels: are loaded before each fork.
    """

    def __init__(self, channel: socket.socket, kernels: CompiledKernels) -> None:
        self._channel, self._kernels = channel, kernels
        self._pipes: dict[int, int] = {}
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> Request | None:
        """Serve until there are no more requests; return what to run, in the process that is to run it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            for file in (self._channel.fileno(), self._woken):
                selector.register(file, selectors.EVENT_READ)
            while True:
                ready = [key.fd for key, _ in selector.select()]
                if self._woken in ready:
                    os.read(self._woken, 1000)
                    self._reap()
                if self._channel.fileno() in ready:
                    request = self._receive()
                    if request is None:
                        return None
                    if self._fork(request):
                        return request

    def _receive(self) -> Request | None:
        text, files, _, _ = socket.recv_fds(self._channel, REQUEST_BYTES, _HANDED_OVER)
        return Request(**json.loads(text), output=files[0], error=files[1], pipe=files[2]) if text else None

    def _fork(self, request: Request) -> bool:
        """Fork; tell whether this is the command's process."""
        self._kernels.load()
        number = os.fork()
        if not number:
            self._leave()
            return True
        for file in (request.output, request.error):
            os.close(file)
        self._pipes[number] = request.pipe
        return False

    def _leave(self) -> None:
        """Close and forget what is the server's alone."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._channel.close()
        for file in (self._woken, self._wakes, *self._pipes.values()):
            os.close(file)

    def _reap(self) -> None:
        """Tell of each command that has ended."""
        while self._pipes:
            number, status = os.waitpid(-1, os.WNOHANG)
            if not number:
                return
            pipe = self._pipes.pop(number)
            _write(pipe, os.waitstatus_to_exitcode(status))
            os.close(pipe)


def _write(pipe: int, number: int) -> None:
    """Write a number, unless nobody reads it any more."""
    try:
        os.write(pipe, f"{number}\n".encode())
    except BrokenPipeError:
        return


def become(request: Request) -> None:
    """Take on the streams, the environment and the arguments of a command."""
    for file, number in ((request.output, 1), (request.error, 2)):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.directory)
    faulthandler.enable()
    _write(request.pipe, os.getpid())
    os.close(request.pipe)


def end(words: list[str]) -> None:
    """Run a command, and end this process as it asks for."""
    status = 1
    try:
        run(words)
        status = 0
    except SystemExit as asked:
        status = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except BaseException:
        traceback.print_exc()
    # What the interpreter does first of all at its end (Py_FinalizeEx); neither has a public name.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def run(words: list[str]) -> None:
    """Run a command as Python does that is given these words."""
    if words[:2] == ["-m", MAIN]:
        sys.argv = [sys.modules[MAIN].__file__ or "", *words[2:]]
        sys.path[0] = os.getcwd()
        main: Any = sys.modules[MAIN]
        main.main()
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(words[0])
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    import_all()
    asked = Server(socket.socket(fileno=int(sys.argv[1])), CompiledKernels()).run()
    if asked is not None:
        become(asked)
        end(asked.words)
