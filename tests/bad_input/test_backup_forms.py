"""The same base backup in every form: plain, in tar format, compressed; combined of incremental ones, or refused."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from arrow_types import Codec
from bad_input.command import CommandHere
from bad_input.servers import copy_wal, make_slot, peek, run, small_server, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client

pytestmark = [pytest.mark.server]

CODECS: dict[str, Codec] = {"gz": "gzip", "lz4": "lz4", "zst": "zstd"}
FORMS = ["directory", "gz", "zst", *(pytest.param(form, marks=pytest.mark.slow) for form in ("base", "lz4", "renamed"))]


@dataclass(frozen=True)
class Backups:
    """A backup of a cluster with a database in a tablespace; paths are directories.

    Attributes:
        plain: the backup in plain format.
        tar: the same in tar format.
        wal: ``pg_wal`` at the end.
        tablespace: OID of the tablespace.
        slots: position of a slot of each database, made after the backup; expected: what it says.
    """

    plain: Path
    tar: Path
    wal: Path
    tablespace: str
    slots: dict[str, str]
    expected: dict[str, bytes]


def base_backup(server: EmbeddedPostgres, target: Path, *flags: str | Path) -> Path:
    """Take a base backup with ``pg_basebackup``."""
    program = find_client("pg_basebackup", server.programs.major)
    assert program is not None
    command = [program, "-D", target, "-c", "fast", "--no-sync", *flags]
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)
    return target


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Backups:
    """Take backups: some catalogs lie in files of other numbers than initdb gave them; every session uses a setting."""
    directory = tmp_path_factory.mktemp("forms")
    with small_server(16, bytea_output="escape") as server:
        far = server.home.path / "far"
        shutil.copytree(server.socket_directory, far, ignore=lambda _folder, names: names)
        shutil.chown(far, server.data_directory.owner(), server.data_directory.group())
        run(server, f"CREATE TABLESPACE far LOCATION '{far}'", "CREATE DATABASE wide TABLESPACE far")
        table = "CREATE TABLE t (id int PRIMARY KEY, a bytea)"
        for database, catalogs in (("postgres", ["pg_class", "pg_index"]), ("wide", ["pg_attribute", "pg_enum"])):
            run(server, table, *(f"VACUUM FULL {catalog}" for catalog in catalogs), database=database)
        run(server, "VACUUM FULL pg_database")
        plain = base_backup(server, directory / "plain", "-X", "none", "-T", f"{far}={directory / 'far'}")
        tar = base_backup(server, directory / "tar", "-X", "stream", "-F", "tar")
        slots, expected = {}, {}
        for database in ("postgres", "wide"):
            slots[database] = make_slot(server, database, database)
            run(server, "ALTER TABLE t ADD b text", "INSERT INTO t VALUES (1, '\\001x', 'one')", database=database)
        for database in ("postgres", "wide"):
            expected[database] = peek(server, database, database)
        tablespace = value(server, "SELECT oid::text FROM pg_tablespace WHERE spcname = 'far'")
        server.stop()
        return Backups(plain, tar, copy_wal(server, directory / "wal"), tablespace, slots, expected)


def compressed(source: Path, target: Path, codec: Codec) -> Path:
    with pa.output_stream(str(target), compression=codec) as stream:
        stream.write(source.read_bytes())
    return target


def in_form(backups: Backups, form: str, directory: Path) -> Path:
    """Put the archives into a form, in a directory; return what the command takes as the catalog."""
    if form == "directory":
        return backups.tar
    if form == "base":
        return backups.tar / "base.tar"
    if form == "renamed":
        return compressed(backups.tar / "base.tar", directory / "monday", "zstd")
    for source in (backups.tar / "base.tar", backups.tar / f"{backups.tablespace}.tar"):
        compressed(source, directory / f"{source.name}.{form}", CODECS[form])
    return directory if form == "gz" else directory / f"base.tar.{form}"


@pytest.mark.parametrize("database", ["postgres", "wide"])
def test_plain(headwater: CommandHere, backups: Backups, database: str) -> None:
    window = ["--wal", backups.wal, "--catalog", backups.plain, "--database", database]
    run = headwater(*window, "--start", backups.slots[database], "--with-lsn")
    assert run.check_passed() == backups.expected[database]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_archives(headwater: CommandHere, backups: Backups, tmp_path: Path, form: str) -> None:
    database = "postgres" if form == "renamed" else "wide"
    archives = tmp_path / "archives"
    archives.mkdir()
    window = ["--wal", backups.wal, "--catalog", in_form(backups, form, archives), "--database", database]
    run = headwater(*window, "--start", backups.slots[database], "--with-lsn")
    assert run.check_passed() == backups.expected[database]


def test_tablespace_without_its_archive(headwater: CommandHere, backups: Backups, tmp_path: Path) -> None:
    base = tmp_path / "base.tar"
    base.symlink_to(backups.tar / "base.tar")
    run = headwater("--wal", backups.wal, "--catalog", base, "--database", "wide")
    run.check_failed("could not read file: no such archive", f"in {tmp_path}/{backups.tablespace}.tar:PG_16_")


def test_unpacked_archive_without_its_tablespace(headwater: CommandHere, backups: Backups, tmp_path: Path) -> None:
    """``tablespace_map`` names where the files were on the server, which are no backup."""
    target = tmp_path / "unpacked"
    shutil.unpack_archive(backups.tar / "base.tar", target, filter="data")
    window = ["--wal", backups.wal, "--catalog", target, "--database", "wide"]
    link = target / "pg_tblspc" / backups.tablespace
    headwater(*window).check_failed("could not read file", f"in {link}/PG_16_", f"make {link} a link")
    shutil.unpack_archive(backups.tar / f"{backups.tablespace}.tar", tmp_path / "far", filter="data")
    link.symlink_to(tmp_path / "far")
    lines = headwater(*window, "--start", backups.slots["wide"], "--with-lsn").check_passed()
    assert lines == backups.expected["wide"]


def test_archive_that_is_cut(headwater: CommandHere, backups: Backups, tmp_path: Path) -> None:
    data = (backups.tar / "base.tar").read_bytes()
    base = tmp_path / "base.tar"
    base.write_bytes(data[: len(data) // 2 + 100])
    window = ["--wal", backups.wal, "--catalog", tmp_path, "--database", "postgres"]
    headwater(*window).check_failed("could not read archive: ", f"in {base}", "unpack it")
    small = compressed(backups.tar / "base.tar", tmp_path / "whole", "gzip").read_bytes()
    base.write_bytes(small[: len(small) // 2])
    headwater(*window).check_failed("could not read archive: ", f"in {base}", "unpack it")


def test_two_base_archives(headwater: CommandHere, backups: Backups, tmp_path: Path) -> None:
    for name in ("base.tar", "base.tar.gz"):
        (tmp_path / name).symlink_to(backups.tar / "base.tar")
    run = headwater("--wal", backups.wal, "--catalog", tmp_path, "--database", "postgres")
    run.check_failed("more than one base backup: base.tar, base.tar.gz", f"in {tmp_path}", "name one of them")


def test_file_that_is_no_archive(headwater: CommandHere, backups: Backups, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a base backup\n" * 100)
    run = headwater("--wal", backups.wal, "--catalog", tmp_path / "notes", "--database", "postgres")
    run.check_failed("not a PostgreSQL data directory, nor an archive", f"in {tmp_path / 'notes'}")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("backup.manifest", "pgbackrest restore"), ("backup.info", "data"), ("tar_partitions/x", "wal-g backup-fetch")],
)
def test_backup_of_another_program(
    headwater: CommandHere, backups: Backups, tmp_path: Path, name: str, expected: str
) -> None:
    backup = tmp_path / "backup"
    (backup / name).parent.mkdir(parents=True)
    (backup / name).touch()
    run = headwater("--wal", backups.wal, "--catalog", backup, "--database", "postgres")
    run.check_failed("not a PostgreSQL data directory: a backup of ", f"in {backup}", expected)


# -- incremental backups


@dataclass(frozen=True)
class Incremental:
    """A full backup and one that has what was changed since; paths are directories.

    Attributes:
        later: the incremental backup, plain; tar: likewise in tar format.
        combined: what pg_combinebackup makes of the full one and ``later``.
        wal: ``pg_wal`` at the end.
        slot: position of a slot, made after them; expected: what it says.
    """

    later: Path
    tar: Path
    combined: Path
    wal: Path
    slot: str
    expected: bytes


@pytest.fixture(scope="module")
def incremental(tmp_path_factory: pytest.TempPathFactory) -> Incremental:
    directory = tmp_path_factory.mktemp("incremental")
    combine = find_client("pg_combinebackup", 18)
    assert combine is not None
    with small_server(18, summarize_wal="on") as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        full = base_backup(server, directory / "full", "-X", "none")
        run(server, "ALTER TABLE t RENAME a TO b")
        since: list[str | Path] = ["-X", "none", "-i", full / "backup_manifest"]
        later = base_backup(server, directory / "later", *since)
        tar = base_backup(server, directory / "tar", *since, "-F", "tar")
        slot = make_slot(server, "s")
        run(server, "INSERT INTO t VALUES (1, 'one')")
        expected = peek(server, "s")
        server.stop()
        wal = copy_wal(server, directory / "wal")
    command: list[str | Path] = [combine, "--no-sync", full, later, "-o", directory / "combined"]
    subprocess.run(command, check=True, capture_output=True)
    return Incremental(later, tar, directory / "combined", wal, slot, expected)


@pytest.mark.parametrize("form", ["later", "tar"])
def test_incremental_backup(headwater: CommandHere, incremental: Incremental, form: str) -> None:
    run = headwater("--wal", incremental.wal, "--catalog", getattr(incremental, form), "--database", "postgres")
    run.check_failed("this is an incremental backup", "since 0/", "backup_label", "pg_combinebackup")


def test_combined_backup(headwater: CommandHere, incremental: Incremental) -> None:
    window = ["--wal", incremental.wal, "--catalog", incremental.combined, "--database", "postgres"]
    assert headwater(*window, "--start", incremental.slot, "--with-lsn").check_passed() == incremental.expected
