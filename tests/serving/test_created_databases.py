"""Databases that are created after the backup: they are served, as far as the WAL has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import now, run, small_server
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.slots.kept_state import lsn_of_name
from serving.service import Serving, backup_of, make_slot_by_client, recvlogical

pytestmark = pytest.mark.server

MIB = 1 << 20
STRATEGIES = ("wal_log", "file_copy")


def connected(serving: Serving, database: str) -> psycopg.Connection[object]:
    return psycopg.connect(host="127.0.0.1", port=serving.port, user="postgres", dbname=database, autocommit=True)


def copied(serving: Serving, database: str) -> bytes:
    """Return what COPY gives of the table that the template had."""
    with (
        connected(serving, database) as connection,
        connection.cursor().copy("COPY public.t (id, name, z) TO STDOUT") as rows,
    ):
        return b"".join(bytes(piece) for piece in rows)


def columns(serving: Serving, database: str) -> list[object]:
    """Return what the catalogs say of that table's columns."""
    query = "SELECT attname FROM pg_attribute WHERE attrelid = 'public.t'::regclass AND attnum > 0 ORDER BY attnum"
    with connected(serving, database) as connection:
        return connection.execute(query).fetchall()


def check_streams(server: EmbeddedPostgres, serving: Serving, database: str, directory: Path) -> None:
    """Check that a slot that is made now says what the server's says."""
    environments = (server.client_environment(), serving.environment())
    for environment in environments:
        make_slot_by_client(environment, 16, f"s_{database}", "test_decoding", "-d", database)
    run(server, "INSERT INTO u SELECT i, 'n' FROM generate_series(1, 50) i", database=database)
    run(server, "ALTER TABLE t ADD z int", "INSERT INTO t VALUES (7, 'z', 1)", database=database)
    end, texts = now(server), []
    for number, environment in enumerate(environments):
        file = directory / f"{database}-{number}"
        flags = ("--slot", f"s_{database}", "--start", "--endpos", end, "-f", str(file), "-o", "skip-empty-xacts=1")
        streamed = recvlogical(environment, 16, *flags, database=database)
        assert streamed.returncode == 0, streamed.stderr
        texts.append(file.read_text())
    assert texts[0] == texts[1]
    assert "n[text]:'n'" in texts[0]


def test_both_strategies(tmp_path: Path) -> None:
    with small_server(16) as server:
        run(server, "CREATE DATABASE model")
        run(server, "CREATE TABLE t (id int PRIMARY KEY, name text)", database="model")
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            run(server, "INSERT INTO t VALUES (1, 'template')", database="model")
            for strategy in STRATEGIES:
                run(server, f"CREATE DATABASE {strategy} TEMPLATE model STRATEGY {strategy}")
                run(server, "CREATE TABLE u (id int PRIMARY KEY, n text)", database=strategy)
                check_streams(server, serving, strategy, tmp_path)
                assert copied(serving, strategy).splitlines() == [b"1\ttemplate\t\\N", b"7\tz\t1"]
                assert columns(serving, strategy) == [("id",), ("name",), ("z",)]
            with pytest.raises(psycopg.OperationalError, match='database "none" does not exist'):
                connected(serving, "none")
            run(server, "ALTER DATABASE model RENAME TO renamed")
            with pytest.raises(psycopg.OperationalError, match='It is served as "model"'):
                connected(serving, "renamed")
            assert serving.stop() == 0
            serving.start()
            for strategy in STRATEGIES:
                with connected(serving, strategy) as connection:
                    rows = connection.execute("SELECT count(*) FROM pg_replication_slots").fetchall()
                    assert rows == [(2,)]
            assert serving.log.read_text().count("was created after the backup") == 2
            run(server, "CREATE DATABASE later", "SELECT pg_switch_wal()")
            with pytest.raises(psycopg.OperationalError, match='database "none" does not exist'):
                connected(serving, "none")
            assert serving.stop() == 0
        wal = wal_without_the_beginning(server, tmp_path)
        with Serving(wal, catalog, tmp_path / "slots") as serving:
            with pytest.raises(psycopg.OperationalError, match="Give --catalog a backup that was taken later"):
                connected(serving, "later")
            assert serving.stop() == 0


def test_chosen_databases(tmp_path: Path) -> None:
    """To clients there are no others, also of those that are created later."""
    with small_server(16) as server:
        run(server, "CREATE DATABASE shop", "CREATE DATABASE other")
        catalog = backup_of(server, tmp_path / "base")
        flags = "--database", "shop", "--database", "later"
        with Serving(server.wal_directory, catalog, tmp_path / "slots", *flags) as serving:
            run(server, "CREATE DATABASE later", "CREATE DATABASE beside", "SELECT pg_switch_wal()")
            for name in ("shop", "later"):
                with connected(serving, name) as connection:
                    assert connection.execute("SELECT current_database()").fetchall() == [(name,)]
            for name in ("other", "postgres", "beside"):
                with pytest.raises(psycopg.OperationalError, match=f'database "{name}" does not exist'):
                    connected(serving, name)
            assert serving.stop() == 0
        with pytest.raises(AssertionError, match="the backup has no database none that accepts connections"):
            Serving(server.wal_directory, catalog, tmp_path / "others", "--database", "none").start()


def wal_without_the_beginning(server: EmbeddedPostgres, directory: Path) -> Path:
    """Copy the WAL from where the service stands on, without what created the last database."""
    (*_, newest) = sorted((directory / "slots" / ".shelf").glob("1-*/*/*.state"), key=lambda path: path.name)
    first = (lsn_of_name(newest.name) or 0) // MIB
    now(server)  # A segment that has nothing in it is not there.
    (directory / "wal").mkdir()
    for path in server.wal_directory.glob("0*"):
        if int(path.name[16:], 16) >= first:
            shutil.copy(path, directory / "wal")
    return directory / "wal"
