"""A server that lets clients in, or not, and does nothing else: the part of a session that :mod:`access` is for."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import SessionError
from headwater.protocol.backend_messages import IDLE, backend_key_data, parameter_status, ready_for_query, report_of
from headwater.protocol.startup import SslRequest, StartupMessage, parse_first_packet, session_request
from headwater.walsender.access.authentication import Access, Pending
from headwater.walsender.access.peer import peer_of
from headwater.walsender.access.tls import ALPN, Encryption

Connection = socket.socket | ssl.SSLSocket


@dataclass
class TinyServer:
    """A server on a port of loopback, or on a Unix socket; each connection has a thread.

    Attributes:
        access: who is let in.
        encryption: of connections; None for none.
        path: of a Unix socket; None for a port.
    """

    access: Access
    encryption: Encryption | None = None
    path: Path | None = None

    @contextmanager
    def running(self) -> Iterator[str | tuple[str, int]]:
        """Serve in the ``with`` block; gives the address."""
        listener = socket.socket(socket.AF_INET if self.path is None else socket.AF_UNIX)
        with listener:
            listener.bind(("127.0.0.1", 0) if self.path is None else str(self.path))
            listener.listen()
            threads = [threading.Thread(target=self._accept, args=(listener,))]
            threads[0].start()
            try:
                yield listener.getsockname()
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                threads[0].join()
                if self.path is not None:
                    self.path.unlink()

    def _accept(self, listener: socket.socket) -> None:
        threads = []
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=self._serve, args=(connection,)))
                threads[-1].start()
        for thread in threads:
            thread.join()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(ConnectionError, EOFError, ssl.SSLError), plain:
            plain.settimeout(30)
            connection: Connection = plain
            if self.encryption is not None and plain.recv(1, socket.MSG_PEEK) == b"\x16":
                connection = self._encrypted(plain)
                assert connection.selected_alpn_protocol() == ALPN
            packet = _first_packet(connection, self.access)
            while isinstance(packet, SslRequest):
                plain.sendall(b"N" if self.encryption is None else b"S")
                connection = plain if self.encryption is None else self._encrypted(plain)
                packet = _first_packet(connection, self.access)
            with connection:
                assert isinstance(packet, StartupMessage)
                self._log_in(connection, packet)

    def _encrypted(self, plain: socket.socket) -> ssl.SSLSocket:
        assert self.encryption is not None
        return self.encryption.context.wrap_socket(plain, server_side=True)

    def _log_in(self, connection: Connection, message: StartupMessage) -> None:
        try:
            peer = peer_of(connection, connection if isinstance(connection, ssl.SSLSocket) else None)
            state = self.access.begin(session_request(message), peer)
            while isinstance(state, Pending):
                connection.sendall(state.messages)
                header = _exactly(connection, 5)
                (length,) = struct.unpack_from(">I", header, 1)
                state.check_header(header[:1], length)
                state = state.step(header[:1], _exactly(connection, length - 4))
            connection.sendall(state.messages)
            user = state.user
        except SessionError as error:
            connection.sendall(report_of(error, "FATAL").as_bytes())
            return
        connection.sendall(parameter_status("server_version", str(self.access.version)))
        connection.sendall(parameter_status("authenticated", user.name))
        connection.sendall(backend_key_data(7, b"\0\0\0\x09") + ready_for_query(IDLE))
        connection.recv(1)


def _first_packet(connection: Connection, access: Access) -> object:
    (length,) = struct.unpack(">I", _exactly(connection, 4))
    return parse_first_packet(_exactly(connection, length - 4), access.version)


def _exactly(connection: Connection, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
