"""Servers whose transaction ids begin again: led to shortly before 2^32 in an epoch that is not 0, and beyond.

``pg_resetwal`` sets the next xid of a stopped server that has frozen all its rows before: to the server it is as if it
had spent the xids between. The bundled packages of 16 and 18 have the program, and Debian's of 15. PostgreSQL 17 is
left out on purpose: no installation of it here has the program, and another major's refuses to touch its files.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import BUNDLED_MAJORS, bundled_programs, readable_programs
from packaged_servers import client_of

MAJORS = (15, 16, 18)
"""Those with a pg_resetwal."""

EPOCH = 7
WRAP = (EPOCH + 1) << 32
"""The xid, of 64 bits, behind the last one of the epoch."""

AMID_THREADS = 600
"""So many xids are left before a workload in threads, of 300 statements of each writer: it takes twice as many."""

_XIDS_A_SEGMENT = 1 << 20
_SEGMENT_BYTES = 1 << 18


def lead_to_wrap(server: EmbeddedPostgres, left: int) -> None:
    """Restart a running server so that so many xids are left, or nearly, before they begin again.

    Args:
        server: with no session and no prepared transaction.
        left: 2 to 2^20.
    """
    program = _resetwal(server.programs.major)
    _allow_connections(server, "true")
    _freeze(server)
    server.stop()
    following = (WRAP - left) & 0xFFFFFFFF
    _make_status_file(server.data_directory, following)
    words = ["-e", str(EPOCH), "-x", str(following), "-u", str(following), "-D", str(server.data_directory)]
    _run_as_owner(server.data_directory, [str(program), *words])
    server.start()
    # Before any row is written: the oldest xids of tables and databases are of the time before.
    _freeze(server)
    _allow_connections(server, "false")
    with server.connect() as connection:
        assert 0 < WRAP - next_xid(connection) < left


def spend(server: EmbeddedPostgres, left: int) -> None:
    """Spend xids, each a transaction's, until so many are left before they begin again; beyond that it is negative."""
    with server.connect() as connection:
        while WRAP - next_xid(connection) > left:
            connection.execute("SELECT pg_current_xact_id()")


def check_wrapped(server: EmbeddedPostgres) -> None:
    """Fail unless xids have begun again, some time ago."""
    with server.connect() as connection:
        assert next_xid(connection) > WRAP + 100


def next_xid(connection: psycopg.Connection[Any]) -> int:
    """Return the xid that comes next, of 64 bits, or a newer one."""
    row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
    assert row is not None
    return int(row[0])


def _resetwal(major: int) -> Path:
    if major in BUNDLED_MAJORS:
        return readable_programs(bundled_programs(major)).program("pg_resetwal")
    return client_of("pg_resetwal", major)


def _allow_connections(server: EmbeddedPostgres, allowed: str) -> None:
    with server.connect() as connection:
        connection.execute(f"ALTER DATABASE template0 ALLOW_CONNECTIONS {allowed}".encode())


def _freeze(server: EmbeddedPostgres) -> None:
    """Freeze all databases: no row of any of them names a transaction."""
    with server.connect() as connection:
        names = [name for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()]
    for name in names:
        with server.connect(name) as connection:
            connection.execute("VACUUM (FREEZE)")


def _make_status_file(data_directory: Path, xid: int) -> None:
    """Make the segment of pg_xact that has an xid: nothing is known of any in it."""
    path = data_directory / "pg_xact" / f"{xid // _XIDS_A_SEGMENT:04X}"
    _run_as_owner(data_directory, ["truncate", "-s", str(_SEGMENT_BYTES), str(path)])


def _run_as_owner(data_directory: Path, command: list[str]) -> None:
    owner = data_directory.stat()
    user: dict[str, Any] = (
        {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    run = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **user)
    assert run.returncode == 0, run.stderr
