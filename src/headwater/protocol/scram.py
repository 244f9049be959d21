"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: messages of the client in, of the server out.

Pure: nonces, secrets and the hash of the certificate are handed in. A client that is refused gets the server's error,
in its words. What a client has sent is never in them but as printable ASCII, and no secret ever is.

- :class:`Verifier` is what is known of a password, in the form that ``pg_authid.rolpassword`` has.
- :class:`Login` has what a login is checked by; ``first`` answers the first message of SCRAM with a
  :class:`Challenge`, and ``Challenge.final`` the second with the last message of the server.
- An unknown user, or one without a password, goes the same way. The salt is derived from the name and a secret of the
  service, so that it stays the same; every proof is wrong.
- Values that an attacker chooses are compared in constant time with those that he must not know.

PostgreSQL: auth-scram.c, scram-common.c, base64.c, auth-sasl.c (CheckSASLAuth), pqformat.c. RFC 5802, 5929, 7677.

Known gaps: a verifier whose number of iterations is not positive is refused where it is read; the server lets it be,
and clients refuse it. Without a hash of the certificate, as where that is signed with Ed25519, SCRAM-SHA-256-PLUS is
not offered over TLS; the server offers it, and fails.
"""

from __future__ import annotations

import hmac
import re
import struct
from base64 import b64encode
from dataclasses import dataclass
from hashlib import pbkdf2_hmac, sha256
from string import ascii_letters, digits
from typing import NoReturn

from headwater.errors import SessionError
from headwater.pg.sqlstates import (
    FEATURE_NOT_SUPPORTED,
    INVALID_AUTHORIZATION,
    INVALID_PASSWORD,
    PROTOCOL_VIOLATION,
)
from headwater.protocol.saslprep import prepared_password

SCRAM, SCRAM_PLUS = b"SCRAM-SHA-256", b"SCRAM-SHA-256-PLUS"

ITERATIONS, SALT_BYTES, NONCE_BYTES, SECRET_BYTES = 4096, 16, 18, 32
"""Defaults of the server (SCRAM_SHA_256_DEFAULT_ITERATIONS, ...; MOCK_AUTH_NONCE_LEN)."""

MOST_SASL_BYTES = 1024
"""Bytes of a message of SASL, with its length (PG_MAX_SASL_MESSAGE_LENGTH)."""

_KEY_BYTES = 32
_BINDING_HEADER = b"p=tls-server-end-point,,"
_DIGITS = {ord(digit): value for value, digit in enumerate(f"{ascii_letters[26:]}{ascii_letters[:26]}{digits}+/")}
_VERIFIER = re.compile(r"SCRAM-SHA-256\$0*([1-9][0-9]{0,9}):([^$:]*)\$([^$:]*):([^$:]*)")


@dataclass(frozen=True, repr=False)
class Verifier:
    """A verifier: what tells whether a client knows a password, without having it.

    Attributes:
        iterations: how often the password was hashed.
        salt: what was hashed with it.
        stored_key, server_key: what the client, and the server, prove to know.
    """

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def parse(cls, text: str) -> Verifier | None:
        """Parse the form that PostgreSQL keeps; None for anything else."""
        match = _VERIFIER.fullmatch(text)
        if match is None or int(match[1]) >= 1 << 31:
            return None
        values = [_from_base64(part.encode(errors="replace")) for part in match.groups()[1:]]
        salt, stored_key, server_key = values
        if salt is None or stored_key is None or server_key is None:
            return None
        if (len(stored_key), len(server_key)) != (_KEY_BYTES, _KEY_BYTES):
            return None
        return cls(int(match[1]), salt, stored_key, server_key)

    @classmethod
    def make(cls, password: bytes, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
        """Make the verifier of a password; the salt is to be random."""
        salted = pbkdf2_hmac("sha256", prepared_password(password), salt, iterations)
        client_key, server_key = _hmac(salted, b"Client Key"), _hmac(salted, b"Server Key")
        return cls(iterations, salt, sha256(client_key).digest(), server_key)

    @classmethod
    def mock(cls, user: str, secret: bytes) -> Verifier:
        """Make one that no password has, and that is the same each time the user is asked for."""
        digest = sha256(user.encode("utf-8", "surrogateescape") + secret).digest()
        return cls(ITERATIONS, digest[:SALT_BYTES], bytes(_KEY_BYTES), bytes(_KEY_BYTES))

    def __str__(self) -> str:
        """Return the form that PostgreSQL keeps."""
        salt, stored_key, server_key = (
            b64encode(value).decode() for value in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored_key}:{server_key}"


@dataclass(frozen=True, repr=False)
class Login:
    """A login that has begun: what the client's messages are checked by.

    Attributes:
        user: the role's name.
        verifier: of its password; None for a user who is unknown, or has no password.
        secret: of the service, of :data:`SECRET_BYTES`, for users without a verifier.
        nonce: printable and random, new for each login.
        binding: the hash of the certificate that the connection was encrypted with; None without TLS.
        is_bound: the client chose SCRAM-SHA-256-PLUS.
    """

    user: str
    verifier: Verifier | None
    secret: bytes
    nonce: bytes
    binding: bytes | None = None
    is_bound: bool = False

    @property
    def mechanisms(self) -> bytes:
        """The list of mechanisms, as it stands in AuthenticationSASL."""
        names = (SCRAM,) if self.binding is None else (SCRAM_PLUS, SCRAM)
        return b"".join(name + b"\0" for name in names) + b"\0"

    def choose(self, mechanism: bytes) -> Login:
        """Return the login by the mechanism that the client chose.

        Raises:
            SessionError: it was not offered.
        """
        is_bound = mechanism == SCRAM_PLUS and self.binding is not None
        if not is_bound and mechanism != SCRAM:
            _refuse("client selected an invalid SASL authentication mechanism")
        return Login(self.user, self.verifier, self.secret, self.nonce, self.binding, is_bound)

    def first(self, message: bytes) -> Challenge:
        """Answer the client-first-message.

        Raises:
            SessionError: it is malformed, or asks for what is not supported.
        """
        _check_text(message)
        at = self._after_binding_flag(message)
        at = _after_no_identity(message, at)
        bare = message[at:]
        if bare.startswith(b"m"):
            _refuse("client requires an unsupported SCRAM extension", FEATURE_NOT_SUPPORTED)
        client_nonce = _client_nonce(bare)
        verifier = self.verifier or Verifier.mock(self.user, self.secret)
        nonce = client_nonce + self.nonce
        salt = b64encode(verifier.salt)
        answer = b"r=%b,s=%b,i=%d" % (nonce, salt, verifier.iterations)
        return Challenge(self, verifier, message[:1], nonce, bare, answer)

    def _after_binding_flag(self, message: bytes) -> int:
        """Return the place behind the flag of channel binding and its comma."""
        flag = message[:1]
        if flag == b"p":
            return self._after_binding_type(message)
        if flag not in (b"n", b"y"):
            _malformed(f'Unexpected channel-binding flag "{_shown(message, 0)}".')
        if self.is_bound:
            _malformed(
                "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data."
            )
        if flag == b"y" and self.binding is not None:
            _refuse(
                "SCRAM channel binding negotiation error",
                INVALID_AUTHORIZATION,
                "The client supports SCRAM channel binding but thinks the server does not.  "
                "However, this server does support channel binding.",
            )
        if message[1:2] != b",":
            _malformed(f'Comma expected, but found character "{_shown(message, 1)}".')
        return 2

    def _after_binding_type(self, message: bytes) -> int:
        if not self.is_bound:
            _malformed(
                "The client selected SCRAM-SHA-256 without channel binding, "
                "but the SCRAM message includes channel binding data."
            )
        kind, at = _value(message, 0, "p")
        if kind != b"tls-server-end-point":
            _refuse(f'unsupported SCRAM channel-binding type "{_sanitized(kind)}"')
        return at


@dataclass(frozen=True, repr=False)
class Challenge:
    """The middle of a login: the server's first message, and what the client's second is checked by.

    Attributes:
        login: see :class:`Login`.
        verifier: the user's, or one that no password has.
        flag: of channel binding, as the client gave it.
        nonce: of both sides.
        client_first: the client's message without what is about channel binding.
        message: the server-first-message.
    """

    login: Login
    verifier: Verifier
    flag: bytes
    nonce: bytes
    client_first: bytes
    message: bytes

    def final(self, message: bytes) -> bytes:
        """Answer the client-final-message of a client that has proved to know the password.

        Returns:
            the server-final-message, by which the server proves that it knows it, too.

        Raises:
            SessionError: it is malformed, of another connection, or the password is wrong.
        """
        _check_text(message)
        binding, at = _value(message, 0, "c")
        self._check_binding(binding)
        nonce, at = _value(message, at, "r")
        proof, end = _proof(message, at)
        if not hmac.compare_digest(nonce, self.nonce):
            _refuse("invalid SCRAM response", detail="Nonce does not match.")
        signed = b",".join((self.client_first, self.message, message[:end]))
        is_right = self._is_right(proof, _hmac(self.verifier.stored_key, signed))
        # Only now: a wrong password and an unknown user take the same time.
        if not is_right or self.login.verifier is None:
            raise wrong_password(self.login.user)
        return b"v=" + b64encode(_hmac(self.verifier.server_key, signed))

    def _check_binding(self, binding: bytes) -> None:
        if self.login.is_bound:
            expected = b64encode(_BINDING_HEADER + (self.login.binding or b""))
            if not hmac.compare_digest(binding, expected):
                _refuse("SCRAM channel binding check failed", INVALID_AUTHORIZATION)
        elif binding != b64encode(self.flag + b",,"):
            _refuse("unexpected SCRAM channel-binding attribute in client-final-message")

    def _is_right(self, proof: bytes, signature: bytes) -> bool:
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        return hmac.compare_digest(sha256(client_key).digest(), self.verifier.stored_key)


def wrong_password(user: str) -> SessionError:
    """Return the error of a login that has failed, for whatever reason."""
    return SessionError(f'password authentication failed for user "{user}"', sqlstate=INVALID_PASSWORD)


def split_initial_response(body: bytes) -> tuple[bytes, bytes]:
    """Split SASLInitialResponse into the name of the mechanism and what follows it.

    Raises:
        SessionError: the name has no end.
    """
    mechanism, zero, rest = body.partition(b"\0")
    if not zero:
        _refuse("invalid string in message")
    return mechanism, rest


def initial_data(rest: bytes) -> bytes | None:
    """Return the client's first message out of SASLInitialResponse, None if it has none there.

    Args:
        rest: what follows the name of the mechanism.

    Raises:
        SessionError: its length does not fit.
    """
    if len(rest) < 4:
        _refuse("insufficient data left in message")
    (length,) = struct.unpack_from(">i", rest)
    if length < -1 or length > len(rest) - 4:
        _refuse("insufficient data left in message")
    if max(length, 0) != len(rest) - 4:
        _refuse("invalid message format")
    return None if length == -1 else rest[4:]


def _client_nonce(bare: bytes) -> bytes:
    _, at = _value(bare, 0, "n")
    nonce, at = _value(bare, at, "r")
    if any(not 0x21 <= byte <= 0x7E for byte in nonce):
        _refuse("non-printable characters in SCRAM nonce")
    while at < len(bare):
        _, _, at = _any_value(bare, at)
    return nonce


def _after_no_identity(message: bytes, at: int) -> int:
    if message[at : at + 1] == b"a":
        _refuse("client uses authorization identity, but it is not supported", FEATURE_NOT_SUPPORTED)
    if message[at : at + 1] != b",":
        _malformed(f'Unexpected attribute "{_shown(message, at)}" in client-first-message.')
    return at + 1


def _proof(message: bytes, at: int) -> tuple[bytes, int]:
    """Return the proof of a client-final-message from its extensions on, and the place of the comma before it."""
    while True:
        end = at - 1
        name, value, at = _any_value(message, at)
        if name == "p":
            break
    proof = _from_base64(value)
    if proof is None or len(proof) != _KEY_BYTES:
        _malformed("Malformed proof in client-final-message.")
    if at < len(message):
        _malformed("Garbage found at the end of client-final-message.")
    return proof, end


def _value(message: bytes, at: int, name: str) -> tuple[bytes, int]:
    """Return the value of the attribute that must stand at a place, and the place behind its comma."""
    if message[at : at + 1] != name.encode():
        _malformed(f'Expected attribute "{name}" but found "{_shown(message, at)}".')
    return _value_behind_name(message, at, name)


def _any_value(message: bytes, at: int) -> tuple[str, bytes, int]:
    """Return name and value of the attribute at a place, and the place behind its comma."""
    if at >= len(message):
        _malformed("Attribute expected, but found end of string.")
    name = chr(message[at])
    if name not in ascii_letters:
        _malformed(f'Attribute expected, but found invalid character "{_shown(message, at)}".')
    return name, *_value_behind_name(message, at, name)


def _value_behind_name(message: bytes, at: int, name: str) -> tuple[bytes, int]:
    if message[at + 1 : at + 2] != b"=":
        _malformed(f'Expected character "=" for attribute "{name}".')
    comma = message.find(b",", at + 2)
    return (message[at + 2 :], len(message)) if comma < 0 else (message[at + 2 : comma], comma + 1)


def _check_text(message: bytes) -> None:
    if not message:
        _malformed("The message is empty.")
    if b"\0" in message:
        _malformed("Message length does not match input length.")


def _shown(message: bytes, at: int) -> str:
    """Show a byte, zero where the message ends (sanitize_char)."""
    byte = message[at] if at < len(message) else 0
    return f"'{chr(byte)}'" if 0x21 <= byte <= 0x7E else f"0x{byte:02x}"


def _sanitized(text: bytes) -> str:
    """Show thirty bytes, as question marks where they are no printable ASCII (sanitize_str)."""
    return "".join(chr(byte) if 0x21 <= byte <= 0x7E else "?" for byte in text[:30])


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _from_base64(text: bytes) -> bytes | None:
    """Decode as pg_b64_decode does: digits behind an end sign count as nothing; None for what it refuses."""
    length, decoded = 0, bytearray()
    if len(text) % 4:
        return None
    for at in range(0, len(text), 4):
        bits = 0
        for place, byte in enumerate(text[at : at + 4]):
            if byte == ord("="):
                if not length and place < 2:
                    return None
                length = length or place - 1
            elif byte not in _DIGITS:
                return None
            bits = bits << 6 | _DIGITS.get(byte, 0)
        decoded += bits.to_bytes(3, "big")[: length or 3]
    return bytes(decoded)


def _malformed(detail: str) -> NoReturn:
    _refuse("malformed SCRAM message", detail=detail)


def _refuse(message: str, sqlstate: str = PROTOCOL_VIOLATION, detail: str | None = None) -> NoReturn:
    raise SessionError(message, sqlstate=sqlstate, detail=detail)
