"""Services beside the nodes of a script, started when the script's shim asks for them by a Unix socket.

A service receives the WAL of its node and has a base backup from when it was first asked for. It runs as this process
does; the nodes may run as another user. Its socket lies in the node's directory of sockets, its log in the node's log.

Invariants:

- It has the node's own ``pg_hba.conf``, roles and passwords.
- It has the node's WAL of when it is asked for.
- It heeds the node's settings of decoding, as its backup's configuration has them. Where the node's have changed, it
  is started anew.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from headwater.protocol.scram import Verifier
from headwater.receiver.base_backup import BackupRequest, take_backup
from headwater.walsender.access.users import User, Users, write_users

START_SECONDS = 120
END_SECONDS = 30
CONFIGURATION = "postgresql.conf"
RETURN_SECONDS = 20
_HEEDED = re.compile(r"^\s*(logical_decoding_work_mem|debug_logical_replication_streaming)\s*=?\s*(\S+)", re.MULTILINE)
_ROLES = """
SELECT rolname, rolpassword, rolreplication OR rolsuper, rolreplication OR rolsuper
FROM pg_catalog.pg_authid WHERE rolcanlogin
"""


@dataclass(frozen=True)
class Node:
    """A server of a script.

    Attributes:
        name: that the script gave it.
        sockets: the directory of its Unix socket; port: in the socket's name.
        data: its data directory.
        user: its superuser; version: of the server, such as ``18.6``.
    """

    name: str
    sockets: str
    port: int
    data: Path
    user: str
    version: str

    @property
    def conninfo(self) -> str:
        """Where it is connected to, as its superuser."""
        return f"host={self.sockets} port={self.port} user={self.user} dbname=postgres"


@dataclass
class NodeService:
    """The service beside a node.

    Args:
        node: it stands for.
        directory: of its WAL, backup and slots.
        port: in its socket's name.
            log: the file that it writes to.

    Attributes:
        process: the service, None while it does not run.
        hung: it did not end when it was told to.
        roles: of the node, as the service knows them.
    """

    node: Node
    directory: Path
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    hung: bool = field(default=False, init=False)
    roles: list[tuple[str, str | None, bool, bool]] = field(default_factory=list, init=False)

    def refresh(self) -> None:
        """Give it the node's rules, roles and configuration of now; start it where it must be."""
        self.directory.mkdir(exist_ok=True)
        base = self.directory / "base"
        if not base.exists():
            take_backup(BackupRequest(conninfo=self.node.conninfo, directory=base))
        changed = self._has_other_access()
        if self._settings(self.node.data) != self._settings(base):
            shutil.copyfile(self.node.data / CONFIGURATION, base / CONFIGURATION)
            self._start_anew()
        elif self.process is None or self.process.poll() is not None:
            self._start()
        elif changed:
            self.process.send_signal(signal.SIGHUP)
        self._catch_up()

    def _catch_up(self) -> None:
        """Wait until it has the WAL of its node: scripts ask at once for what they have committed."""
        with suppress(psycopg.OperationalError):
            (end,) = _row(self.node.conninfo, "SELECT pg_current_wal_flush_lsn()")
            stop = time.monotonic() + RETURN_SECONDS
            query = f"SELECT pg_current_wal_lsn() >= '{end}'"
            while not _row(self._conninfo, query)[0] and time.monotonic() < stop:
                time.sleep(0.02)

    def write_to(self, log: Path) -> None:
        """Let it write to another file, for which it is started anew; without a server it is when that starts."""
        self.log = log
        if (self.node.data / "postmaster.pid").exists():
            self._start_anew()
        else:
            self.stop()

    def _start_anew(self) -> None:
        """Start it again, and wait until those have come back who streamed: for the script nothing has happened."""
        streams = self._streams()
        self.stop()
        self._start()
        end = time.monotonic() + RETURN_SECONDS
        while not streams <= self._streams() and time.monotonic() < end:
            time.sleep(0.1)

    def _streams(self) -> set[str]:
        """Ask it who streams."""
        if self.process is None:
            return set()
        query = "SELECT application_name FROM pg_stat_replication WHERE state = 'streaming'"
        with suppress(psycopg.OperationalError), psycopg.connect(self._conninfo) as connection:
            return {name for (name,) in connection.execute(query).fetchall()}
        return set()

    @property
    def _conninfo(self) -> str:
        return f"host={self.node.sockets} port={self.port} user={self.node.user} dbname=postgres"

    @staticmethod
    def _settings(directory: Path) -> dict[str, str]:
        """Read what a configuration says of settings that the service heeds."""
        return dict(_HEEDED.findall((directory / CONFIGURATION).read_text()))

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGABRT)  # where each thread is goes into the log
                self.process.wait()
                self.hung = True
        self.process = None

    def _start(self) -> None:
        files = {"--wal": "wal", "--catalog": "base", "--slots": "slots", "--auth": "hba.conf", "--users": "users.toml"}
        command = [sys.executable, "-m", "headwater.cli.main", "serve", "-v", "--from", self.node.conninfo]
        command += [word for flag, name in files.items() for word in (flag, str(self.directory / name))]
        command += [
            "--server-version",
            self.node.version,
            "--socket",
            self.node.sockets,
            "--socket-port",
            str(self.port),
        ]
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        with self.log.open("ab") as log, (self.directory / "address").open("wb") as address:
            self.process = subprocess.Popen(command, stdout=address, stderr=log, env=environment)
        end = time.monotonic() + START_SECONDS
        while not (self.directory / "address").read_bytes():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the service of {self.node.name} does not start: {self.log}")
            time.sleep(0.02)
        Path(self.node.sockets, f".s.PGSQL.{self.port}").chmod(0o777)  # whoever the nodes run as

    def _has_other_access(self) -> bool:
        """Copy the node's rules and roles; tell whether they have changed."""
        rules, users = self.directory / "hba.conf", self.directory / "users.toml"
        before = [path.read_bytes() if path.exists() else b"" for path in (rules, users)]
        # To a server md5 means SCRAM, too, where that is what it has of a password; the service has no other.
        rules.write_text((self.node.data / "pg_hba.conf").read_text().replace("md5", "scram-sha-256"))
        with suppress(psycopg.OperationalError):
            self._write_users(users)
        return before != [path.read_bytes() if path.exists() else b"" for path in (rules, users)]

    def _write_users(self, path: Path) -> None:
        with psycopg.connect(self.node.conninfo) as connection:
            roles = connection.execute(_ROLES).fetchall()
        if roles == self.roles:
            return
        users = Users(secret=bytes(32))
        for name, password, may_replicate, may_copy_all in roles:
            verifier = Verifier.parse(password or "")
            users = users.with_user(User(name, verifier, may_replicate=may_replicate, may_copy_all=may_copy_all))
        write_users(path, users)
        self.roles = roles


