"""A proxy before a target that hands on so many bytes exactly, when whoever sends them is killed.

So a worker can be killed between any two writes to its socket, and amid one: the target has what was written before.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres

_PARSE, _HEADER = ord("P"), struct.Struct("!BI")
_STARTUP = struct.Struct("!I")


class CuttingProxy:
    """The proxy, as it runs.

    Args:
        behind: the server's socket.

    Attributes:
        port: of 127.0.0.1.
    """

    def __init__(self, behind: Path) -> None:
        self.behind, self.port = behind, 0
        self._lock = threading.Lock()
        self._kill: Callable[[], None] = lambda: None
        self._words, self._halves = b"", 0
        self._is_counting = self._has_cut = False

    def cut(self, words: bytes, halves: int, kill: Callable[[], None]) -> None:
        """Let so much pass from the first statement on that has words and a name, in all sessions together.

        Args:
            words: of a statement that is prepared; halves: of messages from that on, which pass.
            kill: kills who sends them.
        """
        with self._lock:
            self._words, self._halves, self._kill = words, halves, kill
            self._is_counting = self._has_cut = False

    def passes(self, message: bytes) -> tuple[bytes, bool]:
        """Return what passes of a message, and whether anything will behind it."""
        with self._lock:
            if not self._words or (not self._is_counting and not self._begins(message)):
                return message, True
            self._is_counting = True
            if self._has_cut:
                return b"", False
            self._halves -= 2
            if self._halves >= 0:
                return message, True
            self._has_cut = True
            self._kill()
            return message[: len(message) // 2 if self._halves == -1 else 0], False

    def _begins(self, message: bytes) -> bool:
        is_named = message[0] == _PARSE and message[_HEADER.size] != 0
        return is_named and self._words in message


@contextmanager
def cutting_proxy(server: EmbeddedPostgres) -> Iterator[CuttingProxy]:
    """Run a proxy before a server; sessions through it are not encrypted."""
    proxy = CuttingProxy(server.socket_directory / f".s.PGSQL.{server.port}")

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(str(proxy.behind))
                answers = threading.Thread(target=_pass_answers, args=(behind, self.request), daemon=True)
                answers.start()
                with suppress(OSError):
                    _pass_messages(proxy, self.request, behind)
                # Closing it would end nothing as long as the other thread receives from it.
                with suppress(OSError):
                    behind.shutdown(socket.SHUT_WR)
                answers.join()

    listening = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    proxy.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def _pass_messages(proxy: CuttingProxy, front: socket.socket, behind: socket.socket) -> None:
    """Pass messages on, each by itself, as far as that is asked for."""
    startup = _received(front, _STARTUP.size)
    (length,) = _STARTUP.unpack(startup)
    behind.sendall(startup + _received(front, length - _STARTUP.size))
    while True:
        header = _received(front, _HEADER.size)
        _, length = _HEADER.unpack(header)
        passing, goes_on = proxy.passes(header + _received(front, length - _HEADER.size + 1))
        behind.sendall(passing)
        if not goes_on:
            return


def _received(front: socket.socket, count: int) -> bytes:
    """Receive so many bytes.

    Raises:
        ConnectionError: there are fewer.
    """
    data = bytearray()
    while len(data) < count:
        piece = front.recv(count - len(data))
        if not piece:
            raise ConnectionError("it has ended")
        data += piece
    return bytes(data)


def _pass_answers(behind: socket.socket, front: socket.socket) -> None:
    while True:
        with suppress(OSError):
            data = behind.recv(1 << 16)
            front.sendall(data)
            if data:
                continue
        return
