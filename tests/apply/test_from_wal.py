"""The WAL itself as source: applied over several runs, and as it grows, with no slot on the server."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from apply.sync_runs import RUN_SECONDS
from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from forked_commands import MAIN, ForkedCommand, run_forked
from headwater.apply.incoming import wal_source
from headwater.cli.apply import apply_command
from headwater.cli.shared_flags import EngineFlags
from headwater.pg.lsn import Lsn
from serving.service import backup_of, wait_until

TABLES = (
    "CREATE SCHEMA s",
    "CREATE TABLE s.t (id int PRIMARY KEY, n int, note text)",
    "CREATE TABLE s.whole (a int, b text)",
)


def _work(pair: Pair, number: int) -> None:
    pair.run(
        SOURCE,
        f"INSERT INTO s.t SELECT g, g, repeat('x', 3000) FROM generate_series({number * 100}, {number * 100 + 60}) g",
        f"UPDATE s.t SET n = n + {number}",
        "DELETE FROM s.t WHERE id % 9 = 0",
        f"INSERT INTO s.whole VALUES ({number}, NULL), ({number}, 'y')",
        f"UPDATE s.whole SET b = 'z' WHERE a = {number - 1}",
        "BEGIN; INSERT INTO s.t VALUES (0); ROLLBACK",
    )


def test_the_same_rows(tmp_path: Path) -> None:
    with pair_of(16) as pair:
        for database in (SOURCE, OURS):
            pair.run(database, *TABLES)
        pair.run(SOURCE, "ALTER TABLE s.whole REPLICA IDENTITY FULL", "CREATE PUBLICATION p FOR TABLES IN SCHEMA s")
        backup = backup_of(pair.server, tmp_path / "backup")
        command = [*MAIN, "apply", "--wal", str(pair.server.wal_directory)]
        command += ["--catalog", str(backup), "--database", SOURCE, "--slots", str(tmp_path / "slots")]
        command += ["--to", pair.place(OURS), "--publication", "p", "--disable-on-error", "--no-copy-data"]
        for number in (1, 2):
            _work(pair, number)
            end = ["--end", str(Lsn(pair.end()))]
            # The next record lets it see that all before is there.
            pair.run(SOURCE, "SELECT pg_log_standby_snapshot()")
            # The second time all is there already.
            for _ in range(2):
                ended = run_forked([*command, *end], RUN_SECONDS)
                assert ended.returncode == 0, ended.stderr
            assert pair.rows(OURS) == pair.rows(SOURCE)
        running = ForkedCommand(command)
        try:
            for number in (3, 4):
                _work(pair, number)
                wait_until(lambda: pair.rows(OURS) == pair.rows(SOURCE))
        finally:
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 0
        assert pair.run(SOURCE, "SELECT count(*) FROM pg_replication_slots") == [(0,)]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """What an engine decodes, in several stretches, is followed by what comes as the log grows."""
    monkeypatch.setattr(EngineFlags, "bulk_bytes", 1 << 16)
    monkeypatch.setattr(wal_source, "PASS_BYTES", 1 << 18)
    with pair_of(18) as pair:
        for database in (SOURCE, OURS):
            pair.run(database, *TABLES)
        pair.run(SOURCE, "ALTER TABLE s.whole REPLICA IDENTITY FULL", "CREATE PUBLICATION p FOR TABLES IN SCHEMA s")
        backup = backup_of(pair.server, tmp_path / "backup")
        command = ["--wal", str(pair.server.wal_directory), "--catalog", str(backup), "--database", SOURCE]
        command += ["--slots", str(tmp_path / "slots"), "--to", pair.place(OURS), "--publication", "p"]
        command += ["--engine", engine, "--disable-on-error", "--no-copy-data"]
        for first in (1, 9):
            for number in range(first, first + 8):
                _work(pair, number)
            end = pair.end()
            pair.run(SOURCE, "SELECT pg_log_standby_snapshot()")
            result = CliRunner().invoke(apply_command, [*command, "--end", str(Lsn(end))])
            assert (result.exit_code, result.output) == (0, "")
            assert pair.rows(OURS) == pair.rows(SOURCE)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--no-copy-data", "--from", "host=x"), "--from and --wal are two sources"),
    ],
)
def test_flags_that_wal_has_no_use_for(tmp_path: Path, flags: tuple[str, ...], text: str) -> None:
    command = [*MAIN, "apply", "--wal", str(tmp_path), "--catalog", str(tmp_path)]
    command += ["--slots", str(tmp_path), "--to", "host=x", "--publication", "p", *flags]
    refused = run_forked(command, RUN_SECONDS)
    assert (refused.returncode, text in refused.stderr) == (2, True)
