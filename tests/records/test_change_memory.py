"""The memory of changes: the index's sums against a server's counts for a slot (pg_stat_replication_slots)."""

from __future__ import annotations

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.reorder.commits.transactions import committed_transactions
from headwater.rmgr.index.wal_index import Request, build_index
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory
from packaged_servers import programs_of
from records.conftest import FEW_OR_ALL
from server_versions import version_of

pytestmark = pytest.mark.server

WRITES = (
    "insert into t select i, repeat('x', i % 90) from generate_series(1, 400) i",
    "update t set b = b || 'y' where a % 3 = 0",
    "delete from t where a % 5 = 0",
    "insert into full_identity select i, null from generate_series(1, 90) i",
    "update full_identity set b = 'wide' where a % 2 = 0; delete from full_identity where a % 3 = 0",
    "insert into t values (1, 'never'), (5, 'again') on conflict (a) do nothing",
    "begin; insert into t values (1001); savepoint s; insert into t values (1002); rollback to s; commit",
    "begin; insert into t values (2001); rollback",
    "insert into no_identity values (1), (2); delete from no_identity",
)

CONFIRMED = 24 + 24 + 4 + 6
"""The server lets go of a speculative insert once it is confirmed, before it counts: ``(5, 'again')``. That is, beside
the change itself."""


@pytest.mark.parametrize("major", FEW_OR_ALL)
def test_rows_weigh_what_the_server_counts(major: int) -> None:
    with EmbeddedPostgres(programs_of(major), wal_segment_megabytes=1) as server:
        with server.connect() as connection:
            connection.execute("create table t (a int primary key, b text)")
            connection.execute(
                "create table full_identity (a int, b text); alter table full_identity replica identity full"
            )
            connection.execute("create table no_identity (a int); create publication p for table t, full_identity")
            [(start,)] = connection.execute(
                "select lsn from pg_create_logical_replication_slot('s', 'pgoutput')"
            ).fetchall()
            [(database,)] = connection.execute(
                "select oid::int from pg_database where datname = current_database()"
            ).fetchall()
            version = version_of(connection)
            for statement in WRITES:
                connection.execute(statement)
            with connection.cursor() as cursor, cursor.copy("copy t from stdin") as copy:
                copy.write(b"".join(b"%d\tcopied\n" % i for i in range(3000, 3500)))
            options = "'proto_version', '1', 'publication_names', 'p'"
            connection.execute(f"select pg_logical_slot_get_binary_changes('s', null, null, {options})")
            # In 14 a process of its own collects the figures; connections without another setting see them later.
            figures = "select total_txns, total_bytes from pg_stat_replication_slots"
            while (counted := connection.execute(figures).fetchone()) == (0, 0):
                connection.execute("select pg_sleep(0.01)")
        server.stop()
        frames = read_frames(WalDirectory.scan(server.wal_directory), int(Lsn.parse(start)))
    end = int(frames.end_lsns[-1])
    rows = build_index(
        frames, int(frames.lsns[0]), end, Request((database,), (), major, change_size=version.change_size)
    ).rows
    txns = committed_transactions(rows)
    txn = txns.txn_of(rows.changes.xid)
    weight = int(rows.changes.memory[txn >= 0].sum()) - CONFIRMED - version.change_size
    assert counted == (len(set(txn[txn >= 0].tolist())), weight)
