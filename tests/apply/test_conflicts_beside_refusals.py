"""Conflicts in transactions of which something is put aside, or folded: nothing is lost when they are applied again."""

from __future__ import annotations

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.incoming.refusal_options import RefusalOptions
from headwater.apply.worker import ApplyWorker

TABLES = ("CREATE TABLE s.a (id int PRIMARY KEY, v text)", "CREATE TABLE s.q (id int PRIMARY KEY, v text)")
CHECK = "ALTER TABLE s.q ADD CONSTRAINT small CHECK (id < 100)"
MANY = "INSERT INTO s.a SELECT g, 'many' FROM generate_series({0}, {0} + 400) g"
TIMES = "SELECT count(DISTINCT pg_xact_commit_timestamp(xmin)) FROM s.a"
LETTERS = "SELECT kind, new_tuple ->> 'id' FROM headwater.dead_letters ORDER BY id"


def _run(pair: Pair, slot: str, **refusals: object) -> None:
    rules = ConflictRules.parse(["s.a:insert_exists=apply_remote", "s.a:update_missing=apply_remote"], log="table")
    options = RefusalOptions(enables=True, **refusals)  # type: ignore[arg-type]
    ApplyWorker(pair.request(slot, "p", conflicts=rules, refusals=options), lambda _: None, lambda _: None).run()


@pytest.mark.parametrize("tracks", ["on", "off"])
def test_what_is_kept_of_a_paused_table(tracks: str) -> None:
    with pair_of(18, track_commit_timestamp=tracks) as pair:
        for database in (SOURCE, OURS):
            pair.run(database, "CREATE SCHEMA s", *TABLES)
        pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLES IN SCHEMA s")
        _, slot = pair.slots()
        pair.run(OURS, CHECK, "INSERT INTO s.a VALUES (10, 'own'), (20, 'own'), (5000, 'own')")
        pair.run(SOURCE, "INSERT INTO s.q VALUES (500, 'refused')")
        _run(pair, slot, pauses=True)
        pair.run(
            SOURCE,
            "BEGIN; INSERT INTO s.q VALUES (1, 'x'); INSERT INTO s.a VALUES (10, 'new'); "
            "INSERT INTO s.q VALUES (2, 'x'); "
            "INSERT INTO s.a VALUES (11, 'new'); UPDATE s.q SET v = 'y' WHERE id = 1; COMMIT",
            f"BEGIN; {MANY.format(1000)}; INSERT INTO s.q VALUES (3, 'x'); INSERT INTO s.a VALUES (20, 'new'); "
            f"{MANY.format(2000)}; UPDATE s.a SET v = 'last' WHERE id = 1000; COMMIT",
            f"BEGIN; {MANY.format(4800)}; INSERT INTO s.q VALUES (4, 'x'); COMMIT",
        )
        _run(pair, slot, pauses=True)
        assert pair.rows(OURS)["s.a"] == pair.rows(SOURCE)["s.a"]
        assert pair.rows(OURS)["s.q"] == []
        letters = [
            ("INSERT", "500"),
            ("INSERT", "1"),
            ("INSERT", "2"),
            ("UPDATE", "1"),
            ("INSERT", "3"),
            ("INSERT", "4"),
        ]
        assert pair.run(OURS, LETTERS) == letters
        met = "SELECT kind, count(*) FROM headwater.conflicts GROUP BY kind"
        assert pair.run(OURS, met) == [("insert_exists", 3)]
        pair.run(OURS, "ALTER TABLE s.q DROP CONSTRAINT small")
        _run(pair, slot, resumes=("*.*",))
        assert pair.rows(OURS) == pair.rows(SOURCE)
        assert pair.run(OURS, LETTERS) == []


@pytest.mark.parametrize(("rule", "is_of_times"), [("apply_remote", False), ("last_update_wins", True)])
def test_commit_times_that_decide(rule: str, is_of_times: bool) -> None:
    """Where they do, each transaction has its own; others are applied as one."""
    with pair_of(16, track_commit_timestamp="on") as pair:
        for database in (SOURCE, OURS):
            pair.run(database, "CREATE SCHEMA s", *TABLES)
        pair.run(SOURCE, "CREATE PUBLICATION p FOR ALL TABLES")
        _, slot = pair.slots()
        rules = ConflictRules.parse([f"insert_exists={rule}"])
        pair.run(SOURCE, "INSERT INTO s.a VALUES (0)", *(f"INSERT INTO s.a VALUES (-{n}, 'more')" for n in range(1, 5)))
        ApplyWorker(pair.request(slot, "p", conflicts=rules), lambda _: None).run()
        pair.run(OURS, "TRUNCATE s.a")
        pair.run(SOURCE, *(MANY.format(1000 * n) for n in range(1, 6)))
        ApplyWorker(pair.request(slot, "p", conflicts=rules), lambda _: None).run()
        ((times,),) = pair.run(OURS, TIMES)
        assert (times == 5) == is_of_times
