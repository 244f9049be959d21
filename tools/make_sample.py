"""Make a small window to try Headwater on: ``python tools/make_sample.py DIRECTORY``.

A real PostgreSQL 16 runs ``examples/sample/before.sql``, is copied, runs ``examples/sample/after.sql`` and is stopped.
``DIRECTORY/backup`` is the copy, ``DIRECTORY/wal`` the server's ``pg_wal``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import bundled_programs

STATEMENTS = Path(__file__).parents[1] / "examples" / "sample"


def make_sample(directory: Path) -> None:
    """Replace a directory by one with a backup and the WAL that was written since.

    Args:
        directory: the sample's; what was there is removed.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with EmbeddedPostgres(bundled_programs(16), wal_segment_megabytes=1, autovacuum=False) as server:
        run(server, STATEMENTS / "before.sql")
        server.stop()
        server.copy_data_directory(directory / "backup")
        server.start()
        run(server, STATEMENTS / "after.sql")
        server.stop()
        shutil.copytree(server.wal_directory, directory / "wal")


def run(server: EmbeddedPostgres, script: Path) -> None:
    """Run the statements of a file, each in a transaction of its own."""
    with server.connect() as connection:
        for statement in script.read_text().split(";\n"):
            connection.execute(statement.encode())


if __name__ == "__main__":
    make_sample(Path(sys.argv[1]))
    print(f"WAL in {sys.argv[1]}/wal, a base backup in {sys.argv[1]}/backup")
