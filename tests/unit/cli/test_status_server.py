"""The status over HTTP: clients that say nothing, or say it slowly, hold up nobody."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from http.client import HTTPConnection

from headwater.cli.process.status_server import MOST_REQUESTS, serve_status


def status_at(port: int, path: str) -> int:
    """Ask for a path; return the status of the answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def test_clients_that_say_nothing_hold_up_nobody() -> None:
    with serve_status("127.0.0.1:0") as server, ExitStack() as block:
        assert server is not None
        silent = [
            block.enter_context(socket.create_connection(("127.0.0.1", server.server_port), 60))
            for _ in range(MOST_REQUESTS + 10)
        ]
        for client in silent:
            client.sendall(b"GET /status HTTP/1.1\r\nX: ")
        assert status_at(server.server_port, "/healthz") == 503
        assert silent[0].recv(1) == b""
        assert status_at(server.server_port, "/nothing") == 404


def test_heads_that_are_too_large_are_refused() -> None:
    with serve_status("127.0.0.1:0") as server:
        assert server is not None
        for head in (b"GET /" + b"x" * 70_000, b"GET /status HTTP/1.1\r\n" + b"A: b\r\n" * 200, b"\0\xff\r\n"):
            with socket.create_connection(("127.0.0.1", server.server_port), 60) as client:
                client.sendall(head + b"\r\n\r\n")
                assert client.recv(100).startswith((b"HTTP/1.0 4", b"<!DOCTYPE", b""))
        assert status_at(server.server_port, "/healthz") == 503
