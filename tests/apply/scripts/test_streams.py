"""Large transactions with subtransactions and DDL, and messages: scripts 015 to 020."""

from __future__ import annotations

import pytest

from apply.scripts.script_runner import Script
from serving.service import wait_until

STREAMING = ("on", "parallel")
COUNTS = "SELECT count(*), count(c), count(d = 999) FROM t"
MORE = "c timestamptz DEFAULT now(), d bigint DEFAULT 999"
CHANGES = "UPDATE t SET b = sha256(b) WHERE mod(a, 2) = 0; DELETE FROM t WHERE mod(a, 3) = 0"


def rows_between(first: int, last: int, more: str = "") -> str:
    """Return an insert of rows."""
    return f"INSERT INTO t SELECT i, sha256(i::text::bytea){more} FROM generate_series({first}, {last}) i"


def begin(script: Script, streaming: str, target: str = f"a int PRIMARY KEY, b bytea, {MORE}") -> None:
    """Make a table with two rows, and apply it."""
    if streaming == "parallel" and script.major < 16:
        pytest.skip("servers of 16 stream so that it can be applied at once")
    script.on_source("CREATE TABLE t (a int PRIMARY KEY, b bytea)", "INSERT INTO t VALUES (1, 'foo'), (2, 'bar')")
    script.on_target(f"CREATE TABLE t ({target})")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    script.subscribe("p", flags=["--streaming", streaming])


@pytest.mark.parametrize("streaming", STREAMING)
def test_015_large_transactions_beside_each_other(script: Script, streaming: str) -> None:
    begin(script, streaming)
    with script.servers.publisher.connect(script.database) as session:
        session.execute(f"BEGIN; {rows_between(3, 2000)}; {CHANGES}".encode())
        script.on_source(f"BEGIN; {rows_between(2001, 3999)}; DELETE FROM t WHERE a > 2000; COMMIT")
        session.execute("COMMIT")
    script.catch_up()
    assert script.rows(COUNTS) == ["1334|1334|1334"]
    script.alter("sub", "binary=true")
    script.on_source(f"BEGIN; {rows_between(2001, 4000)}; {CHANGES}; COMMIT")
    script.catch_up()
    assert script.rows(COUNTS) == ["2667|2667|2667"]
    script.on_target("UPDATE t SET c = 'epoch'::timestamptz + 987654321 * interval '1s'")
    script.on_source("UPDATE t SET b = sha256(a::text::bytea)")
    script.catch_up()
    assert script.rows("SELECT DISTINCT extract(epoch FROM c)::int, d FROM t") == ["987654321|999"]
    everything = "SELECT a, b FROM t ORDER BY a"
    assert script.rows(everything) == script.source_rows(everything)


