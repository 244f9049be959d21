"""A client that sends whatever it is given, and says what comes back."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

CLIENT_NONCE = b"fyko+d2lbbFgONRv9qkxdawL"

Answer = tuple[str, object]
"""``E`` with the fields of an error, ``R`` with the number of an authentication request and its data, or ``closed``."""


@dataclass
class RawClient:
    """A connection.

    Attributes:
        connection: the socket, encrypted or not.
        nonce, salt, iterations, first: what the server's first message of SCRAM had, and that message.
    """

    connection: socket.socket
    nonce: bytes = b""
    salt: bytes = b""
    iterations: int = 0
    first: bytes = b""
    answers: list[Answer] = field(default_factory=list)

    def startup(self, parameters: Mapping[str, str]) -> Answer:
        """Send the StartupMessage."""
        pairs = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items())
        body = struct.pack(">I", 3 << 16) + pairs + b"\0"
        self.connection.sendall(struct.pack(">I", len(body) + 4) + body)
        return self.receive()

    def send(self, body: bytes, kind: bytes = b"p") -> Answer:
        """Send a message, and return what comes back."""
        self.connection.sendall(kind + struct.pack(">I", len(body) + 4) + body)
        return self.receive()

    def receive(self) -> Answer:
        """Return the next message."""
        try:
            header = self._exactly(5)
            (length,) = struct.unpack_from(">I", header, 1)
            body = self._exactly(length - 4)
        except (EOFError, ConnectionResetError):
            return "closed", None
        if header[:1] == b"E":
            return "E", _error_fields(body)
        assert header[:1] == b"R", header
        return "R", self._request(struct.unpack_from(">I", body)[0], body[4:])

    def _request(self, number: int, data: bytes) -> tuple[int, bytes]:
        """Return an authentication request, without what is new in each login."""
        if number == 12:
            return number, b""
        if number != 11 or not data:
            return number, data
        self.first = data
        nonce, salt, iterations = (part[2:] for part in data.split(b","))
        self.nonce, self.salt, self.iterations = nonce, b64decode(salt), int(iterations)
        own = len(nonce) - 24
        return number, data.replace(nonce[own:], b"<nonce>")

    def final(self, password: bytes, bare: bytes, binding: bytes = b"n,,") -> bytes:
        """Return the client-final-message that proves to know a password, as a client of RFC 5802 makes it."""
        without_proof = b"c=" + b64encode(binding) + b",r=" + self.nonce
        salted = hashlib.pbkdf2_hmac("sha256", password, self.salt, self.iterations)
        key = hmac.digest(salted, b"Client Key", "sha256")
        stored = hashlib.sha256(key).digest()
        signature = hmac.digest(stored, b",".join((bare, self.first, without_proof)), "sha256")
        return without_proof + b",p=" + b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.connection.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data


def _error_fields(body: bytes) -> dict[str, str]:
    """Return what an error says, without the place in the server's source."""
    fields = {part[:1].decode(): part[1:].decode(errors="surrogateescape") for part in body.split(b"\0") if part}
    return {name: text for name, text in fields.items() if name not in "FLR"}


def initial(data: bytes | None, mechanism: bytes = b"SCRAM-SHA-256") -> bytes:
    """Return the body of SASLInitialResponse."""
    return mechanism + b"\0" + (struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data)


Address = str | tuple[str, int]
"""A Unix socket, or an IP address and a port."""


@contextmanager
def raw_client(address: Address, is_encrypted: bool = False, source: str = "") -> Iterator[RawClient]:
    """Connect, and encrypt the connection if that is asked for.

    Args:
        address: of the server.
        is_encrypted: by TLS, whatever the certificate.
        source: the IP address to come from.
    """
    if isinstance(address, str):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
    else:
        connection = socket.create_connection(address, 30, (source, 0) if source else None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        if not is_encrypted:
            yield RawClient(connection)
            return
        connection.sendall(struct.pack(">II", 8, 80877103))
        assert connection.recv(1) == b"S"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(connection) as encrypted:
            yield RawClient(encrypted)


Script = Callable[[RawClient], Iterator[Answer]]
"""What a client does; it gives the answers that it gets."""
