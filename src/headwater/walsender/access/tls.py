"""Encryption of a service's connections: its certificate and key, and the authority of clients' certificates.

- TLS 1.2 or newer; the application protocol ``postgresql`` is agreed on with clients that ask for it (direct TLS).
- A client's certificate is verified where it has one and there is an authority; it need not have one.
- A private key that its group or the world may read is refused, and one that needs a passphrase: nobody is there to
  give it.
- :attr:`Encryption.binding` is what SCRAM-SHA-256-PLUS binds a login to: the certificate, hashed by the algorithm that
  it is signed with, or by SHA-256 in place of MD5 and SHA-1 (RFC 5929, tls-server-end-point).

PostgreSQL: be-secure-openssl.c (be_tls_init, be_tls_get_certificate_hash), be-secure-common.c.

Known gaps: lists of revoked certificates. A client that asks for other application protocols only is not refused by
Python's TLS, as the server does: none is agreed on, and whoever needs one must look.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.base.system_errors import errors_as
from headwater.errors import AccessError

ALPN = "postgresql"

_SEQUENCE, _OBJECT_IDENTIFIER, _HASH_OF_PSS = 0x30, 0x06, 0xA0
_PSS = "2a864886f70d01010a"

# Signatures by RSA, ECDSA and DSA, hashes in signatures by RSA-PSS, those of SHA-3. MD5 and SHA-1 count as SHA-256.
_IDENTIFIERS = {
    "sha224": "2a864886f70d01010e 2a8648ce3d040301 608648016503040301 608648016503040204",
    "sha256": "2a864886f70d01010b 2a8648ce3d040302 608648016503040302 608648016503040201 "
    "2a864886f70d010104 2a864886f70d010105 2a8648ce3d0401 2a8648ce380403 2b0e03021a",
    "sha384": "2a864886f70d01010c 2a8648ce3d040303 608648016503040303 608648016503040202",
    "sha512": "2a864886f70d01010d 2a8648ce3d040304 608648016503040304 608648016503040203",
    "sha3_224": "60864801650304030d 608648016503040309 608648016503040305 608648016503040207",
    "sha3_256": "60864801650304030e 60864801650304030a 608648016503040306 608648016503040208",
    "sha3_384": "60864801650304030f 60864801650304030b 608648016503040307 608648016503040209",
    "sha3_512": "608648016503040310 60864801650304030c 608648016503040308 60864801650304020a",
}
_HASHES = {identifier: name for name, identifiers in _IDENTIFIERS.items() for identifier in identifiers.split()}
"""The hash for channel binding, by an object identifier."""


@dataclass(frozen=True)
class Encryption:
    """Encryption of connections: what it needs.

    Attributes:
        context: for Python's TLS.
        binding: the hash of the certificate; None where none is defined, as for a signature by Ed25519.
    """

    context: ssl.SSLContext
    binding: bytes | None


def load_encryption(certificate: Path, key: Path, client_authority: Path | None = None) -> Encryption:
    """Load certificate and key of a service.

    Args:
        certificate: in PEM, with those between it and its authority behind it.
        key: the private key, in PEM.
        client_authority: certificates that those of clients are verified by; None to ask clients for none.

    Raises:
        AccessError: a file cannot be used.
    """
    check_key_file(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.set_alpn_protocols([ALPN])
    with errors_as(AccessError, "load server certificate file", certificate):
        data = certificate.read_bytes()
    with errors_as(AccessError, "load server certificate and private key", key):
        context.load_cert_chain(certificate, key, password=lambda: _refuse_passphrase(key))
    if client_authority is not None:
        with errors_as(AccessError, "load root certificate file", client_authority):
            context.load_verify_locations(client_authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    return Encryption(context, certificate_hash(_first_certificate(data, certificate)))


def _refuse_passphrase(key: Path) -> str:
    raise AccessError("the private key is protected by a passphrase, expected one without", file=str(key))


def check_key_file(key: Path) -> None:
    """Look whether a private key is kept from others.

    Raises:
        AccessError: it is not, or is no file.
    """
    with errors_as(AccessError, "access private key file", key):
        status = os.stat(key)
    if not stat.S_ISREG(status.st_mode):
        raise AccessError(f'private key file "{key}" is not a regular file')
    if status.st_uid not in (os.geteuid(), 0):
        raise AccessError(f'private key file "{key}" must be owned by the database user or root')
    forbidden = 0o037 if status.st_uid == 0 else 0o077
    if status.st_mode & forbidden:
        raise AccessError(
            f'private key file "{key}" has group or world access',
            hint="file must have permissions u=rw (0600) or less if owned by the database user, "
            "or permissions u=rw,g=r (0640) or less if owned by root",
        )


def _first_certificate(data: bytes, file: Path) -> bytes:
    """Return the first certificate of a file of PEM, in DER."""
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    body = data.partition(begin)[2].partition(end)[0]
    try:
        return ssl.PEM_cert_to_DER_cert((begin + b"\n" + body.strip() + b"\n" + end).decode("ascii"))
    except ValueError:
        raise AccessError("the first certificate is malformed, expected PEM", file=str(file)) from None


def certificate_hash(certificate: bytes) -> bytes | None:
    """Return the hash that a login is bound to a certificate by.

    Args:
        certificate: in DER.

    Returns:
        the hash; None where it is malformed, or signed by an algorithm that has no hash or is not known.
    """
    algorithm = _hash_algorithm(certificate)
    return None if algorithm is None else hashlib.new(algorithm, certificate).digest()


def _hash_algorithm(certificate: bytes) -> str | None:
    """Return the name of the hash algorithm, by the certificate's signatureAlgorithm (X.509, RFC 4055)."""
    parts = [part for _, whole in _parts(certificate) for part in _parts(whole)]
    if len(parts) < 2 or parts[1][0] != _SEQUENCE:
        return None
    identifier, *parameters = [*_parts(parts[1][1]), (0, b"")]
    if identifier[0] != _OBJECT_IDENTIFIER:
        return None
    name = identifier[1].hex()
    return _hash_of_pss(parameters[0][1]) if name == _PSS else _HASHES.get(name)


def _hash_of_pss(parameters: bytes) -> str | None:
    """Return the hash algorithm of a signature by RSA-PSS; that of SHA-1 where the parameters name none."""
    for tag, value in _parts(parameters):
        if tag == _HASH_OF_PSS:
            names = [name.hex() for _, algorithm in _parts(value) for kind, name in _parts(algorithm) if kind == 6]
            return _HASHES.get(names[0]) if names else None
    return "sha256"


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Give tags and values of what stands one behind the other in DER, up to where it is malformed."""
    at = 0
    while at + 2 <= len(data):
        tag, length, begin = data[at], data[at + 1], at + 2
        if length > 0x7F:
            begin += length & 0x7F
            length = int.from_bytes(data[at + 2 : begin], "big")
        if begin + length > len(data):
            return
        yield tag, data[begin : begin + length]
        at = begin + length
