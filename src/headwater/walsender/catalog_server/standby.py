"""The server that replays filtered WAL: a hot standby on a Unix socket, that stands where it is told to.

Job: make its directory from a backup, run it, hand it WAL, wait until it has replayed that.
Invariants: it has no rows of tables, no port, no primary. It writes to its own directory only, which goes with it.

PostgreSQL: xlogrecovery.c (standby mode), postmaster.c. Known gaps: a database whose collation this machine's C library
or the server's build does not know cannot be connected to.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg

from headwater.catalog.copy.data_directory import DataDirectory
from headwater.demo.embedded_postgres import EmbeddedPostgresError, LocalServer, ServerPrograms, give_to_server
from headwater.pg.lsn import Lsn
from headwater.pg.version import VERSIONS
from headwater.wal.control import settings_of_standbys
from headwater.wal.segments.directory import WalDirectory
from headwater.walsender.catalog_server.data_copy import copy_catalogs
from headwater.walsender.catalog_server.filtered_wal import SystemFiles
from headwater.walsender.catalog_server.wal_feed import WalFeed

REPLAY_SECONDS = 600.0
"""For WAL to be replayed, of which most are NOOPs."""

MOST_SESSIONS = 100
SETTINGS = {
    "hot_standby": "on",
    "listen_addresses": "",
    "fsync": "off",
    "shared_buffers": "32MB",
    "wal_retrieve_retry_interval": "5ms",
    "wal_recycle": "off",
    "max_replication_slots": "1000",
    "default_transaction_read_only": "on",
    "jit": "off",
    "logging_collector": "off",
    "log_min_messages": "warning",
    "lc_messages": "C",
}
"""Without prefetching: blocks that records name are not there. Many slots, as origins of replication count as such."""


class Standby(LocalServer):
    """A standby; a context manager is what holds it.

    Args:
        programs: of the source's major version.
        source: the backup.
        files: the system files of the database, as the backup and the fold's state know them.
    """

    def __init__(self, programs: ServerPrograms, source: DataDirectory, files: SystemFiles, database: str) -> None:
        super().__init__(programs)
        self._source, self.files, self._database = source, files, database
        self.make_home()
        self.feed = WalFeed(self.wal_directory, source.start_lsn, source.control.wal_segment_size)

    def begin(self, wal: WalDirectory, until: int) -> None:
        """Replay WAL up to the end of a record, and be asked from then on.

        Raises:
            EmbeddedPostgresError: the server does not start.
            HeadwaterError: the backup or the WAL cannot be read.
        """
        copy_catalogs(self._source, self.files, self.data_directory)
        self._configure()
        for path in self.data_directory.rglob("*"):
            give_to_server(path)
        self.feed.write(wal, until, self.files)
        self.start(REPLAY_SECONDS)
        self.wait(until)

    def go_on(self, wal: WalDirectory, until: int) -> None:
        """Replay more WAL."""
        self.feed.write(wal, until, self.files)
        self.wait(until)

    def wait(self, until: int) -> None:
        """Wait until WAL is replayed up to an LSN.

        Raises:
            EmbeddedPostgresError: it does not come so far.
        """
        deadline = time.monotonic() + REPLAY_SECONDS
        with psycopg.connect(**self.connection_words(self._database), autocommit=True) as connection:
            while True:
                row = connection.execute("SELECT pg_last_wal_replay_lsn()").fetchone()
                replayed = Lsn.parse(row[0]) if row is not None and row[0] is not None else 0
                if replayed >= until:
                    return
                if time.monotonic() > deadline:
                    raise EmbeddedPostgresError(f"the server has replayed WAL up to {Lsn(replayed)}, not {Lsn(until)}")
                time.sleep(0.002)

    def connection_words(self, database: str, user: str = "postgres") -> dict[str, Any]:
        """Return what libpq connects with."""
        return {"host": str(self.socket_directory), "port": str(self.port), "user": user, "dbname": database}

    def _configure(self) -> None:
        control = self._source.tree.read("global/pg_control")
        limits = settings_of_standbys(control, self._source.major)
        settings = {**SETTINGS, **{name: str(value) for name, value in limits.items()}}
        settings["max_connections"] = str(max(limits["max_connections"], MOST_SESSIONS))
        settings["unix_socket_directories"] = str(self.socket_directory)
        settings["port"] = str(self.port)
        if VERSIONS[self._source.major].prefetches_in_recovery:
            settings["recovery_prefetch"] = "off"
        self._write("postgresql.conf", "".join(f"{name} = '{value}'\n" for name, value in settings.items()))
        self._write("pg_hba.conf", "local all all trust\n")
        self._write("pg_ident.conf", "")
        self._write("standby.signal", "")

    def _write(self, name: str, text: str) -> None:
        (Path(self.data_directory) / name).write_text(text)
