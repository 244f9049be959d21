"""A proxy before a store, which loses answers, refuses requests, or has something happen before it passes one on."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PASS, LOSE, REFUSE, KILL, KILL_BEHIND = "pass", "lose", "refuse", "kill", "kill behind"
"""What becomes of a request: it is passed on; passed on, and answered by 503; answered by 503; or the process that
asks is killed before it is passed on, or when the store has answered."""

WRITES = ("PUT", "POST", "DELETE")
_HOP = ("connection", "transfer-encoding", "content-length", "date", "server")


@dataclass(frozen=True)
class AskedThere:
    """A request: its method and path, whether it writes on a condition, and what became of it."""

    method: str
    path: str
    on_condition: bool
    fate: str


@dataclass
class StoreProxy:
    """The proxy, as it runs.

    Attributes:
        endpoint: its address.
        choose: gives the fate of a request by its method and path, and whether it is written on a condition.
        kill: kills the process that asks.
        asked: requests so far.
    """

    endpoint: str
    choose: Callable[[str, str, bool], str] = field(default=lambda *_: PASS)
    kill: Callable[[], None] = field(default=lambda: None)
    asked: list[AskedThere] = field(default_factory=list)

    def nth_write(self, number: int, fate: str) -> None:
        """Let one request that writes, of those from now on, have a fate."""
        left = [number]
        lock = threading.Lock()

        def choose(method: str, _path: str, _on_condition: bool) -> str:
            with lock:
                left[0] -= method in WRITES
                return fate if method in WRITES and not left[0] else PASS

        self.choose = choose


@contextmanager
def store_proxy(endpoint: str) -> Iterator[StoreProxy]:
    """Run a proxy before a server."""
    behind = urlsplit(endpoint).netloc
    running: list[StoreProxy] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self._body()
            on_condition = "If-Match" in self.headers or "If-None-Match" in self.headers
            proxy = running[0]
            fate = proxy.choose(self.command, self.path, on_condition)
            proxy.asked.append(AskedThere(self.command, self.path, on_condition, fate))
            if fate in (KILL, REFUSE):
                proxy.kill() if fate == KILL else None
                return self._send(503, [], b"")
            status, headers, answer = _asked(behind, self.command, self.path, self.headers, body)
            if fate == KILL_BEHIND:
                proxy.kill()
            if fate != PASS:
                return self._send(503, [], b"")
            return self._send(status, headers, answer)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                return b"".join(iter(self._chunk, b""))
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _chunk(self) -> bytes:
            size = int(self.rfile.readline().split(b";")[0], 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            return data

        def _send(self, status: int, headers: list[tuple[str, str]], answer: bytes) -> None:
            try:
                self.send_response(status)
                for name, value in headers:
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                size = {name.lower(): value for name, value in headers}.get("content-length", "0")
                self.send_header("Content-Length", size if self.command == "HEAD" else str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    running.append(StoreProxy(f"http://127.0.0.1:{server.server_port}"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _asked(behind: str, method: str, path: str, headers: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
    connection = http.client.HTTPConnection(behind)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "expect"):
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()
