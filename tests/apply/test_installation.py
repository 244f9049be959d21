"""The schema ``headwater`` of a target, which several workers need first at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from apply.target_pairs import OURS, pair_of
from headwater.apply.progress.installation import FORM, install
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import open_target

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


def test_an_older_form_is_brought_up() -> None:
    """Also where all tables of the target are published, and those without a key cannot be updated."""
    with pair_of(18) as pair:
        for _ in range(2):
            connection, _facts = open_target(pair.place(OURS), "begins")
            with connection:
                install(connection)
            assert pair.run(OURS, "SELECT version FROM headwater.form") == [(FORM,)]
            assert pair.run(OURS, "SELECT count(*) FROM headwater.stat_subscription_stats") == [(0,)]
            pair.run(
                OURS,
                "DROP TABLE headwater.subscription_stats, headwater.conflicts, headwater.subscription_origin CASCADE",
                "TRUNCATE headwater.form",
                "INSERT INTO headwater.form VALUES (1)",
                "DROP PUBLICATION IF EXISTS everything",
                "CREATE PUBLICATION everything FOR ALL TABLES",
            )
