"""Copies that lack files, or parts of them: there is an error that says what is missing, never a table without rows."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from arrow_types import values_of
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.errors import CatalogError, HeadwaterError
from headwater.jobs.engine import Engine
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.parquet_table import read_parquet_table
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from landing.existing_rows import compare, landed, run, selected, server_of
from landing.online_backups import back_up, copy_by_hand

pytestmark = [pytest.mark.server]

SETUP = """
CREATE TABLE near (id int PRIMARY KEY, body text);
ALTER TABLE near ALTER body SET STORAGE EXTERNAL;
INSERT INTO near SELECT i, repeat('n', 20 * i) FROM generate_series(1, 200) i;
CREATE TABLE far (id int PRIMARY KEY) TABLESPACE far;
INSERT INTO far SELECT generate_series(1, 1000);
CREATE TABLE empty (id int PRIMARY KEY);
"""

MEANWHILE = """
CREATE TABLE made AS SELECT generate_series(1, 9) AS id;
VACUUM FULL rewritten;
TRUNCATE emptied;
DROP TABLE gone
"""


@dataclass(frozen=True)
class Cluster:
    """A stopped server's files.

    Attributes:
        copy: a copy; tar: a base backup in tar format.
        wal: the log.
        tablespace: OID of the one that ``far`` lies in.
        files: of tables and of ``near``'s TOAST table, by name.
    """

    copy: Path
    tar: Path
    wal: Path
    tablespace: int
    files: dict[str, str]

    def copied(self, place: Path) -> Path:
        """Copy the files, to be damaged; what lies in the tablespace is not in the copy."""
        return Path(shutil.copytree(self.copy, place, symlinks=True))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("cluster")
    with server_of(16) as server:
        tablespace = server.home.path / "far"
        tablespace.mkdir()
        shutil.chown(tablespace, server.data_directory.owner())
        with server.connect() as connection:
            connection.execute(f"CREATE TABLESPACE far LOCATION '{tablespace}'")
            run(connection, SETUP)
            names = connection.execute(
                "SELECT relname, pg_relation_filepath(oid) FROM pg_class WHERE relname IN ('near', 'far', 'empty') "
                "UNION ALL SELECT 'toast', pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 'near'"
            ).fetchall()
            (oid,) = connection.execute("SELECT oid FROM pg_tablespace WHERE spcname = 'far'").fetchone() or (0,)
        tar = back_up(server, place / "tar", "-F", "tar")
        server.stop()
        copy = server.copy_data_directory(place / "copy")
        yield Cluster(copy, tar, server.wal_directory, oid, dict(names))


def refused(engine: Engine, wal: Path, copy: Path, place: Path) -> HeadwaterError:
    with pytest.raises(CatalogError) as error:
        landed(engine, wal, copy, LandingTarget(place, mode="current"))
    return error.value


def test_a_table_without_its_file(engine: Engine, cluster: Cluster, tmp_path: Path) -> None:
    """An empty file is one; a file that is not there is none, of a table or its TOAST table."""
    whole = LandingTarget(tmp_path / "whole", mode="current")
    assert landed(engine, cluster.wal, cluster.copy, whole).rows == {"public.near": 200, "public.far": 1000}
    assert (whole.place / "public.empty").exists()
    for name, what in (("near", 'table "public.near"'), ("toast", 'the TOAST table of table "public.near"')):
        copy = cluster.copied(tmp_path / name)
        (copy / cluster.files[name]).unlink()
        error = refused(engine, cluster.wal, copy, tmp_path / f"lake of {name}")
        assert error.message.startswith(f"{what} has no file in the copy (no such file)")
        assert error.file == str(copy / cluster.files[name])
        assert error.lsn is not None
        assert error.hint == "the backup is incomplete; take it again"


def test_a_file_that_is_cut_short(engine: Engine, cluster: Cluster, tmp_path: Path) -> None:
    """Inside a page, which no server that stopped leaves."""
    copy = cluster.copied(tmp_path / "copy")
    os.truncate(copy / cluster.files["near"], 9000)
    error = refused(engine, cluster.wal, copy, tmp_path / "lake")
    assert error.message == "file has 9000 bytes, expected a multiple of 8192"
    assert error.file == str(copy / cluster.files["near"])


def test_a_tablespace_that_is_not_there(engine: Engine, cluster: Cluster, tmp_path: Path) -> None:
    copy = cluster.copied(tmp_path / "copy")
    link = copy / "pg_tblspc" / str(cluster.tablespace)
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    error = refused(engine, cluster.wal, copy, tmp_path / "lake")
    assert 'table "public.far" has no file in the copy' in error.message
    assert error.hint == f"make {link} a link to the tablespace's directory in the backup"
    archives = tmp_path / "tar"
    archives.mkdir()
    shutil.copy(cluster.tar / "base.tar", archives)
    error = refused(engine, cluster.wal, archives, tmp_path / "lake of archives")
    assert 'table "public.far" has no file in the copy (no such archive)' in error.message
    assert error.hint == "put the tablespace's archive beside base.tar"


def test_a_hard_link_in_an_archive(engine: Engine, cluster: Cluster, tmp_path: Path) -> None:
    """A hard link, which ``tar`` makes of a file of several names, has no bytes of its own."""
    copy = cluster.copied(tmp_path / "copy")
    other = copy / "also"
    other.hardlink_to(copy / cluster.files["near"])
    with tarfile.open(tmp_path / "base.tar", "w") as tar:
        for path in [other, *sorted(copy.rglob("*"))]:
            tar.add(path, str(path.relative_to(copy)), recursive=False)
    error = refused(engine, cluster.wal, tmp_path / "base.tar", tmp_path / "lake")
    assert f"member {cluster.files['near']} is a hard link to also" in error.message


def test_files_that_were_made_during_a_backup(engine: Engine, tmp_path: Path) -> None:
    """A backup lacks the files of tables that were made or rewritten when it had passed their directory by."""
    keys = {"made": ["id"], "rewritten": ["id"], "emptied": ["id"]}
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE rewritten (id int, v text);\nCREATE TABLE emptied (id int)")
            run(connection, "INSERT INTO rewritten SELECT i, 'v' FROM generate_series(1, 500) i")
            run(connection, "INSERT INTO emptied SELECT generate_series(1, 500);\nCREATE TABLE gone AS SELECT 1 AS id")
        copy = copy_by_hand(server, tmp_path / "copy", MEANWHILE)
        with server.connect() as connection:
            expected = selected(connection, keys)
        server.stop()
        target = LandingTarget(tmp_path / "lake")
        assert landed(engine, server.wal_directory, copy, target).rows == {"public.made": 9, "public.rewritten": 500}
        server.start()
        compare(target, expected, keys, server)


def lock_and_update(server: EmbeddedPostgres, lockers: int) -> None:
    """Lock a row by several sessions, and then update it by one of them: the last of the multixact's members."""
    with ExitStack() as stack, server.connect() as connection:
        locking = [stack.enter_context(server.connect()) for _ in range(lockers)]
        for session in locking:
            run(session, "BEGIN;\nSELECT 1 FROM t FOR KEY SHARE")
        connection.execute("UPDATE t SET n = 1")
        for session in locking:
            session.execute("COMMIT")


