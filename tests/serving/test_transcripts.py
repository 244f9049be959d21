"""Stock clients are answered by the service as by the server, message by message."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Any

import psycopg
import pytest
from psycopg.pq.abc import PGconn, PGresult

from bad_input.servers import now, run, small_server, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.version import VERSIONS
from headwater.protocol.scram import Verifier
from headwater.walsender.access.users import User, Users, write_users
from packaged_servers import is_packaged
from serving.answers import conninfo_at
from serving.recording_proxy import Recording, RecordingProxy
from serving.service import END_SECONDS, Serving, backup_of, client, recvlogical, wait_until
from serving.transcripts import differences, transcript_of

pytestmark = pytest.mark.server

PASSWORD = "open sesame"
ROLES = (
    "SET password_encryption = 'scram-sha-256'",
    "CREATE ROLE replicator LOGIN REPLICATION IN ROLE pg_read_all_data",
    f"CREATE ROLE secretive LOGIN REPLICATION PASSWORD '{PASSWORD}' IN ROLE pg_read_all_data",
)
RULES = "{0} all,replication secretive {1} scram-sha-256\n{0} all,replication all {1} trust\n"


@dataclass(frozen=True)
class Sides:
    """Proxies before a server and before the service over its WAL.

    Attributes:
        server: it; theirs, ours: the proxies before the server, before the service.
    """

    server: EmbeddedPostgres
    theirs: RecordingProxy
    ours: RecordingProxy

    @property
    def both(self) -> tuple[RecordingProxy, RecordingProxy]:
        """The proxies."""
        return self.theirs, self.ours


@contextmanager
def sides_of(server: EmbeddedPostgres, directory: Path) -> Iterator[Sides]:
    """Start the service over the WAL of a server that runs; at the end, compare what clients were answered."""
    run(server, *ROLES)
    let_in_by_password(server)
    catalog = backup_of(server, directory / "base")
    release = value(server, "SHOW server_version")
    serving = Serving(server.wal_directory, catalog, directory / "slots", "--server-version", release)
    (directory / "hba.conf").write_text(RULES.format("host", "127.0.0.1/32"))
    write_users(directory / "users.toml", service_users(server))
    with serving:
        with RecordingProxy(server) as theirs, RecordingProxy(serving) as ours:
            yield Sides(server, theirs, ours)
        assert serving.stop() == 0
    different = differences(theirs.recordings, ours.recordings)
    assert different == [], "\n".join(different)


def let_in_by_password(server: EmbeddedPostgres) -> None:
    """Let the role that has a password in by that alone."""
    rules = server.data_directory / "pg_hba.conf"
    rules.write_text(RULES.format("local", "") + rules.read_text())
    run(server, "SELECT pg_reload_conf()")


def service_users(server: EmbeddedPostgres) -> Users:
    """Return the roles as users, with the verifier that the server has of the password."""
    verifier = Verifier.parse(value(server, "SELECT rolpassword FROM pg_authid WHERE rolname = 'secretive'"))
    replicator, secretive = (User("replicator", may_copy_all=True), User("secretive", verifier, may_copy_all=True))
    return Users().with_user(replicator).with_user(secretive)


TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, name text, note text)",
    "CREATE TABLE u (a int, b numeric)",
    "CREATE PUBLICATION p FOR ALL TABLES",
)
WORK = (
    "INSERT INTO t SELECT i, 'name ' || i, repeat('x', i % 50) FROM generate_series(1, 200) i",
    "UPDATE t SET name = upper(name) WHERE id % 3 = 0",
    "DELETE FROM t WHERE id % 7 = 0",
    "BEGIN; INSERT INTO u VALUES (1, 2.50); SAVEPOINT s; INSERT INTO u VALUES (2, 3); ROLLBACK TO s; COMMIT",
    "TRUNCATE t, u",
    "SELECT pg_logical_emit_message(true, 'prefix', 'in a transaction')",
    "BEGIN; INSERT INTO u VALUES (3, 4); PREPARE TRANSACTION 'g'",
    "COMMIT PREPARED 'g'",
)
STREAMED = {
    "test_decoding": ("-o", "include-timestamp=1", "-o", "skip-empty-xacts=1"),
    "pgoutput": ("-o", "proto_version=1", "-o", "publication_names=p"),
}


def created(major: int) -> list[tuple[str, ...]]:
    """Return how slots are made: a name, a plugin and flags each."""
    slots = [("a", "test_decoding"), ("b", "pgoutput"), ("c", "test_decoding", "--two-phase")]
    slots += [("d", "pgoutput", "--enable-failover")] if major >= 18 else []
    return slots


@pytest.mark.parametrize("major", [16, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 18, 19))])
def test_pg_recvlogical(tmp_path: Path, major: int) -> None:
    """Slots are made, made again, streamed from, and dropped; one is not there."""
    with small_server(major) as server:
        run(server, *TABLES)
        environment = server.client_environment()
        with sides_of(server, tmp_path) as sides:
            for slot, plugin, *flags in created(major):
                for proxy in sides.both:
                    arguments = ("--slot", slot, "--create-slot", "-P", plugin, *flags)
                    made = recvlogical(proxy.environment(environment), major, *arguments)
                    assert made.returncode == 0, made.stderr
            run(server, *WORK)
            end = now(server)
            for slot, plugin, *_ in created(major):
                start = ("--start", "--endpos", end, "-f", "/dev/null", *STREAMED[plugin])
                actions = ("--create-slot", "-P", plugin), start, start, ("--drop-slot",), ("--drop-slot",)
                for proxy in sides.both:
                    for action in actions:
                        recvlogical(proxy.environment(environment), major, "--slot", slot, *action)


FILL = "SELECT pg_logical_emit_message(false, 'x', repeat('a', 700000)) FROM generate_series(1, 2)"


@pytest.mark.parametrize("major", [16, pytest.param(18, marks=pytest.mark.slow)])
def test_pg_receivewal(tmp_path: Path, major: int) -> None:
    """A slot is made, WAL comes with it and goes on, comes without one, and the slot is dropped, twice."""
    with small_server(major) as server, sides_of(server, tmp_path) as sides:

        def receive(directory: str, *arguments: str) -> None:
            for number, proxy in enumerate(sides.both):
                place = tmp_path / f"{directory}-{number}"
                place.mkdir(exist_ok=True)
                command = [str(client("pg_receivewal", major)), "-D", str(place), "--no-loop", *arguments]
                environment = proxy.environment(server.client_environment())
                subprocess.run(command, env=environment, capture_output=True, timeout=END_SECONDS, check=False)

        receive("none", "--slot", "p", "--create-slot")
        receive("none", "--slot", "p", "--create-slot")
        for _ in range(2):
            run(server, FILL)
            receive("with", "--slot", "p", "--endpos", passed(server))
        receive("without", "--endpos", passed(server))
        receive("none", "--slot", "p", "--drop-slot")
        receive("none", "--slot", "p", "--drop-slot")
        received = [sum(map(has_wal, proxy.recordings)) for proxy in sides.both]
    assert received == [3, 3]


def passed(server: EmbeddedPostgres) -> str:
    """Return an LSN that WAL has been written beyond: pg_receivewal waits for that."""
    lsn = now(server)
    now(server)
    return lsn


def has_wal(recording: Recording) -> bool:
    """Tell whether WAL was sent."""
    return transcript_of(recording).wal is not None


SESSION = (
    "IDENTIFY_SYSTEM",
    "identify_system",
    "SHOW wal_segment_size",
    "SHOW nothing_of_the_kind",
    "SELECT pg_catalog.set_config('search_path', '', false);",
    "SELECT 1",
    "SELECT version() IS NULL",
    "SELECT slot_name, plugin, active FROM pg_catalog.pg_replication_slots ORDER BY slot_name",
    "CREATE_REPLICATION_SLOT e LOGICAL test_decoding",
    "CREATE_REPLICATION_SLOT e LOGICAL test_decoding",
    "SELECT * FROM pg_logical_slot_peek_changes('e', NULL, NULL, 'nothing', 'x')",
    "SELECT * FROM pg_logical_slot_peek_changes('nothing', NULL, NULL)",
    "CREATE_REPLICATION_SLOT n TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')",
    "START_REPLICATION SLOT e LOGICAL 0/0 (nothing 'x')",
    "CREATE_REPLICATION_SLOT q LOGICAL pgoutput",
    "START_REPLICATION SLOT q LOGICAL 0/0 (publication_names 'p')",
    "START_REPLICATION SLOT q LOGICAL 0/0 (proto_version '99', publication_names 'p')",
    "START_REPLICATION SLOT q LOGICAL 0/0 (proto_version '1')",
    "START_REPLICATION SLOT q LOGICAL 0/0 (proto_version '1', publication_names '\"p')",
    "START_REPLICATION SLOT q LOGICAL 0/0 (proto_version '1', streaming 'on', publication_names 'p')",
    "START_REPLICATION SLOT nothing LOGICAL 0/0",
    "BEGIN",
    "SELECT 1/0",
    "SELECT 1",
    "IDENTIFY_SYSTEM",
    "ROLLBACK",
    "SET datestyle TO German",
    "SHOW datestyle",
    "",
    "SELECT 1; SELECT 2",
    "SELECT nothing FROM pg_class",
    "SELECT * FROM nothing",
)
PHYSICAL = ("IDENTIFY_SYSTEM", "SELECT 1", "SHOW server_version_num", "TIMELINE_HISTORY 7", "READ_REPLICATION_SLOT e")
REFUSED: tuple[dict[str, str], ...] = (
    {"password": "wrong"},
    {"user": "nobody"},
    {"dbname": "nothing"},
    {"replication": "perhaps"},
    {"options": "-c nothing_of_the_kind=1"},
)


@pytest.mark.parametrize("major", [16, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 18, 19))])
def test_psycopg(tmp_path: Path, major: int) -> None:
    """Logins by password, sessions of commands, and a stream that the client ends."""
    with small_server(major) as server:
        run(server, *TABLES, "CREATE PUBLICATION brief FOR ALL TABLES")
        with sides_of(server, tmp_path) as sides:
            for proxy in sides.both:
                converse(proxy, "logical", SESSION, replication="database")
                converse(proxy, "physical", PHYSICAL, replication="true")
                for words in REFUSED:
                    with pytest.raises(psycopg.OperationalError):
                        connect(proxy, "refused", **words)
            run(server, *WORK)
            if not VERSIONS[major].warns_of_missing_publications:
                run(server, "DROP PUBLICATION brief", "INSERT INTO u VALUES (5, 6)")
                for proxy in sides.both:
                    fail(proxy)
            assert all(stream(proxy) > 5 for proxy in sides.both)


def connect(proxy: RecordingProxy, name: str, **words: str) -> psycopg.Connection[Any]:
    """Connect by a password."""
    place = {"user": "secretive", "password": PASSWORD, "replication": "database", "application_name": name, **words}
    return psycopg.connect(f"{proxy.conninfo('dbname=postgres')} {conninfo_at(place)}", autocommit=True)


def converse(proxy: RecordingProxy, name: str, commands: Sequence[str], **words: str) -> None:
    """Run commands, whether they are refused or not, and a query of the extended protocol, which is."""
    with connect(proxy, name, **words) as connection:
        for command in commands:
            with suppress(psycopg.Error):
                connection.execute(command.encode())
        with suppress(psycopg.Error):
            connection.execute("SELECT %s", [1])


def fail(proxy: RecordingProxy) -> None:
    """Begin a stream of a publication that has been dropped, which ends at the first change after that."""
    with connect(proxy, "failing") as connection:
        session = connection.pgconn
        session.send_query(b"START_REPLICATION SLOT q LOGICAL 0/0 (proto_version '1', publication_names 'brief')")
        answered(session)
        while copied(session):
            pass
        while answered(session) is not None:
            pass


def stream(proxy: RecordingProxy) -> int:
    """Stream from the slot, up to the last transaction; return how many there were."""
    with connect(proxy, "streaming") as connection:
        session = connection.pgconn
        session.send_query(b"START_REPLICATION SLOT e LOGICAL 0/0 (\"skip-empty-xacts\" '1')")
        answered(session)
        commits, is_last, data = 0, False, b""
        while not (is_last and b"COMMIT" in data):
            data = copied(session)
            commits += b"COMMIT" in data
            is_last |= b"a[integer]:3" in data
        session.put_copy_end()
        session.flush()
        while copied(session):
            pass
        while answered(session) is not None:
            pass
    return commits


def answered(session: PGconn) -> PGresult | None:
    """Wait for a result; the proxy needs this process, too."""
    while session.is_busy():
        select([session.socket], [], [], END_SECONDS)
        session.consume_input()
    return session.get_result()


def copied(session: PGconn) -> bytes:
    """Wait for the next message of a stream; nothing at its end."""
    while not (size_and_data := session.get_copy_data(1))[0]:
        select([session.socket], [], [], END_SECONDS)
        session.consume_input()
    return bytes(size_and_data[1])


SUBSCRIBED = (
    "CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(10, 2))",
    "CREATE TABLE parts (id int, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a')",
    "CREATE TABLE f (id int PRIMARY KEY, a text, b int)",
    "CREATE TABLE later (a int PRIMARY KEY, b text)",
)
DATABASES = ("theirs", "ours")


@dataclass(frozen=True)
class Subscribers:
    """Databases of a server with a subscription each: to the server's proxy, to the service's."""

    server: EmbeddedPostgres
    sides: Sides

    def do(self, *statements: str) -> None:
        """Run statements in both, in which a conninfo is the side's."""
        for database, proxy in zip(DATABASES, self.sides.both, strict=True):
            for statement in statements:
                run(self.server, statement.replace("CONNINFO", proxy.conninfo()), database=database)

    def wait(self, query: str, expected: str) -> None:
        """Wait until a query has a value in both."""
        wait_until(lambda: [self._value(database, query) for database in DATABASES] == [expected] * 2)

    def wait_ready(self, count: int) -> None:
        """Wait until so many tables are copied."""
        self.wait("SELECT count(*) FILTER (WHERE srsubstate = 'r') FROM pg_subscription_rel", str(count))

    def _value(self, database: str, query: str) -> str:
        with self.server.connect(database) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return str(row[0])


