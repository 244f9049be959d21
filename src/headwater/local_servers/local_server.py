"""A server process over a data directory in a temporary directory, started and stopped by this process.

Invariants:

- It is stopped only by the process id that it was started with. It listens on a Unix socket in its own directory, so
  that any number of servers run side by side.
- No file of it remains: its end removes the directory. If this process is killed, the kernel stops the server
  (``setpriv --pdeathsig``; its parent is the thread that started it). The next process removes the directory then
  (:mod:`headwater.base.temporary_directories`).

Sources of facts: postmaster.c (``postmaster.pid``, shutdown by SIGINT).
"""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from headwater.base.temporary_directories import OwnDirectory
from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_programs import ServerPrograms, readable_programs
from headwater.local_servers.server_user import (
    as_server_user,
    give_to_server,
    server_environment,
    server_home,
)

START_SECONDS = 60.0
STOP_SECONDS = 120.0


@dataclass
class LocalServer:
    """A server process over a data directory in a temporary directory of its own, reached by a Unix socket.

    Args:
        programs: the installation to run.
        most_data: bytes of memory of each of its processes, beside what they share; None for no bound.

    Attributes:
        port: in the socket's name.
        home: the temporary directory.
        process: the server, None while it is stopped.
    """

    programs: ServerPrograms
    most_data: int | None = field(default=None, kw_only=True)
    port: int = field(default=5432, init=False)
    home: OwnDirectory = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def make_home(self) -> None:
        """Make the temporary directory, with an empty data directory; :meth:`close` removes it.

        Raises:
            LocalServerError: no place is open to the server's user.
        """
        self.programs = readable_programs(self.programs)
        self.home = server_home()
        try:
            for directory in (self.data_directory, self.socket_directory):
                directory.mkdir(mode=0o700)
                give_to_server(directory)
        except BaseException:
            self.close()
            raise

    @property
    def data_directory(self) -> Path:
        """The cluster's data directory."""
        return self.home.path / "data"

    @property
    def socket_directory(self) -> Path:
        """The directory of the socket on which the server listens."""
        return self.home.path / "socket"

    @property
    def wal_directory(self) -> Path:
        """The cluster's ``pg_wal``."""
        return self.data_directory / "pg_wal"

    @property
    def log_file(self) -> Path:
        """The file with the server's standard error."""
        return self.home.path / "server.log"

    def start(self, seconds: float = START_SECONDS) -> None:
        """Start the server and wait until it takes connections.

        Args:
            seconds: that it is waited for.

        Raises:
            LocalServerError: the server stopped, or was not ready in time; the message ends with its last log
                line.
        """
        self.launch()
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > deadline:
                self.close_process()
            self.check_runs()
            time.sleep(0.02)

    def launch(self) -> None:
        """Start the server's process."""
        program = str(self.programs.program("postgres"))
        command = [*_bounded(self.most_data), program, "-D", str(self.data_directory)]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                **as_server_user(command, tied=True),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home.path,
                env=server_environment(),
                start_new_session=True,
            )

    def check_runs(self) -> None:
        """Check that the server's process has not ended.

        Raises:
            LocalServerError: it has; the message ends with the last line of its log.
        """
        if self.process is None or self.process.poll() is not None:
            self.close_process()
            raise LocalServerError(f"the local PostgreSQL server did not start: {self._last_log_line()}")

    def stop(self) -> None:
        """Stop the server as ``pg_ctl stop -m fast`` does: a clean shutdown with a last checkpoint.

        Raises:
            LocalServerError: the server did not stop cleanly.
        """
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process = process
            self.close_process()
            raise LocalServerError("the local PostgreSQL server did not stop in time") from None
        if status != 0:
            raise LocalServerError(f"the local PostgreSQL server stopped with {status}: {self._last_log_line()}")

    def crash(self) -> None:
        """Stop the server as a power cut would: the log ends where it was last written, with no checkpoint."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(STOP_SECONDS)

    def close_process(self) -> None:
        """Make sure that the server process has ended, cleanly if it can."""
        process, self.process = self.process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Stop the server and remove its directory."""
        self.close_process()
        self.home.close()

    def is_ready(self) -> bool:
        """Tell whether the server takes connections.

        Line 8 of postmaster.pid is ``ready`` then (pidfile.h: LOCK_FILE_LINE_PM_STATUS).
        """
        try:
            lines = (self.data_directory / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def _last_log_line(self) -> str:
        lines = self.log_file.read_text(errors="replace").strip().splitlines() if self.log_file.exists() else []
        return lines[-1] if lines else "it wrote no log"


def _bounded(most_data: int | None) -> list[str]:
    """Return what a command is begun with so that its processes have a bound of memory, where the system has such."""
    if most_data is None:
        return []
    return ["/bin/sh", "-c", 'ulimit -d "$0" 2>/dev/null; exec "$@"', str(most_data >> 10)]
