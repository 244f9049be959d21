"""Standbys of a server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client


def base_backup(server: EmbeddedPostgres, target: Path) -> Path:
    """Take a base backup with ``pg_basebackup``, without WAL."""
    program = find_client("pg_basebackup", server.programs.major)
    assert program is not None
    command: list[str | Path] = [program, "-D", target, "-X", "none", "-c", "fast", "--no-sync"]
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)
    return target


@contextmanager
def standby_of(primary: EmbeddedPostgres, backup: Path) -> Iterator[EmbeddedPostgres]:
    """Run a hot standby that is made of a base backup."""
    with EmbeddedPostgres(primary.programs) as standby:
        standby.stop()
        owner = standby.data_directory.stat()
        shutil.rmtree(standby.data_directory)
        shutil.copytree(backup, standby.data_directory, symlinks=True)
        (standby.data_directory / "standby.signal").touch()
        info = " ".join(f"{name}={word}" for name, word in primary.connection_info().items())
        with (standby.data_directory / "postgresql.conf").open("a") as configuration:
            configuration.write(
                f"unix_socket_directories = '{standby.socket_directory}'\nprimary_conninfo = '{info}'\n"
            )
        for path in (standby.data_directory, *standby.data_directory.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        standby.data_directory.chmod(0o700)
        standby.start()
        yield standby


def catch_up(standby: EmbeddedPostgres, lsn: str) -> None:
    with standby.connect() as connection:
        while connection.execute("SELECT pg_last_wal_replay_lsn() < %s::pg_lsn", [lsn]).fetchone() != (False,):
            connection.execute("SELECT pg_sleep(0.01)")
