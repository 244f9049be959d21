"""A server with all kinds of definitions, and a service that answers SQL about its catalogs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bad_input.servers import run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.walsender.access.users import User, Users, write_users
from serving.service import Serving, all_are_let_in, backup_of, client

DEFINITIONS = (Path(__file__).parent / "definitions.sql").read_text().split(";\n")

CATALOGS = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 11 AND oid <> 2613 ORDER BY 1"

MARK = "-- that was it --"


@dataclass(frozen=True)
class Pair:
    """A server and a service over its files.

    Attributes:
        server, serving: them.
    """

    server: EmbeddedPostgres
    serving: Serving

    def places(self, user: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return what clients connect with: to the server, to the service."""
        theirs = {**self.server.connection_info(), "user": user}
        ours = {"host": "127.0.0.1", "port": str(self.serving.port), "user": user, "dbname": "postgres"}
        return theirs, ours

    def check(self, user: str, *commands: str) -> None:
        """Check that psql shows the same of both."""
        theirs, ours = (self.shown(place, commands) for place in self.places(user))
        for command, expected, shown in zip(commands, theirs, ours, strict=True):
            assert shown == expected, command

    def shown(self, place: Mapping[str, str], commands: Sequence[str]) -> list[str]:
        """Return what psql shows, by command."""
        words = " ".join(f"{name}='{value}'" for name, value in place.items())
        psql = [str(client("psql", self.server.programs.major)), "-X", "-d", words]
        asked = [word for command in commands for word in ("-c", command, "-c", rf"\echo {MARK}")]
        ran = subprocess.run(
            [*psql, *asked], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False
        )
        return ran.stdout.split(f"{MARK}\n")[:-1]


@contextmanager
def pair_of(major: int, directory: Path, flags: Sequence[str] = (), **settings: str) -> Iterator[Pair]:
    """Run a server with definitions, and a service over a backup of it and its WAL."""
    with small_server(major, **settings) as server:
        run(server, *DEFINITIONS)
        catalog = backup_of(server, directory / "base")
        serving = Serving(server.wal_directory, catalog, directory / "slots", *flags)
        users = Users()
        for name in ("postgres", "reader", "member"):
            users = users.with_user(User(name, may_copy_all=True))
        users = users.with_user(User("narrow", publications=("few", "kin")))
        write_users(Path(all_are_let_in(directory)[-1]), users)
        with serving:
            yield Pair(server, serving)


def connected(place: Mapping[str, Any]) -> psycopg.Connection[Any]:
    return psycopg.connect(**place, autocommit=True)


def answer(connection: psycopg.Connection[Any], query: bytes) -> object:
    """Return the rows of a query, or its error."""
    try:
        return connection.execute(query).fetchall()
    except psycopg.Error as error:
        return error.sqlstate, str(error)
