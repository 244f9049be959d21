"""Conflicts, two servers that write the same table, and what waits for a lock: scripts 030, 035 and 038."""

from __future__ import annotations

import pytest

from apply.scripts.script_runner import Script, place
from serving.service import wait_until

TABLE = "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE, c int UNIQUE)"


def reversed_flags(script: Script) -> list[str]:
    """Return the places of a subscription from the target to the publisher."""
    target, publisher = script.servers.target, script.servers.publisher
    return ["--from", place(target, script.database), "--to", place(publisher, script.database)]


def test_030_two_servers_do_not_send_back_what_they_get(script: Script) -> None:
    script.everywhere('CREATE TABLE "tab\'le" (a int PRIMARY KEY)', 'CREATE PUBLICATION p FOR TABLE "tab\'le"')
    script.subscribe("p", flags=["--origin", "none"])
    back = script.subscribe(
        "p", name="back", flags=[*reversed_flags(script), "--origin", "none", "--no-copy-data"], waits=False
    )
    wait_until(lambda: back.tables() != set() and back.is_at(0))
    script.on_source('INSERT INTO "tab\'le" VALUES (11)')
    script.on_target('INSERT INTO "tab\'le" VALUES (21)')
    keys = 'SELECT a FROM "tab\'le" ORDER BY 1'
    wait_until(lambda: script.rows(keys) == script.source_rows(keys) == ["11", "21"])
    script.on_source('DELETE FROM "tab\'le"')
    wait_until(lambda: script.rows(keys) == script.source_rows(keys) == [])
    assert script.applied["sub"].errors == back.errors == []


def test_030_rows_of_another_origin(script: Script) -> None:
    """What comes from the first server is not sent on, and a change of it by another source is told of."""
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    applied = script.subscribe("p", flags=["--origin", "none"])
    script.on_target("INSERT INTO t VALUES (32)")
    script.on_source("INSERT INTO t VALUES (31)")
    script.catch_up()
    script.on_source(
        "BEGIN; SET LOCAL session_replication_role = replica; INSERT INTO t VALUES (32); DELETE FROM t; COMMIT"
    )
    wait_until(lambda: applied.has_met("duplicate key") or applied.has_met("conflict detected"))
    script.on_target("DELETE FROM t WHERE a = 32")
    script.catch_up()
    script.on_target("INSERT INTO t VALUES (40), (41)")
    script.on_source("ALTER TABLE t REPLICA IDENTITY FULL")
    for statement in ("INSERT INTO t VALUES (40)", "INSERT INTO t VALUES (41)"):
        applied.stop()
        script.on_source(statement)
        lsn = script.source_rows("SELECT pg_current_wal_lsn()")[0]
        script.on_source(
            f"SELECT pg_replication_slot_advance('{script.name('sub')}', '{lsn}')"
        ) if script.serving is None else None
        if script.serving is not None:
            script.on_target(f"DELETE FROM t WHERE a = {statement.split('(')[1][:2]}")
        applied.start()
        script.catch_up()
    script.on_source("UPDATE t SET a = 42 WHERE a = 40", "DELETE FROM t WHERE a = 41")
    script.catch_up()
    assert script.rows("SELECT a FROM t ORDER BY 1") == ["42"]
    if script.major >= 18 and script.serving is None:
        assert applied.has_said('relation "public.t": conflict=update_origin_differs')
        assert applied.has_said('relation "public.t": conflict=delete_origin_differs')
        assert applied.has_said("that was modified locally in transaction")


def test_035_several_unique_indexes(script: Script) -> None:
    if script.major < 18:
        pytest.skip("servers of 18 tell of conflicts")
    script.everywhere(TABLE)
    script.on_source("CREATE TABLE parts (a int PRIMARY KEY, b int UNIQUE, c int UNIQUE)")
    script.on_target(
        "CREATE TABLE parts (a int PRIMARY KEY, b int, c int, UNIQUE (a, b)) PARTITION BY RANGE (a)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (100)",
    )
    script.on_source("CREATE PUBLICATION p FOR TABLE t, parts")
    applied = script.subscribe("p")
    script.on_target("INSERT INTO t VALUES (2, 2, 2), (3, 3, 3), (4, 4, 4)")
    script.on_source("INSERT INTO t VALUES (2, 3, 4)")
    wait_until(lambda: applied.has_met('relation "public.t": conflict=multiple_unique_conflicts'))
    for index, key in (("t_pkey", "(a)=(2)"), ("t_b_key", "(b)=(3)"), ("t_c_key", "(c)=(4)")):
        assert applied.has_met(f'Key already exists in unique index "{index}", modified')
        assert applied.has_met(key)
    script.on_target("TRUNCATE t")
    script.on_source("TRUNCATE t", "INSERT INTO t VALUES (5, 5, 5)")
    script.catch_up()
    applied.errors.clear()
    script.on_target("INSERT INTO t VALUES (6, 6, 6), (7, 7, 7), (8, 8, 8)")
    script.on_source("UPDATE t SET a = 6, b = 7, c = 8 WHERE a = 5")
    wait_until(lambda: applied.has_met('relation "public.t": conflict=multiple_unique_conflicts'))
    assert applied.has_met("replica identity (a)=(5)")
    script.on_target("DELETE FROM t WHERE a > 5", "INSERT INTO parts VALUES (55, 2, 3)")
    script.on_source("INSERT INTO parts VALUES (55, 2, 3)")
    wait_until(lambda: applied.has_met('relation "public.parts_1": conflict=multiple_unique_conflicts'))
    assert applied.has_met('"parts_1_a_b_key"')
    script.on_target("TRUNCATE parts")
    script.catch_up()
    assert script.rows("SELECT * FROM parts") == ["55|2|3"]


def test_038_a_publisher_that_ends_while_a_lock_is_waited_for(script: Script) -> None:
    """It ends once its walsender is gone: the worker here notices, and goes on when the publisher is back."""
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    applied = script.subscribe("p")
    with script.servers.target.connect(script.database) as session:
        session.execute("BEGIN; INSERT INTO t VALUES (0)")
        script.on_source("INSERT INTO t VALUES (0)", "INSERT INTO t SELECT generate_series(1, 2000)")
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        wait_until(lambda: script.rows(waiting) == ["1"])
        script.end_source(crashes=True)
        session.execute("ROLLBACK")
    script.start_source()
    script.catch_up()
    assert script.rows("SELECT count(*) FROM t") == ["2001"]
    assert all("t_pkey" not in error.message for error in applied.errors)
