"""Real servers that ask for passwords, with TLS, and with rules of ours in ``pg_hba.conf``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from access.certificates import Certificate
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.pg.version import VERSIONS, Version
from headwater.protocol.scram import SALT_BYTES, SECRET_BYTES

OURS = "local all postgres trust\nlocal replication postgres trust\n"
"""Rules that let tests in."""


@contextmanager
def strict_server(
    major: int, rules: str, *statements: str, certificate: Certificate | None = None
) -> Iterator[EmbeddedPostgres]:
    """Run a server on loopback with rules behind those for tests.

    Args:
        major: of the server.
        rules: as in ``pg_hba.conf``.
        statements: to run before the rules hold.
        certificate: for TLS; None for none.
    """
    with EmbeddedPostgres(find_programs(major), loopback=True) as server:
        with server.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())
            if certificate is not None:
                connection.execute("ALTER SYSTEM SET ssl = on")
        server.stop()
        write_rules(server, rules)
        if certificate is not None:
            put(server, "server.crt", certificate.certificate.read_bytes())
            put(server, "server.key", certificate.key.read_bytes())
        server.start()
        yield server


def write_rules(server: EmbeddedPostgres, rules: str) -> None:
    """Write ``pg_hba.conf``; the server reads it when it starts."""
    put(server, "pg_hba.conf", (OURS + rules).encode())


def put(server: EmbeddedPostgres, name: str, data: bytes) -> None:
    """Write a file of the data directory, as its owner's."""
    path = server.data_directory / name
    path.write_bytes(data)
    path.chmod(0o600)
    status = server.data_directory.stat()
    os.chown(path, status.st_uid, status.st_gid)


def version_of(server: EmbeddedPostgres) -> Version:
    """Return the version of a server."""
    return VERSIONS[server.programs.major]


def mock_secret(server: EmbeddedPostgres, user: str, salt: bytes) -> bytes:
    """Find the secret in ``pg_control`` from which the server has derived the salt of a user it does not know."""
    control = (server.data_directory / "global" / "pg_control").read_bytes()[:512]
    secrets = (control[at : at + SECRET_BYTES] for at in range(len(control) - SECRET_BYTES))
    return next(secret for secret in secrets if hashlib.sha256(user.encode() + secret).digest()[:SALT_BYTES] == salt)
