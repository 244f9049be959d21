"""A launcher in a process of its own, its file, and the subscriptions between databases that it is tested with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from bad_input.servers import run
from forked_commands import MAIN, ForkedCommand, run_forked
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from serving.service import END_SECONDS, SHOWN_BYTES, wait_until

SOURCE = "postgres"


def place(server: EmbeddedPostgres, database: str = SOURCE) -> str:
    """Return the connection string of a database."""
    return " ".join(f"{name}={word}" for name, word in server.connection_info(database).items())


def rows(server: EmbeddedPostgres, database: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with server.connect(database) as connection:
        return connection.execute(query.encode()).fetchall()


@contextmanager
def two_servers(major: int = 18) -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    """Start a server that publishes its tables a, b and c, and another one; both have databases x and y for targets.

    They are strangers, as copies of one cluster name the slots of their tables' copies alike.
    """
    stranger = EmbeddedPostgres(find_programs(major), wal_segment_megabytes=8)
    with EmbeddedPostgres(find_programs(major)) as publisher, stranger as other:
        for server, database in ((publisher, "x"), (other, "x"), (other, "y")):
            run(server, f"CREATE DATABASE {database}")
            run(server, *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in "abc"), database=database)
        for name in "abc":
            run(publisher, f"CREATE TABLE {name} (id int PRIMARY KEY, v text)", f"INSERT INTO {name} VALUES (1, 'old')")
            run(publisher, f"CREATE PUBLICATION {name} FOR TABLE {name}")
        yield publisher, other


def ids(server: EmbeddedPostgres, database: str, table: str) -> list[int]:
    """Return the keys of a table's rows."""
    return [number for (number,) in rows(server, database, f"SELECT id FROM {table} ORDER BY id")]


class Launching:
    """A launcher over a file; a context manager.

    Args:
        directory: for the file, the socket and the log.
        common, subscriptions: what the tables ``[apply]`` and ``[subscriptions.NAME]`` have.

    Attributes:
        file: with the subscriptions; log: of the launcher and its processes.
    """

    def __init__(
        self, directory: Path, common: Mapping[str, Any], subscriptions: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.file, self.log = directory / "headwater.toml", directory / "launcher.log"
        self.run_directory = directory / "run"
        self.common = {"directory": str(self.run_directory), "retry-interval": 0.5, **common}
        self.subscriptions = {name: dict(table) for name, table in subscriptions.items()}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        if kind is not None:
            print(self.log.read_text(errors="replace")[-SHOWN_BYTES:])

    def write(self) -> None:
        """Write the file."""
        tables = [("apply", self.common)]
        tables += [(f"subscriptions.{name}", table) for name, table in self.subscriptions.items()]
        lines = []
        for name, table in tables:
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()), ""]
        self.file.write_text("\n".join(lines))

    def start(self, *words: str) -> None:
        """Start it, with more flags."""
        self.write()
        with self.log.open("ab") as log:
            self.process = ForkedCommand([*MAIN, "apply", "--config", str(self.file), *words], stderr=log)

    def reload(self) -> None:
        """Write the file, and let it be read anew."""
        self.write()
        self.process.send_signal(signal.SIGHUP)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(END_SECONDS)

    def ask(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``headwater subscription``."""
        return run_forked([*MAIN, "subscription", command, *words, "--config", str(self.file)], END_SECONDS)

    def asked(self, command: str, *words: str) -> str:
        """Run ``headwater subscription``, which has to do what it is asked; return what it prints."""
        result = self.ask(command, *words)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return the status of each subscription."""
        from headwater.apply.launcher.control_socket import LauncherMissingError, ask_launcher

        try:
            answers = ask_launcher(self.run_directory, "list")
        except LauncherMissingError:
            return {}
        return {status["subname"]: status for status in answers}

    def state(self, name: str) -> str | None:
        """Return the state of a subscription; None while there is no launcher."""
        status = self.statuses().get(name)
        return None if status is None else str(status["state"])

    def has_said(self, text: str) -> bool:
        """Tell whether a text is in the log."""
        return text in self.log.read_text(errors="replace")

    def http(self, path: str) -> str:
        """Ask for a path of its status."""
        wait_until(lambda: self.has_said("status: http://"))
        match = re.search(r"status: (http://\S+)/status", self.log.read_text())
        assert match is not None
        with urllib.request.urlopen(match[1] + path, timeout=END_SECONDS) as answer:
            return str(answer.read().decode())


def is_alive(pid: int) -> bool:
    """Tell whether there is a process of a number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def leftovers(publisher: EmbeddedPostgres, target: EmbeddedPostgres, database: str) -> list[str]:
    """List slots of the publisher, and origins and subscriptions of a target."""
    names = [name for (name,) in rows(publisher, SOURCE, "SELECT slot_name FROM pg_replication_slots")]
    names += [name for (name,) in rows(target, database, "SELECT roname FROM pg_replication_origin")]
    with suppress(psycopg.errors.UndefinedTable):
        names += [name for (name,) in rows(target, database, "SELECT subname FROM headwater.subscription")]
    return names
