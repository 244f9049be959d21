"""A proxy before a store, which loses answers, refuses requests, cuts connections, or kills who asks."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

PASS, LOSE, REFUSE, KILL, KILL_BEHIND = "pass", "lose", "refuse", "kill", "kill behind"
CUT, CUT_BEHIND, DELAY = "cut", "cut behind", "delay"
"""What becomes of a request: it is passed on; passed on, and answered by 503; answered by 503; the process that asks is
killed before it is passed on, or when the store has answered; the connection is cut before or behind; or it is late."""

DELAY_SECONDS = 2.0
WRITES = ("PUT", "POST", "DELETE")
_HOP = ("connection", "transfer-encoding", "content-length", "date", "server")
_OURS = ("transfer-encoding", "content-length", "connection", "expect")

Answer = tuple[int, list[tuple[str, str]], bytes]


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
        endpoint: its address; behind: the server's, host and port.
        choose: gives the fate of a request by its method and path, and whether it is written on a condition.
        kill: kills the process that asks.
        asked: requests so far.
    """

    endpoint: str
    behind: str
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

    def answered(self, asking: _Asking) -> Answer | None:
        """Do what becomes of a request; gives the answer, or None where the connection is cut."""
        fate = self.choose(asking.method, asking.path, asking.on_condition)
        self.asked.append(AskedThere(asking.method, asking.path, asking.on_condition, fate))
        if fate == DELAY:
            time.sleep(DELAY_SECONDS)  # That is the fate.
        if fate == KILL:
            self.kill()
        if fate in (KILL, REFUSE, CUT):
            return None if fate == CUT else _REFUSAL
        answer = asking.answer(self.behind)
        if fate == KILL_BEHIND:
            self.kill()
        if fate in (PASS, DELAY):
            return answer
        return None if fate == CUT_BEHIND else _REFUSAL


_REFUSAL: Answer = (503, [], b"")


@dataclass(frozen=True)
class _Asking:
    """A request, as it is passed on."""

    method: str
    path: str
    headers: Any
    body: bytes

    @property
    def on_condition(self) -> bool:
        return "If-Match" in self.headers or "If-None-Match" in self.headers

    def answer(self, behind: str) -> Answer:
        connection = http.client.HTTPConnection(behind)
        try:
            connection.putrequest(self.method, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OURS:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(self.body)))
            connection.endheaders(self.body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: StoreProxy

    def handle_error(self, *_: Any) -> None:
        """Say nothing: who asks may be killed at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        assert isinstance(self.server, _Server)
        answer = self.server.proxy.answered(_Asking(self.command, self.path, self.headers, self._body()))
        if answer is None:
            self.close_connection = True
        else:
            self._send(*answer)

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


@contextmanager
def store_proxy(endpoint: str) -> Iterator[StoreProxy]:
    """Run a proxy before a server."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy = StoreProxy(f"http://127.0.0.1:{server.server_port}", urlsplit(endpoint).netloc)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
