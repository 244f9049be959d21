"""Sources that are reached by libpq's files alone: services, passwords, and a server's certificate that is verified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from bad_input.servers import conninfo_of, make_slot, now, run, small_server, value
from landing.mirrors import read_table
from serving.service import Serving, backup_of, content, make_slot_by_client, recvlogical, wait_until
from slots.conftest import Command, done, refused
from sources.secure_server import SERVER_NAME, SERVICE, USER, SecureServer, secure_server

pytestmark = pytest.mark.server

TABLE = "CREATE TABLE t (id int PRIMARY KEY, a text)"
MAJOR = 16
WORK = (
    "INSERT INTO t SELECT i, repeat(md5(i::text), 20) FROM generate_series(1000, 9000) i",
    "UPDATE t SET a = upper(a) WHERE id % 3 = 0",
    "DELETE FROM t WHERE id % 7 = 0",
    "BEGIN; INSERT INTO t VALUES (-1, 'gone'); ROLLBACK",
    "UPDATE t SET id = id + 100000 WHERE id % 11 = 0",
)
"""Some megabytes of a slot's stream."""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    with secure_server(MAJOR, tmp_path_factory.mktemp("secure"), TABLE) as made:
        yield made


@pytest.fixture
def by_service(secure: SecureServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have libpq find its files; return the connection string."""
    for name, path in secure.environment.items():
        monkeypatch.setenv(name, path)
    return f"service={SERVICE}"


def test_a_backup_and_wal(secure: SecureServer, by_service: str, tmp_path: Path, command: Command) -> None:
    base, wal = tmp_path / "base", tmp_path / "wal"
    done(command, "backup", by_service, base)
    run(secure.server, "INSERT INTO t VALUES (1, 'x')")
    end = now(secure.server)
    run(secure.server, "INSERT INTO t VALUES (2, 'y')")
    done(command, "receive", "--from", by_service, "--to", wal, "--end", end)
    partial = next(path for path in wal.iterdir() if path.suffix == ".partial")
    whole = (secure.server.wal_directory / partial.stem).read_bytes()
    size = int(end.partition("/")[2], 16) % len(whole)
    assert partial.read_bytes()[:size] == whole[:size]
    source = ("--wal", wal, "--wal", base / "pg_wal", "--catalog", base, "--database", "postgres")
    assert b"a[text]:'x'" in done(command, "decode", *source, "-q")


OTHERS = {
    "another name": ("host=db.example", 'server certificate for "localhost" does not match host name "db.example"'),
    "another authority": ("sslrootcert={stranger}", "certificate verify failed"),
    "no encryption": ("sslmode=disable", "no encryption"),
    "no password": ("passfile=/nonexistent", "no password supplied"),
    "another password": ("password=wrong-secret", 'password authentication failed for user "reader"'),
    "no such service": ("service=nothing", 'definition of service "nothing" not found'),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_not_the_server_is_refused(
    secure: SecureServer, by_service: str, tmp_path: Path, command: Command, other: str
) -> None:
    """Before a byte is written, and at once: nothing is tried again."""
    words, expected = OTHERS[other]
    conninfo = f"{by_service} {words.format(stranger=secure.stranger.certificate)}"
    for asked in (("backup", conninfo, tmp_path / "base"), ("receive", "--from", conninfo, "--to", tmp_path / "wal")):
        errors = refused(command, *asked)
        assert expected in errors
        assert "wrong-secret" not in errors
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_service_that_receives(secure: SecureServer, by_service: str, tmp_path: Path) -> None:
    """Its own receiver goes by the same files, as do the rows of its upstream."""
    base = backup_of(secure.server, tmp_path / "base")
    flags = ("--from", f"{by_service} application_name=own", "--upstream", by_service)
    with Serving(tmp_path / "wal", base, tmp_path / "slots", *flags) as serving:
        make_slot_by_client(serving.environment(), MAJOR, "s", "test_decoding")
        run(secure.server, "INSERT INTO t VALUES (10, 'ten')")
        end = now(secure.server)
        out = tmp_path / "out"
        streamed = recvlogical(serving.environment(), MAJOR, "--slot", "s", "--start", "--endpos", end, "-f", str(out))
        assert streamed.returncode == 0, streamed.stderr
        assert b"a[text]:'ten'" in content(out)
        query = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid) WHERE application_name = 'own'"
        with secure.server.connect() as connection:
            assert connection.execute(query).fetchall() == [(True,)]
        assert serving.stop() == 0


def slot_address(secure: SecureServer, slot: str, *more: str) -> str:
    """Return the address of a slot, over TLS; passwords are in libpq's file."""
    words = ("hostaddr=127.0.0.1", "sslmode=verify-full", f"sslrootcert={secure.authority.certificate}", *more)
    query = "&".join((f"slot={slot}", "publication=everything", *words))
    return f"postgresql://{USER}@{SERVER_NAME}:{secure.server.port}/postgres?{query}"


def plain_address(secure: SecureServer, slot: str) -> str:
    """Return the address of a slot, over the socket, which is not encrypted."""
    server = secure.server
    place = f"host={quote(str(server.socket_directory), safe='')}&port={server.port}"
    return f"postgresql://postgres@/postgres?{place}&slot={slot}&publication=everything"


@pytest.mark.usefixtures("by_service")
def test_a_slot_lands_the_same(secure: SecureServer, tmp_path: Path, command: Command) -> None:
    """An encrypted stream is read by libpq, any other past it."""
    server = secure.server
    run(server, "TRUNCATE t", "CREATE PUBLICATION everything FOR ALL TABLES")
    for slot in ("plain", "encrypted"):
        make_slot(server, slot, plugin="pgoutput")
    run(server, *WORK)
    addresses = {"plain": plain_address(secure, "plain"), "encrypted": slot_address(secure, "encrypted")}
    for place, address in addresses.items():
        done(command, "land", "--wal", address, "--to", tmp_path / place, "--snapshot", "never", "--quiet")
    rows = [read_table(tmp_path / place / "public.t", "parquet") for place in addresses]
    assert rows[1].equals(rows[0])
    assert rows[0].num_rows > 10_000
    wrong = slot_address(secure, "encrypted", "hostaddr=127.0.0.1").replace(SERVER_NAME, "db.example", 1)
    errors = refused(command, "land", "--wal", wrong, "--to", tmp_path / "none", "--snapshot", "never", "--quiet")
    assert 'does not match host name "db.example"' in errors
    run(server, "DROP PUBLICATION everything")


def test_changes_are_applied(secure: SecureServer, by_service: str, command: Command) -> None:
    """Rows are copied, and transactions come before they end, over TLS."""
    publisher = secure.server
    run(publisher, "TRUNCATE t", "CREATE PUBLICATION applied FOR TABLE t", "INSERT INTO t VALUES (1, 'copied')")
    run(publisher, "ALTER SYSTEM SET logical_decoding_work_mem = '64kB'", "SELECT pg_reload_conf()")
    with small_server(MAJOR) as target:
        run(target, TABLE)
        source = ("--from", f"{by_service} dbname=postgres", "--publication", "applied", "--streaming", "on")
        for work in ((), WORK):
            run(publisher, *work)
            done(command, "apply", *source, "--to", conninfo_of(target), "--end", now(publisher))
        digest = "SELECT md5(string_agg(t::text, ' ' ORDER BY id)) FROM t"
        assert value(target, digest) == value(publisher, digest)
        streamed = "SELECT stream_count > 0 FROM pg_stat_replication_slots WHERE slot_name = 'headwater'"
        wait_until(lambda: value(publisher, streamed) == "True")
    run(publisher, "DROP PUBLICATION applied")