def _row(conninfo: str, query: str) -> tuple[Any, ...]:
    """Return the only row of a query."""
    with psycopg.connect(conninfo) as connection:
        (row,) = connection.execute(query.encode()).fetchall()
    return tuple(row)


class Services:
    """All services of a script, and the socket by which its shim asks for them; a context manager.

    Args:
        place: of the socket.
        directory: where each has a folder.
        user: the superuser of the nodes; version: of all servers.
    """

    def __init__(self, place: Path, directory: Path, user: str, version: str) -> None:
        self._directory, self._user, self._version = directory, user, version
        self._services: dict[str, NodeService] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        place.chmod(0o666)
        self._listener.listen()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Services:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for service in self._services.values():
            service.stop()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._services)

    @property
    def hung(self) -> list[str]:
        """Names of nodes whose services did not end when they were told to."""
        return [name for name, service in self._services.items() if service.hung]

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as lines:
                lines.write(self._answer(lines.readline().rstrip("\n").split("\t")) + "\n")

    def _answer(self, words: list[str]) -> str:
        try:
            if words[0] == "log":
                self._services[words[1]].write_to(Path(words[2]))
            else:
                self._service(*words[1:]).refresh()
        except Exception as error:  # the script is told, and ends with it
            return " ".join(str(error).split()) or repr(error)
        return "done"

    def _service(self, name: str, sockets: str, port: str, data: str, log: str, own_port: str) -> NodeService:
        if name not in self._services:
            node = Node(name, sockets, int(port), Path(data), self._user, self._version)
            self._services[name] = NodeService(node, self._directory / name, int(own_port), Path(log))
        return self._services[name]