def test_a_multixact_with_many_members(engine: Engine, tmp_path: Path) -> None:
    """No file of an older server says where the newest one's members end; one that the files have lost is an error."""
    with server_of(16, max_connections="100") as server:
        with server.connect() as connection:
            run(connection, "CREATE TABLE t (id int PRIMARY KEY, n int);\nINSERT INTO t VALUES (1, 0)")
        lock_and_update(server, 70)
        server.stop()
        copy = server.copy_data_directory(tmp_path / "copy")
        offsets, members = (copy / "pg_multixact" / folder / "0000" for folder in ("offsets", "members"))
        known, next_multi = offsets.read_bytes(), DataDirectory(copy).control.next_multi
        offsets.write_bytes(known[: 4 * next_multi] + bytes(len(known) - 4 * next_multi))
        target = LandingTarget(tmp_path / "lake", mode="current")
        landed(engine, server.wal_directory, copy, target)
        assert read_parquet_table(target.place / "public.t").select(["id", "n"]).to_pylist() == [{"id": 1, "n": 1}]
        for number, (file, data) in enumerate(((members, b""), (offsets, bytes(len(known))), (offsets, b""))):
            file.write_bytes(data)
            with pytest.raises(CatalogError, match=f"multixact {next_multi - 1}") as error:
                landed(engine, server.wal_directory, copy, LandingTarget(tmp_path / f"lake {number}", mode="current"))
            assert "take it again" in (error.value.hint or "")


FROZEN = """
CREATE TABLE t (id int PRIMARY KEY);
INSERT INTO t VALUES (1);
VACUUM FREEZE;
INSERT INTO t VALUES (2);
"""


def test_transactions_that_pg_xact_has_lost(engine: Engine, tmp_path: Path) -> None:
    """Catalogs are frozen, and a table names one: it had committed, and no file says so."""
    with server_of(16) as server:
        with server.connect() as connection:
            run(connection, FROZEN)
        online = copy_by_hand(server, tmp_path / "online", "INSERT INTO t VALUES (3);\nCHECKPOINT")
        with server.connect() as connection:
            run(connection, "CHECKPOINT;\nSELECT pg_log_standby_snapshot()")
        server.stop()
        stopped = server.copy_data_directory(tmp_path / "stopped")
        for copy in (online, stopped):
            whole = LandingTarget(tmp_path / f"whole {copy.name}", mode="current")
            landed(engine, server.wal_directory, copy, whole)
            assert sorted(values_of(read_parquet_table(whole.place / "public.t")["id"])) == [1, 2, 3]
            file = copy / "pg_xact" / "0000"
            for damage in ("empty", "missing"):
                file.write_bytes(b"") if damage == "empty" else file.unlink()
                error = refused(engine, server.wal_directory, copy, tmp_path / f"lake {copy.name} {damage}")
                assert "pg_xact does not have the status of transaction" in error.message
