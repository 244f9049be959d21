"""Rules where the log itself is the source: the rows that a publication with filters and lists would give."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.sync_runs import RUN_SECONDS
from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from forked_commands import MAIN, run_forked
from headwater.pg.lsn import Lsn
from serving.service import backup_of

pytestmark = pytest.mark.server

TABLES = (
    "CREATE SCHEMA s",
    "CREATE TABLE s.t (id int PRIMARY KEY, n int, note text)",
    "CREATE TABLE s.whole (a int, b text)",
    "CREATE TABLE s.out (id int PRIMARY KEY)",
)
TARGET = ("CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY, note text)", "CREATE TABLE s.other (c int, b text)")
RULES = (
    *("--exclude-column", "s.t.n", "--where", "s.t: id % 2 = 0", "--rename", "s.whole=s.other"),
    *("--rename", "s.whole.a=c", "--exclude-table", "s.o*", "--mask", "s.t.note=keep-last:1"),
    *("--where", "s.whole: b <> 'y' OR b IS NULL"),
)


def _work(pair: Pair, number: int) -> None:
    pair.run(
        SOURCE,
        f"INSERT INTO s.t SELECT g, g, 'note' || g FROM generate_series({number * 100}, {number * 100 + 60}) g",
        f"UPDATE s.t SET n = n + {number}, note = note || 'x' WHERE id % 3 = 0",
        f"UPDATE s.t SET id = id + 1001 WHERE id % 7 = {number}",
        "DELETE FROM s.t WHERE id % 9 = 0",
        f"INSERT INTO s.whole VALUES ({number}, NULL), ({number}, 'y')",
        f"UPDATE s.whole SET b = 'z' WHERE a = {number - 1}",
        f"INSERT INTO s.out VALUES ({number})",
    )


EXPECTED = {
    "s.t": "SELECT (id, repeat('*', length(note) - 1) || right(note, 1))::text FROM s.t WHERE id % 2 = 0 ORDER BY 1",
    "s.other": "SELECT x::text FROM s.whole x WHERE b <> 'y' OR b IS NULL ORDER BY 1",
}


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_rows(tmp_path: Path, rounds: int) -> None:
    with pair_of(16) as pair:
        pair.run(SOURCE, *TABLES, "ALTER TABLE s.whole REPLICA IDENTITY FULL")
        pair.run(OURS, *TARGET)
        pair.run(SOURCE, "CREATE PUBLICATION p FOR TABLES IN SCHEMA s")
        backup = backup_of(pair.server, tmp_path / "backup")
        command = [*MAIN, "apply", "--wal", str(pair.server.wal_directory)]
        command += ["--catalog", str(backup), "--database", SOURCE, "--slots", str(tmp_path / "slots")]
        command += ["--to", pair.place(OURS), "--publication", "p", "--disable-on-error", "--no-copy-data"]
        for number in range(1, rounds + 1):
            _work(pair, number)
            end = ["--end", str(Lsn(pair.end()))]
            # The next record lets it see that all before is there.
            pair.run(SOURCE, "SELECT pg_log_standby_snapshot()")
            ended = run_forked([*command, *RULES, "--delay", "1s", *end], RUN_SECONDS)
            assert ended.returncode == 0, ended.stderr
            rows = pair.rows(OURS)
            for table, query in EXPECTED.items():
                assert rows[table] == [text for (text,) in pair.run(SOURCE, query)]
                assert rows[table]
        if rounds > 1:
            refused = run_forked([*command, "--rename", "s.none=s.t"], RUN_SECONDS)
            assert (refused.returncode, 'table "s.none" is not published' in refused.stderr) == (2, True)
