"""The clusters whose files the tests damage: each runs once, stops, and leaves copies.

The main one is of PostgreSQL 16 with 1 MB segments. Its life: a base backup while stopped, a workload, a copy of
``pg_wal`` while it runs, a clean stop, a crash, a time with ``wal_level = replica``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs

MAJOR, OTHER_MAJOR = 16, 15
SEGMENT = 1 << 20
UNSUPPORTED = {"plain": "odd", "list": "odd[]", "pair": "pair_type"}
"""Tables, and the type of the column ``body`` of each."""
ODD_TYPE = (
    "CREATE TYPE odd",
    "CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'gtsvectorout'",
    "CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = text)",
    "CREATE TYPE pair_type AS (a int, b odd)",
)
"""A type that is printed by a function that has no kernel here."""


@dataclass(frozen=True)
class Cluster:
    """The files that are left of the main cluster; every path is a directory.

    Attributes:
        backup: base backup from before the workload.
        wal: ``pg_wal`` of the cleanly stopped server, which begins before the backup.
        after: data directory at that moment.
        live: ``pg_wal`` copied file by file while the server wrote to it.
        crashed: ``pg_wal`` after a crash that followed.
        lowered: ``pg_wal`` after a restart with wal_level = replica and some work.
        replica: data directory taken under wal_level = replica.
    """

    backup: Path
    wal: Path
    after: Path
    live: Path
    crashed: Path
    lowered: Path
    replica: Path


def make_cluster(directory: Path) -> Cluster:
    """Run the main cluster; copies go to `directory`."""
    cluster = Cluster(*(directory / name for name in Cluster.__dataclass_fields__))
    with EmbeddedPostgres(find_programs(MAJOR), wal_segment_megabytes=1, autovacuum=False) as server:
        _make_types_database(server)
        server.stop()
        server.copy_data_directory(cluster.backup)
        server.start()
        _use_types(server)
        _work(server, lambda: _copy_running(server, cluster.live))
        server.stop()
        server.copy_data_directory(cluster.after)
        cluster.wal.symlink_to(cluster.after / "pg_wal")
        server.start()
        _insert(server, 100_000, 3000)
        server.crash()
        shutil.copytree(server.wal_directory, cluster.crashed)
        with (server.data_directory / "postgresql.conf").open("a") as configuration:
            configuration.write("wal_level = replica\n")
        server.start()
        _insert(server, 200_000, 300)
        server.stop()
        shutil.copytree(server.wal_directory, cluster.lowered)
        server.copy_data_directory(cluster.replica)
    return cluster


def make_other_cluster(directory: Path, major: int) -> Path:
    """Make a cluster that has nothing to do with the main one; return its data directory.

    It has checksums: one without would be a copy of what the main one was made as (:mod:`copied_clusters`).
    """
    programs = find_programs(major)
    with EmbeddedPostgres(programs, wal_segment_megabytes=1, autovacuum=False, data_checksums=True) as server:
        _make_types_database(server)
        _work(server, lambda: None)
        server.stop()
        return server.copy_data_directory(directory / f"other-{major}")


def linked_copy(source: Path, target: Path) -> Path:
    """Copy a directory by hard links, for variants that replace some files: see :func:`own_file`."""
    shutil.copytree(source.resolve(), target, symlinks=True, copy_function=os.link)
    return target


def own_file(path: Path) -> Path:
    """Make a linked file a file of its own, so that it can be written to."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    return path


def _make_types_database(server: EmbeddedPostgres) -> None:
    with server.connect() as connection:
        connection.execute("CREATE DATABASE types")


def _use_types(server: EmbeddedPostgres) -> None:
    """Create tables of types that have no text form yet, each in a publication of its own."""
    with server.connect("types") as connection:
        for statement in ODD_TYPE:
            connection.execute(statement)
        for table, type_name in UNSUPPORTED.items():
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, body {type_name})")
            connection.execute(f"CREATE PUBLICATION pub_{table} FOR TABLE {table}")
        connection.execute("INSERT INTO plain VALUES (1, 'a fat cat')")
        connection.execute("INSERT INTO list VALUES (1, '{a,NULL}')")
        connection.execute("INSERT INTO pair VALUES (1, ROW(1, 'x'))")


def _work(server: EmbeddedPostgres, in_the_middle: Callable[[], object]) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE item (id int PRIMARY KEY, body text)")
        connection.execute("CREATE PUBLICATION pub_all FOR ALL TABLES")
    for batch in range(10):
        _insert(server, batch * 1000, 1000)
        if batch == 7:
            in_the_middle()
    with server.connect() as connection:
        connection.execute("UPDATE item SET body = body || 'x' WHERE id % 50 = 0")
        connection.execute("DELETE FROM item WHERE id % 77 = 0")


def _insert(server: EmbeddedPostgres, first: int, count: int) -> None:
    with server.connect() as connection:
        connection.execute(
            f"INSERT INTO item SELECT g, repeat(md5(g::text), 8) FROM generate_series({first}, {first + count - 1}) g"
        )


def _copy_running(server: EmbeddedPostgres, target: Path) -> None:
    """Copy ``pg_wal`` while transactions commit, as ``cp`` would."""
    with server.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO item VALUES (-1, 'open at the copy')")
        shutil.copytree(server.wal_directory, target)
        connection.execute("COMMIT")
