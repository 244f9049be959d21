"""A server that lets in by a password over TLS alone, and the files by which libpq finds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from access.certificates import Certificate, self_signed, signed
from access.server_parts import strict_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres

SERVICE, USER, PASSWORD = "shop", "reader", "open: 'sesame'"
RULES = f"hostssl all,replication {USER} 127.0.0.1/32 scram-sha-256\n"
ROLES = (
    "SET password_encryption = 'scram-sha-256'",
    f"CREATE ROLE {USER} SUPERUSER LOGIN REPLICATION PASSWORD '{PASSWORD.replace(chr(39), chr(39) * 2)}'",
)
SERVER_NAME = "localhost"
"""That the server's certificate has."""


@dataclass(frozen=True)
class SecureServer:
    """A server, and its files.

    Attributes:
        server: it; authority: has signed its certificate; stranger: has not.
        services, passwords: libpq's files.
    """

    server: EmbeddedPostgres
    authority: Certificate
    stranger: Certificate
    services: Path
    passwords: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which libpq finds the files."""
        return {"PGSERVICEFILE": str(self.services), "PGPASSFILE": str(self.passwords)}


@contextmanager
def secure_server(major: int, directory: Path, *statements: str) -> Iterator[SecureServer]:
    """Run a server with TLS; statements are run before it asks for passwords."""
    authority, stranger = (self_signed(directory, name) for name in ("authority", "stranger"))
    certificate = signed(directory, SERVER_NAME, authority)
    with strict_server(major, RULES, *ROLES, *statements, certificate=certificate) as server:
        words = {"host": SERVER_NAME, "hostaddr": "127.0.0.1", "port": server.port, "user": USER}
        words |= {"sslmode": "verify-full", "sslrootcert": authority.certificate}
        services, passwords = directory / "services.conf", directory / "passwords"
        services.write_text(f"[{SERVICE}]\n" + "".join(f"{name}={word}\n" for name, word in words.items()))
        passwords.write_text(f"{SERVER_NAME}:{server.port}:*:{USER}:{PASSWORD.replace(':', chr(92) + ':')}\n")
        passwords.chmod(0o600)
        yield SecureServer(server, authority, stranger, services, passwords)
