"""Base backups from the service: pg_basebackup takes one, and a standby of it has what the source has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bad_input.servers import now, run, small_server
from bad_input.standbys import catch_up
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.walsender.access.users import User, Users, write_users
from serving.answers import answer_of, connected, places
from serving.service import END_SECONDS, Serving, backup_of, client

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE t AS SELECT i, repeat('x', i % 50) AS s FROM generate_series(1, 5000) AS i",
    "CREATE INDEX ON t (i)",
)
LATER = ("DELETE FROM t WHERE i % 3 = 0", "UPDATE t SET s = 'new' WHERE i % 7 = 0", "CREATE TABLE u AS SELECT 1 AS a")
SUMS = "SELECT count(*)::text || md5(string_agg(t::text, ',' ORDER BY i)) || (SELECT sum(a) FROM u) FROM t"


def take(serving: Serving, major: int, directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run pg_basebackup against the service."""
    command = [str(client("pg_basebackup", major)), "-D", str(directory), "--no-sync", *flags]
    return subprocess.run(
        command, env=serving.environment(), capture_output=True, text=True, timeout=END_SECONDS, check=False
    )


def sums(server: EmbeddedPostgres) -> object:
    with server.connect() as connection:
        return connection.execute(SUMS).fetchone()


@contextmanager
def standby_from(server: EmbeddedPostgres, backup: Path, serving: Serving) -> Iterator[EmbeddedPostgres]:
    """Run a hot standby of a backup, which streams from the service."""
    with EmbeddedPostgres(server.programs) as standby:
        standby.stop()
        owner = standby.data_directory.stat()
        shutil.rmtree(standby.data_directory)
        shutil.copytree(backup, standby.data_directory, symlinks=True)
        (standby.data_directory / "standby.signal").touch()
        with (standby.data_directory / "postgresql.conf").open("a") as configuration:
            configuration.write(
                f"unix_socket_directories = '{standby.socket_directory}'\n"
                f"primary_conninfo = 'host=127.0.0.1 port={serving.port} user=postgres'\n"
            )
        for path in (standby.data_directory, *standby.data_directory.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        standby.data_directory.chmod(0o700)
        standby.start()
        yield standby


@pytest.mark.parametrize("method", ["stream", "fetch"])
@pytest.mark.parametrize("major", [14, pytest.param(16, marks=pytest.mark.slow), 18])
def test_a_standby_has_what_the_stopped_source_had(tmp_path: Path, major: int, method: str) -> None:
    with small_server(major) as server:
        run(server, *TABLES)
        catalog = backup_of(server, tmp_path / "base")
        run(server, *LATER)
        expected, end = sums(server), now(server)
        server.stop()
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            taken = take(serving, major, tmp_path / "taken", "-X", method, "--progress", "--label", "from it")
            assert taken.returncode == 0, taken.stderr
            assert "LABEL: from it" in (tmp_path / "taken" / "backup_label").read_text()
            with standby_from(server, tmp_path / "taken", serving) as standby:
                catch_up(standby, end)
                assert sums(standby) == expected
            assert serving.stop() == 0


REFUSED = (
    "NOTHING",
    "LABEL",
    "LABEL 'a', LABEL 'b'",
    "PROGRESS 'perhaps'",
    "CHECKPOINT 'soon'",
    "CHECKPOINT 'fast', CHECKPOINT 'soon'",
    "CHECKPOINT 'fast', CHECKPOINT",
    "WAIT 2",
    "MAX_RATE",
    "MAX_RATE 31",
    "MAX_RATE 1048577",
    "MAX_RATE 'much'",
    "MANIFEST 'perhaps'",
    "MANIFEST_CHECKSUMS 'md5'",
    "MANIFEST 'yes', MANIFEST_CHECKSUMS 'MD5'",
    "MANIFEST_CHECKSUMS 'crc32c'",
    "TARGET 'nowhere'",
    "TARGET 'client', TARGET_DETAIL 'x'",
    "TARGET 'blackhole', TARGET_DETAIL 'x'",
    "TARGET 'server'",
    "TARGET_DETAIL 'x'",
    "COMPRESSION 'brotli'",
    "COMPRESSION_DETAIL '1'",
    "LABEL 'a' PROGRESS",
)
REFUSED_OF_14 = (
    "NOTHING",
    "LABEL 'a' LABEL 'b'",
    "FAST FAST",
    "MAX_RATE 31",
    "MANIFEST 'perhaps'",
    "MANIFEST_CHECKSUMS 'crc32c'",
    "MANIFEST 'yes' MANIFEST_CHECKSUMS 'MD5'",
    "(LABEL 'a')",
)


@pytest.mark.parametrize("major", [14, pytest.param(16, marks=pytest.mark.slow), 18])
def test_options_are_refused_as_by_the_server(tmp_path: Path, major: int) -> None:
    commands = [f"BASE_BACKUP ({options})" for options in REFUSED]
    if major == 14:
        commands = [f"BASE_BACKUP {options}" for options in REFUSED_OF_14]
    with small_server(major) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            theirs, ours = places(server, serving, replication="true")
            with connected(**theirs) as server_side, connected(**ours) as our_side:
                different = [
                    (command, *answers)
                    for command in commands
                    if len(set(map(str, answers := [answer_of(side, command) for side in (server_side, our_side)]))) > 1
                ]
            assert different == [], "\n".join(map(str, different))


def test_archives_have_what_the_manifest_lists(tmp_path: Path) -> None:
    """A tablespace has an archive of its own; pg_verifybackup takes the files, and every checksum, for right."""
    with small_server(18) as server:
        place = server.data_directory.parent / "space"
        place.mkdir()
        owner = server.data_directory.stat()
        os.chown(place, owner.st_uid, owner.st_gid)
        run(server, f"CREATE TABLESPACE s LOCATION '{place}'", "CREATE TABLE t (a int) TABLESPACE s")
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            taken = take(serving, 18, tmp_path / "tar", "-F", "tar", "--manifest-checksums", "SHA256")
            assert taken.returncode == 0, taken.stderr
            names = {path.name for path in (tmp_path / "tar").iterdir()}
            assert {"base.tar", "pg_wal.tar", "backup_manifest"} < names
            assert sum(name.removesuffix(".tar").isdigit() for name in names) == 1
            verify = [str(client("pg_verifybackup", 18)), "--no-parse-wal", str(tmp_path / "tar")]
            checked = subprocess.run(verify, capture_output=True, text=True, check=False)
            assert checked.returncode == 0, checked.stdout + checked.stderr
            place = next((catalog / "pg_tblspc").iterdir())
            mapped = ("-T", f"{place}={tmp_path / 'space'}")
            taken = take(serving, 18, tmp_path / "plain", "-X", "fetch", *mapped)
            assert taken.returncode == 0, taken.stderr
            assert (tmp_path / "plain" / "pg_tblspc" / place.name).resolve() == tmp_path / "space"
            checked = subprocess.run(
                [*verify[:2], str(tmp_path / "plain")], capture_output=True, text=True, check=False
            )
            assert checked.returncode == 0, checked.stdout + checked.stderr
            with connected(**places(server, serving, replication="true")[1]) as connection:
                for options in ("TARGET 'blackhole'", "COMPRESSION 'gzip'"):
                    assert "0A000" in str(answer_of(connection, f"BASE_BACKUP ({options})"))
                assert "55000" in str(answer_of(connection, "BASE_BACKUP (INCREMENTAL)"))
            assert serving.stop() == 0


def test_a_user_who_may_not_copy_all_gets_none(tmp_path: Path) -> None:
    with small_server(18) as server:
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            write_users(tmp_path / "users.toml", Users().with_user(User("postgres")))
            with connected(**places(server, serving, replication="database")[1]) as connection:
                answer = str(answer_of(connection, "BASE_BACKUP"))
            assert "42501" in answer
