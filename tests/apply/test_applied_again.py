"""Transactions that are applied again, with checks or without a refused row: the source is asked for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.target import connection
from headwater.apply.worker import ApplyWorker
from headwater.errors import TargetError

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE s.t (id int PRIMARY KEY, v text)",
    "CREATE TABLE s.parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE s.low PARTITION OF s.parts FOR VALUES FROM (0) TO (1000)",
    "CREATE TABLE s.high (v text, id int NOT NULL)",
    "ALTER TABLE s.parts ATTACH PARTITION s.high FOR VALUES FROM (1000) TO (2000)",
)
CHECKS = tuple(f"ALTER TABLE s.{table} ADD CHECK (v <> 'bad')" for table in ("t", "parts"))
RULES = ConflictRules.parse(["insert_exists=keep_local", "update_missing=apply_remote"])
LETTERS = "SELECT kind, new_tuple ->> 'id', place FROM headwater.dead_letters WHERE subname = '{}' ORDER BY id"
MANY = 6000


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Run a server."""
    with pair_of(18, logical_decoding_work_mem="64kB", max_prepared_transactions="5") as started:
        yield started


@pytest.fixture
def slot(pair: Pair) -> str:
    """Make tables, and a slot."""
    for database in (SOURCE, OURS):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *TABLES)
    pair.run(OURS, *CHECKS)
    pair.run(SOURCE, "DROP PUBLICATION IF EXISTS p")
    pair.run(SOURCE, "CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)")
    return pair.slots()[1]


def applied(pair: Pair, slot: str, **options: Any) -> list[str]:
    """Apply all that there is, in one session; return what is said, without the counts that lines begin with."""
    lines: list[str] = []
    worker = ApplyWorker(pair.request(slot, "p", **options), lambda _: None, lines.append)
    worker.run()
    assert worker.counts.sessions == 1
    return lines


@pytest.mark.parametrize("batches", [True, False])
def test_rows_that_are_refused_one_after_the_other(pair: Pair, slot: str, batches: bool) -> None:
    pair.run(SOURCE, *(f"INSERT INTO s.t VALUES ({at}, '{'ok' if at % 4 == 0 else 'bad'}')" for at in range(40)))
    rows = ", ".join(f"({at}, '{'ok' if at % 400 == 0 else 'bad'}')" for at in range(0, 2000, 100))
    pair.run(SOURCE, f"BEGIN; INSERT INTO s.t VALUES (100, 'ok'); INSERT INTO s.parts VALUES {rows}; COMMIT")
    pair.run(SOURCE, "BEGIN; INSERT INTO s.t VALUES (101, 'ok'); INSERT INTO s.t VALUES (102, 'bad'); COMMIT")
    refusals = RefusalOptions(enables=True, dead_letters=("s.*",))
    lines = applied(pair, slot, refusals=refusals, batches=batches)
    refused = [("INSERT", str(at), 1) for at in range(40) if at % 4]
    refused += [("INSERT", str(at), 2 + at // 100) for at in range(0, 2000, 100) if at % 400]
    refused += [("INSERT", "102", 2)]
    assert pair.run(OURS, LETTERS.format(slot)) == refused
    assert len([line for line in lines if line.startswith("warning: INSERT")]) == len(refused)
    for table in ("t", "parts"):
        good = f"SELECT id, v FROM s.{table} WHERE v <> 'bad' ORDER BY id"
        assert pair.run(OURS, good) == pair.run(SOURCE, good)


@pytest.mark.parametrize("streaming", ["off", "on"])
def test_rows_of_a_large_transaction(pair: Pair, slot: str, streaming: str) -> None:
    """A row is refused, and several meet conflicts: what is around them is applied together still."""
    pair.run(OURS, "INSERT INTO s.t SELECT g, 'local' FROM generate_series(4000, 4002) g")
    pair.run(
        SOURCE,
        f"BEGIN; INSERT INTO s.t SELECT g, CASE g WHEN 500 THEN 'bad' ELSE 'ok' END FROM generate_series(1, {MANY}) g; "
        "INSERT INTO s.parts VALUES (1, 'bad'), (2, 'ok'); COMMIT",
        "INSERT INTO s.t VALUES (7000, 'later')",
    )
    refusals = RefusalOptions(enables=True, dead_letters=("s.*",))
    lines = applied(pair, slot, refusals=refusals, conflicts=RULES, streaming=streaming)
    assert pair.run(OURS, LETTERS.format(slot)) == [("INSERT", "500", 500), ("INSERT", "1", MANY + 1)]
    assert len([line for line in lines if "conflict detected" in line]) == 3
    wanted = (
        "SELECT id, CASE WHEN id BETWEEN 4000 AND 4002 THEN 'local' ELSE v END FROM s.t WHERE v <> 'bad' ORDER BY 1"
    )
    assert pair.run(OURS, wanted) == pair.run(SOURCE, wanted)
    assert pair.run(OURS, "SELECT * FROM s.parts") == [(2, "ok")]


def test_a_conflict_behind_many_changes_that_are_on_their_way(
    pair: Pair, slot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target has answered what was refused before anything waits for it."""
    monkeypatch.setattr(connection, "MOST_PENDING", 8)
    pair.run(OURS, "INSERT INTO s.t VALUES (10, 'local')")
    pair.run(SOURCE, "INSERT INTO s.t SELECT g, 'remote' FROM generate_series(1, 60) g")
    applied(pair, slot, conflicts=RULES, batches=False)
    assert pair.run(OURS, "SELECT count(*), count(*) FILTER (WHERE v = 'local') FROM s.t") == [(60, 1)]


def test_a_row_that_a_conflict_refuses(pair: Pair, slot: str) -> None:
    """Without a rule a row that is there is an error, which is put aside as any other."""
    pair.run(OURS, "INSERT INTO s.t VALUES (1, 'local'), (3, 'local')")
    pair.run(SOURCE, *(f"INSERT INTO s.t VALUES ({at}, 'remote')" for at in range(1, 6)))
    lines = applied(pair, slot, refusals=RefusalOptions(enables=True, dead_letters=("s.*",)))
    assert pair.run(OURS, LETTERS.format(slot)) == [("INSERT", "1", 1), ("INSERT", "3", 1)]
    assert len([line for line in lines if line.startswith("warning: INSERT")]) == 2
    assert pair.run(OURS, "SELECT count(*) FILTER (WHERE v = 'local'), count(*) FROM s.t") == [(2, 5)]


def test_a_row_that_cannot_be_put_aside_either(pair: Pair, slot: str) -> None:
    """The target's encoding has no such letter: that is an error, rather than tried again and again."""
    pair.run(SOURCE, "INSERT INTO s.t VALUES (1, 'ok')", "INSERT INTO s.t VALUES (2, '\u4e2d')")
    pair.run(SOURCE, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    pair.run("latin", "CREATE SCHEMA s", *TABLES)
    refusals = RefusalOptions(enables=True, dead_letters=("s.*",))
    request = pair.request(slot, "p", refusals=refusals, target=pair.place("latin"))
    with pytest.raises(TargetError, match="has no equivalent in encoding"):
        ApplyWorker(request, lambda _: None).run()
    assert pair.run("latin", "SELECT * FROM s.t") == [(1, "ok")]
