"""The schema ``headwater`` of a target, which several workers need first at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from apply.target_pairs import OURS, pair_of
from headwater.apply.progress.installation import FORM, install
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target
from headwater.errors import TargetError

ROUNDS, WORKERS = 20, 4


def test_several_workers_begin_at_once() -> None:
    with pair_of(16) as pair, ThreadPoolExecutor(WORKERS) as threads:
        for _ in range(ROUNDS):
            pair.run(OURS, "DROP SCHEMA IF EXISTS headwater CASCADE")
            connections = [open_target(pair.place(OURS), "begins")[0] for _ in range(WORKERS)]
            barrier = Barrier(WORKERS)

            def begin(connection: TargetConnection, barrier: Barrier = barrier) -> None:
                with connection:
                    barrier.wait()
                    install(connection)

            list(threads.map(begin, connections))
            assert pair.run(OURS, "SELECT version FROM headwater.form") == [(FORM,)]


def test_a_schema_of_an_older_form_gets_what_it_lacks() -> None:
    """All its tables are published, which refuses updates of tables without an identity."""
    with pair_of(16) as pair:
        connection, _ = open_target(pair.place(OURS), "begins")
        with connection:
            install(connection)
            pair.run(
                OURS,
                "CREATE PUBLICATION everything FOR ALL TABLES",
                "ALTER TABLE headwater.form REPLICA IDENTITY DEFAULT",
                "DROP TABLE headwater.subscription_stats, headwater.conflicts, headwater.subscription_origin CASCADE",
                "DROP TABLE headwater.subscription_parameter, headwater.pending_statement, headwater.subscription_run",
                "TRUNCATE headwater.form",
                "INSERT INTO headwater.form VALUES (1)",
            )
            install(connection)
            install(connection)
        assert pair.run(OURS, "SELECT version FROM headwater.form") == [(FORM,)]
        assert pair.run(OURS, "SELECT subenabled FROM headwater.subscription_run") == []
        assert pair.run(OURS, "SELECT count(*) FROM headwater.subscription_parameter") == [(0,)]
        assert pair.run(OURS, "SELECT count(*) FROM headwater.pending_statement") == [(0,)]
        assert pair.run(OURS, "SELECT count(*) FROM headwater.stat_subscription_stats") == [(0,)]


def test_a_schema_that_came_with_a_dump_is_refused() -> None:
    """Tables of a restored database have other OIDs; those of an upgraded server have not."""
    with pair_of(16) as pair:
        connection, _ = open_target(pair.place(OURS), "begins")
        with connection:
            install(connection)
            table = "SELECT subid, 1, 'public', 't', 'r' FROM headwater.subscription"
            pair.run(
                OURS,
                "INSERT INTO headwater.subscription VALUES (DEFAULT, 'sub', 'slot', '{p}', true, 'd')",
                f"INSERT INTO headwater.subscription_rel {table}",
                "UPDATE headwater.form SET datoid = 1",
            )
            with pytest.raises(TargetError, match="comes from another database"):
                install(connection)
            # Another table may have the number by chance.
            pair.run(OURS, "CREATE TABLE t ()", "UPDATE headwater.subscription_rel SET srrelid = 'pg_class'::regclass")
            with pytest.raises(TargetError, match="comes from another database"):
                install(connection)
            pair.run(OURS, "UPDATE headwater.subscription_rel SET srrelid = 't'::regclass")
            install(connection)
            pair.run(OURS, "UPDATE headwater.subscription_rel SET srrelid = 1")
            install(connection)
            pair.run(OURS, "UPDATE headwater.form SET system_identifier = 1")
            with pytest.raises(TargetError, match="comes from another database"):
                install(connection)
