"""Subscriptions to several targets under one launcher: killed, reloaded, paused, limited, while others go on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apply.launcher_runs import Launching, ids, is_alive, leftovers, place, rows, two_servers
from bad_input.servers import run
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from serving.service import backup_of, wait_until

Pair = tuple[EmbeddedPostgres, EmbeddedPostgres]


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    with two_servers() as pair:
        yield pair


@pytest.fixture
def clean(servers: Pair) -> Pair:
    """Give the servers as they were first: each table of the publisher has one row, targets have none."""
    publisher, other = servers
    for server, database in ((publisher, "x"), (other, "x"), (other, "y")):
        run(server, "DROP SCHEMA IF EXISTS headwater CASCADE", "TRUNCATE a, b, c", database=database)
    wait_until(lambda: not rows(publisher, "postgres", "SELECT FROM pg_replication_slots WHERE active"))
    for server in servers:
        run(server, "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin")
    run(publisher, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    for table in "abc":
        run(publisher, f"DELETE FROM {table} WHERE id <> 1")
    return servers


def three(servers: Pair) -> dict[str, dict[str, Any]]:
    """Return the tables of three subscriptions; two are of one server."""
    publisher, other = servers
    targets = {"a": (publisher, "x"), "b": (other, "x"), "c": (other, "y")}
    return {
        f"s_{name}": {"from": place(publisher), "to": place(*target), "publication": [name]}
        for name, target in targets.items()
    }


def all_ids(servers: Pair) -> list[list[int]]:
    """Return the keys of all rows that the three have."""
    publisher, other = servers
    return [ids(publisher, "x", "a"), ids(other, "x", "b"), ids(other, "y", "c")]


def insert(publisher: EmbeddedPostgres, number: int, tables: str = "abc") -> None:
    """Insert a row into tables of the publisher."""
    run(publisher, *(f"INSERT INTO {table} VALUES ({number}, 'new')" for table in tables))


def pids(launching: Launching) -> dict[str, int]:
    """Return the processes that run."""
    return {name: status["pid"] for name, status in launching.statuses().items() if status["pid"] is not None}


def test_others_go_on(clean: Pair, tmp_path: Path) -> None:
    publisher, other = clean
    with Launching(tmp_path, {"http": "127.0.0.1:0"}, three(clean)) as launching:
        wait_until(lambda: all_ids(clean) == [[1]] * 3)
        first = pids(launching)
        os.kill(first["s_c"], signal.SIGKILL)
        insert(publisher, 2)
        wait_until(lambda: all_ids(clean) == [[1, 2]] * 3)
        assert launching.has_said('subscription "s_c": its process has ended by signal 9; the next one starts in 0.')
        now = pids(launching)
        assert {name: now[name] == pid for name, pid in first.items()} == {"s_a": True, "s_b": True, "s_c": False}

        run(other, "INSERT INTO b VALUES (3, 'in the way')", database="x")
        insert(publisher, 3)
        wait_until(lambda: launching.statuses()["s_b"]["errors"].get("23505", 0) > 1)
        wait_until(lambda: all_ids(clean)[::2] == [[1, 2, 3]] * 2)

        launching.asked("pause", "s_a")
        assert (launching.state("s_a"), not is_alive(first["s_a"])) == ("paused", True)
        insert(publisher, 4)
        wait_until(lambda: all_ids(clean)[2] == [1, 2, 3, 4])
        run(other, "DELETE FROM b WHERE id = 3", database="x")
        wait_until(lambda: all_ids(clean)[1] == [1, 2, 3, 4])
        assert all_ids(clean)[0] == [1, 2, 3]
        launching.asked("resume", "s_a")
        wait_until(lambda: all_ids(clean)[0] == [1, 2, 3, 4])
        check_status(launching)
        running = pids(launching).values()
        assert launching.stop() == 0
        assert not any(map(is_alive, running))


def check_status(launching: Launching) -> None:
    """Check what is said over HTTP, and by the command."""
    wait_until(lambda: launching.statuses()["s_c"].get("transactions", 0) >= 3)
    status = {each["subname"]: each for each in json.loads(launching.http("/status"))["subscriptions"]}
    (worker,) = status["s_b"]["workers"]
    assert (worker["worker_type"], worker["pid"], worker["relid"]) == ("apply", status["s_b"]["pid"], None)
    assert worker["received_lsn"]
    assert worker["last_msg_send_time"] <= worker["last_msg_receipt_time"]
    assert [table["srsubstate"] for table in status["s_b"]["tables"]] == ["r"]
    assert (status["s_c"]["restarts"], status["s_a"]["restarts"], status["s_c"]["changes"]) == (1, 1, 3)
    assert launching.http("/healthz") == "ok\n"
    metrics = launching.http("/metrics")
    for line in (
        'headwater_apply_restarts_total{subscription="s_c"} 1.0',
        'headwater_apply_state{state="running",subscription="s_a"} 1.0',
        'headwater_apply_tables{state="r",subscription="s_b"} 1.0',
        'headwater_apply_errors_total{sqlstate="23505",subscription="s_b"}',
        'headwater_apply_workers{subscription="s_a",type="apply"} 1.0',
        'headwater_apply_durable_lsn{subscription="s_c"}',
    ):
        assert line in metrics
    header, *listed = launching.asked("list").splitlines()
    assert header.split()[:3] == ["subname", "state", "pid"]
    assert [line.split()[:2] for line in listed] == [[name, "running"] for name in ("s_a", "s_b", "s_c")]
    assert "srsubstate" in launching.asked("status", "s_a")


def test_one_alone(clean: Pair, tmp_path: Path) -> None:
    launching = Launching(tmp_path, {}, three(clean))
    launching.start("--subscription", "s_b", "--http", "127.0.0.1:0")
    try:
        wait_until(lambda: all_ids(clean) == [[], [1], []])
        (status,) = json.loads(launching.http("/status"))["subscriptions"]
    finally:
        assert launching.stop() == 0
    assert (status["subname"], status["pid"]) == ("s_b", launching.process.pid)
    lines = launching.asked("list").splitlines()
    assert [line.split()[:2] for line in lines] == [["subname", "state"], ["s_b", "enabled"]]


def test_a_target_that_is_down_and_a_launcher_that_is_killed(clean: Pair, tmp_path: Path) -> None:
    publisher, _ = clean
    subscriptions = three(clean)
    subscriptions["s_c"]["to"] = f"host={tmp_path} dbname=nothing"
    with Launching(tmp_path, {}, subscriptions) as launching:
        wait_until(lambda: all_ids(clean) == [[1], [1], []])
        wait_until(lambda: launching.statuses()["s_c"]["errors"].get("08006", 0) > 1)
        running = pids(launching).values()
        launching.stop(signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, running)))
        insert(publisher, 2)
        launching.start()
        wait_until(lambda: all_ids(clean) == [[1, 2], [1, 2], []])
        before = pids(launching)["s_a"]
        os.kill(before, signal.SIGTERM)
        wait_until(lambda: pids(launching).get("s_a", before) != before)
        second = Launching(tmp_path, {}, subscriptions)
        second.start()
        assert second.process.wait() == 2
        assert second.has_said("another launcher runs there")
        launching.subscriptions["s_c"]["disable-on-error"] = True
        launching.reload()
        wait_until(lambda: launching.state("s_c") == "failed")
        assert launching.has_said("it has failed, and is not tried again until it is resumed")
        launching.subscriptions["s_c"] = three(clean)["s_c"]
        launching.reload()
        wait_until(lambda: all_ids(clean) == [[1, 2]] * 3)


def test_the_file_is_read_anew(clean: Pair, tmp_path: Path) -> None:
    publisher, _ = clean
    subscriptions = three(clean)
    with Launching(tmp_path, {}, {name: subscriptions[name] for name in ("s_a", "s_b")}) as launching:
        wait_until(lambda: all_ids(clean) == [[1], [1], []])
        first = pids(launching)
        launching.subscriptions["s_a"]["publication"] = []
        launching.reload()
        wait_until(lambda: launching.has_said("the publications are missing"))
        assert launching.has_said("no changes were applied")
        launching.subscriptions = {"s_b": {**subscriptions["s_b"], "streaming": "on"}, "s_c": subscriptions["s_c"]}
        launching.reload()
        insert(publisher, 2)
        wait_until(lambda: all_ids(clean)[1:] == [[1, 2], [1, 2]])
        wait_until(lambda: launching.statuses().keys() == {"s_b", "s_c"})
        assert pids(launching)["s_b"] != first["s_b"]
        assert not is_alive(first["s_a"])
        assert launching.has_said('subscription "s_b": it restarts because of a parameter change')
        launching.subscriptions["s_a"] = subscriptions["s_a"]
        launching.reload()
        wait_until(lambda: all_ids(clean) == [[1, 2]] * 3)
        end_at_once(launching)


def end_at_once(launching: Launching) -> None:
    """End it by a second signal, while a process takes no notice of the first one."""
    running = pids(launching)
    os.kill(running["s_c"], signal.SIGSTOP)
    launching.process.send_signal(signal.SIGTERM)
    wait_until(lambda: pids(launching).keys() == {"s_c"})
    assert launching.stop() == 128 + signal.SIGTERM
    wait_until(lambda: not is_alive(running["s_c"]))


def test_what_is_altered_while_it_runs(clean: Pair, tmp_path: Path) -> None:
    publisher, other = clean
    with Launching(tmp_path, {}, {"s_b": three(clean)["s_b"]}) as launching:
        wait_until(lambda: ids(other, "x", "b") == [1])
        launching.asked("set", "s_b", "binary=on", "publication=b", "publication=a")
        wait_until(lambda: launching.has_said("will restart because of a parameter change"))
        insert(publisher, 2)
        wait_until(lambda: (ids(other, "x", "a"), ids(other, "x", "b")) == ([1, 2], [1, 2]))
        launching.asked("disable", "s_b")
        wait_until(lambda: launching.state("s_b") == "disabled")
        assert launching.has_said("will stop because the subscription was disabled")
        insert(publisher, 3)
        refused = launching.ask("refresh", "s_b")
        assert (refused.returncode, "is not allowed for disabled subscriptions" in refused.stderr) == (1, True)
        assert launching.stop() == 0
        assert "disabled" in launching.asked("list")
        launching.start()
        wait_until(lambda: launching.state("s_b") == "disabled")
        assert ids(other, "x", "b") == [1, 2]
        launching.asked("enable", "s_b")
        wait_until(lambda: (ids(other, "x", "a"), ids(other, "x", "b")) == ([1, 2, 3], [1, 2, 3]))
        launching.asked("set", "s_b", "--reset", "publication")
        wait_until(lambda: len(launching.statuses()["s_b"].get("tables", ())) == 1)
        before = pids(launching)
        launching.asked("restart", "s_b")
        wait_until(lambda: pids(launching).keys() == before.keys() and pids(launching) != before)
        assert launching.asked("drop", "s_b") == ""
        assert launching.state("s_b") == "dropped"
        assert leftovers(publisher, other, "x") == []
        again = launching.ask("drop", "s_b")
        assert (again.returncode, 'subscription "s_b" does not exist' in again.stderr) == (1, True)
        assert 'subscription "s_b" does not exist, skipping' in launching.ask("drop", "s_b", "--if-exists").stderr


def test_limits(clean: Pair, tmp_path: Path) -> None:
    """All copies wait for locks, so that as many run as may."""
    publisher, other = clean
    names = [f"t{number}" for number in range(4)]
    tables = [f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in names]
    run(publisher, *tables, *(f"CREATE PUBLICATION p_{name} FOR TABLE {name}" for name in names))
    run(other, *tables, database="x")
    subscriptions = {
        f"s{number}": {
            "from": place(publisher),
            "to": place(other, "x"),
            "publication": [f"p_{name}" for name in names[number * 2 : number * 2 + 2]],
        }
        for number in range(2)
    }
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^(headwater apply|hw_)'"
    copies = "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^hw_' AND wait_event_type = 'Lock'"

    def counted(query: str) -> int:
        return int(rows(other, "x", query)[0][0])

    def holds(expected: int) -> bool:
        return counted(copies) == expected

    for limits, expected in (({"max-connections": 4}, 2), ({"max-connections": 20, "max-sync-workers": 3}, 3)):
        with other.connect("x") as blocking, Launching(tmp_path, limits, subscriptions) as launching:
            blocking.autocommit = False
            blocking.execute(f"LOCK TABLE {', '.join(names)} IN SHARE MODE".encode())
            wait_until(partial(holds, expected))
            assert counted(count) == 2 + expected
            blocking.rollback()
            wait_until(lambda: ready(launching) == 4)
        for name in subscriptions:
            assert launching.ask("drop", name).returncode == 0


def ready(launching: Launching) -> int:
    """Count the tables that are ready."""
    tables = [table for status in launching.statuses().values() for table in status.get("tables", ())]
    return sum(table["srsubstate"] == "r" for table in tables)


def test_wal_itself(clean: Pair, tmp_path: Path) -> None:
    """A subscription with no server as source is paused and dropped as others are."""
    publisher, other = clean
    catalog = backup_of(publisher, tmp_path / "backup")
    slots = tmp_path / "slots"
    table: dict[str, Any] = {"wal": [str(publisher.wal_directory)], "catalog": str(catalog), "database": "postgres"}
    table |= {"slots": str(slots), "to": place(other, "y"), "publication": ["c"], "copy-data": False}
    with Launching(tmp_path, {}, {"w": table}) as launching:
        insert(publisher, 2, "c")
        wait_until(lambda: ids(other, "y", "c") == [2])
        launching.asked("pause", "w")
        insert(publisher, 3, "c")
        refused = launching.ask("disable", "w")
        assert (refused.returncode, 'subscription "w" does not exist' in refused.stderr) == (1, True)
        launching.asked("resume", "w")
        wait_until(lambda: ids(other, "y", "c") == [2, 3])
        dropped = launching.ask("drop", "w")
        assert (dropped.returncode, 'dropped replication slot "w"' in dropped.stderr) == (0, True)
        assert (launching.state("w"), list(slots.glob("w"))) == ("dropped", [])
        assert leftovers(publisher, other, "y") == []
