"""Conflicts of transactions that are not at hand any more, or came before their end; and in partitions."""

from __future__ import annotations

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.serial import sent_transactions
from headwater.apply.worker import ApplyWorker

pytestmark = pytest.mark.server

PARTS = (
    "CREATE TABLE s.parts (id int, v text, PRIMARY KEY (id)) PARTITION BY HASH (id)",
    "CREATE TABLE s.parts_0 PARTITION OF s.parts FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE s.parts_1 (v text, id int NOT NULL)",
    "ALTER TABLE s.parts ATTACH PARTITION s.parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
)
TABLE = "CREATE TABLE s.t (id int PRIMARY KEY, v text)"
RULES = ConflictRules.parse(
    ["insert_exists=keep_local", "update_missing=apply_remote", "s.parts:insert_exists=apply_remote"]
)
LARGE = (
    "BEGIN; INSERT INTO s.t SELECT g, repeat('long', 20) FROM generate_series(1, 3000) g; "
    "UPDATE s.t SET v = 'again' WHERE id % 1000 = 0; DELETE FROM s.t WHERE id % 1000 = 1; "
    "INSERT INTO s.parts SELECT g, 'remote' FROM generate_series(1, 8) g; COMMIT"
)


@pytest.mark.parametrize(
    ("streaming", "most"),
    [
        ("off", 10_000),
        ("parallel", sent_transactions.MOST_BYTES),
        pytest.param("off", sent_transactions.MOST_BYTES, marks=pytest.mark.slow),
        pytest.param("parallel", 10_000, marks=pytest.mark.slow),
    ],
)
def test_large_transactions(monkeypatch: pytest.MonkeyPatch, streaming: str, most: int) -> None:
    monkeypatch.setattr(sent_transactions, "MOST_BYTES", most)
    with pair_of(18, logical_decoding_work_mem="64kB", track_commit_timestamp="on") as pair:
        for database in (SOURCE, OURS):
            pair.run(database, "CREATE SCHEMA s", TABLE, *PARTS)
        pair.run(SOURCE, "CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)")
        _, slot = pair.slots()
        pair.run(OURS, "INSERT INTO s.t SELECT g, 'local' FROM generate_series(100, 102) g")
        pair.run(OURS, "INSERT INTO s.parts VALUES (3, 'local'), (4, 'local')")
        pair.run(SOURCE, LARGE, "INSERT INTO s.t VALUES (5000, 'later')")
        lines = apply(pair, slot, streaming)
        wanted = "CASE WHEN id BETWEEN 100 AND 102 THEN 'local' ELSE v END"
        query = "SELECT id, {} FROM s.t ORDER BY id"
        assert pair.run(OURS, query.format("v")) == pair.run(SOURCE, query.format(wanted))
        rows = "SELECT id, v FROM s.parts ORDER BY id"
        assert pair.run(OURS, rows) == pair.run(SOURCE, rows)
        names = [line.split('"')[1] for line in lines if "conflict detected" in line]
        assert names[:3] == ["s.t"] * 3
        leaves = pair.run(OURS, "SELECT tableoid::regclass::text FROM s.parts WHERE id IN (3, 4) ORDER BY id")
        assert names[3:] == [leaf for (leaf,) in leaves]


def apply(pair: Pair, slot: str, streaming: str) -> list[str]:
    """Apply all that there is; return what is told."""
    lines: list[str] = []
    request = pair.request(slot, "p", streaming=streaming, conflicts=RULES)
    ApplyWorker(request, lambda _: None, lines.append).run()
    return lines
