"""A throw-away cluster for the demo, the tests and the benchmark: made, run, and removed by this process.

Sources of facts: initdb.c.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from headwater.local_servers.local_server import LocalServer
from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_user import run_as_server_user
from headwater.pg.version import VERSIONS

SUPERUSER = "postgres"

# Settings that logical decoding needs, that make a throw-away server fast, and that make the output of sessions
# independent of the machine's locale and time zone. WAL is kept from the start on, so that it can be decoded from the
# base copy on.
DEFAULT_SETTINGS: Mapping[str, str] = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "10",
    "max_prepared_transactions": "20",
    "max_connections": "40",
    "shared_buffers": "128MB",
    "wal_keep_size": "100GB",
    "max_wal_size": "20GB",
    "checkpoint_timeout": "1h",
    "fsync": "off",
    "synchronous_commit": "on",
    "log_min_messages": "warning",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_messages": "C",
}


@dataclass
class EmbeddedPostgres(LocalServer):
    """A throw-away PostgreSQL cluster; a context manager that makes it, starts it, and removes it.

    Args:
        programs: the installation to run.
        settings: configuration on top of :data:`DEFAULT_SETTINGS`.
        autovacuum: whether autovacuum runs (off gives a WAL that depends on the workload alone).
        wal_segment_megabytes: size of a WAL segment, a power of two from 1 to 1024.
        data_checksums: whether pages carry checksums.
        loopback: also listen on a free port of 127.0.0.1.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    autovacuum: bool = True
    wal_segment_megabytes: int = 16
    data_checksums: bool = False
    loopback: bool = False

    def __enter__(self) -> EmbeddedPostgres:
        self.make_home()
        try:
            self.initdb()
            self._configure()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connection_info(self, database: str = "postgres") -> dict[str, str]:
        """Return keywords of a libpq connection string, for psycopg."""
        return {"host": str(self.socket_directory), "port": str(self.port), "user": SUPERUSER, "dbname": database}

    def client_environment(self, database: str = "postgres") -> dict[str, str]:
        """Return the environment for libpq programs such as pgbench and psql."""
        info = self.connection_info(database)
        return {
            **os.environ,
            "PGHOST": info["host"],
            "PGPORT": info["port"],
            "PGUSER": info["user"],
            "PGDATABASE": database,
            "LC_ALL": "C",
        }

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """Open an autocommit connection.

        Raises:
            psycopg.OperationalError: the server refused.
        """
        return psycopg.connect(autocommit=True, **{**self.connection_info(database), **options})

    def copy_data_directory(self, destination: Path) -> Path:
        """Copy the data directory of the stopped server: a plain base backup.

        Raises:
            LocalServerError: the server runs.
        """
        if self.process is not None:
            raise LocalServerError("the data directory can be copied only when the server is stopped")
        shutil.copytree(self.data_directory, destination, symlinks=True)
        return destination

    def initdb(self) -> None:
        """Make the cluster in the data directory, which is empty.

        Raises:
            LocalServerError: initdb failed.
        """
        command = [str(self.programs.program("initdb")), "-D", str(self.data_directory), "-U", SUPERUSER]
        command += ["-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        command += [f"--wal-segsize={self.wal_segment_megabytes}"]
        if self.data_checksums:
            command.append("--data-checksums")
        elif VERSIONS[self.programs.major].checksums_by_default:
            command.append("--no-data-checksums")
        run_as_server_user(command)

    def _configure(self) -> None:
        settings = {**DEFAULT_SETTINGS, "autovacuum": "on" if self.autovacuum else "off", **self.settings}
        settings["unix_socket_directories"] = str(self.socket_directory)
        settings["listen_addresses"] = ""
        if self.loopback:
            self.port = _free_port()
            settings["listen_addresses"] = "127.0.0.1"
        settings["port"] = str(self.port)
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        run_as_server_user(["tee", "-a", str(self.data_directory / "postgresql.conf")], lines.encode())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
