"""A service's status over HTTP: ``/status`` as JSON, ``/metrics`` for Prometheus, ``/healthz`` for who restarts it.

Answers GET and HEAD, without any login: it listens where the operator says. ``/healthz`` is 200 once the service works,
503 before, and while it ends. ``/metrics`` needs ``prometheus-client``; without it, it is 501.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any

from headwater import __version__
from headwater.base.system_errors import reason_of
from headwater.cli.process.setup import say
from headwater.errors import HeadwaterError, UsageError

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_INSTALL = "metrics need the extra metrics; run: pip install 'headwater[metrics]'"
_SECONDS = 10.0
"""For a request, and for each piece of its answer."""

MOST_REQUESTS = 64
"""Requests at a time, each in a thread: one more is the end of the oldest."""

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"
Answer = tuple[HTTPStatus, str, bytes]


@dataclass(frozen=True)
class Shown:
    """A status that is shown.

    Attributes:
        json: gives it as JSON; collector: gives its metrics.
    """

    json: Callable[[], bytes]
    collector: Collector


class StatusServer(ThreadingHTTPServer):
    """A server of a status.

    Args:
        host, port: where it listens.

    Attributes:
        shown: what is shown; None while there is nothing to be looked at.

    Raises:
        OSError: it cannot be listened there.
    """

    daemon_threads = True
    request_queue_size = 2 * MOST_REQUESTS

    def __init__(self, host: str, port: int) -> None:
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self.shown: Shown | None = None
        self._running: dict[int, socket] = {}
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread; whoever takes longest is not heard any more where there are too many."""
        with self._lock:
            self._running[id(request)] = request
            oldest = next(iter(self._running.values())) if len(self._running) > MOST_REQUESTS else None
            if oldest is not None:
                del self._running[id(oldest)]
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a request's connection."""
        with self._lock:
            self._running.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a client that has gone, or is too slow: it is no fault of this program's."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def answer(self, path: str) -> Answer:
        """Answer a request for a path."""
        shown = self.shown
        if path not in ("/status", "/metrics", "/healthz"):
            return HTTPStatus.NOT_FOUND, _TEXT, b"expected /status, /metrics or /healthz\n"
        if shown is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"not serving\n"
        if path == "/healthz":
            return HTTPStatus.OK, _TEXT, b"ok\n"
        try:
            return (HTTPStatus.OK, _JSON, shown.json()) if path == "/status" else _metrics(shown.collector)
        except HeadwaterError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, f"{error.one_line()}\n".encode()


def _metrics(collector: Collector) -> Answer:
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    except ImportError:
        return HTTPStatus.NOT_IMPLEMENTED, _TEXT, f"{_INSTALL}\n".encode()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)


class _Handler(BaseHTTPRequestHandler):
    """A request."""

    server: StatusServer
    server_version = f"headwater/{__version__}"
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Answer GET."""
        status, kind, content = self.server.answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing: whoever asks every few seconds would fill the log."""


@contextmanager
def serve_status(address: str | None) -> Iterator[StatusServer | None]:
    """Serve a status while the ``with`` block runs.

    Args:
        address: ``HOST:PORT``, port 0 for any that is free; None to serve none.

    Raises:
        UsageError: it is no address, or cannot be listened on.
    """
    if address is None:
        yield None
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f'"{address}" is no HOST:PORT to serve the status at', hint="such as --http 127.0.0.1:9187")
    try:
        server = StatusServer(host.strip("[]"), int(port))
    except OSError as error:
        raise UsageError(f"cannot listen on {address}: {reason_of(error)}") from None
    thread = threading.Thread(target=server.serve_forever, name="headwater-status", daemon=True)
    thread.start()
    say(f"headwater: status: http://{host}:{server.server_port}/status")
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
