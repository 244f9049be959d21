"""Backups that are taken of a server while it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client
from landing.existing_rows import run


def back_up(server: EmbeddedPostgres, target: Path, *flags: str) -> Path:
    """Take a base backup that takes its time."""
    program = find_client("pg_basebackup", server.programs.major)
    if program is None and not flags:
        return copy_by_hand(server, target)
    assert program is not None
    command = [str(program), "-D", str(target), "-c", "fast", "--no-sync", "-X", "none", "--max-rate=16M", *flags]
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)
    return target


def copy_by_hand(server: EmbeddedPostgres, target: Path, meanwhile: str = "") -> Path:
    """Take a backup by the functions that ``pg_basebackup`` calls, with statements between the copy and its end."""
    is_new = server.programs.major >= 15
    with server.connect() as connection:
        connection.execute(
            "SELECT " + ("pg_backup_start('b', true)" if is_new else "pg_start_backup('b', true, false)")
        )
        for folder, _, names in os.walk(server.data_directory):
            place = target / Path(folder).relative_to(server.data_directory)
            place.mkdir(parents=True)
            for name in [] if "pg_wal" in place.parts else names:
                with suppress(FileNotFoundError):
                    shutil.copyfile(Path(folder) / name, place / name)
        run(connection, meanwhile)
        shutil.copyfile(server.data_directory / "global" / "pg_control", target / "global" / "pg_control")
        row = connection.execute(f"SELECT labelfile FROM {'pg_backup_stop' if is_new else 'pg_stop_backup'}(false)")
        label = row.fetchone()
        assert label is not None
    (target / "backup_label").write_text(label[0])
    (target / "postmaster.pid").unlink()
    return target
