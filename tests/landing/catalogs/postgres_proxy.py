"""A proxy before PostgreSQL that loses connections at COMMIT: before the server has it, or when it has answered."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PASS, BEFORE, BEHIND = "pass", "before", "behind"
"""What becomes of a COMMIT: it goes on; its connection is lost before the server has it, or before its answer comes."""

_COMMIT = b"COMMIT"


@dataclass
class PostgresProxy:
    """The proxy, as it runs.

    Attributes:
        port: of 127.0.0.1; choose: gives the fate of a COMMIT; lost: fates of connections so far.
    """

    port: int
    choose: Callable[[], str] = field(default=lambda: PASS)
    lost: list[str] = field(default_factory=list)


@contextmanager
def postgres_proxy(port: int) -> Iterator[PostgresProxy]:
    """Run a proxy before a server on this machine."""
    running: list[PostgresProxy] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as behind, suppress(OSError):
                answers = threading.Thread(target=self._pass_answers, args=(behind,), daemon=True)
                self.silent = False
                answers.start()
                self._pass_questions(behind)
                behind.shutdown(socket.SHUT_WR)
                answers.join()

        def _pass_questions(self, behind: socket.socket) -> None:
            while data := self.request.recv(1 << 16):
                fate = running[0].choose() if _COMMIT in data else PASS
                if fate != PASS:
                    running[0].lost.append(fate)
                    self.silent = True
                if fate != BEFORE:
                    behind.sendall(data)
                if fate != PASS:
                    return

        def _pass_answers(self, behind: socket.socket) -> None:
            """Pass answers on, or wait for the end without telling of it."""
            with suppress(OSError):
                while data := behind.recv(1 << 16):
                    if not self.silent:
                        self.request.sendall(data)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    running.append(PostgresProxy(server.server_address[1]))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
