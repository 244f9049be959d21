"""The launcher's socket: what ``headwater subscription`` asks of it, a line of JSON each way.

A question has the name of a command, and of a subscription; an answer what was asked for, or the error. The socket is
for the user of the launcher alone (mode 0600). A lock beside it is the launcher's as long as it lives, so that a
directory has one launcher; a socket that is left without it is nobody's.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headwater.apply.launcher.launcher import Launcher
from headwater.base.locks import lock, open_lock, release
from headwater.base.system_errors import errors_as
from headwater.errors import HeadwaterError, ServerError, UsageError

SOCKET, LOCK, PLACES = "control.sock", "launcher.lock", "places"
"""Names inside a launcher's directory; the last is the directory of limits that processes share."""

MOST_BYTES = 100
"""Of a socket's path, at most; systems differ a little."""

SECONDS = 120.0
"""How long an answer is waited for: a process that is asked to end may wait for its target."""

Answer = dict[str, Any]


class ControlSocket(socketserver.ThreadingUnixStreamServer):
    """The socket of a launcher.

    Args:
        path: of it; launcher: that answers.

    Raises:
        OSError: it cannot be made.
    """

    daemon_threads = True

    def __init__(self, path: Path, launcher: Launcher) -> None:
        self._launcher = launcher
        super().__init__(str(path), _Handler)

    def server_bind(self) -> None:
        """Bind it, for this user alone."""
        before = os.umask(0o177)
        try:
            super().server_bind()
        finally:
            os.umask(before)

    def answer(self, question: Answer) -> Answer:
        """Answer a question."""
        commands: dict[str, Callable[[str], None]] = {
            "pause": self._launcher.pause,
            "resume": self._launcher.resume,
            "restart": self._launcher.restart,
            "wake": self._launcher.wake,
            "forget": self._launcher.forget,
        }
        command = question.get("command")
        try:
            if command == "list":
                return {"result": self._launcher.status()}
            if command not in commands:
                raise UsageError(f'the launcher does not know the command "{command}"')
            commands[command](str(question.get("subscription")))
            return {"result": []}
        except HeadwaterError as error:
            return {"error": error.message, "sqlstate": getattr(error, "sqlstate", None)}


class _Handler(socketserver.StreamRequestHandler):
    """A question."""

    server: ControlSocket
    timeout = SECONDS

    def handle(self) -> None:
        """Answer it."""
        with suppress(OSError, ValueError):
            answer = self.server.answer(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps(answer).encode() + b"\n")


@contextmanager
def launcher_directory(directory: Path) -> Iterator[None]:
    """Have a directory for a launcher, which is made if it is missing.

    Raises:
        UsageError: it cannot be made, or another launcher has it.
    """
    with errors_as(UsageError, "make the launcher's directory", str(directory)):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / PLACES).mkdir(mode=0o700, exist_ok=True)
        descriptor = open_lock(directory / LOCK)
    try:
        if not lock(descriptor):
            raise UsageError("another launcher runs there", file=str(directory), hint="--directory names another")
        yield
    finally:
        release(descriptor)


@contextmanager
def serve_control(directory: Path, launcher: Launcher) -> Iterator[None]:
    """Answer questions while the ``with`` block runs.

    Raises:
        UsageError: the socket cannot be made.
    """
    path = _path(directory)
    with errors_as(UsageError, "make the launcher's socket", str(path)):
        path.unlink(missing_ok=True)
        server = ControlSocket(path, launcher)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="control socket", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        path.unlink(missing_ok=True)


def ask_launcher(directory: Path, command: str, subscription: str | None = None) -> list[Answer]:
    """Ask the launcher of a directory.

    Returns:
        the status of each subscription, if that was asked for; else nothing.

    Raises:
        ServerError: it refuses.
        LauncherMissingError: none runs there.
    """
    path = _path(directory)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SECONDS)
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            raise LauncherMissingError("no launcher runs there", file=str(directory)) from None
        except OSError as error:
            raise ServerError(f"the launcher cannot be asked: {error.strerror}", file=str(path)) from None
        question = {"command": command, "subscription": subscription}
        client.sendall(json.dumps(question).encode() + b"\n")
        with client.makefile("rb") as file:
            line = file.readline()
    if not line.endswith(b"\n"):
        raise ServerError("the launcher has ended before it answered", file=str(directory))
    answer = json.loads(line)
    if "error" in answer:
        raise ServerError(answer["error"], sqlstate=answer["sqlstate"])
    return list(answer["result"])


class LauncherMissingError(ServerError):
    """No launcher runs in a directory."""


def _path(directory: Path) -> Path:
    path = directory / SOCKET
    if len(os.fsencode(path)) > MOST_BYTES:
        raise UsageError(
            f"the path of the launcher's socket has {len(os.fsencode(path))} bytes, expected {MOST_BYTES} at most",
            file=str(path),
            hint="--directory names a shorter one",
        )
    return path
