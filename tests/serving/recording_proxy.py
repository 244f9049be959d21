"""A proxy between a client and a server that notes each message of both, before it hands it on.

What a side answers is noted after what it answers, as nothing reaches a side before it was noted. Both sides speak
without TLS. PostgreSQL: protocol-message-formats.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import END_SECONDS, Serving

FRONTEND, BACKEND = "F", "B"
STARTUP, ASKED, ANSWERED, CLOSED = "startup", "asked", "answered", "closed"
"""Kinds of what has no letter: StartupMessage, a request before it, the byte that answers that, the server's end."""

_REQUESTS = (80877102, 80877103, 80877104)
"""CancelRequest, SSLRequest, GSSENCRequest."""

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Message:
    """A message: its side, the letter of its kind or a word for what has no letter, and its body."""

    side: str
    kind: str
    body: bytes


@dataclass
class Recording:
    """The messages of one connection, in the order in which they came to the proxy."""

    messages: list[Message] = field(default_factory=list)
    unanswered: int = 0
    has_begun: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def client_said(self, unread: bytearray) -> None:
        """Note the whole messages of what a client has sent, and take them off."""
        with self.lock:
            while (size := self._size(unread, self.has_begun)) is not None:
                data = bytes(unread[:size])
                del unread[:size]
                self._note_of_client(data)

    def server_said(self, unread: bytearray) -> None:
        """Note the whole messages of what a server has sent, and take them off."""
        with self.lock:
            while self.unanswered and unread:
                self.messages.append(Message(BACKEND, ANSWERED, bytes(unread[:1])))
                self.unanswered -= 1
                del unread[:1]
            while (size := self._size(unread, True)) is not None:
                self.messages.append(Message(BACKEND, chr(unread[0]), bytes(unread[5:size])))
                del unread[:size]

    def server_closed(self) -> None:
        """Note that the server has ended the connection, if the client has not said before that it goes."""
        with self.lock:
            if all(message.kind not in ("X", CLOSED) for message in self.messages):
                self.messages.append(Message(BACKEND, CLOSED, b""))

    def client_closed(self) -> None:
        """Note that the client has ended the connection, without a word if it has not said so."""
        with self.lock:
            if all(message.kind not in ("X", CLOSED) for message in self.messages):
                self.messages.append(Message(FRONTEND, CLOSED, b""))

    def _note_of_client(self, data: bytes) -> None:
        if self.has_begun:
            self.messages.append(Message(FRONTEND, chr(data[0]), data[5:]))
            return
        (code,) = struct.unpack_from(">I", data, 4)
        is_request = code in _REQUESTS
        self.messages.append(Message(FRONTEND, ASKED if is_request else STARTUP, data[4:]))
        self.has_begun = not is_request
        self.unanswered += is_request and code != _REQUESTS[0]

    @staticmethod
    def _size(unread: bytearray, has_letter: bool) -> int | None:
        """Return the bytes of the first message, None as long as it is not whole."""
        at = 1 if has_letter else 0
        if len(unread) < at + 4:
            return None
        size: int = at + struct.unpack_from(">I", unread, at)[0]
        return size if len(unread) >= size else None


class RecordingProxy:
    """A proxy on a port of 127.0.0.1; a context manager, at whose end all connections are over.

    Args:
        server: what connections go to.

    Attributes:
        recordings: of the connections, as they came.
    """

    def __init__(self, server: EmbeddedPostgres | Serving) -> None:
        self._server = server
        self.recordings: list[Recording] = []
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens to."""
        port: int = self._listener.getsockname()[1]
        return port

    def conninfo(self, words: str = "dbname=postgres user=replicator") -> str:
        """Return the connection string of the proxy."""
        return f"host=127.0.0.1 port={self.port} sslmode=prefer {words}"

    def environment(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment of a client, with the proxy's place in it."""
        return {**environment, "PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "replicator"}

    def __enter__(self) -> RecordingProxy:
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(END_SECONDS)
        self._listener.close()
        for connection in list(self._open) if kind is not None else []:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(END_SECONDS)
            assert not thread.is_alive()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        server, recording = self._connected(), Recording()
        self.recordings.append(recording)
        self._open |= {client, server}
        pairs = (
            (client, server, recording.client_said, recording.client_closed),
            (server, client, recording.server_said, recording.server_closed),
        )
        for pair in pairs:
            thread = threading.Thread(target=_hand_on, args=pair, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _connected(self) -> socket.socket:
        if isinstance(self._server, Serving):
            return socket.create_connection(("127.0.0.1", self._server.port))
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"{self._server.socket_directory}/.s.PGSQL.{self._server.port}")
        return connection


def _hand_on(
    source: socket.socket, target: socket.socket, note: Callable[[bytearray], None], closed: Callable[[], None]
) -> None:
    """Hand on what a side sends, until it ends."""
    unread = bytearray()
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            unread += data
            note(unread)
            target.sendall(data)
    closed()
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