def test_015_transactions_that_are_in_each_others_way_here_alone(script: Script) -> None:
    """The stock worker ends in a deadlock until the index is dropped; here what is ahead makes way."""
    if script.major < 16:
        pytest.skip("servers of 16 stream so that it can be applied at once")
    script.everywhere("CREATE TABLE t (a int)")
    script.on_target("CREATE UNIQUE INDEX only_here ON t (a)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    applied = script.subscribe("p", flags=["--streaming", "parallel"])
    with script.servers.publisher.connect(script.database) as session:
        session.execute("BEGIN; INSERT INTO t SELECT generate_series(1, 5000)")
        script.on_source("INSERT INTO t VALUES (1)")
        wait_until(lambda: script.rows("SELECT count(*) FROM t") == ["1"])
        session.execute("COMMIT")
    wait_until(lambda: applied.has_met('"only_here"'))
    script.on_target("DROP INDEX only_here")
    script.catch_up()
    assert script.rows("SELECT count(*) FROM t") == ["5001"]


@pytest.mark.parametrize("streaming", STREAMING)
def test_016_savepoints(script: Script, streaming: str) -> None:
    begin(script, streaming)
    parts = [f"{rows_between(first, first + 299)}; {CHANGES}" for first in (3, 303, 603, 903, 1203)]
    script.on_source(f"BEGIN; {'; SAVEPOINT s; '.join(parts)}; COMMIT")
    script.catch_up()
    everything = "SELECT a, b FROM t ORDER BY a"
    assert script.rows(everything) == script.source_rows(everything)
    assert script.rows(COUNTS) == ["1002|1002|1002"]


def test_017_ddl_amid_large_transactions(script: Script) -> None:
    begin(script, "on", "a int PRIMARY KEY, b bytea, c int, d int, e int, f int")
    script.on_source(
        f"BEGIN; {rows_between(3, 3)}; ALTER TABLE t ADD c int; SAVEPOINT s; {rows_between(4, 4, ', -i')}; COMMIT",
        f"BEGIN; {rows_between(5, 1000, ', -i')}; ALTER TABLE t ADD d int; SAVEPOINT s; "
        f"{rows_between(1001, 2000, ', -i, 2*i')}; COMMIT",
        f"BEGIN; {rows_between(2001, 2001, ', -i, 2*i')}; ALTER TABLE t ADD e int; SAVEPOINT s; "
        f"{rows_between(2002, 2002, ', -i, 2*i, -3*i')}; COMMIT",
    )
    script.catch_up()
    counts = "SELECT count(*), count(c), count(d), count(e), count(f) FROM t"
    assert script.rows(counts) == ["2002|1999|1002|1|0"]
    script.on_source(f"BEGIN; {rows_between(2003, 3000, ', -i, 2*i, -3*i')}; ALTER TABLE t ADD f int; COMMIT")
    script.on_source(rows_between(3001, 3005, ", -i, 2*i, -3*i, 4*i"))
    script.catch_up()
    assert script.rows(counts) == ["3005|3002|2005|1004|5"]


@pytest.mark.parametrize("streaming", STREAMING)
def test_018_savepoints_that_are_rolled_back(script: Script, streaming: str) -> None:
    begin(script, streaming)
    parts = {number: rows_between(number * 1000, number * 1000 + 499) for number in range(1, 17)}
    script.on_source(
        f"BEGIN; {parts[1]}; SAVEPOINT s1; {parts[2]}; SAVEPOINT s2; {parts[3]}; SAVEPOINT s3; {parts[4]}; "
        f"ROLLBACK TO s2; {parts[5]}; ROLLBACK TO s1; {parts[6]}; SAVEPOINT s4; {parts[7]}; SAVEPOINT s5; "
        f"{parts[8]}; COMMIT"
    )
    script.catch_up()
    assert script.rows("SELECT DISTINCT a / 1000 FROM t ORDER BY 1") == ["0", "1", "6", "7", "8"]
    script.on_source(
        f"BEGIN; {parts[9]}; SAVEPOINT s1; {parts[10]}; SAVEPOINT s2; {parts[11]}; SAVEPOINT s3; {parts[12]}; "
        f"RELEASE s2; {parts[13]}; ROLLBACK TO s1; COMMIT",
        f"BEGIN; {parts[14]}; SAVEPOINT s1; {parts[15]}; SAVEPOINT s2; {parts[16]}; ROLLBACK",
    )
    script.catch_up()
    assert script.rows("SELECT DISTINCT a / 1000 FROM t ORDER BY 1") == ["0", "1", "6", "7", "8", "9"]
    assert script.rows("SELECT count(*) FROM t") == ["2502"]


def test_019_ddl_that_is_rolled_back(script: Script) -> None:
    begin(script, "on", "a int PRIMARY KEY, b bytea, c int, d int, e int")
    script.on_source(
        f"BEGIN; {rows_between(3, 1000)}; ALTER TABLE t ADD c int; SAVEPOINT s1; {rows_between(1001, 2000, ', -i')}; "
        f"ALTER TABLE t ADD d int; SAVEPOINT s2; {rows_between(2001, 3000, ', -i, 2*i')}; ALTER TABLE t ADD e int; "
        f"SAVEPOINT s3; {rows_between(3001, 4000, ', -i, 2*i, -3*i')}; ALTER TABLE t DROP c; ROLLBACK TO s1; "
        f"{rows_between(1001, 1001, ', i')}; COMMIT"
    )
    script.catch_up()
    assert script.rows("SELECT count(*), count(c), max(c), count(d) FROM t") == ["1001|1|1001|0"]


def test_020_messages_are_nothing_to_apply(script: Script) -> None:
    """They are not asked for; rows before, behind and amid them come."""
    script.everywhere("CREATE TABLE t (a int PRIMARY KEY)")
    script.on_source("CREATE PUBLICATION p FOR TABLE t")
    applied = script.subscribe("p")
    script.on_source(
        "SELECT pg_logical_emit_message(true, 'pgoutput', 'with a transaction')",
        "BEGIN; INSERT INTO t VALUES (1); SELECT pg_logical_emit_message(true, 'x', 'amid'); COMMIT",
        "BEGIN; SELECT pg_logical_emit_message(false, 'x', 'without'); INSERT INTO t VALUES (3); ROLLBACK",
        "INSERT INTO t VALUES (2)",
    )
    script.catch_up()
    assert script.rows("SELECT a FROM t ORDER BY 1") == ["1", "2"]
    assert applied.errors == []
