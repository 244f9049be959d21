"""A catalog that is none, is broken, or does not know what is asked of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bad_input.clusters import UNSUPPORTED, Cluster, own_file
from bad_input.command import CommandHere
from bad_input.damage import cut, flip, overwrite
from headwater.catalog.store.bootstrap import open_catalog

pytestmark = [pytest.mark.server]


def test_no_data_directory(headwater: CommandHere, cluster: Cluster, tmp_path: Path) -> None:
    run = headwater("--wal", cluster.wal, "--catalog", tmp_path, "--database", "postgres")
    run.check_failed("not a PostgreSQL data directory", f"in {tmp_path}", "name a data directory")


def test_unsupported_version(headwater: CommandHere, cluster: Cluster, catalog: Path) -> None:
    own_file(catalog / "PG_VERSION").write_text("13\n")
    run = headwater("--wal", cluster.wal, "--catalog", catalog, "--database", "postgres")
    run.check_failed(
        "PostgreSQL 13 is unsupported, expected one of 14, 15, 16, 17, 18, 19", f"in {catalog / 'PG_VERSION'}"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("global/pg_control", "could not read control file"),
        ("global/pg_filenode.map", "could not read file"),
        ("base/{database}/pg_filenode.map", "could not read file"),
        ("base/{database}/{pg_class}", "pg_class has no file"),
        ("base/{database}/{pg_attribute}", "pg_attribute has no file"),
        ("global/{pg_database}", "pg_database has no file"),
        ("base/{database}", "could not read file"),
        ("pg_xact/0000", "could not read the status of transaction"),
    ],
)
def test_missing_file(headwater: CommandHere, cluster: Cluster, catalog: Path, name: str, expected: str) -> None:
    path = catalog / name.format(**_names(catalog))
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    run = headwater("--wal", cluster.wal, "--catalog", catalog, "--database", "postgres")
    run.check_failed(expected, f"in {path}")


@pytest.mark.parametrize(
    ("name", "offset", "expected"),
    [
        ("global/pg_control", 40, "incorrect checksum in control file, found"),
        ("global/pg_control", 8, "unsupported PostgreSQL version, found control version"),
        ("global/pg_filenode.map", 9, "incorrect checksum in relation map, found"),
        ("base/{database}/pg_filenode.map", 9, "incorrect checksum in relation map, found"),
        ("base/{database}/{pg_class}", 13, "page"),
        ("base/{database}/{pg_attribute}", 8192 + 18, "page"),
    ],
)
def test_flipped_byte(
    headwater: CommandHere, cluster: Cluster, catalog: Path, name: str, offset: int, expected: str
) -> None:
    path = catalog / name.format(**_names(catalog))
    flip(path, offset, 0x41)
    run = headwater("--wal", cluster.wal, "--catalog", catalog, "--database", "postgres")
    run.check_failed(expected, f"in {path}")


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("global/pg_control", 100, "control file has 100 bytes, expected at least 296"),
        ("global/pg_filenode.map", 10, "relation map has 10 bytes, expected"),
        ("base/{database}/{pg_class}", 8192 + 100, "file has 8292 bytes, expected a multiple of 8192"),
    ],
)
def test_truncated_file(
    headwater: CommandHere, cluster: Cluster, catalog: Path, name: str, size: int, expected: str
) -> None:
    path = catalog / name.format(**_names(catalog))
    cut(path, size)
    run = headwater("--wal", cluster.wal, "--catalog", catalog, "--database", "postgres")
    run.check_failed(expected, f"in {path}")


def test_broken_backup_label(headwater: CommandHere, cluster: Cluster, catalog: Path) -> None:
    (catalog / "backup_label").write_text("START WAL LOCATION: nowhere\n")
    run = headwater("--wal", cluster.wal, "--catalog", catalog, "--database", "postgres")
    run.check_failed("backup_label has no START WAL LOCATION", f"in {catalog / 'backup_label'}")


def test_page_of_noise_in_a_catalog(headwater: CommandHere, cluster: Cluster, catalog: Path) -> None:
    path = catalog / "base/{database}/{pg_class}".format(**_names(catalog))
    overwrite(path, 8192, bytes(range(256)) * 32)
    run = headwater("--wal", cluster.wal, "--catalog", catalog, "--database", "postgres")
    run.check_failed("page", f"in {path}")


def test_unknown_database(headwater: CommandHere, cluster: Cluster) -> None:
    run = headwater("--wal", cluster.wal, "--catalog", cluster.backup, "--database", "nowhere")
    run.check_failed('database "nowhere" does not exist', f"in {cluster.backup}", "postgres, template1, types")


def test_database_must_be_named(headwater: CommandHere, cluster: Cluster) -> None:
    run = headwater("--wal", cluster.wal, "--catalog", cluster.backup)
    run.check_failed(
        "more than one database", f"in {cluster.backup}", "name one with --database", ": postgres, template1, types"
    )


def test_catalog_that_is_not_there(headwater: CommandHere, cluster: Cluster, tmp_path: Path) -> None:
    run = headwater("--wal", cluster.wal, "--catalog", tmp_path / "mondy", "--database", "types")
    run.check_failed("no such file or directory", f"in {tmp_path / 'mondy'}")


@pytest.mark.parametrize("database", ["template0", "template1"])
def test_template_that_nothing_wrote_to(headwater: CommandHere, cluster: Cluster, database: str) -> None:
    window = ["--wal", cluster.wal, "--catalog", cluster.backup, "--database", database]
    assert headwater(*window, "-o", "skip-empty-xacts=1").check_passed() == b""


@pytest.mark.parametrize("table", UNSUPPORTED)
def test_unsupported_type(headwater: CommandHere, cluster: Cluster, table: str) -> None:
    window = ["--wal", cluster.wal, "--catalog", cluster.backup, "--database", "types"]
    options = ["--plugin", "pgoutput", "-o", "proto_version=1", "-o", f"publication_names=pub_{table}"]
    run = headwater(*window, *options, "--out", headwater.out / "rows.parquet")
    name = UNSUPPORTED[table]
    run.check_failed(name, f'column "body" of table "public.{table}"', "(at 0/", "--unknown-types", begun=True)


@pytest.mark.filterwarnings("default")
def test_unsupported_types_as_null(headwater: CommandHere, cluster: Cluster) -> None:
    window = ["--wal", cluster.wal, "--catalog", cluster.backup, "--database", "types"]
    run = headwater(*window, "--unknown-types", "null")
    assert (run.status, run.stdout.count(b"body["), run.stdout.count(b"]:null")) == (0, 3, 3)
    assert sorted(run.stderr.splitlines()) == sorted(
        f"headwater: warning: values of type {name} cannot be printed{'' if name == 'odd' else ': they hold odd'}, "
        f'column "body" of table "public.{table}" has NULL instead of them'
        for table, name in UNSUPPORTED.items()
    )


def test_setting_of_the_server_that_cannot_be_printed(headwater: CommandHere, cluster: Cluster, catalog: Path) -> None:
    configuration = own_file(catalog / "postgresql.auto.conf")
    configuration.write_text(configuration.read_text() + "DateStyle = 'Julian, DMY'\n")
    window = ["--wal", cluster.wal, "--catalog", catalog, "--database", "postgres"]
    headwater(*window).check_failed('"DateStyle"', "Julian", f"in {configuration}", "--set datestyle=")
    headwater(*window, "--set", "DateStyle=ISO").check_passed()


def _names(catalog: Path) -> dict[str, int]:
    """Return the file numbers of database ``postgres`` and of catalogs in it."""
    store = open_catalog(catalog, "postgres")
    view = store.view(store.start_lsn + 1)
    numbers: dict[str, int] = {"database": store.database_oid}
    for name, oid in (("pg_class", 1259), ("pg_attribute", 1249), ("pg_database", 1262)):
        numbers[name] = view.class_rows(oid)[0].filenode or oid
    return numbers
