"""``headwater serve`` in a process of its own, and the clients that connect to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headwater.demo.embedded_postgres import EmbeddedPostgres, find_client

END_SECONDS = 60


class Serving:
    """A service over a directory of WAL; a context manager.

    Args:
        wal, catalog: as ``--wal``, ``--catalog``.
        slots: as ``--slots``.
        flags: more of them.

    Attributes:
        port: that it listens to.
    """

    def __init__(self, wal: Path, catalog: Path, slots: Path, *flags: str) -> None:
        self._command = [
            sys.executable,
            "-m",
            "headwater.cli.main",
            "serve",
            "--wal",
            str(wal),
            "--catalog",
            str(catalog),
        ]
        self._command += ["--slots", str(slots), "--listen", "127.0.0.1:0", *flags]
        self.log = slots.with_name(f"{slots.name}.log")
        self.port = 0

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

    def start(self) -> None:
        """Start the service, and wait until it listens."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log.read_text()
        self.port = int(line.rpartition(":")[2])

    def stop(self, number: int = signal.SIGINT) -> int:
        """End the service with a signal; return its exit status."""
        self._process.send_signal(number)
        status = self._process.wait(END_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status

    def environment(self, database: str = "postgres") -> dict[str, str]:
        """Return the environment by which clients connect."""
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": database}
        return {**os.environ, **place}


def recvlogical(
    environment: dict[str, str], major: int, *arguments: str, database: str = "postgres"
) -> subprocess.CompletedProcess[str]:
    """Run pg_recvlogical of a major."""
    program = find_client("pg_recvlogical", major)
    assert program is not None
    command = [str(program), "-d", database, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=END_SECONDS, check=False)


def both(
    server: EmbeddedPostgres, serving: Serving, major: int, *arguments: str
) -> Sequence[subprocess.CompletedProcess[str]]:
    """Run pg_recvlogical with the server and with the service; the exit status and what is printed must be the same."""
    theirs = recvlogical(server.client_environment(), major, *arguments)
    ours = recvlogical(serving.environment(), major, *arguments)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout), (ours.stderr, theirs.stderr)
    return theirs, ours