OPTIONS = "binary = true, streaming = on, origin = none"
SLOW_PAIRS = [pair for pair in ((14, 18), (18, 18), (19, 19), (18, 14)) if all(map(is_packaged, pair))]
LIVES = [
    (16, 18, ""),
    *(pytest.param(*pair, "", marks=pytest.mark.slow) for pair in SLOW_PAIRS),
    *(pytest.param(major, 18, OPTIONS, marks=pytest.mark.slow) for major in (16, 18)),
]


@pytest.mark.parametrize(("major", "subscriber_major", "options"), LIVES)
def test_the_life_of_a_subscription(tmp_path: Path, major: int, subscriber_major: int, options: str) -> None:
    """Tables are copied, changes follow, publications change, it stands still, goes on, and is dropped."""
    with small_server(major) as publisher, small_server(subscriber_major) as subscriber:
        filtered = "(id, b) WHERE (id > 5)" if major >= 15 else ""
        run(publisher, *SUBSCRIBED, f"CREATE PUBLICATION p FOR TABLE t, parts, f {filtered}".strip())
        run(publisher, "CREATE PUBLICATION q FOR TABLE later")
        run(publisher, "INSERT INTO t SELECT i, 'n' || i, i / 4.0 FROM generate_series(1, 100) i")
        run(publisher, "INSERT INTO f SELECT i, 'a', i FROM generate_series(2, 10) i")
        run(subscriber, *(f"CREATE DATABASE {database}" for database in DATABASES))
        with sides_of(publisher, tmp_path) as sides:
            both = Subscribers(subscriber, sides)
            both.do(*SUBSCRIBED)
            live(publisher, both, f"WITH ({options})" if options else "")


def live(publisher: EmbeddedPostgres, both: Subscribers, options: str) -> None:
    """Make the subscription, change it, and drop it."""
    both.do(f"CREATE SUBSCRIPTION s CONNECTION 'CONNINFO' PUBLICATION p {options}")
    both.wait_ready(3)
    run(publisher, "UPDATE t SET name = upper(name) WHERE id % 3 = 0", "INSERT INTO f VALUES (20, 'x', 1), (1, 'y', 1)")
    both.wait("SELECT count(*) FROM t WHERE name LIKE 'N%'", "33")
    both.do("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    both.do("ALTER SUBSCRIPTION s SET PUBLICATION p, q")
    both.wait_ready(4)
    run(publisher, "INSERT INTO later VALUES (1, 'x')")
    both.wait("SELECT count(*) FROM later", "1")
    both.do("ALTER SUBSCRIPTION s DISABLE")
    wait_until(lambda: value(both.server, "SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL") == "0")
    run(publisher, "INSERT INTO later VALUES (2, 'y')")
    both.do("ALTER SUBSCRIPTION s ENABLE")
    both.wait("SELECT count(*) FROM later", "2")
    both.do("DROP SUBSCRIPTION s")
