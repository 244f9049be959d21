"""``headwater backup``: what it takes is what pg_verifybackup accepts, servers start from, and commands decode from."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, copy_wal, make_slot, peek, run, small_server, value
from headwater.errors import CatalogError, ConnectionLostError, ServerError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client
from headwater.receiver.backup_manifest import FileSum, check_manifest, check_wal
from headwater.receiver.base_backup import PLAIN, TAR, Backup, BackupRequest, take_backup
from slots.conftest import Command, done

pytestmark = pytest.mark.server

ALL = (14, 15, 16, 17, 18)


def backup_of(server: EmbeddedPostgres, directory: Path, **options: object) -> Backup:
    request = BackupRequest(conninfo=conninfo_of(server), directory=directory, **options)  # type: ignore[arg-type]
    return take_backup(request)


def verify(server: EmbeddedPostgres, directory: Path) -> None:
    """Let pg_verifybackup look at a backup, and its WAL with pg_waldump."""
    program = find_client("pg_verifybackup", server.programs.major)
    assert program is not None
    ran = subprocess.run([program, directory], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("major", [16, 18])
def test_a_backup_is_what_postgresql_accepts(tmp_path: Path, major: int) -> None:
    """With work going on meanwhile, a tablespace, and no WAL kept for it."""
    with small_server(major, wal_keep_size="0", max_wal_size="2MB", min_wal_size="2MB") as server:
        place = server.home.path / "space"
        place.mkdir()
        os.chown(place, server.data_directory.stat().st_uid, -1)
        run(server, f"CREATE TABLESPACE elsewhere LOCATION '{place}'")
        run(server, "CREATE TABLE t (a int, b text) TABLESPACE elsewhere")
        is_over = threading.Event()

        def work() -> None:
            while not is_over.is_set():
                run(server, "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 500) g", "CHECKPOINT")

        thread = threading.Thread(target=work)
        thread.start()
        try:
            backup = backup_of(server, tmp_path / "backup")
        finally:
            is_over.set()
            thread.join()
        assert backup.start < backup.end
        verify(server, tmp_path / "backup")
        (oid,) = [path.name for path in (tmp_path / "backup" / "pg_tblspc").iterdir()]
        assert any((tmp_path / "backup" / "pg_tblspc" / oid).rglob("[1-9]*"))
        assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "major", [pytest.param(major, marks=() if major in (14, 18) else pytest.mark.slow) for major in ALL]
)
@pytest.mark.parametrize(("form", "is_compressed"), [(PLAIN, False), (TAR, False), (TAR, True)])
def test_a_window_is_decoded_from_it(
    command: Command, tmp_path: Path, major: int, form: str, is_compressed: bool
) -> None:
    with small_server(major) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t VALUES (0, 'before')")
        backup = tmp_path / "backup"
        taken = backup_of(server, backup, form=form, is_compressed=is_compressed)
        make_slot(server, "s")
        run(server, "INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 100) g", "UPDATE t SET a = 'z'")
        lines = peek(server, "s")
        begin = value(server, "SELECT confirmed_flush_lsn FROM pg_replication_slots")
        server.stop()
        wal = copy_wal(server, tmp_path / "wal")
    names = sorted(path.name for path in backup.iterdir())
    if form == TAR:
        assert names == ["backup_manifest", "base.tar.gz" if is_compressed else "base.tar", "pg_wal"]
    segments = sorted(path.name for path in (backup / "pg_wal").iterdir() if path.is_file())
    assert int(segments[0][16:], 16) == taken.start >> 20
    assert all(len(name) == 24 for name in segments)
    words = ["decode", "--wal", wal, "--catalog", backup, "--database", "postgres", "--start", begin]
    assert done(command, *words, "--plugin", "test_decoding", "--with-lsn", "-q") == lines


def test_a_server_starts_from_it(tmp_path: Path) -> None:
    with small_server(18) as server:
        run(server, "CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 1000)")
        backup_of(server, tmp_path / "backup")
        with EmbeddedPostgres(server.programs) as again:
            again.stop()
            owner = again.data_directory.stat()
            shutil.rmtree(again.data_directory)
            shutil.copytree(tmp_path / "backup", again.data_directory, symlinks=True)
            with (again.data_directory / "postgresql.conf").open("a") as configuration:
                configuration.write(f"unix_socket_directories = '{again.socket_directory}'\n")
            for path in (again.data_directory, *again.data_directory.rglob("*")):
                os.chown(path, owner.st_uid, owner.st_gid)
            again.data_directory.chmod(0o700)
            again.start()
            assert value(again, "SELECT count(*)::text FROM t") == "1000"


def test_what_goes_wrong_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with small_server(16) as server:
        run(server, "CREATE ROLE nobody LOGIN")
        with pytest.raises(CatalogError, match="the directory is not empty"):
            backup_of(server, tmp_path / "full")
        request = BackupRequest(conninfo=f"{conninfo_of(server)} user=nobody", directory=tmp_path / "none")
        with pytest.raises(ServerError, match="permission denied to start WAL sender"):
            take_backup(request)
        info = conninfo_of(server)
    with pytest.raises(ConnectionLostError, match="could not connect to the server"):
        take_backup(BackupRequest(conninfo=info, directory=tmp_path / "none"))
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_a_backup_that_is_not_what_its_manifest_lists_is_refused(tmp_path: Path) -> None:
    with small_server(16) as server:
        backup_of(server, tmp_path / "backup", form=TAR, is_compressed=True)
    manifest = (tmp_path / "backup" / "backup_manifest").read_bytes()
    with gzip.open(tmp_path / "backup" / "base.tar.gz") as file, tarfile.open(fileobj=file) as archive:
        names = {member.name for member in archive if member.isfile()}
    assert "PG_VERSION" in names
    listed = {name: FileSum(0, 0) for name in names}
    with pytest.raises(CatalogError, match=r"the backup's file has 0 bytes and the CRC 00000000, expected \d+ and"):
        check_manifest(manifest, listed)
    with pytest.raises(CatalogError, match="the backup lacks a file of its manifest"):
        check_manifest(manifest, {})
    with pytest.raises(CatalogError, match="the backup has a file that its manifest does not list"):
        check_manifest(manifest, listed | {"more": FileSum(0, 0)})
    with pytest.raises(CatalogError, match="does not have the checksum that it says"):
        check_manifest(manifest.replace(b"PG_VERSION", b"PG_VERSIOM"), listed)


def test_two_backups_into_one_directory_do_not_meet(tmp_path: Path) -> None:
    place, refusals = tmp_path / "backup", list[str]()
    with small_server(18) as server:

        def second(step: str, *_: object) -> None:
            if not refusals:
                assert step
                with pytest.raises(CatalogError) as refusal:
                    backup_of(server, place)
                refusals.append(str(refusal.value))

        left = tmp_path / ".backup.part"
        (left / "pg_wal").mkdir(parents=True)
        (left / "PG_VERSION").write_text("of a process that was killed")
        request = BackupRequest(conninfo=conninfo_of(server), directory=place)
        take_backup(request, second)
        assert "another backup is being taken into the directory" in refusals[0]
        verify(server, place)
        assert not left.exists()


def test_wal_that_the_manifest_lists_must_be_there(tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with small_server(18) as server:
        backup_of(server, place)
    manifest = (place / "backup_manifest").read_bytes()
    check_wal(manifest, place / "pg_wal")
    for segment in [path for path in (place / "pg_wal").iterdir() if len(path.name) == 24]:
        segment.unlink()
        with pytest.raises(CatalogError, match=r"lacks WAL that its manifest lists|has no WAL"):
            check_wal(manifest, place / "pg_wal")
