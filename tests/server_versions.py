"""Releases of the tests' servers, as decoding gets to know them: some releases write what others do not."""

from __future__ import annotations

from functools import cache
from typing import Any

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms, program_version
from headwater.pg.version import Version, version_named
from headwater.rows.session import SERVER_VERSION, SessionSettings


def version_of(connection: Any) -> Version:
    """Return the release of the server at the other end."""
    return version_named(version_text(connection), connection.info.server_version // 10000)


def version_text(connection: Any) -> str:
    """Return what ``SHOW server_version`` prints."""
    return str(connection.info.parameter_status("server_version"))


def saying(version: Version | str) -> tuple[tuple[str, str]]:
    """Return the setting that names a release."""
    return ((SERVER_VERSION, str(version)),)


@cache
def release_of(programs: ServerPrograms) -> str:
    """Return the release of an installation, as its server prints it."""
    return program_version(programs.program("postgres"))


def session_of(server: EmbeddedPostgres, **settings: Any) -> SessionSettings:
    """Make settings of a session that prints what this server does."""
    return SessionSettings(major=server.programs.major, server_version=release_of(server.programs), **settings)
