"""``headwater serve`` in a process of its own, and the clients that connect to it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bad_input.servers import conninfo_of, now
from forked_commands import MAIN, ForkedCommand
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client
from headwater.receiver.base_backup import BackupRequest, take_backup
from headwater.walsender.access.users import User, Users, write_users

END_SECONDS = 60
"""For what needs kernels that were not compiled yet, too."""

POLL_SECONDS = 0.02
LONGEST_POLL_SECONDS = 0.25
POLLED_SHARE = 0.05
"""Of the time waited so far: a poll may ask a server, and takes the processor from the work that is waited for."""

SHOWN_BYTES = 20_000
"""Of a service's log, where a test fails."""


class Serving:
    """A service over a directory of WAL; a context manager.

    Args:
        wal, catalog: as ``--wal``, ``--catalog``.
        slots: as ``--slots``.
        flags: more of them.

    Attributes:
        port: that it listens to; pid: of its process.
        program: what Python is started with, in place of ``-m headwater.cli.main``.
    """

    def __init__(self, wal: Path, catalog: Path, slots: Path, *flags: str) -> None:
        self._flags = ["--wal", str(wal), "--catalog", str(catalog), "--slots", str(slots)]
        self._flags += [*all_are_let_in(slots.parent), *flags]
        self.log = slots.with_name(f"{slots.name}.log")
        self.port = 0
        self.program: Sequence[str] = MAIN

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._process.poll() is None:
            self.stop(signal.SIGABRT)
        elif self._process.poll() is None:
            self.stop()
        if kind is not None:
            print(self.log.read_text(errors="replace")[-SHOWN_BYTES:])

    def start(self) -> None:
        """Start the service, on the port that it had before, and wait until it listens."""
        assert self.starts(), self.log.read_text()

    def starts(self) -> bool:
        """Start the service, and wait until it listens; tell whether it does, or has ended before that."""
        words = [*self.program, "serve", "--listen", f"127.0.0.1:{self.port}", *self._flags]
        reads, writes = os.pipe()
        try:
            with self.log.open("ab") as log:
                self._process = ForkedCommand(words, stdout=writes, stderr=log)
        finally:
            os.close(writes)
        self._output = os.fdopen(reads)
        line = self._output.readline()
        self.port = int(line.rpartition(":")[2]) if line else self.port
        return bool(line)

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def stop(self, number: int = signal.SIGINT, seconds: float = END_SECONDS) -> int:
        """End the service with a signal; return its exit status."""
        self._process.send_signal(number)
        return self.wait(seconds)

    def wait(self, seconds: float = END_SECONDS) -> int:
        """Wait until the service ends, for so many seconds at most; return its exit status."""
        status = self._process.wait(seconds)
        self._output.close()
        return status

    def environment(self, database: str = "postgres") -> dict[str, str]:
        """Return the environment by which clients connect."""
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": database}
        return {**os.environ, **place}


def all_are_let_in(directory: Path) -> list[str]:
    """Return flags by which the user postgres may connect without a password."""
    rules, users = directory / "hba.conf", directory / "users.toml"
    rules.write_text("host all,replication all 127.0.0.1/32 trust\n")
    write_users(users, Users().with_user(User("postgres", may_copy_all=True)))
    return ["--auth", str(rules), "--users", str(users)]


def backup_of(server: EmbeddedPostgres, directory: Path) -> Path:
    """Take a base backup by ``headwater backup``, as servers of some majors come without their clients."""
    take_backup(BackupRequest(conninfo=conninfo_of(server), directory=directory))
    return directory


def client(name: str, major: int) -> Path:
    """Find a client program: of a major, or of the next one that there are clients of."""
    programs = (find_client(name, newer) for newer in range(major, 20))
    return next(program for program in programs if program is not None)


def recvlogical(
    environment: dict[str, str],
    major: int,
    *arguments: str,
    database: str = "postgres",
    seconds: float = END_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run pg_recvlogical."""
    command = [str(client("pg_recvlogical", major)), "-d", database, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)


def make_slot_by_client(environment: dict[str, str], major: int, slot: str, plugin: str, *arguments: str) -> None:
    """Make a slot by pg_recvlogical."""
    made = recvlogical(environment, major, "--slot", slot, "--create-slot", "-P", plugin, *arguments)
    assert made.returncode == 0, made.stderr


class Streaming:
    """A pg_recvlogical that streams, until it is told to end."""

    def __init__(self, environment: dict[str, str], major: int, *arguments: str, database: str = "postgres") -> None:
        command = [str(client("pg_recvlogical", major)), "-d", database, "--start", *arguments]
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def pause(self) -> None:
        """Stop it, as if its machine were busy with something else."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """Interrupt it; return its exit status."""
        self._process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends; return its exit status."""
        _, self.errors = self._process.communicate(timeout=END_SECONDS)
        return self._process.returncode


def wait_until(holds: Callable[[], bool], seconds: float = END_SECONDS) -> None:
    """Wait until something holds, which another process makes true, for so many seconds at most."""
    begin = time.monotonic()
    while not holds():
        waited = time.monotonic() - begin
        assert waited < seconds
        time.sleep(min(max(POLL_SECONDS, waited * POLLED_SHARE), LONGEST_POLL_SECONDS))


def content(file: Path) -> bytes:
    """Read a file; nothing where it is not there yet."""
    return file.read_bytes() if file.exists() else b""


def wait_for_equal_files(files: Sequence[Path]) -> None:
    """Wait until files are equal and not empty; they are read when they are of one size."""

    def are_equal() -> bool:
        sizes = {file.stat().st_size if file.exists() else 0 for file in files}
        if len(sizes) > 1 or sizes == {0}:
            return False
        contents = list(map(content, files))
        return all(content == contents[0] for content in contents)

    wait_until(are_equal)


class Twins:
    """A slot at a server and one at the service, made at the same time."""

    def __init__(self, server: EmbeddedPostgres, serving: Serving, slot: str) -> None:
        self._environments = (server.client_environment(), serving.environment())
        self._server, self._slot = server, slot
        for environment in self._environments:
            make_slot_by_client(environment, 16, slot, "test_decoding")

    def compare(self, directory: Path) -> str:
        """Stream both up to now; they are equal. Return it."""
        end, texts = now(self._server), []
        for number, environment in enumerate(self._environments):
            file = directory / f"{self._slot}-{number}"
            flags = ("--slot", self._slot, "--start", "--endpos", end, "-f", str(file), "-o", "skip-empty-xacts=1")
            streamed = recvlogical(environment, 16, *flags)
            assert streamed.returncode == 0, streamed.stderr
            texts.append(file.read_text())
        assert texts[0] == texts[1]
        return texts[0]
