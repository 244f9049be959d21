"""SQL that makes a server write records of every resource manager and every shape."""

from __future__ import annotations

import subprocess
from typing import Any

import psycopg

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from packaged_servers import client_of

TABLES = """
create table item (id int primary key, name text, body text, place point, spans int4range, words tsvector, n int);
alter table item alter body set storage external;
create index on item using hash (name);
create index on item using gin (words);
create index on item using gist (place);
create index on item using spgist (spans);
create index on item using brin (n);
create sequence counter;
create unlogged table scratch (a int);
"""

ROWS = """
insert into item select i, 'name ' || i, case when i % 50 = 0 then repeat(i::text, 3000) end, point(i, -i),
  int4range(i, i + 5), to_tsvector('simple', 'w' || i % 17 || ' v' || i), i from generate_series(1, 1500) i
"""


def run_workload(server: EmbeddedPostgres) -> tuple[int, int]:
    """Run everything; LSNs before and after."""
    with server.connect() as connection:
        start = position(connection)
        pgbench(server, "-q", "-i", "-s", "1")
        for statement in filter(str.strip, TABLES.split(";")):
            connection.execute(statement)
        connection.execute(ROWS)
        pgbench(server, "-n", "-c", "3", "-t", "150")
        _changes(connection)
        _transactions(connection)
        _images(connection)
        _control(connection)
        _rarities(server, connection)
        connection.execute("select pg_switch_wal()")
        connection.execute("insert into item (id) values (-1)")
        return start, position(connection)


def _rarities(server: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    """Make records that a server writes now and then: lockers together, pages that go, tablespaces, snapshots."""
    connection.execute("begin; savepoint a; insert into item (id) values (40000)")
    connection.execute("select * from item where id = 11 for share")
    with server.connect() as other:
        other.execute("select * from item where id = 11 for share")
        other.execute("select pg_log_standby_snapshot()" if other.info.server_version >= 160000 else "checkpoint")
    connection.execute("commit")
    connection.execute("create table ids (id int primary key); insert into ids select generate_series(1, 20000)")
    connection.execute("delete from ids where id > 100")
    for _ in range(3):
        connection.execute("vacuum (freeze, index_cleanup on) ids")
        connection.execute("insert into ids values ((select max(id) from ids) + 1)")
    connection.execute("insert into ids select generate_series(30000, 60000)")
    connection.execute("create table pair (a int); truncate pair, ids restart identity cascade")
    connection.execute("select brin_desummarize_range('item_n_idx', 0), brin_summarize_new_values('item_n_idx')")
    connection.execute("set allow_in_place_tablespaces = on")
    connection.execute("create tablespace near location ''")
    connection.execute("create table there tablespace near as select 1 a")
    connection.execute("drop table there")
    connection.execute("drop tablespace near")
    connection.execute("update item set n = n + 1, words = to_tsvector('simple', 'all ' || id)")
    connection.execute("delete from item where id % 2 = 0")
    connection.execute("vacuum (freeze) item")


def position(connection: psycopg.Connection[Any]) -> int:
    """Return the server's WAL position, everything before it flushed."""
    connection.execute("select pg_switch_wal()")
    row = connection.execute("select pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def pgbench(server: EmbeddedPostgres, *arguments: str) -> None:
    """Run the one pgbench that there always is."""
    command = [str(client_of("pgbench", 16)), *arguments]
    subprocess.run(command, env=server.client_environment(), check=True, capture_output=True)


def _changes(connection: psycopg.Connection[Any]) -> None:
    connection.execute("update item set n = n + 1 where id % 3 = 0")
    connection.execute("update item set body = repeat('z', 20000) where id % 100 = 0")
    connection.execute("delete from item where id % 7 = 0")
    connection.execute("insert into item (id) values (1) on conflict (id) do update set name = 'again'")
    connection.execute("select nextval('counter') from generate_series(1, 100)")
    connection.execute("vacuum (freeze) item")
    connection.execute("reindex table item")
    connection.execute("vacuum full pg_class")
    connection.execute("create table doomed as select generate_series(1, 2000) a")
    connection.execute("truncate doomed")
    connection.execute("drop table doomed")
    connection.execute("create type mood as enum ('sad', 'ok')")
    connection.execute("alter type mood add value 'happy'")
    connection.execute("create database template_copy")
    by_copying = " strategy file_copy" if connection.info.server_version >= 150000 else ""
    connection.execute(f"create database file_copy{by_copying}")
    connection.execute("drop database file_copy")


def _transactions(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
        for number in range(80):
            with connection.transaction():
                connection.execute("insert into item (id) values (%s)", (10_000 + number,))
    connection.execute("begin; insert into item (id) values (20000); savepoint a; create table gone (a int); rollback")
    connection.execute("begin; insert into item (id) values (20001); prepare transaction 'it''s'")
    connection.execute("commit prepared 'it''s'")
    connection.execute("begin; create table prepared (a int); prepare transaction 'p2'")
    connection.execute("rollback prepared 'p2'")
    connection.execute("select pg_replication_origin_create('elsewhere')")
    connection.execute("select pg_replication_origin_session_setup('elsewhere')")
    connection.execute(
        "begin; select pg_replication_origin_xact_setup('0/ABCD', '2024-05-06 07:08:09+00');"
        "insert into item (id) values (30000); commit"
    )
    connection.execute("select pg_replication_origin_session_reset()")
    connection.execute("select pg_replication_origin_advance('elsewhere', '0/FFFF')")
    connection.execute("select pg_replication_origin_drop('elsewhere')")
    connection.execute(
        "begin; select * from item where id < 20 for key share; savepoint b; update item set n = 0; commit"
    )


def _images(connection: psycopg.Connection[Any]) -> None:
    """Make full page images by every compression that the server has."""
    for method in ("off", "pglz", "lz4", "zstd"):
        try:
            connection.execute(f"set wal_compression = {method}")
        except psycopg.errors.InvalidParameterValue:
            continue
        connection.execute("checkpoint")
        connection.execute("update item set n = n + 1")
        connection.execute("update pgbench_accounts set abalance = 1 where aid % 500 = 0")
    connection.execute("reset wal_compression")


def _control(connection: psycopg.Connection[Any]) -> None:
    connection.execute("select pg_create_restore_point('here')")
    connection.execute("select pg_log_standby_snapshot()" if connection.info.server_version >= 160000 else "checkpoint")
    connection.execute("select pg_logical_emit_message(false, 'small', 'text')")
    connection.execute("select pg_logical_emit_message(true, 'big', repeat('y', 2500000))")
    connection.execute(
        "select pg_logical_emit_message(false, 'pages', repeat('x', 8128 - i)) from generate_series(0, 90) i"
    )
